//! HTTP/1.1 requests in closed loop: one thread runs all connections, each with one request under
//! way.

use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::limits::{CONNECT_LIMIT, READ_BYTES, SILENCE_LIMIT};
use crate::measure::meter::Tally;
use crate::measure::stats::Phase;
use crate::servers::process::thread_cpu_ns;
use crate::servers::target::Target;

/// The most bytes of an answer. This workload asks for nothing larger.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The header field with the length of the body.
const LENGTH: &str = "Content-Length";

/// The bytes of a request that reads a path.
pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: bench\r\n\r\n").into_bytes()
}

/// The bytes of a request that sets the key at a path, by a form.
pub fn put(path: &str, value: &str) -> Vec<u8> {
    let length = "value=".len() + value.len();
    format!(
        "PUT {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {length}\r\n\r\nvalue={value}"
    )
    .into_bytes()
}

/// Sends one request on a new connection. Returns the status (2xx) and the body of the answer.
///
/// # Errors
/// No answer can be read, or its status is not 2xx.
pub fn ask(address: SocketAddr, request: &[u8]) -> anyhow::Result<(u16, Vec<u8>)> {
    let mut stream = std::net::TcpStream::connect_timeout(&address, CONNECT_LIMIT)?;
    stream.set_read_timeout(Some(SILENCE_LIMIT))?;
    stream.write_all(request)?;
    let mut bytes = Vec::new();
    loop {
        if let Some(answer) = Head::of(&bytes)?
            && bytes.len() >= answer.bytes
        {
            ensure!((200..300).contains(&answer.status), "{address}: status {}", answer.status);
            return Ok((answer.status, bytes[answer.body_at..answer.bytes].to_vec()));
        }
        let mut part = [0; 4096];
        let count = stream.read(&mut part)?;
        ensure!(count > 0, "{address}: the connection ended before the answer");
        bytes.extend_from_slice(&part[..count]);
    }
}

/// The head of an answer: its status, and where its body starts and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    body_at: usize,
    /// Bytes of the whole answer, its head included.
    bytes: usize,
}

impl Head {
    /// Reads the head at the beginning of `bytes`; `None` if it has not arrived whole.
    ///
    /// # Errors
    /// The bytes are no head, or the head does not say how long the body is.
    fn of(bytes: &[u8]) -> anyhow::Result<Option<Head>> {
        let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
            ensure!(bytes.len() < ANSWER_BYTES_MAX, "the head of an answer does not end");
            return Ok(None);
        };
        let text = core::str::from_utf8(&bytes[..end]).context("a head is no text")?;
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok());
        let fields = lines.filter_map(|line| line.split_once(':'));
        let length = fields.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(LENGTH));
        let length = length.and_then(|(_, value)| value.trim().parse::<usize>().ok());
        let (Some(status), Some(length)) = (status, length) else {
            bail!("an answer has no status or no length: {text}");
        };
        let body_at = end + 4;
        ensure!(length < ANSWER_BYTES_MAX, "an answer has {length} bytes");
        Ok(Some(Head { status, body_at, bytes: body_at + length }))
    }
}

/// The connections of all clients, driven by the calling thread.
pub struct Load {
    poll: Poll,
    connections: Vec<Connection>,
}

struct Connection {
    stream: TcpStream,
    /// How many bytes of the current request were written.
    written: usize,
    sent_ns: u64,
    answer: Vec<u8>,
    is_under_way: bool,
}

impl Load {
    /// Opens `count` connections, one for each client, spread evenly over the addresses.
    ///
    /// # Errors
    /// A server does not answer.
    pub fn connect(addresses: &[SocketAddr], count: usize) -> anyhow::Result<Load> {
        let poll = Poll::new()?;
        let mut connections = Vec::new();
        for (number, address) in addresses.iter().cycle().take(count).enumerate() {
            let stream = std::net::TcpStream::connect_timeout(address, CONNECT_LIMIT)
                .with_context(|| address.to_string())?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut stream = TcpStream::from_std(stream);
            let interest = Interest::READABLE | Interest::WRITABLE;
            poll.registry().register(&mut stream, Token(number), interest)?;
            let (answer, is_under_way) = (Vec::new(), false);
            connections.push(Connection { stream, written: 0, sent_ns: 0, answer, is_under_way });
        }
        Ok(Load { poll, connections })
    }

    /// On each connection sends `request`, again after each answer, until `time` is over. Then
    /// waits for the last answers.
    ///
    /// # Errors
    /// A connection breaks, a server stays silent, or an answer cannot be read.
    pub fn run(
        &mut self,
        target: &Target,
        request: &[u8],
        time: Duration,
    ) -> anyhow::Result<Phase> {
        let (server_cpu_ns, own_cpu_ns) = (target.cpu_ns(), thread_cpu_ns());
        let started = Instant::now();
        let now_ns = || started.elapsed().as_nanos() as u64;
        let end_ns = time.as_nanos() as u64;
        let (mut tally, mut events) = (Tally::default(), Events::with_capacity(1_024));
        let mut part = vec![0; READ_BYTES];
        let mut under_way = self.connections.len();
        for connection in &mut self.connections {
            connection.send(request, now_ns())?;
        }
        while under_way > 0 {
            match self.poll.poll(&mut events, Some(SILENCE_LIMIT)) {
                // The poll was interrupted because the process was stopped and resumed.
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            ensure!(!events.is_empty(), "no answer for {} s", SILENCE_LIMIT.as_secs());
            for event in &events {
                let connection = &mut self.connections[event.token().0];
                connection.write(request)?;
                let Some(status) = connection.read(&mut part)? else { continue };
                let at_ns = now_ns();
                // An error may come at once, so its latency must not count.
                match (200..300).contains(&status) {
                    true => tally.count(true, at_ns - connection.sent_ns),
                    false => tally.errors += 1,
                }
                if at_ns < end_ns {
                    connection.send(request, at_ns)?;
                } else {
                    connection.is_under_way = false;
                    under_way -= 1;
                }
            }
        }
        let elapsed_ns = now_ns();
        let server_cpu_ns = target.cpu_ns().zip(server_cpu_ns);
        Ok(Phase {
            name: "requests",
            operations: tally.answered,
            elapsed_ns,
            latencies: tally.latencies,
            server_cpu_ns: server_cpu_ns.map(|(after, before)| after.saturating_sub(before)),
            own_cpu_ns: thread_cpu_ns() - own_cpu_ns,
            errors: tally.errors,
            ..Phase::default()
        })
    }
}

impl Connection {
    /// Starts the next request.
    fn send(&mut self, request: &[u8], now_ns: u64) -> anyhow::Result<()> {
        (self.written, self.sent_ns, self.is_under_way) = (0, now_ns, true);
        self.write(request)
    }

    /// Writes the rest of the request, as far as the socket takes it.
    fn write(&mut self, request: &[u8]) -> anyhow::Result<()> {
        while self.is_under_way && self.written < request.len() {
            match self.stream.write(&request[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Reads what has arrived. Returns the status once the answer is whole.
    fn read(&mut self, part: &mut [u8]) -> anyhow::Result<Option<u16>> {
        if !self.is_under_way {
            return Ok(None);
        }
        loop {
            match self.stream.read(part) {
                Ok(0) => bail!("the server ended a connection"),
                Ok(count) => self.answer.extend_from_slice(&part[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error.into()),
            }
            if let Some(head) = Head::of(&self.answer)?
                && self.answer.len() >= head.bytes
            {
                ensure!(self.answer.len() == head.bytes, "bytes follow an answer");
                self.answer.clear();
                return Ok(Some(head.status));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_as_long_as_its_head_says() {
        let answer = b"HTTP/1.1 201 Created\r\ncontent-Length: 3\r\n\r\nabc";
        let head = Head::of(answer).unwrap().unwrap();
        assert_eq!((head.status, &answer[head.body_at..head.bytes]), (201, b"abc".as_slice()));
        assert_eq!(Head::of(&answer[..30]).unwrap(), None);
        for bad in ["HTTP/1.1 200 OK\r\n\r\n", "x\r\nContent-Length: 1\r\n\r\n"] {
            assert!(Head::of(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    #[test]
    fn requests_have_their_form() {
        assert!(get("/a").ends_with(b"\r\n\r\n"));
        let put = String::from_utf8(put("/a", "xy")).unwrap();
        assert!(put.contains("Content-Length: 8\r\n") && put.ends_with("\r\n\r\nvalue=xy"));
    }
}

//! The client side of one ZooKeeper session: it turns requests into bytes and received bytes into
//! answers. It has no socket and no clock; its caller moves the bytes and passes the time.
//!
//! A server answers the requests of a session in the order in which they were sent (ZooKeeper
//! guarantees this), so the requests under way form a queue.

use std::collections::VecDeque;

use thiserror::Error;
use zk::frame::{self, FrameTooLarge};
use zk::request::{ConnectRequest, Request, XID_EVENT, XID_PING};
use zk::response::{ConnectResponse, ReplyHeader};
use zk::{JuteError, JuteReader};

/// Why a session or its connection ended.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SessionError {
    /// The server did not grant the session, or has expired it.
    #[error("the session is refused or expired")]
    Refused,
    /// The server sent bytes that are not ZooKeeper's protocol.
    #[error("the answer is not ZooKeeper's: {0}")]
    Undecodable(#[from] JuteError),
    /// The reply is not to the oldest request under way.
    #[error("the reply has xid {got}, and {wanted} was expected")]
    OutOfOrder {
        /// The xid in the reply.
        got: i32,
        /// The xid of the oldest request under way.
        wanted: i32,
    },
    /// A frame is larger than any that a server sends.
    #[error(transparent)]
    FrameTooLarge(#[from] FrameTooLarge),
    /// The connection ended.
    #[error("the connection ended: {0}")]
    Lost(String),
}

/// Something that the server sent.
#[derive(Debug)]
pub enum Incoming<'a> {
    /// The server has opened the session.
    Connected,
    /// The answer to the oldest request under way.
    Reply {
        /// The time at which the request's latency begins, as passed to [`Session::send`].
        since_ns: u64,
        /// The header of the reply.
        header: ReplyHeader,
        /// The bytes after the header.
        body: JuteReader<'a>,
    },
    /// A watch fired.
    Event {
        /// The kind of the event, a number of `Watcher.Event.EventType`.
        kind: i32,
        /// The path of the znode.
        path: &'a str,
    },
    /// The answer to a ping.
    Pong,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    xid: i32,
    since_ns: u64,
}

/// A session on its current connection.
#[derive(Debug)]
pub struct Session {
    is_open: bool,
    timeout_ms: i32,
    /// The session id that the server gave. A later connection asks for it again.
    id: i64,
    password: Vec<u8>,
    /// The highest zxid of any reply. A server that has not reached it refuses the session.
    zxid: i64,
    last_xid: i32,
    under_way: VecDeque<Sent>,
    /// Received bytes; those before `input_start` were already taken.
    input: Vec<u8>,
    input_start: usize,
    /// Encoded requests; those before `output_start` were already written.
    output: Vec<u8>,
    output_start: usize,
}

impl Session {
    /// A session that asks its first server to create it.
    pub fn connect(timeout_ms: i32) -> Session {
        let mut output = Vec::new();
        ConnectRequest::new(timeout_ms).encode(&mut output);
        Session {
            is_open: false,
            timeout_ms,
            id: 0,
            password: vec![0; 16],
            zxid: 0,
            last_xid: 0,
            under_way: VecDeque::new(),
            input: Vec::new(),
            input_start: 0,
            output,
            output_start: 0,
        }
    }

    /// Asks for this session on a new connection, as the Java client does
    /// (`ClientCnxn.SendThread.primeConnection`). Forgets the requests under way; each may have
    /// been executed or not.
    pub fn reconnect(&mut self) {
        self.is_open = false;
        self.under_way.clear();
        self.input.clear();
        self.input_start = 0;
        self.output.clear();
        self.output_start = 0;
        let request = ConnectRequest {
            last_zxid_seen: self.zxid,
            session: self.id,
            password: self.password.clone(),
            ..ConnectRequest::new(self.timeout_ms)
        };
        request.encode(&mut self.output);
    }

    /// Whether the server of the current connection has opened the session.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// The timeout that the server granted, or before that the one asked for, ms.
    pub fn timeout_ms(&self) -> i32 {
        self.timeout_ms
    }

    /// The number of requests without an answer. Pings do not count.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Queues a request. Its latency counts from `since_ns`.
    pub fn send(&mut self, request: &Request<'_>, since_ns: u64) {
        self.last_xid = self.last_xid.checked_add(1).unwrap_or(1);
        request.encode(self.last_xid, &mut self.output);
        self.under_way.push_back(Sent { xid: self.last_xid, since_ns });
    }

    /// For each request under way, oldest first, the time at which its latency begins.
    #[cfg(test)]
    pub fn since_ns(&self) -> Vec<u64> {
        self.under_way.iter().map(|sent| sent.since_ns).collect()
    }

    /// Queues a ping.
    pub fn ping(&mut self) {
        Request::Ping.encode(XID_PING, &mut self.output);
    }

    /// The bytes that are still to be written.
    pub fn output(&self) -> &[u8] {
        &self.output[self.output_start..]
    }

    /// Notes that the socket has taken `count` bytes of [`Session::output`].
    pub fn on_written(&mut self, count: usize) {
        self.output_start += count;
        assert!(self.output_start <= self.output.len());
        if self.output_start == self.output.len() {
            self.output.clear();
            self.output_start = 0;
        }
    }

    /// The buffer for received bytes. Append them at its end.
    pub fn input(&mut self) -> &mut Vec<u8> {
        if self.input_start == self.input.len() {
            self.input.clear();
        } else {
            self.input.drain(..self.input_start);
        }
        self.input_start = 0;
        &mut self.input
    }

    /// Takes the next whole frame out of the received bytes; `None` if there is none yet.
    ///
    /// # Errors
    /// The session cannot go on.
    pub fn take(&mut self) -> Result<Option<Incoming<'_>>, SessionError> {
        let rest = &self.input[self.input_start..];
        let Some((frame, _)) = frame::split(rest)? else { return Ok(None) };
        self.input_start += frame::LENGTH_BYTES + frame.len();
        if !self.is_open {
            let response = ConnectResponse::decode(frame)?;
            if response.timeout_ms <= 0 {
                return Err(SessionError::Refused);
            }
            self.is_open = true;
            self.timeout_ms = response.timeout_ms;
            self.id = response.session;
            self.password = response.password.to_vec();
            return Ok(Some(Incoming::Connected));
        }
        let mut body = JuteReader::new(frame);
        let header = ReplyHeader::decode(&mut body)?;
        match header.xid {
            XID_EVENT => {
                let kind = body.int()?;
                body.int()?;
                Ok(Some(Incoming::Event { kind, path: body.text()? }))
            }
            XID_PING => Ok(Some(Incoming::Pong)),
            got => match self.under_way.pop_front() {
                Some(Sent { xid, since_ns }) if xid == got => {
                    self.zxid = self.zxid.max(header.zxid);
                    Ok(Some(Incoming::Reply { since_ns, header, body }))
                }
                other => {
                    let wanted = other.map_or(0, |sent| sent.xid);
                    Err(SessionError::OutOfOrder { got, wanted })
                }
            },
        }
    }
}

#[cfg(test)]
mod tests;

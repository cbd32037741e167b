//! A small blocking ZooKeeper client: one connection, one request at a time.
//!
//! A thread of its own reads: replies go to the caller who waits, watch events to the function
//! given at the start. Another thread pings while nobody asks, so that a prompt that waits does not
//! lose its session. Both end with the connection.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thiserror::Error;
use zk::request::{ConnectRequest, Request, XID_AUTH, XID_EVENT, XID_PING};
use zk::response::{ConnectResponse, ReplyHeader};
use zk::{ErrorCode, JuteError, JuteReader};

/// How long one server may take to accept a connection before the next is tried.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Bytes of a frame from a server: replies have no limit in ZooKeeper; this is a guard against
/// something that is no ZooKeeper server.
const FRAME_BYTES_MAX: u32 = 256 * 1024 * 1024;

/// Why a request has no answer.
#[derive(Debug, Error)]
pub enum ClientError {
    /// None of the servers answers; the reason of the last one.
    #[error("cannot connect to {servers}: {reason}")]
    Unreachable {
        /// As they were given.
        servers: String,
        /// What went wrong.
        reason: String,
    },
    /// The connection ended. A write that was under way may have taken effect.
    #[error("the connection to {0} is lost; a change that was under way may have been made")]
    Lost(String),
    /// The server does not answer. A write may still take effect.
    #[error("no answer from {0}; a change that was asked for may still be made")]
    Silent(String),
    /// The server refused.
    #[error("{}", refusal(*.0))]
    Refused(ErrorCode),
    /// The answer is not what the protocol says.
    #[error("an answer that is not ZooKeeper's: {0}")]
    Undecodable(#[from] JuteError),
}

/// A code's name, with the number where there is no name.
fn refusal(code: ErrorCode) -> String {
    match code.name() {
        "unknown error" => format!("error {}", code.0),
        name => name.to_string(),
    }
}

/// A watch that fired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The number of its type (`Watcher.Event.EventType`).
    pub kind: i32,
    /// Of the znode.
    pub path: String,
}

/// What the client is to ask a server for.
#[derive(Clone, Debug)]
pub struct Target {
    /// `host:port`, several separated by commas.
    pub servers: String,
    /// Of the session.
    pub timeout_ms: u32,
}

/// A session on one connection. Dropping it closes the connection.
pub struct Client {
    target: Target,
    server: String,
    writer: Arc<Mutex<TcpStream>>,
    replies: Receiver<Vec<u8>>,
    /// Ends the thread that pings when it is dropped.
    _alive: SyncSender<()>,
    session: i64,
    next_xid: i32,
}

impl Client {
    /// Opens a session on the first server that answers. Events go to `on_event`, called on a
    /// thread of the client.
    pub fn connect(
        target: &Target,
        on_event: impl Fn(Event) + Send + 'static,
    ) -> Result<Client, ClientError> {
        let mut reason = "no server is named".to_string();
        for server in target.servers.split(',').filter(|server| !server.is_empty()) {
            match open(server).and_then(|stream| greet(stream, target.timeout_ms)) {
                Ok((stream, response)) => {
                    return Client::start(target, server, stream, &response, on_event)
                        .map_err(|error| unreachable_server(target, &error.to_string()));
                }
                Err(error) => reason = error.to_string(),
            }
        }
        Err(unreachable_server(target, &reason))
    }

    fn start(
        target: &Target,
        server: &str,
        stream: TcpStream,
        response: &ConnectResponse,
        on_event: impl Fn(Event) + Send + 'static,
    ) -> std::io::Result<Client> {
        let reading = stream.try_clone()?;
        let writer = Arc::new(Mutex::new(stream));
        // One request at a time, so one reply.
        let (reply_sender, replies) = sync_channel(1);
        std::thread::Builder::new()
            .name("zk-read".to_string())
            .spawn(move || read_frames(reading, &reply_sender, on_event))?;
        let (alive, ended) = sync_channel(1);
        let pinging = writer.clone();
        let interval = Duration::from_millis(u64::from(response.timeout_ms.unsigned_abs()) / 3);
        std::thread::Builder::new()
            .name("zk-ping".to_string())
            .spawn(move || ping(&pinging, &ended, interval))?;
        Ok(Client {
            target: target.clone(),
            server: server.to_string(),
            writer,
            replies,
            _alive: alive,
            session: response.session,
            next_xid: 1,
        })
    }

    /// The server it is connected to.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The id of its session.
    pub fn session(&self) -> i64 {
        self.session
    }

    /// Whether the connection ended. Only between requests.
    pub fn is_lost(&self) -> bool {
        matches!(self.replies.try_recv(), Err(TryRecvError::Disconnected))
    }

    /// Asks and waits; `decode` reads the body of a good answer.
    pub fn call<T>(
        &mut self,
        request: &Request<'_>,
        decode: impl FnOnce(&mut JuteReader<'_>) -> Result<T, JuteError>,
    ) -> Result<T, ClientError> {
        let xid = match request {
            Request::Auth { .. } => XID_AUTH,
            _ => {
                self.next_xid = self.next_xid.checked_add(1).unwrap_or(1);
                self.next_xid
            }
        };
        let mut bytes = Vec::new();
        request.encode(xid, &mut bytes);
        let written = lock(&self.writer).write_all(&bytes);
        written.map_err(|_| ClientError::Lost(self.server.clone()))?;
        let body = self.answer()?;
        let mut reader = JuteReader::new(&body);
        let header = ReplyHeader::decode(&mut reader)?;
        if header.xid != xid {
            return Err(reader.bad("xid").into());
        }
        if header.error != ErrorCode::OK {
            return Err(ClientError::Refused(header.error));
        }
        Ok(decode(&mut reader)?)
    }

    fn answer(&mut self) -> Result<Vec<u8>, ClientError> {
        let limit = Duration::from_millis(u64::from(self.target.timeout_ms));
        self.replies.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Disconnected => ClientError::Lost(self.server.clone()),
            RecvTimeoutError::Timeout => {
                // The answer may come after the next question: it must not be taken for its.
                let _ = lock(&self.writer).shutdown(std::net::Shutdown::Both);
                ClientError::Silent(self.server.clone())
            }
        })
    }

    /// Ends the session: its ephemeral znodes go.
    pub fn close(mut self) {
        // The server ends it in any case, once its time is over.
        let _ = self.call(&Request::CloseSession, |_| Ok(()));
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = lock(&self.writer).shutdown(std::net::Shutdown::Both);
    }
}

fn lock(stream: &Mutex<TcpStream>) -> std::sync::MutexGuard<'_, TcpStream> {
    stream.lock().expect("nothing panics while it writes")
}

fn unreachable_server(target: &Target, reason: &str) -> ClientError {
    ClientError::Unreachable { servers: target.servers.clone(), reason: reason.to_string() }
}

/// Connects to the first address of a server that accepts.
fn open(server: &str) -> std::io::Result<TcpStream> {
    let mut failure = std::io::Error::other("the name has no address");
    for address in server.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_LIMIT) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

/// Asks for a new session.
fn greet(mut stream: TcpStream, timeout_ms: u32) -> std::io::Result<(TcpStream, ConnectResponse)> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(CONNECT_LIMIT))?;
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: 0,
        timeout_ms: i32::try_from(timeout_ms).unwrap_or(i32::MAX),
        session: 0,
        password: vec![0; 16],
        read_only: Some(false),
    };
    let mut bytes = Vec::new();
    request.encode(&mut bytes);
    stream.write_all(&bytes)?;
    let body = read_frame(&mut stream)?;
    let response = ConnectResponse::decode(&body).map_err(std::io::Error::other)?;
    if response.session == 0 {
        return Err(std::io::Error::other("it gives no session"));
    }
    stream.set_read_timeout(None)?;
    Ok((stream, response))
}

fn read_frame(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_be_bytes(length);
    if length > FRAME_BYTES_MAX {
        return Err(std::io::Error::other("it does not speak ZooKeeper's protocol"));
    }
    // Grows as bytes come, so that a wrong length reserves nothing.
    let mut body = Vec::new();
    stream.take(u64::from(length)).read_to_end(&mut body)?;
    if body.len() < length as usize {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(body)
}

/// Passes on what comes, until the connection ends; then the caller who waits learns of it.
fn read_frames(
    mut stream: TcpStream,
    replies: &SyncSender<Vec<u8>>,
    on_event: impl Fn(Event) + Send,
) {
    while let Ok(body) = read_frame(&mut stream) {
        let mut reader = JuteReader::new(&body);
        let Ok(header) = ReplyHeader::decode(&mut reader) else { break };
        match header.xid {
            XID_PING => {}
            XID_EVENT => match decode_event(&mut reader) {
                Ok(event) => on_event(event),
                Err(_) => break,
            },
            _ => {
                if replies.send(body).is_err() {
                    break;
                }
            }
        }
    }
    let _ = stream.shutdown(std::net::Shutdown::Both);
}

fn decode_event(reader: &mut JuteReader<'_>) -> Result<Event, JuteError> {
    let kind = reader.int()?;
    reader.int()?;
    Ok(Event { kind, path: reader.text()?.to_string() })
}

/// Keeps the session alive until the client is dropped or the connection ends.
fn ping(writer: &Mutex<TcpStream>, ended: &Receiver<()>, interval: Duration) {
    let mut bytes = Vec::new();
    Request::Ping.encode(XID_PING, &mut bytes);
    while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        if lock(writer).write_all(&bytes).is_err() {
            return;
        }
    }
}

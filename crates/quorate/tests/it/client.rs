//! A ZooKeeper client for tests, over TCP or TLS. It sends a request and waits for the answer;
//! anything unexpected fails the test.

use std::net::SocketAddr;

use machine::{AclEntry, Stat};
use zk::ErrorCode;
use zk::jute::JuteReader;
use zk::request::{ConnectRequest, CreateKind, ReadKind, ReadRequest, Request, WriteRequest};
use zk::response::{ConnectResponse, ReplyHeader, decode_stat};

use bench::differential::wire::{Connection, Received};

/// The session timeout for tests to which it does not matter.
pub const TIMEOUT_MS: i32 = 30_000;

/// `CreateMode.EPHEMERAL` on the wire.
pub const EPHEMERAL: i32 = 1;
/// `CreateMode.PERSISTENT_SEQUENTIAL` on the wire.
pub const SEQUENTIAL: i32 = 2;

/// A connection that sends bytes and receives frames.
pub trait Wire {
    /// Sends bytes. Errors are not reported: if the server has closed the connection, the next
    /// receive shows it.
    fn send(&mut self, bytes: &[u8]);

    /// Waits for a frame, or for the end of the connection.
    fn receive(&mut self) -> Received;
}

impl Wire for Connection {
    fn send(&mut self, bytes: &[u8]) {
        Connection::send(self, bytes);
    }

    fn receive(&mut self) -> Received {
        Connection::receive(self)
    }
}

/// A client with a session.
#[derive(Debug)]
pub struct Client<W = Connection> {
    pub connection: W,
    pub session: i64,
    pub password: Vec<u8>,
    pub timeout_ms: i32,
    xid: i32,
}

/// The server's answer to a connect request.
#[derive(Debug)]
pub enum Greeted<W = Connection> {
    Attached(Box<Client<W>>),
    /// The session does not exist.
    Refused,
    /// The server closed the connection.
    Ended,
}

/// A reply or an event.
#[derive(Debug)]
pub struct Answer {
    pub header: ReplyHeader,
    pub body: Vec<u8>,
}

impl Answer {
    /// The stat at the end of the body.
    pub fn stat(&self) -> Stat {
        let start = self.body.len() - zk::limits::STAT_BYTES;
        decode_stat(&mut JuteReader::new(&self.body[start..])).unwrap()
    }

    /// The string at the beginning of the body.
    pub fn text(&self) -> String {
        JuteReader::new(&self.body).text().unwrap().to_string()
    }

    /// The buffer at the beginning of the body.
    pub fn data(&self) -> Option<Vec<u8>> {
        JuteReader::new(&self.body).buffer().unwrap().map(<[u8]>::to_vec)
    }

    /// The strings at the beginning of the body.
    pub fn names(&self) -> Vec<String> {
        let texts = JuteReader::new(&self.body).texts().unwrap();
        texts.into_iter().map(str::to_string).collect()
    }
}

impl Client {
    /// Opens a session.
    pub fn open(address: SocketAddr, timeout_ms: i32) -> Client {
        match Client::greet(Connection::open(address).unwrap(), &ConnectRequest::new(timeout_ms)) {
            Greeted::Attached(client) => *client,
            refused => panic!("a new session is not opened: {refused:?}"),
        }
    }

    /// Attaches to `session`, or opens a session if that is 0. `zxid` is the last zxid that the
    /// client claims to have seen. The server may be gone.
    pub fn try_greet(address: SocketAddr, session: i64, password: &[u8], zxid: i64) -> Greeted {
        let request = ConnectRequest {
            last_zxid_seen: zxid,
            session,
            password: password.to_vec(),
            ..ConnectRequest::new(TIMEOUT_MS)
        };
        match Connection::open(address) {
            Ok(connection) => Client::greet(connection, &request),
            Err(_) => Greeted::Ended,
        }
    }
}

impl<W: Wire> Client<W> {
    /// Sends a connect request on a connection, and waits for the answer.
    pub fn greet(mut connection: W, request: &ConnectRequest) -> Greeted<W> {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        connection.send(&bytes);
        let response = match connection.receive() {
            Received::Frame(body) => ConnectResponse::decode(&body).unwrap(),
            Received::End => return Greeted::Ended,
            Received::Silence => panic!("no answer to {request:?}"),
        };
        if response.timeout_ms == 0 {
            return Greeted::Refused;
        }
        let (session, password) = (response.session, response.password.to_vec());
        let timeout_ms = response.timeout_ms;
        Greeted::Attached(Box::new(Client { connection, session, password, timeout_ms, xid: 0 }))
    }

    /// Sends a request and returns its xid.
    pub fn send(&mut self, request: &Request<'_>) -> i32 {
        let mut bytes = Vec::new();
        let xid = self.encode(request, &mut bytes);
        self.connection.send(&bytes);
        xid
    }

    /// Appends a request to `bytes`, for the caller to send, and returns its xid.
    pub fn encode(&mut self, request: &Request<'_>, bytes: &mut Vec<u8>) -> i32 {
        self.xid = if *request == Request::Ping { self.xid } else { self.xid + 1 };
        let ping = *request == Request::Ping;
        let xid = if ping { zk::request::XID_PING } else { self.xid };
        request.encode(xid, bytes);
        xid
    }

    /// The next reply or event; `None` if the connection ended.
    pub fn receive(&mut self) -> Option<Answer> {
        match self.connection.receive() {
            Received::Frame(body) => {
                let mut reader = JuteReader::new(&body);
                let header = ReplyHeader::decode(&mut reader).unwrap();
                let body = body[reader.offset()..].to_vec();
                Some(Answer { header, body })
            }
            Received::End => None,
            Received::Silence => panic!("the server is silent"),
        }
    }

    /// Sends a request and waits for its reply, skipping events. `None` if the connection ended.
    pub fn try_call(&mut self, request: &Request<'_>) -> Option<Answer> {
        let xid = self.send(request);
        loop {
            let answer = self.receive()?;
            if answer.header.xid == xid {
                return Some(answer);
            }
            assert_eq!(answer.header.xid, zk::request::XID_EVENT);
        }
    }

    /// Sends a request and waits for its reply, skipping events.
    pub fn call(&mut self, request: &Request<'_>) -> Answer {
        self.try_call(request).expect("the connection lives")
    }

    /// Creates a znode and returns its path.
    pub fn create(&mut self, path: &str, data: &[u8], flags: i32) -> Result<String, ErrorCode> {
        let answer = self.call(&Request::Write(create(path, data, flags)));
        match answer.header.error {
            ErrorCode::OK => Ok(answer.text()),
            error => Err(error),
        }
    }

    /// Sets the data of a znode, whatever its version.
    pub fn set(&mut self, path: &str, data: &[u8]) -> ErrorCode {
        let write = WriteRequest::SetData { path, data: Some(data), version: -1 };
        self.call(&Request::Write(write)).header.error
    }

    /// Deletes a znode, whatever its version.
    pub fn delete(&mut self, path: &str) -> ErrorCode {
        self.call(&Request::Write(WriteRequest::Delete { path, version: -1 })).header.error
    }

    /// The data of a znode.
    pub fn get(&mut self, path: &str) -> Result<Vec<u8>, ErrorCode> {
        let answer = self.call(&read(ReadKind::GetData, path));
        match answer.header.error {
            ErrorCode::OK => Ok(answer.data().unwrap_or_default()),
            error => Err(error),
        }
    }

    /// Whether a znode exists.
    pub fn exists(&mut self, path: &str) -> bool {
        self.call(&read(ReadKind::Exists, path)).header.error == ErrorCode::OK
    }

    /// Closes the session. False if the connection ended first.
    pub fn close(&mut self) -> bool {
        self.try_call(&Request::CloseSession).is_some()
    }
}

/// The bytes of a connect request for a new session.
pub fn greeting(timeout_ms: i32) -> Vec<u8> {
    let mut bytes = Vec::new();
    ConnectRequest::new(timeout_ms).encode(&mut bytes);
    bytes
}

/// A read request without a watch.
pub fn read(kind: ReadKind, path: &str) -> Request<'_> {
    Request::Read(ReadRequest { kind, path, watch: false })
}

/// A create request with the open ACL.
pub fn create<'a>(path: &'a str, data: &'a [u8], flags: i32) -> WriteRequest<'a> {
    let kind = CreateKind::Create;
    WriteRequest::Create { kind, path, data: Some(data), acl: open_acl(), flags, ttl_ms: -1 }
}

/// The ACL that allows everybody everything.
pub fn open_acl() -> Vec<AclEntry> {
    vec![AclEntry {
        perms: machine::zk::acl::perms::ALL,
        scheme: "world".into(),
        id: "anyone".into(),
    }]
}

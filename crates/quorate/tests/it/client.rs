//! A client that sends a request and waits for the answer, over plain TCP or TLS. A failed
//! expectation fails the test.

use std::net::SocketAddr;

use machine::{AclEntry, Stat};
use zk::ErrorCode;
use zk::jute::JuteReader;
use zk::request::{ConnectRequest, CreateKind, ReadKind, ReadRequest, Request, WriteRequest};
use zk::response::{ConnectResponse, ReplyHeader, decode_stat};

use bench::differential::wire::{Connection, Received};

/// The session timeout in tests that do not care.
pub const TIMEOUT_MS: i32 = 30_000;

/// `CreateMode` on the wire.
pub const EPHEMERAL: i32 = 1;
/// `CreateMode` on the wire.
pub const SEQUENTIAL: i32 = 2;

/// A connection that sends bytes to a server and receives its frames.
pub trait Wire {
    /// Sends bytes. An error is not reported here: if the server has ended the connection, a read
    /// shows it.
    fn send(&mut self, bytes: &[u8]);

    /// The next thing that the connection receives.
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

/// A session and its connection.
#[derive(Debug)]
pub struct Client<W = Connection> {
    pub connection: W,
    pub session: i64,
    pub password: Vec<u8>,
    pub timeout_ms: i32,
    xid: i32,
}

/// The result of a connect request.
#[derive(Debug)]
pub enum Greeted<W = Connection> {
    Attached(Box<Client<W>>),
    /// No such session exists.
    Refused,
    /// The connection ended.
    Ended,
}

/// A reply.
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

    /// The text at the beginning of the body.
    pub fn text(&self) -> String {
        JuteReader::new(&self.body).text().unwrap().to_string()
    }

    /// The buffer at the beginning of the body.
    pub fn data(&self) -> Option<Vec<u8>> {
        JuteReader::new(&self.body).buffer().unwrap().map(<[u8]>::to_vec)
    }

    /// The texts at the beginning of the body.
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

    /// Attaches to a session, or opens one if it is 0, as a client that has seen `zxid`. The server
    /// may be gone.
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
    /// Sends a connect request on a connection.
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

    /// Appends a request to bytes that the caller sends, and returns its xid.
    pub fn encode(&mut self, request: &Request<'_>, bytes: &mut Vec<u8>) -> i32 {
        self.xid = if *request == Request::Ping { self.xid } else { self.xid + 1 };
        let ping = *request == Request::Ping;
        let xid = if ping { zk::request::XID_PING } else { self.xid };
        request.encode(xid, bytes);
        xid
    }

    /// The next frame. `None` if the connection ended.
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

    /// Sends a request and waits for its reply; events in between are dropped. `None` if the
    /// connection ended.
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

    /// Sends a request and waits for its reply.
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

    /// Sets a znode's data.
    pub fn set(&mut self, path: &str, data: &[u8]) -> ErrorCode {
        let write = WriteRequest::SetData { path, data: Some(data), version: -1 };
        self.call(&Request::Write(write)).header.error
    }

    /// Removes a znode.
    pub fn delete(&mut self, path: &str) -> ErrorCode {
        self.call(&Request::Write(WriteRequest::Delete { path, version: -1 })).header.error
    }

    /// A znode's data.
    pub fn get(&mut self, path: &str) -> Result<Vec<u8>, ErrorCode> {
        let answer = self.call(&read(ReadKind::GetData, path));
        match answer.header.error {
            ErrorCode::OK => Ok(answer.data().unwrap_or_default()),
            error => Err(error),
        }
    }

    /// Whether a znode is there.
    pub fn exists(&mut self, path: &str) -> bool {
        self.call(&read(ReadKind::Exists, path)).header.error == ErrorCode::OK
    }

    /// Ends the session. False if the connection ended first.
    pub fn close(&mut self) -> bool {
        self.try_call(&Request::CloseSession).is_some()
    }
}

/// A connect request for a new session, as bytes.
pub fn greeting(timeout_ms: i32) -> Vec<u8> {
    let mut bytes = Vec::new();
    ConnectRequest::new(timeout_ms).encode(&mut bytes);
    bytes
}

/// A request without a watch.
pub fn read(kind: ReadKind, path: &str) -> Request<'_> {
    Request::Read(ReadRequest { kind, path, watch: false })
}

/// A plain create.
pub fn create<'a>(path: &'a str, data: &'a [u8], flags: i32) -> WriteRequest<'a> {
    let kind = CreateKind::Create;
    WriteRequest::Create { kind, path, data: Some(data), acl: open_acl(), flags, ttl_ms: -1 }
}

/// The ACL that allows everything to everybody.
pub fn open_acl() -> Vec<AclEntry> {
    vec![AclEntry {
        perms: machine::zk::acl::perms::ALL,
        scheme: "world".into(),
        id: "anyone".into(),
    }]
}

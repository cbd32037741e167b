//! A test client: its connection, and its requests, which are written as text.

use std::collections::VecDeque;

use machine::AclEntry;
use zk::request::{
    AddWatchMode, ConnectRequest, CreateKind, ReadKind, ReadRequest, Request, SetWatches2Request,
    SetWatchesRequest, WatcherType, WriteRequest, XID_PING,
};

use super::Rig;
use crate::fronts::zk::ConnectionId;

/// A client and its connection.
pub(crate) struct Client {
    pub(crate) id: ConnectionId,
    pub(crate) front: usize,
    /// Whether the client reads what the server writes.
    pub(crate) reads: bool,
    /// Whether the connection is closed.
    pub(crate) closed: bool,
    pub(crate) session: (i64, Vec<u8>),
    xid: i32,
    /// Bytes sent that the Front has not read.
    pub(super) outgoing: VecDeque<u8>,
    /// Bytes received that are not a whole frame yet.
    pub(super) incoming: Vec<u8>,
    pub(super) greeting: bool,
    pub(super) sent: VecDeque<Sent>,
    pub(super) last_zxid: i64,
    /// The last SASL token that the server has sent.
    pub(super) challenge: Vec<u8>,
    pub(crate) event_count: usize,
    pub(crate) reply_count: usize,
    pub(crate) bytes_taken: usize,
}

pub(super) struct Sent {
    pub(super) xid: i32,
    pub(super) text: String,
    pub(super) form: Form,
}

/// How to read the body of a reply.
pub(super) enum Form {
    Path,
    PathAndStat,
    Stat,
    Data,
    Children {
        stat: bool,
    },
    Acl,
    /// Show the whole body in hexadecimal.
    Bytes,
    /// An error code, which repeats the header's.
    Error,
    Identities,
    Number,
    Nothing,
    Multi,
    /// A SASL token, even after an error.
    Sasl,
    Closing,
}

impl Rig {
    pub(super) fn client_line(&mut self, first: &str, requests: &str) {
        let runs = first.ends_with(':');
        let name = first.trim_end_matches([':', '~']);
        let (name, front) = name.split_once('@').unwrap_or((name, "0"));
        let number = name.trim_start_matches('c').parse().unwrap();
        if !self.clients.contains_key(&number) {
            self.accept(number, front.parse().unwrap());
        }
        let bytes = self.encode(number, requests);
        self.send(number, &bytes);
        if runs {
            self.run();
        } else {
            self.flush();
        }
    }

    pub(crate) fn client(&mut self, number: u32) -> &mut Client {
        self.clients.get_mut(&number).unwrap()
    }

    /// Accepts a new connection for a client, which may have had one before.
    pub(crate) fn accept(&mut self, number: u32, front: usize) {
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        let session = self.clients.get(&number).map_or((0, vec![0; 16]), |old| old.session.clone());
        self.fronts[front].on_accept(id, "10.0.0.1", format!("10.0.0.1:{}", 5000 + number));
        let client = Client {
            id,
            front,
            reads: true,
            closed: false,
            session,
            xid: 0,
            outgoing: VecDeque::new(),
            incoming: Vec::new(),
            greeting: true,
            sent: VecDeque::new(),
            last_zxid: 0,
            challenge: Vec::new(),
            event_count: 0,
            reply_count: 0,
            bytes_taken: 0,
        };
        self.clients.insert(number, client);
    }

    /// Closes the connection from the client's end.
    pub(crate) fn close(&mut self, number: u32) {
        let client = self.client(number);
        let (id, front) = (client.id, client.front);
        client.closed = true;
        self.fronts[front].on_closed(id);
    }

    pub(crate) fn unstall(&mut self, number: u32) {
        self.client(number).reads = true;
        self.write(number);
    }

    /// Sends raw bytes, and lets the Front read as many as it wants.
    pub(crate) fn send(&mut self, number: u32, bytes: &[u8]) {
        self.client(number).outgoing.extend(bytes);
        self.pump(number);
    }

    /// Reads from the socket as the driver does, as much as the Front wants.
    pub(crate) fn pump(&mut self, number: u32) -> bool {
        let read_bytes = self.read_bytes;
        let client = self.clients.get_mut(&number).unwrap();
        let front = &mut self.fronts[client.front];
        let mut progress = false;
        while !client.outgoing.is_empty() && !client.closed {
            let Some(input) = front.input(client.id) else { break };
            let count = read_bytes.min(client.outgoing.len());
            let bytes: Vec<u8> = client.outgoing.drain(..count).collect();
            input.extend_from_slice(&bytes);
            front.on_input(client.id);
            progress = true;
        }
        progress
    }

    /// How many bytes the Front has not read from the client's socket.
    pub(crate) fn unread(&self, number: u32) -> usize {
        self.clients[&number].outgoing.len()
    }

    /// Encodes the requests of a script, which are separated by ` | `.
    pub(crate) fn encode(&mut self, number: u32, requests: &str) -> Vec<u8> {
        let mut out = Vec::new();
        for request in requests.split(" | ").filter(|request| !request.is_empty()) {
            self.encode_one(number, request, &mut out);
        }
        out
    }

    fn encode_one(&mut self, number: u32, text: &str, out: &mut Vec<u8>) {
        let words: Vec<&str> = text.split(' ').collect();
        match words[0] {
            "connect" => return self.encode_connect(number, &words[1..], out),
            "raw" => return out.extend(unhex(words[1])),
            "word" => return out.extend_from_slice(words[1].as_bytes()),
            _ => {}
        }
        let client = self.clients.get_mut(&number).unwrap();
        client.xid += 1;
        let mut xid = client.xid;
        let data = words.get(2).map(|word| value(word));
        let acl;
        let form = match words[0] {
            // An opcode, with a body in hexadecimal.
            "op" => {
                let body = words.get(2).map_or(Vec::new(), |hex| unhex(hex));
                out.extend_from_slice(&(8 + body.len() as i32).to_be_bytes());
                out.extend_from_slice(&xid.to_be_bytes());
                out.extend_from_slice(&words[1].parse::<i32>().unwrap().to_be_bytes());
                out.extend_from_slice(&body);
                Form::Bytes
            }
            "auth" => {
                xid = zk::request::XID_AUTH;
                let credentials = words.get(2).copied().unwrap_or_default().as_bytes();
                Request::Auth { scheme: words[1], credentials: Some(credentials) }.encode(xid, out);
                Form::Nothing
            }
            // A SASL token: empty, the response for `user:password`, or other bytes as `=text`.
            "sasl" => {
                let token = match words.get(1).map(|word| (word, word.split_once(':'))) {
                    None => Vec::new(),
                    Some((word, _)) if word.starts_with('=') => value(&word[1..]),
                    Some((_, Some((user, password)))) => {
                        zk::sasl::respond(&client.challenge, user, password, "cnonce").unwrap()
                    }
                    Some((word, None)) => panic!("token {word}"),
                };
                Request::Sasl { token: &token }.encode(xid, out);
                Form::Sasl
            }
            "ping" => {
                xid = XID_PING;
                Request::Ping.encode(xid, out);
                Form::Nothing
            }
            "setwatches" | "setwatches2" => {
                xid = zk::request::XID_SET_WATCHES;
                let paths = |kind: &str| {
                    words[2..].iter().filter_map(|word| word.strip_prefix(kind)).collect()
                };
                let watches = SetWatchesRequest {
                    relative_zxid: words[1].parse().unwrap(),
                    data: paths("d:"),
                    exist: paths("e:"),
                    child: paths("c:"),
                    null_behind: false,
                };
                let request = match words[0] {
                    "setwatches" => Request::SetWatches(watches),
                    _ => Request::SetWatches2(SetWatches2Request {
                        watches,
                        persistent: paths("p:"),
                        persistent_recursive: paths("r:"),
                    }),
                };
                request.encode(xid, out);
                Form::Nothing
            }
            "addwatch" => {
                let mode = match words.get(2) {
                    Some(&"r") => AddWatchMode::PersistentRecursive,
                    _ => AddWatchMode::Persistent,
                };
                Request::AddWatch { path: words[1], mode }.encode(xid, out);
                Form::Error
            }
            "checkwatch" => {
                let (path, watcher_type) = (words[1], watcher_type(words[2]));
                Request::CheckWatches { path, watcher_type }.encode(xid, out);
                Form::Nothing
            }
            "unwatch" => {
                let (path, watcher_type) = (words[1], watcher_type(words[2]));
                Request::RemoveWatches { path, watcher_type }.encode(xid, out);
                Form::Nothing
            }
            "sync" => {
                Request::Sync { path: Some(words[1]) }.encode(xid, out);
                Form::Path
            }
            "reconfig" => {
                let (joining, leaving, members) = (None, words.get(1).copied(), None);
                Request::Reconfig { joining, leaving, members, version: -1 }.encode(xid, out);
                Form::Data
            }
            "join" => {
                let version = words.get(2).map_or(-1, |version| version.parse().unwrap());
                let (joining, leaving, members) = (Some(words[1]), None, None);
                Request::Reconfig { joining, leaving, members, version }.encode(xid, out);
                Form::Data
            }
            "count" => {
                Request::GetAllChildrenNumber { path: words[1] }.encode(xid, out);
                Form::Number
            }
            "ephemerals" => {
                Request::GetEphemerals { prefix: words.get(1).copied() }.encode(xid, out);
                Form::Children { stat: false }
            }
            "whoami" => {
                Request::WhoAmI.encode(xid, out);
                Form::Identities
            }
            "bye" => {
                Request::CloseSession.encode(xid, out);
                Form::Closing
            }
            "setacl" => {
                acl = acl_of(words[2]);
                let write = WriteRequest::SetAcl { path: words[1], acl, version: -1 };
                Request::Write(write).encode(xid, out);
                Form::Stat
            }
            "multi" => {
                let values: Vec<Option<Vec<u8>>> =
                    words[1..].iter().map(|word| word.split(',').nth(2).map(value)).collect();
                let writes = words[1..].iter().zip(&values).map(|(word, value)| {
                    let parts: Vec<&str> = word.split(',').collect();
                    write(&parts, value.as_deref())
                });
                Request::Multi(writes.collect()).encode(xid, out);
                Form::Multi
            }
            "multiread" => {
                let reads = words[1..].iter().map(|word| {
                    let parts: Vec<&str> = word.split(',').collect();
                    read(&parts)
                });
                Request::MultiRead(reads.collect()).encode(xid, out);
                Form::Multi
            }
            "get" | "exists" | "ls" | "ls2" | "getacl" => {
                let read = read(&words);
                Request::Read(read.clone()).encode(xid, out);
                match read.kind {
                    ReadKind::Exists => Form::Stat,
                    ReadKind::GetData => Form::Data,
                    ReadKind::GetChildren => Form::Children { stat: false },
                    ReadKind::GetChildren2 => Form::Children { stat: true },
                    ReadKind::GetAcl => Form::Acl,
                }
            }
            _ => {
                let write = write(&words, data.as_deref());
                let form = match &write {
                    WriteRequest::Create { kind: CreateKind::Create, .. } => Form::Path,
                    WriteRequest::Create { .. } => Form::PathAndStat,
                    WriteRequest::SetData { .. } => Form::Stat,
                    _ => Form::Nothing,
                };
                Request::Write(write).encode(xid, out);
                form
            }
        };
        client.sent.push_back(Sent { xid, text: text.to_string(), form });
    }

    fn encode_connect(&mut self, number: u32, words: &[&str], out: &mut Vec<u8>) {
        let option = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
        if option("again").is_some() {
            let front = option("again@").map_or(0, |front| front.parse().unwrap());
            self.accept(number, front);
        }
        let (mut session, mut password) = self.clients[&number].session.clone();
        if let Some(other) = option("as=c") {
            (session, password) = self.clients[&other.parse().unwrap()].session.clone();
        }
        if let Some(given) = option("session=") {
            session = given.parse().unwrap();
        }
        if let Some(hex) = option("password=") {
            password = unhex(hex);
        }
        let connect = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: option("seen=").map_or(0, |zxid| zxid.parse().unwrap()),
            timeout_ms: option("timeout=").map_or(10_000, |ms| ms.parse().unwrap()),
            session,
            password,
            read_only: option("44").map_or(Some(words.contains(&"ro")), |_| None),
        };
        connect.encode(out);
    }
}

fn watcher_type(word: &str) -> WatcherType {
    match word {
        "c" => WatcherType::Children,
        "d" => WatcherType::Data,
        "any" => WatcherType::Any,
        "p" => WatcherType::Persistent,
        "r" => WatcherType::PersistentRecursive,
        _ => panic!("watcher type {word}"),
    }
}

/// The bytes of a value in a script: `big:N` is N bytes, other text stands for itself.
fn value(word: &str) -> Vec<u8> {
    match word.strip_prefix("big:") {
        Some(count) => vec![b'x'; count.parse().unwrap()],
        None => word.as_bytes().to_vec(),
    }
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).unwrap() as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// The ACL of a script: `open`, `own` (for the creator), or entries like `digest|user:hash|1`
/// separated by `,`, or in a multi by `+`.
fn acl_of(word: &str) -> Vec<AclEntry> {
    let entry = |perms: u32, scheme: &str, id: &str| AclEntry {
        perms,
        scheme: scheme.into(),
        id: id.into(),
    };
    match word {
        "open" => vec![entry(31, "world", "anyone")],
        "own" => vec![entry(31, "auth", "")],
        _ => word
            .split([',', '+'])
            .map(|part| {
                let parts: Vec<&str> = part.split('|').collect();
                entry(parts[2].parse().unwrap(), parts[0], parts[1])
            })
            .collect(),
    }
}

fn write<'a>(words: &[&'a str], value: Option<&'a [u8]>) -> WriteRequest<'a> {
    let path = words[1];
    let version = |at: usize| words.get(at).map_or(-1, |word| word.parse().unwrap());
    match words[0] {
        "create" | "create2" | "container" | "ttl" => {
            let (kind, mut flags, ttl_ms) = match words[0] {
                "create" => (CreateKind::Create, 0, -1),
                "create2" => (CreateKind::Create2, 0, -1),
                "container" => (CreateKind::Container, 4, -1),
                _ => (CreateKind::Ttl, 5, 60_000),
            };
            let mut acl = acl_of("open");
            for word in words.get(3..).unwrap_or_default() {
                match word.strip_prefix("acl=") {
                    Some(asked) => acl = acl_of(asked),
                    None => flags = word.trim_start_matches('f').parse().unwrap(),
                }
            }
            WriteRequest::Create { kind, path, data: value, acl, flags, ttl_ms }
        }
        "set" => WriteRequest::SetData { path, data: value, version: version(3) },
        "delete" => WriteRequest::Delete { path, version: version(2) },
        "check" => WriteRequest::Check { path, version: version(2) },
        other => panic!("request {other}"),
    }
}

fn read<'a>(words: &[&'a str]) -> ReadRequest<'a> {
    let kind = match words[0] {
        "exists" => ReadKind::Exists,
        "get" => ReadKind::GetData,
        "ls" => ReadKind::GetChildren,
        "ls2" => ReadKind::GetChildren2,
        "getacl" => ReadKind::GetAcl,
        other => panic!("read {other}"),
    };
    ReadRequest { kind, path: words[1], watch: words.get(2) == Some(&"w") }
}

//! The seeded requests: equal bytes for both servers, but for session ids, passwords and zxids,
//! which each side fills in.

use zk::AclEntry;
use zk::request::{
    AddWatchMode, CreateKind, ReadKind, ReadRequest, Request, SetWatches2Request,
    SetWatchesRequest, WatcherType, WriteRequest, XID_AUTH, XID_PING, XID_SET_WATCHES, opcode,
};

use crate::random::Random;

/// Sessions that take part, each in a slot of its own.
pub const SLOTS: usize = 4;

/// Requests of one burst at most.
const BURST_MAX: u64 = 60;

/// The content of the body of a reply without an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Nothing.
    Empty,
    /// A path.
    Path,
    /// A path and a Stat.
    PathStat,
    /// A Stat.
    Stat,
    /// Data and a Stat.
    DataStat,
    /// Names or paths.
    Names,
    /// Names and a Stat.
    NamesStat,
    /// An ACL and a Stat.
    AclStat,
    /// The results of a multi.
    Results,
    /// A number.
    Number,
}

/// One request, encoded.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The xid, which the reply repeats.
    pub xid: i32,
    /// The whole frame.
    pub bytes: Vec<u8>,
    /// The content of a good reply.
    pub body: Body,
    /// Whether it consumes a zxid.
    pub writes: bool,
    /// Whether it is sent only after everything before it was answered: the real server answers it
    /// from another thread than the rest.
    pub alone: bool,
    /// Whether the server closes the connection after it.
    pub ends: bool,
    /// The offset at which a side fills in a zxid, and how far that zxid is below the highest one
    /// seen.
    pub zxid_back: Option<(usize, i64)>,
    /// The request in words.
    pub shown: String,
}

/// A burst of one session, cut into pieces that are written one by one.
#[derive(Clone, Debug)]
pub struct Burst {
    /// The slot of the session.
    pub slot: usize,
    /// The requests, in the order in which they are sent.
    pub asked: Vec<Asked>,
    /// Bytes of each piece; the bytes that are left go as one piece.
    pub pieces: Vec<usize>,
}

/// A request for a session on a new connection.
#[derive(Clone, Debug)]
pub struct Greeting {
    /// The slot that connects.
    pub slot: usize,
    /// The timeout in the connect request, ms.
    pub timeout_ms: i32,
    /// The flag for read-only servers in the connect request; `None` if it is left out.
    pub read_only: Option<bool>,
    /// The protocol version in the connect request.
    pub protocol_version: i32,
    /// The session that it asks for.
    pub session: AskedSession,
    /// How far the last zxid seen by the client is beyond the highest real one; negative: short of
    /// it.
    pub seen_ahead: i64,
}

/// The session that a greeting asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskedSession {
    /// A new session: session id 0.
    New,
    /// The slot's session.
    Own,
    /// The slot's session, with a wrong password.
    WrongPassword,
    /// The slot's session, with a password of 3 bytes.
    ShortPassword,
    /// A session that no server has given out.
    Unknown,
}

/// One step of a seed. No request is under way before and after it.
#[derive(Clone, Debug)]
pub enum Round {
    /// One session sends, and all others listen.
    Burst(Burst),
    /// Several sessions send at once, each below its own parent.
    Together(Vec<Burst>),
    /// A slot opens a session or attaches to one, on a new connection.
    Greet(Greeting),
    /// The socket of a slot closes, and its session stays.
    Drop(usize),
}

/// The state of a slot, as far as the generator must know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The slot has no session.
    Vacant,
    /// The slot has a session without a connection.
    Detached,
    /// The slot has a session with a connection.
    Attached,
}

/// Paths that a server must refuse, or that only look as if it must.
const NASTY: [&str; 36] = [
    "",
    "a",
    "d",
    "/",
    "//",
    "/d/",
    "/d//a",
    "/d/.",
    "/d/..",
    "/d/./a",
    "/d/../d",
    "/d/...",
    "/d/.a",
    "/d/\u{0}",
    "/d/a\u{0}b",
    "/d/\u{1}",
    "/d/\u{1f}",
    "/d/ ",
    "/d/\u{7f}",
    "/d/\u{9f}",
    "/d/\u{a0}",
    "/d/\u{e9}\u{df}",
    "/d/\u{d7ff}",
    "/d/\u{e000}",
    "/d/\u{f8ff}",
    "/d/\u{f900}",
    "/d/\u{ffef}",
    "/d/\u{fff0}",
    "/d/a/",
    "/d/a/.",
    "/d/a/..",
    "a/b",
    "/zookeeper",
    "/zookeeper/quota",
    "/zookeeper/config",
    "/no/such/parent",
];

/// Names below a parent that most requests are about; the frequent ones stand here more than once.
const NAMES: [&str; 18] = [
    "a",
    "a",
    "a",
    "a",
    "a",
    "b",
    "b",
    "b",
    "e",
    "e",
    "a/x",
    "a/x",
    "a/y",
    "a/x/p",
    "b/x",
    "s-0000000003",
    "a/0000000002",
    "a/s0000000003",
];

/// Names that exist when a seed begins.
pub const NAMES_MADE: [&str; 3] = ["a", "b", "a/x"];

/// Makes rounds and requests.
pub struct Generator {
    /// The only source of chance.
    pub random: Random,
    next_xid: i32,
}

impl Generator {
    /// A generator whose rounds depend on the seed, and on the states of the slots.
    pub fn new(seed: u64) -> Generator {
        Generator { random: Random::new(seed), next_xid: 1 }
    }

    /// The next round, for slots in these states.
    pub fn round(&mut self, slots: &[Slot; SLOTS]) -> Round {
        let all = |wanted: Slot| (0..SLOTS).filter(move |&slot| slots[slot] == wanted);
        let attached: Vec<usize> = all(Slot::Attached).collect();
        let idle: Vec<usize> = all(Slot::Vacant).chain(all(Slot::Detached)).collect();
        let choice = self.random.below(100);
        if attached.is_empty() || (!idle.is_empty() && choice < 20) {
            let slot = *self.random.pick(&idle);
            return Round::Greet(self.greeting(slot, slots[slot]));
        }
        let slot = *self.random.pick(&attached);
        match choice {
            30..=36 => Round::Drop(slot),
            37..=41 => Round::Greet(self.moving(slot)),
            42..=57 => {
                Round::Together(attached.iter().map(|&slot| self.apart_burst(slot)).collect())
            }
            _ => Round::Burst(self.burst(slot)),
        }
    }

    fn greeting(&mut self, slot: usize, state: Slot) -> Greeting {
        let session = match (state, self.random.below(10)) {
            (Slot::Vacant, 0) => AskedSession::Unknown,
            (Slot::Detached, 0) => AskedSession::WrongPassword,
            (Slot::Detached, 1) => AskedSession::ShortPassword,
            (Slot::Detached, _) => AskedSession::Own,
            _ => AskedSession::New,
        };
        Greeting {
            slot,
            timeout_ms: *self.random.pick(&[300_000, 600_000, 100_000, 1_000_000, i32::MAX]),
            read_only: *self.random.pick(&[Some(false), Some(true), None]),
            protocol_version: *self.random.pick(&[0, 0, 0, 7]),
            session,
            seen_ahead: *self.random.pick(&[0, 0, -1, -5, -1_000_000_000, 1, 1_000]),
        }
    }

    /// The session moves to another connection while the first one is open.
    fn moving(&mut self, slot: usize) -> Greeting {
        let greeting = self.greeting(slot, Slot::Attached);
        Greeting { session: AskedSession::Own, seen_ahead: greeting.seen_ahead.min(0), ..greeting }
    }

    /// A burst about the tree that all sessions share.
    fn burst(&mut self, slot: usize) -> Burst {
        let count = self.burst_length();
        let mut asked = Vec::new();
        if self.random.chance(25) {
            asked.push(self.set_watches());
        }
        for _ in 0..count {
            asked.push(self.shared_request(slot));
        }
        if self.random.chance(12) {
            asked.push(self.ending());
        }
        self.in_pieces(slot, asked)
    }

    /// A burst about the slot's own tree.
    fn apart_burst(&mut self, slot: usize) -> Burst {
        let count = self.burst_length();
        let parent = format!("/c{slot}");
        let asked = (0..count).map(|_| self.request(&parent, false)).collect();
        self.in_pieces(slot, asked)
    }

    fn burst_length(&mut self) -> u64 {
        let bound = *self.random.pick(&[2, 8, 25, BURST_MAX]);
        1 + self.random.below(bound)
    }

    /// Cuts the bytes anywhere, also inside of a number. A request after a setACL or a
    /// createContainer waits for its answer: while these are under way, the real server judges by
    /// its change record (`PrepRequestProcessor`), which has the old ACL, and a znode of the flag's
    /// kind.
    pub fn in_pieces(&mut self, slot: usize, mut asked: Vec<Asked>) -> Burst {
        let waited_for = [opcode::SET_ACL, opcode::CREATE_CONTAINER].map(i32::to_be_bytes);
        for index in 1..asked.len() {
            let before = asked[index - 1].bytes.get(8..12);
            if waited_for.iter().any(|code| before == Some(code)) {
                asked[index].alone = true;
            }
        }
        let count = self.random.below(6);
        let pieces = (0..count).map(|_| 1 + self.random.below(400) as usize).collect();
        Burst { slot, asked, pieces }
    }

    fn xid(&mut self) -> i32 {
        self.next_xid += 1;
        self.next_xid
    }

    /// Encodes a request.
    pub fn asked(&mut self, request: &Request<'_>) -> Asked {
        let xid = match request {
            Request::Ping => XID_PING,
            Request::Auth { .. } => XID_AUTH,
            Request::SetWatches(_) | Request::SetWatches2(_) => XID_SET_WATCHES,
            _ => self.xid(),
        };
        let mut bytes = Vec::new();
        request.encode(xid, &mut bytes);
        let (body, writes) = body_of(request.opcode());
        let mut shown = format!("{request:?}");
        if shown.len() > 5_000 {
            let end = (0..=5_000).rev().find(|&end| shown.is_char_boundary(end)).unwrap_or(0);
            shown.truncate(end);
            shown += "…";
        }
        let (alone, ends, zxid_back) = (false, false, None);
        Asked { xid, bytes, body, writes, alone, ends, zxid_back, shown }
    }

    fn shared_request(&mut self, slot: usize) -> Asked {
        match self.random.below(100) {
            0..=1 => self.auth(),
            2..=3 => self.malformed(),
            4..=12 => self.request(&format!("/c{slot}"), true),
            _ => self.request("/d", true),
        }
    }

    /// A request about znodes below `parent`. If `shared`, no other session writes in the round,
    /// and the path may be a nasty one.
    fn request(&mut self, parent: &str, shared: bool) -> Asked {
        match self.random.below(100) {
            0..=53 => self.write_request(parent, shared),
            54..=60 => self.watch_request(parent, shared),
            61..=80 => {
                let kind = *self.random.pick(&[
                    ReadKind::Exists,
                    ReadKind::Exists,
                    ReadKind::GetData,
                    ReadKind::GetData,
                    ReadKind::GetChildren,
                    ReadKind::GetChildren2,
                    ReadKind::GetAcl,
                ]);
                let path = self.read_path(parent, shared);
                let watch = kind != ReadKind::GetAcl && self.random.chance(60);
                self.asked(&Request::Read(ReadRequest { kind, path: &path, watch }))
            }
            81..=90 => self.multi(parent, shared),
            91..=94 => self.multi_read(parent, shared),
            95 => {
                let path = self.read_path(parent, shared);
                self.asked(&Request::GetAllChildrenNumber { path: &path })
            }
            96..=97 => {
                let path = self.read_path(parent, shared);
                self.asked(&Request::Sync { path: Some(&path) })
            }
            98 => {
                let prefix = self.random.chance(80).then(|| self.read_path(parent, shared));
                self.asked(&Request::GetEphemerals { prefix: prefix.as_deref() })
            }
            _ => self.asked(&Request::Ping),
        }
    }

    /// One write.
    fn write_request(&mut self, parent: &str, shared: bool) -> Asked {
        let mut parts = self.write_parts(parent, shared);
        let set_acl = shared && self.random.chance(9);
        if parts.kind == CreateKind::Ttl && !matches!(parts.flags, 5 | 6) {
            // A negative time to live would end the real server if the request came that far.
            parts.ttl_ms = parts.ttl_ms.max(0);
        }
        if parts.kind == CreateKind::Container && !shared {
            parts.kind = CreateKind::Create2;
        }
        if parts.operation == Operation::Check {
            // A check alone, outside of a multi, is an unknown operation.
            parts.operation = Operation::SetData;
        }
        let request = if set_acl { parts.set_acl() } else { parts.request() };
        self.asked(&Request::Write(request))
    }

    /// A multi of writes.
    fn multi(&mut self, parent: &str, shared: bool) -> Asked {
        let count = self.random.below(6);
        let mut parts: Vec<WriteParts> =
            (0..count).map(|_| self.write_parts(parent, shared)).collect();
        for part in &mut parts {
            // The reason is in `in_pieces`; but the rest of a multi cannot wait for an answer.
            if part.kind == CreateKind::Container && matches!(part.flags, 1 | 3) {
                part.flags -= 1;
            }
        }
        self.asked(&Request::Multi(parts.iter().map(WriteParts::request).collect()))
    }

    /// A multi of reads.
    fn multi_read(&mut self, parent: &str, shared: bool) -> Asked {
        let count = self.random.below(5);
        let reads: Vec<(ReadKind, String, bool)> = (0..count)
            .map(|_| {
                let kind = *self.random.pick(&[ReadKind::GetData, ReadKind::GetChildren]);
                (kind, self.read_path(parent, shared), self.random.chance(20))
            })
            .collect();
        let reads = reads
            .iter()
            .map(|(kind, path, watch)| ReadRequest { kind: *kind, path, watch: *watch })
            .collect();
        self.asked(&Request::MultiRead(reads))
    }

    /// A request to add a persistent watch, to check for watches, or to remove them.
    fn watch_request(&mut self, parent: &str, shared: bool) -> Asked {
        let path = match self.random.chance(40) {
            true => parent.to_string(),
            false => self.write_path(parent, shared),
        };
        let watcher_type = *self.random.pick(&[
            WatcherType::Children,
            WatcherType::Data,
            WatcherType::Any,
            WatcherType::Persistent,
            WatcherType::PersistentRecursive,
        ]);
        // All sessions may write below the root at once, so events of a recursive watch on it come
        // in any order.
        let recursive = path != "/" && self.random.chance(50);
        let mode = match recursive {
            true => AddWatchMode::PersistentRecursive,
            false => AddWatchMode::Persistent,
        };
        let path = &*path;
        let request = match self.random.below(10) {
            0..=4 => Request::AddWatch { path, mode },
            5..=6 => Request::CheckWatches { path, watcher_type },
            _ => Request::RemoveWatches { path, watcher_type },
        };
        self.asked(&request)
    }

    fn write_parts(&mut self, parent: &str, shared: bool) -> WriteParts {
        let operation = *self.random.pick(&[
            Operation::Create,
            Operation::Create,
            Operation::Create,
            Operation::Delete,
            Operation::Delete,
            Operation::SetData,
            Operation::SetData,
            Operation::Check,
        ]);
        let kind = match self.random.below(20) {
            0..=10 => CreateKind::Create,
            11..=16 => CreateKind::Create2,
            17..=18 => CreateKind::Container,
            _ => CreateKind::Ttl,
        };
        let ttl = kind == CreateKind::Ttl && self.random.chance(70);
        let flags = match self.random.below(20) {
            _ if ttl => *self.random.pick(&[5, 6]),
            0..=9 => 0,
            10..=12 => 1,
            13..=15 => 2,
            16..=17 => 3,
            18 => 4,
            _ => *self.random.pick(&[5, 6, 7, -1, 8, 99]),
        };
        // No time to live ends while the seed runs.
        let times = [3_600_000, 86_400_000, (1 << 40) - 1, 1 << 40, i64::MAX, 0, -1, i64::MIN];
        let ttl_ms = if kind == CreateKind::Ttl { *self.random.pick(&times) } else { -1 };
        let mut path = self.write_path(parent, shared);
        if operation == Operation::Create && matches!(flags, 2 | 3 | 6) && self.random.chance(60) {
            let name = *self.random.pick(&["s-", "", "a/", "a/s", ".", "\u{e9}", "s-\u{1}"]);
            path = format!("{parent}/{name}");
        }
        WriteParts {
            operation,
            path,
            data: self.data(),
            acl: self.acl(),
            kind,
            flags,
            ttl_ms,
            version: self.version(),
        }
    }

    fn read_path(&mut self, parent: &str, shared: bool) -> String {
        match self.random.below(20) {
            0..=1 => parent.to_string(),
            2 if shared => "/".to_string(),
            _ => self.write_path(parent, shared),
        }
    }

    /// A path to write to, never the parent itself: all sessions share what is below `/`.
    fn write_path(&mut self, parent: &str, shared: bool) -> String {
        if shared && self.random.chance(6) {
            return (*self.random.pick(&NASTY)).to_string();
        }
        format!("{parent}/{}", self.random.pick(&NAMES))
    }

    fn data(&mut self) -> Option<Vec<u8>> {
        match self.random.below(100) {
            0..=14 => None,
            15..=29 => Some(Vec::new()),
            30 => Some(vec![b'x'; 100 * 1024]),
            _ => {
                let length = self.random.below(40) as usize;
                let byte = self.random.below(256) as u8;
                Some(vec![byte; length])
            }
        }
    }

    fn version(&mut self) -> i32 {
        *self.random.pick(&[-1, -1, -1, -1, 0, 0, 1, 2, 7, -2, i32::MAX, i32::MIN])
    }

    fn acl(&mut self) -> Vec<AclEntry> {
        if self.random.chance(85) {
            return vec![entry(31, "world", "anyone")];
        }
        let count = *self.random.pick(&[1, 1, 1, 1, 2, 3, 0]);
        (0..count)
            .map(|_| {
                let perms = *self.random.pick(&[31, 31, 31, 1, 3, 7, 15, 29, 30, 0, 255, u32::MAX]);
                let (scheme, id) = *self.random.pick(&[
                    ("world", "anyone"),
                    ("world", "anyone"),
                    ("world", "anyone"),
                    ("auth", ""),
                    ("auth", "ignored"),
                    ("digest", ALICE_ID),
                    ("digest", "alice:whatever"),
                    ("digest", "bob:b64="),
                    ("digest", "nocolon"),
                    ("digest", "a:b:c"),
                    ("digest", "a:"),
                    ("digest", ":b"),
                    ("digest", ""),
                    ("ip", "127.0.0.1"),
                    ("ip", "127.0.0.0/8"),
                    ("ip", "10.0.0.0/8"),
                    ("ip", "127.0.0.1/33"),
                    ("ip", "127.0.0.1/0"),
                    ("ip", "nonsense"),
                    ("ip", ""),
                    ("world", "someone"),
                    ("world", ""),
                    ("bogus", "x"),
                    ("", ""),
                    ("super", ""),
                ]);
                entry(perms, scheme, id)
            })
            .collect()
    }

    fn auth(&mut self) -> Asked {
        let (scheme, credentials) = *self.random.pick(&[
            ("digest", "alice:secret"),
            ("digest", "alice:secret"),
            ("digest", "bob:secret"),
            ("digest", "nocolon"),
            ("digest", ""),
            ("digest", "a:b:c"),
            ("ip", ""),
            ("ip", "10.0.0.1"),
        ]);
        let request = Request::Auth { scheme, credentials: Some(credentials.as_bytes()) };
        Asked { alone: true, ..self.asked(&request) }
    }

    /// A request that sets watches again. Znodes below `/d` may have been seen; some paths never
    /// existed.
    fn set_watches(&mut self) -> Asked {
        let mut lists: [Vec<String>; 5] = Default::default();
        for list in &mut lists {
            for _ in 0..self.random.below(6) {
                list.push(self.read_path("/d", true));
            }
        }
        // The reason is in `watch_request`.
        lists[4].retain(|path| path != "/");
        let [data, exist, child, persistent, persistent_recursive] =
            [0, 1, 2, 3, 4].map(|index| lists[index].iter().map(String::as_str).collect());
        let watches =
            SetWatchesRequest { relative_zxid: 0, data, exist, child, null_behind: false };
        let request = match self.random.chance(50) {
            true => Request::SetWatches(watches),
            false => Request::SetWatches2(SetWatches2Request {
                watches,
                persistent,
                persistent_recursive,
            }),
        };
        let back = *self.random.pick(&[0, 0, 1, 5, 20, 60, 200, 1_000_000]);
        let asked = self.asked(&request);
        Asked { zxid_back: Some((12, back)), ..asked }
    }

    /// A request that is cut off, so that it holds what no client sends.
    fn malformed(&mut self) -> Asked {
        let mut asked = match self.random.below(4) {
            0 => self.set_watches(),
            _ => self.request("/d", false),
        };
        asked.zxid_back = None;
        // The cut is behind the headers of the frame and of the request.
        let body = asked.bytes.len() - 12;
        if body == 0 {
            return asked;
        }
        let at = 12 + self.random.below(body as u64) as usize;
        asked.bytes.truncate(at);
        let length = (at - 4) as i32;
        asked.bytes[..4].copy_from_slice(&length.to_be_bytes());
        asked.shown = format!("cut off at {at}: {}", asked.shown);
        asked
    }

    /// A request after which the server closes the connection.
    fn ending(&mut self) -> Asked {
        let ends = |asked: Asked| Asked { ends: true, alone: true, ..asked };
        match self.random.below(9) {
            0..=3 => {
                let close = self.asked(&Request::CloseSession);
                Asked { ends: true, ..close }
            }
            4 => {
                let scheme = *self.random.pick(&["bogus", "", "world", "auth", "super"]);
                ends(self.asked(&Request::Auth { scheme, credentials: Some(b"x:y") }))
            }
            5 => {
                let mut asked = ends(self.asked(&Request::Ping));
                let xid = self.xid();
                let opcode = *self.random.pick(&[0, 10, 13, 23, 99, 108, 1_000, i32::MAX, -2]);
                asked.bytes[4..8].copy_from_slice(&xid.to_be_bytes());
                asked.bytes[8..12].copy_from_slice(&opcode.to_be_bytes());
                asked.shown = format!("unknown opcode {opcode}");
                Asked { xid, ..asked }
            }
            6 => {
                let mut asked = ends(self.asked(&Request::Ping));
                let length = *self.random.pick(&[-1, i32::MIN, i32::MAX, 0x10_0000, 0x200_0000]);
                asked.bytes[..4].copy_from_slice(&length.to_be_bytes());
                asked.shown = format!("frame length {length}");
                asked
            }
            7 => {
                let mut asked = ends(self.asked(&Request::Ping));
                let length = self.random.below(8) as usize;
                asked.bytes.truncate(4 + length);
                asked.bytes[..4].copy_from_slice(&(length as i32).to_be_bytes());
                asked.shown = format!("frame of {length} bytes");
                asked
            }
            _ => {
                let request = Request::Auth { scheme: "digest", credentials: Some(b"a:b") };
                let mut asked = ends(self.asked(&request));
                let length = 8 + self.random.below(10) as usize;
                asked.bytes.truncate(4 + length);
                asked.bytes[..4].copy_from_slice(&(length as i32).to_be_bytes());
                asked.shown = format!("auth of {length} bytes");
                asked
            }
        }
    }
}

const ALICE_ID: &str = "alice:aYXlLOpEooaV1cRAvUL1fp9Qt7E=";

/// An entry of an ACL.
pub fn entry(perms: u32, scheme: &str, id: &str) -> AclEntry {
    AclEntry { perms, scheme: scheme.into(), id: id.into() }
}

/// The content of a good reply to an opcode, and whether its request consumes a zxid.
pub fn body_of(code: i32) -> (Body, bool) {
    match code {
        opcode::CREATE => (Body::Path, true),
        opcode::CREATE2 | opcode::CREATE_CONTAINER | opcode::CREATE_TTL => (Body::PathStat, true),
        opcode::DELETE | opcode::CHECK => (Body::Empty, true),
        opcode::SET_DATA | opcode::SET_ACL => (Body::Stat, true),
        opcode::MULTI => (Body::Results, true),
        opcode::CLOSE_SESSION => (Body::Empty, true),
        opcode::EXISTS => (Body::Stat, false),
        opcode::GET_DATA => (Body::DataStat, false),
        opcode::GET_CHILDREN | opcode::GET_EPHEMERALS => (Body::Names, false),
        opcode::GET_CHILDREN2 => (Body::NamesStat, false),
        opcode::GET_ACL => (Body::AclStat, false),
        opcode::GET_ALL_CHILDREN_NUMBER => (Body::Number, false),
        opcode::MULTI_READ => (Body::Results, false),
        opcode::SYNC => (Body::Path, false),
        _ => (Body::Empty, false),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Create,
    Delete,
    SetData,
    Check,
}

/// The parts of a write, which own their text and data.
struct WriteParts {
    operation: Operation,
    path: String,
    data: Option<Vec<u8>>,
    acl: Vec<AclEntry>,
    kind: CreateKind,
    flags: i32,
    ttl_ms: i64,
    version: i32,
}

impl WriteParts {
    fn request(&self) -> WriteRequest<'_> {
        let (path, version) = (&*self.path, self.version);
        match self.operation {
            Operation::Create => WriteRequest::Create {
                kind: self.kind,
                path,
                data: self.data.as_deref(),
                acl: self.acl.clone(),
                flags: self.flags,
                ttl_ms: self.ttl_ms,
            },
            Operation::Delete => WriteRequest::Delete { path, version },
            Operation::SetData => {
                WriteRequest::SetData { path, data: self.data.as_deref(), version }
            }
            Operation::Check => WriteRequest::Check { path, version },
        }
    }

    fn set_acl(&self) -> WriteRequest<'_> {
        WriteRequest::SetAcl { path: &self.path, acl: self.acl.clone(), version: self.version }
    }
}

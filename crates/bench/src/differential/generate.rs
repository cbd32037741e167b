//! Generates the seeded rounds and requests of ZooKeeper's protocol. Both servers get the same
//! bytes, except session ids, passwords and zxids, which each [`Side`](super::side::Side) fills in.

use zk::AclEntry;
use zk::request::{
    AddWatchMode, CreateKind, ReadKind, ReadRequest, Request, SetWatches2Request,
    SetWatchesRequest, WatcherType, WriteRequest, XID_AUTH, XID_PING, XID_SET_WATCHES, opcode,
};

use crate::random::Random;

/// The number of slots, each for one session.
pub const SLOTS: usize = 4;

/// The most requests in one burst.
const BURST_MAX: u64 = 60;

/// The content of the body of a successful reply. A side decodes the reply by it.
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
    /// A list of names or paths.
    Names,
    /// Names and a Stat.
    NamesStat,
    /// An ACL and a Stat.
    AclStat,
    /// The results of a multi.
    Results,
    /// A number of children.
    Number,
}

/// An encoded request.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The xid of the request and of its reply.
    pub xid: i32,
    /// The whole frame, length included.
    pub bytes: Vec<u8>,
    /// The content of a good reply.
    pub body: Body,
    /// Whether the request takes a zxid of its own.
    pub writes: bool,
    /// Whether to send the request only after all requests before it were answered, because the
    /// real server answers this kind of request from another thread.
    pub alone: bool,
    /// Whether the server closes the connection after this request.
    pub ends: bool,
    /// If the request contains a zxid: the offset in `bytes` at which a side fills it in, and how
    /// far it is below the highest zxid that the side has seen.
    pub zxid_back: Option<(usize, i64)>,
    /// The request as text.
    pub shown: String,
}

/// The requests that one session sends in a round. Their bytes are cut into pieces, each written by
/// one call.
#[derive(Clone, Debug)]
pub struct Burst {
    /// The slot of the session.
    pub slot: usize,
    /// The requests, in the order in which they are sent.
    pub asked: Vec<Asked>,
    /// Bytes of each piece. The rest of the bytes is one more piece.
    pub pieces: Vec<usize>,
}

/// A connect request on a new connection.
#[derive(Clone, Debug)]
pub struct Greeting {
    /// The slot that connects.
    pub slot: usize,
    /// The timeout in the connect request, ms.
    pub timeout_ms: i32,
    /// The `readOnly` flag of the connect request; `None` leaves the field out.
    pub read_only: Option<bool>,
    /// The protocol version in the connect request.
    pub protocol_version: i32,
    /// The session to ask for.
    pub session: AskedSession,
    /// How far the `lastZxidSeen` of the request is above the highest zxid that the side has seen;
    /// negative if it is below.
    pub seen_ahead: i64,
}

/// The session that a connect request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskedSession {
    /// A new session: the id is 0.
    New,
    /// The slot's session.
    Own,
    /// The slot's session, with a wrong password.
    WrongPassword,
    /// The slot's session, with a password of 3 bytes.
    ShortPassword,
    /// A session id that no server has given out.
    Unknown,
}

/// One step of a seed. No request is under way before it or after it.
#[derive(Clone, Debug)]
pub enum Round {
    /// One session sends a burst, and all others listen.
    Burst(Burst),
    /// Several sessions send at once, each below its own parent znode.
    Together(Vec<Burst>),
    /// A slot opens or resumes a session on a new connection.
    Greet(Greeting),
    /// The connection of a slot is closed without closing its session.
    Drop(usize),
}

/// The state of a slot, as far as the generator must know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// The slot has no session.
    Vacant,
    /// The slot has a session but no connection.
    Detached,
    /// The slot has a session and a connection.
    Attached,
}

/// Paths that a server must refuse, and paths that only look as if it must.
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

/// The names below a parent that most requests use. A name that occurs more than once is more
/// likely.
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

/// The names below each parent that exist at the start of a seed.
pub const NAMES_MADE: [&str; 3] = ["a", "b", "a/x"];

/// Generates the rounds and requests of a seed.
pub struct Generator {
    /// The only source of randomness.
    pub random: Random,
    next_xid: i32,
}

impl Generator {
    /// A generator for a seed. The rounds depend on the seed and on the states of the slots only.
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

    /// A greeting that moves a session to a new connection while the old one is still open.
    fn moving(&mut self, slot: usize) -> Greeting {
        let greeting = self.greeting(slot, Slot::Attached);
        Greeting { session: AskedSession::Own, seen_ahead: greeting.seen_ahead.min(0), ..greeting }
    }

    /// A burst of requests below `/d`, the parent that all sessions share, and a few below the
    /// slot's own.
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

    /// A burst of requests below the slot's own parent.
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

    /// Makes a burst of requests, cut into pieces at any byte. A request that follows a setACL or
    /// createContainer waits for its answer: until then the real server judges by its change record
    /// (`PrepRequestProcessor`), which still has the old ACL, and which takes a container's kind
    /// from the create flags.
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

    /// Encodes a request, with a new xid if its kind has no fixed one.
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

    /// A random request about znodes below `parent`. `shared` means that no other session writes in
    /// this round; then the path may also be one of [`NASTY`].
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

    /// A random write.
    fn write_request(&mut self, parent: &str, shared: bool) -> Asked {
        let mut parts = self.write_parts(parent, shared);
        let set_acl = shared && self.random.chance(9);
        if parts.kind == CreateKind::Ttl && !matches!(parts.flags, 5 | 6) {
            // A negative time to live would crash the real server if the request got that far.
            parts.ttl_ms = parts.ttl_ms.max(0);
        }
        if parts.kind == CreateKind::Container && !shared {
            parts.kind = CreateKind::Create2;
        }
        if parts.operation == Operation::Check {
            // Outside of a multi a check is an unknown operation.
            parts.operation = Operation::SetData;
        }
        let request = if set_acl { parts.set_acl() } else { parts.request() };
        self.asked(&Request::Write(request))
    }

    /// A multi of random writes.
    fn multi(&mut self, parent: &str, shared: bool) -> Asked {
        let count = self.random.below(6);
        let mut parts: Vec<WriteParts> =
            (0..count).map(|_| self.write_parts(parent, shared)).collect();
        for part in &mut parts {
            // For the reason given at `in_pieces`. The rest of a multi cannot wait for an answer,
            // so the flags that matter are avoided.
            if part.kind == CreateKind::Container && matches!(part.flags, 1 | 3) {
                part.flags -= 1;
            }
        }
        self.asked(&Request::Multi(parts.iter().map(WriteParts::request).collect()))
    }

    /// A multi of random reads.
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

    /// A request that adds a persistent watch, checks for watches, or removes them.
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
        // All sessions may write below the root at once, so a recursive watch on the root would get
        // its events in a random order.
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
        // No time to live that is drawn here ends while the seed runs.
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

    /// A path to write to. It is never the parent itself, since all sessions share the children of
    /// `/`.
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

    /// A request that sets watches again, on random paths below `/d`. Some of them never existed.
    fn set_watches(&mut self) -> Asked {
        let mut lists: [Vec<String>; 5] = Default::default();
        for list in &mut lists {
            for _ in 0..self.random.below(6) {
                list.push(self.read_path("/d", true));
            }
        }
        // For the reason given at `watch_request`.
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

    /// A request whose body is cut off, as no client sends it.
    fn malformed(&mut self) -> Asked {
        let mut asked = match self.random.below(4) {
            0 => self.set_watches(),
            _ => self.request("/d", false),
        };
        asked.zxid_back = None;
        // The cut is after the frame length, the xid and the opcode.
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

/// An ACL entry.
pub fn entry(perms: u32, scheme: &str, id: &str) -> AclEntry {
    AclEntry { perms, scheme: scheme.into(), id: id.into() }
}

/// The content of a good reply to this opcode, and whether the request takes a zxid.
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

/// The parts of a write request, with its own path and data. A `WriteRequest` only borrows them.
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

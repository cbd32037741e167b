//! The session of a client, and what the client keeps from one connection to the next: the newest
//! zxid that it has seen, the users that it has authenticated as, and its watches.

use std::collections::BTreeSet;

use workload::op::{EventKind, Op, Watching, error};

/// The list in `setWatches` or `setWatches2` that a watch belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Table {
    Data,
    Exist,
    Child,
    Persistent,
    Recursive,
}

/// The session of a client.
pub(super) struct Session {
    /// The session that the client asks for on its next connection; 0 for a new one.
    id: i64,
    password: [u8; 16],
    /// The last timeout that a server gave it, in ms; 0 if none did.
    timeout_ms: u32,
    last_zxid: i64,
    /// The users that the client has authenticated as, in order. It does so again on each
    /// connection.
    users: Vec<usize>,
    watches: BTreeSet<(Table, String)>,
}

impl Session {
    /// No session.
    pub fn new() -> Session {
        Session {
            id: 0,
            password: [0; 16],
            timeout_ms: 0,
            last_zxid: 0,
            users: Vec::new(),
            watches: BTreeSet::new(),
        }
    }

    /// The session that the client asks for; 0 for a new one.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// The password of the session.
    pub fn password(&self) -> [u8; 16] {
        self.password
    }

    /// The last timeout that a server gave it, in ms; 0 if none did.
    pub fn timeout_ms(&self) -> u32 {
        self.timeout_ms
    }

    /// The timeout that the client acts by, in us: at least one second.
    pub fn timeout_us(&self) -> u64 {
        u64::from(self.timeout_ms.max(1_000)) * 1000
    }

    /// The newest zxid that the client has seen.
    pub fn last_zxid(&self) -> i64 {
        self.last_zxid
    }

    /// Keeps this session, to ask for it on the next connection.
    pub fn keep(&mut self, id: i64, password: [u8; 16]) {
        (self.id, self.password) = (id, password);
    }

    /// Notes the timeout that a server gave.
    pub fn set_timeout(&mut self, timeout_ms: u32) {
        self.timeout_ms = timeout_ms;
    }

    /// Forgets the session, which has ended, with its users and watches.
    pub fn forget(&mut self) {
        self.id = 0;
        self.password = [0; 16];
        self.last_zxid = 0;
        self.users.clear();
        self.watches.clear();
    }

    /// Learns from an answer: the zxid, watches and users.
    pub fn on_answer(&mut self, op: &Op, code: i32, zxid: i64) {
        self.last_zxid = self.last_zxid.max(zxid);
        self.learn_watches(op, code);
        if let Op::Auth { user } = op
            && !self.users.contains(user)
        {
            self.users.push(*user);
        }
    }

    /// Forgets the watches that this event removes.
    pub fn on_event(&mut self, kind: EventKind, path: &str) {
        let gone: &[Table] = match kind {
            EventKind::Created | EventKind::DataChanged => &[Table::Data, Table::Exist],
            EventKind::Deleted => &[Table::Data, Table::Exist, Table::Child],
            EventKind::ChildrenChanged => &[Table::Child],
        };
        for table in gone {
            self.watches.remove(&(*table, path.to_string()));
        }
    }

    /// The requests that authenticate the client again as all users that it has authenticated as.
    pub fn proofs(&self) -> Vec<Op> {
        self.users.iter().map(|user| Op::Auth { user: *user }).collect()
    }

    /// The request that sets the client's watches again; `None` without watches.
    pub fn watches_again(&self) -> Option<Op> {
        if self.watches.is_empty() {
            return None;
        }
        let of = |table: Table| {
            let wanted = self.watches.iter().filter(|(of, _)| *of == table);
            wanted.map(|(_, path)| path.clone()).collect::<Vec<_>>()
        };
        let relative_zxid = self.last_zxid;
        let (data, exist, child) = (of(Table::Data), of(Table::Exist), of(Table::Child));
        let (persistent, recursive) = (of(Table::Persistent), of(Table::Recursive));
        // `ClientCnxn.SendThread.primeConnection`
        Some(match persistent.is_empty() && recursive.is_empty() {
            true => Op::SetWatches { relative_zxid, data, exist, child },
            false => Op::SetWatches2 { relative_zxid, data, exist, child, persistent, recursive },
        })
    }

    /// Updates its list of watches after an answer. ZooKeeper's clients keep such a list to set the
    /// watches again.
    fn learn_watches(&mut self, op: &Op, code: i32) {
        if let (Op::FindWatch { path, which, removes: true }, error::OK) = (op, code) {
            for table in tables_of(*which) {
                self.watches.remove(&(*table, path.clone()));
            }
        }
        let mut add = |table: Table, path: &String| {
            self.watches.insert((table, path.clone()));
        };
        match (op, code) {
            (Op::Exists { path, watch: true }, error::OK)
            | (Op::GetData { path, watch: true }, error::OK) => add(Table::Data, path),
            (Op::Exists { path, watch: true }, error::NO_NODE) => add(Table::Exist, path),
            (Op::GetChildren { path, watch: true, .. }, error::OK) => add(Table::Child, path),
            (Op::AddWatch { path, is_recursive: false }, error::OK) => add(Table::Persistent, path),
            (Op::AddWatch { path, is_recursive: true }, error::OK) => add(Table::Recursive, path),
            _ => {}
        }
    }
}

fn tables_of(which: Watching) -> &'static [Table] {
    match which {
        Watching::Children => &[Table::Child],
        Watching::Data => &[Table::Data, Table::Exist],
        Watching::Persistent => &[Table::Persistent],
        Watching::Recursive => &[Table::Recursive],
        Watching::Any => {
            &[Table::Data, Table::Exist, Table::Child, Table::Persistent, Table::Recursive]
        }
    }
}

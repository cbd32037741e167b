//! Operations on a znode tree as a client asks them, and what can come of them.

/// Permission bits of an ACL entry (`ZooDefs.Perms`, ZooKeeper 3.9).
pub mod perms {
    /// Read the data and list the children.
    pub const READ: u32 = 1;
    /// Set the data.
    pub const WRITE: u32 = 2;
    /// Create children.
    pub const CREATE: u32 = 4;
    /// Delete children.
    pub const DELETE: u32 = 8;
    /// Set the ACL.
    pub const ADMIN: u32 = 16;
    /// All five.
    pub const ALL: u32 = 31;
}

/// Error codes that the judge knows (`KeeperException.Code`, ZooKeeper 3.9).
pub mod error {
    /// No error.
    pub const OK: i32 = 0;
    /// The server cannot take the write for now; it was never logged.
    pub const SYSTEM_ERROR: i32 = -1;
    /// In a multi: an operation after the one that failed.
    pub const RUNTIME_INCONSISTENCY: i32 = -2;
    /// The body of a request does not decode.
    pub const MARSHALLING_ERROR: i32 = -5;
    /// An operation that is unknown, or that a setting turns off.
    pub const UNIMPLEMENTED: i32 = -6;
    /// An argument is not acceptable.
    pub const BAD_ARGUMENTS: i32 = -8;
    /// No such znode.
    pub const NO_NODE: i32 = -101;
    /// Not allowed.
    pub const NO_AUTH: i32 = -102;
    /// Another version.
    pub const BAD_VERSION: i32 = -103;
    /// The parent is ephemeral.
    pub const NO_CHILDREN_FOR_EPHEMERALS: i32 = -108;
    /// The znode exists.
    pub const NODE_EXISTS: i32 = -110;
    /// The znode has children.
    pub const NOT_EMPTY: i32 = -111;
    /// The ACL names nobody.
    pub const INVALID_ACL: i32 = -114;
    /// The session is gone.
    pub const SESSION_EXPIRED: i32 = -112;
    /// The session moved to another connection.
    pub const SESSION_MOVED: i32 = -118;
    /// The connection is served reads only.
    pub const NOT_READ_ONLY: i32 = -119;
    /// There is no such watch.
    pub const NO_WATCHER: i32 = -121;
    /// The server had the request wait for too long, and did not take it.
    pub const THROTTLED_OP: i32 = -127;
    /// A hard quota does not allow it.
    pub const QUOTA_EXCEEDED: i32 = -125;
}

/// Create flags (`CreateMode`, ZooKeeper 3.9).
pub mod flag {
    /// Stays until it is deleted.
    pub const PERSISTENT: i32 = 0;
    /// Goes with its session.
    pub const EPHEMERAL: i32 = 1;
    /// Persistent, with the parent's counter in its name.
    pub const PERSISTENT_SEQUENTIAL: i32 = 2;
    /// Ephemeral, with the parent's counter in its name.
    pub const EPHEMERAL_SEQUENTIAL: i32 = 3;
    /// A container; in a plain create this is a persistent znode.
    pub const CONTAINER: i32 = 4;
    /// With a time to live: refused unless a setting allows it, and by a plain create.
    pub const TTL: i32 = 5;
    /// The same, with the parent's counter in its name.
    pub const SEQUENTIAL_TTL: i32 = 6;

    /// Whether the parent's counter goes into the name.
    pub fn is_sequential(flag: i32) -> bool {
        matches!(flag, PERSISTENT_SEQUENTIAL | EPHEMERAL_SEQUENTIAL | SEQUENTIAL_TTL)
    }
}

/// Which of the creates it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateRequest {
    /// `create`: the path is in the reply.
    Create,
    /// `create2`: the stat, too.
    Create2,
    /// `createContainer`, with the flag of containers; replies as `create2`.
    Container,
    /// `createTTL`, with a flag of znodes with a time to live; replies as `create2`.
    Ttl {
        /// The time.
        ttl_ms: i64,
    },
}

/// A user of the digest scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// Name and password, as an auth packet has them.
    pub credentials: &'static str,
    /// Its id in an ACL: the name, and the SHA-1 of the credentials in base 64, worked out apart.
    pub id: &'static str,
}

/// The users that clients can be.
pub const USERS: [User; 3] = [
    User { credentials: "ann:one", id: "ann:grDcJ7OS1jCu/cG2TyJHw/I9L8o=" },
    User { credentials: "bob:two", id: "bob:yqVrLFrvoaI9z9fohteaNPJvRu8=" },
    User { credentials: "eve:three", id: "eve:SP8oM+JZiFIhEVvIKGI0fgz1/6g=" },
];

/// The users that may do everything with a znode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The one of [`USERS`] at this position.
    User(usize),
    /// All users that the connection has proved to be (the scheme `auth`).
    Asker,
}

/// The watches of a path that are meant (`Watcher.WatcherType`, ZooKeeper 3.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watching {
    /// The one of the children, which fires once.
    Children,
    /// The one of the data or of a znode that does not exist, which fires once.
    Data,
    /// The one that stays.
    Persistent,
    /// The one that stays and is told of everything below, too.
    Recursive,
    /// All of them.
    Any,
}

/// Where a frame stands that no server takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadFrame {
    /// First on its connection, where a connect request is due.
    InsteadOfConnect,
    /// Behind the connect request. The server closes without an answer.
    Request,
    /// Behind the connect request, with an unknown operation code. The server answers with an
    /// error and then closes.
    UnknownOperation,
}

/// An operation. ACLs are `world:anyone` with the given permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Make a znode.
    Create {
        /// Where.
        path: String,
        /// Its data.
        data: Option<Vec<u8>>,
        /// What everyone may do with it.
        perms: u32,
        /// Of [`flag`].
        flag: i32,
        /// By which request.
        request: CreateRequest,
    },
    /// Remove a znode.
    Delete {
        /// Which.
        path: String,
        /// The version it must have, or -1.
        version: i32,
    },
    /// Replace the data.
    SetData {
        /// Of which znode.
        path: String,
        /// The new data.
        data: Option<Vec<u8>>,
        /// The version it must have, or -1.
        version: i32,
    },
    /// Replace the ACL.
    SetAcl {
        /// Of which znode.
        path: String,
        /// What everyone may do with it.
        perms: u32,
        /// The ACL version it must have, or -1.
        version: i32,
    },
    /// Compare the version; only in a multi.
    Check {
        /// Of which znode.
        path: String,
        /// The version it must have, or -1.
        version: i32,
    },
    /// Several writes, all or none.
    Multi(Vec<Op>),
    /// The stat, if it exists.
    Exists {
        /// Of which znode.
        path: String,
        /// Whether to set a watch.
        watch: bool,
    },
    /// Data and stat.
    GetData {
        /// Of which znode.
        path: String,
        /// Whether to set a watch.
        watch: bool,
    },
    /// Names of the children.
    GetChildren {
        /// Of which znode.
        path: String,
        /// Whether to set a watch.
        watch: bool,
        /// Whether the stat is wanted too.
        with_stat: bool,
    },
    /// ACL and stat.
    GetAcl {
        /// Of which znode.
        path: String,
    },
    /// Several reads ([`Op::GetData`], [`Op::GetChildren`] without stat), each with its result.
    MultiRead(Vec<Op>),
    /// Wait until the server has what was committed before.
    Sync {
        /// Given back.
        path: String,
    },
    /// Set the watches of an earlier connection again.
    SetWatches {
        /// What changed later was missed.
        relative_zxid: i64,
        /// Paths with a data watch.
        data: Vec<String>,
        /// Paths watched for creation.
        exist: Vec<String>,
        /// Paths with a child watch.
        child: Vec<String>,
    },
    /// Set the watches of an earlier connection again, with those that stay.
    SetWatches2 {
        /// The zxid behind which changes were missed by the watches that fire once.
        relative_zxid: i64,
        /// Paths with a data watch.
        data: Vec<String>,
        /// Paths watched for creation.
        exist: Vec<String>,
        /// Paths with a child watch.
        child: Vec<String>,
        /// Paths with a persistent watch.
        persistent: Vec<String>,
        /// Paths with a persistent recursive watch.
        recursive: Vec<String>,
    },
    /// Set a watch that stays.
    AddWatch {
        /// On which path.
        path: String,
        /// Whether it is told of everything below, too.
        is_recursive: bool,
    },
    /// Ask whether this connection has a watch, and take it out if that is wanted.
    FindWatch {
        /// On which path.
        path: String,
        /// The kinds that are looked for.
        which: Watching,
        /// Whether they are taken out.
        removes: bool,
    },
    /// Prove to be the user at this position in [`USERS`].
    Auth {
        /// The position.
        user: usize,
    },
    /// Make a znode that others may not change.
    CreateOwned {
        /// Where.
        path: String,
        /// Its data.
        data: Option<Vec<u8>>,
        /// The users that may do everything with it.
        owner: Owner,
        /// Permissions of everyone.
        others: u32,
        /// [`flag::PERSISTENT`] or [`flag::EPHEMERAL`].
        flag: i32,
    },
    /// Replace the ACL by one that others may not change.
    SetAclOwned {
        /// The znode.
        path: String,
        /// The users that may do everything with it.
        owner: Owner,
        /// Permissions of everyone.
        others: u32,
        /// The ACL version it must have, or -1.
        version: i32,
    },
    /// Send what no server takes: the server closes the connection and does nothing that was sent
    /// behind it.
    BadFrame {
        /// Where it stands, and whether it is answered.
        kind: BadFrame,
        /// As they are sent.
        bytes: Vec<u8>,
    },
    /// Send a request whose body does not decode: the server answers with an error.
    Undecodable {
        /// Whether it takes its place in the log, and a zxid.
        is_write: bool,
        /// As they are sent.
        bytes: Vec<u8>,
    },
    /// Say that the client is alive.
    Ping,
    /// End the session.
    CloseSession,
}

/// What identifies a write in the committed order: kind, path and data of each operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature(pub Vec<(char, String, Option<Vec<u8>>)>);

impl Op {
    /// Whether it goes to the log.
    pub fn is_write(&self) -> bool {
        matches!(
            self,
            Op::Create { .. }
                | Op::Delete { .. }
                | Op::SetData { .. }
                | Op::SetAcl { .. }
                | Op::CreateOwned { .. }
                | Op::SetAclOwned { .. }
                | Op::Multi(_)
                | Op::CloseSession
                | Op::Undecodable { is_write: true, .. }
        )
    }

    /// Whether a server without a leader refuses it on a connection that it serves reads only. The
    /// end of a session that only this server knows is no write there
    /// (`ReadOnlyRequestProcessor.run`).
    pub fn needs_leader(&self, session_is_local: bool) -> bool {
        match self {
            Op::CloseSession => !session_is_local,
            op => op.is_write() || matches!(op, Op::Sync { .. }),
        }
    }

    /// Whether the zxid of its reply says only what the server has sent on before. Such a reply
    /// shows nothing of the state.
    pub fn shows_nothing(&self) -> bool {
        let is_undecodable = matches!(self, Op::Undecodable { is_write: false, .. });
        *self == Op::Ping || is_undecodable || self.has_no_zxid()
    }

    /// Whether its reply has no zxid of a state.
    pub fn has_no_zxid(&self) -> bool {
        matches!(self, Op::BadFrame { .. } | Op::Auth { .. })
    }

    /// What identifies it in the committed order. Empty for reads.
    pub fn signature(&self) -> Signature {
        let one = |op: &Op| match op {
            Op::Create { path, data, .. } | Op::CreateOwned { path, data, .. } => {
                Some(('c', path.clone(), data.clone()))
            }
            Op::Delete { path, .. } => Some(('d', path.clone(), None)),
            Op::SetData { path, data, .. } => Some(('s', path.clone(), data.clone())),
            Op::SetAcl { path, .. } | Op::SetAclOwned { path, .. } => {
                Some(('a', path.clone(), None))
            }
            Op::Check { path, .. } => Some(('v', path.clone(), None)),
            Op::CloseSession => Some(('x', String::new(), None)),
            Op::Undecodable { is_write: true, .. } => Some(('?', String::new(), None)),
            _ => None,
        };
        Signature(match self {
            Op::Multi(ops) => ops.iter().filter_map(one).collect(),
            op => one(op).into_iter().collect(),
        })
    }
}

/// A Stat (`zookeeper.jute`).
#[allow(missing_docs)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    pub czxid: i64,
    pub mzxid: i64,
    pub ctime: i64,
    pub mtime: i64,
    pub version: i32,
    pub cversion: i32,
    pub aversion: i32,
    pub ephemeral_owner: i64,
    pub data_bytes: i32,
    pub child_count: i32,
    pub pzxid: i64,
}

/// The body of a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// None.
    Empty,
    /// Of a create, or of a sync.
    Path(String),
    /// Of a create that wants the stat.
    PathStat(String, Stat),
    /// Of exists, set data, set ACL.
    Stat(Stat),
    /// Of get data.
    Data(Option<Vec<u8>>, Stat),
    /// Of get children, sorted.
    Children(Vec<String>),
    /// The same with the stat.
    ChildrenStat(Vec<String>, Stat),
    /// Of get ACL: what everyone may do.
    Acl(u32, Stat),
    /// The ACL of a znode with owners: their ids, and the permissions of everyone.
    OwnedAcl(Vec<String>, u32, Stat),
    /// Of a multi: a result each, or an error code each.
    Multi(Vec<Result<Answer, i32>>),
}

/// What a watch tells (`Watcher.Event.EventType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// The znode was made.
    Created,
    /// The znode was removed.
    Deleted,
    /// The data was set.
    DataChanged,
    /// A child was made or removed.
    ChildrenChanged,
}

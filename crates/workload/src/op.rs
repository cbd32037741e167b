//! Operations on a znode tree as a client asks for them, and their possible outcomes.

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
    /// With a time to live, and with the parent's counter in its name.
    pub const SEQUENTIAL_TTL: i32 = 6;

    /// Whether the parent's counter goes into the name.
    pub fn is_sequential(flag: i32) -> bool {
        matches!(flag, PERSISTENT_SEQUENTIAL | EPHEMERAL_SEQUENTIAL | SEQUENTIAL_TTL)
    }
}

/// The kind of create request.
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
        /// The time to live.
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

/// The kind of watch on a path that is meant (`Watcher.WatcherType`, ZooKeeper 3.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watching {
    /// The watch of the children, which fires once.
    Children,
    /// The watch of the data, or of a znode that does not exist, which fires once.
    Data,
    /// The persistent watch, which stays.
    Persistent,
    /// The persistent watch that fires for everything below, too.
    Recursive,
    /// All of them.
    Any,
}

/// The place of a frame that no server accepts.
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
        /// The path of the znode.
        path: String,
        /// Its data.
        data: Option<Vec<u8>>,
        /// Permissions of everyone.
        perms: u32,
        /// The create flag, from [`flag`].
        flag: i32,
        /// The request that makes it.
        request: CreateRequest,
    },
    /// Remove a znode.
    Delete {
        /// The path of the znode.
        path: String,
        /// The version it must have, or -1.
        version: i32,
    },
    /// Replace the data.
    SetData {
        /// The path of the znode.
        path: String,
        /// The new data.
        data: Option<Vec<u8>>,
        /// The version it must have, or -1.
        version: i32,
    },
    /// Replace the ACL.
    SetAcl {
        /// The path of the znode.
        path: String,
        /// Permissions of everyone.
        perms: u32,
        /// The ACL version it must have, or -1.
        version: i32,
    },
    /// Compare the version; only in a multi.
    Check {
        /// The path of the znode.
        path: String,
        /// The version it must have, or -1.
        version: i32,
    },
    /// Several writes, all or none.
    Multi(Vec<Op>),
    /// The stat, if it exists.
    Exists {
        /// The path of the znode.
        path: String,
        /// Whether to set a watch.
        watch: bool,
    },
    /// Data and stat.
    GetData {
        /// The path of the znode.
        path: String,
        /// Whether to set a watch.
        watch: bool,
    },
    /// Names of the children.
    GetChildren {
        /// The path of the znode.
        path: String,
        /// Whether to set a watch.
        watch: bool,
        /// Whether the stat is wanted too.
        with_stat: bool,
    },
    /// ACL and stat.
    GetAcl {
        /// The path of the znode.
        path: String,
    },
    /// Several reads ([`Op::GetData`], [`Op::GetChildren`] without stat), each with its result.
    MultiRead(Vec<Op>),
    /// Wait until the server has what was committed before.
    Sync {
        /// A path, which the reply repeats.
        path: String,
    },
    /// Set the watches of an earlier connection again.
    SetWatches {
        /// The zxid behind which the client missed changes.
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
        /// The path.
        path: String,
        /// Whether it fires for everything below, too.
        is_recursive: bool,
    },
    /// Ask whether this connection has a watch, and take it out if that is wanted.
    FindWatch {
        /// The path.
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
        /// The path of the znode.
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
    /// Send a frame that no server accepts: the server closes the connection and does nothing that
    /// was sent behind it.
    BadFrame {
        /// The place of the frame, which decides whether it is answered.
        kind: BadFrame,
        /// The bytes of the frame.
        bytes: Vec<u8>,
    },
    /// Send a request whose body does not decode: the server answers with an error.
    Undecodable {
        /// Whether it takes its place in the log, and a zxid.
        is_write: bool,
        /// The bytes of the frame.
        bytes: Vec<u8>,
    },
    /// Say that the client is alive.
    Ping,
    /// End the session.
    CloseSession,
}

/// A write's identity in the committed order: kind, path and data of each operation.
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

    /// Whether a server without a leader refuses it on a connection that it serves reads only.
    /// Closing a session that only this server knows is no write there
    /// (`ReadOnlyRequestProcessor.run`).
    pub fn needs_leader(&self, session_is_local: bool) -> bool {
        match self {
            Op::CloseSession => !session_is_local,
            op => op.is_write() || matches!(op, Op::Sync { .. }),
        }
    }

    /// Whether the zxid of its reply is only the last one that the server sent on. Such a reply
    /// shows nothing of the state.
    pub fn shows_nothing(&self) -> bool {
        let is_undecodable = matches!(self, Op::Undecodable { is_write: false, .. });
        *self == Op::Ping || is_undecodable || self.has_no_zxid()
    }

    /// Whether its reply has no zxid of a state.
    pub fn has_no_zxid(&self) -> bool {
        matches!(self, Op::BadFrame { .. } | Op::Auth { .. })
    }

    /// The operation's identity in the committed order. Empty for reads.
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
    /// An empty body.
    Empty,
    /// The answer to a create, or to a sync.
    Path(String),
    /// The answer to a create that wants the stat.
    PathStat(String, Stat),
    /// The answer to exists, set data and set ACL.
    Stat(Stat),
    /// The answer to get data.
    Data(Option<Vec<u8>>, Stat),
    /// The answer to get children, sorted.
    Children(Vec<String>),
    /// The answer to get children that wants the stat, sorted.
    ChildrenStat(Vec<String>, Stat),
    /// The answer to get ACL: permissions of everyone.
    Acl(u32, Stat),
    /// The ACL of a znode with owners: their ids, and the permissions of everyone.
    OwnedAcl(Vec<String>, u32, Stat),
    /// The answer to a multi: a result or an error code for each operation.
    Multi(Vec<Result<Answer, i32>>),
}

/// The kind of a watch event (`Watcher.Event.EventType`).
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

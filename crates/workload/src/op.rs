//! Operations on a znode tree as clients send them, and their possible answers.

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

/// The error codes that the judges know (`KeeperException.Code`, ZooKeeper 3.9).
pub mod error {
    /// No error.
    pub const OK: i32 = 0;
    /// The server cannot take the write at present; the write never entered the log.
    pub const SYSTEM_ERROR: i32 = -1;
    /// In a multi: the operation comes after the one that failed.
    pub const RUNTIME_INCONSISTENCY: i32 = -2;
    /// The body of the request does not decode.
    pub const MARSHALLING_ERROR: i32 = -5;
    /// The operation is unknown, or a setting disables it.
    pub const UNIMPLEMENTED: i32 = -6;
    /// An argument is invalid.
    pub const BAD_ARGUMENTS: i32 = -8;
    /// The znode does not exist.
    pub const NO_NODE: i32 = -101;
    /// The permission is missing.
    pub const NO_AUTH: i32 = -102;
    /// The znode has another version.
    pub const BAD_VERSION: i32 = -103;
    /// The parent is ephemeral.
    pub const NO_CHILDREN_FOR_EPHEMERALS: i32 = -108;
    /// The znode exists already.
    pub const NODE_EXISTS: i32 = -110;
    /// The znode has children.
    pub const NOT_EMPTY: i32 = -111;
    /// The ACL is invalid, for instance without any id.
    pub const INVALID_ACL: i32 = -114;
    /// The session is gone.
    pub const SESSION_EXPIRED: i32 = -112;
    /// The session has moved to another connection.
    pub const SESSION_MOVED: i32 = -118;
    /// The connection is in read-only mode.
    pub const NOT_READ_ONLY: i32 = -119;
    /// The watch does not exist.
    pub const NO_WATCHER: i32 = -121;
    /// The request waited too long in the server, which then refused it.
    pub const THROTTLED_OP: i32 = -127;
    /// A hard limit of a quota is exceeded.
    pub const QUOTA_EXCEEDED: i32 = -125;
}

/// Create flags (`CreateMode`, ZooKeeper 3.9).
pub mod flag {
    /// A znode that stays until it is deleted.
    pub const PERSISTENT: i32 = 0;
    /// A znode that ends with its session.
    pub const EPHEMERAL: i32 = 1;
    /// Persistent; the parent's counter is appended to the name.
    pub const PERSISTENT_SEQUENTIAL: i32 = 2;
    /// Ephemeral; the parent's counter is appended to the name.
    pub const EPHEMERAL_SEQUENTIAL: i32 = 3;
    /// A container. In a plain create this makes a persistent znode.
    pub const CONTAINER: i32 = 4;
    /// A znode with a time to live. Refused in a plain create, or if the settings disable it.
    pub const TTL: i32 = 5;
    /// With a time to live; the parent's counter is appended to the name.
    pub const SEQUENTIAL_TTL: i32 = 6;

    /// Whether the parent's counter is appended to the name.
    pub fn is_sequential(flag: i32) -> bool {
        matches!(flag, PERSISTENT_SEQUENTIAL | EPHEMERAL_SEQUENTIAL | SEQUENTIAL_TTL)
    }
}

/// Which request creates a znode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateRequest {
    /// `create`: the reply has the path.
    Create,
    /// `create2`: the reply has the path and the stat.
    Create2,
    /// `createContainer`, with the flag of containers; the reply is like that of `create2`.
    Container,
    /// `createTTL`, with a flag of znodes with a time to live; the reply is like that of `create2`.
    Ttl {
        /// The time to live, in ms.
        ttl_ms: i64,
    },
}

/// A user of the digest scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    /// The name and the password, as in an auth packet.
    pub credentials: &'static str,
    /// The id in an ACL: the name, and the base64 of the SHA-1 of the credentials (computed with
    /// another program).
    pub id: &'static str,
}

/// The users that clients authenticate as.
pub const USERS: [User; 3] = [
    User { credentials: "ann:one", id: "ann:grDcJ7OS1jCu/cG2TyJHw/I9L8o=" },
    User { credentials: "bob:two", id: "bob:yqVrLFrvoaI9z9fohteaNPJvRu8=" },
    User { credentials: "eve:three", id: "eve:SP8oM+JZiFIhEVvIKGI0fgz1/6g=" },
];

/// The users that have all permissions on a znode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The user at this position in [`USERS`].
    User(usize),
    /// All users that the connection has authenticated as (the scheme `auth`).
    Asker,
}

/// Which watches on a path are meant (`Watcher.WatcherType`, ZooKeeper 3.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watching {
    /// The child watch, which fires once.
    Children,
    /// The watch of the data, or of the creation of a missing znode; it fires once.
    Data,
    /// The persistent watch, which stays after it fires.
    Persistent,
    /// The persistent watch that also fires for everything below.
    Recursive,
    /// All of these.
    Any,
}

/// Where a bad frame is sent, which every server must reject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadFrame {
    /// First on its connection, instead of a connect request.
    InsteadOfConnect,
    /// After the connect request. The server closes the connection without an answer.
    Request,
    /// After the connect request, with an unknown operation code. The server answers with an error
    /// and then closes the connection.
    UnknownOperation,
}

/// An operation. Unless it says otherwise, an ACL is `world:anyone` with the given permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Creates a znode.
    Create {
        /// The path of the znode.
        path: String,
        /// The data.
        data: Option<Vec<u8>>,
        /// The permissions of everyone.
        perms: u32,
        /// The create flag, from [`flag`].
        flag: i32,
        /// The request that creates the znode.
        request: CreateRequest,
    },
    /// Deletes a znode.
    Delete {
        /// The path of the znode.
        path: String,
        /// The version that the znode must have; -1 for any.
        version: i32,
    },
    /// Replaces the data.
    SetData {
        /// The path of the znode.
        path: String,
        /// The new data.
        data: Option<Vec<u8>>,
        /// The version that the znode must have; -1 for any.
        version: i32,
    },
    /// Replaces the ACL.
    SetAcl {
        /// The path of the znode.
        path: String,
        /// The permissions of everyone.
        perms: u32,
        /// The ACL version that the znode must have; -1 for any.
        version: i32,
    },
    /// Checks the version; only in a multi.
    Check {
        /// The path of the znode.
        path: String,
        /// The version that the znode must have; -1 for any.
        version: i32,
    },
    /// Several writes: all happen, or none.
    Multi(Vec<Op>),
    /// Reads the stat of a znode, which need not exist.
    Exists {
        /// The path of the znode.
        path: String,
        /// Whether to set a watch.
        watch: bool,
    },
    /// Reads the data and the stat.
    GetData {
        /// The path of the znode.
        path: String,
        /// Whether to set a watch.
        watch: bool,
    },
    /// Reads the names of the children.
    GetChildren {
        /// The path of the znode.
        path: String,
        /// Whether to set a watch.
        watch: bool,
        /// Whether the reply must have the stat, too.
        with_stat: bool,
    },
    /// Reads the ACL and the stat.
    GetAcl {
        /// The path of the znode.
        path: String,
    },
    /// Several reads ([`Op::GetData`], [`Op::GetChildren`] without stat), each with its own result.
    MultiRead(Vec<Op>),
    /// Waits until the server has applied everything that was committed before.
    Sync {
        /// A path, which the reply repeats.
        path: String,
    },
    /// Sets the watches of an earlier connection again.
    SetWatches {
        /// The last zxid that the client has seen; it missed later changes.
        relative_zxid: i64,
        /// Paths with a data watch.
        data: Vec<String>,
        /// Paths with a watch for their creation.
        exist: Vec<String>,
        /// Paths with a child watch.
        child: Vec<String>,
    },
    /// Sets the watches of an earlier connection again, including persistent ones.
    SetWatches2 {
        /// The last zxid that the client has seen; watches that fire once missed later changes.
        relative_zxid: i64,
        /// Paths with a data watch.
        data: Vec<String>,
        /// Paths with a watch for their creation.
        exist: Vec<String>,
        /// Paths with a child watch.
        child: Vec<String>,
        /// Paths with a persistent watch.
        persistent: Vec<String>,
        /// Paths with a persistent recursive watch.
        recursive: Vec<String>,
    },
    /// Sets a persistent watch.
    AddWatch {
        /// The path.
        path: String,
        /// Whether the watch also fires for everything below.
        is_recursive: bool,
    },
    /// Asks whether the connection has a watch, and may remove it.
    FindWatch {
        /// The path.
        path: String,
        /// Which watches are meant.
        which: Watching,
        /// Whether the watches are removed.
        removes: bool,
    },
    /// Authenticates as a user.
    Auth {
        /// The user's position in [`USERS`].
        user: usize,
    },
    /// Creates a znode with owners, which others may not change freely.
    CreateOwned {
        /// The path of the znode.
        path: String,
        /// The data.
        data: Option<Vec<u8>>,
        /// The users with all permissions on it.
        owner: Owner,
        /// The permissions of everyone.
        others: u32,
        /// [`flag::PERSISTENT`] or [`flag::EPHEMERAL`].
        flag: i32,
    },
    /// Replaces the ACL by one with owners.
    SetAclOwned {
        /// The path of the znode.
        path: String,
        /// The users with all permissions on it.
        owner: Owner,
        /// The permissions of everyone.
        others: u32,
        /// The ACL version that the znode must have; -1 for any.
        version: i32,
    },
    /// Sends a bad frame, which every server must reject: the server closes the connection and
    /// handles nothing sent after the frame.
    BadFrame {
        /// Where the frame is sent, which decides whether it is answered.
        kind: BadFrame,
        /// The bytes of the frame.
        bytes: Vec<u8>,
    },
    /// Sends a request whose body does not decode: the server answers with an error.
    Undecodable {
        /// Whether the request enters the log and gets a zxid.
        is_write: bool,
        /// The bytes of the frame.
        bytes: Vec<u8>,
    },
    /// Tells the server that the client is alive.
    Ping,
    /// Closes the session.
    CloseSession,
}

/// Identifies a write in the committed order. For each of its operations it has a letter for the
/// kind, the path, and the data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature(pub Vec<(char, String, Option<Vec<u8>>)>);

impl Op {
    /// Whether the operation enters the log.
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

    /// Whether a server without a leader refuses it on a connection in read-only mode. There,
    /// closing a local session, which only this server knows, is no write
    /// (`ReadOnlyRequestProcessor.run`).
    pub fn needs_leader(&self, session_is_local: bool) -> bool {
        match self {
            Op::CloseSession => !session_is_local,
            op => op.is_write() || matches!(op, Op::Sync { .. }),
        }
    }

    /// Whether the zxid in the operation's reply is just the last one that the server sent, so that
    /// the reply shows no state.
    pub fn shows_nothing(&self) -> bool {
        let is_undecodable = matches!(self, Op::Undecodable { is_write: false, .. });
        *self == Op::Ping || is_undecodable || self.has_no_zxid()
    }

    /// Whether the operation's reply has no meaningful zxid.
    pub fn has_no_zxid(&self) -> bool {
        matches!(self, Op::BadFrame { .. } | Op::Auth { .. })
    }

    /// Identifies the operation in the committed order; empty for reads.
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
    /// To a create or a sync: the path.
    Path(String),
    /// To a create that asks for the stat.
    PathStat(String, Stat),
    /// To exists, set data and set ACL.
    Stat(Stat),
    /// To get data.
    Data(Option<Vec<u8>>, Stat),
    /// To get children: the sorted names.
    Children(Vec<String>),
    /// To get children with stat: the sorted names.
    ChildrenStat(Vec<String>, Stat),
    /// To get ACL: the permissions of everyone.
    Acl(u32, Stat),
    /// To get ACL of a znode with owners: their ids, and the permissions of everyone.
    OwnedAcl(Vec<String>, u32, Stat),
    /// To a multi: for each operation a result or an error code.
    Multi(Vec<Result<Answer, i32>>),
}

/// The kind of a watch event (`Watcher.Event.EventType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    /// The znode was created.
    Created,
    /// The znode was deleted.
    Deleted,
    /// The data was set.
    DataChanged,
    /// A child was created or deleted.
    ChildrenChanged,
}

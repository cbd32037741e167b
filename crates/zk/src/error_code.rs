//! ZooKeeper's error codes (`KeeperException.Code`, 3.9.5), and the error code for each way in
//! which the state machine refuses a command ([`Refusal`]).

use machine::Refusal;

/// An error code as the header of a reply carries it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorCode(pub i32);

impl ErrorCode {
    /// No error.
    pub const OK: ErrorCode = ErrorCode(0);
    /// The server cannot take the request for now: its disk is full.
    pub const SYSTEM_ERROR: ErrorCode = ErrorCode(-1);
    /// In the results of a failed multi: the code of each operation after the one that failed.
    pub const RUNTIME_INCONSISTENCY: ErrorCode = ErrorCode(-2);
    /// The connection broke. Only clients make this code; no server sends it.
    pub const CONNECTION_LOSS: ErrorCode = ErrorCode(-4);
    /// The request does not decode.
    pub const MARSHALLING_ERROR: ErrorCode = ErrorCode(-5);
    /// The server does not know the operation.
    pub const UNIMPLEMENTED: ErrorCode = ErrorCode(-6);
    /// The server gave up on the operation.
    pub const OPERATION_TIMEOUT: ErrorCode = ErrorCode(-7);
    /// An argument is not acceptable.
    pub const BAD_ARGUMENTS: ErrorCode = ErrorCode(-8);
    /// A quorum of the new servers is not connected and up to date.
    pub const NEW_CONFIG_NO_QUORUM: ErrorCode = ErrorCode(-13);
    /// Another change of the servers is under way.
    pub const RECONFIG_IN_PROGRESS: ErrorCode = ErrorCode(-14);
    /// The znode does not exist.
    pub const NO_NODE: ErrorCode = ErrorCode(-101);
    /// The ACL does not allow the operation.
    pub const NO_AUTH: ErrorCode = ErrorCode(-102);
    /// The znode does not have the version that the request names.
    pub const BAD_VERSION: ErrorCode = ErrorCode(-103);
    /// The parent is ephemeral.
    pub const NO_CHILDREN_FOR_EPHEMERALS: ErrorCode = ErrorCode(-108);
    /// The znode exists already.
    pub const NODE_EXISTS: ErrorCode = ErrorCode(-110);
    /// The znode has children.
    pub const NOT_EMPTY: ErrorCode = ErrorCode(-111);
    /// The session has expired or was closed.
    pub const SESSION_EXPIRED: ErrorCode = ErrorCode(-112);
    /// The ACL is empty or malformed.
    pub const INVALID_ACL: ErrorCode = ErrorCode(-114);
    /// The server did not accept the credentials.
    pub const AUTH_FAILED: ErrorCode = ErrorCode(-115);
    /// The session has been taken over by another connection.
    pub const SESSION_MOVED: ErrorCode = ErrorCode(-118);
    /// A write on a read-only connection.
    pub const NOT_READ_ONLY: ErrorCode = ErrorCode(-119);
    /// The connection has no such watch.
    pub const NO_WATCHER: ErrorCode = ErrorCode(-121);
    /// The server's configuration disables reconfig.
    pub const RECONFIG_DISABLED: ErrorCode = ErrorCode(-123);
    /// The server requires an authenticated client, and this one is not
    /// (`SESSIONCLOSEDREQUIRESASLAUTH`).
    pub const AUTH_REQUIRED: ErrorCode = ErrorCode(-124);
    /// The request waited too long before it could be handled.
    pub const THROTTLED_OP: ErrorCode = ErrorCode(-127);
    /// A quota does not allow that many znodes or bytes.
    pub const QUOTA_EXCEEDED: ErrorCode = ErrorCode(-125);

    /// A short description of the code for messages to people; "unknown error" for a code without a
    /// constant here.
    pub fn name(self) -> &'static str {
        match self.0 {
            0 => "ok",
            -1 => "system error",
            -2 => "runtime inconsistency",
            -4 => "connection loss",
            -5 => "marshalling error",
            -6 => "unimplemented",
            -7 => "operation timeout",
            -8 => "bad arguments",
            -101 => "no node",
            -102 => "no auth",
            -103 => "bad version",
            -108 => "no children for ephemerals",
            -110 => "node exists",
            -111 => "not empty",
            -112 => "session expired",
            -114 => "invalid ACL",
            -115 => "auth failed",
            -118 => "session moved",
            -119 => "not read-only",
            -121 => "no watcher",
            -13 => "new configuration without quorum",
            -14 => "reconfig in progress",
            -123 => "reconfig disabled",
            -124 => "authentication required",
            -125 => "quota exceeded",
            -127 => "throttled",
            _ => "unknown error",
        }
    }

    /// The error code for `refusal`. A multi as a whole gets 0, because each of its results carries
    /// its own code.
    pub fn of(refusal: &Refusal) -> ErrorCode {
        match refusal {
            Refusal::BadArguments => ErrorCode::BAD_ARGUMENTS,
            Refusal::NoNode => ErrorCode::NO_NODE,
            Refusal::NoAuth => ErrorCode::NO_AUTH,
            Refusal::BadVersion => ErrorCode::BAD_VERSION,
            Refusal::NoChildrenForEphemerals => ErrorCode::NO_CHILDREN_FOR_EPHEMERALS,
            Refusal::NodeExists => ErrorCode::NODE_EXISTS,
            Refusal::NotEmpty => ErrorCode::NOT_EMPTY,
            Refusal::InvalidAcl => ErrorCode::INVALID_ACL,
            Refusal::SessionExpired | Refusal::WrongPassword | Refusal::SessionIdTaken(_) => {
                ErrorCode::SESSION_EXPIRED
            }
            Refusal::SessionMoved => ErrorCode::SESSION_MOVED,
            Refusal::QuotaExceeded => ErrorCode::QUOTA_EXCEEDED,
            Refusal::Unimplemented => ErrorCode::UNIMPLEMENTED,
            Refusal::Multi { .. } => ErrorCode::OK,
        }
    }
}

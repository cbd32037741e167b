//! The result of a ZooKeeper command: an outcome, or a refusal.

use crate::ids::SessionId;
use crate::zk::stat::Stat;

/// The result of a command that took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A session was opened; the connection that asked owns it.
    Opened,
    /// The connection that asked now owns the session.
    Attached,
    /// The session and its ephemerals were removed.
    Closed,
    /// How many sessions were expired.
    Expired(usize),
    /// How many containers and znodes with a time to live were removed.
    ContainersDeleted(usize),
    /// The settings were replaced.
    Configured,
    /// A znode was made. For a sequential create, its path differs from the requested one.
    Created {
        /// The path of the new znode.
        path: Box<str>,
        /// Its stat.
        stat: Stat,
    },
    /// A znode was removed.
    Deleted,
    /// The data was replaced.
    DataSet(Stat),
    /// The ACL was replaced.
    AclSet(Stat),
    /// The znode has the expected version.
    Checked,
    /// All operations of a multi took effect; their outcomes, in order.
    Multi(Vec<Outcome>),
}

/// Why a command changed nothing but, perhaps, the zxid. It is data rather than an error: all
/// members get the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The path, the flag or the time to live is not acceptable.
    BadArguments,
    /// The znode or its parent does not exist.
    NoNode,
    /// The ACL does not allow the operation.
    NoAuth,
    /// The version is not the expected one.
    BadVersion,
    /// The parent is an ephemeral znode, which cannot have children.
    NoChildrenForEphemerals,
    /// The znode exists already.
    NodeExists,
    /// The znode has children.
    NotEmpty,
    /// The ACL is empty or malformed.
    InvalidAcl,
    /// The session does not exist, or no longer exists.
    SessionExpired,
    /// Another connection has attached to the session since.
    SessionMoved,
    /// The session exists but the password is wrong.
    WrongPassword,
    /// A session has the proposed id already: the member must draw another one.
    SessionIdTaken(SessionId),
    /// A hard limit of a quota would be exceeded.
    QuotaExceeded,
    /// The command needs a setting that is switched off.
    Unimplemented,
    /// An operation of a multi was refused, so none took effect.
    Multi {
        /// The position of the refused operation, from 0.
        position: usize,
        /// Number of operations.
        count: usize,
        /// The reason of its refusal.
        refusal: Box<Refusal>,
    },
}

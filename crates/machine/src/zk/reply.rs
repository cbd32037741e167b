//! The outcome of a ZooKeeper command.

use crate::ids::SessionId;
use crate::zk::stat::Stat;

/// A command that took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A session exists, owned by the connection that asked.
    Opened,
    /// The session is owned by the connection that asked.
    Attached,
    /// The session and its ephemerals are gone.
    Closed,
    /// This many sessions were expired.
    Expired(usize),
    /// This many containers and znodes with a time to live were removed.
    ContainersDeleted(usize),
    /// The settings are replaced.
    Configured,
    /// A znode was made. The path differs from the one asked for when it is sequential.
    Created {
        /// The path of the znode.
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
    /// The version was as expected.
    Checked,
    /// All operations of a multi took effect, in order.
    Multi(Vec<Outcome>),
}

/// A command that changed nothing, and why. Data, not an error: identical on all members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The path, flag or TTL is not acceptable.
    BadArguments,
    /// The znode or its parent does not exist.
    NoNode,
    /// The ACL does not allow the operation.
    NoAuth,
    /// The version is not the expected one.
    BadVersion,
    /// Ephemeral znodes have no children.
    NoChildrenForEphemerals,
    /// The znode exists already.
    NodeExists,
    /// The znode has children.
    NotEmpty,
    /// The ACL is empty or malformed.
    InvalidAcl,
    /// The session does not exist, or no longer.
    SessionExpired,
    /// The session has moved to another connection.
    SessionMoved,
    /// The session exists but the password is wrong.
    WrongPassword,
    /// A session with the proposed id exists: draw another id.
    SessionIdTaken(SessionId),
    /// A quota does not allow that many znodes or bytes.
    QuotaExceeded,
    /// The command needs a setting that is off.
    Unimplemented,
    /// Operation number `position` of a multi was refused, and so nothing was done.
    Multi {
        /// The position of the refused operation, from 0.
        position: usize,
        /// Number of operations.
        count: usize,
        /// The reason of its refusal.
        refusal: Box<Refusal>,
    },
}

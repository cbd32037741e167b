//! The outcomes of etcd's commands.

use crate::etcd::alarm::Alarm;
use crate::etcd::event::Event;
use crate::etcd::token::Token;
use crate::ids::LeaseId;

/// The outcome of a command that took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A put.
    Put(PutDone),
    /// A removal.
    DeleteRange(RangeDeleted),
    /// A transaction, also one that changed nothing.
    Txn(TxnDone),
    /// A compaction, with the present revision.
    Compacted {
        /// The store's revision.
        revision: i64,
    },
    /// The settings are set.
    Configured,
    /// A lease was granted.
    Granted(Granted),
    /// A lease was revoked.
    Revoked {
        /// The store's revision; that of the removal of the lease's keys, if there were any.
        revision: i64,
    },
    /// Leases have expired, as far as the command judged their present grants.
    Expired,
    /// Users, roles or permissions have changed.
    AuthChanged {
        /// The store's revision.
        revision: i64,
    },
    /// An alarm was raised or disarmed.
    Alarmed {
        /// The store's revision.
        revision: i64,
        /// The alarm; `None` if there was no alarm to disarm.
        alarm: Option<Alarm>,
    },
    /// The command took effect, but what it shows is larger than an answer may be, so nothing is
    /// shown. See [`crate::limits::ETCD_ANSWER_WEIGHT_MAX`].
    TooLarge,
    /// A token was made.
    Authenticated {
        /// The store's revision.
        revision: i64,
        /// The token.
        token: Token,
    },
}

/// The outcome of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Granted {
    /// The store's revision.
    pub revision: i64,
    /// The lease.
    pub lease: LeaseId,
    /// The time to live that it got, in seconds.
    pub ttl_s: i64,
}

/// The outcome of a put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutDone {
    /// The revision of the put.
    pub revision: i64,
    /// The version before, if it was asked for and there was one.
    pub prev: Option<Event>,
}

/// The outcome of a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeDeleted {
    /// The revision of the removal; the present one if no key was deleted.
    pub revision: i64,
    /// The number of deleted keys.
    pub count: u64,
    /// The deleted versions, by key, if they were asked for.
    pub prev: Vec<Event>,
}

/// The outcome of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnDone {
    /// The store's revision after it.
    pub revision: i64,
    /// The operations that were run.
    pub branch: Branch,
}

/// The branch of a transaction that was run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Whether all comparisons held.
    pub succeeded: bool,
    /// The outcomes of the operations, in their order.
    pub done: Vec<OpDone>,
}

/// The outcome of an operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpDone {
    /// A read.
    Range(Found),
    /// A put.
    Put(PutDone),
    /// A removal.
    DeleteRange(RangeDeleted),
    /// A nested transaction.
    Txn(Branch),
}

/// The result of a read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The revision that the store had.
    pub revision: i64,
    /// The versions, in the order that was asked for.
    pub events: Vec<Event>,
    /// Whether the values are left out of the response.
    pub keys_only: bool,
    /// The number of keys in the range, whatever the limit and the bounds of revisions.
    pub count: u64,
    /// Whether the limit left keys out.
    pub more: bool,
}

/// Why a command or a read was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A revision is compacted: reads below it, and compactions at or below it, are refused.
    Compacted,
    /// A revision is above the store's.
    FutureRevision,
    /// A put that keeps the value or the lease names a key that does not exist.
    KeyNotFound,
    /// A put or a revocation names a lease that does not exist.
    LeaseNotFound,
    /// A grant names a lease that exists.
    LeaseExists,
    /// A grant asks for a longer time to live than is allowed.
    LeaseTtlTooLarge,
    /// A put or a grant would make the store larger than its quota, or a change of users and roles
    /// would make those larger than they may be.
    NoSpace,
    /// The user `root` must exist before permissions are enforced.
    RootUserMissing,
    /// The user `root` must have the role `root` before permissions are enforced.
    RootRoleMissing,
    /// A user without a name.
    UserEmpty,
    /// The user exists already.
    UserExists,
    /// The user does not exist.
    UserNotFound,
    /// A role without a name.
    RoleEmpty,
    /// The role exists already.
    RoleExists,
    /// The role does not exist.
    RoleNotFound,
    /// The user does not have the role.
    RoleNotGranted,
    /// A permission was to be granted, and none was given.
    PermissionNotGiven,
    /// The role does not have the permission.
    PermissionNotGranted,
    /// A change that would take the last rights from `root` while permissions are enforced, or a
    /// permission of a range that has no keys.
    InvalidAuthManagement,
    /// Permissions are not enforced, so there are no tokens.
    AuthNotEnabled,
    /// The user cannot be authenticated.
    AuthFailed,
    /// Users or roles have changed since the password was right, or the user was found.
    AuthOldRevision,
    /// The token is of a user that is gone, or from before its password.
    InvalidAuthToken,
    /// The user may not do this.
    PermissionDenied,
    /// The alarm is raised that a member's data is corrupt.
    Corrupt,
    /// What a read finds is larger than an answer may be.
    AnswerTooLarge,
}

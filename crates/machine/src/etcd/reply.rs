//! The results of etcd's commands and reads: outcomes and refusals.

use crate::etcd::alarm::Alarm;
use crate::etcd::event::Event;
use crate::etcd::token::Token;
use crate::ids::LeaseId;

/// The outcome of a command that took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A put.
    Put(PutDone),
    /// A range was deleted.
    DeleteRange(RangeDeleted),
    /// A transaction ran, even if it changed nothing.
    Txn(TxnDone),
    /// The store was compacted.
    Compacted {
        /// The store's present revision.
        revision: i64,
    },
    /// The settings were set.
    Configured,
    /// A lease was granted.
    Granted(Granted),
    /// A lease was revoked.
    Revoked {
        /// The store's revision, at which the lease's keys were deleted if it had any.
        revision: i64,
    },
    /// All leases of the command that still had the judged grant have expired.
    Expired,
    /// Users, roles or permissions are as the command wanted them.
    AuthChanged {
        /// The store's revision.
        revision: i64,
    },
    /// An alarm was raised or disarmed.
    Alarmed {
        /// The store's revision.
        revision: i64,
        /// The alarm; `None` if there was no such alarm to disarm.
        alarm: Option<Alarm>,
    },
    /// The command took effect, but its outcome is larger than an answer may be, so it shows
    /// nothing. See [`crate::limits::ETCD_ANSWER_WEIGHT_MAX`].
    TooLarge,
    /// A simple token was made.
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
    /// The id of the lease.
    pub lease: LeaseId,
    /// The time to live of the lease in seconds; it may differ from the one that the client asked
    /// for.
    pub ttl_s: i64,
}

/// The outcome of a put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutDone {
    /// The revision of the put.
    pub revision: i64,
    /// The version before the put, if the client asked for it and the key existed.
    pub prev: Option<Event>,
}

/// The outcome of the deletion of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeDeleted {
    /// The revision of the deletion; the present one if no key was deleted.
    pub revision: i64,
    /// The number of deleted keys.
    pub count: u64,
    /// The deleted versions by key, if the client asked for them.
    pub prev: Vec<Event>,
}

/// The outcome of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TxnDone {
    /// The store's revision after the transaction.
    pub revision: i64,
    /// The branch that ran, with its outcomes.
    pub branch: Branch,
}

/// The outcomes of the operations in the branch that a transaction chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Whether all comparisons held.
    pub succeeded: bool,
    /// The outcomes of its operations, in order.
    pub done: Vec<OpDone>,
}

/// The outcome of an operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpDone {
    /// A read.
    Range(Found),
    /// A put.
    Put(PutDone),
    /// The deletion of a range.
    DeleteRange(RangeDeleted),
    /// A nested transaction.
    Txn(Branch),
}

/// The result of a read of a range: the versions that it found, and the number of keys in the
/// range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The store's revision at the time of the read.
    pub revision: i64,
    /// The versions found, in the order that the client asked for.
    pub events: Vec<Event>,
    /// Whether the values are left out of the response.
    pub keys_only: bool,
    /// The number of keys in the range, regardless of the limit and the bounds on revisions.
    pub count: u64,
    /// Whether the limit left out some keys.
    pub more: bool,
}

/// Why a command or a read was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The revision is compacted: a read names one below the compacted revision, or a compaction
    /// one at or below it.
    Compacted,
    /// The revision is above the store's.
    FutureRevision,
    /// A put that keeps the value or the lease needs a key that exists.
    KeyNotFound,
    /// A put or a revocation names a lease that does not exist.
    LeaseNotFound,
    /// A grant names a lease that exists.
    LeaseExists,
    /// A grant asks for a longer time to live than is allowed.
    LeaseTtlTooLarge,
    /// The store would become larger than its quota or its bound in memory, or users and roles
    /// would become larger than they may be, or there are too many alarms.
    NoSpace,
    /// The user `root` must exist before permissions are enforced.
    RootUserMissing,
    /// The user `root` must have the role `root` before permissions are enforced.
    RootRoleMissing,
    /// A user's name is empty, or no user is named although permissions are enforced.
    UserEmpty,
    /// The user exists already.
    UserExists,
    /// The user does not exist.
    UserNotFound,
    /// A role's name is empty.
    RoleEmpty,
    /// The role exists already.
    RoleExists,
    /// The role does not exist.
    RoleNotFound,
    /// The user does not have the role.
    RoleNotGranted,
    /// The request to grant a permission holds no permission.
    PermissionNotGiven,
    /// The role does not have the permission.
    PermissionNotGranted,
    /// The change would take rights from `root` that it needs while permissions are enforced; or
    /// the range of the permission is not allowed.
    InvalidAuthManagement,
    /// Permissions are not enforced, so no token can be made.
    AuthNotEnabled,
    /// The user does not exist, or has no password, so it cannot be authenticated.
    AuthFailed,
    /// Users or roles have changed since the password was checked, or since the user was
    /// identified.
    AuthOldRevision,
    /// The token's user was deleted, or has got another password since.
    InvalidAuthToken,
    /// The user may not do this.
    PermissionDenied,
    /// The alarm is raised that a member's data is corrupt. While it is raised, clients cannot
    /// change keys, compact, or grant and revoke leases. Leases still expire, and users, roles and
    /// alarms can still be changed.
    Corrupt,
    /// The result of the read is larger than an answer may be.
    AnswerTooLarge,
}

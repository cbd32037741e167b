//! etcd's errors (`api/v3rpc/rpctypes/error.go`), with their codes and texts. Clients tell the
//! errors apart by the code and the whole text, so a text never changes.

use core::fmt;

use grpc_code::Code;
use machine::etcd::reply::Refusal;

/// An error that etcd's clients know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// A request has no key.
    EmptyKey,
    /// A put with `ignore_value` or `ignore_lease` names a key that does not exist; or an operation
    /// of a transaction is empty.
    KeyNotFound,
    /// A put with `ignore_value` gives a value.
    ValueProvided,
    /// A put with `ignore_lease` gives a lease.
    LeaseProvided,
    /// A transaction has too many comparisons or operations.
    TooManyOps,
    /// A transaction puts a key twice, or puts a key that it also deletes.
    DuplicateKey,
    /// The client states an API version that is malformed.
    InvalidClientApiVersion,
    /// A range has an unknown order, or an unknown field to order by.
    InvalidSortOption,
    /// The requested revision is compacted.
    Compacted,
    /// The requested revision is above the store's.
    FutureRevision,
    /// The quota of the store is used up.
    NoSpace,
    /// There is no such lease.
    LeaseNotFound,
    /// A lease with this id exists already.
    LeaseExists,
    /// The time to live is above the maximum.
    LeaseTtlTooLarge,
    /// The watch was canceled.
    WatchCanceled,
    /// A member with this id exists already.
    MemberExists,
    /// A member with this peer URL exists already.
    PeerUrlExists,
    /// Too few members are running for a change of members.
    MemberNotEnoughStarted,
    /// A URL of a member is malformed.
    MemberBadUrls,
    /// There is no such member.
    MemberNotFound,
    /// The member to promote is not a learner.
    MemberNotLearner,
    /// The learner to promote lags behind.
    LearnerNotReady,
    /// The cluster already has as many learners as it may.
    TooManyLearners,
    /// The member at the other end belongs to another cluster.
    ClusterIdMismatch,
    /// The request is larger than `max-request-bytes`.
    RequestTooLarge,
    /// Too many requests are waiting.
    TooManyRequests,
    /// Authentication cannot be turned on without a user `root`.
    NoRootUser,
    /// Authentication cannot be turned on unless the user `root` has the role `root`.
    NoRootRole,
    /// A user with this name exists already.
    UserExists,
    /// The name of a user is empty.
    UserEmpty,
    /// There is no such user.
    UserNotFound,
    /// A role with this name exists already.
    RoleExists,
    /// There is no such role.
    RoleNotFound,
    /// The name of a role is empty.
    RoleEmpty,
    /// User or password is wrong.
    AuthFailed,
    /// A request to grant a permission names no permission.
    PermissionNotGiven,
    /// The user may not do this.
    PermissionDenied,
    /// The user does not have the role.
    RoleNotGranted,
    /// The role does not have the permission.
    PermissionNotGranted,
    /// Authentication is off.
    AuthNotEnabled,
    /// The token is unknown or expired; the client must authenticate again.
    InvalidAuthToken,
    /// User and role root cannot be deleted while authentication is on.
    InvalidAuthManagement,
    /// Users or roles have changed since the client's token was issued.
    AuthOldRevision,
    /// The member knows no leader.
    NoLeader,
    /// The member is not the leader.
    NotLeader,
    /// Leadership changed while the request was under way; the request may or may not have taken
    /// effect.
    LeaderChanged,
    /// The cluster's version does not support this call.
    NotCapable,
    /// The server is stopping.
    Stopped,
    /// The request was not done in time; it may still take effect.
    TimedOut,
    /// As `TimedOut`, after the leader was lost.
    TimedOutLeaderFailed,
    /// As `TimedOut`, after connections between members were lost.
    TimedOutConnectionLost,
    /// The member did not apply in time the entries that a read must see.
    TimedOutAwaitingApply,
    /// The cluster is not healthy enough for a change of members.
    Unhealthy,
    /// A member has raised the alarm that its data is corrupt.
    Corrupt,
    /// A learner does not answer this call.
    NotSupportedForLearner,
    /// The member that leadership should move to cannot become leader.
    BadLeaderTransferee,
    /// The version to downgrade to is malformed.
    WrongDowngradeVersionFormat,
    /// The cluster cannot be downgraded to this version.
    InvalidDowngradeTargetVersion,
    /// The cluster's version is not known yet.
    ClusterVersionUnavailable,
    /// A downgrade is under way.
    DowngradeInProgress,
    /// No downgrade is under way.
    NoDowngrade,
    /// The client has canceled the request.
    Canceled,
    /// The client's deadline has passed.
    DeadlineExceeded,
    /// The answer is larger than a gRPC message may be. A read then has no result; a write has
    /// taken effect. This is an error of grpc-go, not of etcd.
    AnswerTooLarge,
}

/// One error, with its code and its text.
struct Row {
    error: Error,
    code: Code,
    text: &'static str,
}

const fn row(error: Error, code: Code, text: &'static str) -> Row {
    Row { error, code, text }
}

/// How many errors there are.
const COUNT: usize = 64;

/// Every error, in the order of [`Error`].
const TABLE: [Row; COUNT] = [
    row(Error::EmptyKey, Code::InvalidArgument, "etcdserver: key is not provided"),
    row(Error::KeyNotFound, Code::InvalidArgument, "etcdserver: key not found"),
    row(Error::ValueProvided, Code::InvalidArgument, "etcdserver: value is provided"),
    row(Error::LeaseProvided, Code::InvalidArgument, "etcdserver: lease is provided"),
    row(Error::TooManyOps, Code::InvalidArgument, "etcdserver: too many operations in txn request"),
    row(
        Error::DuplicateKey,
        Code::InvalidArgument,
        "etcdserver: duplicate key given in txn request",
    ),
    row(
        Error::InvalidClientApiVersion,
        Code::InvalidArgument,
        "etcdserver: invalid client api version",
    ),
    row(Error::InvalidSortOption, Code::InvalidArgument, "etcdserver: invalid sort option"),
    row(
        Error::Compacted,
        Code::OutOfRange,
        "etcdserver: mvcc: required revision has been compacted",
    ),
    row(
        Error::FutureRevision,
        Code::OutOfRange,
        "etcdserver: mvcc: required revision is a future revision",
    ),
    row(Error::NoSpace, Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded"),
    row(Error::LeaseNotFound, Code::NotFound, "etcdserver: requested lease not found"),
    row(Error::LeaseExists, Code::FailedPrecondition, "etcdserver: lease already exists"),
    row(Error::LeaseTtlTooLarge, Code::OutOfRange, "etcdserver: too large lease TTL"),
    row(Error::WatchCanceled, Code::Cancelled, "etcdserver: watch canceled"),
    row(Error::MemberExists, Code::FailedPrecondition, "etcdserver: member ID already exist"),
    row(Error::PeerUrlExists, Code::FailedPrecondition, "etcdserver: Peer URLs already exists"),
    // etcd has no gRPC code for this one (`v3rpc/util.go` of 3.6.16 maps it to the client's error).
    row(
        Error::MemberNotEnoughStarted,
        Code::Unknown,
        "etcdserver: re-configuration failed due to not enough started members",
    ),
    row(Error::MemberBadUrls, Code::InvalidArgument, "etcdserver: given member URLs are invalid"),
    row(Error::MemberNotFound, Code::NotFound, "etcdserver: member not found"),
    row(
        Error::MemberNotLearner,
        Code::FailedPrecondition,
        "etcdserver: can only promote a learner member",
    ),
    row(
        Error::LearnerNotReady,
        Code::FailedPrecondition,
        "etcdserver: can only promote a learner member which is in sync with leader",
    ),
    row(
        Error::TooManyLearners,
        Code::FailedPrecondition,
        "etcdserver: too many learner members in cluster",
    ),
    row(Error::ClusterIdMismatch, Code::FailedPrecondition, "etcdserver: cluster ID mismatch"),
    row(Error::RequestTooLarge, Code::InvalidArgument, "etcdserver: request is too large"),
    row(Error::TooManyRequests, Code::ResourceExhausted, "etcdserver: too many requests"),
    row(Error::NoRootUser, Code::FailedPrecondition, "etcdserver: root user does not exist"),
    row(
        Error::NoRootRole,
        Code::FailedPrecondition,
        "etcdserver: root user does not have root role",
    ),
    row(Error::UserExists, Code::FailedPrecondition, "etcdserver: user name already exists"),
    row(Error::UserEmpty, Code::InvalidArgument, "etcdserver: user name is empty"),
    row(Error::UserNotFound, Code::FailedPrecondition, "etcdserver: user name not found"),
    row(Error::RoleExists, Code::FailedPrecondition, "etcdserver: role name already exists"),
    row(Error::RoleNotFound, Code::FailedPrecondition, "etcdserver: role name not found"),
    row(Error::RoleEmpty, Code::InvalidArgument, "etcdserver: role name is empty"),
    row(
        Error::AuthFailed,
        Code::InvalidArgument,
        "etcdserver: authentication failed, invalid user ID or password",
    ),
    row(Error::PermissionNotGiven, Code::InvalidArgument, "etcdserver: permission not given"),
    row(Error::PermissionDenied, Code::PermissionDenied, "etcdserver: permission denied"),
    row(
        Error::RoleNotGranted,
        Code::FailedPrecondition,
        "etcdserver: role is not granted to the user",
    ),
    row(
        Error::PermissionNotGranted,
        Code::FailedPrecondition,
        "etcdserver: permission is not granted to the role",
    ),
    row(
        Error::AuthNotEnabled,
        Code::FailedPrecondition,
        "etcdserver: authentication is not enabled",
    ),
    row(Error::InvalidAuthToken, Code::Unauthenticated, "etcdserver: invalid auth token"),
    row(Error::InvalidAuthManagement, Code::InvalidArgument, "etcdserver: invalid auth management"),
    row(Error::AuthOldRevision, Code::InvalidArgument, "etcdserver: revision of auth store is old"),
    row(Error::NoLeader, Code::Unavailable, "etcdserver: no leader"),
    row(Error::NotLeader, Code::FailedPrecondition, "etcdserver: not leader"),
    row(Error::LeaderChanged, Code::Unavailable, "etcdserver: leader changed"),
    row(Error::NotCapable, Code::FailedPrecondition, "etcdserver: not capable"),
    row(Error::Stopped, Code::Unavailable, "etcdserver: server stopped"),
    row(Error::TimedOut, Code::Unavailable, "etcdserver: request timed out"),
    row(
        Error::TimedOutLeaderFailed,
        Code::Unavailable,
        "etcdserver: request timed out, possibly due to previous leader failure",
    ),
    row(
        Error::TimedOutConnectionLost,
        Code::Unavailable,
        "etcdserver: request timed out, possibly due to connection lost",
    ),
    row(
        Error::TimedOutAwaitingApply,
        Code::Unavailable,
        "etcdserver: request timed out, waiting for the applied index took too long",
    ),
    row(Error::Unhealthy, Code::Unavailable, "etcdserver: unhealthy cluster"),
    row(Error::Corrupt, Code::DataLoss, "etcdserver: corrupt cluster"),
    row(
        Error::NotSupportedForLearner,
        Code::FailedPrecondition,
        "etcdserver: rpc not supported for learner",
    ),
    row(Error::BadLeaderTransferee, Code::FailedPrecondition, "etcdserver: bad leader transferee"),
    row(
        Error::WrongDowngradeVersionFormat,
        Code::InvalidArgument,
        "etcdserver: wrong downgrade target version format",
    ),
    row(
        Error::InvalidDowngradeTargetVersion,
        Code::InvalidArgument,
        "etcdserver: invalid downgrade target version",
    ),
    row(
        Error::ClusterVersionUnavailable,
        Code::FailedPrecondition,
        "etcdserver: cluster version not found during downgrade",
    ),
    row(
        Error::DowngradeInProgress,
        Code::FailedPrecondition,
        "etcdserver: cluster has a downgrade job in progress",
    ),
    row(Error::NoDowngrade, Code::FailedPrecondition, "etcdserver: no inflight downgrade job"),
    row(Error::Canceled, Code::Cancelled, "etcdserver: request canceled"),
    row(Error::DeadlineExceeded, Code::DeadlineExceeded, "etcdserver: context deadline exceeded"),
    // grpc-go names the actual size. Here the size is not computed, so the text names the limit
    // plus 1.
    row(
        Error::AnswerTooLarge,
        Code::ResourceExhausted,
        "grpc: trying to send message larger than max (2147483648 vs. 2147483647)",
    ),
];

impl Error {
    /// Every error.
    pub fn all() -> impl Iterator<Item = Error> {
        TABLE.iter().map(|row| row.error)
    }

    /// The code of the status.
    pub fn code(self) -> Code {
        TABLE[self as usize].code
    }

    /// The text of the status.
    pub fn text(self) -> &'static str {
        TABLE[self as usize].text
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.text())
    }
}

impl std::error::Error for Error {}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        match refusal {
            Refusal::Compacted => Error::Compacted,
            Refusal::FutureRevision => Error::FutureRevision,
            Refusal::KeyNotFound => Error::KeyNotFound,
            Refusal::LeaseNotFound => Error::LeaseNotFound,
            Refusal::LeaseExists => Error::LeaseExists,
            Refusal::LeaseTtlTooLarge => Error::LeaseTtlTooLarge,
            Refusal::NoSpace => Error::NoSpace,
            Refusal::RootUserMissing => Error::NoRootUser,
            Refusal::RootRoleMissing => Error::NoRootRole,
            Refusal::UserEmpty => Error::UserEmpty,
            Refusal::UserExists => Error::UserExists,
            Refusal::UserNotFound => Error::UserNotFound,
            Refusal::RoleEmpty => Error::RoleEmpty,
            Refusal::RoleExists => Error::RoleExists,
            Refusal::RoleNotFound => Error::RoleNotFound,
            Refusal::RoleNotGranted => Error::RoleNotGranted,
            Refusal::PermissionNotGiven => Error::PermissionNotGiven,
            Refusal::PermissionNotGranted => Error::PermissionNotGranted,
            Refusal::InvalidAuthManagement => Error::InvalidAuthManagement,
            Refusal::AuthNotEnabled => Error::AuthNotEnabled,
            Refusal::AuthFailed => Error::AuthFailed,
            Refusal::AuthOldRevision => Error::AuthOldRevision,
            Refusal::InvalidAuthToken => Error::InvalidAuthToken,
            Refusal::PermissionDenied => Error::PermissionDenied,
            Refusal::Corrupt => Error::Corrupt,
            Refusal::AnswerTooLarge => Error::AnswerTooLarge,
        }
    }
}

#[cfg(test)]
mod tests;

//! Calls of etcd's services KV and Lease as clients send them, and the answers that they can get.
//!
//! The fields are those of `rpc.proto` and `kv.proto` (etcd 3.6). An empty `range_end` means the
//! single key `key`, and the byte 0 means all keys from `key` on.

/// The order of the keys in the answer to a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortOrder {
    /// By key; ascending if the sort target is not the key.
    #[default]
    None,
    /// Smallest first.
    Ascend,
    /// Largest first.
    Descend,
}

/// The part of a pair that a range sorts by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortTarget {
    /// The key.
    #[default]
    Key,
    /// The version.
    Version,
    /// The creation revision.
    Create,
    /// The revision of the last change.
    Mod,
    /// The value.
    Value,
}

/// `RangeRequest`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The key, or the first key of a range.
    pub key: Vec<u8>,
    /// The end of the range, exclusive.
    pub range_end: Vec<u8>,
    /// The most pairs in the answer; 0 or less for no limit.
    pub limit: i64,
    /// The revision to read at; 0 or less for the newest.
    pub revision: i64,
    /// The direction of sorting.
    pub sort_order: SortOrder,
    /// The part of a pair to sort by.
    pub sort_target: SortTarget,
    /// Whether the member may answer from its own, perhaps old, state.
    pub serializable: bool,
    /// Whether the answer leaves out the values.
    pub keys_only: bool,
    /// Whether the answer only counts the pairs.
    pub count_only: bool,
    /// Skips pairs last changed before this revision; 0 for none.
    pub min_mod_revision: i64,
    /// Skips pairs last changed after this revision; 0 for none.
    pub max_mod_revision: i64,
    /// Skips pairs created before this revision; 0 for none.
    pub min_create_revision: i64,
    /// Skips pairs created after this revision; 0 for none.
    pub max_create_revision: i64,
}

/// `PutRequest`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Put {
    /// The key.
    pub key: Vec<u8>,
    /// The new value.
    pub value: Vec<u8>,
    /// The lease of the key; 0 for none.
    pub lease: i64,
    /// Whether the answer must contain the previous pair.
    pub prev_kv: bool,
    /// Whether the put keeps the old value.
    pub ignore_value: bool,
    /// Whether the put keeps the old lease.
    pub ignore_lease: bool,
}

/// `DeleteRangeRequest`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteRange {
    /// The key, or the first key of a range.
    pub key: Vec<u8>,
    /// The end of the range, exclusive.
    pub range_end: Vec<u8>,
    /// Whether the answer must contain the deleted pairs.
    pub prev_kv: bool,
}

/// The operator of a [`Compare`]. On its left is the pair's part, on its right the given value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompareResult {
    /// Equal.
    #[default]
    Equal,
    /// Greater.
    Greater,
    /// Less.
    Less,
    /// Not equal.
    NotEqual,
}

/// Which part of a pair a [`Compare`] looks at, with the value that it is compared to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompareTarget {
    /// The version.
    Version(i64),
    /// The creation revision.
    Create(i64),
    /// The revision of the last change.
    Mod(i64),
    /// The value.
    Value(Vec<u8>),
    /// The lease.
    Lease(i64),
}

/// A condition of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    /// The key, or the first key of a range: the condition must hold for each of its keys.
    pub key: Vec<u8>,
    /// The end of the range, exclusive.
    pub range_end: Vec<u8>,
    /// The operator.
    pub result: CompareResult,
    /// The compared part, and the value.
    pub target: CompareTarget,
}

/// `TxnRequest`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// The conditions. If all hold, the `success` branch is taken.
    pub compares: Vec<Compare>,
    /// The operations if all conditions hold.
    pub success: Vec<TxnOp>,
    /// The operations if some condition fails.
    pub failure: Vec<TxnOp>,
}

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxnOp {
    /// A range.
    Range(Range),
    /// A put.
    Put(Put),
    /// A delete.
    DeleteRange(DeleteRange),
    /// A nested transaction.
    Txn(Txn),
    /// No operation: the union in the message is not set.
    Empty,
}

/// `CompactionRequest`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compact {
    /// Reads below this revision are refused afterwards.
    pub revision: i64,
    /// Whether the answer waits until the space is freed.
    pub physical: bool,
}

/// A call of the Lease service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseOp {
    /// `LeaseGrant`.
    Grant {
        /// The lease id; never 0.
        lease: i64,
        /// The requested time to live, in s.
        ttl_s: i64,
    },
    /// `LeaseRevoke`.
    Revoke {
        /// The lease id.
        lease: i64,
    },
    /// One message of `LeaseKeepAlive`.
    KeepAlive {
        /// The lease id.
        lease: i64,
    },
    /// `LeaseTimeToLive`, without keys.
    TimeToLive {
        /// The lease id.
        lease: i64,
    },
}

impl LeaseOp {
    /// Whether the leader answers the operation without the log: a keep-alive, or a request for the
    /// time to live.
    pub fn is_question(&self) -> bool {
        matches!(self, LeaseOp::KeepAlive { .. } | LeaseOp::TimeToLive { .. })
    }
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// `Range`.
    Range(Range),
    /// `Put`.
    Put(Put),
    /// `DeleteRange`.
    DeleteRange(DeleteRange),
    /// `Txn`.
    Txn(Txn),
    /// `Compact`.
    Compact(Compact),
    /// A call about a lease.
    Lease(LeaseOp),
}

impl Op {
    /// Whether etcd answers the operation from the state, without the log: a range, a lease
    /// operation that [`LeaseOp::is_question`] accepts, or a transaction whose direct operations
    /// are all ranges (`txn.IsTxnReadonly`).
    pub fn is_read(&self) -> bool {
        match self {
            Op::Range(_) => true,
            Op::Lease(op) => op.is_question(),
            Op::Txn(txn) => txn.branches().all(|op| matches!(op, TxnOp::Range(_))),
            Op::Put(_) | Op::DeleteRange(_) | Op::Compact(_) => false,
        }
    }

    /// Whether the operation may change the state: it has a compaction, a put or a delete, also in
    /// a nested transaction, or grants or revokes a lease.
    pub fn can_change(&self) -> bool {
        match self {
            Op::Range(_) => false,
            Op::Lease(op) => !op.is_question(),
            Op::Txn(txn) => txn.can_change(),
            Op::Put(_) | Op::DeleteRange(_) | Op::Compact(_) => true,
        }
    }

    /// Whether the operation is a read that may show an old state. A transaction without operations
    /// counts, too (`txn.IsTxnSerializable`).
    pub fn is_serializable(&self) -> bool {
        let of = |op: &TxnOp| matches!(op, TxnOp::Range(range) if range.serializable);
        match self {
            Op::Range(range) => range.serializable,
            Op::Txn(txn) => txn.branches().all(of),
            Op::Put(_) | Op::DeleteRange(_) | Op::Compact(_) | Op::Lease(_) => false,
        }
    }

    /// Whether the operation has a put, even in a branch that is not taken. Such calls are refused
    /// while the space is exhausted (`BackendQuota.Cost`).
    pub fn has_put(&self) -> bool {
        match self {
            Op::Put(_) => true,
            Op::Txn(txn) => txn.has_put(),
            Op::Range(_) | Op::DeleteRange(_) | Op::Compact(_) | Op::Lease(_) => false,
        }
    }

    /// All ranges of the operation, in both branches of a transaction and in nested ones.
    pub fn ranges(&self) -> Vec<&Range> {
        match self {
            Op::Range(range) => vec![range],
            Op::Txn(txn) => txn.ranges(),
            Op::Put(_) | Op::DeleteRange(_) | Op::Compact(_) | Op::Lease(_) => Vec::new(),
        }
    }

    /// All puts of the operation, in both branches of a transaction and in nested ones.
    pub fn puts(&self) -> Vec<&Put> {
        match self {
            Op::Put(put) => vec![put],
            Op::Txn(txn) => txn.puts(),
            Op::Range(_) | Op::DeleteRange(_) | Op::Compact(_) | Op::Lease(_) => Vec::new(),
        }
    }
}

impl Txn {
    /// The operations of both branches, without looking into nested transactions.
    pub fn branches(&self) -> impl Iterator<Item = &TxnOp> {
        self.success.iter().chain(&self.failure)
    }

    fn can_change(&self) -> bool {
        self.branches().any(|op| match op {
            TxnOp::Put(_) | TxnOp::DeleteRange(_) => true,
            TxnOp::Txn(txn) => txn.can_change(),
            TxnOp::Range(_) | TxnOp::Empty => false,
        })
    }

    fn has_put(&self) -> bool {
        !self.puts().is_empty()
    }

    fn ranges(&self) -> Vec<&Range> {
        let mut found = Vec::new();
        for op in self.branches() {
            match op {
                TxnOp::Range(range) => found.push(range),
                TxnOp::Txn(txn) => found.extend(txn.ranges()),
                _ => {}
            }
        }
        found
    }

    fn puts(&self) -> Vec<&Put> {
        let mut found = Vec::new();
        for op in self.branches() {
            match op {
                TxnOp::Put(put) => found.push(put),
                TxnOp::Txn(txn) => found.extend(txn.puts()),
                _ => {}
            }
        }
        found
    }
}

/// `mvccpb.KeyValue`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Vec<u8>,
    /// The value.
    pub value: Vec<u8>,
    /// The revision at which the key was created.
    pub create_revision: i64,
    /// The revision of the last put.
    pub mod_revision: i64,
    /// The number of puts since the key was created.
    pub version: i64,
    /// The key's lease; 0 for none.
    pub lease: i64,
}

/// `RangeResponse`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeAnswer {
    /// The revision in the header: the newest one, even if an older one was asked for.
    pub revision: i64,
    /// The pairs.
    pub kvs: Vec<KeyValue>,
    /// Whether the limit cut off pairs.
    pub more: bool,
    /// The number of keys in the range, ignoring limit and filters.
    pub count: i64,
}

/// `PutResponse`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutAnswer {
    /// The revision in the header: that of the put.
    pub revision: i64,
    /// The previous pair, if it was asked for and existed.
    pub prev_kv: Option<KeyValue>,
}

/// `DeleteRangeResponse`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteAnswer {
    /// The revision in the header: that of the delete, or the newest one if nothing was deleted.
    pub revision: i64,
    /// How many keys were deleted.
    pub deleted: i64,
    /// The deleted pairs, if they were asked for.
    pub prev_kvs: Vec<KeyValue>,
}

/// `TxnResponse`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxnAnswer {
    /// The revision in the header; 0 for a nested transaction, whose header is empty.
    pub revision: i64,
    /// Whether all conditions held.
    pub succeeded: bool,
    /// The results of the operations of the branch that was taken.
    pub responses: Vec<Response>,
}

/// A successful answer to a call, or to one operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Response {
    /// To a range.
    Range(RangeAnswer),
    /// To a put.
    Put(PutAnswer),
    /// To a delete.
    DeleteRange(DeleteAnswer),
    /// To a transaction.
    Txn(TxnAnswer),
    /// To a compaction.
    Compact {
        /// The revision in the header: the newest one.
        revision: i64,
    },
    /// To a grant.
    Granted {
        /// The revision in the header.
        revision: i64,
        /// The lease id.
        lease: i64,
        /// The granted time to live, in s.
        ttl_s: i64,
    },
    /// To a revocation.
    Revoked {
        /// The revision in the header: that of the deletion of the keys, if there were any.
        revision: i64,
    },
    /// To a keep-alive.
    KeptAlive {
        /// The revision in the header.
        revision: i64,
        /// The time to live from now on, in s; 0 if the lease does not exist.
        ttl_s: i64,
    },
    /// To a request for the time to live.
    TimeToLive {
        /// The revision in the header.
        revision: i64,
        /// The remaining time in whole s; -1 if the lease does not exist.
        ttl_s: i64,
        /// The granted time to live in s; 0 if the lease does not exist.
        granted_s: i64,
    },
}

impl Response {
    /// The revision in the header.
    pub fn revision(&self) -> i64 {
        match self {
            Response::Range(answer) => answer.revision,
            Response::Put(answer) => answer.revision,
            Response::DeleteRange(answer) => answer.revision,
            Response::Txn(answer) => answer.revision,
            Response::Compact { revision }
            | Response::Granted { revision, .. }
            | Response::Revoked { revision }
            | Response::KeptAlive { revision, .. }
            | Response::TimeToLive { revision, .. } => *revision,
        }
    }

    /// Whether the response reports a change of keys.
    pub fn tells_change(&self) -> bool {
        match self {
            Response::Put(_) => true,
            Response::DeleteRange(answer) => answer.deleted > 0,
            Response::Txn(answer) => answer.responses.iter().any(Response::tells_change),
            Response::Range(_)
            | Response::Compact { .. }
            | Response::Granted { .. }
            | Response::Revoked { .. }
            | Response::KeptAlive { .. }
            | Response::TimeToLive { .. } => false,
        }
    }
}

/// The errors that calls can get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// `key is not provided`.
    EmptyKey,
    /// `value is provided`, although the put keeps the old value.
    ValueProvided,
    /// `lease is provided`, although the put keeps the old lease.
    LeaseProvided,
    /// `duplicate key given in txn request`.
    DuplicateKey,
    /// `too many operations in txn request`.
    TooManyOps,
    /// `key not found`: a put keeps a part of a key that does not exist, or an operation is empty.
    KeyNotFound,
    /// `requested lease not found`.
    LeaseNotFound,
    /// `lease already exists`.
    LeaseExists,
    /// `too large lease TTL`.
    LeaseTtlTooLarge,
    /// `mvcc: required revision has been compacted`.
    Compacted,
    /// Like [`Error::Compacted`], for a streamed read that has delivered pieces: their revision was
    /// compacted meanwhile, or the member installed a snapshot.
    CompactedMeanwhile,
    /// `mvcc: required revision is a future revision`.
    FutureRevision,
    /// `mvcc: database space exceeded`.
    NoSpace,
    /// `request is too large`.
    RequestTooLarge,
    /// `too many requests`.
    TooManyRequests,
    /// `no leader`.
    NoLeader,
    /// `not capable`: some server's level is too low for the call.
    NotCapable,
    /// `leader changed`.
    LeaderChanged,
    /// `request timed out`.
    TimedOut,
    /// `request timed out, possibly due to previous leader failure`.
    TimedOutLeaderFailed,
    /// `request timed out, possibly due to connection lost`.
    TimedOutConnectionLost,
    /// `server stopped`.
    Stopped,
    /// `user name is empty`: permissions are enforced, and the server does not know the client's
    /// user.
    UserEmpty,
    /// `permission denied`.
    PermissionDenied,
    /// `revision of auth store is old`: users or roles have changed since the server identified the
    /// user.
    AuthOldRevision,
    /// `invalid auth token`.
    InvalidAuthToken,
    /// The client cancelled the call, or the connection ended before the answer.
    Canceled,
}

/// The effect of a failed call, as far as the error in its answer tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The store refused the call by its rules; a judge checks that the rules demand it.
    Judged,
    /// The call never reached the log, or its user lacked the permission: it has no effect.
    NeverLogged,
    /// The call may have taken effect, or may still do so.
    Unknown,
}

impl Error {
    /// The fate of the call, as far as this error tells.
    pub fn fate(self) -> Fate {
        match self {
            Error::EmptyKey
            | Error::ValueProvided
            | Error::LeaseProvided
            | Error::DuplicateKey
            | Error::TooManyOps
            | Error::KeyNotFound
            | Error::LeaseNotFound
            | Error::LeaseExists
            | Error::LeaseTtlTooLarge
            | Error::Compacted
            | Error::CompactedMeanwhile
            | Error::FutureRevision
            | Error::NoSpace => Fate::Judged,
            Error::RequestTooLarge
            | Error::TooManyRequests
            | Error::NoLeader
            | Error::NotCapable
            | Error::UserEmpty
            | Error::PermissionDenied
            | Error::AuthOldRevision
            | Error::InvalidAuthToken => Fate::NeverLogged,
            Error::LeaderChanged
            | Error::TimedOut
            | Error::TimedOutLeaderFailed
            | Error::TimedOutConnectionLost
            | Error::Stopped
            | Error::Canceled => Fate::Unknown,
        }
    }
}

/// The answer to a call.
pub type Answer = Result<Response, Error>;

//! Calls of etcd's services KV and Lease as clients send them, and the answers they can get.
//!
//! The fields are those of `rpc.proto` and `kv.proto` (etcd 3.6). An empty `range_end` means the
//! key alone, and the single byte 0 means every key from `key` on.

/// The order of the keys in the answer to a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortOrder {
    /// By key; ascending where the target is not the key.
    #[default]
    None,
    /// Smallest first.
    Ascend,
    /// Largest first.
    Descend,
}

/// The part of a key-value pair that a range sorts by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortTarget {
    /// The key.
    #[default]
    Key,
    /// The version.
    Version,
    /// The revision of its creation.
    Create,
    /// The revision of its last change.
    Mod,
    /// The value.
    Value,
}

/// `RangeRequest`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The key, or the first one.
    pub key: Vec<u8>,
    /// The end of the keys, not included.
    pub range_end: Vec<u8>,
    /// The most pairs to return; 0 or less: all.
    pub limit: i64,
    /// The revision to read at; 0 or less: the newest.
    pub revision: i64,
    /// The direction of sorting.
    pub sort_order: SortOrder,
    /// The part of the pair to sort by.
    pub sort_target: SortTarget,
    /// Whether the member answers from its own state, which may be old.
    pub serializable: bool,
    /// Whether values are left out.
    pub keys_only: bool,
    /// Whether all pairs are left out, and only counted.
    pub count_only: bool,
    /// Leaves out pairs changed before this revision; 0: none.
    pub min_mod_revision: i64,
    /// Leaves out pairs changed after this revision; 0: none.
    pub max_mod_revision: i64,
    /// Leaves out pairs created before this revision; 0: none.
    pub min_create_revision: i64,
    /// Leaves out pairs created after this revision; 0: none.
    pub max_create_revision: i64,
}

/// `PutRequest`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Put {
    /// The key.
    pub key: Vec<u8>,
    /// The new value.
    pub value: Vec<u8>,
    /// The lease that the key is attached to; 0: none.
    pub lease: i64,
    /// Whether the answer has the pair from before.
    pub prev_kv: bool,
    /// Whether the value stays as it is.
    pub ignore_value: bool,
    /// Whether the lease stays as it is.
    pub ignore_lease: bool,
}

/// `DeleteRangeRequest`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteRange {
    /// The key, or the first one.
    pub key: Vec<u8>,
    /// The end of the keys, not included.
    pub range_end: Vec<u8>,
    /// Whether the answer has the deleted pairs.
    pub prev_kv: bool,
}

/// The operator of a [`Compare`]: how the pair's part must stand to the given one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CompareResult {
    /// Equal to it.
    #[default]
    Equal,
    /// Larger.
    Greater,
    /// Smaller.
    Less,
    /// Different from it.
    NotEqual,
}

/// The part of a pair that a [`Compare`] looks at, and what it is compared with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompareTarget {
    /// The version.
    Version(i64),
    /// The revision of its creation.
    Create(i64),
    /// The revision of its last change.
    Mod(i64),
    /// The value.
    Value(Vec<u8>),
    /// The lease.
    Lease(i64),
}

/// One condition of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    /// The key, or the first one.
    pub key: Vec<u8>,
    /// The end of the keys, not included.
    pub range_end: Vec<u8>,
    /// The operator.
    pub result: CompareResult,
    /// The part that is compared, and the value it is compared with.
    pub target: CompareTarget,
}

/// `TxnRequest`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// Conditions; all must hold for success.
    pub compares: Vec<Compare>,
    /// Operations if all conditions hold.
    pub success: Vec<TxnOp>,
    /// Operations if one does not.
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
    /// A transaction inside.
    Txn(Txn),
    /// None of them: the union of the message is not set.
    Empty,
}

/// `CompactionRequest`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compact {
    /// Reads below this revision are refused from then on.
    pub revision: i64,
    /// Whether the answer waits until the space is free.
    pub physical: bool,
}

/// A call of the service of leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseOp {
    /// `LeaseGrant`.
    Grant {
        /// The lease, not 0.
        lease: i64,
        /// The time to live that is asked for, in seconds.
        ttl_s: i64,
    },
    /// `LeaseRevoke`.
    Revoke {
        /// The lease.
        lease: i64,
    },
    /// One message of `LeaseKeepAlive`.
    KeepAlive {
        /// The lease.
        lease: i64,
    },
    /// `LeaseTimeToLive`, without keys.
    TimeToLive {
        /// The lease.
        lease: i64,
    },
}

impl LeaseOp {
    /// Whether the leader answers it, without the log.
    pub fn is_question(&self) -> bool {
        matches!(self, LeaseOp::KeepAlive { .. } | LeaseOp::TimeToLive { .. })
    }
}

/// One call.
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
    /// Whether etcd answers it from the state alone, without the log: a range, and a transaction
    /// whose own operations are all ranges (`txn.IsTxnReadonly`).
    pub fn is_read(&self) -> bool {
        match self {
            Op::Range(_) => true,
            Op::Lease(op) => op.is_question(),
            Op::Txn(txn) => txn.branches().all(|op| matches!(op, TxnOp::Range(_))),
            Op::Put(_) | Op::DeleteRange(_) | Op::Compact(_) => false,
        }
    }

    /// Whether it can change the state: a compaction, a put or a delete, also deep inside.
    pub fn can_change(&self) -> bool {
        match self {
            Op::Range(_) => false,
            Op::Lease(op) => !op.is_question(),
            Op::Txn(txn) => txn.can_change(),
            Op::Put(_) | Op::DeleteRange(_) | Op::Compact(_) => true,
        }
    }

    /// Whether a read may show an old state. A transaction without any operation may, too
    /// (`txn.IsTxnSerializable`).
    pub fn is_serializable(&self) -> bool {
        let of = |op: &TxnOp| matches!(op, TxnOp::Range(range) if range.serializable);
        match self {
            Op::Range(range) => range.serializable,
            Op::Txn(txn) => txn.branches().all(of),
            Op::Put(_) | Op::DeleteRange(_) | Op::Compact(_) | Op::Lease(_) => false,
        }
    }

    /// Whether it has a put, also in a branch that is not taken. Such calls are refused while the
    /// space is exhausted (`BackendQuota.Cost`).
    pub fn has_put(&self) -> bool {
        match self {
            Op::Put(_) => true,
            Op::Txn(txn) => txn.has_put(),
            Op::Range(_) | Op::DeleteRange(_) | Op::Compact(_) | Op::Lease(_) => false,
        }
    }

    /// Every range in it, in both branches and deep inside.
    pub fn ranges(&self) -> Vec<&Range> {
        match self {
            Op::Range(range) => vec![range],
            Op::Txn(txn) => txn.ranges(),
            Op::Put(_) | Op::DeleteRange(_) | Op::Compact(_) | Op::Lease(_) => Vec::new(),
        }
    }

    /// Every put in it, in both branches and deep inside.
    pub fn puts(&self) -> Vec<&Put> {
        match self {
            Op::Put(put) => vec![put],
            Op::Txn(txn) => txn.puts(),
            Op::Range(_) | Op::DeleteRange(_) | Op::Compact(_) | Op::Lease(_) => Vec::new(),
        }
    }
}

impl Txn {
    /// The operations of both branches, without those deep inside.
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
    /// The revision at which the key came into being.
    pub create_revision: i64,
    /// The revision of the last put.
    pub mod_revision: i64,
    /// The number of puts since it came into being.
    pub version: i64,
    /// The lease it is attached to; 0: none.
    pub lease: i64,
}

/// `RangeResponse`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeAnswer {
    /// The revision in the header: the newest one, also if an older one was asked for.
    pub revision: i64,
    /// The pairs.
    pub kvs: Vec<KeyValue>,
    /// Whether the limit left pairs out.
    pub more: bool,
    /// The number of keys in the range, whatever the limit and the filters leave out.
    pub count: i64,
}

/// `PutResponse`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PutAnswer {
    /// The revision in the header: that of the put.
    pub revision: i64,
    /// The pair from before, if it was asked for and existed.
    pub prev_kv: Option<KeyValue>,
}

/// `DeleteRangeResponse`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteAnswer {
    /// The revision in the header: that of the delete, or the newest one if nothing was deleted.
    pub revision: i64,
    /// The number of deleted keys.
    pub deleted: i64,
    /// The deleted pairs, if they were asked for.
    pub prev_kvs: Vec<KeyValue>,
}

/// `TxnResponse`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxnAnswer {
    /// The revision in the header; 0 in a transaction inside another, whose header is empty.
    pub revision: i64,
    /// Whether all conditions held.
    pub succeeded: bool,
    /// The results of the branch taken.
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
    /// To a compaction: the newest revision.
    Compact {
        /// The revision in the header.
        revision: i64,
    },
    /// To a grant.
    Granted {
        /// The revision in the header.
        revision: i64,
        /// The lease.
        lease: i64,
        /// The time to live that it got, in seconds.
        ttl_s: i64,
    },
    /// To a revocation.
    Revoked {
        /// The revision in the header: that of the removal of the keys, if there were any.
        revision: i64,
    },
    /// To a keep-alive.
    KeptAlive {
        /// The revision in the header.
        revision: i64,
        /// How long the lease lives from now on, in seconds; 0: it does not exist.
        ttl_s: i64,
    },
    /// To the question for the time to live.
    TimeToLive {
        /// The revision in the header.
        revision: i64,
        /// The time that is left, in whole seconds; -1: the lease does not exist.
        ttl_s: i64,
        /// The time that it was granted, in seconds; 0: the lease does not exist.
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

    /// Whether it tells of a change of keys.
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

/// The errors that calls may be answered with.
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
    /// As [`Error::Compacted`], for a streamed read of which the client has pieces: their revision
    /// was compacted meanwhile, or another state took the place of the one that they are from.
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
    /// `not capable`: the servers do not all know what the call needs.
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
    /// `user name is empty`: permissions are enforced, and the server does not know who asks.
    UserEmpty,
    /// `permission denied`.
    PermissionDenied,
    /// `revision of auth store is old`: users or roles have changed since it was found who asks.
    AuthOldRevision,
    /// `invalid auth token`.
    InvalidAuthToken,
    /// The client gave up, or the connection ended while it waited.
    Canceled,
}

/// The fate of a call, as an error tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The rules of the store refuse it: a judge works out whether they do.
    Judged,
    /// It never reached the log, or nobody was permitted to make it there: it has no effect.
    NeverLogged,
    /// It may have taken effect, and may still.
    Unknown,
}

impl Error {
    /// Tells whether the call may have taken effect.
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

//! Named bounds of the generated load.

/// Bytes of data in an ordinary operation. Most znodes of a coordination service are this small.
pub const DATA_BYTES_MAX: u64 = 300;

/// Bytes of data in a rare, large operation: more than fits one socket buffer, and than one batch
/// may have beside others.
pub const LARGE_DATA_BYTES_MAX: u64 = 150_000;

/// The longest generated time to live, in ms: shorter than most runs.
pub const TTL_MS_MAX: u64 = 5_000;

/// The largest generated limits of a quota: of znodes, and of bytes.
pub const QUOTA_COUNT_MAX: u64 = 8;
/// See [`QUOTA_COUNT_MAX`].
pub const QUOTA_BYTES_MAX: u64 = 1_000;

/// In a stream with watches that stay, one operation in so many is about them.
pub const LASTING_ONE_IN: u64 = 12;

/// In a stream with users, one operation in so many is about them or their znodes.
pub const USERS_ONE_IN: u64 = 5;

/// In a stream with znodes that only some users may read, one operation in so many watches one.
pub const PRIVATE_ONE_IN: u64 = 8;

/// Operations of one generated multi.
pub const MULTI_OPS_MAX: u64 = 4;

/// Findings that the judge of an ensemble reports of one history at most: the first ones tell the
/// most, and one wrong write can make thousands of reads wrong.
pub const COMPLAINTS_MAX: usize = 20;

/// Conditions, and operations in each branch, of one generated transaction of etcd.
pub const TXN_OPS_DRAWN_MAX: u64 = 3;

/// How deep generated transactions of etcd stand inside one another: 1 is one without another.
pub const TXN_DEPTH_MAX: u64 = 3;

/// In a stream with compactions, one call in so many is one.
pub const COMPACTION_ONE_IN: u64 = 40;

/// In a stream with errors on purpose, one call in so many is made wrong.
pub const ERROR_ONE_IN: u64 = 15;

/// One of so many calls is about a lease, where a stream has such calls.
pub const LEASE_CALL_ONE_IN: u64 = 3;

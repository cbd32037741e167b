//! Named bounds of the generated load.

/// The largest data of an ordinary operation, in bytes. Most znodes of a coordination service are
/// this small.
pub const DATA_BYTES_MAX: u64 = 300;

/// The largest data of a rare, large operation, in bytes: more than fits into a socket buffer, and
/// more than a batch may hold besides other commands.
pub const LARGE_DATA_BYTES_MAX: u64 = 150_000;

/// The longest generated time to live, in ms: shorter than most runs.
pub const TTL_MS_MAX: u64 = 5_000;

/// The largest limit of a generated quota, in znodes.
pub const QUOTA_COUNT_MAX: u64 = 8;
/// The largest limit of a generated quota, in bytes.
pub const QUOTA_BYTES_MAX: u64 = 1_000;

/// In a stream with persistent watches, one operation in so many is about them.
pub const LASTING_ONE_IN: u64 = 12;

/// In a stream with users, one operation in so many is about them or their znodes.
pub const USERS_ONE_IN: u64 = 5;

/// In a stream with znodes that only some users may read, one operation in so many watches such a
/// znode.
pub const PRIVATE_ONE_IN: u64 = 8;

/// The most operations of a generated multi.
pub const MULTI_OPS_MAX: u64 = 4;

/// The most findings that the judge without an order reports for one history. The first ones tell
/// the most, and one wrong write can make thousands of reads wrong.
pub const COMPLAINTS_MAX: usize = 20;

/// The most conditions, and the most operations per branch, of a generated etcd transaction.
pub const TXN_OPS_DRAWN_MAX: u64 = 3;

/// How deep generated etcd transactions are nested; 1 for a transaction without another inside.
pub const TXN_DEPTH_MAX: u64 = 3;

/// In a stream with compactions, one call in so many is a compaction.
pub const COMPACTION_ONE_IN: u64 = 40;

/// In a stream with deliberate errors, one call in so many is one.
pub const ERROR_ONE_IN: u64 = 15;

/// In a stream with calls about leases, one call in so many is about a lease.
pub const LEASE_CALL_ONE_IN: u64 = 3;

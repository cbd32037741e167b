//! Bounds of snapshots: their pieces, the disk space they need, and the waits for them.

/// How often a leader repeats the offer of a snapshot until the receiver has it.
pub const OFFER_INTERVAL_MS: u64 = 1_000;

/// How long a member waits for a piece of a snapshot before it asks again.
pub const PIECE_PATIENCE_MS: u64 = 2_000;

/// How long a member waits for a piece from a holder that is not the leader, before it reports the
/// holder's silence to the leader.
pub const HOLDER_PATIENCE_MS: u64 = 3 * PIECE_PATIENCE_MS;

/// Maximum bytes of a snapshot's file in one message to another member.
pub const FETCHED_PIECE_BYTES: usize = 1024 * 1024;

/// Bytes of log that must still fit when the log counts as full: for commands under way that were
/// accepted before. With less room, writes are refused. A larger request (`jute.maxbuffer` allows
/// it) may find no room after it was accepted; it is answered when there is some.
pub const ROOM_BYTES_MIN: u64 = 2 * 1024 * 1024;

/// How many bytes the state can still grow when writes begin to be refused: room for the next
/// snapshot is set aside for that. The writes under way then need less.
pub const SNAPSHOT_ROOM_STEP_BYTES: u64 = 1024 * 1024;

/// How long writes wait at most for the snapshot thread's answer whether the next snapshot has
/// room. A disk that hangs for longer must not stop them: the log may be on another disk.
pub const SNAPSHOT_ROOM_ANSWER_MS_MAX: u64 = 3_000;

/// How often the snapshot thread looks for room for the next snapshot while there is too little.
pub const SNAPSHOT_ROOM_RETRY_MS: u64 = 500;

/// How many snapshots are kept, including the newest. If the next one has no room beside them, only
/// the newest is kept.
pub const SNAPSHOTS_KEPT: usize = 2;

/// Bytes of log that make a snapshot due, unless configured. A start holds the log behind its
/// snapshot in memory, and applies this much in half a second. ZooKeeper's `snapSizeLimitInKb` is 4
/// GiB; there the number of commands decides.
pub const SNAPSHOT_LOG_BYTES_DEFAULT: u64 = 64 * 1024 * 1024;

/// A snapshot is not due before the log has the bytes of the state divided by this, even if that is
/// more than [`SNAPSHOT_LOG_BYTES_DEFAULT`]: so snapshots write at most twice as much as clients
/// do, before compression, however large the state is.
pub const SNAPSHOT_LOG_SHARE: u64 = 2;

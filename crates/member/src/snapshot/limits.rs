//! Bounds of snapshots: their pieces, their room on the disk, and how long is waited for them.

/// How often a leader offers a snapshot again to a member that did not take it.
pub const OFFER_INTERVAL_MS: u64 = 1_000;

/// How long a piece of a snapshot may take before it is asked for again.
pub const PIECE_PATIENCE_MS: u64 = 2_000;

/// How long a member asks a holder other than the leader for a piece of a snapshot, before it tells
/// the leader that the piece does not come.
pub const HOLDER_PATIENCE_MS: u64 = 3 * PIECE_PATIENCE_MS;

/// Bytes of a snapshot's file in one piece to another member.
pub const FETCHED_PIECE_BYTES: usize = 1024 * 1024;

/// Bytes of log that must still fit when the disk is full: commands under way that were accepted
/// before. Below this, writes are refused. A larger request (`jute.maxbuffer` allows it) may find
/// no room after it was accepted; it is answered when there is some.
pub const ROOM_BYTES_MIN: u64 = 2 * 1024 * 1024;

/// Bytes of growth for which room for the next snapshot is set aside at least. Writes are refused
/// when this much is left: the writes under way then need less.
pub const SNAPSHOT_ROOM_STEP_BYTES: u64 = 1024 * 1024;

/// How long writes wait at most for the snapshot thread to say whether the next snapshot has room.
/// A disk that hangs for longer must not stop them: the log may be on another one.
pub const SNAPSHOT_ROOM_ANSWER_MS_MAX: u64 = 3_000;

/// How often room for the next snapshot is looked for while there is none.
pub const SNAPSHOT_ROOM_RETRY_MS: u64 = 500;

/// Snapshots that are kept, the newest included. If there is no room for another beside them, only
/// the newest is kept.
pub const SNAPSHOTS_KEPT: usize = 2;

/// Bytes of log after which a snapshot is taken, if the configuration does not say. A start holds
/// the log behind its snapshot in memory, and applies this much in half a second. ZooKeeper's
/// `snapSizeLimitInKb` is 4 GiB; there the number of commands decides.
pub const SNAPSHOT_LOG_BYTES_DEFAULT: u64 = 64 * 1024 * 1024;

/// A snapshot for the size of the log is due after the bytes of the state divided by this, where
/// that is more: so such snapshots write at most twice as much as clients do, before compression,
/// however large the state is.
pub const SNAPSHOT_LOG_SHARE: u64 = 2;

//! The bounds of this crate. A comment gives the unit, what a caller sees at the limit, and the
//! reason for the value unless it is plain.
//!
//! raft-rs has no limits of its own for most of these. Where it has a default, the comment names
//! it.

/// Largest payload of one entry, in bytes. An entry is normally 256 KiB of packed commands. A
/// larger command is an entry of its own. The largest requests that people use in practice are well
/// below this bound (ZooKeeper's `jute.maxbuffer`, etcd's `--max-request-bytes`). Above:
/// `Refused::TooLarge`.
pub const ENTRY_BYTES_MAX: usize = 64 << 20;

/// Most bytes of entries in one append message (raft-rs `max_size_per_msg`); a larger entry is sent
/// alone. Large enough to fill a link, small enough that a lost message costs little.
pub const APPEND_BYTES_MAX: u64 = 1 << 20;

/// Most append messages that one follower has not answered yet (raft-rs `max_inflight_msgs`, with
/// the same default). At the limit, the leader waits for that follower's answers.
pub const APPENDS_IN_FLIGHT_MAX: usize = 256;

/// Default of `Config::uncommitted_bytes_max`: most payload bytes that a leader has accepted and
/// not yet handed out as committed. Above: `Refused::Overloaded`.
pub const UNCOMMITTED_BYTES_MAX: u64 = 128 << 20;

/// Most bytes of committed entries that one `effects()` hands out; the next one hands out the rest.
/// At least one entry is handed out. Bounds what Apply's queue takes at once.
pub const COMMITTED_BYTES_PER_EFFECTS_MAX: u64 = 4 << 20;

/// Default of `LogMemory::bytes_max`: most bytes of applied entries in memory, for followers that
/// lag a little. Older entries are only on disk; a follower that needs them gets a snapshot.
pub const LOG_BYTES_MAX: usize = 8 << 20;

/// Default of `LogMemory::away_bytes_max`: most bytes of applied entries in memory for a follower
/// that has been silent for less than [`AWAY_TIMEOUTS`], so that a member that restarts can
/// continue with the log. If it needs more, it gets a snapshot, which costs more the larger the
/// state is.
pub const LOG_BYTES_AWAY_MAX: usize = 64 << 20;

/// A follower that has been silent for this many election timeouts counts as gone. That is half a
/// minute at 20 ticks of 20 ms each.
pub const AWAY_TIMEOUTS: u64 = 75;

/// Default of `LogMemory::pinned_bytes_max`: most bytes of applied entries in memory for a snapshot
/// that is being made or streamed, and for the followers that catch up after it. Above, these
/// followers need a newer snapshot.
pub const LOG_BYTES_PINNED_MAX: usize = 256 << 20;

/// Bytes of memory that an entry takes besides its payload; counted in the three `LogMemory`
/// limits.
pub const ENTRY_OVERHEAD_BYTES: usize = 160;

/// Largest encoded message, in bytes: one entry of the largest size, or an append full of the
/// smallest entries. (The header of an entry is larger here than in protobuf, and raft-rs counts
/// sizes in protobuf.)
pub const MESSAGE_BYTES_MAX: usize = 80 << 20;

/// Most entries in one message. raft-rs counts at least four bytes for an entry, so no more fit
/// into `APPEND_BYTES_MAX`. Above: `MessageError::TooMany`.
pub const MESSAGE_ENTRIES_MAX: usize = 1 << 18;

/// Most members in each list of a membership. Far above any sensible ensemble.
pub const MEMBERS_MAX: usize = 64;

/// Most changes in one membership entry: enough to replace every member.
pub const MEMBERSHIP_CHANGES_MAX: usize = 2 * MEMBERS_MAX;

/// Most bytes that a caller may attach to a membership entry.
pub const MEMBERSHIP_CONTEXT_BYTES_MAX: usize = 4096;

/// Bytes of a ReadIndex context: member id, boot id and counter, eight bytes each.
pub const READ_CONTEXT_BYTES: usize = 24;

/// Largest context of a message, in bytes. A context is the one of a ReadIndex request, or
/// raft-rs's mark that a vote request belongs to a transfer of leadership.
pub const CONTEXT_BYTES_MAX: usize = 64;

/// Largest term in a message. raft-rs adds one to a term without a check; at a thousand elections a
/// second it would take nine thousand years to get here.
pub const TERM_MAX: u64 = 1 << 48;

/// Largest log index in a message, for the same reason as `TERM_MAX`.
pub const INDEX_MAX: u64 = 1 << 56;

/// Most messages that wait until the disk has caught up. They are answers to peers. At the limit,
/// new ones are dropped, which Raft treats like a lossy network.
pub const MESSAGES_HELD_MAX: usize = 4096;

/// Most linearizable reads that wait for an index. Above: `Refused::Overloaded`.
pub const READS_MAX: usize = 1 << 16;

/// Most ReadIndex rounds under way at once (see `reads`); later reads wait and share the next
/// round.
pub const READ_ROUNDS_MAX: usize = 8;

/// Ticks after which a ReadIndex round without an answer asks the leader again.
pub const READ_RETRY_TICKS: u64 = 4;

/// Most contexts remembered for one round; an answer to an older one is ignored.
pub const READ_ATTEMPTS_MAX: usize = 16;

const _: () = assert!(APPEND_BYTES_MAX / 4 <= MESSAGE_ENTRIES_MAX as u64);
const _: () = assert!(ENTRY_BYTES_MAX + 4096 <= MESSAGE_BYTES_MAX);
const _: () = assert!(UNCOMMITTED_BYTES_MAX >= APPEND_BYTES_MAX);
const _: () = assert!(READ_CONTEXT_BYTES <= CONTEXT_BYTES_MAX);
const _: () = assert!(LOG_BYTES_MAX <= LOG_BYTES_AWAY_MAX);
const _: () = assert!(LOG_BYTES_AWAY_MAX <= LOG_BYTES_PINNED_MAX);

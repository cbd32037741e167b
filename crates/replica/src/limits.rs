//! Every bound of this crate: value, unit, the reason for the value, and what a caller sees at the
//! limit.
//!
//! raft-rs has no protocol default for most of them (its own defaults are "no limit"); where it
//! has one, it is named.

/// Largest payload of one entry, in bytes. An entry is normally 256 KiB of packed commands; one
/// larger command goes alone, and the largest request either protocol is run with in practice
/// (`jute.maxbuffer`, `--max-request-bytes`) is well below this. Beyond it: `Refused::TooLarge`.
pub const ENTRY_BYTES_MAX: usize = 64 << 20;

/// Bytes of entries in one append message (raft-rs `max_size_per_msg`); a larger entry still goes,
/// alone. Large enough to fill a link, small enough that a lost message costs little.
pub const APPEND_BYTES_MAX: u64 = 1 << 20;

/// Append messages sent to one follower and not yet answered (raft-rs `max_inflight_msgs`, whose
/// default is this value). At the limit the leader waits for that follower's answers.
pub const APPENDS_IN_FLIGHT_MAX: usize = 256;

/// Default of `Config::uncommitted_bytes_max`: payload bytes a leader has accepted and not yet
/// handed out as committed. Beyond it: `Refused::Overloaded`.
pub const UNCOMMITTED_BYTES_MAX: u64 = 128 << 20;

/// Bytes of committed entries handed out by one `effects()`; the rest follows in the next one.
/// At least one entry is always handed out. Bounds what Apply's queue takes at once.
pub const COMMITTED_BYTES_PER_EFFECTS_MAX: u64 = 4 << 20;

/// Default of `LogMemory::bytes_max`: bytes of entries kept in memory after they were applied, for
/// followers that lag a little. Older ones are on disk only; a follower that needs them gets a
/// snapshot.
pub const LOG_BYTES_MAX: usize = 8 << 20;

/// Default of `LogMemory::away_bytes_max`: bytes of applied entries that a leader keeps in memory
/// for a follower that has been silent for less than [`AWAY_TIMEOUTS`]: a member that restarts
/// comes back to the log. Beyond it the follower gets a snapshot, which costs the more the larger
/// the state is.
pub const LOG_BYTES_AWAY_MAX: usize = 64 << 20;

/// Election timeouts of silence after which a follower counts as gone: half a minute with 20 ticks
/// of 20 ms each.
pub const AWAY_TIMEOUTS: u64 = 75;

/// Default of `LogMemory::pinned_bytes_max`: bytes of applied entries kept in memory for a snapshot
/// that is being made or streamed and for the followers that are catching up after one. Beyond it
/// they need a newer snapshot.
pub const LOG_BYTES_PINNED_MAX: usize = 256 << 20;

/// Memory that an entry takes besides its payload, in bytes, for the two limits above.
pub const ENTRY_OVERHEAD_BYTES: usize = 160;

/// Largest encoded message, in bytes: one entry of the largest size, or an append full of the
/// smallest entries (whose headers are larger here than in protobuf, which raft-rs counts by).
pub const MESSAGE_BYTES_MAX: usize = 80 << 20;

/// Entries in one message. raft-rs counts at least four bytes for an entry, so this many fit into
/// `APPEND_BYTES_MAX`. Beyond it: `MessageError::TooMany`.
pub const MESSAGE_ENTRIES_MAX: usize = 1 << 18;

/// Members in each list of a membership. Far above any sensible ensemble.
pub const MEMBERS_MAX: usize = 64;

/// Changes in one membership entry: replace every member.
pub const MEMBERSHIP_CHANGES_MAX: usize = 2 * MEMBERS_MAX;

/// Bytes a caller may attach to a membership entry.
pub const MEMBERSHIP_CONTEXT_BYTES_MAX: usize = 4096;

/// Length of a ReadIndex context: member id, boot id, counter, eight bytes each.
pub const READ_CONTEXT_BYTES: usize = 24;

/// Largest context of a message: a ReadIndex context, or raft-rs's mark of a transfer campaign.
pub const CONTEXT_BYTES_MAX: usize = 64;

/// Largest term in a message. raft-rs adds one to terms without a check; at a thousand elections a
/// second this takes nine thousand years.
pub const TERM_MAX: u64 = 1 << 48;

/// Largest log index in a message, for the reason given at `TERM_MAX`.
pub const INDEX_MAX: u64 = 1 << 56;

/// Messages held back until the disk has caught up. They are answers to peers; at the limit new
/// ones are dropped, which Raft treats like a lossy network.
pub const MESSAGES_HELD_MAX: usize = 4096;

/// Linearizable reads waiting for their index. Beyond it: `Refused::Overloaded`.
pub const READS_MAX: usize = 1 << 16;

/// Rounds of ReadIndex under way at once; further reads wait and share the next round.
pub const READ_ROUNDS_MAX: usize = 8;

/// Ticks until a round of ReadIndex that has no answer is asked again.
pub const READ_RETRY_TICKS: u64 = 4;

/// Contexts remembered for one round; an answer to an older one is ignored.
pub const READ_ATTEMPTS_MAX: usize = 16;

const _: () = assert!(APPEND_BYTES_MAX / 4 <= MESSAGE_ENTRIES_MAX as u64);
const _: () = assert!(ENTRY_BYTES_MAX + 4096 <= MESSAGE_BYTES_MAX);
const _: () = assert!(UNCOMMITTED_BYTES_MAX >= APPEND_BYTES_MAX);
const _: () = assert!(READ_CONTEXT_BYTES <= CONTEXT_BYTES_MAX);
const _: () = assert!(LOG_BYTES_MAX <= LOG_BYTES_AWAY_MAX);
const _: () = assert!(LOG_BYTES_AWAY_MAX <= LOG_BYTES_PINNED_MAX);

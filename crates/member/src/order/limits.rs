//! Bounds of Loop: how much is on its way into the log at once, and how long Loop waits for other
//! members and for its disk.

use crate::limits::{
    CLOCK_INTERVAL_MS, HEARTBEAT_QUIET_MS, PEER_BODY_BYTES_MAX, QUIET_TIMEOUT_MS_MIN,
};
use crate::spaces::limits::LEASE_ADVANCE_MS_MAX;

/// Loop packs the next entry only while fewer entries than this are not durable, on this member's
/// disk or on a quorum. More would only lengthen the queue: what arrives meanwhile goes into one
/// larger entry.
pub const ENTRIES_TO_DISK_MAX: usize = 4;

/// How long Loop sleeps at most if nothing arrives and nothing is due. By then it notices broken
/// links, stalled disks and lost questions.
pub const LOOK_MS_MAX: u64 = 500;

/// How much later than planned Loop may look at the clock before it assumes that the process was
/// paused.
pub const LATE_MS: u64 = 40;

/// How long before a deadline Loop begins to look at the clock every
/// [`CLOCK_INTERVAL_MS`](crate::limits::CLOCK_INTERVAL_MS): so a process that was paused until then
/// hears its clients before it expires their sessions.
pub const EXPIRY_MARGIN_MS: u64 = 600;

/// How long a follower waits for the answer to a report of live sessions before it sends a new one.
pub const HEARD_RETRY_MS: u64 = 500;

/// Maximum bytes of batches that another member as leader was given and that are not applied here,
/// or one batch if larger. At the bound further batches wait: this bounds what a leader holds for
/// each follower.
pub const FORWARD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How long the batches that the leader was given may stay unapplied here, all of them, before they
/// are given again. Needed only if a message is lost while its link stays up. On a disk that is
/// slower than this, batches are given twice for nothing.
pub const FORWARD_SILENCE_MS: u64 = 3_000;

/// How often a member whose disk is full repeats its message about that to the others, since a
/// message may be lost.
pub const FULL_INTERVAL_MS: u64 = 1_000;

/// How long the others take a member's disk for full after the last message that it is.
pub const FULL_LASTS_MS: u64 = 3 * FULL_INTERVAL_MS;

/// How long a member must be silent before another one may take its place.
pub const REPLACED_SILENCE_MS: u64 = 2_000;

/// How often a leader sends heartbeats while something is written: at least three times within the
/// shortest election timeout.
pub const HEARTBEAT_MS: u64 = 100;

/// How long nothing must be applied before a leader sends heartbeats as rarely as
/// [`HEARTBEAT_QUIET_MS`](crate::limits::HEARTBEAT_QUIET_MS).
pub const QUIET_MS: u64 = 1_000;

const _: () = assert!(
    QUIET_TIMEOUT_MS_MIN as u64 / 3 > 3 * HEARTBEAT_QUIET_MS + HEARD_RETRY_MS + CLOCK_INTERVAL_MS
);

/// Ticks of the replica between the heartbeats that raft-rs sends by itself: as many as it allows.
/// Loop sends its own heartbeats, with the question that proves contact, at [`HEARTBEAT_MS`].
pub const HEARTBEAT_TICKS: u32 = 19;

/// How long a member may be without contact before it may no longer give a leader its batches again
/// at once: another member may have taken its place, so it must first apply everything that is
/// committed.
pub const PROOF_SILENCE_MS: u64 = REPLACED_SILENCE_MS / 2;

/// How long the log's disk may take to make something durable before a leader hands over
/// leadership, unless configured (`quorate.diskStallMs`). For a disk that is often slower the limit
/// rises.
pub const DISK_STALL_MS: u64 = 1_000;

/// The highest value to which [`DISK_STALL_MS`] rises, however slow the disk usually is.
pub const DISK_STALL_MS_MAX: u64 = 10_000;

/// How many of the last minutes decide what is usual for a disk.
pub const STALL_HISTORY_MINUTES: usize = 8;

/// How many of these minutes must have been measured before the limit can rise.
pub const STALL_MINUTES_MIN: usize = 3;

/// The length of such a minute, in ms.
pub const STALL_MINUTE_MS: u64 = 60_000;

/// Maximum bytes of entries that this member's disk has not made durable. Beyond it a leader packs
/// no entry, and a follower drops messages with entries, as if the link had lost them.
pub const PERSISTING_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How often a snapshot that is to make room on a full disk is tried again after it failed.
pub const SNAPSHOT_RETRY_MS: u64 = 10_000;

const _: () = assert!(EXPIRY_MARGIN_MS > 2 * LEASE_ADVANCE_MS_MAX);

const _: () =
    assert!(FORWARD_BYTES_MAX + machine::limits::ENTRY_BYTES_MAX + 64 <= PEER_BODY_BYTES_MAX);

/// How long a leader whose state is not that of the majority tries to hand over leadership before
/// it resigns.
pub const DIFFERS_HAND_OVER_MS: u64 = 1_000;

//! Bounds of the order: how much is on its way into the log at once, and how long Loop waits.

use crate::limits::{
    CLOCK_INTERVAL_MS, HEARTBEAT_QUIET_MS, PEER_BODY_BYTES_MAX, QUIET_TIMEOUT_MS_MIN,
};
use crate::spaces::limits::LEASE_ADVANCE_MS_MAX;

/// Entries on their way to the disks of a quorum before Loop packs the next one. More would only
/// lengthen the queue: what arrives meanwhile goes into one larger entry.
pub const ENTRIES_TO_DISK_MAX: usize = 4;

/// How long Loop sleeps at most if nothing arrives and nothing is due: it notices broken links,
/// stalled disks and lost questions by then.
pub const LOOK_MS_MAX: u64 = 500;

/// How late Loop may look at the clock before it assumes that the process was paused.
pub const LATE_MS: u64 = 40;

/// How long before a deadline Loop begins to look at the clock every
/// [`CLOCK_INTERVAL_MS`](crate::limits::CLOCK_INTERVAL_MS): a process that was paused until then
/// hears its clients before it judges them.
pub const EXPIRY_MARGIN_MS: u64 = 600;

/// How long a follower waits for the answer to a report of heard sessions before it reports again.
pub const HEARD_RETRY_MS: u64 = 500;

/// Bytes of batches that the leader was given and that are not applied here, or one batch if
/// larger. At the bound further batches wait: this bounds what a leader holds for each follower.
pub const FORWARD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How long none of the batches given to the leader may be applied here before they are given
/// again. This is needed only if a message is lost while the link goes on; on a disk that is so
/// slow it costs duplicates.
pub const FORWARD_SILENCE_MS: u64 = 3_000;

/// How often a member whose disk is full says so again, since one message may be lost.
pub const FULL_INTERVAL_MS: u64 = 1_000;

/// How long a member's disk is taken for full after it last said so.
pub const FULL_LASTS_MS: u64 = 3 * FULL_INTERVAL_MS;

/// How long a member must not be heard before another takes its server's place.
pub const REPLACED_SILENCE_MS: u64 = 2_000;

/// How often a leader tells the others that it leads: at least three times within the shortest
/// election timeout.
pub const HEARTBEAT_MS: u64 = 100;

/// How long nothing must be written before a leader sends heartbeats at
/// [`HEARTBEAT_QUIET_MS`](crate::limits::HEARTBEAT_QUIET_MS).
pub const QUIET_MS: u64 = 1_000;

const _: () = assert!(
    QUIET_TIMEOUT_MS_MIN as u64 / 3 > 3 * HEARTBEAT_QUIET_MS + HEARD_RETRY_MS + CLOCK_INTERVAL_MS
);

/// Ticks of the replica between the heartbeats that raft-rs sends by itself: as few as it allows.
/// Loop sends its own, with the question that proves contact, at [`HEARTBEAT_MS`].
pub const HEARTBEAT_TICKS: u32 = 19;

/// How long a member may be without contact before it must apply everything that is committed, and
/// only then may hand over again what a leader was given: another member may have taken its place
/// meanwhile.
pub const PROOF_SILENCE_MS: u64 = REPLACED_SILENCE_MS / 2;

/// How long the log's disk may take to make something durable before a leader hands over, unless
/// configured (`quorate.diskStallMs`). A disk that is often that slow may take longer.
pub const DISK_STALL_MS: u64 = 1_000;

/// How long a disk may take at most before it stalls, however slow it usually is.
pub const DISK_STALL_MS_MAX: u64 = 10_000;

/// The number of last minutes that a disk's usual slowness is computed from.
pub const STALL_HISTORY_MINUTES: usize = 8;

/// Minutes that must be known before a usual slowness is computed.
pub const STALL_MINUTES_MIN: usize = 3;

/// Length of a minute of that history.
pub const STALL_MINUTE_MS: u64 = 60_000;

/// Bytes of entries that wait for this member's disk while a quorum of the others has them. A
/// leader packs no more, and a follower takes no more, as if the link had lost them.
pub const PERSISTING_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How often a failed snapshot is tried again that is to make room on a full disk.
pub const SNAPSHOT_RETRY_MS: u64 = 10_000;

const _: () = assert!(EXPIRY_MARGIN_MS > 2 * LEASE_ADVANCE_MS_MAX);

const _: () =
    assert!(FORWARD_BYTES_MAX + machine::limits::ENTRY_BYTES_MAX + 64 <= PEER_BODY_BYTES_MAX);

/// How long a leader whose state is not that of the majority tries to hand over before it resigns.
pub const DIFFERS_HAND_OVER_MS: u64 = 1_000;

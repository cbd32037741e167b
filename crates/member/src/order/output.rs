//! The output of Loop, for the driver to pass on.

use machine::{Mark, MemberId, StatedLevel};

use crate::leader::digests::Difference;
use crate::message::{DiskJob, SnapshotJob, ToApply, UnknownEntry, UnreadableEntry};
use crate::order::refused::Condemned;
use crate::peer::{PeerError, PeerFrame};

/// Everything that the driver is to pass on, each list in order.
#[derive(Debug, Default)]
pub struct LoopOutput {
    /// Jobs for the disk thread.
    pub disk: Vec<DiskJob>,
    /// Messages for Apply.
    pub apply: Vec<ToApply>,
    /// Jobs for the snapshot thread.
    pub snapshot: Vec<SnapshotJob>,
    /// Frames for other members. The frames to one member arrive in this order or, when a link
    /// breaks, not at all.
    pub peers: Vec<(MemberId, PeerFrame)>,
    /// A durable snapshot covers the log up to this point.
    pub release: Option<storage::wal::SnapshotPoint>,
    /// Whether the log must leave the free room to a snapshot; set each time that changes.
    pub yield_room: Option<bool>,
    /// Whether writes are refused because the disk is full; set each time that changes, for people.
    pub disk_is_full: Option<bool>,
    /// The leader, each time it changes, if there are other members; for people.
    pub leadership: Vec<Leadership>,
    /// Set once, when this member begins to serve clients.
    pub ready: bool,
    /// The time that another leader stamped into the last entry that goes to the disk; `None`
    /// without such an entry.
    pub proposed_ms: Option<i64>,
    /// Set if the data directory must not be used any more. The driver marks it and ends the
    /// process; another start gets the other members' state.
    pub condemned: Option<Condemned>,
    /// Set if the log has an entry that this build cannot apply. The driver ends the process; the
    /// data directory stays as it is.
    pub unknown: Option<UnknownEntry>,
    /// Set if the log has an entry that cannot be read. The driver ends the process; the data
    /// directory stays as it is.
    pub unreadable: Option<UnreadableEntry>,
    /// The state's level, each time it rises, for the driver to tell other servers.
    pub raised: Option<StatedLevel>,
    /// The revision that the leader compacts etcd's keys to by itself; for people.
    pub compacting: Option<i64>,
    /// Differences that a leader found when it compared digests; for people.
    pub differences: Vec<Difference>,
    /// Snapshots that this member begins to fetch; for people.
    pub fetching: Vec<Fetching>,
    /// The mark of a snapshot that was installed.
    pub installed: Option<Mark>,
}

/// A snapshot that this member begins to fetch, since the leader's log does not reach it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetching {
    /// The index of the last entry that the snapshot holds.
    pub index: u64,
    /// The member that sends it.
    pub holder: MemberId,
    /// The number of that member's server, where it is known.
    pub server: Option<u64>,
}

/// A member that sent what no correct member sends.
#[derive(Debug)]
pub struct BadPeer {
    /// The member that sent it.
    pub from: MemberId,
    /// The error in what it sent.
    pub error: PeerError,
}

/// The leader of an ensemble, as this member knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// This member leads, in this term.
    Own(u64),
    /// Another member leads, in this term, with the number of its server where that is known.
    Other(u64, MemberId, Option<u64>),
    /// This member knows no leader.
    Nobody,
}

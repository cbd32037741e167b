//! The output of Loop, for the driver to pass on.

use std::sync::Arc;

use machine::{Mark, MemberId, Servers, StatedLevel};

use crate::leader::digests::Difference;
use crate::message::{DiskJob, SnapshotJob, ToApply, UnknownEntry, UnreadableEntry};
use crate::order::refused::Condemned;
use crate::peer::{PeerError, PeerFrame};

/// Everything that the driver must pass on after [`Loop::finish`](super::Loop::finish), each list
/// in order.
#[derive(Debug, Default)]
pub struct LoopOutput {
    /// Jobs for the disk thread.
    pub disk: Vec<DiskJob>,
    /// Messages for Apply.
    pub apply: Vec<ToApply>,
    /// Jobs for the snapshot thread.
    pub snapshot: Vec<SnapshotJob>,
    /// Frames for other members. Those to one member arrive in this order or, if the link breaks,
    /// not at all.
    pub peers: Vec<(MemberId, PeerFrame)>,
    /// The point up to which a durable snapshot covers the log, for the disk thread to delete that
    /// log.
    pub release: Option<storage::wal::SnapshotPoint>,
    /// Whether the log must leave free disk space to the next snapshot; set each time that changes.
    pub yield_room: Option<bool>,
    /// Whether writes are refused because the disk is full; set each time that changes, for the
    /// server's log.
    pub disk_is_full: Option<bool>,
    /// The leader, each time it changes; empty if this member is the only voter. For the server's
    /// log.
    pub leadership: Vec<Leadership>,
    /// Set once, when this member becomes ready to serve clients.
    pub ready: bool,
    /// The timestamp of the newest entry from another leader that goes to the disk, in ms since
    /// 1970; `None` if there is no such entry.
    pub proposed_ms: Option<i64>,
    /// Set if the data directory must not be used any more. The driver marks the directory as
    /// condemned and ends the process; the next start sets the content aside and gets the state of
    /// the other members.
    pub condemned: Option<Condemned>,
    /// Set if the log has an entry that this build cannot apply. The driver ends the process; the
    /// data directory stays as it is.
    pub unknown: Option<UnknownEntry>,
    /// Set if the log has an entry that cannot be read. The driver ends the process; the data
    /// directory stays as it is.
    pub unreadable: Option<UnreadableEntry>,
    /// The level of the state, each time it rises, for the hellos to other servers.
    pub raised: Option<StatedLevel>,
    /// The revision to which this leader compacts etcd's keys automatically; for the server's log.
    pub compacting: Option<i64>,
    /// The servers of the state, each time that a change of the list is accepted or finished or
    /// that a member is retired, and at the first turn if the list was ever changed. The driver
    /// makes links to these servers, and tells retired members to end.
    pub servers: Option<Arc<Servers>>,
    /// Set when the list no longer has this member's server: it was removed for good.
    pub removed: bool,
    /// Differences that a leader found when it compared digests; for the server's log.
    pub differences: Vec<Difference>,
    /// Snapshots that this member begins to fetch; for the server's log.
    pub fetching: Vec<Fetching>,
    /// The mark of a snapshot that was installed on request
    /// ([`Loop::install`](super::Loop::install)).
    pub installed: Option<Mark>,
}

/// A snapshot that this member begins to fetch, since the leader's log no longer has the entries
/// that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetching {
    /// The index of the last entry that the snapshot holds.
    pub index: u64,
    /// The member that sends the snapshot.
    pub holder: MemberId,
    /// The number of that member's server, if known.
    pub server: Option<u64>,
}

/// A member that sent something that no correct member sends.
#[derive(Debug)]
pub struct BadPeer {
    /// The member.
    pub from: MemberId,
    /// The error in its message.
    pub error: PeerError,
}

/// The leader of the ensemble, as far as this member knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// This member leads, in this term.
    Own(u64),
    /// Another member leads: the term, the member, and the number of its server if known.
    Other(u64, MemberId, Option<u64>),
    /// This member knows no leader.
    Nobody,
}

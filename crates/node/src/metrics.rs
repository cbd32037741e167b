//! What the threads measure, and the handle that reads it and the rest of a node's numbers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use machine::{Level, Machine, Mark, MemberId, Owner};
use member::hello::Known;
use member::summary::Summary;
use member::{LinkedServer, Loop, LoopCounts, PeerStatus, RaiseRefused, Status};
use parking_lot::RwLock;

use crate::threads::Shared;

/// Measured by the threads, by ZooKeeper's names (`ServerMetrics`).
#[derive(Clone, Debug, Default)]
pub struct NodeMetrics {
    /// `fsynctime`, in us: writing a group of entries to the log until it is durable.
    pub fsync_time_us: Summary,
    /// How often that took longer than the configured time.
    pub fsync_threshold_exceed_count: u64,
    /// `quorum_ack_latency`, in us: an entry of this member as leader until a quorum has it on
    /// disk.
    pub quorum_ack_latency_us: Summary,
    /// `ack_latency`, in us: until each member has, this one included.
    pub ack_latency_us: BTreeMap<MemberId, Summary>,
    /// `propagation_latency`, in ms: from the leader's time in an entry until that is applied here,
    /// by the clocks of both. One value for each hold of the state's lock.
    pub propagation_latency_ms: Summary,
    /// `proposal_latency`, in ms: from the leader's time in an entry until a follower hands it to
    /// its disk, by the clocks of both. One value for each job of the disk.
    pub proposal_latency_ms: Summary,
    /// `snapshottime`, in ms: from a snapshot's beginning until it is durable.
    pub snapshot_time_ms: Summary,
    /// The mark of the newest snapshot, and when it was finished, in s since 1970.
    pub last_snapshot: Option<(Mark, i64)>,
    /// Where the start's time went.
    pub startup: Startup,
}

/// What the start took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Startup {
    /// `startup_snap_load_time`: loading the snapshot and reading the log behind it.
    pub snapshot_load_ms: u64,
    /// `startup_txns_load_time`: applying that log.
    pub log_apply_ms: u64,
    /// `startup_txns_loaded`: commands in it.
    pub commands_applied: u64,
    /// Commands that were ever applied, when serving began.
    pub ordinal: u64,
}

/// Reads a node's numbers. A thread of its own has it: nothing here is on the path of a request.
#[derive(Clone)]
pub struct MonitorHandle {
    pub(crate) shared: Arc<Shared>,
}

impl MonitorHandle {
    /// The state. Readers hold the lock for a short, bounded time.
    pub fn machine(&self) -> &RwLock<Machine> {
        &self.shared.machine
    }

    /// Ms since the node started.
    pub fn monotonic_ms(&self) -> u64 {
        self.shared.now_ms()
    }

    /// What the threads measured.
    pub fn metrics(&self) -> NodeMetrics {
        self.shared.metrics.lock().clone()
    }

    /// Forgets what the threads measured, but for the start.
    pub fn reset(&self) {
        let mut metrics = self.shared.metrics.lock();
        let NodeMetrics { startup, last_snapshot, .. } = *metrics;
        *metrics = NodeMetrics { startup, last_snapshot, ..NodeMetrics::default() };
    }

    /// What Loop counted since the start.
    pub fn loop_counts(&self) -> LoopCounts {
        self.shared.look_at_loop(|member| member.counts())
    }

    /// How long ago this member was in touch with a leader, or a quorum; none where it needs
    /// nobody.
    pub fn contact_silent_ms(&self) -> Option<u64> {
        let at_ms = self.shared.contact_at_ms.load(Ordering::Acquire);
        (at_ms != u64::MAX).then(|| self.shared.now_ms().saturating_sub(at_ms))
    }

    /// Those whose votes count, by member id: while a change is under way also those that are to
    /// go.
    pub fn voters(&self) -> Vec<u64> {
        self.shared.look_at_loop(|member| member.voters())
    }

    /// Those that have the log and no vote, by member id.
    pub fn learners(&self) -> Vec<u64> {
        self.shared.look_at_loop(|member| member.learners())
    }

    /// Which member this is.
    pub fn member(&self) -> MemberId {
        self.shared.look_at_loop(|member| member.id())
    }

    /// Has leadership handed to a member, or to the one that is least behind. False if this member
    /// does not lead, or that one cannot. Who leads then is told by [`MonitorHandle::replica`].
    pub fn hand_over(&self, to: Option<MemberId>) -> bool {
        self.shared.ask_loop(|member| member.hand_over(to))
    }

    /// Has the level of the ensemble raised to the highest that this build knows. Returns that
    /// level; the state says when it is there.
    ///
    /// # Errors
    /// Nothing happens then.
    pub fn upgrade(&self) -> Result<Level, RaiseRefused> {
        self.shared.ask_loop(Loop::upgrade)
    }

    /// What this build knows.
    pub fn known(&self) -> Known {
        self.shared.look_at_loop(|member| member.known().clone())
    }

    /// The members that link to this one, with what they said of themselves.
    pub fn linked(&self) -> BTreeMap<MemberId, LinkedServer> {
        self.shared.look_at_loop(|member| member.linked().clone())
    }

    /// Where the replica of this member stands and, if it leads, how far the others are.
    pub fn replica(&self) -> (Status, Vec<PeerStatus>) {
        self.shared.look_at_loop(|member| (member.status(), member.peers()))
    }

    /// Sessions with the time that they have left, at most `max` of them, and how many there are.
    pub fn leases(&self, max: usize) -> (Vec<(Owner, u64)>, usize) {
        self.shared.look_at_loop(|member| member.leases(max))
    }
}

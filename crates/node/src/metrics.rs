//! Measurements that the threads make, and [`MonitorHandle`]: monitoring uses it to read these and
//! other numbers of a node, and to pass an operator's requests to Loop.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use machine::{Level, Machine, Mark, MemberId, Owner};
use member::membership::hello::Known;
use member::summary::Summary;
use member::{LinkedServer, Loop, LoopCounts, PeerStatus, RaiseRefused, Status};
use parking_lot::RwLock;

use crate::peer_traffic::PeerTraffic;
use crate::threads::Shared;

/// Measurements of the threads, under ZooKeeper's names (`ServerMetrics`).
#[derive(Clone, Debug, Default)]
pub struct NodeMetrics {
    /// `fsynctime`, in us: the time to write a group of entries to the log and make them durable.
    pub fsync_time_us: Summary,
    /// The times of `fsync_time_us` as a histogram, since the start.
    pub fsync_buckets: TimeBuckets,
    /// Number of times of `fsync_time_us` that were longer than the configured threshold.
    pub fsync_threshold_exceed_count: u64,
    /// `quorum_ack_latency`, in us: on the leader, the time until a quorum has an entry on disk.
    pub quorum_ack_latency_us: Summary,
    /// `ack_latency`, in us: on the leader, the time until each member has an entry on disk, itself
    /// included.
    pub ack_latency_us: BTreeMap<MemberId, Summary>,
    /// `propagation_latency`, in ms: from the leader's time in an entry until the entry is applied
    /// here. Compares two clocks. One value for each hold of the state's lock.
    pub propagation_latency_ms: Summary,
    /// `proposal_latency`, in ms: from the leader's time in an entry until a follower gives the
    /// entry to its disk. Compares two clocks. One value for each job of the disk.
    pub proposal_latency_ms: Summary,
    /// `snapshottime`, in ms: from the start of a snapshot until it is durable.
    pub snapshot_time_ms: Summary,
    /// The mark of the newest snapshot, and when that was finished, in s since 1970.
    pub last_snapshot: Option<(Mark, i64)>,
    /// How long the steps of the start took.
    pub startup: Startup,
}

/// Upper bounds of the buckets of [`TimeBuckets`], in us: 1 ms, and then always twice the one
/// before (etcd's `wal_fsync_duration_seconds`).
pub const WRITE_BOUNDS_US: [u64; 14] = {
    let mut bounds = [1_000; 14];
    let mut at = 1;
    while at < bounds.len() {
        bounds[at] = 2 * bounds[at - 1];
        at += 1;
    }
    bounds
};

/// A histogram of the times that writes of the log took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeBuckets {
    /// One count for each of [`WRITE_BOUNDS_US`], and one for longer times.
    pub counts: [u64; WRITE_BOUNDS_US.len() + 1],
    /// The sum of all times, in us.
    pub sum_us: u64,
}

impl TimeBuckets {
    pub(crate) fn record(&mut self, us: u64) {
        let at = WRITE_BOUNDS_US.iter().position(|bound| us <= *bound);
        self.counts[at.unwrap_or(WRITE_BOUNDS_US.len())] += 1;
        self.sum_us += us;
    }
}

/// How long the start took, and how much it applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Startup {
    /// `startup_snap_load_time`: ms to load the snapshot and read the log behind it.
    pub snapshot_load_ms: u64,
    /// `startup_txns_load_time`: ms to apply that log.
    pub log_apply_ms: u64,
    /// `startup_txns_loaded`: number of commands in that log.
    pub commands_applied: u64,
    /// Number of commands ever applied, at the time when serving began.
    pub ordinal: u64,
}

/// A member's replica at one moment.
#[derive(Clone, Debug)]
pub struct ReplicaFacts {
    /// The id of this member.
    pub own: MemberId,
    pub status: Status,
    /// The members that vote, by id; during a change of the membership the outgoing voters, too.
    pub voters: Vec<u64>,
    /// The members that have the log and no vote, by id.
    pub learners: Vec<u64>,
    /// Whether this member's server is an observer of the list.
    pub is_observer: bool,
    /// The progress of the other members; empty unless this member leads.
    pub peers: Vec<PeerStatus>,
}

/// Lets monitoring read a node's numbers and pass an operator's requests to Loop. No request of a
/// client comes through here.
#[derive(Clone)]
pub struct MonitorHandle {
    pub(crate) shared: Arc<Shared>,
}

impl MonitorHandle {
    /// The replicated state. Readers may hold the lock only for a short, bounded time.
    pub fn machine(&self) -> &RwLock<Machine> {
        &self.shared.machine
    }

    /// Ms since the node started.
    pub fn monotonic_ms(&self) -> u64 {
        self.shared.now_ms()
    }

    /// Whether the log is in use: it was made durable a moment ago.
    pub fn is_log_used(&self) -> bool {
        self.shared.is_log_used()
    }

    /// Measurements of the threads.
    pub fn metrics(&self) -> NodeMetrics {
        self.shared.metrics.lock().clone()
    }

    /// Resets the measurements of the threads, except those of the start, the buckets and the
    /// newest snapshot.
    pub fn reset(&self) {
        let mut metrics = self.shared.metrics.lock();
        let NodeMetrics { startup, last_snapshot, fsync_buckets, .. } = *metrics;
        *metrics = NodeMetrics { startup, last_snapshot, fsync_buckets, ..NodeMetrics::default() };
    }

    /// Loop's counters since the start.
    pub fn loop_counts(&self) -> LoopCounts {
        self.shared.look_at_loop(|member| member.counts())
    }

    /// Ms since this member last had contact with a leader or a quorum; `None` if it needs no other
    /// member.
    pub fn contact_silent_ms(&self) -> Option<u64> {
        let at_ms = self.shared.contact_at_ms.load(Ordering::Acquire);
        (at_ms != u64::MAX).then(|| self.shared.now_ms().saturating_sub(at_ms))
    }

    /// The ids of the members that vote; during a membership change, the outgoing ones, too.
    pub fn voters(&self) -> Vec<u64> {
        self.shared.look_at_loop(|member| member.voters())
    }

    /// The ids of the members that have the log and no vote.
    pub fn learners(&self) -> Vec<u64> {
        self.shared.look_at_loop(|member| member.learners())
    }

    /// The id of this member.
    pub fn member(&self) -> MemberId {
        self.shared.look_at_loop(|member| member.id())
    }

    /// The id that etcd's clients see of this member now.
    pub fn etcd_id(&self) -> u64 {
        let own = self.member();
        self.machine().read().control().etcd_id_of(own)
    }

    /// Starts to hand leadership to `to`, or to the member that is least behind. False if this
    /// member does not lead or the other cannot. [`MonitorHandle::replica`] shows the new leader.
    pub fn hand_over(&self, to: Option<MemberId>) -> bool {
        self.shared.ask_loop(|member| member.hand_over(to))
    }

    /// Starts to raise the level of the ensemble to the highest that this build knows, and returns
    /// that level. The replicated state shows when the level is reached.
    ///
    /// # Errors
    /// The level was not raised, and why.
    pub fn upgrade(&self) -> Result<Level, RaiseRefused> {
        self.shared.ask_loop(Loop::upgrade)
    }

    /// The levels and formats that this build knows.
    pub fn known(&self) -> Known {
        self.shared.look_at_loop(|member| member.known().clone())
    }

    /// The members that have a link to this one, with their hellos.
    pub fn linked(&self) -> BTreeMap<MemberId, LinkedServer> {
        self.shared.look_at_loop(|member| member.linked().clone())
    }

    /// This member's replica, its members and, if it leads, the progress of the others, as of one
    /// moment.
    pub fn replica(&self) -> ReplicaFacts {
        self.shared.look_at_loop(|member| ReplicaFacts {
            own: member.id(),
            status: member.status(),
            voters: member.voters(),
            learners: member.learners(),
            is_observer: member.is_observer(),
            peers: member.peers(),
        })
    }

    /// Traffic between this member and each other one; empty in a standalone server.
    pub fn peer_traffic(&self) -> Vec<PeerTraffic> {
        self.shared.peers.as_ref().map(|peers| peers.traffic()).unwrap_or_default()
    }

    /// At most `max` sessions with the time that each has left, and the number of all sessions.
    pub fn session_deadlines(&self, max: usize) -> (Vec<(Owner, u64)>, usize) {
        self.shared.look_at_loop(|member| member.sessions(max))
    }
}

//! Keeps Loop's counts for monitoring, and the figures of how much Loop keeps.

use crate::spaces;
use crate::summary::Latency;

/// The counts of Loop since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopCounts {
    /// Commands in all entries that were proposed.
    pub commands_proposed: u64,
    /// Counts of a leader's work for the spaces.
    pub spaces: spaces::Counts,
    /// Times that this member, as leader, has found that states differ (`digest_mismatches_count`).
    pub differences: u64,
    /// Bytes of snapshot files that were sent to other members (`snapshot_bytes_sent`).
    pub snapshot_bytes_sent: u64,
    /// Snapshots that this member has fetched completely (`snapshots_fetched`).
    pub snapshots_fetched: u64,
    /// How many of the fetched snapshots came from a follower (`snapshots_borrowed`).
    pub snapshots_borrowed: u64,
    /// Bytes of the last, the smallest and the largest entry that was proposed, in this order;
    /// `None` before the first.
    pub proposal_bytes: Option<[u64; 3]>,
    /// How often this member lost sight of a leader, or started without one (`looking_count`).
    pub looking_count: u64,
    /// How long each time lasted during which this member knew no leader (`election_time`).
    pub election_time: Latency,
    looking_since_ms: Option<u64>,
    /// How long each time lasted during which this member could not serve clients
    /// (`unavailable_time`). A leader serves them once it has committed an entry of its term; no
    /// member serves any before it has been ready once.
    pub unavailable_time: Latency,
    unavailable_since_ms: Option<u64>,
    /// How long this member took, as a follower after its start, from knowing a leader until it had
    /// applied what was committed at that moment (`follower_sync_time`).
    pub follower_sync_time: Latency,
    following_since_ms: Option<u64>,
    /// Times that this member, as leader, has supplied a snapshot to another member, because the
    /// log no longer had the entries that it needed (`snap_count`).
    pub snapshots_given: u64,
    /// When this member began to lead, by Loop's clock; `None` unless it leads.
    pub leading_since_ms: Option<u64>,
}

impl LoopCounts {
    /// The counts at the start, when no leader is known and no client is served.
    pub(super) fn at_start() -> LoopCounts {
        LoopCounts {
            looking_count: 1,
            looking_since_ms: Some(0),
            unavailable_since_ms: Some(0),
            ..LoopCounts::default()
        }
    }

    pub(super) fn on_proposal(&mut self, commands: u64, bytes: u64) {
        self.commands_proposed += commands;
        let [_, min, max] = self.proposal_bytes.unwrap_or([bytes; 3]);
        self.proposal_bytes = Some([bytes, min.min(bytes), max.max(bytes)]);
    }

    pub(super) fn on_role(&mut self, is_leader: bool, is_leader_known: bool, now_ms: u64) {
        self.leading_since_ms = match self.leading_since_ms {
            _ if !is_leader => None,
            None => Some(now_ms),
            since => since,
        };
        self.following_since_ms = (is_leader_known && !is_leader).then_some(now_ms);
        match (is_leader_known, self.looking_since_ms) {
            (false, None) => {
                self.looking_count += 1;
                self.looking_since_ms = Some(now_ms);
                self.unavailable_since_ms.get_or_insert(now_ms);
            }
            (true, Some(since_ms)) => {
                self.election_time.record(now_ms.saturating_sub(since_ms));
                self.looking_since_ms = None;
            }
            _ => {}
        }
    }

    /// Notes that this member has become ready: if it follows, it has what its leader had.
    pub(super) fn on_ready(&mut self, now_ms: u64) {
        if let Some(since_ms) = self.following_since_ms {
            self.follower_sync_time.record(now_ms.saturating_sub(since_ms));
        }
    }

    /// Whether this member cannot serve clients now.
    pub(super) fn is_unavailable(&self) -> bool {
        self.unavailable_since_ms.is_some()
    }

    /// Notes that this member can serve clients.
    pub(super) fn on_available(&mut self, now_ms: u64) {
        if let Some(since_ms) = self.unavailable_since_ms.take() {
            self.unavailable_time.record(now_ms.saturating_sub(since_ms));
        }
    }
}

/// How much Loop keeps for work under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopHeld {
    /// Batches that no leader was given yet.
    pub batches: usize,
    /// Bytes of this member's own batches that are not applied here.
    pub unapplied_bytes: usize,
    /// Syncs that wait for their index, and questions about leases that wait for an answer.
    pub waiting_reads: usize,
    /// Sessions, leases and nodes of etcd v2 with a deadline.
    pub deadlines: usize,
    /// Places in the queue of deadlines; each session, lease or node in `deadlines` has one.
    pub deadline_places: usize,
}

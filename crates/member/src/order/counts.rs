//! The counts of Loop, and how much it keeps.

use crate::spaces;
use crate::summary::Latency;

/// The counts of Loop since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoopCounts {
    /// Commands in entries that were proposed.
    pub commands_proposed: u64,
    /// Counts of this member's work for the spaces as leader.
    pub spaces: spaces::Counts,
    /// Times that this member, as leader, has found that states differ (`digest_mismatches_count`).
    pub differences: u64,
    /// Bytes of snapshots' files that were sent to other members (`snapshot_bytes_sent`).
    pub snapshot_bytes_sent: u64,
    /// Snapshots that this member has fetched whole (`snapshots_fetched`).
    pub snapshots_fetched: u64,
    /// How many of the fetched snapshots came from a follower (`snapshots_borrowed`).
    pub snapshots_borrowed: u64,
    /// Bytes of the last, the smallest and the largest entry that was proposed; `None` before the
    /// first.
    pub proposal_bytes: Option<[u64; 3]>,
    /// How often no leader was known any more (`looking_count`).
    pub looking_count: u64,
    /// How long this member knew no leader, each time (`election_time`).
    pub election_time: Latency,
    looking_since_ms: Option<u64>,
    /// How long clients could not be served, each time (`unavailable_time`). A leader serves them
    /// once it has committed an entry of its term; no member serves any before it was ready once.
    pub unavailable_time: Latency,
    unavailable_since_ms: Option<u64>,
    /// How long this member took, as a follower after its start, from knowing a leader to having
    /// applied what was committed then (`follower_sync_time`).
    pub follower_sync_time: Latency,
    following_since_ms: Option<u64>,
    /// Times that this member, as leader, has given another one a snapshot, because the log did not
    /// reach it (`snap_count`).
    pub snapshots_given: u64,
    /// When this member began to lead, in ms; `None` unless it leads.
    pub leading_since_ms: Option<u64>,
}

impl LoopCounts {
    /// At the start no leader is known, and no client is served.
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

    /// This member has become ready: if it follows, it has what its leader had.
    pub(super) fn on_ready(&mut self, now_ms: u64) {
        if let Some(since_ms) = self.following_since_ms {
            self.follower_sync_time.record(now_ms.saturating_sub(since_ms));
        }
    }

    /// Whether clients cannot be served.
    pub(super) fn is_unavailable(&self) -> bool {
        self.unavailable_since_ms.is_some()
    }

    /// Clients are served again, if they were not.
    pub(super) fn on_available(&mut self, now_ms: u64) {
        if let Some(since_ms) = self.unavailable_since_ms.take() {
            self.unavailable_time.record(now_ms.saturating_sub(since_ms));
        }
    }
}

/// How much Loop keeps for work under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopHeld {
    /// Batches that were given to no leader yet.
    pub batches: usize,
    /// Bytes of own batches that are not applied here.
    pub unapplied_bytes: usize,
    /// Syncs that wait for their index, and questions about leases that wait for an answer.
    pub waiting_reads: usize,
    /// Sessions, leases and nodes of etcd v2 with a deadline.
    pub deadlines: usize,
    /// Places that they take in the order of deadlines: one for each.
    pub deadline_places: usize,
}

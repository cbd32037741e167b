//! What this member knows of its ensemble, as monitoring shows it: which part it has, who leads, and at a
//! leader how far the others are.

use machine::MemberId;
use member::{LoopCounts, Role};
use node::MonitorHandle;
use zk::metrics::{Distribution, Metric, Number, Value};

use crate::config::ClusterConfig;

/// Ticks of Raft after which a member that was not heard does not count as connected: an election
/// would have begun.
const SILENT_TICKS_MAX: u64 = 20;

/// How things stand now.
pub struct Ensemble {
    /// The configured servers that vote.
    pub size: usize,
    pub part: Part,
    /// The member that leads, where it is known.
    pub leader: Option<MemberId>,
    /// The members that the leader hears; 0 at others.
    pub learners: usize,
    /// Those of them that have the log that is in memory, and need no snapshot.
    pub synced_followers: usize,
    counts: LoopCounts,
    now_ms: u64,
}

/// What a member does in its ensemble (`QuorumPeer.ServerState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Looking,
    Following,
    Leading,
}

impl Part {
    /// `ZooKeeperServer.getState`: what the server is to its clients.
    pub fn mode(self) -> &'static str {
        match self {
            Part::Leading => "leader",
            // It is none of both, but whoever looks for the leader must not find one.
            Part::Following | Part::Looking => "follower",
        }
    }

    /// `QuorumPeer.getDetailedPeerState`.
    pub fn peer_state(self) -> &'static str {
        match self {
            Part::Leading => "leading - broadcast",
            Part::Following => "following - broadcast",
            Part::Looking => "looking",
        }
    }
}

impl Ensemble {
    /// Looks at the member.
    pub fn of(node: &MonitorHandle, cluster: &ClusterConfig) -> Ensemble {
        let (status, peers) = node.replica();
        let part = match (status.role, status.leader) {
            // Before it has committed an entry of its term it cannot serve.
            (Role::Leader, _) if status.has_committed_in_term => Part::Leading,
            (Role::Leader, _) | (_, None) => Part::Looking,
            (_, Some(_)) => Part::Following,
        };
        let heard = peers.iter().filter(|peer| {
            peer.silent_ticks.is_some_and(|silent_ticks| silent_ticks <= SILENT_TICKS_MAX)
        });
        let synced = heard.clone().filter(|peer| {
            peer.snapshot_index.is_none() && peer.matched_index + 1 >= status.first_index
        });
        Ensemble {
            size: cluster.servers.len(),
            part,
            leader: status.leader.map(MemberId),
            learners: heard.count(),
            synced_followers: synced.count(),
            counts: node.loop_counts(),
            now_ms: node.monotonic_ms(),
        }
    }

    /// Bytes of the last proposal, of the smallest and of the largest: a leader's
    /// (`BufferStats`).
    pub fn proposal_sizes(&self) -> Option<[i64; 3]> {
        let shown = |bytes: [u64; 3]| bytes.map(|bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        let sizes = self.counts.proposal_bytes.map_or([-1; 3], shown);
        (self.part == Part::Leading).then_some(sizes)
    }

    /// `QuorumZooKeeperServer.registerMetrics`, `LeaderZooKeeperServer.registerMetrics`, and what
    /// `ServerMetrics` has of elections.
    pub fn metrics(&self) -> Vec<Metric> {
        let elections = &self.counts.election_time;
        let election_time = Distribution {
            count: elections.count,
            sum: elections.total_ms as f64,
            min: elections.min_ms as f64,
            max: elections.max_ms as f64,
            quantiles: None,
        };
        let mut metrics = vec![
            whole("quorum_size", self.size as i64),
            Metric { name: "looking_count", value: Value::Counter(self.counts.looking_count) },
            Metric { name: "election_time", value: Value::Basic(election_time) },
        ];
        if let Some([last, min, max]) = self.proposal_sizes() {
            let since_ms = self.counts.leading_since_ms.unwrap_or(self.now_ms);
            let uptime_ms = self.now_ms.saturating_sub(since_ms);
            metrics.extend([
                whole("learners", self.learners as i64),
                whole("synced_followers", self.synced_followers as i64),
                // Every follower votes, and observers are not served.
                whole("synced_non_voting_followers", 0),
                whole("synced_observers", 0),
                // A sync is answered by its own member, when it has caught up with the leader.
                whole("pending_syncs", 0),
                whole("leader_uptime", i64::try_from(uptime_ms).unwrap_or(i64::MAX)),
                whole("last_proposal_size", last),
                whole("min_proposal_size", min),
                whole("max_proposal_size", max),
            ]);
        }
        metrics
    }
}

fn whole(name: &'static str, value: i64) -> Metric {
    Metric { name, value: Value::Gauge(Number::Whole(value)) }
}

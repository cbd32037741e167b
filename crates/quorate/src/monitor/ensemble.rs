//! What this member knows of its ensemble, as monitoring shows it: which part it has, who leads,
//! and at a leader how far the others are.

use std::collections::BTreeSet;

use machine::{Level, MemberId, Servers};
use member::bootstrap::absent_server;
use member::hello::Known;
use member::summary::Latency;
use member::{LoopCounts, Role, Status};
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
    /// Those of these that have no vote, or not yet.
    pub synced_non_voters: usize,
    counts: LoopCounts,
    status: Status,
    now_ms: u64,
}

/// What a member does in its ensemble (`QuorumPeer.ServerState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Looking,
    Following,
    Leading,
}

/// The members that there are, and how far each is.
pub struct MembersView {
    pub own: MemberId,
    pub part: Part,
    pub status: Status,
    /// How long ago this member heard a quorum, or a leader that did.
    pub contact_ms: Option<u64>,
    /// By member id: this one, and all others.
    pub members: Vec<MemberView>,
    /// The servers, as the state has them, by number.
    pub servers: Servers,
    /// The level of the ensemble.
    pub level: Level,
    /// What this server's build knows.
    pub known: Known,
}

/// One of them.
pub struct MemberView {
    pub id: MemberId,
    /// The server that it is, or stands for; none where no leader has ever heard of it.
    pub server: Option<u32>,
    pub is_voter: bool,
    /// Entries that it lacks; the others' are known to a leader only.
    pub entries_behind: Option<u64>,
    /// Since when it was not heard: likewise.
    pub silent_ms: Option<u64>,
    /// Whether it is to fetch a snapshot: likewise.
    pub fetches_snapshot: bool,
    /// The version of its program and the highest level that it knows; none: it is not linked.
    pub knows: Option<(String, Level)>,
}

impl MembersView {
    /// Looks at the member.
    pub fn of(node: &MonitorHandle) -> MembersView {
        let (status, peers) = node.replica();
        let own = node.member();
        let voters = node.voters();
        let (servers, level) = {
            let machine = node.machine().read();
            (machine.control().servers().clone(), machine.control().level().level)
        };
        let (known, linked) = (node.known(), node.linked());
        let knows = |id: MemberId| match id == own {
            true => Some((known.program.clone(), known.level_max)),
            false => linked.get(&id).map(|it| (it.program.clone(), it.level_max)),
        };
        let ids = voters.iter().chain(&node.learners()).copied().collect::<BTreeSet<u64>>();
        let members = ids.into_iter().map(|id| {
            let peer = peers.iter().find(|peer| peer.member_id == id);
            let behind = |index: u64| status.last_index.saturating_sub(index);
            let entries_behind = match id == own.0 {
                true => Some(behind(status.persisted_index)),
                false => peer.map(|peer| behind(peer.matched_index)),
            };
            let ticks = peer.and_then(|peer| peer.silent_ticks);
            MemberView {
                id: MemberId(id),
                server: servers
                    .number_of(MemberId(id))
                    .or_else(|| absent_server(id))
                    .and_then(|server| u32::try_from(server).ok()),
                is_voter: voters.contains(&id),
                entries_behind,
                silent_ms: ticks.map(|ticks| ticks * node::limits::RAFT_TICK_MS),
                fetches_snapshot: peer.is_some_and(|peer| peer.snapshot_index.is_some()),
                knows: knows(MemberId(id)),
            }
        });
        let members: Vec<MemberView> = members.collect();
        let (part, contact_ms) = (Part::of(&status), node.contact_silent_ms());
        MembersView { own, part, status, contact_ms, members, servers, level, known }
    }
}

impl Part {
    fn of(status: &Status) -> Part {
        match (status.role, status.leader) {
            // Before it has committed an entry of its term it cannot serve.
            (Role::Leader, _) if status.has_committed_in_term => Part::Leading,
            (Role::Leader, _) | (_, None) => Part::Looking,
            (_, Some(_)) => Part::Following,
        }
    }

    /// In lower case.
    pub fn name(self) -> &'static str {
        match self {
            Part::Looking => "looking",
            Part::Following => "following",
            Part::Leading => "leading",
        }
    }

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
        let part = Part::of(&status);
        let heard = peers.iter().filter(|peer| {
            peer.silent_ticks.is_some_and(|silent_ticks| silent_ticks <= SILENT_TICKS_MAX)
        });
        let synced = heard.clone().filter(|peer| {
            peer.snapshot_index.is_none() && peer.matched_index + 1 >= status.first_index
        });
        let voters = node.voters();
        let non_voters = synced.clone().filter(|peer| !voters.contains(&peer.member_id));
        Ensemble {
            size: cluster.servers.len(),
            part,
            leader: status.leader.map(MemberId),
            learners: heard.count(),
            synced_followers: synced.count(),
            synced_non_voters: non_voters.count(),
            counts: node.loop_counts(),
            status,
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
        let mut metrics = vec![
            whole("quorum_size", self.size as i64),
            // Not ZooKeeper's: where the log is, by Raft's names.
            count("raft_term", self.status.term),
            count("raft_last_index", self.status.last_index),
            count("raft_commit_index", self.status.commit_index),
            count("raft_applied_index", self.status.applied_index),
            Metric { name: "looking_count", value: Value::Counter(self.counts.looking_count) },
            Metric {
                name: "digest_mismatches_count",
                value: Value::Counter(self.counts.differences),
            },
            times("election_time", &self.counts.election_time),
            times("unavailable_time", &self.counts.unavailable_time),
            // `Follower.followLeader`
            times("follower_sync_time", &self.counts.follower_sync_time),
            counter("snap_count", self.counts.snapshots_given),
            // Not ZooKeeper's either: who is loaded by members that come back.
            counter("snapshot_bytes_sent", self.counts.snapshot_bytes_sent),
            counter("snapshots_fetched", self.counts.snapshots_fetched),
            counter("snapshots_borrowed", self.counts.snapshots_borrowed),
        ];
        if let Some([last, min, max]) = self.proposal_sizes() {
            let since_ms = self.counts.leading_since_ms.unwrap_or(self.now_ms);
            let uptime_ms = self.now_ms.saturating_sub(since_ms);
            metrics.extend([
                whole("learners", self.learners as i64),
                whole("synced_followers", self.synced_followers as i64),
                whole("synced_non_voting_followers", self.synced_non_voters as i64),
                // Observers are not served.
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

/// Times in ms; there are no quantiles.
fn times(name: &'static str, of: &Latency) -> Metric {
    let (sum, min, max) = (of.total_ms as f64, of.min_ms as f64, of.max_ms as f64);
    let distribution = Distribution { count: of.count, sum, min, max, quantiles: None };
    Metric { name, value: Value::Basic(distribution) }
}

fn counter(name: &'static str, value: u64) -> Metric {
    Metric { name, value: Value::Counter(value) }
}

fn count(name: &'static str, value: u64) -> Metric {
    whole(name, i64::try_from(value).unwrap_or(i64::MAX))
}

fn whole(name: &'static str, value: i64) -> Metric {
    Metric { name, value: Value::Gauge(Number::Whole(value)) }
}

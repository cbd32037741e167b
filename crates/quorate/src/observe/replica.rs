//! Facts about the ensemble as this member sees it: its part, the leader, and on a leader how far
//! the other members are.

use std::collections::BTreeSet;

use machine::{Level, MemberId, Servers};
use member::membership::bootstrap::absent_server;
use member::membership::hello::Known;
use member::{Role, Status};
use node::{MonitorHandle, ReplicaFacts};

use config::ClusterConfig;

/// Ticks of Raft after which a silent member no longer counts as connected: by then an election
/// would have begun.
const SILENT_TICKS_MAX: u64 = 20;

/// The state of the ensemble now.
pub struct Ensemble {
    /// The configured servers that vote.
    pub size: usize,
    pub part: Part,
    /// The members that the leader hears; 0 on other members.
    pub learners: usize,
    /// The members among these whose missing entries are all in the leader's log, so that they need
    /// no snapshot.
    pub synced_followers: usize,
    /// The members among the synced ones that have no vote, or not yet.
    pub synced_non_voters: usize,
}

/// The part of a member in its ensemble (`QuorumPeer.ServerState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Looking,
    Following,
    Leading,
}

/// The members of the ensemble, and how far each is.
pub struct MembersView {
    pub own: MemberId,
    pub part: Part,
    pub status: Status,
    /// The time since this member last heard a quorum, or a leader that did, ms.
    pub contact_ms: Option<u64>,
    /// This member and all others, by member id.
    pub members: Vec<MemberView>,
    /// The servers in the replicated state, by number.
    pub servers: Servers,
    /// The level of the ensemble.
    pub level: Level,
    /// The versions and levels that this server's build knows.
    pub known: Known,
}

/// One member.
pub struct MemberView {
    pub id: MemberId,
    /// Its server, or the server that it is a placeholder for; `None` if no leader has ever heard
    /// of it.
    pub server: Option<u32>,
    pub is_voter: bool,
    /// Entries that it lacks. Only a leader knows this of other members.
    pub entries_behind: Option<u64>,
    /// The time since it was last heard, ms. Only a leader knows this.
    pub silent_ms: Option<u64>,
    /// Whether it must fetch a snapshot. Only a leader knows this.
    pub fetches_snapshot: bool,
    /// The version of its program and the highest level that it knows; `None` without a link to it.
    pub knows: Option<(String, Level)>,
}

impl MembersView {
    /// Takes the view from the member.
    pub fn of(node: &MonitorHandle) -> MembersView {
        let ReplicaFacts { own, status, voters, learners, peers } = node.replica();
        let (servers, level) = {
            let machine = node.machine().read();
            (machine.control().servers().clone(), machine.control().level().level)
        };
        let (known, linked) = (node.known(), node.linked());
        let knows = |id: MemberId| match id == own {
            true => Some((known.program.clone(), known.level_max)),
            false => linked.get(&id).map(|it| (it.program.clone(), it.level_max)),
        };
        let ids = voters.iter().chain(&learners).copied().collect::<BTreeSet<u64>>();
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
    /// The part of a member whose replica has this status.
    pub fn of(status: &Status) -> Part {
        match (status.role, status.leader) {
            // A leader that has not committed an entry of its term cannot serve yet.
            (Role::Leader, _) if status.has_committed_in_term => Part::Leading,
            (Role::Leader, _) | (_, None) => Part::Looking,
            (_, Some(_)) => Part::Following,
        }
    }

    /// The name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Part::Looking => "looking",
            Part::Following => "following",
            Part::Leading => "leading",
        }
    }

    /// `ZooKeeperServer.getState`: the mode that clients see.
    pub fn mode(self) -> &'static str {
        match self {
            Part::Leading => "leader",
            // A member that looks for a leader is neither, but a client that asks for the leader
            // must not find it.
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
    /// The ensemble of a member whose replica has these facts.
    pub fn of(replica: &ReplicaFacts, cluster: &ClusterConfig) -> Ensemble {
        let ReplicaFacts { status, voters, peers, .. } = replica;
        let heard = peers.iter().filter(|peer| {
            peer.silent_ticks.is_some_and(|silent_ticks| silent_ticks <= SILENT_TICKS_MAX)
        });
        let synced = heard.clone().filter(|peer| {
            peer.snapshot_index.is_none() && peer.matched_index + 1 >= status.first_index
        });
        let non_voters = synced.clone().filter(|peer| !voters.contains(&peer.member_id));
        Ensemble {
            size: cluster.servers.len(),
            part: Part::of(status),
            learners: heard.count(),
            synced_followers: synced.count(),
            synced_non_voters: non_voters.count(),
        }
    }
}

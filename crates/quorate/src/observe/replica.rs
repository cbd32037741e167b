//! Gathers facts about the ensemble as this member sees it: its own part, who leads, and, if this
//! member leads, how far the other members are.

use std::collections::BTreeSet;

use machine::{Level, MemberId, Servers};
use member::membership::bootstrap::absent_server;
use member::membership::hello::Known;
use member::{Role, Status};
use node::{MonitorHandle, ReplicaFacts};

/// After this many Raft ticks of silence a member no longer counts as connected. If it were still
/// connected to other members, it would have called an election by then.
const SILENT_TICKS_MAX: u64 = 20;

/// The ensemble at this moment, for metrics.
pub struct Ensemble {
    /// The number of members that vote.
    pub size: usize,
    pub part: Part,
    /// How many members the leader hears from; 0 on other members.
    pub learners: usize,
    /// How many of `learners` lack only entries that are still in the leader's log, so that they
    /// need no snapshot.
    pub synced_followers: usize,
    /// How many of `synced_followers` have no vote, for instance because they are still joining.
    pub synced_non_voters: usize,
}

/// A member's part in its ensemble (`QuorumPeer.ServerState`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Looking,
    Following,
    Observing,
    Leading,
}

/// The members of the ensemble, and how far each is, for people.
pub struct MembersView {
    pub own: MemberId,
    pub part: Part,
    pub status: Status,
    /// Time since this member had contact with a quorum, or with a leader that had, in ms; `None`
    /// if it never had.
    pub contact_ms: Option<u64>,
    /// All members, this one included, by member id: those of the membership, and those that a
    /// leader has registered and not forgotten yet.
    pub members: Vec<MemberView>,
    /// The servers of the ensemble, from the replicated state.
    pub servers: Servers,
    /// The ensemble's level.
    pub level: Level,
    /// This program's version, and the highest level that it knows.
    pub known: Known,
}

/// A member of the ensemble.
pub struct MemberView {
    pub id: MemberId,
    /// The number of the member's server, or of the server that it is a placeholder for. `None` if
    /// no leader has ever heard from the member.
    pub server: Option<u32>,
    pub is_voter: bool,
    /// How many entries the member lacks. For other members only a leader knows this.
    pub entries_behind: Option<u64>,
    /// Time since the member was last heard from, in ms. Only a leader knows this.
    pub silent_ms: Option<u64>,
    /// Whether the member must fetch a snapshot. Only a leader knows this.
    pub fetches_snapshot: bool,
    /// The member's program version and the highest level that it knows; `None` if there is no link
    /// to it.
    pub knows: Option<(String, Level)>,
}

impl MembersView {
    /// Takes the view from this member.
    pub fn of(node: &MonitorHandle) -> MembersView {
        let replica = node.replica();
        let part = Part::of(&replica);
        let ReplicaFacts { own, status, voters, learners, peers, .. } = replica;
        let (servers, level) = {
            let machine = node.machine().read();
            (machine.control().servers().clone(), machine.control().level().level)
        };
        let (known, linked) = (node.known(), node.linked());
        let knows = |id: MemberId| match id == own {
            true => Some((known.program.clone(), known.level_max)),
            false => linked.get(&id).map(|it| (it.program.clone(), it.level_max)),
        };
        let registered = servers.members().keys().map(|member| &member.0);
        let ids = voters.iter().chain(&learners).chain(registered);
        let ids = ids.copied().collect::<BTreeSet<u64>>();
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
        let contact_ms = node.contact_silent_ms();
        MembersView { own, part, status, contact_ms, members, servers, level, known }
    }
}

impl Part {
    /// The part of the member with this replica.
    pub fn of(replica: &ReplicaFacts) -> Part {
        let ReplicaFacts { status, is_observer, .. } = replica;
        match (status.role, status.leader) {
            // A leader cannot serve before it has committed an entry of its term.
            (Role::Leader, _) if status.has_committed_in_term => Part::Leading,
            (Role::Leader, _) | (_, None) => Part::Looking,
            (_, Some(_)) if *is_observer => Part::Observing,
            (_, Some(_)) => Part::Following,
        }
    }

    /// The part's name in lower case.
    pub fn name(self) -> &'static str {
        match self {
            Part::Looking => "looking",
            Part::Following => "following",
            Part::Observing => "observing",
            Part::Leading => "leading",
        }
    }

    /// The mode that clients see (`ZooKeeperServer.getState`).
    pub fn mode(self) -> &'static str {
        match self {
            Part::Leading => "leader",
            Part::Observing => "observer",
            // A member that is looking for a leader is neither. But a client that wants the leader
            // must not take it for that.
            Part::Following | Part::Looking => "follower",
        }
    }

    /// The part as `mntr` shows it (`QuorumPeer.getDetailedPeerState`).
    pub fn peer_state(self) -> &'static str {
        match self {
            Part::Leading => "leading - broadcast",
            Part::Following => "following - broadcast",
            Part::Observing => "observing - broadcast",
            Part::Looking => "looking",
        }
    }
}

impl Ensemble {
    /// The ensemble, from the facts about this member's replica.
    pub fn of(replica: &ReplicaFacts) -> Ensemble {
        let ReplicaFacts { status, voters, peers, .. } = replica;
        let heard = peers.iter().filter(|peer| {
            peer.silent_ticks.is_some_and(|silent_ticks| silent_ticks <= SILENT_TICKS_MAX)
        });
        let synced = heard.clone().filter(|peer| {
            peer.snapshot_index.is_none() && peer.matched_index + 1 >= status.first_index
        });
        let non_voters = synced.clone().filter(|peer| !voters.contains(&peer.member_id));
        Ensemble {
            size: voters.len(),
            part: Part::of(replica),
            learners: heard.count(),
            synced_followers: synced.count(),
            synced_non_voters: non_voters.count(),
        }
    }
}

//! Decides about a change of the list that a client has requested: the checks that only a leader
//! can make, because they depend on which servers are present.
//!
//! etcd's checks are those of `EtcdServer.mayAddMember`, `mayRemoveMember` and `mayPromote` (3.6).
//! etcd looks from the member that was asked, and wants links of 5 s; here the leader looks, and a
//! link counts at once. ZooKeeper's check is that of `PrepRequestProcessor` (3.9): a quorum of the
//! next voters must be synced.

use machine::control::list_change::{ChangeKind, LeaderRefused, OpenChange};
use machine::{Command, ControlCommand, MemberId, ServerList, ServerRecord, ServerRole};

use super::{JoinStep, JoinView, absent_server, server_of};

/// The share of the leader's log that a learner must have to be promoted (`readyPercentThreshold`),
/// in tenths.
const READY_TENTHS: u64 = 9;

/// Accepts or refuses an open change; `None` if the leader must first listen for longer.
pub(super) fn step(view: &JoinView<'_>, open: &OpenChange) -> Option<JoinStep> {
    let command = match judge(view, open) {
        Ok(()) => ControlCommand::Accept(open.id),
        // A new leader has not heard every member yet.
        Err(_) if !view.has_listened => return None,
        Err(reason) => ControlCommand::Refuse { change: open.id, reason },
    };
    Some(JoinStep::Submit(Command::Control(command)))
}

fn judge(view: &JoinView<'_>, open: &OpenChange) -> Result<(), LeaderRefused> {
    // A vote of an unknown server could neither stay nor leave.
    let is_known =
        |voter: &u64| absent_server(*voter).is_some() || server_of(view, *voter).is_some();
    if !view.membership.voters.iter().all(is_known) {
        return Err(LeaderRefused::NoQuorum);
    }
    if let ChangeKind::Promote(number) = open.kind
        && !is_ready(view, number)
    {
        return Err(LeaderRefused::LearnerNotReady);
    }
    if open.flags.is_strict && !open.flags.is_forced {
        check_health(view, open.kind)?;
    }
    let old = view.servers.registered.list();
    let takes_vote = voters(old).any(|number| !voters(&open.next).any(|other| other == number));
    let must_have_quorum = takes_vote || open.kind == ChangeKind::Reconfig;
    let is_quorum = |count: usize| count > open.next.voter_count() / 2;
    let are_present = voters(&open.next).filter(|number| is_present(view, *number)).count();
    match must_have_quorum && !open.flags.is_forced && !is_quorum(are_present) {
        true => Err(LeaderRefused::NoQuorum),
        false => Ok(()),
    }
}

/// The checks of etcd's members with `--strict-reconfig-check`.
fn check_health(view: &JoinView<'_>, kind: ChangeKind) -> Result<(), LeaderRefused> {
    let list = view.servers.registered.list();
    let count = list.voter_count();
    let started = |number: &u64| view.servers.registered.members().values().any(|it| it == number);
    let started_count = |but: u64| voters(list).filter(|it| *it != but && started(it)).count();
    let connected = voters(list).filter(|number| is_present(view, *number)).count();
    let enough = |is_enough: bool| is_enough.then_some(()).ok_or(LeaderRefused::NotEnoughStarted);
    let healthy = |is_healthy: bool| is_healthy.then_some(()).ok_or(LeaderRefused::NoQuorum);
    // A majority of one voter more than now.
    let quorum_after_add = count.div_ceil(2) + 1;
    let is_lone = count == 1 && started_count(NOBODY) == 1;
    match kind {
        ChangeKind::AddVoter => {
            enough(is_lone || started_count(NOBODY) >= quorum_after_add)?;
            healthy(is_lone || connected >= quorum_after_add)
        }
        ChangeKind::AddLearner => healthy(is_lone || connected >= quorum_after_add),
        ChangeKind::Promote(_) => enough(started_count(NOBODY) + 1 >= quorum_after_add),
        ChangeKind::Remove(number) if voters(list).any(|it| it == number) => {
            let others = count - 1;
            enough(others > 0 && started_count(number) > others / 2)?;
            // A server that is down is no part of the quorum that is at work.
            healthy(!is_present(view, number) || connected - 1 > (count - 1) / 2)
        }
        ChangeKind::Remove(_) | ChangeKind::Update | ChangeKind::Reconfig => Ok(()),
    }
}

/// A number that no server has.
const NOBODY: u64 = u64::MAX;

/// The numbers of the servers that vote by the list.
fn voters(list: &ServerList) -> impl Iterator<Item = u64> {
    let votes = |(_, record): &(&u64, &ServerRecord)| record.role == ServerRole::Voter;
    list.servers.iter().filter(votes).map(|(number, _)| *number)
}

/// Whether a member that is registered as this server is the leader, or is linked and heard.
fn is_present(view: &JoinView<'_>, number: u64) -> bool {
    members_of(view, number).any(|member| {
        let peer = view.peers.iter().find(|peer| peer.member_id == member.0);
        let silent_ticks = peer.and_then(|peer| peer.silent_ticks);
        member == view.servers.own.0
            || (view.servers.is_linked(member)
                && silent_ticks.is_some_and(|ticks| ticks < view.silent_ticks_min))
    })
}

/// Whether a member of this server has most of the leader's log.
fn is_ready(view: &JoinView<'_>, number: u64) -> bool {
    members_of(view, number).any(|member| {
        let peer = view.peers.iter().find(|peer| peer.member_id == member.0);
        let has_most = peer.is_some_and(|peer| {
            peer.matched_index.saturating_mul(10) >= view.last_index.saturating_mul(READY_TENTHS)
        });
        has_most && is_present(view, number)
    })
}

fn members_of(view: &JoinView<'_>, number: u64) -> impl Iterator<Item = MemberId> {
    let members = view.servers.registered.members().iter();
    members.filter(move |(_, server)| **server == number).map(|(member, _)| *member)
}

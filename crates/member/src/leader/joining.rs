//! Members that are new: a server that has lost its directory comes with another member id, and
//! takes the place of the one that it was. See `docs/design/ensemble.md`, "Identity, birth,
//! joining".
//!
//! Only a leader acts on it. It registers which server each member is that it is linked to; adds
//! one that is not a member as a learner, if the member that was that server is not heard from; and
//! when the learner has caught up, gives it the old one's vote, in one step of joint consensus.
//! Whoever is no member any more is forgotten.

use std::collections::BTreeSet;

use machine::{Command, ControlCommand, Level, MemberId};
use replica::{MemberChange, Membership, MembershipChange, PeerStatus, Transition};

use crate::bootstrap::{absent_server, absent_voter};
use crate::limits::{CAUGHT_UP_ENTRIES, REGISTERS_INTERVAL_MS};
use crate::servers::Servers;

/// What a leader has asked for, of members that come and go.
#[derive(Default)]
pub(crate) struct Joining {
    /// When a command of these was last handed over.
    asked_ms: Option<u64>,
}

/// What is to be done next, one thing at a time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum JoinStep {
    /// A command for the log.
    Submit(Command<'static>),
    /// A change of the membership.
    Change(MembershipChange),
}

/// What a step depends on beside that.
pub(crate) struct JoinView<'a> {
    pub servers: &'a Servers,
    pub membership: &'a Membership,
    pub peers: &'a [PeerStatus],
    pub last_index: u64,
    /// A member that was not heard for so many ticks is gone.
    pub silent_ticks_min: u64,
    /// A member that does not know this level is not added.
    pub level: Level,
    /// Whether this member leads for as long, so that whoever is there was heard.
    pub has_listened: bool,
    pub now_ms: u64,
}

impl Joining {
    /// The state says anew who is registered: what was asked for is done.
    pub fn on_registered(&mut self) {
        self.asked_ms = None;
    }

    /// What a leader is to do, if anything.
    pub fn step(&mut self, view: &JoinView<'_>) -> Option<JoinStep> {
        let is_soon =
            self.asked_ms.is_some_and(|asked_ms| view.now_ms < asked_ms + REGISTERS_INTERVAL_MS);
        if !is_soon && let Some(command) = command(view.servers, view.membership) {
            self.asked_ms = Some(view.now_ms);
            return Some(JoinStep::Submit(command));
        }
        if view.membership.is_joint() {
            return None;
        }
        let step = promotion(view).or_else(|| addition(view));
        step.or_else(|| departure(view)).map(JoinStep::Change)
    }
}

fn command(servers: &Servers, membership: &Membership) -> Option<Command<'static>> {
    let known =
        core::iter::once(servers.own).chain(servers.linked.iter().map(|(id, it)| (*id, it.number)));
    for (member, server) in known {
        if servers.registered.members().get(&member) != Some(&server) {
            return Some(Command::Control(ControlCommand::Register { member, server }));
        }
    }
    let mut gone =
        servers.registered.members().keys().filter(|member| {
            !membership.contains(member.0) && !servers.linked.contains_key(member)
        });
    gone.next().map(|member| Command::Control(ControlCommand::Forget { member: *member }))
}

/// The voters that were registered as this server, and are not this member; or nobody, who
/// votes for a server that was absent at the birth. If there is none, one voter that is silent:
/// one that no leader ever had a link from, so that it is registered as no server, was lost right
/// after its birth; else one whose server has another voter.
fn voters_of(view: &JoinView<'_>, server: u64, but: MemberId) -> BTreeSet<u64> {
    let voters = view.membership.voters.iter().copied().filter(|voter| *voter != but.0);
    let server_of = |voter: &u64| view.servers.registered.number_of(MemberId(*voter));
    let nobody = absent_voter(server);
    let is_known = |voter: &u64| server_of(voter) == Some(server) || Some(*voter) == nobody;
    let known: BTreeSet<u64> = voters.clone().filter(is_known).collect();
    if !known.is_empty() {
        return known;
    }
    let mut lost = voters.filter(|voter| !is_heard(view, *voter));
    let unknown = lost.clone().find(|voter| server_of(voter).is_none());
    unknown.or_else(|| lost.find(|voter| is_second(view, *voter))).into_iter().collect()
}

/// Whether a voter's server has another one, which is heard: it took the vote of a server whose
/// member no leader knew, and the one that it was came back later.
fn is_second(view: &JoinView<'_>, voter: u64) -> bool {
    let server_of = |member: u64| view.servers.registered.members().get(&MemberId(member));
    let server = server_of(voter);
    let is_other = |other: &u64| *other != voter && server_of(*other) == server;
    server.is_some()
        && view.membership.voters.iter().any(|other| is_other(other) && is_heard(view, *other))
}

/// Whether this member is the leader itself, or is heard.
fn is_heard(view: &JoinView<'_>, member: u64) -> bool {
    member == view.servers.own.0.0 || !is_silent(view, member)
}

/// Whether a member is not heard any more. Before a leader has listened it does not know, but
/// of those who are nobody.
fn is_silent(view: &JoinView<'_>, member: u64) -> bool {
    if absent_server(member).is_some() {
        return true;
    }
    if !view.has_listened {
        return false;
    }
    let peer = view.peers.iter().find(|peer| peer.member_id == member);
    let silent_ticks = peer.and_then(|peer| peer.silent_ticks);
    silent_ticks.is_none_or(|ticks| ticks >= view.silent_ticks_min)
}

/// A learner that has caught up takes the vote of the member that was its server: one vote, so
/// that there are as many as before. Where its server had two, the other one is left for a server
/// that has none.
fn promotion(view: &JoinView<'_>) -> Option<MembershipChange> {
    for learner in &view.membership.learners {
        let Some(server) = view.servers.registered.members().get(&MemberId(*learner)) else {
            continue;
        };
        let peer = view.peers.iter().find(|peer| peer.member_id == *learner);
        let has_caught_up = peer.is_some_and(|peer| {
            peer.snapshot_index.is_none()
                && peer.matched_index + CAUGHT_UP_ENTRIES >= view.last_index
        }) && !is_silent(view, *learner);
        let replaced = voters_of(view, *server, MemberId(*learner));
        let are_silent = replaced.iter().all(|member| is_silent(view, *member));
        if has_caught_up
            && are_silent
            && let Some(gone) = replaced.last()
        {
            let changes = vec![MemberChange::AddVoter(*learner), MemberChange::Remove(*gone)];
            return Some(change(Transition::Joint, changes));
        }
    }
    None
}

/// Whoever comes as a server whose member is gone becomes a learner; so that there is one for
/// each server at most, an earlier one that is gone, too, makes place.
fn addition(view: &JoinView<'_>) -> Option<MembershipChange> {
    for (member, linked) in &view.servers.linked {
        let server = &linked.number;
        if linked.level_max < view.level {
            continue;
        }
        let is_registered = view.servers.registered.members().get(member) == Some(server);
        if view.membership.contains(member.0) || !is_registered {
            continue;
        }
        let replaced = voters_of(view, *server, *member);
        let are_silent = replaced.iter().all(|member| is_silent(view, *member));
        if replaced.is_empty() || !are_silent {
            continue;
        }
        let others = view.membership.learners.iter().copied().filter(|learner| {
            let is_of_server =
                view.servers.registered.members().get(&MemberId(*learner)) == Some(server);
            is_of_server && is_silent(view, *learner)
        });
        let mut changes: Vec<MemberChange> = others.map(MemberChange::Remove).collect();
        changes.push(MemberChange::AddLearner(member.0));
        return Some(change(Transition::Auto, changes));
    }
    None
}

/// Removes a learner that is gone, if the voter that the learner was to replace is heard again, or
/// if no server is known whose it was: it was forgotten before it was added, and nothing else would
/// ever remove it. Should it come back, it is registered and added again.
fn departure(view: &JoinView<'_>) -> Option<MembershipChange> {
    let mut learners = view.membership.learners.iter().copied();
    let gone = learners.find(|learner| {
        let member = MemberId(*learner);
        if view.servers.linked.contains_key(&member) || !is_silent(view, *learner) {
            return false;
        }
        let server = view.servers.registered.members().get(&member);
        let is_back = |voter: &u64| is_heard(view, *voter);
        server.is_none_or(|server| voters_of(view, *server, member).iter().any(is_back))
    })?;
    Some(change(Transition::Auto, vec![MemberChange::Remove(gone)]))
}

fn change(transition: Transition, changes: Vec<MemberChange>) -> MembershipChange {
    MembershipChange { transition, changes, context: bytes::Bytes::new() }
}

#[cfg(test)]
mod tests;

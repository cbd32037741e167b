//! Replaces lost members. A server that has lost its directory comes back with a new member id, and
//! takes the vote of the member that it was before. See `docs/design/ensemble.md`, "Identity,
//! birth, joining".
//!
//! Only a leader does this. It registers in the state which server each linked member is. It adds a
//! new member as a learner, if the former member of the same server is silent. Once the learner has
//! caught up, the leader gives it the former member's vote, in one step of joint consensus. A
//! member that has left the membership is removed from the state, too: it is forgotten.

use std::collections::BTreeSet;

use machine::{Command, ControlCommand, Level, MemberId};
use replica::{MemberChange, Membership, MembershipChange, PeerStatus, Transition};

use crate::limits::CAUGHT_UP_ENTRIES;
use crate::membership::bootstrap::{absent_server, absent_voter};
use crate::membership::limits::REGISTERS_INTERVAL_MS;
use crate::membership::servers::Servers;

/// A leader's record of its last command that registered or forgot a member.
#[derive(Default)]
pub(crate) struct Joining {
    /// When that command was last handed over, by Loop's clock; `None` once the registered servers
    /// have changed.
    asked_ms: Option<u64>,
}

/// The leader's next step for members that join or leave. It takes one at a time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum JoinStep {
    /// Submit this command to the log.
    Submit(Command<'static>),
    /// Propose this change of the membership.
    Change(MembershipChange),
}

/// A leader's view of the ensemble: the input of a step.
pub(crate) struct JoinView<'a> {
    pub servers: &'a Servers,
    pub membership: &'a Membership,
    pub peers: &'a [PeerStatus],
    pub last_index: u64,
    /// A member that was silent for this many ticks counts as lost.
    pub silent_ticks_min: u64,
    /// A member that does not know this level is not added.
    pub level: Level,
    /// Whether this member has led for that many ticks, so that it has heard every member that is
    /// alive.
    pub has_listened: bool,
    pub now_ms: u64,
}

impl Joining {
    /// Notes that the registered servers have changed, so the command that was handed over is
    /// applied.
    pub fn on_registered(&mut self) {
        self.asked_ms = None;
    }

    /// The leader's next step, if there is any.
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

/// The voters that a new member of this server would replace: voters registered as this server,
/// other than `but`, and the placeholder if the server was absent at the birth. If there are none,
/// one silent voter: preferably one that is registered as no server, because it was lost right
/// after the birth, before any leader had a link from it; else one whose server has a second voter.
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

/// Whether another voter of this voter's server is heard. A server can have two voters: while no
/// leader knew this voter's server, the server's next member took the vote of another voter that no
/// leader knew; then this voter came back.
fn is_second(view: &JoinView<'_>, voter: u64) -> bool {
    let server_of = |member: u64| view.servers.registered.members().get(&MemberId(member));
    let server = server_of(voter);
    let is_other = |other: &u64| *other != voter && server_of(*other) == server;
    server.is_some()
        && view.membership.voters.iter().any(|other| is_other(other) && is_heard(view, *other))
}

/// Whether this member is the leader itself, or the leader hears it.
fn is_heard(view: &JoinView<'_>, member: u64) -> bool {
    member == view.servers.own.0.0 || !is_silent(view, member)
}

/// Whether a member is silent. A placeholder always is. Until the leader has listened long enough,
/// no other member counts as silent.
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

/// Gives a learner that has caught up the vote of its server's former member. It replaces exactly
/// one voter, so the number of votes does not change. If the server has two voters, the other one
/// remains for a server without any.
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

/// Adds a linked member as a learner, if its server's voters are silent. The same change removes
/// earlier learners of that server that are silent, so a server has at most one.
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

/// Removes a silent learner if the voter that it was to replace is heard again, or if it is
/// registered as no server: then it was forgotten before it was added, and nothing else would ever
/// remove it. If it comes back, it is registered and added again.
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

//! Moves the Raft membership: a leader's steps to replace lost members, and to follow changes of
//! the list of servers. See `docs/design/ensemble.md`, "Identity, birth, joining", and
//! `docs/design/member-changes.md`.
//!
//! Only a leader does this, one step at a time. It registers in the state which server each linked
//! member is. It adds a new member as a learner, if the former member of the same server is silent,
//! or if the server has no vote yet. Once the learner has caught up, the leader gives it the former
//! member's vote in one step of joint consensus, or a vote of its own. A member that has left the
//! membership is removed from the state, too: it is forgotten, or retired if its server is no
//! longer listed.
//!
//! While a change of the list is open, the leader first decides about it ([`judging`]), and then
//! moves the votes to the servers of the next list ([`following`]).

use std::collections::{BTreeMap, BTreeSet};

use machine::control::list_change::ChangeId;
use machine::{Command, ControlCommand, Level, MemberId};
use replica::{MemberChange, Membership, MembershipChange, PeerStatus, Transition};

mod following;
mod judging;

use crate::limits::CAUGHT_UP_ENTRIES;
use crate::membership::bootstrap::{absent_server, absent_voter};
use crate::membership::limits::{LEAVE_PATIENCE_MS, REGISTERS_INTERVAL_MS};
use crate::membership::servers::Servers;
use crate::order::limits::REPLACED_SILENCE_MS;

/// A leader's record of its last command about members, and of how long its steps wait.
#[derive(Default)]
pub(crate) struct Joining {
    /// When that command was last handed over, by Loop's clock; `None` once the registered servers
    /// have changed.
    asked_ms: Option<u64>,
    /// Since when this leader has seen a joint membership that it must end itself.
    joint_since_ms: Option<u64>,
    /// The accepted change that this leader pursues, and since when.
    accepted: Option<(ChangeId, u64)>,
    /// The registered members that have no link, and since when. A new member makes its links anew
    /// once it is born, so it has none for a moment.
    away: BTreeMap<u64, u64>,
    /// The last command that forgets or retires a member, until that member is not registered any
    /// more. It may be on its way: if the member links again, it must not be added before that.
    leaving: Option<(MemberId, ControlCommand)>,
}

/// The leader's next step for members that join or leave. It takes one at a time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum JoinStep {
    /// Submit this command to the log.
    Submit(Command<'static>),
    /// Propose this change of the membership.
    Change(MembershipChange),
    /// Hand leadership to one of these members, because this one is to lose its vote.
    HandOver(Vec<MemberId>),
}

/// A rule of the changes of members that a member breaks on purpose. Real members break none; the
/// simulator shows that its judges notice each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokenRule {
    /// Voters that leave are removed at once, and not made learners first.
    Demotion,
    /// A learner gets a vote before it has caught up.
    CatchUp,
    /// A member without a vote that has left is forgotten, and may come back under its id.
    Tombstones,
    /// A member hands over commands before it has a vote, or is registered to serve without one.
    Registration,
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
    /// Whether a change of the membership is under way, which `membership` does not have yet.
    pub is_changing: bool,
    /// The rule that this member breaks; `None` in real servers.
    pub broken: Option<BrokenRule>,
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
        self.note_away(view);
        let members = view.servers.registered.members();
        self.leaving.take_if(|(member, _)| !members.contains_key(member));
        if !is_soon && let Some(command) = self.command(view) {
            self.asked_ms = Some(view.now_ms);
            return Some(JoinStep::Submit(command));
        }
        if view.membership.is_joint() {
            return self.leave(view);
        }
        self.joint_since_ms = None;
        let Some(open) = view.servers.registered.open_change() else {
            self.accepted = None;
            let gone = self.gone_guests(view);
            let step = promotion(view).or_else(|| addition(view, self.leaving_member()));
            let step = step.or_else(|| dismissal(view));
            return step.or_else(|| departure(view, &gone)).map(JoinStep::Change);
        };
        let step = match open.is_accepted {
            true => following::step(view, open, self.pursued_ms(open.id, view.now_ms)),
            false => judging::step(view, open),
        };
        match step {
            Some(JoinStep::Submit(_)) if is_soon => None,
            Some(JoinStep::Submit(command)) => {
                self.asked_ms = Some(view.now_ms);
                Some(JoinStep::Submit(command))
            }
            step => {
                let step = step.or_else(|| replacement(view).map(JoinStep::Change));
                step.or_else(|| addition(view, self.leaving_member()).map(JoinStep::Change))
            }
        }
    }

    /// Notes which registered members have no link.
    fn note_away(&mut self, view: &JoinView<'_>) {
        let registered = view.servers.registered.members().keys();
        let is_away = |member: &&MemberId| {
            **member != view.servers.own.0 && !view.servers.is_linked(**member)
        };
        let since = |member: &MemberId| *self.away.get(&member.0).unwrap_or(&view.now_ms);
        let away = registered.filter(is_away).map(|member| (member.0, since(member)));
        self.away = away.collect();
    }

    /// Whether a registered member has had no link for so long that it counts as gone.
    fn is_gone(&self, member: u64, now_ms: u64) -> bool {
        self.away.get(&member).is_some_and(|since_ms| now_ms >= since_ms + REPLACED_SILENCE_MS)
    }

    fn leaving_member(&self) -> Option<MemberId> {
        self.leaving.as_ref().map(|(member, _)| *member)
    }

    /// The learners of guests that count as gone.
    fn gone_guests(&self, view: &JoinView<'_>) -> BTreeSet<u64> {
        let is_gone = |learner: &u64| {
            let number = server_of(view, *learner);
            number.is_some_and(|number| view.servers.registered.is_guest(number))
                && self.is_gone(*learner, view.now_ms)
        };
        view.membership.learners.iter().copied().filter(is_gone).collect()
    }

    /// For how long this leader has pursued an accepted change, in ms.
    fn pursued_ms(&mut self, change: ChangeId, now_ms: u64) -> u64 {
        let since_ms = match self.accepted {
            Some((id, since_ms)) if id == change => since_ms,
            _ => now_ms,
        };
        self.accepted = Some((change, since_ms));
        now_ms - since_ms
    }

    /// The next command that registers, admits, describes, forgets or retires a server.
    fn command(&mut self, view: &JoinView<'_>) -> Option<Command<'static>> {
        if let Some((_, command)) = &self.leaving {
            return Some(Command::Control(command.clone()));
        }
        let JoinView { servers, .. } = view;
        let known = core::iter::once(servers.own)
            .chain(servers.linked.iter().map(|(id, it)| (*id, it.number)));
        for (member, server) in known {
            let registered = &servers.registered;
            if registered.number_of(member) == Some(server) || registered.is_retired(member) {
                continue;
            }
            let command = match registered.is_stranger(server) {
                true => servers.admission(member),
                false => Some(ControlCommand::Register { member, server }),
            };
            if let Some(command) = command {
                return Some(Command::Control(command));
            }
        }
        if let Some(described) = servers.undescribed() {
            return Some(Command::Control(described));
        }
        self.leaving = self.departed(view);
        let command = self.leaving.as_ref().map(|(_, command)| command.clone());
        command.map(Command::Control)
    }

    /// A registered member that has left the membership and has no link, with the command that
    /// forgets or retires it. `None` while a change of the membership is under way, which may add
    /// it.
    fn departed(&self, view: &JoinView<'_>) -> Option<(MemberId, ControlCommand)> {
        let JoinView { servers, membership, .. } = view;
        if view.is_changing {
            return None;
        }
        let has_tombstones = view.broken != Some(BrokenRule::Tombstones);
        let registered = servers.registered.members();
        let mut left = registered.iter().filter(|(member, _)| !membership.contains(member.0));
        left.find_map(|(member, number)| {
            let member = *member;
            let is_guest = servers.registered.is_guest(*number);
            let is_unlisted = servers.is_unlisted(*number) && !is_guest;
            if !is_unlisted && !self.is_gone(member.0, view.now_ms) {
                return None;
            }
            // A member that hands over commands without a vote must never come back under its id.
            let is_for_good = is_unlisted || is_guest || !servers.votes(*number);
            let command = match is_for_good && has_tombstones {
                true => ControlCommand::Retire(member),
                false => ControlCommand::Forget { member },
            };
            Some((member, command))
        })
    }

    /// Leaves a joint membership that does not end by itself. A leader that is to lose its vote
    /// hands leadership over first, as long as it can: another leader then leaves.
    fn leave(&mut self, view: &JoinView<'_>) -> Option<JoinStep> {
        if view.membership.auto_leave {
            return None;
        }
        let since_ms = *self.joint_since_ms.get_or_insert(view.now_ms);
        let stays = view.membership.voters.contains(&view.servers.own.0.0);
        if stays || view.now_ms >= since_ms + LEAVE_PATIENCE_MS {
            return Some(JoinStep::Change(MembershipChange::leave()));
        }
        let voters = view.membership.voters.iter().copied();
        let ready: Vec<_> = voters.filter(|voter| has_caught_up(view, *voter)).collect();
        hand_over(ready)
    }
}

fn hand_over(to: Vec<u64>) -> Option<JoinStep> {
    let to: Vec<MemberId> = to.into_iter().map(MemberId).collect();
    (!to.is_empty()).then_some(JoinStep::HandOver(to))
}

/// The voters that are registered as this server, other than `but`, and the placeholder if the
/// server was absent at the birth.
fn own_voters_of(view: &JoinView<'_>, server: u64, but: MemberId) -> BTreeSet<u64> {
    let nobody = absent_voter(server);
    let is_known = |voter: &u64| server_of(view, *voter) == Some(server) || Some(*voter) == nobody;
    let voters = view.membership.voters.iter().copied();
    voters.filter(|voter| *voter != but.0 && is_known(voter)).collect()
}

/// The number of the server that a member is registered as.
fn server_of(view: &JoinView<'_>, member: u64) -> Option<u64> {
    view.servers.registered.number_of(MemberId(member))
}

/// Whether servers of the list wait for a vote: the list has grown, and the membership has fewer
/// voters.
fn has_pending(view: &JoinView<'_>) -> bool {
    view.membership.voters.len() < view.servers.registered.list().voter_count()
}

/// Whether the list has no server with this number, though no client has changed it: the servers'
/// files no longer have it.
fn is_dismissed(view: &JoinView<'_>, server: u64) -> bool {
    let registered = &view.servers.registered;
    let list = &registered.list().servers;
    !registered.is_decided() && !list.is_empty() && !list.contains_key(&server)
}

/// Takes the vote of a silent server that the files no longer have, if the voters that remain are
/// present, caught up, and a majority of the list.
fn dismissal(view: &JoinView<'_>) -> Option<MembershipChange> {
    let number_of = |voter: u64| server_of(view, voter).or_else(|| absent_server(voter));
    let is_gone = |voter: u64| number_of(voter).is_some_and(|server| is_dismissed(view, server));
    let mut voters = view.membership.voters.iter().copied();
    let gone = voters.find(|voter| {
        *voter != view.servers.own.0.0 && is_gone(*voter) && is_silent(view, *voter)
    })?;
    let left = view.membership.voters.iter().filter(|voter| !is_gone(**voter));
    let present = left.filter(|voter| has_caught_up(view, **voter)).count();
    let is_enough = present > view.servers.registered.list().voter_count() / 2;
    let removed = match absent_server(gone) {
        Some(_) => MemberChange::Remove(gone),
        None => MemberChange::AddLearner(gone),
    };
    is_enough.then(|| change(Transition::Auto, vec![removed]))
}

/// The voters that a new member of this server would replace: the server's own
/// ([`own_voters_of`]). If there are none, and no server of the list waits for a vote, one silent
/// voter: preferably one that is registered as no server, because it was lost right after the
/// birth, before any leader had a link from it; else one whose server has a second voter.
fn voters_of(view: &JoinView<'_>, server: u64, but: MemberId) -> BTreeSet<u64> {
    let known = own_voters_of(view, server, but);
    if !known.is_empty() || has_pending(view) {
        return known;
    }
    let voters = view.membership.voters.iter().copied().filter(|voter| *voter != but.0);
    let mut lost = voters.filter(|voter| !is_heard(view, *voter));
    let unknown = lost.clone().find(|voter| server_of(view, *voter).is_none());
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

/// Whether a linked member has everything of the log but the last few entries. A leader has
/// everything.
fn has_caught_up(view: &JoinView<'_>, member: u64) -> bool {
    if member == view.servers.own.0.0 {
        return true;
    }
    if view.broken == Some(BrokenRule::CatchUp) {
        return !is_silent(view, member);
    }
    let peer = view.peers.iter().find(|peer| peer.member_id == member);
    peer.is_some_and(|peer| {
        peer.snapshot_index.is_none()
            && peer.matched_index + CAUGHT_UP_ENTRIES >= view.last_index
            && peer.silent_ticks.is_some_and(|ticks| ticks < view.silent_ticks_min)
    }) && !is_silent(view, member)
}

/// Gives a learner that has caught up the vote of its server's former member, or a vote of its own
/// if the list has a place for it. A replacement replaces exactly one voter, so the number of votes
/// does not change. If the server has two voters, the other one remains for a server without any.
fn promotion(view: &JoinView<'_>) -> Option<MembershipChange> {
    for learner in &view.membership.learners {
        let Some(server) = server_of(view, *learner) else { continue };
        if !view.servers.votes(server) || !has_caught_up(view, *learner) {
            continue;
        }
        let replaced = voters_of(view, server, MemberId(*learner));
        let are_silent = replaced.iter().all(|member| is_silent(view, *member));
        match replaced.last() {
            Some(gone) if are_silent => {
                let changes = vec![MemberChange::AddVoter(*learner), MemberChange::Remove(*gone)];
                return Some(change(Transition::Joint, changes));
            }
            None if has_pending(view) => {
                let changes = vec![MemberChange::AddVoter(*learner)];
                return Some(change(Transition::Auto, changes));
            }
            _ => {}
        }
    }
    None
}

/// Gives a learner that has caught up the vote of its own server's silent former member, while a
/// change of the list is open. Otherwise an accepted change could wait for the lost directory of a
/// server that is there with a new one.
fn replacement(view: &JoinView<'_>) -> Option<MembershipChange> {
    let mut learners = view.membership.learners.iter().copied();
    learners.find_map(|learner| {
        let server = server_of(view, learner).filter(|server| view.servers.votes(*server))?;
        let replaced = own_voters_of(view, server, MemberId(learner));
        let are_silent = replaced.iter().all(|member| is_silent(view, *member));
        let gone = replaced.last().filter(|_| are_silent && has_caught_up(view, learner))?;
        let changes = vec![MemberChange::AddVoter(learner), MemberChange::Remove(*gone)];
        Some(change(Transition::Joint, changes))
    })
}

/// Adds a linked member as a learner, if its server's voters are silent, or if its server is to get
/// a vote of its own, or none; but not the member `leaving`. The same change removes earlier
/// learners of that server that are silent, so a server has at most one.
fn addition(view: &JoinView<'_>, leaving: Option<MemberId>) -> Option<MembershipChange> {
    let linked = view.servers.linked.iter().filter(|(member, _)| Some(**member) != leaving);
    for (member, linked) in linked {
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
        let is_guest = view.servers.registered.is_guest(*server);
        let is_unlisted = view.servers.is_unlisted(*server) || is_dismissed(view, *server);
        if (is_unlisted && !is_guest) || !are_silent {
            continue;
        }
        let is_observer = !view.servers.votes(*server);
        let is_added = view.servers.is_added(*server) || has_pending(view) || is_observer;
        if replaced.is_empty() && !is_guest && !is_added {
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

/// Removes a silent learner if the voter that it was to replace is heard again, or if its server
/// has left the list, or if that server gets no vote and has another learner, which is heard; or if
/// it is registered as no server: then it was forgotten before it was
/// added, and nothing else would ever remove it. If it comes back, it is registered and added
/// again.
fn departure(view: &JoinView<'_>, gone_guests: &BTreeSet<u64>) -> Option<MembershipChange> {
    let mut learners = view.membership.learners.iter().copied();
    let gone = learners.find(|learner| {
        let member = MemberId(*learner);
        if view.servers.linked.contains_key(&member) || !is_silent(view, *learner) {
            return false;
        }
        let server = view.servers.registered.members().get(&member);
        if server.is_some_and(|server| view.servers.registered.is_guest(*server)) {
            return gone_guests.contains(learner);
        }
        let is_back = |voter: &u64| is_heard(view, *voter);
        server.is_none_or(|server| {
            view.servers.is_unlisted(*server)
                || is_dismissed(view, *server)
                || (!view.servers.votes(*server) && has_other_learner(view, *server, *learner))
                || voters_of(view, *server, member).iter().any(is_back)
        })
    })?;
    Some(change(Transition::Auto, vec![MemberChange::Remove(gone)]))
}

/// Whether a learner of this server other than `but` is heard.
fn has_other_learner(view: &JoinView<'_>, server: u64, but: u64) -> bool {
    let others = view.membership.learners.iter().filter(|learner| **learner != but);
    others.copied().any(|other| server_of(view, other) == Some(server) && is_heard(view, other))
}

fn change(transition: Transition, changes: Vec<MemberChange>) -> MembershipChange {
    MembershipChange { transition, changes, context: bytes::Bytes::new() }
}

#[cfg(test)]
mod tests;

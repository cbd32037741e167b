//! The members as this one knows them, and a leader's work on their list: it adds members, raises
//! the level, and hands leadership over.
//!
//! A leader submits `Raise` once every member has said that it knows the level. Every member of the
//! membership counts, voter or learner, but no placeholder of a birth. A member says what it knows
//! in its hello, so it must be linked to the leader now. No level is raised while a change of the
//! membership is under way; and once a level was asked for, no learner is added that does not know
//! it. So no server becomes a member without the leader's knowing its level.

use std::collections::BTreeMap;
use std::sync::Arc;

use machine::{Command, ControlCommand, Level, LogIndex, MemberId, ServerList, StatedLevel};
use replica::PeerStatus;

use super::Loop;
use super::memberships::Memberships;
use crate::membership::hello::Known;
use crate::membership::joining::{JoinStep, JoinView};
use crate::membership::levels::{Levels, RaiseRefused};
use crate::membership::servers::{LinkedServer, Servers};
use crate::order::limits::REPLACED_SILENCE_MS;
use crate::peer::PeerMessage;

/// The members as this one knows them.
pub(super) struct Members {
    servers: Servers,
    /// The list of servers that this member wants; empty if it takes any.
    servers_wanted: ServerList,
    memberships: Memberships,
    levels: Levels,
}

impl Members {
    /// The members that a start restores.
    pub fn new(
        servers: Servers,
        servers_wanted: ServerList,
        memberships: Memberships,
        levels: Levels,
    ) -> Members {
        Members { servers, servers_wanted, memberships, levels }
    }

    /// The servers that the state and the links name.
    #[inline]
    pub fn servers(&self) -> &Servers {
        &self.servers
    }

    /// The active membership.
    #[inline]
    pub fn newest(&self) -> &storage::wal::Membership {
        self.memberships.newest()
    }

    /// The memberships of the log, as far back as the next snapshot may need them.
    pub fn memberships(&self) -> &Memberships {
        &self.memberships
    }

    /// Adds a membership that is active from this entry on.
    pub fn on_membership(&mut self, from: LogIndex, membership: storage::wal::Membership) {
        self.memberships.push(from, membership);
    }

    /// Forgets memberships before a durable snapshot at `index`.
    pub fn forget_before(&mut self, index: LogIndex) {
        self.memberships.forget_before(index);
    }

    /// Whether this member has a vote.
    pub fn is_voter(&self) -> bool {
        self.newest().voters.contains(&self.servers.own.0.0)
    }

    /// Whether this member is the only voter.
    pub fn is_alone(&self) -> bool {
        let membership = self.newest();
        membership.voters == [self.servers.own.0.0] && membership.voters_outgoing.is_empty()
    }

    /// A link from another member was made, with this description of its server, or the link ended.
    pub fn on_linked(&mut self, member: MemberId, server: Option<LinkedServer>) {
        self.servers.on_link(member, server);
    }

    /// Takes the list of servers of the state. Returns whether the list was the same before.
    pub fn on_registered(&mut self, servers: Arc<machine::Servers>) -> bool {
        let is_same = *servers.list() == *self.servers.registered.list();
        self.servers.registered = servers;
        is_same
    }

    /// The list of servers that this member wants in the state, where the state has another.
    fn wants_servers(&self) -> Option<ServerList> {
        if self.servers_wanted.servers.is_empty() {
            return None;
        }
        let wanted = self.servers.with_client_urls(self.servers_wanted.clone());
        (*self.servers.registered.list() != wanted).then_some(wanted)
    }

    /// The levels that this build knows, and the one of the state.
    #[inline]
    pub fn levels(&self) -> &Levels {
        &self.levels
    }

    /// Notes the level that a client of this member, or of another one, needs. Loop asks for it
    /// until the state has it.
    pub fn need_level(&mut self, level: Level) {
        self.levels.need(level);
    }

    /// The level of the state has risen, or the state was replaced by one of this level. Returns
    /// whether it was lower before.
    pub fn on_raised(&mut self, level: Level) -> bool {
        self.levels.on_raised(level)
    }
}

impl Loop {
    /// The level of the state: its features may be used.
    pub fn level(&self) -> Level {
        self.members.levels.replicated()
    }

    /// The message versions and levels that this build knows.
    pub fn known(&self) -> &Known {
        self.members.levels.known()
    }

    /// The members that link to this one, with their descriptions.
    pub fn linked(&self) -> &BTreeMap<MemberId, LinkedServer> {
        &self.members.servers.linked
    }

    /// Raises the level to the highest that this build knows, for an operator. Returns that level,
    /// which the state has already or will have soon.
    ///
    /// # Errors
    /// The level cannot be raised now; nothing was submitted.
    pub fn upgrade(&mut self) -> Result<Level, RaiseRefused> {
        let level = self.members.levels.own_max();
        self.raise(level).map(|()| level.max(self.level()))
    }

    /// The level to which this leader last decided to raise. Its entry may be in the log or not
    /// yet. `None` unless this member leads and has raised it since. The simulator's judge asks.
    pub fn raising(&self) -> Option<Level> {
        self.role.leading().and_then(|leading| leading.raising)
    }

    /// Raises the level for clients that need a higher one, or asks the leader to. From level 1 it
    /// rises as far as all members know, so that a new ensemble has all bounds from its first use
    /// of etcd's clients on; from another level as far as is needed, so that an upgrade can be
    /// undone.
    pub(super) fn pursue_level(&mut self) {
        let Some(level) = self.members.levels.due(self.clock.now_ms()) else { return };
        match self.role.leader() {
            // A refused raise is tried again.
            _ if self.role.leads() => {
                let is_first = self.level() == Level::FIRST;
                let (own_max, membership) =
                    (self.members.levels.own_max(), self.replica.membership());
                let known = self.members.servers.known_to_all(own_max, membership);
                drop(self.raise(known.filter(|_| is_first).unwrap_or(level).max(level)));
            }
            Some(leader) => self.send(leader, PeerMessage::NeedLevel(level)),
            None => {}
        }
    }

    fn raise(&mut self, level: Level) -> Result<(), RaiseRefused> {
        if level <= self.level() {
            return Ok(());
        }
        if !self.is_caught_up() {
            return Err(RaiseRefused::NotLeader);
        }
        let level_max = self.members.levels.own_max();
        if level > level_max {
            return Err(RaiseRefused::UnknownHere { level_max });
        }
        let membership = self.replica.membership();
        if membership.is_joint() || self.replica.is_changing_membership() {
            return Err(RaiseRefused::Changing);
        }
        self.members.servers.check_all_know(level, membership)?;
        let leading = self.role.leading_mut().expect("a member that is caught up leads");
        if leading.raising.is_none_or(|raising| raising < level) {
            leading.raising = Some(level);
            let command = ControlCommand::Raise(level.into());
            self.intake.submit_own(&Command::Control(command));
        }
        Ok(())
    }

    /// The level of the state has risen, or the state was replaced by one of this level.
    pub(super) fn on_raised(&mut self, stated: StatedLevel) {
        if self.members.on_raised(stated.level) {
            self.output.raised = Some(stated);
        }
    }

    /// The level that a new member must know: the level of the state, or a higher one that is being
    /// raised.
    fn level_to_join(&self) -> Level {
        self.raising().unwrap_or(Level::FIRST).max(self.level())
    }

    /// Takes the next step for members that come or go.
    pub(super) fn pursue_joining(&mut self) {
        if !self.is_caught_up() || self.members.is_alone() {
            return;
        }
        let level = self.level_to_join();
        let now_ms = self.clock.now_ms();
        let Some(leading) = self.role.leading_mut() else { return };
        let membership = self.replica.membership().clone();
        let step = leading.joining.step(&JoinView {
            servers: &self.members.servers,
            membership: &membership,
            peers: &self.replica.peers(),
            last_index: self.replica.status().last_index,
            silent_ticks_min: self.clock.ticks_in(REPLACED_SILENCE_MS),
            level,
            has_listened: now_ms >= leading.since_ms + REPLACED_SILENCE_MS,
            now_ms,
        });
        match step {
            Some(JoinStep::Submit(command)) => self.intake.submit_own(&command),
            Some(JoinStep::Change(change)) => {
                // A refused change is tried again: another change is under way, or leadership
                // moves.
                let _ = self.replica.propose_membership(&change);
            }
            None => {}
        }
    }

    /// Submits this leader's settings and servers where the state has others: the leader's
    /// configuration is the ensemble's.
    pub(super) fn maybe_configure(&mut self) {
        let is_configuring = self.role.leading().is_none_or(|leading| leading.is_configuring);
        if is_configuring || !self.is_caught_up() {
            return;
        }
        if let Some(command) = self.configuration() {
            self.intake.submit_own(&command);
            self.role.leading_mut().into_iter().for_each(|leading| leading.is_configuring = true);
        }
    }

    /// The command that makes the replicated state what this member's configuration wants; `None`
    /// if it is so.
    pub(super) fn configuration(&self) -> Option<Command<'static>> {
        let wanted = self.spaces.wanted(self.level());
        let set_servers = |servers| Command::Control(ControlCommand::SetServers(servers));
        wanted.or_else(|| self.members.wants_servers().map(set_servers))
    }

    /// The list of servers in the state may have changed.
    pub(super) fn on_registered(&mut self, servers: Arc<machine::Servers>) {
        let is_same = self.members.on_registered(servers);
        if let Some(leading) = self.role.leading_mut() {
            leading.is_configuring &= is_same;
            leading.joining.on_registered();
        }
    }

    /// Hands leadership to a voter that is reachable and has room on its disk: to the given one, or
    /// to the one that is least behind. False if this member does not lead, or no voter can take
    /// it.
    pub fn hand_over(&mut self, to: Option<MemberId>) -> bool {
        let voters = &self.replica.membership().voters;
        let peers = self.replica.peers();
        let mut candidates =
            peers.iter().filter(|peer| voters.contains(&peer.member_id) && self.is_there(peer));
        let chosen = match to {
            Some(to) => candidates.find(|peer| peer.member_id == to.0),
            None => candidates.max_by_key(|peer| peer.matched_index),
        };
        let Some(to) = chosen.map(|peer| peer.member_id) else { return false };
        if self.replica.status().transferring_to == Some(to) {
            return true;
        }
        self.replica.transfer_leader(to).is_ok()
    }

    /// Whether a member is linked and heard, and its disk is not full.
    pub(super) fn is_there(&self, peer: &PeerStatus) -> bool {
        let member = MemberId(peer.member_id);
        let silent_ticks_max = self.clock.ticks_in(REPLACED_SILENCE_MS);
        let is_heard = peer.silent_ticks.is_some_and(|ticks| ticks < silent_ticks_max);
        is_heard && self.members.servers.is_linked(member) && !self.is_full(member)
    }
}

#[cfg(test)]
mod tests;

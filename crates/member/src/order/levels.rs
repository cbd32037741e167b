//! Raises the level of the ensemble: a leader submits `Raise` once every member has said that it
//! knows the level.
//!
//! Every member of the membership counts, voter or learner, but no placeholder of a birth. A member
//! says what it knows in its hello, so it must be linked to the leader now. No level is raised
//! while a change of the membership is under way; and once a level was asked for, no learner is
//! added that does not know it. So no server becomes a member without the leader's knowing its
//! level.

use std::collections::BTreeMap;

use machine::{Command, ControlCommand, Level, MemberId, StatedLevel};
use replica::Membership;

use super::Loop;
use crate::membership::bootstrap::absent_server;
use crate::membership::hello::Known;
use crate::membership::levels::RaiseRefused;
use crate::membership::servers::{LinkedServer, Servers};
use crate::peer::PeerMessage;

impl Loop {
    /// The level of the state: its features may be used.
    pub fn level(&self) -> Level {
        self.levels.replicated()
    }

    /// The message versions and levels that this build knows.
    pub fn known(&self) -> &Known {
        self.levels.known()
    }

    /// The members that link to this one, with their descriptions.
    pub fn linked(&self) -> &BTreeMap<MemberId, LinkedServer> {
        &self.servers.linked
    }

    /// Raises the level to the highest that this build knows, for an operator. Returns that level,
    /// which the state has already or will have soon.
    ///
    /// # Errors
    /// The level cannot be raised now; nothing was submitted.
    pub fn upgrade(&mut self) -> Result<Level, RaiseRefused> {
        let level = self.levels.own_max();
        self.raise(level).map(|()| level.max(self.levels.replicated()))
    }

    /// The level to which this leader last decided to raise. Its entry may be in the log or not
    /// yet. None: this member does not lead, or has raised nothing since it does. The simulator's
    /// judge asks.
    pub fn raising(&self) -> Option<Level> {
        self.leading.as_ref().and_then(|leading| leading.raising)
    }

    /// Notes the level that a client of this member, or of another one, needs. Loop asks for it
    /// until the state has it.
    pub(super) fn need_level(&mut self, level: Level) {
        self.levels.need(level);
    }

    /// Raises the level for clients that need a higher one, or asks the leader to. From level 1 it
    /// rises as far as all members know, so that a new ensemble has all bounds from its first use
    /// of etcd's clients on; from another level as far as is needed, so that an upgrade can be
    /// undone.
    pub(super) fn pursue_level(&mut self) {
        let Some(level) = self.levels.due(self.now_ms) else { return };
        match self.leader {
            // A refused raise is tried again.
            _ if self.leads() => {
                let is_first = self.levels.replicated() == Level::FIRST;
                let known = self.known_to_all().filter(|_| is_first);
                drop(self.raise(known.unwrap_or(level).max(level)));
            }
            Some(leader) => self.send(leader, PeerMessage::NeedLevel(level)),
            None => {}
        }
    }

    /// The highest level that every member says it knows. None: one of them is not linked.
    fn known_to_all(&self) -> Option<Level> {
        let others = other_members(self.replica.membership(), &self.servers);
        let known = others.map(|id| self.servers.linked.get(&id).map(|linked| linked.level_max));
        known.chain([Some(self.levels.own_max())]).min()?
    }

    fn raise(&mut self, level: Level) -> Result<(), RaiseRefused> {
        if level <= self.levels.replicated() {
            return Ok(());
        }
        if !self.is_caught_up() {
            return Err(RaiseRefused::NotLeader);
        }
        let level_max = self.levels.own_max();
        if level > level_max {
            return Err(RaiseRefused::UnknownHere { level_max });
        }
        let membership = self.replica.membership();
        if membership.is_joint() || self.replica.is_changing_membership() {
            return Err(RaiseRefused::Changing);
        }
        check_all_know(level, membership, &self.servers)?;
        let leading = self.leading.as_mut().expect("a member that is caught up leads");
        if leading.raising.is_none_or(|raising| raising < level) {
            leading.raising = Some(level);
            self.submit_own(&Command::Control(ControlCommand::Raise(level.into())));
        }
        Ok(())
    }

    /// The level of the state has risen, or the state was replaced by one of this level.
    pub(super) fn on_raised(&mut self, stated: StatedLevel) {
        if self.levels.on_raised(stated.level) {
            self.output.raised = Some(stated);
        }
    }

    /// The level that a new member must know: the level of the state, or a higher one that is being
    /// raised.
    pub(super) fn level_to_join(&self) -> Level {
        self.raising().unwrap_or(Level::FIRST).max(self.levels.replicated())
    }
}

/// The voters and learners but this member and the placeholders of a birth.
fn other_members(membership: &Membership, servers: &Servers) -> impl Iterator<Item = MemberId> {
    let members = membership.voters.iter().chain(&membership.learners);
    let own = servers.own.0.0;
    let others = members.filter(move |id| **id != own && absent_server(**id).is_none());
    others.map(|id| MemberId(*id))
}

/// Checks that every other member says that it knows the level.
fn check_all_know(
    level: Level,
    membership: &Membership,
    servers: &Servers,
) -> Result<(), RaiseRefused> {
    for member in other_members(membership, servers) {
        let Some(linked) = servers.linked.get(&member) else {
            let server = servers.server_of(member);
            return Err(RaiseRefused::Absent { level, server, member });
        };
        if linked.level_max < level {
            let (server, level_max) = (linked.number, linked.level_max);
            let program = linked.program.clone();
            return Err(RaiseRefused::UnknownThere { level, server, program, level_max });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! How the level of the ensemble rises: a leader hands `Raise` over once every member has said that
//! it knows the level.
//!
//! A member counts if it is in the membership, voter or learner; a placeholder of a birth does not.
//! It has said so if it links to the leader now. While a change of the membership is under way
//! nothing is raised, and from when a level was asked for no learner is added that does not know
//! it: so nobody becomes a member behind the leader's back.

use std::collections::BTreeMap;

use machine::{Command, ControlCommand, Level, MemberId, StatedLevel};
use replica::Membership;
use thiserror::Error;

use super::Loop;
use crate::bootstrap::absent_server;
use crate::hello::Known;
use crate::limits::RAISES_INTERVAL_MS;
use crate::peer::PeerMessage;
use crate::servers::{LinkedServer, Servers};

/// What a member knows of levels.
pub(super) struct Levels {
    /// What its build knows.
    known: Known,
    /// As of the state.
    pub replicated: Level,
    /// What its clients need; the leader may not have raised it yet.
    needed: Level,
    /// When a leader was last asked for that.
    asked_ms: Option<u64>,
}

impl Levels {
    /// Of a build that knows that much, and a state of that level.
    pub fn new(known: Known, replicated: Level) -> Levels {
        Levels { known, replicated, needed: replicated, asked_ms: None }
    }

    /// The highest that this build knows.
    pub fn own_max(&self) -> Level {
        self.known.level_max
    }

    /// Whether it is time to ask for the level that is needed, and notes it.
    fn is_due(&mut self, now_ms: u64) -> bool {
        let is_soon = self.asked_ms.is_some_and(|asked_ms| now_ms < asked_ms + RAISES_INTERVAL_MS);
        if self.needed <= self.replicated || is_soon {
            return false;
        }
        self.asked_ms = Some(now_ms);
        true
    }
}

/// Why the level is not raised.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RaiseRefused {
    /// Only a leader raises it, once it has applied what earlier leaders committed.
    #[error("this server does not lead, or not yet: ask the one that does")]
    NotLeader,
    /// This build does not know it.
    #[error("this version knows levels up to {level_max}")]
    UnknownHere {
        /// The highest that it knows.
        level_max: Level,
    },
    /// A member is not there to say what it knows.
    #[error("{} is not connected: every server must be there to say that it knows level {level}", named(.server, *.member))]
    Absent {
        /// Which level was wanted.
        level: Level,
        /// Its server, where that is known.
        server: Option<u64>,
        /// Its id.
        member: MemberId,
    },
    /// A member does not know it.
    #[error("server {server}, of version {program}, knows levels up to {level_max}: install version {} or later there", .level.version())]
    UnknownThere {
        /// Which level was wanted.
        level: Level,
        /// Its server.
        server: u64,
        /// The version of its program.
        program: String,
        /// The highest that it knows.
        level_max: Level,
    },
    /// Servers come or go.
    #[error("the membership is being changed: try again")]
    Changing,
}

fn named(server: &Option<u64>, member: MemberId) -> String {
    match server {
        Some(server) => format!("server {server}"),
        None => format!("member {:016x}", member.0),
    }
}

impl Loop {
    /// What may be used, as of the state.
    pub fn level(&self) -> Level {
        self.levels.replicated
    }

    /// What this build knows.
    pub fn known(&self) -> &Known {
        &self.levels.known
    }

    /// The members that link to this one, with what they said of themselves.
    pub fn linked(&self) -> &BTreeMap<MemberId, LinkedServer> {
        &self.servers.linked
    }

    /// Raises the level to the highest that this build knows, for an operator. Returns that level,
    /// which the state has already or will have soon.
    ///
    /// # Errors
    /// Nothing was handed over.
    pub fn upgrade(&mut self) -> Result<Level, RaiseRefused> {
        let level = self.levels.own_max();
        self.raise(level).map(|()| level.max(self.levels.replicated))
    }

    /// A client of this member, or of another one, needs a level: asks for it until it is there.
    pub(super) fn need_level(&mut self, level: Level) {
        self.levels.needed = self.levels.needed.max(level);
    }

    /// Raises the level to what clients need, or asks the leader to.
    pub(super) fn pursue_level(&mut self) {
        if !self.levels.is_due(self.now_ms) {
            return;
        }
        let level = self.levels.needed;
        match self.leader {
            // Where it is refused it is tried again.
            _ if self.leads() => drop(self.raise(level)),
            Some(leader) => self.send(leader, PeerMessage::NeedLevel(level)),
            None => {}
        }
    }

    fn raise(&mut self, level: Level) -> Result<(), RaiseRefused> {
        if level <= self.levels.replicated {
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

    /// The level has risen, or the state was replaced by one of that level.
    pub(super) fn on_raised(&mut self, stated: StatedLevel) {
        let level = stated.level;
        assert!(level <= self.levels.own_max(), "Apply stops before a level that is not known");
        assert!(level >= self.levels.replicated, "a level does not fall");
        if level > self.levels.replicated {
            self.levels.replicated = level;
            self.output.raised = Some(stated);
        }
    }

    /// The level that a new member must know: the present one, or one that was asked for.
    pub(super) fn level_to_join(&self) -> Level {
        let raising = self.leading.as_ref().and_then(|leading| leading.raising);
        raising.unwrap_or(Level::FIRST).max(self.levels.replicated)
    }
}

/// Whether every member but this one says that it knows the level.
fn check_all_know(
    level: Level,
    membership: &Membership,
    servers: &Servers,
) -> Result<(), RaiseRefused> {
    let members = membership.voters.iter().chain(&membership.learners);
    let others = members.filter(|id| **id != servers.own.0.0 && absent_server(**id).is_none());
    for member in others.map(|id| MemberId(*id)) {
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

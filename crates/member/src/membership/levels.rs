//! Keeps three levels of a member: the highest level that its build knows, the level of the state,
//! and the level that its clients need. A leader raises the level of the state once every member
//! knows the new one (`order/members.rs`).

use machine::{Level, MemberId};
use thiserror::Error;

use super::hello::Known;
use crate::membership::limits::{RAISES_INTERVAL_MS, REFUSED_RAISES_INTERVAL_MS};

/// A member's record of levels.
pub(crate) struct Levels {
    /// The message versions and levels that this build knows.
    known: Known,
    /// The level of the state.
    replicated: Level,
    /// The level that clients of this member need; higher than `replicated` until the leader has
    /// raised that.
    needed: Level,
    /// When the leader is asked again to raise the level, by Loop's clock; 0 if it was not asked.
    ask_again_ms: u64,
}

impl Levels {
    /// The record of a build that knows `known`, with a state of level `replicated`.
    pub fn new(known: Known, replicated: Level) -> Levels {
        Levels { known, replicated, needed: replicated, ask_again_ms: 0 }
    }

    /// The highest level that this build knows.
    pub fn own_max(&self) -> Level {
        self.known.level_max
    }

    /// The message versions and levels that this build knows.
    pub fn known(&self) -> &Known {
        &self.known
    }

    /// The level of the state.
    pub fn replicated(&self) -> Level {
        self.replicated
    }

    /// Notes that the state has this level now. Returns whether it had a lower one before.
    pub fn on_raised(&mut self, level: Level) -> bool {
        assert!(level <= self.own_max(), "Apply stops before a level that is not known");
        assert!(level >= self.replicated, "a level does not fall");
        core::mem::replace(&mut self.replicated, level) < level
    }

    /// Notes that a client needs this level.
    pub fn need(&mut self, level: Level) {
        self.needed = self.needed.max(level);
    }

    /// The level to ask the leader for now; `None` if none is needed, or it was asked for recently.
    /// Notes the time of asking.
    pub fn due(&mut self, now_ms: u64) -> Option<Level> {
        if self.needed <= self.replicated || now_ms < self.ask_again_ms {
            return None;
        }
        self.ask_again_ms = now_ms + RAISES_INTERVAL_MS;
        Some(self.needed)
    }

    /// Notes that this member leads and could not raise the level: it tries again soon, since the
    /// missing server may have a link by then.
    pub fn on_refused(&mut self, now_ms: u64) {
        self.ask_again_ms = now_ms + REFUSED_RAISES_INTERVAL_MS;
    }
}

/// Why a level was not raised.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RaiseRefused {
    /// This member does not lead, or has not yet applied everything that earlier leaders committed.
    #[error("this server is not the leader, or is not ready to lead: ask the leader")]
    NotLeader,
    /// This build does not know the level.
    #[error("this version knows levels up to {level_max}")]
    UnknownHere {
        /// The highest level that this build knows.
        level_max: Level,
    },
    /// A member is not linked, so it cannot say what it knows.
    #[error(
        "{} is not connected: every server must be connected and say that it knows level {level}",
        named(.server, *.member)
    )]
    Absent {
        /// The level to raise to.
        level: Level,
        /// The number of the member's server, if known.
        server: Option<u64>,
        /// The id of the member.
        member: MemberId,
    },
    /// A member does not know the level.
    #[error("server {server}, of version {program}, knows levels up to {level_max}: install version {} or later there, or raise level_max where it is set", .level.version())]
    UnknownThere {
        /// The level to raise to.
        level: Level,
        /// The number of the member's server.
        server: u64,
        /// The version of that server's program.
        program: String,
        /// The highest level that the server knows.
        level_max: Level,
    },
    /// The membership is being changed.
    #[error("the membership is being changed: try again")]
    Changing,
}

fn named(server: &Option<u64>, member: MemberId) -> String {
    match server {
        Some(server) => format!("server {server}"),
        None => format!("member {:016x}", member.0),
    }
}

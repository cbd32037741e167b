//! The work that a leader does for each space as time passes: it ends sessions, leases and times to
//! live, looks for containers, compacts etcd's history, and sets the settings of a space to those
//! of the leader's configuration. What this work keeps is not replicated: it is a part of Loop, and
//! only the commands that it gives go into the log.
//!
//! Each space has a *room* here, a value with the same methods for all: `on_applied` takes Apply's
//! news of the space, `due` gives the commands that are due, `renew_all` gives every client its
//! full time, `wanted` gives the command that sets the settings, and `held` counts what the room
//! keeps. Every member keeps the rooms up to date, since any member may lead next.

pub mod deadlines;
pub mod etcd;
pub mod etcd_v2;
pub mod limits;
pub mod look;
pub mod zk;

use machine::change::Changes;
use machine::{Command, Level, Machine, Outcome};

use etcd::Etcd;
use etcd_v2::EtcdV2;
pub use etcd_v2::counts::EtcdV2Counts;
pub use look::{Found, Search};
use look::{Held, Look};
use zk::Zk;

/// The part of a member's configuration that concerns the spaces.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Options of ZooKeeper's space.
    pub zk: zk::Options,
    /// Options of etcd's space.
    pub etcd: etcd::Options,
}

/// The rooms of all spaces: Loop's knowledge of each, and a leader's work for it.
pub struct Spaces {
    pub(crate) zk: Zk,
    pub(crate) etcd: Etcd,
    pub(crate) etcd_v2: EtcdV2,
}

/// The changes of the state that Apply reports to the rooms, since a leader must know them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Whether another state has replaced the previous one: then the rest of the news holds all
    /// deadlines of the new state.
    pub is_replaced: bool,
    /// News of ZooKeeper's space.
    pub zk: zk::News,
    /// News of etcd's space.
    pub etcd: etcd::News,
    /// News of etcd v2's space.
    pub etcd_v2: etcd_v2::News,
}

impl News {
    /// The news in the changes of one hold.
    pub(crate) fn from_changes(changes: &Changes) -> News {
        News {
            is_replaced: changes.control.replaced().is_some(),
            zk: zk::News::from_changes(&changes.zk),
            etcd: etcd::News::from_changes(&changes.etcd),
            etcd_v2: etcd_v2::News::from_changes(&changes.etcd_v2),
        }
    }

    /// Whether there is no news.
    pub(crate) fn is_empty(&self) -> bool {
        let News { is_replaced, zk, etcd, etcd_v2 } = self;
        !is_replaced && zk.is_empty() && etcd.is_empty() && etcd_v2.is_empty()
    }
}

/// Counts of the work that this member has done for the spaces while it led, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Sessions that expired because they were silent for too long.
    pub sessions_expired: u64,
    /// Leases of etcd that expired because nobody kept them alive.
    pub leases_expired: u64,
    /// Nodes of etcd v2 that expired because their time to live was over.
    pub etcd_v2_expired: u64,
    /// Compactions of etcd's keys that this member began automatically while it led.
    pub auto_compactions: u64,
}

/// Counts of the commands that Apply has run since the start, and of what the Fronts add to them.
/// Apply, the Fronts and monitoring share them.
#[derive(Debug, Default)]
pub struct CommandCounts {
    /// Counts of etcd v2's space.
    pub etcd_v2: EtcdV2Counts,
}

impl CommandCounts {
    /// Counts a command with its outcome.
    pub(crate) fn on_command(&self, command: &Command<'_>, outcome: &Outcome) {
        if let (Command::EtcdV2(command), Outcome::EtcdV2(outcome)) = (command, outcome) {
            self.etcd_v2.on_command(command, outcome);
        }
    }
}

impl Spaces {
    /// The rooms at a start, with the deadlines and the settings of the restored state.
    pub fn new(options: Options, machine: &Machine) -> Spaces {
        Spaces {
            zk: Zk::new(options.zk, machine.zk()),
            etcd: Etcd::new(options.etcd, machine.etcd()),
            etcd_v2: EtcdV2::new(machine.etcd_v2()),
        }
    }

    /// Takes Apply's news.
    pub(crate) fn on_applied(&mut self, news: News) {
        let News { is_replaced, zk, etcd, etcd_v2 } = news;
        self.zk.on_applied(is_replaced, zk);
        self.etcd.on_applied(is_replaced, etcd);
        self.etcd_v2.on_applied(is_replaced, etcd_v2);
    }

    /// Notes that this member begins to lead, and gives every client its full time.
    pub(crate) fn begin_leading(&mut self) {
        self.zk.begin_leading();
        self.etcd.begin_leading();
        self.renew_all();
    }

    /// Notes that this member no longer leads.
    pub(crate) fn end_leading(&mut self) {
        self.zk.end_leading();
        self.etcd.end_leading();
    }

    /// Gives every session, every lease and every node of etcd v2 its full time.
    pub(crate) fn renew_all(&mut self) {
        self.zk.renew_all();
        self.etcd.renew_all();
        self.etcd_v2.renew_all();
    }

    /// Lets time pass for the deadlines; see [`deadlines::Deadlines::advance`].
    pub(crate) fn advance(&mut self, elapsed_ms: u64, planned_ms: u64) {
        self.zk.advance(elapsed_ms, planned_ms);
        self.etcd.advance(elapsed_ms, planned_ms);
        self.etcd_v2.advance(elapsed_ms, planned_ms);
    }

    /// How long until the first deadline of any space, in ms; `None` if there is no deadline.
    pub(crate) fn deadline_ms(&self) -> Option<u64> {
        let due = [self.zk.deadline_ms(), self.etcd.deadline_ms(), self.etcd_v2.deadline_ms()];
        due.into_iter().flatten().min()
    }

    /// Passes the commands that are due to `submit`. One call gives a bounded number of them.
    pub(crate) fn due(&mut self, look: &Look, submit: &mut dyn FnMut(&Command<'_>)) {
        self.zk.due(look, submit);
        self.etcd.due(look, submit);
        self.etcd_v2.due(look, submit);
    }

    /// The level that this member's configuration needs.
    pub fn level_needed(&self) -> Level {
        self.zk.level_needed().max(self.etcd.level_needed())
    }

    /// The command that sets the settings of a space to those of the configuration; `None` if all
    /// settings are so already.
    pub(crate) fn wanted(&self, level: Level) -> Option<Command<'static>> {
        self.zk.wanted(level).or_else(|| self.etcd.wanted(level))
    }

    /// Counts of what the rooms keep.
    pub(crate) fn held(&self) -> Held {
        let [zk, etcd, etcd_v2] = [self.zk.held(), self.etcd.held(), self.etcd_v2.held()];
        Held {
            deadlines: zk.deadlines + etcd.deadlines + etcd_v2.deadlines,
            deadline_places: zk.deadline_places + etcd.deadline_places + etcd_v2.deadline_places,
            questions: etcd.questions,
        }
    }

    /// The counts since the start.
    pub(crate) fn counts(&self) -> Counts {
        Counts {
            sessions_expired: self.zk.expired_count,
            leases_expired: self.etcd.expired_count,
            etcd_v2_expired: self.etcd_v2.expired_count,
            auto_compactions: self.etcd.compaction_count,
        }
    }
}

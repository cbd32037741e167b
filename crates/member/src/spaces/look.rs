//! Values that the rooms of all spaces take and return: a look at the clock, a search of the state,
//! and counts of what a room keeps.

use machine::{Level, Machine};

/// A moment at which the rooms look for what is due, and what they must know then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// Loop's clock, in ms.
    pub now_ms: u64,
    /// Time since the last look, in ms.
    pub elapsed_ms: u64,
    /// Whether this member leads, has applied what earlier leaders committed, and serves clients.
    pub leads: bool,
    /// Whether the log has room. While the disk is full no client can attach, so no owner is
    /// judged.
    pub has_room: bool,
    /// The level of the state.
    pub level: Level,
}

impl Look {
    /// Whether owners whose deadlines have passed may be judged.
    pub fn may_judge(&self) -> bool {
        self.leads && self.has_room
    }
}

/// How much the rooms of the spaces keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Sessions, leases and nodes of etcd v2 with a deadline.
    pub deadlines: usize,
    /// Places where `deadlines` are kept: in buckets by time, and among the owners that are being
    /// judged. Equal to `deadlines`, unless an owner was lost or has two places; tests check this.
    pub deadline_places: usize,
    /// Unanswered questions about leases.
    pub questions: usize,
}

/// A search of the state for znodes that ZooKeeper's space is to remove. Apply runs it under the
/// lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search(pub(crate) machine::ContainerSearch);

impl Search {
    /// Runs the search.
    pub(crate) fn run(&self, machine: &Machine) -> Found {
        Found(machine.zk().find_container_znodes(&self.0))
    }
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found(pub(crate) machine::ContainersFound);

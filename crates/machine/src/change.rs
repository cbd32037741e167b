//! The batch of changes that apply hands to every Front and to Loop, with one part for each space.
//! (A space is the part of the state that belongs to one protocol, or to the ensemble itself.)
//!
//! The parts of ZooKeeper, etcd and etcd v2 hold the events that clients may watch, and the changes
//! of *deadlines*. A deadline is a time at which the leader must propose a command, for example to
//! expire a session. ZooKeeper's part and etcd's part also hold the settings of their space, if a
//! command set them. The ensemble's part holds changes of its servers and of its level, and says
//! when the whole state was replaced.

use std::sync::Arc;

use crate::control::change::{Change as ControlChange, Changes as ControlChanges, Replacement};
use crate::etcd::change::Changes as EtcdChanges;
use crate::etcd_v2::change::Changes as EtcdV2Changes;
use crate::machine::Machine;
use crate::mark::Mark;
use crate::zk::change::{Change as ZkChange, Changes as ZkChanges};

/// The changes that a run of consecutive commands has made, by space. Within a space they are in
/// the order of the commands.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// Changes of the ensemble.
    pub control: ControlChanges,
    /// Changes of ZooKeeper's tree and sessions.
    pub zk: ZkChanges,
    /// Changes of etcd's keys and leases.
    pub etcd: EtcdChanges,
    /// Changes of etcd v2's tree.
    pub etcd_v2: EtcdV2Changes,
}

/// A batch of changes, shared by every connection runtime's Front.
pub type SharedChanges = Arc<Changes>;

impl Changes {
    /// A batch that keeps nothing, for commands that are applied before any client watches.
    pub fn for_nobody() -> Changes {
        Changes {
            control: ControlChanges::for_nobody(),
            zk: ZkChanges::for_nobody(),
            etcd: EtcdChanges::for_nobody(),
            etcd_v2: EtcdV2Changes::for_nobody(),
        }
    }

    /// Notes that the whole state was replaced. `machine` is the new state, and `mark` holds the
    /// ordinal and the zxid of its last command. Replaces the deadlines by those of the new state,
    /// and drops what the old state left unfinished: earlier changes of etcd's keys, and an open
    /// ZooKeeper transaction.
    pub(crate) fn on_replaced(&mut self, machine: &Machine, mark: Mark, by: Replacement) {
        self.control.push(ControlChange::Replaced { mark, by });
        self.zk.on_replaced(machine.zk().deadlines());
        self.etcd.on_replaced(machine.etcd());
        self.etcd_v2.on_replaced(machine.etcd_v2().deadlines());
    }

    /// Notes that a snapshot of this ensemble replaced the whole state: replaces the deadlines and
    /// drops what the old state left unfinished, and reports the snapshot's settings, servers and
    /// level as changed.
    pub fn on_snapshot(&mut self, machine: &Machine) {
        let mark = machine.mark();
        self.on_replaced(machine, mark, Replacement::Snapshot);
        let (control, settings) = (machine.control(), machine.zk().settings());
        self.zk.push(mark, ZkChange::Configured(Arc::new(settings.clone())), "");
        self.etcd.push_settings(machine.etcd().settings());
        // The level comes first: the ids that etcd's clients see of servers depend on it.
        self.control.push(ControlChange::Raised(control.level().clone()));
        self.control.push(ControlChange::Servers(Arc::new(control.servers().clone())));
    }

    /// Whether the batch holds nothing that a Front has to process.
    pub fn is_empty(&self) -> bool {
        self.control.is_empty()
            && self.zk.is_empty()
            && self.etcd.is_empty()
            && self.etcd_v2.is_empty()
    }
}

//! The changes that apply made: one batch for all Fronts and for Loop, with a room for each space.
//!
//! Each room has the same shape: the news for the clients of the space, the *deadlines* that a
//! leader keeps for the space by the clock, and the settings of the space, if they were set.

use std::sync::Arc;

use crate::control::change::{Change as ControlChange, Changes as ControlChanges, Replacement};
use crate::etcd::change::Changes as EtcdChanges;
use crate::etcd_v2::change::Changes as EtcdV2Changes;
use crate::machine::Machine;
use crate::mark::Mark;
use crate::zk::change::{Change as ZkChange, Changes as ZkChanges};

/// Changes of consecutive commands, by space, each space's in order.
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

/// A batch on its way to every connection runtime.
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

    /// Notes that this state, whose last command has this mark, took the place of the one before.
    /// The deadlines are those of this state; changes of etcd's keys before are dropped, and so is
    /// a transaction of ZooKeeper's that was not whole.
    pub(crate) fn on_replaced(&mut self, machine: &Machine, mark: Mark, by: Replacement) {
        self.control.push(ControlChange::Replaced { mark, by });
        self.zk.on_replaced(machine.zk().deadlines());
        self.etcd.on_replaced(machine.etcd());
        self.etcd_v2.on_replaced(machine.etcd_v2().deadlines());
    }

    /// Notes that a snapshot of the same ensemble took the place of the state. Settings, servers
    /// and level are those of the snapshot.
    pub fn on_snapshot(&mut self, machine: &Machine) {
        let mark = machine.mark();
        self.on_replaced(machine, mark, Replacement::Snapshot);
        let (control, settings) = (machine.control(), machine.zk().settings());
        self.zk.push(mark, ZkChange::Configured(Arc::new(settings.clone())), "");
        self.etcd.push_settings(machine.etcd().settings());
        self.control.push(ControlChange::Servers(Arc::new(control.servers().clone())));
        self.control.push(ControlChange::Raised(control.level().clone()));
    }

    /// Whether no Front has anything to take from it.
    pub fn is_empty(&self) -> bool {
        self.control.is_empty()
            && self.zk.is_empty()
            && self.etcd.is_empty()
            && self.etcd_v2.is_empty()
    }
}

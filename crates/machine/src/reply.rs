//! The replies to commands, which apply makes.

use crate::control::list_change::{ChangeId, ChangeRefused};
use crate::etcd::reply::{Outcome as EtcdOutcome, Refusal as EtcdRefusal};
use crate::etcd_v2::reply::{Outcome as EtcdV2Outcome, Refusal as EtcdV2Refusal};
use crate::mark::Mark;
use crate::zk::reply::{Outcome as ZkOutcome, Refusal};

/// The reply to one command: its place in the order, and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The place of the command in the order of all commands.
    pub mark: Mark,
    /// The result of the command.
    pub outcome: Outcome,
}

/// The outcome of a command, by its space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The outcome of a command of the ensemble.
    Control(ControlOutcome),
    /// The outcome of a ZooKeeper command, or its refusal.
    Zk(Result<ZkOutcome, Refusal>),
    /// The outcome of an etcd command, or its refusal.
    Etcd(Result<EtcdOutcome, EtcdRefusal>),
    /// The outcome of a command of etcd v2, or its refusal.
    EtcdV2(Result<EtcdV2Outcome, EtcdV2Refusal>),
}

impl Outcome {
    /// The outcome of a command of the ensemble that cannot be refused.
    pub const DONE: Outcome = Outcome::Control(ControlOutcome::Done);
}

/// The outcome of a command of the ensemble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlOutcome {
    /// The command was applied. No command but a request for a change can be refused.
    Done,
    /// A change of the list of servers is open, or was refused. The end of an open change is
    /// another command.
    Requested(Result<ChangeId, ChangeRefused>),
}

//! The replies to commands, which apply makes.

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
    /// A command of the ensemble was applied. Such commands are never refused.
    Control,
    /// The outcome of a ZooKeeper command, or its refusal.
    Zk(Result<ZkOutcome, Refusal>),
    /// The outcome of an etcd command, or its refusal.
    Etcd(Result<EtcdOutcome, EtcdRefusal>),
    /// The outcome of a command of etcd v2, or its refusal.
    EtcdV2(Result<EtcdV2Outcome, EtcdV2Refusal>),
}

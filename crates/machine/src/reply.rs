//! What apply gives back for a command.

use crate::mark::Mark;
use crate::zk::reply::{Outcome as ZkOutcome, Refusal};

/// The answer to one command: where it stands in the order, and what came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Where.
    pub mark: Mark,
    /// Its outcome.
    pub outcome: Outcome,
}

/// What came of a command, by its space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A command of the ensemble took effect: none is refused.
    Control,
    /// Of ZooKeeper's.
    Zk(Result<ZkOutcome, Refusal>),
}

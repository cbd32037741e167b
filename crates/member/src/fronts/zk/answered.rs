//! The answer that a waiter gets to a ZooKeeper command.

use machine::{Outcome, Refusal, ZkOutcome};

use crate::message::{Answered, Unavailable};

/// The outcome of a ZooKeeper command, or why it has none.
pub(super) type ZkAnswered = Result<Result<ZkOutcome, Refusal>, Unavailable>;

/// The answer to a command of a client. All commands of this Front are ZooKeeper's.
pub(super) fn of_zk(answered: Answered) -> ZkAnswered {
    answered.map(|outcome| match outcome {
        Outcome::Zk(outcome) => outcome,
        Outcome::Control | Outcome::Etcd(_) | Outcome::EtcdV2(_) => {
            unreachable!("ZooKeeper's clients ask for no others")
        }
    })
}

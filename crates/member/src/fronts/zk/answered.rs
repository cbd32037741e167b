//! The answer to a ZooKeeper command, without the kinds of outcomes that other protocols have.

use machine::{Outcome, Refusal, ZkOutcome};

use crate::message::{Answered, Unavailable};

/// The outcome of a ZooKeeper command, or why it has none.
pub(super) type ZkAnswered = Result<Result<ZkOutcome, Refusal>, Unavailable>;

/// The answer to a client's command. A `ZkFront` submits only ZooKeeper commands.
pub(super) fn of_zk(answered: Answered) -> ZkAnswered {
    answered.map(|outcome| match outcome {
        Outcome::Zk(outcome) => outcome,
        Outcome::Control(_) | Outcome::Etcd(_) | Outcome::EtcdV2(_) => {
            unreachable!("ZooKeeper's clients ask for no others")
        }
    })
}

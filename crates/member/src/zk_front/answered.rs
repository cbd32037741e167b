//! What a waiter is told of a command of ZooKeeper's.

use machine::{Outcome, Refusal, ZkOutcome};

use crate::message::{Answered, Unavailable};

/// What came of a command of ZooKeeper's, or why nothing can.
pub(super) type ZkAnswered = Result<Result<ZkOutcome, Refusal>, Unavailable>;

/// The answer to a command of a connection here: all of them are ZooKeeper's.
pub(super) fn of_zk(answered: Answered) -> ZkAnswered {
    answered.map(|outcome| match outcome {
        Outcome::Zk(outcome) => outcome,
        Outcome::Control => unreachable!("a client asks for none of the ensemble's commands"),
    })
}

//! Gives up commands in Apply: marks the clients' requests (waiters) that Loop wants no outcome
//! for. A marked waiter gets at most an error, even if its command is applied later.

use machine::Mark;

use super::Apply;
use crate::message::{Answer, Fate, FrontId, GivenUp, GivenUpAt, Unavailable, Waiter};

/// Commands of one Front that were given up: the content of one
/// [`ToApply::GiveUp`](crate::message::ToApply::GiveUp).
pub(super) struct GiveUp {
    pub front: FrontId,
    pub given_up: Vec<GivenUp>,
    /// Whether to answer the waiters.
    pub is_told: bool,
}

impl Apply {
    /// Marks the waiters of commands that were given up, and answers them if Loop asked for that. A
    /// waiter that was answered before gets no second answer.
    pub(super) fn give_up(&mut self, mark: Mark) {
        for GiveUp { front, given_up, is_told } in core::mem::take(&mut self.give_ups) {
            for GivenUp { connection, ticket, at } in given_up {
                let reason = match at {
                    GivenUpAt::Waiting => Some(Unavailable::GivenUp(Fate::Definite)),
                    GivenUpAt::Batch { sequence, position, fate } => {
                        let was_waiting = self.waiter(sequence, position).is_some_and(stop_waiting);
                        was_waiting.then_some(Unavailable::GivenUp(fate))
                    }
                    GivenUpAt::Nowhere => {
                        let refused = self.own.refused(front, connection, ticket);
                        refused.and_then(|(waiter, reason)| stop_waiting(waiter).then_some(reason))
                    }
                };
                let Some(reason) = reason.filter(|_| is_told) else { continue };
                let (answered, reads) = (Err(reason), Vec::new());
                let answer = Answer::Command { connection, ticket, mark, answered, reads };
                self.hold.answer(front, answer);
            }
        }
    }

    /// The waiter of the command at `position` of this member's batch `wanted`; `None` if the
    /// command is applied.
    fn waiter(&mut self, wanted: u64, position: usize) -> Option<&mut Waiter> {
        let at = self.log.at.as_mut().and_then(|at| at.batch.as_mut()?.expected.as_mut());
        match at.filter(|expecting| expecting.sequence() == wanted) {
            Some(expecting) => expecting.waiter(position),
            None => self.own.waiter(wanted, position),
        }
    }
}

/// Marks the waiter as given up. False if it was already.
fn stop_waiting(waiter: &mut Waiter) -> bool {
    waiter.reads = Vec::new();
    !core::mem::replace(&mut waiter.is_given_up, true)
}

//! Apply's part in giving up commands: nobody waits for them any more, whatever is applied at their
//! places.

use machine::{ConnectionId, Mark};

use super::{Apply, Expected, push_answer};
use crate::message::{Answer, Fate, FrontId, GivenUp, GivenUpAt, Ticket, Unavailable, Waiter};

/// Commands of a Front that were given up, as Loop reports them.
pub(super) struct GiveUp {
    pub front: FrontId,
    pub given_up: Vec<GivenUp>,
    /// Whether the waiters are to be told.
    pub is_told: bool,
}

impl Apply {
    /// Marks the waiters of commands that were given up, and tells them if they are to be told. A
    /// waiter that is answered already is not told again.
    pub(super) fn give_up(&mut self, mark: Mark) {
        for GiveUp { front, given_up, is_told } in core::mem::take(&mut self.give_ups) {
            for GivenUp { connection, ticket, at } in given_up {
                let reason = match at {
                    GivenUpAt::Waiting => Some(Unavailable::GivenUp(Fate::Definite)),
                    GivenUpAt::Batch { sequence, position, fate } => {
                        let was_waiting = self.waiter(sequence, position).is_some_and(stop_waiting);
                        was_waiting.then_some(Unavailable::GivenUp(fate))
                    }
                    GivenUpAt::Nowhere => self.give_up_refused(front, connection, ticket),
                };
                let Some(reason) = reason.filter(|_| is_told) else { continue };
                let (answered, reads) = (Err(reason), Vec::new());
                let answer = Answer::Command { connection, ticket, mark, answered, reads };
                push_answer(&mut self.answers, front, answer);
            }
        }
    }

    /// The waiter of a command of an own batch; none: the command is applied.
    fn waiter(&mut self, wanted: u64, position: usize) -> Option<&mut Waiter> {
        let at = self.at.as_mut().and_then(|at| at.batch.as_mut()?.expected.as_mut());
        if let Some(expecting) = at.filter(|expecting| expecting.sequence == wanted) {
            let waiters = expecting.waiters.as_mut_slice();
            let done = expecting.count - waiters.len();
            return waiters.get_mut(position.checked_sub(done)?);
        }
        self.expected.iter_mut().find_map(|expected| match expected {
            Expected::Batch { sequence, waiters, .. } if *sequence == wanted => {
                waiters.get_mut(position)
            }
            _ => None,
        })
    }

    /// Gives up a refused command. Its caller was not told of the refusal yet, since commands
    /// before it are still waited for. Returns the reason of the refusal.
    fn give_up_refused(
        &mut self,
        of_front: FrontId,
        connection: ConnectionId,
        ticket: Ticket,
    ) -> Option<Unavailable> {
        let is_wanted = |it: &&mut Waiter| (it.connection, it.ticket) == (connection, ticket);
        self.expected.iter_mut().find_map(|expected| match expected {
            Expected::Refused { front, waiters, reason } if *front == of_front => {
                let waiter = waiters.iter_mut().find(is_wanted)?;
                stop_waiting(waiter).then_some(*reason)
            }
            _ => None,
        })
    }
}

/// Ends the wait. False if the waiter had ended it already.
fn stop_waiting(waiter: &mut Waiter) -> bool {
    waiter.reads = Vec::new();
    !core::mem::replace(&mut waiter.is_given_up, true)
}

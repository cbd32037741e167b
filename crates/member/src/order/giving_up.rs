//! Loop's part in giving up commands: nobody waits for them any more, so no leader is given them
//! from now on.
//!
//! A batch without a sequence is dropped if all of its commands are given up. Any other batch keeps
//! its place and its sequence, and `ControlCommand::Nothing` takes the place of each command that
//! is given up: the machine skips every batch behind a sequence that is missing.

use std::collections::BTreeSet;

use machine::ConnectionId;
use machine::entry::UnstampedBatch;

use super::{Loop, Waiting};
use crate::message::{FrontId, GivenUp, GivenUpAt, Ticket, ToApply, Waiter};

impl Loop {
    /// Gives up the commands of these requests of a Front, and has each caller told.
    pub(super) fn give_up_requests(
        &mut self,
        front: FrontId,
        mut callers: Vec<(ConnectionId, Ticket)>,
    ) {
        callers.sort_unstable();
        callers.dedup();
        let mut given_up = self.replace(front, |connection, ticket| {
            callers.binary_search(&(connection, ticket)).is_ok()
        });
        let found: BTreeSet<_> = given_up.iter().map(|it| (it.connection, it.ticket)).collect();
        callers.retain(|caller| !found.contains(caller));
        let at = GivenUpAt::Nowhere;
        let nowhere = |(connection, ticket)| GivenUp { connection, ticket, at };
        given_up.extend(callers.into_iter().map(nowhere));
        if !given_up.is_empty() {
            self.output.apply.push(ToApply::GiveUp { front, given_up, is_told: true });
        }
    }

    /// Gives up all commands of these ended connections of a Front, ascending. A client that comes
    /// back again and again while there is no leader leaves some each time. A session that a leader
    /// opens for nobody expires.
    pub(super) fn give_up_connections(&mut self, front: FrontId, connections: &[ConnectionId]) {
        let is_over = |connection, _| connections.binary_search(&connection).is_ok();
        let mut given_up = self.replace(front, is_over);
        given_up.retain(|it| it.at != GivenUpAt::Waiting);
        if !given_up.is_empty() {
            self.output.apply.push(ToApply::GiveUp { front, given_up, is_told: false });
        }
    }

    /// Replaces the commands of a Front that are given up, wherever Loop has them.
    fn replace(
        &mut self,
        of_front: FrontId,
        is_given_up: impl Fn(ConnectionId, Ticket) -> bool,
    ) -> Vec<GivenUp> {
        let mut given_up = Vec::new();
        self.waiting.retain_mut(|waiting| match waiting {
            Waiting::Own { front: Some(front), batch, waiters } if *front == of_front => {
                replace_waiting(batch, waiters, &is_given_up, &mut given_up)
            }
            _ => true,
        });
        given_up.extend(self.forwarder.give_up(of_front, is_given_up));
        given_up
    }
}

/// Replaces the given-up commands of a batch without a sequence. False if nobody waits for any of
/// its commands any more.
fn replace_waiting(
    batch: &mut UnstampedBatch,
    waiters: &mut [Waiter],
    is_given_up: impl Fn(ConnectionId, Ticket) -> bool,
    given_up: &mut Vec<GivenUp>,
) -> bool {
    let before = given_up.len();
    for waiter in waiters.iter_mut() {
        let Waiter { connection, ticket, .. } = *waiter;
        if !waiter.is_given_up && is_given_up(connection, ticket) {
            waiter.is_given_up = true;
            given_up.push(GivenUp { connection, ticket, at: GivenUpAt::Waiting });
        }
    }
    if given_up.len() == before {
        return true;
    }
    let is_awaited = waiters.iter().any(|waiter| !waiter.is_given_up);
    if is_awaited {
        batch.replace_by_nothing(|position, _| waiters[position].is_given_up);
    }
    is_awaited
}

#[cfg(test)]
mod tests;

//! Keeps the callers that are answered once a given log index is applied on this member.

use std::collections::VecDeque;

use machine::{LogIndex, Mark};

use super::hold::Hold;
use crate::message::{Answer, Caller, LeaseAnswered};

/// Callers that wait until an index is applied.
#[derive(Default)]
pub(super) struct Waits {
    /// Callers of syncs with the index that each waits for, ascending.
    syncs: VecDeque<(LogIndex, Caller)>,
    /// The leader's answers about leases with the index that each waits for, ascending.
    lease_times: VecDeque<(LogIndex, Vec<(Caller, LeaseAnswered)>)>,
}

impl Waits {
    /// Takes a caller of a sync. Indexes need not come in ascending order: a leader may answer in
    /// another order than it was asked.
    pub fn sync(&mut self, index: LogIndex, caller: Caller) {
        let at = self.syncs.partition_point(|(other, ..)| *other <= index);
        self.syncs.insert(at, (index, caller));
    }

    /// Takes the leader's answers about leases, which wait until `index` is applied.
    pub fn tell_leases(&mut self, index: LogIndex, answers: Vec<(Caller, LeaseAnswered)>) {
        let at = self.lease_times.partition_point(|(other, ..)| *other <= index);
        self.lease_times.insert(at, (index, answers));
    }

    /// Whether a caller waits for an index up to `applied`.
    pub fn are_due(&self, applied: LogIndex) -> bool {
        self.syncs.front().is_some_and(|(index, ..)| *index <= applied)
            || self.lease_times.front().is_some_and(|(index, ..)| *index <= applied)
    }

    /// Answers the callers that wait for an index up to `applied`.
    pub fn answer(&mut self, applied: LogIndex, mark: Mark, hold: &mut Hold) {
        while let Some((_, caller)) = self.syncs.pop_front_if(|(index, ..)| *index <= applied) {
            let Caller { front, connection, ticket } = caller;
            hold.answer(front, Answer::Synced { connection, ticket, mark });
        }
        while let Some((_, told)) = self.lease_times.pop_front_if(|(index, _)| *index <= applied) {
            for (caller, answered) in told {
                let Caller { front, connection, ticket } = caller;
                hold.answer(front, Answer::Lease { connection, ticket, mark, answered });
            }
        }
    }
}

//! The questions about leases that a leader has not answered, by what they wait for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use machine::{BootId, LeaseId, LogIndex, MemberId};
use replica::ReadId;

use crate::lease::{LeaseQuestion, LeaseTime};

/// The questions that a leader has not answered.
#[derive(Default)]
pub(crate) struct LeaseCalls {
    /// The questions that wait for the next round.
    pub arrived: Vec<Arrived>,
    /// Questions by the round that they wait for.
    pub rounds: BTreeMap<ReadId, Vec<Arrived>>,
    /// Questions whose round has returned, and that wait until the index is applied.
    pub confirmed: VecDeque<(LogIndex, Vec<Arrived>)>,
    /// Questions about leases whose expiry is under way.
    pub fated: BTreeMap<LeaseId, Vec<Arrived>>,
    /// All of these, so that a question which is asked again is kept once.
    pub known: BTreeSet<(Asker, u64)>,
    /// Answers for other members that were not sent yet.
    pub answers: BTreeMap<Asker, Vec<(u64, Option<LeaseTime>)>>,
}

impl LeaseCalls {
    /// Questions that are not answered.
    pub fn count(&self) -> usize {
        self.known.len()
    }
}

/// The boot of a member that asks.
pub(crate) type Asker = (MemberId, BootId);

/// A question that has arrived at the leader.
pub(crate) struct Arrived {
    /// The member that asks, which may be the leader itself.
    pub from: Asker,
    /// The number that it has given the question.
    pub number: u64,
    /// What it asks.
    pub question: LeaseQuestion,
}

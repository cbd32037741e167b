//! The questions about leases that a leader has not answered, by what they wait for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use machine::{BootId, LeaseId, LogIndex, MemberId};
use replica::ReadId;

use crate::lease::{LeaseQuestion, LeaseTime};
use crate::spaces::limits::LEASE_ANSWER_MS_MAX;

/// The questions that a leader has not answered.
///
/// An owner of a lease that is heard in time keeps it, however long Apply takes. So the oldest
/// renewal that is not answered protects its lease, for as long as its client may wait for the
/// answer. Further ones prolong that by nothing: a leader that never answers ends all leases.
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
    /// When the renewals of each lease arrived that are not answered, the oldest first.
    renewals: HashMap<LeaseId, VecDeque<u64>, FixedState>,
    /// Answers for other members that were not sent yet.
    pub answers: BTreeMap<Asker, Vec<(u64, Option<LeaseTime>)>>,
}

impl LeaseCalls {
    /// A renewal has arrived at `now_ms`. Returns until when its lease is protected.
    pub fn on_renewal(&mut self, lease: LeaseId, now_ms: u64) -> u64 {
        self.renewals.entry(lease).or_default().push_back(now_ms);
        self.protected_until_ms(lease)
    }

    /// The renewal that arrived at `arrived_ms` is answered. Returns until when the next one
    /// protects the lease; 0 without one.
    pub fn on_renewed(&mut self, lease: LeaseId, arrived_ms: u64) -> u64 {
        let Some(arrivals) = self.renewals.get_mut(&lease) else { return 0 };
        let found = arrivals.binary_search(&arrived_ms);
        arrivals.remove(found.expect("the renewal was not answered"));
        if arrivals.is_empty() {
            self.renewals.remove(&lease);
        }
        self.protected_until_ms(lease)
    }

    /// Until when renewals of a lease that are not answered protect it; 0 without one.
    pub fn protected_until_ms(&self, lease: LeaseId) -> u64 {
        let oldest_ms = self.renewals.get(&lease).and_then(VecDeque::front);
        oldest_ms.map_or(0, |arrived_ms| arrived_ms + LEASE_ANSWER_MS_MAX)
    }

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
    /// When it arrived, by the clock of the deadlines, in ms.
    pub arrived_ms: u64,
}

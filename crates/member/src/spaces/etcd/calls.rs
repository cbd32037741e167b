//! The questions about leases that a leader has not answered, grouped by what each waits for.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use machine::{BootId, LeaseId, LogIndex, MemberId};
use replica::ReadId;

use crate::lease::{LeaseQuestion, LeaseTime};
use crate::spaces::limits::LEASE_ANSWER_MS_MAX;

/// The questions about leases that a leader has not answered.
///
/// A lease whose client is heard in time must live on, however long Apply takes. So the oldest
/// unanswered renewal protects its lease, for as long as its client may wait for the answer. Later
/// renewals do not prolong that: if a leader never answers, all leases end.
#[derive(Default)]
pub(crate) struct LeaseCalls {
    /// Questions that wait for the next ReadIndex round to begin.
    pub arrived: Vec<Arrived>,
    /// Questions that wait for a round to return, by the id of that round.
    pub rounds: BTreeMap<ReadId, Vec<Arrived>>,
    /// Questions whose round has returned, and that wait until its index is applied here.
    pub confirmed: VecDeque<(LogIndex, Vec<Arrived>)>,
    /// Questions about leases whose expiry is under way: they wait until the lease has ended.
    pub fated: BTreeMap<LeaseId, Vec<Arrived>>,
    /// All questions in the fields above. A question that is asked again is found here, and kept
    /// only once.
    pub known: BTreeSet<(Asker, u64)>,
    /// When the unanswered renewals of each lease arrived, the oldest first, by the clock of the
    /// deadlines.
    renewals: HashMap<LeaseId, VecDeque<u64>, FixedState>,
    /// Answers that were not sent yet, by the member that asked.
    pub answers: BTreeMap<Asker, Vec<(u64, Option<LeaseTime>)>>,
}

impl LeaseCalls {
    /// Notes that a renewal arrived at `now_ms`. Returns until when its lease is protected.
    pub fn on_renewal(&mut self, lease: LeaseId, now_ms: u64) -> u64 {
        self.renewals.entry(lease).or_default().push_back(now_ms);
        self.protected_until_ms(lease)
    }

    /// Notes that the renewal which arrived at `arrived_ms` is answered. Returns until when the
    /// next unanswered one protects the lease; 0 if there is none.
    pub fn on_renewed(&mut self, lease: LeaseId, arrived_ms: u64) -> u64 {
        let Some(arrivals) = self.renewals.get_mut(&lease) else { return 0 };
        let found = arrivals.binary_search(&arrived_ms);
        arrivals.remove(found.expect("the renewal was not answered"));
        if arrivals.is_empty() {
            self.renewals.remove(&lease);
        }
        self.protected_until_ms(lease)
    }

    /// Until when unanswered renewals of a lease protect it; 0 if there is none.
    pub fn protected_until_ms(&self, lease: LeaseId) -> u64 {
        let oldest_ms = self.renewals.get(&lease).and_then(VecDeque::front);
        oldest_ms.map_or(0, |arrived_ms| arrived_ms + LEASE_ANSWER_MS_MAX)
    }

    /// How many questions are not answered.
    pub fn count(&self) -> usize {
        self.known.len()
    }
}

/// A member that asks, and its boot.
pub(crate) type Asker = (MemberId, BootId);

/// A question that has arrived at the leader.
pub(crate) struct Arrived {
    /// The member that asks, which may be the leader itself.
    pub from: Asker,
    /// The number that the asking member gave the question.
    pub number: u64,
    /// The question.
    pub question: LeaseQuestion,
    /// When the question arrived, by the clock of the deadlines, in ms.
    pub arrived_ms: u64,
}

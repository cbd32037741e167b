//! The questions of a member's own clients about leases, until they are answered.

use std::collections::{BTreeMap, BTreeSet};

use crate::lease::LeaseQuestion;
use crate::message::Caller;

/// The questions of this member's own clients.
#[derive(Default)]
pub(crate) struct LeaseQuestions {
    /// The number of the last question.
    pub number: u64,
    /// Questions without an answer, by their numbers: so the oldest comes first.
    pub asked: BTreeMap<u64, Asked>,
    /// Questions that no leader was given.
    pub ungiven: BTreeSet<u64>,
    /// When all questions were last taken for lost.
    pub restarted_ms: u64,
}

/// A question without an answer.
pub(crate) struct Asked {
    /// The request that asks.
    pub caller: Caller,
    /// What it asks.
    pub question: LeaseQuestion,
    /// When it came, by Loop's clock.
    pub since_ms: u64,
}

impl LeaseQuestions {
    /// Questions without an answer.
    pub fn count(&self) -> usize {
        self.asked.len()
    }

    /// The questions that were given may be lost.
    pub fn restart(&mut self, now_ms: u64) {
        self.restarted_ms = now_ms;
        self.ungiven = self.asked.keys().copied().collect();
    }
}

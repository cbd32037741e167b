//! Keeps the questions of this member's own clients about leases, until the leader has answered
//! them.

use std::collections::{BTreeMap, BTreeSet};

use machine::LogIndex;

use crate::caller::Caller;
use crate::lease::{LeaseAnswered, LeaseQuestion, LeaseTime, NoLeaseTime};
use crate::spaces::limits::{LEASE_ANSWER_MS_MAX, LEASE_QUESTIONS_MAX, LEASE_RETRY_MS};

/// The questions of this member's own clients about leases.
#[derive(Default)]
pub(crate) struct LeaseQuestions {
    /// The number of the last question.
    number: u64,
    /// Unanswered questions by their numbers, so the oldest is first.
    asked: BTreeMap<u64, Asked>,
    /// The numbers of the unanswered questions that the present leader was not given.
    ungiven: BTreeSet<u64>,
    /// When all questions were last assumed to be lost, by Loop's clock.
    restarted_ms: u64,
    /// Answers that Apply was not given yet, each list with the index that must be applied first.
    told: Vec<(LogIndex, Vec<(Caller, LeaseAnswered)>)>,
}

/// An unanswered question.
struct Asked {
    /// The client's request that asks.
    caller: Caller,
    question: LeaseQuestion,
    /// When the question came, by Loop's clock.
    since_ms: u64,
}

impl LeaseQuestions {
    /// Takes questions of clients. Beyond [`LEASE_QUESTIONS_MAX`] they are refused.
    pub fn ask(&mut self, questions: Vec<(Caller, LeaseQuestion)>, now_ms: u64) {
        let mut refused = Vec::new();
        for (caller, question) in questions {
            if self.asked.len() >= LEASE_QUESTIONS_MAX {
                refused.push((caller, Err(NoLeaseTime::TooManyRequests)));
                continue;
            }
            self.number += 1;
            self.asked.insert(self.number, Asked { caller, question, since_ms: now_ms });
            self.ungiven.insert(self.number);
        }
        self.tell(LogIndex(0), refused);
    }

    /// Whether some question is still to be given to the leader.
    pub fn has_ungiven(&self) -> bool {
        !self.ungiven.is_empty()
    }

    /// Takes the questions that the leader was not given, with their numbers.
    pub fn give(&mut self) -> Vec<(u64, LeaseQuestion)> {
        let numbers = core::mem::take(&mut self.ungiven);
        let question = |number| self.asked.get(&number).map(|asked| (number, asked.question));
        numbers.into_iter().filter_map(question).collect()
    }

    /// Takes the leader's answers, given when it had applied `index`. The answer to a renewal goes
    /// to its client at once. Any other answer waits until `index` is applied here: the client may
    /// also be shown the keys of the lease, which must be as new as the answer.
    pub fn on_answers(&mut self, index: LogIndex, answers: Vec<(u64, Option<LeaseTime>)>) {
        let (mut now, mut later) = (Vec::new(), Vec::new());
        for (number, time) in answers {
            let Some(Asked { caller, question, .. }) = self.asked.remove(&number) else {
                continue;
            };
            self.ungiven.remove(&number);
            let told = if question.renews { &mut now } else { &mut later };
            told.push((caller, Ok(time)));
        }
        self.tell(LogIndex(0), now);
        self.tell(index, later);
    }

    /// Asks again if questions may be lost, and fails those that have waited for too long.
    pub fn on_time(&mut self, now_ms: u64, is_leader_known: bool) {
        let mut late = Vec::new();
        let why = if is_leader_known { NoLeaseTime::TimedOut } else { NoLeaseTime::NoLeader };
        while let Some(first) = self.asked.first_entry()
            && now_ms >= first.get().since_ms + LEASE_ANSWER_MS_MAX
        {
            let (number, asked) = first.remove_entry();
            self.ungiven.remove(&number);
            late.push((asked.caller, Err(why)));
        }
        self.tell(LogIndex(0), late);
        let oldest = self.asked.first_key_value().map(|(_, asked)| asked.since_ms);
        let since_ms = oldest.map(|since_ms| since_ms.max(self.restarted_ms));
        if since_ms.is_some_and(|since_ms| now_ms >= since_ms + LEASE_RETRY_MS) {
            self.restart(now_ms);
        }
    }

    /// Makes all unanswered questions be asked again, because questions that the leader was given
    /// may be lost.
    pub fn restart(&mut self, now_ms: u64) {
        self.restarted_ms = now_ms;
        self.ungiven = self.asked.keys().copied().collect();
    }

    /// How many questions are unanswered.
    pub fn count(&self) -> usize {
        self.asked.len()
    }

    /// Takes the answers for callers, each list with the index that must be applied first.
    pub fn take_told(&mut self) -> Vec<(LogIndex, Vec<(Caller, LeaseAnswered)>)> {
        core::mem::take(&mut self.told)
    }

    fn tell(&mut self, index: LogIndex, answers: Vec<(Caller, LeaseAnswered)>) {
        if !answers.is_empty() {
            self.told.push((index, answers));
        }
    }
}

//! Keeps the persist jobs that are on their way to the disk, and holds back the messages that wait
//! for them.
//!
//! Invariant: a message that promises entries (a follower's answer) leaves only after everything
//! that the member knew when it made the message is on disk. Other messages (a leader's) leave at
//! once (Raft thesis, section 10.2.1), unless the member's own term or vote is not on disk yet.
//! Without that exception, a lone voter could lose its term in a crash, use the term again, and
//! send its learners a different entry for an index that they have.

use std::collections::VecDeque;

use crate::effects::{Outgoing, PersistId};
use crate::limits::MESSAGES_HELD_MAX;

/// A job that was handed out and is not reported as done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub id: PersistId,
    pub must_sync: bool,
    /// Whether the job changes the term or the vote.
    pub election: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Pending {
    jobs: VecDeque<Job>,
    /// Messages that wait, each with the id of the job that it waits for; these ids never fall.
    held: VecDeque<(PersistId, Outgoing)>,
    released: Vec<Outgoing>,
    dropped_count: u64,
}

impl Pending {
    pub(crate) fn add(&mut self, job: Job) {
        assert!(self.jobs.back().is_none_or(|last| last.id < job.id), "job ids grow");
        self.jobs.push_back(job);
    }

    /// Sends a message, or holds it until the jobs that it depends on are done.
    pub(crate) fn send(&mut self, promises_entries: bool, message: Outgoing) {
        let barrier = if promises_entries {
            self.jobs.iter().rfind(|job| job.must_sync)
        } else {
            self.jobs.iter().rfind(|job| job.election)
        };
        match barrier {
            None => self.released.push(message),
            Some(_) if self.held.len() >= MESSAGES_HELD_MAX => self.dropped_count += 1,
            Some(job) => {
                // This message may depend on an older job than the one before it. It still leaves
                // after that one, a little later than it could, to keep the order.
                let after = self.held.back().map_or(job.id, |(last, _)| (*last).max(job.id));
                self.held.push_back((after, message));
            }
        }
    }

    /// Takes the report that job `id` and all jobs before it are done, and releases the messages
    /// that waited for them.
    pub(crate) fn on_persisted(&mut self, id: PersistId) {
        let reported = self.jobs.iter().position(|job| job.id == id);
        let position = reported.expect("only jobs that were handed out and not reported are done");
        self.jobs.drain(..=position);
        while let Some((_, message)) = self.held.pop_front_if(|(after, _)| *after <= id) {
            self.released.push(message);
        }
    }

    /// Takes the messages that may leave now.
    pub(crate) fn take_released(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.released)
    }

    pub(crate) fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// The oldest job that is not reported as done.
    pub(crate) fn first(&self) -> Option<PersistId> {
        self.jobs.front().map(|job| job.id)
    }

    /// Whether every job that needs a sync is done.
    pub(crate) fn is_synced(&self) -> bool {
        !self.jobs.iter().any(|job| job.must_sync)
    }

    /// Whether every job that changes the term or the vote is done.
    pub(crate) fn is_term_durable(&self) -> bool {
        !self.jobs.iter().any(|job| job.election)
    }

    pub(crate) fn job_count(&self) -> usize {
        self.jobs.len()
    }

    pub(crate) fn dropped_count(&self) -> u64 {
        self.dropped_count
    }
}

#[cfg(test)]
mod tests;

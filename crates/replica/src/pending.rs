//! Persist jobs on their way through the disk, and the messages that wait for them.
//!
//! Invariant: a message that promises entries, as a follower's does, leaves only after everything
//! the member knew when it was made is on disk. Other messages, as a leader's, leave at once (Raft
//! thesis, section 10.2.1), except while the member's own term or vote is not on disk yet. Without
//! that exception a lone voter could lose its term in a crash, take that term again and give its
//! learners another entry at an index they have.

use std::collections::VecDeque;

use crate::effects::{Outgoing, PersistId};
use crate::limits::MESSAGES_HELD_MAX;

/// A job that was handed out and not yet reported.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job {
    pub id: PersistId,
    pub must_sync: bool,
    /// Whether it changes term or vote.
    pub election: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Pending {
    jobs: VecDeque<Job>,
    /// Held messages, each with the job it waits for; those ids never fall.
    held: VecDeque<(PersistId, Outgoing)>,
    released: Vec<Outgoing>,
    dropped_count: u64,
}

impl Pending {
    pub(crate) fn add(&mut self, job: Job) {
        assert!(self.jobs.back().is_none_or(|last| last.id < job.id), "job ids grow");
        self.jobs.push_back(job);
    }

    /// Sends a message, or holds it until the jobs so far that it depends on are done.
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
                // The barrier may be older than that of an earlier message: then the message waits
                // a little longer than it must, and the order stays.
                let after = self.held.back().map_or(job.id, |(last, _)| (*last).max(job.id));
                self.held.push_back((after, message));
            }
        }
    }

    /// Releases messages: the job `id` and all before it are done.
    pub(crate) fn on_persisted(&mut self, id: PersistId) {
        let reported = self.jobs.iter().position(|job| job.id == id);
        let position = reported.expect("only jobs that were handed out and not reported are done");
        self.jobs.drain(..=position);
        while let Some((_, message)) = self.held.pop_front_if(|(after, _)| *after <= id) {
            self.released.push(message);
        }
    }

    /// Takes the messages that may go now.
    pub(crate) fn take_released(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.released)
    }

    pub(crate) fn has_released(&self) -> bool {
        !self.released.is_empty()
    }

    /// The oldest job that is not reported.
    pub(crate) fn first(&self) -> Option<PersistId> {
        self.jobs.front().map(|job| job.id)
    }

    /// True if nothing that needs a sync is outstanding.
    pub(crate) fn is_synced(&self) -> bool {
        !self.jobs.iter().any(|job| job.must_sync)
    }

    /// True if no job that changes term or vote is outstanding.
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

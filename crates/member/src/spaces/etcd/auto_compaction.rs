//! Decides when a leader compacts etcd's history automatically. Only the leader compacts, and its
//! own configuration says how much history remains.
//!
//! In the mode `periodic`, every member notes the revision from time to time, by its own clock. So
//! a new leader knows what the revision was one period ago. Source: etcd 3.6,
//! `v3compactor/periodic.go` and `revision.go`.

use std::collections::VecDeque;

/// How often a leader compacts in the mode `revision` (`v3compactor.revInterval`).
const REVISIONS_INTERVAL_MS: u64 = 5 * 60 * 1000;

/// The longest time between two compactions in the mode `periodic`.
const PERIODIC_INTERVAL_MS_MAX: u64 = 60 * 60 * 1000;

/// How many times the revision is noted within one interval between two compactions
/// (`v3compactor.retryDivisor`).
const NOTES_PER_INTERVAL: u64 = 10;

/// The history that a leader compacts automatically: `--auto-compaction-mode` and
/// `--auto-compaction-retention`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AutoCompaction {
    /// It compacts nothing.
    #[default]
    Off,
    /// `periodic`: it compacts what is older than this time.
    Periodic {
        /// The period, in ms, at least 10.
        ms: u64,
    },
    /// `revision`: it compacts all but the newest revisions.
    Revisions {
        /// How many revisions remain.
        count: i64,
    },
}

/// A member's record of revisions and compactions, to know when the next compaction is due.
pub struct AutoCompactor {
    mode: AutoCompaction,
    /// Revisions noted within one period, the oldest first. Empty in the mode `revision`.
    notes: VecDeque<i64>,
    /// When the next revision is noted, and a compaction may begin, by Loop's clock.
    due_ms: u64,
    /// When the last compaction began, by Loop's clock.
    last_ms: u64,
    last_revision: i64,
    /// Whether this member has begun a compaction: the first one waits for a whole period.
    has_begun: bool,
}

impl AutoCompactor {
    /// The record of a member that starts at time 0 of Loop's clock, with this revision.
    pub fn new(mode: AutoCompaction, revision: i64) -> AutoCompactor {
        let mut compactor = AutoCompactor {
            mode,
            notes: VecDeque::new(),
            due_ms: 0,
            last_ms: 0,
            last_revision: 0,
            has_begun: false,
        };
        compactor.note(0, revision);
        compactor
    }

    /// When [`AutoCompactor::step`] next has something to do, by Loop's clock; `u64::MAX` if never.
    pub fn due_ms(&self) -> u64 {
        self.due_ms
    }

    /// Takes the present revision. Returns the revision to compact to, if a compaction is due and
    /// this member `leads`.
    pub fn step(&mut self, now_ms: u64, revision: i64, leads: bool) -> Option<i64> {
        if now_ms < self.due_ms {
            return None;
        }
        let wanted = self.wanted(now_ms, revision).filter(|_| leads);
        if let Some(wanted) = wanted {
            (self.last_ms, self.last_revision, self.has_begun) = (now_ms, wanted, true);
        }
        self.note(now_ms, revision);
        wanted
    }

    fn wanted(&self, now_ms: u64, revision: i64) -> Option<i64> {
        let wanted = match self.mode {
            AutoCompaction::Off => return None,
            AutoCompaction::Periodic { ms } => {
                let pause_ms = if self.has_begun { interval_ms(ms) } else { ms };
                let is_due = now_ms.saturating_sub(self.last_ms) >= pause_ms;
                *self.notes.front().filter(|_| is_due)?
            }
            AutoCompaction::Revisions { count } => revision.saturating_sub(count),
        };
        (wanted > 0 && wanted != self.last_revision).then_some(wanted)
    }

    fn note(&mut self, now_ms: u64, revision: i64) {
        let wait_ms = match self.mode {
            AutoCompaction::Off => u64::MAX,
            AutoCompaction::Revisions { .. } => REVISIONS_INTERVAL_MS,
            AutoCompaction::Periodic { ms } => {
                let wait_ms = (interval_ms(ms) / NOTES_PER_INTERVAL).max(1);
                self.notes.push_back(revision);
                if self.notes.len() as u64 > ms / wait_ms + 1 {
                    self.notes.pop_front();
                }
                wait_ms
            }
        };
        self.due_ms = now_ms.saturating_add(wait_ms);
    }
}

fn interval_ms(period_ms: u64) -> u64 {
    period_ms.min(PERIODIC_INTERVAL_MS_MAX)
}

#[cfg(test)]
mod tests;

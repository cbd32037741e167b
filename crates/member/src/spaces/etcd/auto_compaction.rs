//! Decides when a leader compacts etcd's history by itself.
//!
//! Every member notes the revision now and then, by its own time, and so a new leader knows what
//! the revision was a period ago. The leader's configuration counts. Source: etcd 3.6,
//! `v3compactor/periodic.go` and `revision.go`.

use std::collections::VecDeque;

/// How often the mode of revisions compacts (`v3compactor.revInterval`).
const REVISIONS_INTERVAL_MS: u64 = 5 * 60 * 1000;

/// The longest time between two compactions of the periodic mode.
const PERIODIC_INTERVAL_MS_MAX: u64 = 60 * 60 * 1000;

/// Revisions that are noted in such a time (`v3compactor.retryDivisor`).
const NOTES_PER_INTERVAL: u64 = 10;

/// What a leader compacts by itself: `--auto-compaction-mode` and `--auto-compaction-retention`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AutoCompaction {
    /// Nothing.
    #[default]
    Off,
    /// `periodic`: what is older than this many ms, at least 10.
    Periodic {
        /// The period, in ms.
        ms: u64,
    },
    /// `revision`: all but this many revisions.
    Revisions {
        /// The revisions that stay.
        count: i64,
    },
}

/// A member's view of the compactions that are due.
pub struct AutoCompactor {
    mode: AutoCompaction,
    /// The revisions that were noted in a period, oldest first. Empty in the mode of revisions.
    notes: VecDeque<i64>,
    /// When the next one is noted, and a compaction may begin.
    due_ms: u64,
    /// When the last compaction began.
    last_ms: u64,
    last_revision: i64,
    /// Whether a compaction began: the first one waits for a whole period.
    has_begun: bool,
}

impl AutoCompactor {
    /// A member that starts at the time 0, at this revision.
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

    /// When [`AutoCompactor::step`] has something to do; `u64::MAX`: never.
    pub fn due_ms(&self) -> u64 {
        self.due_ms
    }

    /// Takes the present revision. Returns the one to compact to, if that is due and this member
    /// `leads`.
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

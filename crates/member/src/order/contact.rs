//! Measures the age of this member's *contact*: the last proof that this member belongs to a
//! working ensemble. The age decides whether this member's Fronts may still answer for a session or
//! may only serve reads, and whether etcd's clients find a leader here. After a long time without
//! contact, this member must apply everything that is committed before it gives a leader its
//! batches again.
//!
//! A leader asks a quorum whether they still follow it. If they answer yes, the time of the
//! question is the leader's contact. The time of the answer does not count, so a leader that was
//! paused or cut off cannot take old answers for new ones. The question is a ReadIndex round, which
//! is a heartbeat as well. A follower's contact is the time at which it sent a report that the
//! leader has answered, minus the age of the leader's own contact ([`crate::order::hearing`]).

use machine::LogIndex;

use crate::limits::{HEARTBEAT_QUIET_MS, QUIET_TIMEOUT_MS_MIN};
use crate::order::limits::{HEARTBEAT_MS, QUIET_MS};

/// This member's contact, and a leader's heartbeats, which renew it.
#[derive(Default)]
pub(super) struct Contact {
    /// The time of the last contact, by Loop's clock; `None` before the first.
    at_ms: Option<u64>,
    /// Whether the configuration lets clients open sessions whose timeouts are too short for rare
    /// heartbeats.
    admits_short: bool,
    /// Whether a leader's question to the quorum is still unanswered.
    is_asked: bool,
    /// When a leader sends the next heartbeat, by Loop's clock.
    beat_at_ms: u64,
    /// The last applied entry as of the last heartbeat, and the time of the first heartbeat with
    /// that entry.
    quiet_since: (LogIndex, u64),
}

impl Contact {
    /// The contact of a server that has none yet, and whose clients get this session timeout or a
    /// longer one.
    pub fn new(session_timeout_ms_min: u32) -> Contact {
        let admits_short = session_timeout_ms_min < QUIET_TIMEOUT_MS_MIN;
        Contact { admits_short, ..Contact::default() }
    }

    /// The age of the last contact, in ms; `u64::MAX` before the first.
    pub fn age_ms(&self, now_ms: u64) -> u64 {
        self.at_ms.map_or(u64::MAX, |at_ms| now_ms.saturating_sub(at_ms))
    }

    /// Notes a contact at `at_ms`; `None` is ignored.
    pub fn note(&mut self, at_ms: Option<u64>) {
        self.at_ms = self.at_ms.max(at_ms);
    }

    /// In how many ms the next heartbeat is due.
    pub fn beat_in_ms(&self, now_ms: u64) -> u64 {
        self.beat_at_ms.saturating_sub(now_ms)
    }

    /// Plans the heartbeat after the one that is sent now. Heartbeats are rare while nothing is
    /// applied, unless a session has, or may get, a timeout that is too short for rare ones.
    pub fn plan_beat(&mut self, now_ms: u64, applied: LogIndex, has_short_timeouts: bool) {
        let (index, since_ms) = &mut self.quiet_since;
        if *index != applied {
            (*index, *since_ms) = (applied, now_ms);
        }
        let is_quiet = now_ms - *since_ms >= QUIET_MS;
        let has_short = self.admits_short || has_short_timeouts;
        let wait_ms = if is_quiet && !has_short { HEARTBEAT_QUIET_MS } else { HEARTBEAT_MS };
        self.beat_at_ms = now_ms + wait_ms;
    }

    /// Whether a leader's question to the quorum is still unanswered.
    pub fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// Notes that a leader has asked the quorum whether it still follows.
    pub fn on_asked(&mut self) {
        self.is_asked = true;
    }

    /// Notes that the quorum has answered the question asked at `asked_ms`, or with `None` that the
    /// question failed.
    pub fn on_answer(&mut self, asked_ms: Option<u64>) {
        self.is_asked = false;
        self.note(asked_ms);
    }
}

#[cfg(test)]
pub(super) mod tests;

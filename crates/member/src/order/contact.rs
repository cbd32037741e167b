//! The age of this member's contact to the members that decide whether it is a member, whether it
//! leads and whether a session lives.
//!
//! A leader's contact is the moment at which it asked a quorum whether they still follow, and they
//! did: the moment of the question counts, not that of the answer, nor how often Loop ran since. So
//! a leader that was paused or cut off cannot take old answers for new ones. The question is a
//! ReadIndex round, which is a heartbeat as well. A follower's contact comes with the answers to
//! its reports ([`crate::order::hearing`]).

use machine::LogIndex;

use crate::limits::{HEARTBEAT_QUIET_MS, QUIET_TIMEOUT_MS_MIN};
use crate::order::limits::{HEARTBEAT_MS, QUIET_MS};

/// This member's contact, and a leader's heartbeats, which renew it.
#[derive(Default)]
pub(super) struct Contact {
    /// The time of the last contact, by Loop's clock; `None` before the first.
    at_ms: Option<u64>,
    /// Whether a client may open a session whose timeout is too short for rare heartbeats.
    admits_short: bool,
    /// Whether a leader's question to the quorum is not answered yet.
    is_asked: bool,
    /// When a leader sends the next heartbeat.
    beat_at_ms: u64,
    /// The last entry that was applied at an earlier heartbeat, and the time of the first heartbeat
    /// with it.
    quiet_since: (LogIndex, u64),
}

impl Contact {
    /// A server without contact yet, whose clients get this session timeout at least.
    pub fn new(session_timeout_ms_min: u32) -> Contact {
        let admits_short = session_timeout_ms_min < QUIET_TIMEOUT_MS_MIN;
        Contact { admits_short, ..Contact::default() }
    }

    /// The age of the last contact, in ms; `u64::MAX` before the first.
    pub fn age_ms(&self, now_ms: u64) -> u64 {
        self.at_ms.map_or(u64::MAX, |at_ms| now_ms.saturating_sub(at_ms))
    }

    /// Notes a contact at `at_ms`, if there was one.
    pub fn note(&mut self, at_ms: Option<u64>) {
        self.at_ms = self.at_ms.max(at_ms);
    }

    /// How long until the next heartbeat.
    pub fn beat_in_ms(&self, now_ms: u64) -> u64 {
        self.beat_at_ms.saturating_sub(now_ms)
    }

    /// Plans the heartbeat after the one that is sent now. Heartbeats are rare while nothing is
    /// applied, unless a session has a timeout that is too short for that.
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

    /// Whether a leader's question to the quorum is not answered yet.
    pub fn is_asked(&self) -> bool {
        self.is_asked
    }

    /// The quorum was asked whether it still follows this leader.
    pub fn on_asked(&mut self) {
        self.is_asked = true;
    }

    /// The quorum answered the question asked at `asked_ms`; with `None`, the question failed.
    pub fn on_answer(&mut self, asked_ms: Option<u64>) {
        self.is_asked = false;
        self.note(asked_ms);
    }
}

#[cfg(test)]
pub(super) mod tests;

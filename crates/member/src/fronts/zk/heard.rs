//! Collects the sessions whose clients were heard from since the last report to Loop.

use foldhash::fast::FixedState;
use hashbrown::HashSet;
use machine::{Owner, SessionId};

use crate::limits::HEARD_INTERVAL_MS;

/// Sessions whose clients have sent something, for the next report to Loop.
#[derive(Default)]
pub(super) struct Heard {
    pub sessions: HashSet<SessionId, FixedState>,
    told_ms: u64,
}

impl Heard {
    /// Whether the next report to Loop is due.
    pub fn is_due(&self, now_ms: u64) -> bool {
        now_ms >= self.told_ms + HEARD_INTERVAL_MS
    }

    /// Takes the sessions for a report to Loop at this time, sorted.
    pub fn take(&mut self, now_ms: u64) -> Vec<Owner> {
        self.told_ms = now_ms;
        let mut heard: Vec<SessionId> = self.sessions.drain().collect();
        heard.sort_unstable();
        heard.into_iter().map(Owner::Session).collect()
    }
}

//! The time that Loop has not acted on: [`clock`](super::clock) says how it is counted.

use crate::limits::{CLOCK_INTERVAL_MS, LATE_MS};

/// The time that Loop has not acted on, and its next planned look at the clock.
pub(super) struct Timing {
    pub raft_tick_ms: u64,
    /// How long after the last look the next one was planned.
    pub planned_ms: u64,
    /// Time since [`Loop::on_time`], as it counts against others.
    pub counted_ms: u64,
    /// Time since [`Loop::on_time`], as the clock says.
    pub elapsed_ms: u64,
    /// Time that the replica was not told of; less than a tick after [`Loop::on_time`].
    pub tick_rest_ms: u64,
}

impl Timing {
    pub fn new(raft_tick_ms: u64) -> Timing {
        let planned_ms = CLOCK_INTERVAL_MS;
        Timing { raft_tick_ms, planned_ms, counted_ms: 0, elapsed_ms: 0, tick_rest_ms: 0 }
    }

    pub fn advance(&mut self, elapsed_ms: u64) {
        self.elapsed_ms += elapsed_ms;
        self.counted_ms += elapsed_ms.min(self.planned_ms);
        if elapsed_ms <= self.planned_ms + LATE_MS {
            self.tick_rest_ms += elapsed_ms;
        } else {
            // The planned look may have been an election, which waits for one more look.
            self.tick_rest_ms += self.planned_ms.saturating_sub(self.raft_tick_ms);
        }
    }

    /// Takes the whole ticks of the replica that have passed, at most `max`.
    pub fn take_ticks(&mut self, max: u64) -> u64 {
        let ticks = (self.tick_rest_ms / self.raft_tick_ms).min(max);
        self.tick_rest_ms -= ticks * self.raft_tick_ms;
        ticks
    }
}

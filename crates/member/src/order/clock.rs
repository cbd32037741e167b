//! Loop's clock: it decides when Loop looks at the time next, and how passed time counts.
//!
//! The driver calls [`Loop::advance`](super::Loop::advance) with the time that has passed, hands
//! over the inputs that have arrived, and calls [`Loop::on_time`](super::Loop::on_time);
//! [`Loop::due_ms`](super::Loop::due_ms) says when to do so again at the latest. An idle member
//! sleeps until its next heartbeat or election timeout.
//!
//! A process that was paused looks at the clock later than it had planned. The time of the pause
//! counts for the age of its contact, which makes a member careful. It does not count against
//! others, who may have spoken meanwhile: of a late look only the planned time counts, and an
//! election waits for one more look.

use crate::limits::CLOCK_INTERVAL_MS;
use crate::order::limits::LATE_MS;

/// The time that has passed since the start, and the part of it that Loop has not acted on.
pub(super) struct Clock {
    /// The sum of the time that has passed.
    now_ms: u64,
    raft_tick_ms: u64,
    /// Planned time between the last look at the clock and the next one.
    planned_ms: u64,
    /// Time since [`Clock::take_passed`], as it counts against others.
    counted_ms: u64,
    /// Time since [`Clock::take_passed`], as the driver's clock says.
    elapsed_ms: u64,
    /// Time in which the replica has not ticked; less than a tick after
    /// [`Loop::on_time`](super::Loop::on_time).
    tick_rest_ms: u64,
}

/// Time that has passed and that Loop acts on now.
pub(super) struct Passed {
    /// Time that counts against others, in ms.
    pub counted_ms: u64,
    /// Time by the driver's clock, in ms.
    pub elapsed_ms: u64,
}

impl Clock {
    /// A clock at 0, for a replica that ticks once in `raft_tick_ms`.
    pub fn new(raft_tick_ms: u64) -> Clock {
        Clock {
            now_ms: 0,
            raft_tick_ms,
            planned_ms: CLOCK_INTERVAL_MS,
            counted_ms: 0,
            elapsed_ms: 0,
            tick_rest_ms: 0,
        }
    }

    /// Time since the start, in ms.
    #[inline]
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Planned time between the last look at the clock and the next one, in ms.
    #[inline]
    pub fn planned_ms(&self) -> u64 {
        self.planned_ms
    }

    /// Lets time pass.
    pub fn advance(&mut self, elapsed_ms: u64) {
        self.now_ms += elapsed_ms;
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

    /// Takes the time since the last call.
    pub fn take_passed(&mut self) -> Passed {
        let counted_ms = core::mem::take(&mut self.counted_ms);
        let elapsed_ms = core::mem::take(&mut self.elapsed_ms);
        Passed { counted_ms, elapsed_ms }
    }

    /// How long until the replica has ticked so often, in ms.
    pub fn until_ticks(&self, ticks: u64) -> u64 {
        ticks.saturating_mul(self.raft_tick_ms).saturating_sub(self.tick_rest_ms)
    }

    /// Whole ticks of the replica in this time.
    pub fn ticks_in(&self, ms: u64) -> u64 {
        ms / self.raft_tick_ms
    }

    /// Plans the next look at the clock, at least 1 ms from now. Returns in how many ms it is.
    pub fn plan(&mut self, due_ms: u64) -> u64 {
        self.planned_ms = due_ms.max(1);
        self.planned_ms
    }
}

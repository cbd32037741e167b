//! Keeps Loop's clock: decides when Loop looks at the time next, and how much of the passed time
//! counts.
//!
//! The driver calls [`Loop::advance`](super::Loop::advance) with the time that has passed, hands
//! over the inputs that have arrived, and calls [`Loop::on_time`](super::Loop::on_time).
//! [`Loop::due_ms`](super::Loop::due_ms) gives the longest time until it must do so again. An idle
//! member sleeps until its next heartbeat or election timeout.
//!
//! A process that was paused looks at the clock later than planned. For the age of its own contact
//! the whole pause counts, which makes the member careful. Against other members, which may have
//! sent messages meanwhile, only the planned time counts, and an election waits for one more look.

use crate::limits::CLOCK_INTERVAL_MS;
use crate::order::limits::LATE_MS;

/// The time since the start, and the part of it that Loop has not acted on yet.
pub(super) struct Clock {
    /// Time since the start, in ms.
    now_ms: u64,
    raft_tick_ms: u64,
    /// The planned time from the last look at the clock to the next one, in ms.
    planned_ms: u64,
    /// Time since [`Clock::take_passed`], with the lateness of looks left out.
    counted_ms: u64,
    /// Time since [`Clock::take_passed`], by the driver's clock.
    elapsed_ms: u64,
    /// Time that the replica has not been given as ticks yet; less than a tick after
    /// [`Loop::on_time`](super::Loop::on_time).
    tick_rest_ms: u64,
}

/// A stretch of time that has passed and that Loop acts on now.
pub(super) struct Passed {
    /// The time that counts against others: the lateness of looks is left out, in ms.
    pub counted_ms: u64,
    /// The time by the driver's clock, in ms.
    pub elapsed_ms: u64,
}

impl Clock {
    /// A clock at 0, for a replica whose tick lasts `raft_tick_ms`.
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

    /// The planned time from the last look at the clock to the next one, in ms.
    #[inline]
    pub fn planned_ms(&self) -> u64 {
        self.planned_ms
    }

    /// Adds `elapsed_ms` of passed time. If the look is late, the replica gets no tick of the
    /// delay.
    pub fn advance(&mut self, elapsed_ms: u64) {
        self.now_ms += elapsed_ms;
        self.elapsed_ms += elapsed_ms;
        self.counted_ms += elapsed_ms.min(self.planned_ms);
        if elapsed_ms <= self.planned_ms + LATE_MS {
            self.tick_rest_ms += elapsed_ms;
        } else {
            // The tick that the planned look would have brought may start an election, so it waits
            // for one more look.
            self.tick_rest_ms += self.planned_ms.saturating_sub(self.raft_tick_ms);
        }
    }

    /// Takes the whole ticks that have passed and that the replica has not been given, at most
    /// `max`.
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

    /// In how many ms the replica will have had `ticks` more ticks.
    pub fn until_ticks(&self, ticks: u64) -> u64 {
        ticks.saturating_mul(self.raft_tick_ms).saturating_sub(self.tick_rest_ms)
    }

    /// How many whole ticks of the replica `ms` contains.
    pub fn ticks_in(&self, ms: u64) -> u64 {
        ms / self.raft_tick_ms
    }

    /// Plans the next look at the clock, at least 1 ms from now. Returns in how many ms it is.
    pub fn plan(&mut self, due_ms: u64) -> u64 {
        self.planned_ms = due_ms.max(1);
        self.planned_ms
    }
}

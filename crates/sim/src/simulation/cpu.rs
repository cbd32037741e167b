//! The clocks of a machine, and the times at which the process on it gets the CPU.

use crate::check::WakingTime;
use crate::world::Clock;

/// The rhythm of a stuttering process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stutter {
    /// How long the process gets the CPU in each period, in us.
    pub run_us: u64,
    pub period_us: u64,
}

/// The CPU and the clocks of a machine.
pub(super) struct Cpu {
    clock: Clock,
    /// The times at which a process got the CPU.
    waking: WakingTime,
    paused_until_us: u64,
    /// Whether the monotonic clock stops in the current pause, too.
    is_suspended: bool,
    /// The rhythm of a stuttering process; `None` if it does not stutter.
    stutter: Option<Stutter>,
}

impl Cpu {
    /// A CPU that is always available.
    pub fn new(clock: Clock) -> Cpu {
        Cpu {
            clock,
            waking: WakingTime::default(),
            paused_until_us: 0,
            is_suspended: false,
            stutter: None,
        }
    }

    /// The clocks.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The times at which a process got the CPU.
    pub fn waking(&self) -> &WakingTime {
        &self.waking
    }

    /// When the current pause ends, in us; a time in the past, or 0, if there is none.
    pub fn paused_until_us(&self) -> u64 {
        self.paused_until_us
    }

    /// Whether the process is paused.
    pub fn is_paused(&self, now_us: u64) -> bool {
        self.paused_until_us > now_us
    }

    /// The rhythm of a stuttering process; `None` if it does not stutter.
    pub fn stutter(&self) -> Option<Stutter> {
        self.stutter
    }

    /// Begins or ends the stutter. Returns whether the process stuttered before.
    pub fn set_stutter(&mut self, stutter: Option<Stutter>) -> bool {
        core::mem::replace(&mut self.stutter, stutter).is_some()
    }

    /// Pauses the process for `for_us`.
    pub fn pause(&mut self, now_us: u64, for_us: u64) {
        self.is_suspended = false;
        self.paused_until_us = now_us + for_us;
        self.waking.pause(now_us, now_us + for_us);
    }

    /// Pauses the process for `for_us`, and stops the monotonic clock meanwhile.
    pub fn suspend(&mut self, now_us: u64, for_us: u64) {
        self.pause(now_us, for_us);
        self.waking.stop();
        self.is_suspended = true;
        let lost_us = self.clock.elapsed_us(now_us + for_us) - self.clock.elapsed_us(now_us);
        self.clock.monotonic_offset_us -= lost_us as i64;
    }

    /// Ends the current pause early, if there is one.
    pub fn end_pause(&mut self, now_us: u64) {
        if core::mem::take(&mut self.is_suspended) {
            // A suspension was subtracted from the clock in full; give back the part that is left.
            let end_us = self.paused_until_us.max(now_us);
            let left_us = self.clock.elapsed_us(end_us) - self.clock.elapsed_us(now_us);
            self.clock.monotonic_offset_us += left_us as i64;
        }
        // It stays known: checks of how long calls wait begin at the end of the last pause.
        self.paused_until_us = self.paused_until_us.min(now_us);
        self.waking.cut_short(now_us);
    }

    /// Makes the monotonic clock jump ahead.
    pub fn jump(&mut self, now_us: u64, by_us: u64) {
        self.clock.monotonic_offset_us += by_us as i64;
        self.waking.jump(now_us, by_us);
    }

    /// Moves the wall clock ahead; back if negative.
    pub fn move_wall_clock(&mut self, by_ms: i64) {
        self.clock.wall_offset_ms += by_ms;
    }

    /// Replaces the clocks: another machine takes the place.
    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Another process continues on this machine. Its leases take this for the end of a pause.
    pub fn note_change(&mut self, now_us: u64) {
        self.waking.pause(now_us, now_us);
    }
}

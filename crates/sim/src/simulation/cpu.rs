//! The clocks of a machine, and when the process on it is given the CPU.

use crate::check::WakingTime;
use crate::world::Clock;

/// How a process that stutters is given the CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stutter {
    /// How long it runs in each period.
    pub run_us: u64,
    pub period_us: u64,
}

/// The CPU of a machine.
pub(super) struct Cpu {
    clock: Clock,
    /// When a process was given the CPU.
    waking: WakingTime,
    paused_until_us: u64,
    /// Whether the clock stands still in the last pause, too.
    is_suspended: bool,
    /// The rhythm of a process that runs for a while of each period only; `None` if it does not
    /// stutter.
    stutter: Option<Stutter>,
}

impl Cpu {
    /// A CPU that is given to each process, with these clocks.
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

    /// When a process was given the CPU.
    pub fn waking(&self) -> &WakingTime {
        &self.waking
    }

    /// When the last pause ends.
    pub fn paused_until_us(&self) -> u64 {
        self.paused_until_us
    }

    /// Whether no process is given the CPU now.
    pub fn is_paused(&self, now_us: u64) -> bool {
        self.paused_until_us > now_us
    }

    /// The rhythm of a process that stutters; `None` if it does not.
    pub fn stutter(&self) -> Option<Stutter> {
        self.stutter
    }

    /// Lets processes stutter, or not any more. Returns whether they did before.
    pub fn set_stutter(&mut self, stutter: Option<Stutter>) -> bool {
        core::mem::replace(&mut self.stutter, stutter).is_some()
    }

    /// Gives no process the CPU for so long.
    pub fn pause(&mut self, now_us: u64, for_us: u64) {
        self.is_suspended = false;
        self.paused_until_us = now_us + for_us;
        self.waking.pause(now_us, now_us + for_us);
    }

    /// Gives no process the CPU for so long, and stops the monotonic clock meanwhile.
    pub fn suspend(&mut self, now_us: u64, for_us: u64) {
        self.pause(now_us, for_us);
        self.waking.stop();
        self.is_suspended = true;
        let lost_us = self.clock.elapsed_us(now_us + for_us) - self.clock.elapsed_us(now_us);
        self.clock.monotonic_offset_us -= lost_us as i64;
    }

    /// Ends the pause, if there is one.
    pub fn end_pause(&mut self, now_us: u64) {
        if core::mem::take(&mut self.is_suspended) {
            // The clock has stood still only until now.
            let end_us = self.paused_until_us.max(now_us);
            let left_us = self.clock.elapsed_us(end_us) - self.clock.elapsed_us(now_us);
            self.clock.monotonic_offset_us += left_us as i64;
        }
        self.paused_until_us = 0;
        self.waking.cut_short(now_us);
    }

    /// The monotonic clock jumps ahead.
    pub fn jump(&mut self, now_us: u64, by_us: u64) {
        self.clock.monotonic_offset_us += by_us as i64;
        self.waking.jump(now_us, by_us);
    }

    /// Moves the wall clock ahead.
    pub fn move_wall_clock(&mut self, by_ms: i64) {
        self.clock.wall_offset_ms += by_ms;
    }

    /// Takes the clocks of another machine.
    pub fn set_clock(&mut self, clock: Clock) {
        self.clock = clock;
    }

    /// Another process goes on here. The leases take this for the end of a pause.
    pub fn note_change(&mut self, now_us: u64) {
        self.waking.pause(now_us, now_us);
    }
}

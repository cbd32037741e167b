//! The mischief of a client: it sends nothing or reads nothing for a while, or reconnects at a
//! moment when a race is likely.

/// The mischief of one client.
pub(super) struct Mischief {
    /// Whether the client ever does mischief.
    is_erratic: bool,
    is_calm: bool,
    /// The time before which the client sends nothing, in us.
    mute_until_us: u64,
    /// The time before which the client reads nothing, in us.
    deaf_until_us: u64,
    /// Whether the client reconnects at a moment when a race is likely: about when its session
    /// expires, or when the bytes that it sent before arrive.
    is_racing: bool,
}

impl Mischief {
    /// A client that has done no mischief yet.
    pub fn new(is_erratic: bool) -> Mischief {
        Mischief {
            is_erratic,
            is_calm: false,
            mute_until_us: 0,
            deaf_until_us: 0,
            is_racing: false,
        }
    }

    /// Whether the client may do mischief now.
    pub fn is_possible(&self) -> bool {
        self.is_erratic && !self.is_calm
    }

    /// Whether mischief was ended, since the faults have stopped.
    pub fn is_over(&self) -> bool {
        self.is_calm
    }

    /// Ends the mischief: from now on the client sends and reads without delay.
    pub fn end(&mut self) {
        self.is_calm = true;
        self.mute_until_us = 0;
        self.deaf_until_us = 0;
    }

    /// The time before which the client sends nothing, in us.
    pub fn mute_until_us(&self) -> u64 {
        self.mute_until_us
    }

    /// The time before which the client reads nothing, in us.
    pub fn deaf_until_us(&self) -> u64 {
        self.deaf_until_us
    }

    /// Makes the client send nothing before `until_us`.
    pub fn mute(&mut self, until_us: u64) {
        self.mute_until_us = until_us;
    }

    /// Makes the client send again.
    pub fn unmute(&mut self) {
        self.mute_until_us = 0;
    }

    /// Makes the client read nothing before `until_us`.
    pub fn deafen(&mut self, until_us: u64) {
        self.deaf_until_us = until_us;
    }

    /// Notes that the client's next connection is to provoke a race.
    pub fn race(&mut self) {
        self.is_racing = true;
    }

    /// Whether the client reconnects now to provoke a race. Resets the flag.
    pub fn take_race(&mut self) -> bool {
        core::mem::take(&mut self.is_racing)
    }
}

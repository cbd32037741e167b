//! What a client does that well-behaved clients do not: it sends nothing or reads nothing for a
//! while, and comes back at moments when a race is likely.

/// The mischief of a client.
pub(super) struct Mischief {
    /// Whether it does any. It ends when the faults stop.
    is_erratic: bool,
    is_calm: bool,
    /// The time before which it sends nothing.
    mute_until_us: u64,
    /// The time before which it reads nothing.
    deaf_until_us: u64,
    /// Whether it comes back at a time when a race is likely: about when its session expires, or
    /// about when the bytes that it sent before arrive.
    is_racing: bool,
}

impl Mischief {
    /// The mischief of a client that has done none yet.
    pub fn new(is_erratic: bool) -> Mischief {
        Mischief {
            is_erratic,
            is_calm: false,
            mute_until_us: 0,
            deaf_until_us: 0,
            is_racing: false,
        }
    }

    /// Whether it may begin some.
    pub fn is_possible(&self) -> bool {
        self.is_erratic && !self.is_calm
    }

    /// Whether it was told to end.
    pub fn is_over(&self) -> bool {
        self.is_calm
    }

    /// Ends: from now on the client sends and reads at once.
    pub fn end(&mut self) {
        self.is_calm = true;
        self.mute_until_us = 0;
        self.deaf_until_us = 0;
    }

    /// The time before which the client sends nothing.
    pub fn mute_until_us(&self) -> u64 {
        self.mute_until_us
    }

    /// The time before which the client reads nothing.
    pub fn deaf_until_us(&self) -> u64 {
        self.deaf_until_us
    }

    /// Has the client send nothing until then.
    pub fn mute(&mut self, until_us: u64) {
        self.mute_until_us = until_us;
    }

    /// Has the client send again.
    pub fn unmute(&mut self) {
        self.mute_until_us = 0;
    }

    /// Has the client read nothing until then.
    pub fn deafen(&mut self, until_us: u64) {
        self.deaf_until_us = until_us;
    }

    /// Notes that the client comes back when a race is likely.
    pub fn race(&mut self) {
        self.is_racing = true;
    }

    /// Whether the client comes back when a race is likely. It does so once.
    pub fn take_race(&mut self) -> bool {
        core::mem::take(&mut self.is_racing)
    }
}

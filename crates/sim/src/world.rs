//! Virtual time, chance and the queue of what happens next.
//!
//! Events are ordered by time and, at the same time, by when they were scheduled. Everything drawn
//! comes from one seed, and every event goes into the trace: same seed, same trace.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use workload::generate::Random;

/// Who of a server is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Actor {
    /// The order.
    Loop,
    /// The state.
    Apply,
    /// The log.
    Disk,
    /// Snapshot files.
    Snapshot,
    /// Log segments made ahead.
    Spare,
    /// A connection runtime.
    Front(u32),
}

/// Something that happens at a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A part of the server's process runs. Stale if the token is not its newest.
    Run {
        /// Of which life of the process.
        life: u64,
        /// Which part.
        actor: Actor,
        /// Of the wake-up.
        token: u64,
    },
    /// A part of the server's process is done with what takes time.
    Done {
        /// Of which life of the process.
        life: u64,
        /// Which part.
        actor: Actor,
    },
    /// Bytes, or the end, arrive on a connection.
    Arrive {
        /// Which connection.
        connection: usize,
        /// At the server, or at the client.
        at_server: bool,
    },
    /// A client looks at its clock. Stale if the token is not its newest.
    Client {
        /// Which.
        client: usize,
        /// Of the wake-up.
        token: u64,
    },
    /// The process of a member is started.
    Start {
        /// Which member.
        member: usize,
    },
    /// A process whose directory is not born yet looks at what it was told.
    Decide {
        /// Which life of which process.
        life: u64,
    },
    /// A process that was told to stop looks whether another member leads.
    Leave {
        /// Which life of which process.
        life: u64,
        /// When it stops at the latest.
        until_us: u64,
    },
    /// Something arrives on a link between members.
    Frame {
        /// Which link.
        link: usize,
        /// Which of the times that it was up.
        epoch: u64,
        /// On its channel for pieces of snapshots.
        is_bulk: bool,
    },
    /// A link is dialled.
    Dial {
        /// Which link.
        link: usize,
    },
    /// The one that dialled a link learns that it is over.
    LinkOver {
        /// Which link.
        link: usize,
        /// Which of the times that it was up.
        epoch: u64,
    },
    /// Someone loses patience with a link, if it carries nothing.
    LinkPatience {
        /// Which link.
        link: usize,
        /// Which of the times that it was up.
        epoch: u64,
    },
    /// The next fault is due.
    Fault,
    /// A fault that lasted is over.
    Relief(u32),
    /// A machine that stutters stands still again.
    Stutter {
        /// Which member's.
        member: usize,
    },
    /// Somebody asks for a higher level, as planned, or by chance.
    Ask {
        /// The number of the plan.
        planned: Option<usize>,
    },
    /// A fault beside a question for a higher level.
    Strike {
        /// Whether the leader is raising the level.
        is_raising: bool,
    },
}

/// Adds to a trace what is hashed: text for people takes longer to make than most events take.
struct Noting<'a>(&'a mut World);

impl Hasher for Noting<'_> {
    fn finish(&self) -> u64 {
        self.0.trace
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.note_bytes(bytes);
    }
}

/// Time, chance, and what happens next.
pub struct World {
    /// Virtual microseconds since the run began.
    pub now_us: u64,
    /// For everything that is left to chance.
    pub random: Random,
    queue: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    trace: u64,
    event_count: u64,
}

/// Ms since 1970 when a run begins.
const EPOCH_MS: i64 = 1_700_000_000_000;

/// The clocks of one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// How much faster than the world's it goes, in millionths.
    pub fast_ppm: i64,
    /// How far the wall clock is off, in ms, beside that: it may jump.
    pub wall_offset_ms: i64,
    /// How far the monotonic clock is ahead (or, while the machine was suspended, has stayed
    /// behind), in us. It never makes the clock go back while a process looks at it.
    pub monotonic_offset_us: i64,
}

impl Clock {
    /// What it shows when the world's shows `at_us`: monotonic.
    pub fn local_us(&self, at_us: u64) -> u64 {
        self.elapsed_us(at_us).saturating_add_signed(self.monotonic_offset_us)
    }

    /// What the oscillator has counted when the world's clock shows `at_us`.
    pub fn elapsed_us(&self, at_us: u64) -> u64 {
        at_us.saturating_add_signed(at_us as i64 * self.fast_ppm / 1_000_000)
    }

    /// How long it takes in the world until this clock has gone on by so much.
    pub fn world_us(&self, local_us: u64) -> u64 {
        local_us.saturating_add_signed(-(local_us as i64 * self.fast_ppm / 1_000_000))
    }

    /// What its machine believes to be the time of day.
    pub fn wall_ms(&self, at_us: u64) -> i64 {
        EPOCH_MS + (self.elapsed_us(at_us) / 1000) as i64 + self.wall_offset_ms
    }
}

impl World {
    /// Time 0.
    pub fn new(random: Random) -> World {
        World {
            now_us: 0,
            random,
            queue: BTreeMap::new(),
            sequence: 0,
            trace: 0xcbf2_9ce4_8422_2325,
            event_count: 0,
        }
    }

    /// A number that no other wake-up has.
    pub fn token(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Lets something happen at a point in time, now at the earliest.
    pub fn schedule(&mut self, at_us: u64, event: Event) {
        self.sequence += 1;
        self.queue.insert((at_us.max(self.now_us), self.sequence), event);
    }

    /// The next event; the clock is set to it.
    pub fn next_event(&mut self) -> Option<Event> {
        let ((at_us, _), event) = self.queue.pop_first()?;
        assert!(at_us >= self.now_us);
        self.now_us = at_us;
        self.event_count += 1;
        self.note(at_us);
        event.hash(&mut Noting(self));
        Some(event)
    }

    /// When the next event is.
    #[cfg(test)]
    pub fn next_us(&self) -> Option<u64> {
        self.queue.first_key_value().map(|((at_us, _), _)| *at_us)
    }

    /// Events so far.
    pub fn event_count(&self) -> u64 {
        self.event_count
    }

    /// How long a message between two threads takes: mostly a wake-up, sometimes a thread that is
    /// not given the CPU.
    pub fn hop_us(&mut self) -> u64 {
        match self.random.below(60) {
            0 => self.random.magnitude(50, 5_000),
            1..=10 => self.random.below(3),
            _ => self.random.between(1, 60),
        }
    }

    /// Adds to the trace.
    pub fn note(&mut self, word: u64) {
        self.trace = (self.trace ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17);
    }

    /// Adds to the trace.
    pub fn note_text(&mut self, what: &impl core::fmt::Debug) {
        for byte in format!("{what:?}").bytes() {
            self.note(u64::from(byte));
        }
    }

    /// Adds to the trace.
    pub fn note_bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let word = chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
            self.note(word);
        }
    }

    /// A number that two runs have in common only if the same things happened in the same order.
    pub fn trace(&self) -> u64 {
        self.trace
    }
}

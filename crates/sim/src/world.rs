//! Virtual time, chance and the queue of what happens next.
//!
//! Events are ordered by time and, at the same time, by when they were scheduled. Everything drawn
//! comes from one seed, and every event goes into the trace: same seed, same trace.

use std::collections::BTreeMap;

use workload::generate::Random;

/// Who of a server is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// The process is started.
    Start,
    /// The next fault is due.
    Fault,
    /// A fault that lasted is over.
    Relief(u32),
}

/// Time, chance, and what happens next.
pub struct World {
    /// Virtual microseconds since the run began.
    pub now_us: u64,
    /// For everything that is left to chance.
    pub random: Random,
    /// How far the wall clock is off, in ms: it may jump.
    pub wall_offset_ms: i64,
    queue: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    trace: u64,
    event_count: u64,
}

/// Ms since 1970 when a run begins.
const EPOCH_MS: i64 = 1_700_000_000_000;

impl World {
    /// Time 0.
    pub fn new(random: Random) -> World {
        World {
            now_us: 0,
            random,
            wall_offset_ms: 0,
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
        self.note_text(&event);
        Some(event)
    }

    /// Events so far.
    pub fn event_count(&self) -> u64 {
        self.event_count
    }

    /// What the server believes to be the time of day.
    pub fn wall_ms(&self) -> i64 {
        EPOCH_MS + (self.now_us / 1000) as i64 + self.wall_offset_ms
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

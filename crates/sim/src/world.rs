//! Virtual time, chance and the queue of what happens next.
//!
//! Events are ordered by time and, at the same time, by when they were scheduled. Everything drawn
//! comes from one seed, and every event goes into the trace: same seed, same trace.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use workload::generate::Random;

/// A thread of a server's process. The simulation wakes each of them on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Actor {
    /// Loop, which decides the order of commands.
    Loop,
    /// Apply, which changes the state.
    Apply,
    /// The thread of the log's disk.
    Disk,
    /// The thread of the snapshot files.
    Snapshot,
    /// The thread that makes log segments ahead of need.
    Spare,
    /// The connection runtime with this number.
    Front(u32),
}

/// Something that happens at a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A thread of a server's process runs. The event is stale if the token is not that of the
    /// thread's newest wake-up.
    Run {
        /// The life of the process.
        life: u64,
        /// The thread.
        actor: Actor,
        /// The token of the wake-up.
        token: u64,
    },
    /// A thread of a server's process has finished work that takes time.
    Done {
        /// The life of the process.
        life: u64,
        /// The thread.
        actor: Actor,
    },
    /// A connection delivers bytes, or its end.
    Arrive {
        /// The number of the connection.
        connection: usize,
        /// Whether they arrive at the server; else they arrive at the client.
        at_server: bool,
    },
    /// A client looks at its clock. The event is stale if the token is not that of the client's
    /// newest wake-up.
    Client {
        /// The number of the client.
        client: usize,
        /// The token of the wake-up.
        token: u64,
    },
    /// The process of a member is started.
    Start {
        /// The number of the member.
        member: usize,
    },
    /// A process whose directory is not born yet looks at what its links have told it.
    Decide {
        /// The life of the process. No two processes have a life in common.
        life: u64,
    },
    /// A process that was told to stop looks whether another member leads.
    Leave {
        /// The life of the process. No two processes have a life in common.
        life: u64,
        /// The latest time at which the process stops.
        until_us: u64,
    },
    /// A frame, or the end of the link, arrives on a link between members.
    Frame {
        /// The number of the link.
        link: usize,
        /// The epoch of the link, which counts the times that the link came up.
        epoch: u64,
        /// Whether it arrives on the channel for pieces of snapshots.
        is_bulk: bool,
    },
    /// A member dials a link.
    Dial {
        /// The number of the link.
        link: usize,
    },
    /// The member that dialled a link learns that the link has ended.
    LinkOver {
        /// The number of the link.
        link: usize,
        /// The epoch of the link, which counts the times that the link came up.
        epoch: u64,
    },
    /// An end of a link gives the link up, if the link still carries nothing.
    LinkPatience {
        /// The number of the link.
        link: usize,
        /// The epoch of the link, which counts the times that the link came up.
        epoch: u64,
    },
    /// The next fault is due.
    Fault,
    /// A fault that lasted is over.
    Relief(u32),
    /// A machine that stutters stands still again, after it has run for a while.
    Stutter {
        /// The number of the member that the machine belongs to.
        member: usize,
    },
    /// Somebody asks for a higher level, as planned, or by chance.
    Ask {
        /// The position of the question among the planned ones; `None` if it comes by chance.
        planned: Option<usize>,
    },
    /// A fault strikes close to a question for a higher level.
    Strike {
        /// Whether the leader is raising the level.
        is_raising: bool,
    },
    /// A connection of an etcd client delivers a message, or its end.
    EtcdArrive {
        /// The number of the connection.
        connection: usize,
        /// The number of the message.
        parcel: u64,
    },
    /// A client of etcd looks at its clock. The event is stale if the token is not that of the
    /// client's newest wake-up.
    EtcdClient {
        /// The number of the client.
        client: usize,
        /// The token of the wake-up.
        token: u64,
    },
}

/// A hasher that adds its input to the trace. Formatting events as text for that would take longer
/// than most events do.
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
    /// The generator for everything that is left to chance.
    pub random: Random,
    queue: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    trace: u64,
    event_count: u64,
}

/// The wall clock at the start of a run, in ms since 1970.
const EPOCH_MS: i64 = 1_700_000_000_000;

/// The clocks of one machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// How much faster than the world's clock it goes, in millionths.
    pub fast_ppm: i64,
    /// How far the wall clock is off beside that, in ms. It changes when the wall clock jumps.
    pub wall_offset_ms: i64,
    /// How far the monotonic clock is ahead (or, while the machine was suspended, has stayed
    /// behind), in us. It never makes the clock go back while a process looks at it.
    pub monotonic_offset_us: i64,
}

impl Clock {
    /// The monotonic clock of the machine, in us, when the world's clock shows `at_us`.
    pub fn local_us(&self, at_us: u64) -> u64 {
        self.elapsed_us(at_us).saturating_add_signed(self.monotonic_offset_us)
    }

    /// How many us the oscillator of the machine has counted when the world's clock shows `at_us`.
    pub fn elapsed_us(&self, at_us: u64) -> u64 {
        at_us.saturating_add_signed(at_us as i64 * self.fast_ppm / 1_000_000)
    }

    /// How many us go by on the world's clock while this clock goes on by `local_us`.
    pub fn world_us(&self, local_us: u64) -> u64 {
        local_us.saturating_add_signed(-(local_us as i64 * self.fast_ppm / 1_000_000))
    }

    /// The wall clock of the machine, in ms since 1970, when the world's clock shows `at_us`.
    pub fn wall_ms(&self, at_us: u64) -> i64 {
        EPOCH_MS + (self.elapsed_us(at_us) / 1000) as i64 + self.wall_offset_ms
    }
}

impl World {
    /// A world at time 0, in which nothing is scheduled.
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

    /// Takes out what happens at that time in a process.
    pub fn take_due_at(&mut self, at_us: u64, process: u64) -> Vec<Event> {
        let due = self.queue.range((at_us, 0)..(at_us + 1, 0));
        let is_its = |event: &Event| match event {
            Event::Run { life, .. } | Event::Done { life, .. } => *life == process,
            _ => false,
        };
        let keys: Vec<_> = due.filter(|(_, event)| is_its(event)).map(|(key, _)| *key).collect();
        keys.iter().filter_map(|key| self.queue.remove(key)).collect()
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

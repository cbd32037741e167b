//! The simulated world's core: the virtual clock, the random generator and the queue of future
//! events.
//!
//! Events run in order of their time; events at one time run in the order in which they were
//! scheduled. All random numbers come from one seed, and a hash, the trace, covers every event: the
//! same seed gives the same trace.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use workload::generate::Random;

/// A thread of a server's process. Each thread has wake-up events of its own.
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
    /// The thread that creates log segments before they are needed.
    Spare,
    /// The connection runtime with this number.
    Front(u32),
}

/// An event of the simulation, at a point in virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Event {
    /// A thread of a server's process wakes up. Ignored if `token` is not the token of the thread's
    /// newest wake-up.
    Run {
        /// Unique number of the process run.
        life: u64,
        /// The thread.
        actor: Actor,
        /// The token of the wake-up.
        token: u64,
    },
    /// A thread of a server's process finishes a piece of work that took virtual time, such as a
    /// sync.
    Done {
        /// Unique number of the process run.
        life: u64,
        /// The thread.
        actor: Actor,
    },
    /// Bytes, or the end of the stream, arrive on a ZooKeeper connection.
    Arrive {
        /// The number of the connection.
        connection: usize,
        /// Whether they arrive at the server's end; otherwise at the client's end.
        at_server: bool,
    },
    /// The timer of a ZooKeeper client fires. Ignored if `token` is not the token of the client's
    /// newest wake-up.
    Client {
        /// The number of the client.
        client: usize,
        /// The token of the wake-up.
        token: u64,
    },
    /// The process of a member starts.
    Start {
        /// The number of the member.
        member: usize,
    },
    /// A process with an unborn directory decides whether the ensemble can be born, from what its
    /// links have reported.
    Decide {
        /// Unique number of the process run.
        life: u64,
    },
    /// A process that was asked to stop checks whether another member leads already.
    Leave {
        /// Unique number of the process run.
        life: u64,
        /// When the process stops even if no other member leads.
        until_us: u64,
    },
    /// A frame, or the end of the link, arrives at the receiving end of a link between members.
    Frame {
        /// The number of the link.
        link: usize,
        /// How many times the link has come up. Ignored if the link has come up again since.
        epoch: u64,
        /// Whether the event belongs to the channel for pieces of snapshots.
        is_bulk: bool,
    },
    /// A member tries to connect a link that is down.
    Dial {
        /// The number of the link.
        link: usize,
    },
    /// The member that dialled a link learns that the link has ended.
    LinkOver {
        /// The number of the link.
        link: usize,
        /// How many times the link has come up. Ignored if the link has come up again since.
        epoch: u64,
    },
    /// One end of a link breaks the link off, if the link is still blocked.
    LinkPatience {
        /// The number of the link.
        link: usize,
        /// How many times the link has come up. Ignored if the link has come up again since.
        epoch: u64,
    },
    /// The next fault of the mix begins.
    Fault,
    /// The fault with this number ends.
    Relief(u32),
    /// A stuttering process loses the CPU again, after its share of the period.
    Stutter {
        /// The number of the member on that machine.
        member: usize,
    },
    /// A planned or a random act on levels or builds: mostly a request for a higher level
    /// ([`crate::build::Ask`]).
    Ask {
        /// Position in the list of planned acts (`Builds::asks`); `None` for an act drawn at
        /// random.
        planned: Option<usize>,
    },
    /// A fault begins shortly after a request for a higher level.
    Strike {
        /// Whether the leader has begun to raise the level.
        is_raising: bool,
    },
    /// A message, or the end of the connection, arrives on a connection of an etcd client.
    EtcdArrive {
        /// The number of the connection.
        connection: usize,
        /// The number of the message on its way.
        parcel: u64,
    },
    /// The timer of an etcd client fires. Ignored if `token` is not the token of the client's
    /// newest wake-up.
    EtcdClient {
        /// The number of the client.
        client: usize,
        /// The token of the wake-up.
        token: u64,
    },
    /// The machine of an added server is started for the first time.
    Begin {
        /// The number of the member.
        member: usize,
    },
    /// A process that may only join an ensemble ends if it has not joined one.
    JoinLimit {
        /// Unique number of the process run.
        life: u64,
    },
    /// A member that was removed ends.
    EndRemoved {
        /// Unique number of the process run.
        life: u64,
    },
    /// An operator takes the machine of a removed server away.
    TakeAway {
        /// The number of the member.
        member: usize,
    },
    /// The links between a member and a server that has left its list end.
    Depart {
        /// The number of the member.
        member: usize,
        /// The number of the server.
        number: u64,
    },
    /// Operators ask for a change of the list of servers, as ZooKeeper's clients do.
    Reconfig,
}

/// A hasher that adds its input to the trace. Formatting each event as text instead would take
/// longer than handling most events.
struct Noting<'a>(&'a mut World);

impl Hasher for Noting<'_> {
    fn finish(&self) -> u64 {
        self.0.trace
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0.note_bytes(bytes);
    }
}

/// The virtual clock, the random generator and the queue of events.
pub struct World {
    /// Virtual microseconds since the run began.
    pub now_us: u64,
    /// The generator of all random choices that belong to no part of its own.
    pub random: Random,
    queue: BTreeMap<(u64, u64), Event>,
    sequence: u64,
    trace: u64,
    event_count: u64,
}

/// The wall clock at the start of a run, in ms since 1970.
const EPOCH_MS: i64 = 1_700_000_000_000;

/// The two clocks of one machine, wall and monotonic, as offsets from the world's clock. One
/// oscillator drives both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// How much faster than the world's clock the oscillator runs, in millionths; negative if
    /// slower.
    pub fast_ppm: i64,
    /// Error of the wall clock beside the oscillator's, in ms. Changes when the wall clock is set.
    pub wall_offset_ms: i64,
    /// Offset of the monotonic clock from the oscillator's count, in us: positive after a jump
    /// ahead, negative after a suspension. A running process never sees the clock go back.
    pub monotonic_offset_us: i64,
}

impl Clock {
    /// The monotonic clock of the machine, in us, when the world's clock shows `at_us`.
    pub fn local_us(&self, at_us: u64) -> u64 {
        self.elapsed_us(at_us).saturating_add_signed(self.monotonic_offset_us)
    }

    /// The count of the machine's oscillator, in us, when the world's clock shows `at_us`.
    pub fn elapsed_us(&self, at_us: u64) -> u64 {
        at_us.saturating_add_signed(at_us as i64 * self.fast_ppm / 1_000_000)
    }

    /// How many us pass on the world's clock while this clock advances by `local_us`.
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

    /// A number that no other call returns: the token of a new wake-up.
    pub fn token(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Schedules an event at a time; now if that time has passed.
    pub fn schedule(&mut self, at_us: u64, event: Event) {
        self.sequence += 1;
        self.queue.insert((at_us.max(self.now_us), self.sequence), event);
    }

    /// Removes and returns the `Run` and `Done` events of one process at exactly `at_us`, in order.
    /// `process` is the number of the process run (`life`).
    pub fn take_due_at(&mut self, at_us: u64, process: u64) -> Vec<Event> {
        let due = self.queue.range((at_us, 0)..(at_us + 1, 0));
        let is_its = |event: &Event| match event {
            Event::Run { life, .. } | Event::Done { life, .. } => *life == process,
            _ => false,
        };
        let keys: Vec<_> = due.filter(|(_, event)| is_its(event)).map(|(key, _)| *key).collect();
        keys.iter().filter_map(|key| self.queue.remove(key)).collect()
    }

    /// Removes the next event and advances the clock to its time.
    pub fn next_event(&mut self) -> Option<Event> {
        let ((at_us, _), event) = self.queue.pop_first()?;
        assert!(at_us >= self.now_us);
        self.now_us = at_us;
        self.event_count += 1;
        self.note(at_us);
        event.hash(&mut Noting(self));
        Some(event)
    }

    /// The time of the next event; `None` if no event is scheduled.
    #[cfg(test)]
    pub fn next_us(&self) -> Option<u64> {
        self.queue.first_key_value().map(|((at_us, _), _)| *at_us)
    }

    /// How many events have happened.
    pub fn event_count(&self) -> u64 {
        self.event_count
    }

    /// Draws how long a message takes from one thread to another, in us: mostly a short wake-up,
    /// sometimes up to 5 ms for a thread that does not get the CPU.
    pub fn hop_us(&mut self) -> u64 {
        match self.random.below(60) {
            0 => self.random.magnitude(50, 5_000),
            1..=10 => self.random.below(3),
            _ => self.random.between(1, 60),
        }
    }

    /// Adds a word to the trace.
    pub fn note(&mut self, word: u64) {
        self.trace = (self.trace ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(17);
    }

    /// Adds the debug text of a value to the trace.
    pub fn note_text(&mut self, what: &impl core::fmt::Debug) {
        for byte in format!("{what:?}").bytes() {
            self.note(u64::from(byte));
        }
    }

    /// Adds bytes to the trace.
    pub fn note_bytes(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let word = chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
            self.note(word);
        }
    }

    /// A hash of all events so far: two runs share it only if the same things happened in the same
    /// order.
    pub fn trace(&self) -> u64 {
        self.trace
    }
}

//! The tail: the events above the compacted revision, in order, and older events that are not
//! pruned yet.
//!
//! Events are in chunks of [`ETCD_CHUNK_EVENTS`]. A compaction has two parts. First it *passes* all
//! events up to its revision at once: it moves their bytes and digest from the sum of the tail to
//! the sum of the base, and drops what no read can see any more from both sums. Pruning passed
//! events from memory follows later, in bounded steps, and is not state. Each chunk keeps sums over
//! those of its events that were not passed. So passing many events adds up the sums of whole
//! chunks, and looks at single events in only one chunk.

use std::collections::VecDeque;

use crate::digest::Digest;
use crate::etcd::event::{Event, Place};
use crate::limits::ETCD_CHUNK_EVENTS;

/// Size, number and digest of a set of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    /// Sum of the bytes of the events.
    pub bytes: u64,
    /// The number of the events.
    pub count: u64,
    /// Sum of the events' contributions to the digest.
    pub digest: Digest,
}

impl Sum {
    /// The sum of a single event.
    pub fn of(event: &Event) -> Sum {
        Sum { bytes: event.bytes().len() as u64, count: 1, digest: event.digest() }
    }

    pub fn add(&mut self, other: Sum) {
        self.bytes = self.bytes.wrapping_add(other.bytes);
        self.count = self.count.wrapping_add(other.count);
        self.digest.add(other.digest);
    }

    /// A difference may wrap below 0 while several sums are combined; the total is right again.
    pub fn subtract(&mut self, other: Sum) {
        self.bytes = self.bytes.wrapping_sub(other.bytes);
        self.count = self.count.wrapping_sub(other.count);
        self.digest.subtract(other.digest);
    }
}

/// How passing some events changes the store's sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// The sum of the events, which leaves the sum of the tail.
    pub events: Sum,
    /// The change of the base's sum: the versions that join the base, less the versions that they
    /// replace there.
    pub base: Sum,
}

impl Passed {
    /// The change for one event; `before` is the key's version before it.
    pub fn of(event: &Event, before: Option<&Event>) -> Passed {
        Passed::from_sums(Sum::of(event), event.is_delete(), before.map(Sum::of))
    }

    /// As [`Passed::of`], from the sums of the event and of the version before it.
    pub fn from_sums(events: Sum, is_delete: bool, before: Option<Sum>) -> Passed {
        let mut base = if is_delete { Sum::default() } else { events };
        if let Some(before) = before {
            base.subtract(before);
        }
        Passed { events, base }
    }

    fn add(&mut self, other: Passed) {
        self.events.add(other.events);
        self.base.add(other.base);
    }

    fn subtract(&mut self, other: Passed) {
        self.events.subtract(other.events);
        self.base.subtract(other.base);
    }
}

/// The events in order, with the sums that a compaction needs.
#[derive(Default)]
pub(crate) struct Tail {
    chunks: VecDeque<Chunk>,
    /// How many chunks at the front are passed whole.
    passed_chunks: usize,
}

#[derive(Default)]
struct Chunk {
    events: Vec<Event>,
    /// How many events at the front are passed.
    passed_count: usize,
    /// How many events at the front are pruned.
    pruned_count: usize,
    /// The change if a compaction passes all events of the chunk that are not passed yet.
    left: Passed,
}

impl Tail {
    /// Adds the newest event; `before` is the key's version before it. Returns the event's sum.
    pub fn push(&mut self, event: Event, before: Option<&Event>) -> Sum {
        if self.chunks.back().is_none_or(|chunk| chunk.events.len() == ETCD_CHUNK_EVENTS) {
            self.chunks.push_back(Chunk::default());
        }
        let chunk = self.chunks.back_mut().expect("a chunk was just pushed");
        let passed = Passed::of(&event, before);
        chunk.left.add(passed);
        chunk.events.push(event);
        passed.events
    }

    /// Passes the events up to this revision, and returns the change of the sums. `before` finds
    /// the key's version before an event.
    pub fn pass<'a>(
        &mut self,
        revision: i64,
        before: impl Fn(&Event) -> Option<&'a Event>,
    ) -> Passed {
        let mut passed = Passed::default();
        while let Some(chunk) = self.chunks.get_mut(self.passed_chunks) {
            let is_whole = chunk.events.last().is_some_and(|last| last.revision() <= revision);
            if is_whole {
                passed.add(core::mem::take(&mut chunk.left));
                chunk.passed_count = chunk.events.len();
                if chunk.events.len() < ETCD_CHUNK_EVENTS {
                    // Further events may be added to this chunk.
                    return passed;
                }
                self.passed_chunks += 1;
                continue;
            }
            while let Some(event) = chunk.events.get(chunk.passed_count)
                && event.revision() <= revision
            {
                let step = Passed::of(event, before(event));
                chunk.left.subtract(step);
                passed.add(step);
                chunk.passed_count += 1;
            }
            return passed;
        }
        passed
    }

    /// Whether some passed event is not pruned yet.
    pub fn has_garbage(&self) -> bool {
        self.chunks.front().is_some_and(|chunk| chunk.pruned_count < chunk.passed_count)
    }

    /// Returns the oldest passed event that is not pruned, and counts it as pruned: the caller
    /// prunes it.
    pub fn take_passed(&mut self) -> Option<Event> {
        let chunk = self.chunks.front_mut()?;
        if chunk.pruned_count == chunk.passed_count {
            return None;
        }
        let event = chunk.events[chunk.pruned_count].clone();
        chunk.pruned_count += 1;
        if chunk.pruned_count == ETCD_CHUNK_EVENTS {
            self.chunks.pop_front();
            self.passed_chunks -= 1;
        }
        Some(event)
    }

    /// The index of the first chunk that has events after this place.
    fn chunk_behind(&self, place: Place) -> usize {
        self.chunks
            .partition_point(|chunk| chunk.events.last().is_some_and(|last| last.place() <= place))
    }

    /// The number of events after this place.
    pub fn count_behind(&self, place: Place) -> u64 {
        let start = self.chunk_behind(place);
        let Some(first) = self.chunks.get(start) else { return 0 };
        let skipped = first.events.partition_point(|event| event.place() <= place);
        self.count() - (start * ETCD_CHUNK_EVENTS + skipped) as u64
    }

    /// The events after this place, in order.
    pub fn behind(&self, place: Place) -> impl Iterator<Item = &Event> {
        self.chunks
            .range(self.chunk_behind(place)..)
            .flat_map(|chunk| &chunk.events)
            .skip_while(move |event| event.place() <= place)
    }

    /// The place of the event at index `at`, counting from the oldest event in memory.
    pub fn place(&self, at: u64) -> Option<Place> {
        let chunk = self.chunks.get(usize::try_from(at).ok()? / ETCD_CHUNK_EVENTS)?;
        chunk.events.get(at as usize % ETCD_CHUNK_EVENTS).map(Event::place)
    }

    /// The number of events in memory, passed ones included.
    pub fn count(&self) -> u64 {
        match self.chunks.back() {
            Some(last) => ((self.chunks.len() - 1) * ETCD_CHUNK_EVENTS + last.events.len()) as u64,
            None => 0,
        }
    }
}

/// Builds a tail from events that come in any order.
#[derive(Default)]
pub(crate) struct TailRestore {
    /// The place of the first event of each chunk, ascending.
    starts: Vec<Place>,
    chunks: Vec<RestoredChunk>,
}

#[derive(Default)]
struct RestoredChunk {
    /// Each event, with its revision relative to the chunk's start, and its position in the
    /// transaction.
    events: Vec<(u32, u32, Event)>,
    left: Passed,
}

impl TailRestore {
    /// Adds the next chunk, whose first event has this place. False if that place is not after the
    /// starts of the chunks before.
    #[must_use]
    pub fn begin_chunk(&mut self, start: Place) -> bool {
        let is_behind = self.starts.last().is_none_or(|last| *last < start);
        self.starts.push(start);
        self.chunks.push(RestoredChunk::default());
        is_behind
    }

    /// Adds an event to its chunk, with its change of the sums. False if it belongs to no chunk.
    #[must_use]
    pub fn push(&mut self, place: Place, event: Event, passed: Passed) -> bool {
        let behind = self.starts.partition_point(|start| *start <= place);
        let Some(at) = behind.checked_sub(1) else { return false };
        // A chunk spans at most as many revisions as it has events.
        let Ok(above) = u32::try_from(place.revision - self.starts[at].revision) else {
            return false;
        };
        let chunk = &mut self.chunks[at];
        if chunk.events.is_empty() {
            chunk.events.reserve_exact(ETCD_CHUNK_EVENTS);
        }
        chunk.events.push((above, place.sub, event));
        chunk.left.add(passed);
        true
    }

    /// The tail. `None` if a chunk lacks events that it must have.
    pub fn finish(self) -> Option<Tail> {
        let count = self.chunks.len();
        let mut tail = Tail::default();
        for (at, (start, mut found)) in self.starts.into_iter().zip(self.chunks).enumerate() {
            let is_full = found.events.len() == ETCD_CHUNK_EVENTS;
            let is_last = at + 1 == count && found.events.len() < ETCD_CHUNK_EVENTS;
            let place = |(above, sub, _): &(u32, u32, Event)| (*above, *sub);
            found.events.sort_unstable_by_key(place);
            let is_sorted = found.events.is_sorted_by(|one, other| place(one) < place(other));
            let begins = found.events.first().is_some_and(|it| place(it) == (0, start.sub));
            if !(is_full || is_last) || !is_sorted || !begins {
                return None;
            }
            let events = found.events.into_iter().map(|(_, _, event)| event).collect();
            tail.chunks.push_back(Chunk { events, left: found.left, ..Chunk::default() });
        }
        Some(tail)
    }
}

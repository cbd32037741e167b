//! The tail: the events above the compacted revision, in their order, and those of the compacted
//! part that are not pruned yet.
//!
//! Events stand in chunks of [`ETCD_CHUNK_EVENTS`]. Each chunk keeps sums over the events that no
//! compaction has passed, so that a compaction over many events adds up chunks and walks through
//! one. Two steps follow a compaction: it *passes* the events at once, which decides sizes and the
//! digest; pruning them from memory comes later, in bounded steps, and is not state.

use std::collections::VecDeque;

use crate::digest::Digest;
use crate::etcd::event::{Event, Place};
use crate::limits::ETCD_CHUNK_EVENTS;

/// Bytes and digest of a set of events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sum {
    /// The bytes of the events.
    pub bytes: u64,
    /// The sum of their terms.
    pub digest: Digest,
}

impl Sum {
    /// The sum of one event.
    pub fn of(event: &Event) -> Sum {
        Sum { bytes: event.bytes().len() as u64, digest: event.digest() }
    }

    pub fn add(&mut self, other: Sum) {
        self.bytes = self.bytes.wrapping_add(other.bytes);
        self.digest.add(other.digest);
    }

    /// May wrap while several sums are put together; the whole is right again.
    pub fn subtract(&mut self, other: Sum) {
        self.bytes = self.bytes.wrapping_sub(other.bytes);
        self.digest.subtract(other.digest);
    }
}

/// What a compaction over some events changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// The sum of the events, which leave the tail.
    pub events: Sum,
    /// The change to the sum of the base: versions that stay, less the versions that they replace.
    pub base: Sum,
}

impl Passed {
    /// The change by one event and the version before it.
    pub fn of(event: &Event, before: Option<&Event>) -> Passed {
        let events = Sum::of(event);
        let mut base = if event.is_delete() { Sum::default() } else { events };
        if let Some(before) = before {
            base.subtract(Sum::of(before));
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

/// The events in their order.
#[derive(Default)]
pub(crate) struct Tail {
    chunks: VecDeque<Chunk>,
    /// Chunks at the front that a compaction has passed whole.
    passed_chunks: usize,
}

#[derive(Default)]
struct Chunk {
    events: Vec<Event>,
    /// Events at the front that a compaction has passed.
    passed_count: usize,
    /// Events at the front that are pruned.
    pruned_count: usize,
    /// The change by a compaction that passes all the others.
    left: Passed,
}

impl Tail {
    /// Adds the newest event, with the version that it follows.
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

    /// Passes the events up to this revision. `before` finds the version before an event.
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
                    // Further events may come into this chunk.
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

    /// Whether a passed event is not pruned.
    pub fn has_garbage(&self) -> bool {
        self.chunks.front().is_some_and(|chunk| chunk.pruned_count < chunk.passed_count)
    }

    /// Takes the oldest passed event, to be pruned.
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

    /// The first chunk with events behind this place.
    fn chunk_behind(&self, place: Place) -> usize {
        self.chunks
            .partition_point(|chunk| chunk.events.last().is_some_and(|last| last.place() <= place))
    }

    /// The number of events behind this place.
    pub fn count_behind(&self, place: Place) -> u64 {
        let start = self.chunk_behind(place);
        let Some(first) = self.chunks.get(start) else { return 0 };
        let skipped = first.events.partition_point(|event| event.place() <= place);
        self.count() - (start * ETCD_CHUNK_EVENTS + skipped) as u64
    }

    /// The events behind this place, in their order.
    pub fn behind(&self, place: Place) -> impl Iterator<Item = &Event> {
        self.chunks
            .range(self.chunk_behind(place)..)
            .flat_map(|chunk| &chunk.events)
            .skip_while(move |event| event.place() <= place)
    }

    /// The number of events, passed ones included.
    pub fn count(&self) -> u64 {
        match self.chunks.back() {
            Some(last) => ((self.chunks.len() - 1) * ETCD_CHUNK_EVENTS + last.events.len()) as u64,
            None => 0,
        }
    }
}

//! The history: the last events, for clients that wait from an index on.
//!
//! Each write that takes effect has an index and one event, so the events of the history have
//! indexes without a gap up to the store's. The history is state: what a client is shown does not
//! depend on the member that it asks.
//!
//! etcd 3.4 `v2store.EventHistory`.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::digest::Digest;
use crate::etcd_v2::event::Event;
use crate::etcd_v2::key::Key;
use crate::limits::{ETCD_V2_HISTORY_BYTES_MAX, ETCD_V2_HISTORY_EVENTS_MAX};

/// The tag of an event's record, and of its term of the digest.
pub(crate) const TAG_EVENT: u8 = b'h';

/// The last events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    events: VecDeque<Kept>,
    /// The highest index whose event is gone; 0 if none is.
    cleared: u64,
    digest: Digest,
    bytes: u64,
}

/// An event with what it adds to the sums.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Kept {
    event: Arc<Event>,
    digest: Digest,
    bytes: u64,
}

impl Kept {
    fn of(event: Arc<Event>) -> Kept {
        let mut record = vec![TAG_EVENT];
        event.encode(&mut record);
        Kept { event, digest: Digest::from_tagged(&record), bytes: record.len() as u64 }
    }
}

impl History {
    /// A history that begins behind this index.
    pub(crate) fn behind(cleared: u64) -> History {
        History { cleared, ..History::default() }
    }

    /// The highest index whose event is gone: a wait must begin above it.
    pub fn cleared(&self) -> u64 {
        self.cleared
    }

    /// The events, oldest first.
    pub fn events(&self) -> impl ExactSizeIterator<Item = &Arc<Event>> + DoubleEndedIterator {
        self.events.iter().map(|kept| &kept.event)
    }

    /// The number of events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The sum of the terms of the events.
    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    /// Bytes of the records of the events in an image.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds the event of the next index, and lets the oldest ones go.
    pub(crate) fn push(&mut self, event: Arc<Event>) {
        self.push_within(event, ETCD_V2_HISTORY_BYTES_MAX);
    }

    /// As [`History::push`], with another bound for the bytes of all events.
    fn push_within(&mut self, event: Arc<Event>, bytes_max: u64) {
        let index = event.index();
        assert!(self.events.back().is_none_or(|last| last.event.index() + 1 == index));
        assert!(index > self.cleared);
        let kept = Kept::of(event);
        self.digest.add(kept.digest);
        self.bytes += kept.bytes;
        self.events.push_back(kept);
        self.cleared = self.cleared.max(index.saturating_sub(ETCD_V2_HISTORY_EVENTS_MAX));
        while let Some(first) = self.events.front()
            && (first.event.index() <= self.cleared || self.bytes > bytes_max)
        {
            self.cleared = self.cleared.max(first.event.index());
            self.digest.subtract(first.digest);
            self.bytes -= first.bytes;
            self.events.pop_front();
        }
    }

    /// The first event from an index on that concerns a key: a write of it, of a key below it if
    /// `is_recursive`, or a removal of a directory above it. Unlike a watcher, it also finds hidden
    /// keys, as in etcd.
    ///
    /// # Errors
    /// The event of that index is gone.
    pub fn first_of(
        &self,
        key: Key<'_>,
        is_recursive: bool,
        from: u64,
    ) -> Result<Option<&Arc<Event>>, Cleared> {
        if from <= self.cleared {
            return Err(Cleared { first: self.cleared + 1 });
        }
        let begin = self.events.partition_point(|kept| kept.event.index() < from);
        let mut events = self.events.range(begin..).map(|kept| &kept.event);
        Ok(events.find(|event| {
            let written = event.key();
            let is_within = written == key || (is_recursive && written.is_below(key));
            !event.is_refresh && (is_within || (event.is_dir_removal() && key.is_below(written)))
        }))
    }
}

/// A wait begins at an event that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleared {
    /// The first index that a wait can begin at.
    pub first: u64,
}

#[cfg(test)]
mod tests;

//! The history: the latest events, for clients that wait for changes from some index on.
//!
//! Each write that takes effect has an index and one event, so the indexes of the events have no
//! gap, up to the store's index. The history is state: all members show their clients equal events.
//!
//! As in etcd 3.4 `v2store.EventHistory`.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::digest::Digest;
use crate::etcd_v2::event::Event;
use crate::etcd_v2::key::Key;
use crate::limits::{ETCD_V2_HISTORY_BYTES_MAX, ETCD_V2_HISTORY_EVENTS_MAX};

/// The tag of an event's record, and of its contribution to the digest.
pub(crate) const TAG_EVENT: u8 = b'h';

/// The latest events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    events: VecDeque<Kept>,
    /// The highest index whose event was dropped; 0 if none was.
    cleared: u64,
    digest: Digest,
    bytes: u64,
}

/// An event, with what it adds to the sums of the history.
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
    /// An empty history, whose first event will have the index after `cleared`.
    pub(crate) fn behind(cleared: u64) -> History {
        History { cleared, ..History::default() }
    }

    /// The highest index whose event was dropped. A wait must start above it.
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

    /// The sum of the events' contributions to the digest.
    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    /// Bytes of the events' records in an image.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds the event of the next index. Drops the oldest events while there are too many events,
    /// or the events have too many bytes.
    pub(crate) fn push(&mut self, event: Arc<Event>) {
        self.push_within(event, ETCD_V2_HISTORY_BYTES_MAX);
    }

    /// As [`History::push`], with `bytes_max` as the bound for the bytes of all events.
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

    /// The first event, from index `from` on, that concerns a key: a write of the key, a write of a
    /// key below it if `is_recursive`, or the removal of a directory above it. Hidden keys count
    /// too, although watchers do not see them; so it is in etcd. `None` if there is no such event
    /// yet.
    ///
    /// # Errors
    /// The event with index `from` was dropped.
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

/// The error of a wait from an index whose event was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleared {
    /// The lowest index that a wait can start from.
    pub first: u64,
}

#[cfg(test)]
mod tests;

//! The events at the compacted revision. A watch can still start from this revision, but from no
//! older one. Pruning frees the memory of compacted events, and so may remove these events from
//! their other places (the index and the tail). That is why they are kept here.

use std::sync::Arc;

use crate::etcd::event::{Event, Place};
use crate::etcd::tail::Sum;

/// The events at the compacted revision that reads and watches may still show, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edge {
    pub events: Arc<Vec<Event>>,
    /// The sum (bytes, number, digest) of the deletions among the events.
    pub removals: Sum,
}

impl Edge {
    /// Adds an event, which must follow the others in order.
    pub fn push(&mut self, event: &Event) {
        if event.is_delete() {
            self.removals.add(Sum::of(event));
        }
        Arc::make_mut(&mut self.events).push(event.clone());
    }

    /// An edge with these events, which must be in order.
    pub fn of(events: impl IntoIterator<Item = Event>) -> Edge {
        let mut edge = Edge::default();
        events.into_iter().for_each(|event| edge.push(&event));
        edge
    }
}

/// The progress of a compaction, kept between two steps.
#[derive(Debug, Default)]
pub(crate) struct CompactSoFar {
    /// The place of the last event at the compaction's revision that was looked at; `None` before
    /// the first.
    pub last: Option<Place>,
    pub edge: Edge,
}

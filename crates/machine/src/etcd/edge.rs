//! The events at the compacted revision: reads of the past begin there.

use std::sync::Arc;

use crate::etcd::event::{Event, Place};
use crate::etcd::tail::Sum;

/// The events at the compacted revision, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Edge {
    pub events: Arc<Vec<Event>>,
    /// The sum of the removals among them.
    pub removals: Sum,
}

impl Edge {
    /// Adds the next event.
    pub fn push(&mut self, event: &Event) {
        if event.is_delete() {
            self.removals.add(Sum::of(event));
        }
        Arc::make_mut(&mut self.events).push(event.clone());
    }

    /// The edge of these events.
    pub fn of(events: impl IntoIterator<Item = Event>) -> Edge {
        let mut edge = Edge::default();
        events.into_iter().for_each(|event| edge.push(&event));
        edge
    }
}

/// A compaction between two of its steps.
#[derive(Debug, Default)]
pub(crate) struct CompactSoFar {
    /// The last event of its revision that was looked at.
    pub last: Option<Place>,
    pub edge: Edge,
}

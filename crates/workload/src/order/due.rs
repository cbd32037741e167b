//! The events that one connection is to be told; some of them may come or not.

use std::collections::{BTreeSet, VecDeque};

use crate::op::EventKind;

/// The event's zxid, kind and path.
pub(super) type Event = (i64, EventKind, String);

/// An event that is due.
#[derive(Clone, Debug)]
struct Due {
    event: Event,
    /// Whether it must come; else it may.
    is_certain: bool,
}

/// Events in the order in which they are due. An optional event can equal a later one, so that it
/// is open which of them came: all explanations are followed.
#[derive(Debug)]
pub(super) struct DueEvents {
    events: VecDeque<Due>,
    /// Number of events that came or were passed over, in each explanation of what came.
    passed: BTreeSet<usize>,
}

impl DueEvents {
    /// No events are due.
    pub fn new() -> DueEvents {
        DueEvents { events: VecDeque::new(), passed: BTreeSet::from([0]) }
    }

    /// Adds an event that must come, or may.
    pub fn push(&mut self, event: Event, is_certain: bool) {
        self.events.push_back(Due { event, is_certain });
    }

    /// Takes an event that came.
    ///
    /// # Errors
    /// It was not due. The event that was due is returned.
    pub fn on_came(&mut self, came: &Event) -> Result<(), Option<Event>> {
        let ways = self.passed.iter().flat_map(|passed| {
            let next = self.events.iter().enumerate().skip(*passed);
            let certain = next.clone().find(|(_, due)| due.is_certain);
            let last = certain.map_or(self.events.len(), |(at, _)| at + 1);
            next.take_while(move |(at, _)| *at < last)
                .filter(|(_, due)| due.event == *came)
                .map(|(at, _)| at + 1)
        });
        let ways: BTreeSet<usize> = ways.collect();
        if ways.is_empty() {
            return Err(self.first_missing());
        }
        self.passed = ways;
        Ok(())
    }

    /// Takes the end of the events.
    ///
    /// # Errors
    /// The returned event must have come.
    pub fn on_end(&mut self) -> Result<(), Event> {
        let is_end = |passed: &usize| self.events.iter().skip(*passed).all(|due| !due.is_certain);
        if !self.passed.iter().any(is_end) {
            return Err(self.first_missing().expect("a certain one is left"));
        }
        *self = DueEvents::new();
        Ok(())
    }

    /// The first event that must come, in the way that has explained most.
    fn first_missing(&self) -> Option<Event> {
        let passed = self.passed.last().copied().expect("there is always a way");
        let mut left = self.events.iter().skip(passed);
        left.find(|due| due.is_certain).map(|due| due.event.clone())
    }
}

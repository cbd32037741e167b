//! The events that one connection is to be told, some of which may come or not.

use std::collections::{BTreeSet, VecDeque};

use crate::op::EventKind;

/// Its zxid, kind and path.
pub(super) type Event = (i64, EventKind, String);

/// An event that is to come.
#[derive(Clone, Debug)]
struct Due {
    event: Event,
    /// It must; else it may.
    is_certain: bool,
}

/// Events in the order in which they come. One that may come or not can be equal to a later one, so
/// that it is open which of them came: all ways are followed.
#[derive(Debug)]
pub(super) struct DueEvents {
    events: VecDeque<Due>,
    /// How many have come or were passed over, in each way in which what came can be explained.
    passed: BTreeSet<usize>,
}

impl DueEvents {
    /// None is due.
    pub fn new() -> DueEvents {
        DueEvents { events: VecDeque::new(), passed: BTreeSet::from([0]) }
    }

    /// One more is to come, certainly or perhaps.
    pub fn push(&mut self, event: Event, is_certain: bool) {
        self.events.push_back(Due { event, is_certain });
    }

    /// An event came.
    ///
    /// # Errors
    /// It was not due. Told is what was.
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

    /// No more of them come.
    ///
    /// # Errors
    /// One that is told must have come.
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

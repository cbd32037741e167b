//! Compares the events that one connection gets with the events that are due to it, in order. Some
//! due events are optional: they may come or not.

use std::collections::{BTreeSet, VecDeque};

use crate::op::EventKind;

/// An event's zxid, kind and path.
pub(super) type Event = (i64, EventKind, String);

/// An event that is due.
#[derive(Clone, Debug)]
struct Due {
    event: Event,
    /// Whether the event must come; otherwise it may.
    is_certain: bool,
}

/// The due events, in order. An optional event can equal a later one, so it may be open which of
/// them came: all explanations are followed.
#[derive(Debug)]
pub(super) struct DueEvents {
    events: VecDeque<Due>,
    /// The explanations of the events that came so far. Each is the number of due events that have
    /// come or were skipped in it.
    passed: BTreeSet<usize>,
}

impl DueEvents {
    /// No events are due.
    pub fn new() -> DueEvents {
        DueEvents { events: VecDeque::new(), passed: BTreeSet::from([0]) }
    }

    /// Adds an event that must come (`is_certain`), or may.
    pub fn push(&mut self, event: Event, is_certain: bool) {
        self.events.push_back(Due { event, is_certain });
    }

    /// Handles an event that came.
    ///
    /// # Errors
    /// The event was not due. Returns the event that must come next, if any.
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

    /// Handles the end of the events up to this zxid: none of them that must come may be left.
    ///
    /// # Errors
    /// Returns an event that must have come.
    pub fn on_end(&mut self, zxid: i64) -> Result<(), Event> {
        let over = self.events.iter().take_while(|due| due.event.0 <= zxid).count();
        let is_end = |passed: &usize| {
            let left = self.events.iter().take(over).skip(*passed);
            left.into_iter().all(|due| !due.is_certain)
        };
        let ways = self.passed.iter().filter(|passed| is_end(passed));
        let ways: BTreeSet<usize> = ways.map(|passed| passed.saturating_sub(over)).collect();
        if ways.is_empty() {
            return Err(self.first_missing().expect("a certain one is left"));
        }
        self.events.drain(..over);
        self.passed = ways;
        Ok(())
    }

    /// The first event that must still come, in the explanation that covers the most events.
    fn first_missing(&self) -> Option<Event> {
        let passed = self.passed.last().copied().expect("there is always a way");
        let mut left = self.events.iter().skip(passed);
        left.find(|due| due.is_certain).map(|due| due.event.clone())
    }
}

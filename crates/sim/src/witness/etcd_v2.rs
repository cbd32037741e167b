//! All events of etcd v2 in a run. The members' states keep only the newest ones.

use std::sync::Arc;

use machine::etcd_v2::event::Event;
use machine::etcd_v2::history::History;
use machine::etcd_v2::store::FIRST_INDEX;

/// The events of all indexes.
#[derive(Default)]
pub struct V2Events {
    /// The events in order, each with the time in us when a member's state first had it.
    seen: Vec<(u64, Arc<Event>)>,
}

impl V2Events {
    /// Adds the new events of a member's history.
    ///
    /// # Errors
    /// The history has already lost events that were not seen before.
    pub fn on_history(&mut self, history: &History, now_us: u64) -> Result<(), String> {
        let known = FIRST_INDEX + self.seen.len() as u64;
        let newest = history.events().next_back().map_or(0, |event| event.index());
        let Some(more) = newest.checked_sub(known).map(|more| more as usize) else {
            return Ok(());
        };
        let Some(before) = history.len().checked_sub(more) else {
            return Err(format!("etcd v2: event {} is gone before it was there", known + 1));
        };
        let events = history.events().skip(before);
        self.seen.extend(events.map(|event| (now_us, event.clone())));
        Ok(())
    }

    /// A record of these events, for tests.
    #[cfg(test)]
    pub fn of(seen: impl Iterator<Item = (u64, Arc<Event>)>) -> V2Events {
        V2Events { seen: seen.collect() }
    }

    /// The events in order, from the first index on.
    pub fn events(&self) -> Vec<Arc<Event>> {
        self.seen.iter().map(|(_, event)| event.clone()).collect()
    }

    /// When a member's state first had the event of an index, in us; `None` if none has had it.
    pub fn seen_us(&self, index: u64) -> Option<u64> {
        let place = index.checked_sub(FIRST_INDEX + 1)?;
        self.seen.get(place as usize).map(|(at_us, _)| *at_us)
    }
}

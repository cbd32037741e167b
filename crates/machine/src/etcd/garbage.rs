//! Frees shared events in steps: the events of an outcome that became too large to be sent, or the
//! events at the compacted revision ([`Edge`](super::edge::Edge)) once a later compaction has
//! replaced them. There may be millions, too many to free at once.

use crate::etcd::event::Event;
use crate::etcd::reply::{Branch, OpDone};
use crate::limits::ETCD_PRUNED_EVENTS_MAX;

/// Lists of events that nobody needs any more.
#[derive(Default)]
pub(crate) struct Garbage {
    lists: Vec<Vec<Event>>,
}

impl Garbage {
    /// Adds a list to be freed.
    pub fn add(&mut self, events: Vec<Event>) {
        if !events.is_empty() {
            self.lists.push(events);
        }
    }

    /// Adds the events in the outcome of a transaction's branch.
    pub fn add_branch(&mut self, branch: Branch) {
        for done in branch.done {
            match done {
                OpDone::Range(found) => self.add(found.events),
                OpDone::DeleteRange(deleted) => self.add(deleted.prev),
                OpDone::Txn(branch) => self.add_branch(branch),
                OpDone::Put(_) => {}
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Frees up to [`ETCD_PRUNED_EVENTS_MAX`] events.
    pub fn drop_some(&mut self) {
        let mut left = ETCD_PRUNED_EVENTS_MAX;
        while left > 0
            && let Some(list) = self.lists.last_mut()
        {
            let kept = list.len().saturating_sub(left);
            left -= list.len() - kept;
            list.truncate(kept);
            if list.is_empty() {
                self.lists.pop();
            }
        }
    }
}

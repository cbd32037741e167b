//! References that nobody takes: an outcome that became larger than an answer may be. There may be
//! millions, so they are dropped in steps.

use crate::etcd::event::Event;
use crate::etcd::reply::{Branch, OpDone};
use crate::limits::ETCD_PRUNED_EVENTS_MAX;

/// Lists of references to versions.
#[derive(Default)]
pub(crate) struct Garbage {
    lists: Vec<Vec<Event>>,
}

impl Garbage {
    /// Adds a list.
    pub fn add(&mut self, events: Vec<Event>) {
        if !events.is_empty() {
            self.lists.push(events);
        }
    }

    /// Adds what a transaction shows.
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

    /// Drops as many references as one step may.
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

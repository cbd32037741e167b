//! Changes that Loop and the Fronts take: for watchers, and for the deadlines of keys.

use std::sync::Arc;

use crate::etcd_v2::event::Event;
use crate::etcd_v2::key::Key;
use crate::etcd_v2::tree::Node;

/// A write, for watchers.
#[derive(Clone, Debug)]
pub struct KeyChange {
    /// The event.
    pub event: Arc<Event>,
    /// The node that the write removed, with all that was below it; none for other writes.
    pub removed: Option<Arc<Node>>,
}

/// A change of the time to live of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeadlineChange {
    /// A write gave the key a time to live.
    Began {
        /// The key.
        key: Arc<str>,
        /// The index of the write. A command that expires the key names it.
        since: u64,
        /// The time to live, in seconds.
        ttl_s: u64,
    },
    /// The time to live that the write with this index gave is no more: the key was written again,
    /// or removed.
    Ended {
        /// The index of the write.
        since: u64,
    },
}

impl KeyChange {
    /// Whether a watcher of the key `watched` sees the change: it is a write of that key; of a key
    /// below it that is not hidden from it, if the watcher `is_recursive`; or the removal of a
    /// directory with a node at that key.
    ///
    /// etcd 3.4 `v2store.watcherHub.notifyWatchers`, `v2store.watcher.notify`.
    pub fn concerns(&self, watched: Key<'_>, is_recursive: bool) -> bool {
        let written = self.event.key();
        if written == watched {
            return true;
        }
        if written.is_below(watched) {
            return is_recursive && !written.is_hidden_from(watched);
        }
        let Some(below) = watched.text().strip_prefix(written.text()).and_then(Key::new) else {
            return false;
        };
        self.removed.as_ref().is_some_and(|removed| removed.at(below).is_some())
    }
}

/// The changes of consecutive commands, in order. The space has no settings.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    keys: Vec<KeyChange>,
    deadlines: Vec<DeadlineChange>,
    /// Whether the batch keeps nothing.
    is_for_nobody: bool,
}

impl Changes {
    /// Changes that keep nothing.
    pub(crate) fn for_nobody() -> Changes {
        Changes { is_for_nobody: true, ..Changes::default() }
    }

    /// Whether the batch keeps nothing.
    pub(crate) fn is_for_nobody(&self) -> bool {
        self.is_for_nobody
    }

    /// Adds a write.
    pub(crate) fn push_key(&mut self, change: KeyChange) {
        if !self.is_for_nobody {
            self.keys.push(change);
        }
    }

    /// Adds a change of a time to live.
    pub(crate) fn push_deadline(&mut self, change: DeadlineChange) {
        if !self.is_for_nobody {
            self.deadlines.push(change);
        }
    }

    /// Notes that a state with these times to live took the place of the one before. Waiting
    /// clients look into the new state for what they have missed.
    pub(crate) fn on_replaced(&mut self, deadlines: Vec<DeadlineChange>) {
        self.keys.clear();
        if !self.is_for_nobody {
            self.deadlines = deadlines;
        }
    }

    /// The writes, in their order, for watchers. Writes that only refresh a time to live are not
    /// among them.
    pub fn keys(&self) -> &[KeyChange] {
        &self.keys
    }

    /// The changes of times to live, in their order. If the state was replaced, they are those of
    /// the new state and the changes behind it.
    pub fn deadlines(&self) -> &[DeadlineChange] {
        &self.deadlines
    }

    /// Whether there is nothing that a Front takes.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Takes the writes out.
    #[cfg(test)]
    pub(crate) fn take_keys(&mut self) -> Vec<KeyChange> {
        core::mem::take(&mut self.keys)
    }

    /// Takes the changes of times to live out.
    #[cfg(test)]
    pub(crate) fn take_deadlines(&mut self) -> Vec<DeadlineChange> {
        core::mem::take(&mut self.deadlines)
    }
}

#[cfg(test)]
mod tests;

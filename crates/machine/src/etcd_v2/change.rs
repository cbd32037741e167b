//! The changes that etcd v2's commands make: writes of keys, which a Front shows to the clients
//! that wait for them; and changes of times to live. Loop keeps the deadlines of keys by the
//! latter.

use std::sync::Arc;

use crate::etcd_v2::event::Event;
use crate::etcd_v2::key::Key;
use crate::etcd_v2::tree::Node;

/// A write of a key, for watchers.
#[derive(Clone, Debug)]
pub struct KeyChange {
    /// The event.
    pub event: Arc<Event>,
    /// The node that the write removed, with everything below it. `None` unless the write is a
    /// removal.
    pub removed: Option<Arc<Node>>,
}

/// A change of a key's time to live, for the deadlines that Loop keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeadlineChange {
    /// A write gave the key a time to live.
    Began {
        /// The key.
        key: Arc<str>,
        /// The index of the write. A command that expires the key names this index, and does
        /// nothing if the key was written again since.
        since: u64,
        /// The time to live in seconds.
        ttl_s: u64,
    },
    /// A time to live has ended: its key was written again, or removed.
    Ended {
        /// The index of the write that gave the time to live.
        since: u64,
    },
}

impl KeyChange {
    /// Whether a watcher of the key `watched` sees this change. It sees writes of that key; if the
    /// watcher `is_recursive`, writes of keys below it that are not hidden from it; and the removal
    /// of a directory above, if that had a node at the watched key.
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

/// The changes of consecutive commands, in order. Unlike other spaces, this one has no settings.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    keys: Vec<KeyChange>,
    deadlines: Vec<DeadlineChange>,
    /// Whether the batch drops every change: nobody will read it.
    is_for_nobody: bool,
}

impl Changes {
    /// A batch that drops every change.
    pub(crate) fn for_nobody() -> Changes {
        Changes { is_for_nobody: true, ..Changes::default() }
    }

    /// Whether the batch drops every change.
    pub(crate) fn is_for_nobody(&self) -> bool {
        self.is_for_nobody
    }

    /// Adds a write of a key.
    pub(crate) fn push_key(&mut self, change: KeyChange) {
        if !self.is_for_nobody {
            self.keys.push(change);
        }
    }

    /// Adds a change of a key's time to live.
    pub(crate) fn push_deadline(&mut self, change: DeadlineChange) {
        if !self.is_for_nobody {
            self.deadlines.push(change);
        }
    }

    /// Notes that a state with these times to live replaced the whole state. Drops earlier writes:
    /// waiting clients read in the new state what they have missed.
    pub(crate) fn on_replaced(&mut self, deadlines: Vec<DeadlineChange>) {
        self.keys.clear();
        if !self.is_for_nobody {
            self.deadlines = deadlines;
        }
    }

    /// The writes of keys, in order, for watchers. Refreshes are not among them, since they wake no
    /// watcher.
    pub fn keys(&self) -> &[KeyChange] {
        &self.keys
    }

    /// The changes of times to live, in order. If the state was replaced, they begin with all times
    /// to live of the new state.
    pub fn deadlines(&self) -> &[DeadlineChange] {
        &self.deadlines
    }

    /// Whether the batch holds nothing that a Front has to process.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Removes and returns the writes.
    #[cfg(test)]
    pub(crate) fn take_keys(&mut self) -> Vec<KeyChange> {
        core::mem::take(&mut self.keys)
    }

    /// Removes and returns the changes of times to live.
    #[cfg(test)]
    pub(crate) fn take_deadlines(&mut self) -> Vec<DeadlineChange> {
        core::mem::take(&mut self.deadlines)
    }
}

#[cfg(test)]
mod tests;

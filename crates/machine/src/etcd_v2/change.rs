//! Changes that Loop and the Fronts take: for watchers, and for the deadlines of keys.

use std::sync::Arc;

use crate::etcd_v2::event::Event;
use crate::etcd_v2::key::Key;
use crate::etcd_v2::tree::Node;

/// The changes of consecutive commands, in their order.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// For watchers. Writes that only refresh a time to live are not among them.
    pub keys: Vec<KeyChange>,
    /// For the deadlines that Loop keeps.
    pub deadlines: Vec<DeadlineChange>,
}

impl Changes {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.deadlines.is_empty()
    }
}

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
    /// Whether a watcher of the key `watched` is told of the change: it is a write of that key; of
    /// a key below it that is not hidden from it, if the watcher `is_recursive`; or the removal of
    /// a directory with a node at that key.
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

#[cfg(test)]
mod tests;

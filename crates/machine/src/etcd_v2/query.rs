//! Reads of the store, which run under the lock of the state for a short time: what they find is
//! shared, and is turned into an answer without the lock.

use std::sync::Arc;

use crate::etcd_v2::auth::{Access, Who};
use crate::etcd_v2::event::Event;
use crate::etcd_v2::history::Cleared;
use crate::etcd_v2::key::Key;
use crate::etcd_v2::reply::{Reason, Refusal};
use crate::etcd_v2::store::Store;
use crate::etcd_v2::tree::Node;

/// The result of a read of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The store's index.
    pub index: u64,
    /// The node, with all that is below it. [`Node::listed`] says what a listing shows of it.
    pub node: Arc<Node>,
}

/// The beginning of a wait for a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The store's index, which the client gets first.
    pub index: u64,
    /// The first index whose change a watcher takes.
    pub first: u64,
    /// The event that answers the wait at once, if one in the history does.
    pub event: Option<Arc<Event>>,
}

impl Store {
    /// Checks that somebody may read a key, and all below it if `is_recursive`.
    ///
    /// # Errors
    /// It is not permitted.
    pub fn check_read(
        &self,
        who: Who<'_>,
        key: Key<'_>,
        is_recursive: bool,
    ) -> Result<(), Refusal> {
        let access = Access { key, is_write: false, is_recursive };
        match self.auth.permits(who, access) {
            true => Ok(()),
            false => Err(Refusal::UNAUTHORIZED),
        }
    }

    /// Reads a key.
    ///
    /// etcd 3.4 `v2store.store.Get`.
    ///
    /// # Errors
    /// There is no node at the key.
    pub fn get(&self, key: Key<'_>) -> Result<Found, Refusal> {
        match self.tree.find(key) {
            Ok(node) => Ok(Found { index: self.index, node: node.clone() }),
            Err(missing) => Err(self.refusal(missing.into())),
        }
    }

    /// Begins to wait for a change of a key, or below it if `is_recursive`, from an index on; 0:
    /// from the next write on.
    ///
    /// etcd 3.4 `v2store.store.Watch`.
    ///
    /// # Errors
    /// The event of that index is gone.
    pub fn wait(&self, key: Key<'_>, is_recursive: bool, from: u64) -> Result<Wait, Refusal> {
        let first = if from == 0 { self.index + 1 } else { from };
        match self.history.first_of(key, is_recursive, first) {
            Ok(event) => {
                let first = first.max(self.index + 1);
                Ok(Wait { index: self.index, first, event: event.cloned() })
            }
            Err(Cleared { first }) => {
                Err(self.refusal(Reason::HistoryCleared { first, asked: from }))
            }
        }
    }

    pub(crate) fn refusal(&self, reason: Reason) -> Refusal {
        Refusal { reason, index: self.index }
    }
}

//! Reads of the store. They hold the state's lock only for a short time: the nodes that they find
//! are shared, and the caller turns them into an answer without the lock.

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
    /// The store's index at the time of the read.
    pub index: u64,
    /// The node, with everything below it. [`Node::listed`] returns the children that a listing
    /// shows.
    pub node: Arc<Node>,
}

/// The start of a wait for a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The store's index, which is sent to the client first.
    pub index: u64,
    /// The lowest index whose change answers the wait, if `event` does not.
    pub first: u64,
    /// The event of the history that answers the wait at once; `None` if the wait goes on.
    pub event: Option<Arc<Event>>,
}

impl Store {
    /// Checks that a client may read a key, and everything below it if `is_recursive`.
    ///
    /// # Errors
    /// The client may not.
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

    /// Starts to wait for a change of a key, or of keys below it too if `is_recursive`. Only a
    /// change with index `from` or higher answers the wait; 0 means that only later writes do.
    ///
    /// etcd 3.4 `v2store.store.Watch`.
    ///
    /// # Errors
    /// The event with index `from` was dropped from the history.
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

//! Answers the calls `Hash` and `HashKV` with a hash of the keys, which takes several holds of the
//! lock.

use etcd::convert::{self, Header};
use machine::etcd::Store;
use machine::etcd::hash::HashRead;
use machine::etcd::reply::Refusal;

/// A call for a hash of the keys.
pub(super) struct HashCall {
    /// The revision to hash at; 0 for the present one.
    revision: i64,
    /// Whether the call is `HashKV`, not `Hash`.
    is_of_keys: bool,
    begun: Option<HashRead>,
}

impl HashCall {
    /// A call of `HashKV` at a revision; 0 for the present one.
    pub fn of_keys(revision: i64) -> HashCall {
        HashCall { revision, is_of_keys: true, begun: None }
    }

    /// A call of `Hash`.
    pub fn of_all() -> HashCall {
        HashCall { revision: 0, is_of_keys: false, begun: None }
    }

    /// Begins anew, because another state has replaced the old one.
    pub fn on_replaced(&mut self) {
        self.begun = None;
    }

    /// Hashes further, and subtracts the number of events that it looks at from `events_left`.
    /// Returns the response once the hash is complete, else `None`.
    ///
    /// # Errors
    /// The revision is above the store's, or is compacted.
    pub fn step(
        &mut self,
        header: Header,
        store: &Store,
        events_left: &mut u64,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        let read = match &mut self.begun {
            Some(read) => read,
            None => self.begun.insert(store.begin_hash(self.revision)?),
        };
        match store.hash_step(read, events_left) {
            Ok(false) => Ok(None),
            Ok(true) if self.is_of_keys => Ok(Some(convert::hash_kv(header, store, read))),
            Ok(true) => Ok(Some(convert::hash(header, store, read))),
            // The client asked for the present revision, and the store has a later one by now.
            Err(Refusal::Compacted) if self.revision == 0 => {
                self.begun = None;
                Ok(None)
            }
            Err(refusal) => Err(refusal),
        }
    }
}

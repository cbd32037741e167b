//! Hashes of the keys, worked out in several holds of the lock.

use etcd::convert::{self, Header};
use machine::etcd::Store;
use machine::etcd::hash::HashRead;
use machine::etcd::reply::Refusal;

/// A call for a hash.
pub(super) struct HashCall {
    /// The revision; 0: the present one.
    revision: i64,
    /// Whether the response is that of `HashKV`.
    is_of_keys: bool,
    begun: Option<HashRead>,
}

impl HashCall {
    /// `HashKV` at a revision; 0: the present one.
    pub fn of_keys(revision: i64) -> HashCall {
        HashCall { revision, is_of_keys: true, begun: None }
    }

    /// `Hash`.
    pub fn of_all() -> HashCall {
        HashCall { revision: 0, is_of_keys: false, begun: None }
    }

    /// Another state took the place of the one before: the call begins anew.
    pub fn on_replaced(&mut self) {
        self.begun = None;
    }

    /// Goes on, and takes the events that it looks at off `events_left`. The response, once the
    /// hash is worked out.
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
            // The present revision is another one by now.
            Err(Refusal::Compacted) if self.revision == 0 => {
                self.begun = None;
                Ok(None)
            }
            Err(refusal) => Err(refusal),
        }
    }
}

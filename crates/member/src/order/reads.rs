//! The ReadIndex questions: a read at such an index sees everything that was committed before.

use std::collections::BTreeMap;

use replica::{ReadId, Replica};

use crate::message::Caller;

/// The ReadIndex questions of this member.
#[derive(Default)]
pub(super) struct Reads {
    /// Syncs that cannot be asked for yet.
    syncs_wanted: Vec<Caller>,
    under_way: BTreeMap<ReadId, ReadFor>,
}

/// The use of the answer to a ReadIndex question.
#[derive(Clone, Copy)]
pub(super) enum ReadFor {
    /// A client's sync.
    Sync(Caller),
    /// The index at which this member becomes ready.
    Ready,
    /// A proof that a quorum still followed, as of when it was asked for.
    Contact { asked_ms: u64 },
    /// A proof for questions about leases that this member leads.
    Leases,
    /// An index from which on batches may be handed over again.
    Proof { number: u64 },
}

impl Reads {
    /// Asks for an index, if one can be asked for now. Returns the number of the question.
    pub fn ask(&mut self, replica: &mut Replica, purpose: ReadFor) -> Option<ReadId> {
        let read = replica.read_index().ok()?;
        self.under_way.insert(read, purpose);
        Some(read)
    }

    /// Takes a client's sync, to be asked for by [`Reads::ask_syncs`].
    pub fn want_sync(&mut self, caller: Caller) {
        self.syncs_wanted.push(caller);
    }

    /// Asks for the indexes of the wanted syncs.
    pub fn ask_syncs(&mut self, replica: &mut Replica) {
        for caller in core::mem::take(&mut self.syncs_wanted) {
            if self.ask(replica, ReadFor::Sync(caller)).is_none() {
                self.syncs_wanted.push(caller);
            }
        }
    }

    /// Removes a question that is answered or has failed.
    pub fn take(&mut self, read: ReadId) -> ReadFor {
        self.under_way.remove(&read).expect("only own reads return")
    }

    /// The number of syncs that wait for their index.
    pub fn sync_count(&self) -> usize {
        let is_sync = |read: &&ReadFor| matches!(read, ReadFor::Sync(..));
        self.syncs_wanted.len() + self.under_way.values().filter(is_sync).count()
    }
}

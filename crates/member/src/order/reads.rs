//! Keeps the ReadIndex questions of this member, each with its purpose. Each question asks for the
//! commit index: a read at that index sees everything that was committed before the question.

use std::collections::BTreeMap;

use replica::{ReadId, Replica};

use crate::message::Caller;

/// The ReadIndex questions of this member, each with its purpose.
#[derive(Default)]
pub(super) struct Reads {
    /// Syncs whose question cannot be asked yet.
    syncs_wanted: Vec<Caller>,
    under_way: BTreeMap<ReadId, ReadFor>,
}

/// The purpose of a ReadIndex question.
#[derive(Clone, Copy)]
pub(super) enum ReadFor {
    /// Answer a client's sync.
    Sync(Caller),
    /// Learn the index that must be applied before this member is ready.
    Ready,
    /// Prove that a quorum still followed this leader at `asked_ms`.
    Contact { asked_ms: u64 },
    /// Prove that this member leads, to answer questions about leases.
    Leases,
    /// Learn the index that must be applied before batches may be given again.
    Proof { number: u64 },
}

impl Reads {
    /// Asks for the commit index, if that is possible now. Returns the id of the question.
    pub fn ask(&mut self, replica: &mut Replica, purpose: ReadFor) -> Option<ReadId> {
        let read = replica.read_index().ok()?;
        self.under_way.insert(read, purpose);
        Some(read)
    }

    /// Takes a client's sync; [`Reads::ask_syncs`] asks for its index.
    pub fn want_sync(&mut self, caller: Caller) {
        self.syncs_wanted.push(caller);
    }

    /// Asks for the commit index of each sync that has no question yet.
    pub fn ask_syncs(&mut self, replica: &mut Replica) {
        for caller in core::mem::take(&mut self.syncs_wanted) {
            if self.ask(replica, ReadFor::Sync(caller)).is_none() {
                self.syncs_wanted.push(caller);
            }
        }
    }

    /// Removes a question that was answered or failed. Returns its purpose.
    pub fn take(&mut self, read: ReadId) -> ReadFor {
        self.under_way.remove(&read).expect("only own reads return")
    }

    /// How many syncs wait for their index.
    pub fn sync_count(&self) -> usize {
        let is_sync = |read: &&ReadFor| matches!(read, ReadFor::Sync(..));
        self.syncs_wanted.len() + self.under_way.values().filter(is_sync).count()
    }
}

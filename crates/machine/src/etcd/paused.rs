//! A command between two of its steps. It borrows nothing: the same command comes again.

use crate::etcd::auth::Permitting;
use crate::etcd::change::KeyChange;
use crate::etcd::edge::CompactSoFar;
use crate::etcd::event::{Event, Place};
use crate::etcd::lease::Lease;
use crate::etcd::path::{Level, Taken, Walk};
use crate::etcd::range::RangeRead;
use crate::etcd::reply::{Branch, OpDone};
use crate::etcd::shown::Shown;
use crate::etcd::txn_state::{Checking, Judging};

/// A command between two of its steps.
pub(crate) enum Paused {
    /// Its user's permissions are being checked.
    Permitting(Permitting),
    /// The events of a compaction's revision are being looked at.
    Compacting(CompactSoFar),
    /// The comparisons of a transaction are being judged.
    Judging(Judging),
    /// The operations of a transaction whose comparisons were judged are being checked.
    Checking(Vec<bool>, Checking),
    /// It has begun to run.
    Running(PausedAt, Box<Halt>),
}

impl Paused {
    /// Whether its outcome has collected what it shows, or some of it.
    pub fn has_collected(&self) -> bool {
        matches!(self, Paused::Running(_, halt) if halt.shown != Shown::Nothing)
    }

    /// The changes of a command that has begun to run.
    pub fn into_halt(self) -> Option<Box<Halt>> {
        match self {
            Paused::Running(_, halt) => Some(halt),
            Paused::Permitting(_)
            | Paused::Compacting(_)
            | Paused::Judging(_)
            | Paused::Checking(..) => None,
        }
    }
}

/// Where a command goes on that has begun to run.
pub(crate) enum PausedAt {
    /// In its only operation.
    DeleteRange,
    /// Behind operations of a transaction.
    Txn(TxnRun),
    /// In the end of the lease with this number in the list of the command.
    Lease(usize, Lease),
}

/// A transaction while its operations run.
#[derive(Debug)]
pub(crate) struct TxnRun {
    /// The results of the comparisons, of each transaction on the path before those nested in it.
    judged: Vec<bool>,
    pub levels: Vec<Level>,
    /// The number of transactions that the walk along the path has entered.
    pub entered: usize,
    /// The outcomes so far, of the transactions that are not done.
    branches: Vec<Branch>,
}

/// The changes at one revision, which are not complete.
pub(crate) struct Halt {
    /// The place of the next event.
    pub place: Place,
    /// The changes so far, for watchers, who get those of one revision together. `None` if nobody
    /// watched.
    pub changes: Option<ChangesSoFar>,
    /// The removal that is not done.
    pub delete: Option<DeleteSoFar>,
    /// The read that is not done.
    pub read: Option<Box<RangeRead>>,
    /// Whether and how far the outcome collects what it shows.
    pub shown: Shown,
}

/// The changes for watchers between two steps.
pub(crate) struct ChangesSoFar {
    pub changes: Vec<KeyChange>,
    /// The place of the first event that is not among them: the place of the next event, unless
    /// the first watcher has come since the command began.
    pub next: Place,
}

/// A removal of a range between two steps.
pub(crate) struct DeleteSoFar {
    /// The first key that was not looked at.
    pub from: Box<[u8]>,
    pub count: u64,
    pub prev: Vec<Event>,
}

impl TxnRun {
    /// Before the first operation.
    pub fn new(judged: Vec<bool>) -> TxnRun {
        TxnRun { judged, levels: Vec::new(), entered: 0, branches: Vec::new() }
    }

    /// Enters the transaction that is ahead of the walk.
    pub fn enter(&mut self, walk: &mut Walk<'_>) {
        let succeeded = self.judged[self.entered];
        walk.enter(Taken::Branch(succeeded));
        self.entered += 1;
        self.branches.push(Branch { succeeded, done: Vec::new() });
    }

    /// Leaves a transaction whose operations have all run.
    pub fn leave(&mut self) {
        if self.branches.len() > 1
            && let Some(branch) = self.branches.pop()
        {
            self.push(OpDone::Txn(branch));
        }
    }

    pub fn push(&mut self, done: OpDone) {
        if let Some(branch) = self.branches.last_mut() {
            branch.done.push(done);
        }
    }

    /// The outcome, once all operations have run.
    pub fn finish(mut self) -> Branch {
        assert!(self.branches.len() == 1, "all nested transactions were left");
        self.branches.pop().expect("there is the whole transaction")
    }
}

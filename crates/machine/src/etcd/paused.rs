//! An etcd command that is paused between two of its steps. It borrows nothing, because the caller
//! passes the same command again.

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

/// Where a paused command continues.
pub(crate) enum Paused {
    /// In the check of its user's permissions.
    Permitting(Permitting),
    /// In a compaction, which looks at the events at its revision.
    Compacting(CompactSoFar),
    /// In the comparisons of a transaction.
    Judging(Judging),
    /// In the checks of a transaction's operations. The first field holds the results of the
    /// comparisons.
    Checking(Vec<bool>, Checking),
    /// In the changes of the command. Some of the changes may be made already.
    Running(PausedAt, Box<Halt>),
}

impl Paused {
    /// Whether the command has collected versions for its outcome (see [`Shown`]).
    pub fn has_collected(&self) -> bool {
        matches!(self, Paused::Running(_, halt) if halt.shown != Shown::Nothing)
    }

    /// The changes so far, if the command has begun to make them.
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

/// Where a command continues that has begun to make changes.
pub(crate) enum PausedAt {
    /// In a `DeleteRange` command.
    DeleteRange,
    /// Between operations of a transaction, or within one.
    Txn(TxnRun),
    /// In the end of a lease. The number is the lease's position in the command's list; the lease
    /// still has the keys that are left to delete.
    Lease(usize, Lease),
}

/// The progress of a transaction whose operations are running.
#[derive(Debug)]
pub(crate) struct TxnRun {
    /// The results of the comparisons, one for each transaction on the path; a transaction comes
    /// before those nested in it.
    judged: Vec<bool>,
    pub levels: Vec<Level>,
    /// How many transactions the walk has entered.
    pub entered: usize,
    /// The outcomes so far of each transaction that was entered and not left yet.
    branches: Vec<Branch>,
}

/// The unfinished changes of a command at one revision.
pub(crate) struct Halt {
    /// The place that the next event will have.
    pub place: Place,
    /// The changes so far, for watchers: they get all changes of one revision together. `None` if
    /// nobody watched.
    pub changes: Option<ChangesSoFar>,
    /// The deletion of a range that is not done.
    pub delete: Option<DeleteSoFar>,
    /// The read of a range that is not done.
    pub read: Option<Box<RangeRead>>,
    /// Whether the outcome collects what it shows, and how much more it may collect.
    pub shown: Shown,
}

/// The changes of a paused command, kept for watchers.
pub(crate) struct ChangesSoFar {
    pub changes: Vec<KeyChange>,
    /// The place of the first event that is missing from `changes`. If nothing that the command has
    /// done so far is missing, that is the place of the command's next event.
    pub next: Place,
}

/// The progress of the deletion of a range.
pub(crate) struct DeleteSoFar {
    /// The first key that was not looked at.
    pub from: Box<[u8]>,
    pub count: u64,
    pub prev: Vec<Event>,
}

impl TxnRun {
    /// Before the first operation. `judged` holds the results of the comparisons.
    pub fn new(judged: Vec<bool>) -> TxnRun {
        TxnRun { judged, levels: Vec::new(), entered: 0, branches: Vec::new() }
    }

    /// Enters the transaction that the walk has just come to.
    pub fn enter(&mut self, walk: &mut Walk<'_>) {
        let succeeded = self.judged[self.entered];
        walk.enter(Taken::Branch(succeeded));
        self.entered += 1;
        self.branches.push(Branch { succeeded, done: Vec::new() });
    }

    /// Leaves a transaction that has run all its operations.
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

    /// The outcome. Panics unless all nested transactions were left.
    pub fn finish(mut self) -> Branch {
        assert!(self.branches.len() == 1, "all nested transactions were left");
        self.branches.pop().expect("there is the whole transaction")
    }
}

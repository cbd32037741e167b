//! Walks through the operations of a transaction, in the order in which they run.
//!
//! The *path* of a transaction consists of the operations in the branch that its comparisons
//! choose, and of those on the paths of nested transactions. A transaction has any number of
//! operations, so a walk may stop between two steps of a command. The [`Level`]s keep its place,
//! and borrow nothing.

use crate::etcd::command::{Op, Txn};

/// Which operations of a transaction a walk visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Those of one branch; true means the first, whose comparisons hold.
    Branch(bool),
    /// Those of both branches, the first branch first.
    Both,
}

/// The place of a walk within one transaction that it has entered: the command's own, or a nested
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    taken: Taken,
    /// The position of the next operation to visit.
    next: usize,
}

/// A walk through a transaction.
pub(crate) struct Walk<'t> {
    root: &'t Txn<'t>,
    levels: Vec<(&'t Txn<'t>, Level)>,
}

/// The next step of a walk.
pub(crate) enum Visit<'t> {
    /// An operation. For a nested transaction, the caller may then call [`Walk::enter`].
    Op(&'t Op<'t>),
    /// The end of the transaction that was entered last.
    End,
}

impl<'t> Walk<'t> {
    /// A walk that continues at these levels. Without levels, it has not entered the transaction
    /// yet.
    pub fn at(root: &'t Txn<'t>, levels: &[Level]) -> Walk<'t> {
        let mut walk = Walk { root, levels: Vec::with_capacity(levels.len().max(1)) };
        for level in levels {
            let txn = walk.ahead();
            walk.levels.push((txn, *level));
        }
        walk
    }

    /// The transaction that may be entered: the root if none was entered, else the nested one that
    /// was visited last. Panics if the last visit was another operation.
    pub fn ahead(&self) -> &'t Txn<'t> {
        let Some((txn, level)) = self.levels.last() else { return self.root };
        match level.next.checked_sub(1).and_then(|last| op(txn, level.taken, last)) {
            Some(Op::Txn(nested)) => nested,
            _ => unreachable!("only a transaction is entered"),
        }
    }

    /// Enters the transaction that [`Walk::ahead`] returns.
    pub fn enter(&mut self, taken: Taken) {
        let txn = self.ahead();
        self.levels.push((txn, Level { taken, next: 0 }));
    }

    /// Moves on by one operation and returns it. `None` at the end of the walk.
    pub fn visit(&mut self) -> Option<Visit<'t>> {
        let (txn, level) = self.levels.last_mut()?;
        match op(txn, level.taken, level.next) {
            Some(op) => {
                level.next += 1;
                Some(Visit::Op(op))
            }
            None => {
                self.levels.pop();
                Some(Visit::End)
            }
        }
    }

    /// Goes back by one operation, so that the next visit returns it again.
    pub fn step_back(&mut self) {
        if let Some((_, level)) = self.levels.last_mut() {
            level.next -= 1;
        }
    }

    /// The place of the walk, for a later [`Walk::at`].
    pub fn levels(&self) -> Vec<Level> {
        self.levels.iter().map(|(_, level)| *level).collect()
    }
}

fn op<'t>(txn: &'t Txn<'t>, taken: Taken, at: usize) -> Option<&'t Op<'t>> {
    match taken {
        Taken::Branch(true) => txn.success.get(at),
        Taken::Branch(false) => txn.failure.get(at),
        Taken::Both => match at.checked_sub(txn.success.len()) {
            None => txn.success.get(at),
            Some(at) => txn.failure.get(at),
        },
    }
}

//! The path of a transaction: the operations of the branches that its comparisons choose, those of
//! nested transactions included.
//!
//! A transaction has any number of operations, so a walk along its path can stop between two steps
//! of a command. What is kept until then, [`Level`]s, borrows nothing.

use crate::etcd::command::{Op, Txn};

/// The operations of a transaction that a walk visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The operations of one branch: of the first if the comparisons hold.
    Branch(bool),
    /// All operations, the first branch before the other.
    Both,
}

/// The place of a walk in one of the transactions that it is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Level {
    taken: Taken,
    /// The position of the next operation.
    next: usize,
}

/// A walk along the path of a transaction, in the order in which its operations run.
pub(crate) struct Walk<'t> {
    root: &'t Txn<'t>,
    levels: Vec<(&'t Txn<'t>, Level)>,
}

/// What a walk comes to.
pub(crate) enum Visit<'t> {
    /// An operation. A nested transaction is visited before the caller enters it.
    Op(&'t Op<'t>),
    /// The end of the transaction that was entered last.
    End,
}

impl<'t> Walk<'t> {
    /// A walk that goes on at these levels; none before the transaction is entered.
    pub fn at(root: &'t Txn<'t>, levels: &[Level]) -> Walk<'t> {
        let mut walk = Walk { root, levels: Vec::with_capacity(levels.len().max(1)) };
        for level in levels {
            let txn = walk.ahead();
            walk.levels.push((txn, *level));
        }
        walk
    }

    /// The transaction that may be entered: the whole one, or the nested one that was visited last.
    pub fn ahead(&self) -> &'t Txn<'t> {
        let Some((txn, level)) = self.levels.last() else { return self.root };
        match level.next.checked_sub(1).and_then(|last| op(txn, level.taken, last)) {
            Some(Op::Txn(nested)) => nested,
            _ => unreachable!("only a transaction is entered"),
        }
    }

    /// Enters the transaction that is ahead.
    pub fn enter(&mut self, taken: Taken) {
        let txn = self.ahead();
        self.levels.push((txn, Level { taken, next: 0 }));
    }

    /// Visits the next operation. None at the end of the walk.
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

    /// Goes back by the operation that was visited last: it is visited again.
    pub fn step_back(&mut self) {
        if let Some((_, level)) = self.levels.last_mut() {
            level.next -= 1;
        }
    }

    /// The place of the walk, for [`Walk::at`].
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

//! Reading by a transaction that has no writes, in steps. All steps read at one revision. If that
//! is compacted meanwhile, the read begins anew; only a range that names a revision is refused as
//! compacted then.

use crate::etcd::budget::Budget;
use crate::etcd::command::{Op, RangeOp, Txn};
use crate::etcd::path::{Level, Taken, Visit, Walk};
use crate::etcd::range::RangeRead;
use crate::etcd::reply::{Branch, OpDone, Refusal, TxnDone};
use crate::etcd::run::begin_read;
use crate::etcd::store::Store;
use crate::etcd::txn_state::{Checking, Judging};
use crate::limits::{ETCD_ANSWER_ITEM_WEIGHT, ETCD_ANSWER_WEIGHT_MAX};

/// A transaction without writes that is being read.
#[derive(Debug)]
pub struct TxnRead {
    /// The revision; none before the first step.
    at: Option<i64>,
    judging: Judging,
    /// None while comparisons are judged.
    checking: Option<Checking>,
    is_checked: bool,
    levels: Vec<Level>,
    entered: usize,
    /// The outcomes so far, of the transactions that are not done.
    branches: Vec<Branch>,
    /// The range that is being read.
    read: Option<RangeRead>,
    weight_left: u64,
}

impl Default for TxnRead {
    fn default() -> TxnRead {
        TxnRead {
            at: None,
            judging: Judging::default(),
            checking: None,
            is_checked: false,
            levels: Vec::new(),
            entered: 0,
            branches: Vec::new(),
            read: None,
            weight_left: ETCD_ANSWER_WEIGHT_MAX,
        }
    }
}

impl Store {
    /// Reads a transaction without writes at once.
    ///
    /// # Errors
    /// As of [`Store::txn_read_step`].
    pub fn read_txn(&self, txn: &Txn<'_>) -> Result<TxnDone, Refusal> {
        let mut read = TxnRead::default();
        let is_done = self.txn_read_step(txn, &mut read, &mut u64::MAX.clone())?;
        assert!(is_done, "a step without a bound is whole");
        Ok(read.finish())
    }

    /// Goes on reading a transaction that has no writes, looks at up to `keys_left` keys, and takes
    /// them off it. Whether it is done; then [`TxnRead::finish`] has the result.
    ///
    /// # Errors
    /// A range is at a revision that is compacted, or above the store's. What is found is larger
    /// than an answer may be.
    pub fn txn_read_step(
        &self,
        txn: &Txn<'_>,
        read: &mut TxnRead,
        keys_left: &mut u64,
    ) -> Result<bool, Refusal> {
        let mut budget = Budget::new(*keys_left);
        if read.at.is_some_and(|at| at < self.compacted) {
            *read = TxnRead::default();
        }
        let done = self.read_on(txn, read, &mut budget);
        *keys_left = budget.keys_left;
        done
    }

    fn read_on(
        &self,
        txn: &Txn<'_>,
        read: &mut TxnRead,
        budget: &mut Budget,
    ) -> Result<bool, Refusal> {
        let at = *read.at.get_or_insert(self.revision);
        if read.checking.is_none() {
            if !self.judge_step(txn, &mut read.judging, at, budget)? {
                return Ok(false);
            }
            read.checking = Some(Checking::default());
        }
        if let Some(checking) = &mut read.checking
            && !read.is_checked
        {
            read.is_checked = self.check_step(txn, &read.judging.judged, checking, at, budget)?;
            if !read.is_checked {
                return Ok(false);
            }
        }
        self.read_ranges(txn, read, at, budget)
    }

    fn read_ranges(
        &self,
        txn: &Txn<'_>,
        read: &mut TxnRead,
        at: i64,
        budget: &mut Budget,
    ) -> Result<bool, Refusal> {
        let mut walk = Walk::at(txn, &read.levels);
        if read.entered == 0 {
            read.enter(&mut walk);
        }
        while budget.spend_visit() {
            match walk.visit() {
                None => return Ok(true),
                Some(Visit::End) => read.leave(),
                Some(Visit::Op(Op::Txn(_))) => read.enter(&mut walk),
                Some(Visit::Op(Op::Range(range))) => {
                    if !self.read_range(range, read, at, budget)? {
                        walk.step_back();
                        break;
                    }
                }
                Some(Visit::Op(Op::Put(_) | Op::DeleteRange(_))) => {
                    unreachable!("the caller has seen that the transaction has no writes")
                }
            }
        }
        read.levels = walk.levels();
        Ok(false)
    }

    /// Goes on with a range. Whether it is done.
    fn read_range(
        &self,
        range: &RangeOp<'_>,
        read: &mut TxnRead,
        at: i64,
        budget: &mut Budget,
    ) -> Result<bool, Refusal> {
        if read.read.is_none() && !budget.spend_key() {
            return Ok(false);
        }
        let ranged = read.read.get_or_insert_with(|| begin_read(range, at));
        let held = ranged.held_weight();
        let is_walked = self.range_step(range, ranged, &mut budget.keys_left)?;
        let more = ranged.held_weight().saturating_sub(held);
        read.weight_left = read.weight_left.checked_sub(more).ok_or(Refusal::AnswerTooLarge)?;
        if !is_walked || !ranged.sort_step(range, &mut budget.keys_left) {
            return Ok(false);
        }
        if let Some(ranged) = read.read.take() {
            read.push(OpDone::Range(ranged.finish(range)))?;
        }
        Ok(true)
    }
}

impl TxnRead {
    fn enter(&mut self, walk: &mut Walk<'_>) {
        let succeeded = self.judging.judged[self.entered];
        walk.enter(Taken::Branch(succeeded));
        self.entered += 1;
        self.branches.push(Branch { succeeded, done: Vec::new() });
    }

    fn leave(&mut self) {
        if self.branches.len() > 1
            && let Some(branch) = self.branches.pop()
            && let Some(above) = self.branches.last_mut()
        {
            above.done.push(OpDone::Txn(branch));
        }
    }

    fn push(&mut self, done: OpDone) -> Result<(), Refusal> {
        let left = self.weight_left.checked_sub(ETCD_ANSWER_ITEM_WEIGHT);
        self.weight_left = left.ok_or(Refusal::AnswerTooLarge)?;
        if let Some(branch) = self.branches.last_mut() {
            branch.done.push(done);
        }
        Ok(())
    }

    /// The result of a read that is done.
    pub fn finish(mut self) -> TxnDone {
        assert!(self.branches.len() == 1, "all nested transactions were left");
        let branch = self.branches.pop().expect("there is the whole transaction");
        TxnDone { revision: self.at.expect("a read that is done was begun"), branch }
    }
}

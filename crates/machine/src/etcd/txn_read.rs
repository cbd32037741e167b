//! Runs a transaction that has no writes, as a read: in steps, between which the state's lock is
//! released.
//!
//! All steps read at one revision, the store's revision at the first step. If this revision is
//! compacted meanwhile, the read starts again at the new one. A range of the transaction may name
//! an older revision; if this one is compacted meanwhile, the read starts again too, because at the
//! store's new revision the comparisons may choose the other branch.

use crate::etcd::budget::Budget;
use crate::etcd::command::{Op, RangeOp, Txn};
use crate::etcd::path::{Visit, Walk};
use crate::etcd::paused::TxnRun;
use crate::etcd::range::RangeRead;
use crate::etcd::reply::{Found, OpDone, Refusal, TxnDone};
use crate::etcd::run::begin_read;
use crate::etcd::store::Store;
use crate::etcd::txn_state::{Checking, Judging};
use crate::limits::{ETCD_ANSWER_ITEM_WEIGHT, ETCD_ANSWER_WEIGHT_MAX};

/// How far the run of a transaction without writes has come.
#[derive(Debug)]
pub struct TxnRead {
    /// The store's revision, and its compacted revision, at the first step; `None` before.
    at: Option<(i64, i64)>,
    judging: Judging,
    /// The checks of the operations; `None` while the comparisons are judged.
    checking: Option<Checking>,
    /// The operations that have run; `None` until all are checked.
    run: Option<TxnRun>,
    /// The read of the present range; `None` between two ranges.
    read: Option<RangeRead>,
    weight_left: u64,
}

impl Default for TxnRead {
    fn default() -> TxnRead {
        TxnRead {
            at: None,
            judging: Judging::default(),
            checking: None,
            run: None,
            read: None,
            weight_left: ETCD_ANSWER_WEIGHT_MAX,
        }
    }
}

impl Store {
    /// Reads with a transaction in one step. The transaction must have no writes.
    ///
    /// # Errors
    /// As for [`Store::txn_read_step`].
    pub fn read_txn(&self, txn: &Txn<'_>) -> Result<TxnDone, Refusal> {
        let mut read = TxnRead::default();
        let is_done = self.txn_read_step(txn, &mut read, &mut u64::MAX.clone())?;
        assert!(is_done, "a step without a bound is whole");
        Ok(read.finish())
    }

    /// Does one step of a read: looks at up to `keys_left` keys, and subtracts their number from
    /// `keys_left`. True when the read is done; [`TxnRead::finish`] then has the result.
    ///
    /// # Errors
    /// A range names a revision that is compacted, or above the store's; or the result is larger
    /// than an answer may be.
    pub fn txn_read_step(
        &self,
        txn: &Txn<'_>,
        read: &mut TxnRead,
        keys_left: &mut u64,
    ) -> Result<bool, Refusal> {
        let mut budget = Budget::new(*keys_left);
        if read.at.is_some_and(|(at, _)| at < self.compacted) {
            *read = TxnRead::default();
        }
        let done = self.read_on(txn, read, &mut budget);
        *keys_left = budget.keys_left;
        let is_older = read.at.is_some_and(|(_, compacted)| compacted < self.compacted);
        if is_older && done == Err(Refusal::Compacted) {
            *read = TxnRead::default();
            return Ok(false);
        }
        done
    }

    fn read_on(
        &self,
        txn: &Txn<'_>,
        read: &mut TxnRead,
        budget: &mut Budget,
    ) -> Result<bool, Refusal> {
        let (at, _) = *read.at.get_or_insert((self.revision, self.compacted));
        if read.checking.is_none() {
            if !self.judge_step(txn, &mut read.judging, at, budget)? {
                return Ok(false);
            }
            read.checking = Some(Checking::default());
        }
        let mut run = match read.run.take() {
            Some(run) => run,
            None => {
                let checking = read.checking.get_or_insert_default();
                if !self.check_step(txn, &read.judging.judged, checking, at, budget)? {
                    return Ok(false);
                }
                TxnRun::new(core::mem::take(&mut read.judging.judged))
            }
        };
        let is_done = self.read_ranges(txn, read, &mut run, budget);
        read.run = Some(run);
        is_done
    }

    fn read_ranges(
        &self,
        txn: &Txn<'_>,
        read: &mut TxnRead,
        run: &mut TxnRun,
        budget: &mut Budget,
    ) -> Result<bool, Refusal> {
        let mut walk = Walk::at(txn, &run.levels);
        if run.entered == 0 {
            run.enter(&mut walk);
        }
        while budget.spend_visit() {
            match walk.visit() {
                None => return Ok(true),
                Some(Visit::End) => run.leave(),
                Some(Visit::Op(Op::Txn(_))) => run.enter(&mut walk),
                Some(Visit::Op(Op::Range(range))) => {
                    let Some(found) = self.read_range(range, read, budget)? else {
                        walk.step_back();
                        break;
                    };
                    run.push(OpDone::Range(found));
                }
                Some(Visit::Op(Op::Put(_) | Op::DeleteRange(_))) => {
                    unreachable!("the caller has seen that the transaction has no writes")
                }
            }
        }
        run.levels = walk.levels();
        Ok(false)
    }

    /// Continues the read of a range. Returns the result when it is done, else `None`.
    fn read_range(
        &self,
        range: &RangeOp<'_>,
        read: &mut TxnRead,
        budget: &mut Budget,
    ) -> Result<Option<Found>, Refusal> {
        if read.read.is_none() && !budget.spend_key() {
            return Ok(None);
        }
        let at = read.at.map_or(self.revision, |(at, _)| at);
        let ranged = read.read.get_or_insert_with(|| begin_read(range, at));
        let held = ranged.held_weight();
        let is_walked = self.range_step(range, ranged, &mut budget.keys_left)?;
        let more = ranged.held_weight().saturating_sub(held);
        read.weight_left = read.weight_left.checked_sub(more).ok_or(Refusal::AnswerTooLarge)?;
        if !is_walked || !ranged.sort_step(range, &mut budget.keys_left) {
            return Ok(None);
        }
        let left = read.weight_left.checked_sub(ETCD_ANSWER_ITEM_WEIGHT);
        read.weight_left = left.ok_or(Refusal::AnswerTooLarge)?;
        Ok(read.read.take().map(|ranged| ranged.finish(range)))
    }
}

impl TxnRead {
    /// The result. Panics unless the read is done.
    pub fn finish(self) -> TxnDone {
        let run = self.run.expect("a read that is done has run its operations");
        let (at, _) = self.at.expect("a read that is done was begun");
        TxnDone { revision: at, branch: run.finish() }
    }
}

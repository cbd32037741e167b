//! The first two of the three parts of a transaction, in steps: its comparisons are judged, and
//! then the operations that they choose are checked. Neither part changes the store.

use core::cmp::Ordering;
use std::collections::BTreeSet;
use std::ops::Bound;

use crate::etcd::budget::Budget;
use crate::etcd::command::{Compare, CompareTarget, KeyRange, Op, Put, RangeOp, Relation, Txn};
use crate::etcd::event::Event;
use crate::etcd::path::{Taken, Visit, Walk};
use crate::etcd::reply::Refusal;
use crate::etcd::store::Store;
use crate::etcd::txn_state::{Checking, Compares, Judging};
use crate::ids::LeaseId;

impl Store {
    /// Continues to judge comparisons, on the state at a revision. True when all on the path are
    /// judged.
    ///
    /// # Errors
    /// The revision was compacted.
    pub(crate) fn judge_step(
        &self,
        txn: &Txn<'_>,
        judging: &mut Judging,
        at: i64,
        budget: &mut Budget,
    ) -> Result<bool, Refusal> {
        if at < self.compacted {
            return Err(Refusal::Compacted);
        }
        let mut walk = Walk::at(txn, &judging.levels);
        loop {
            if let Some(compares) = &mut judging.compares {
                let Some(holds) = self.hold_step(walk.ahead(), compares, at, budget) else { break };
                judging.judged.push(holds);
                judging.compares = None;
                walk.enter(Taken::Branch(holds));
            }
            if !budget.spend_visit() {
                break;
            }
            match walk.visit() {
                None => return Ok(true),
                Some(Visit::Op(Op::Txn(_))) => judging.compares = Some(Compares::default()),
                Some(_) => {}
            }
        }
        judging.levels = walk.levels();
        Ok(false)
    }

    /// Continues to judge the comparisons of one transaction. Returns whether all hold; `None` if
    /// the step may look at no more keys.
    fn hold_step(
        &self,
        txn: &Txn<'_>,
        compares: &mut Compares,
        at: i64,
        budget: &mut Budget,
    ) -> Option<bool> {
        while let Some(compare) = txn.compares.get(compares.next) {
            if compares.from.is_none() && !budget.spend_key() {
                return None;
            }
            if !self.holds(compare, compares, at, budget)? {
                return Some(false);
            }
            *compares = Compares { next: compares.next + 1, ..Compares::default() };
        }
        Some(true)
    }

    /// Whether a comparison holds for every key of its range; `None` if the step may look at no
    /// more keys. If the range has no keys, the fields count as 0, and a comparison of values does
    /// not hold (`txn.applyCompare`).
    fn holds(
        &self,
        compare: &Compare<'_>,
        compares: &mut Compares,
        at: i64,
        budget: &mut Budget,
    ) -> Option<bool> {
        if compare.range.end.is_empty() {
            // The caller has taken one key from the budget.
            return Some(holds_for(compare, self.index.at(compare.range.key, at)));
        }
        let key = compares.from.as_deref().unwrap_or(compare.range.key);
        let rest = KeyRange { key, end: compare.range.end };
        let mut holds = true;
        let next = self.index.visit(rest, at, &mut budget.keys_left, |event| {
            compares.has_keys = true;
            holds = holds_for(compare, Some(event));
            holds
        });
        if !holds {
            return Some(false);
        }
        if next.is_some() {
            compares.from = next;
            return None;
        }
        Some(compares.has_keys || holds_for(compare, None))
    }

    /// Continues to check the operations on a path, on the state before the transaction
    /// (`txn.checkTxn`), whose revision is `at`. For a transaction that only reads, the store's
    /// revision may be higher by now. True when all are checked.
    ///
    /// # Errors
    /// An operation is refused.
    pub(crate) fn check_step(
        &self,
        txn: &Txn<'_>,
        judged: &[bool],
        checking: &mut Checking,
        at: i64,
        budget: &mut Budget,
    ) -> Result<bool, Refusal> {
        while checking.present.is_none() {
            let check =
                |op: &Op<'_>, checking: &mut Checking| self.check(op, at, &mut checking.kept);
            if !walk_step(txn, judged, checking, budget, check)? {
                return Ok(false);
            }
            if checking.kept.is_empty() {
                return Ok(true);
            }
            let kept = core::mem::take(&mut checking.kept);
            *checking = Checking { present: Some(kept.clone()), kept, ..Checking::default() };
        }
        walk_step(txn, judged, checking, budget, check_present)
    }

    /// Checks an operation. Notes its key if it is a put that keeps the key's value or lease.
    fn check(&self, op: &Op<'_>, at: i64, kept: &mut BTreeSet<Box<[u8]>>) -> Result<(), Refusal> {
        match op {
            Op::Range(range) => self.check_revision(range, at),
            Op::Put(put) => {
                self.check_put(put)?;
                self.check_lease(put)?;
                if is_kept(put) {
                    kept.insert(put.key.into());
                }
                Ok(())
            }
            Op::DeleteRange(_) | Op::Txn(_) => Ok(()),
        }
    }

    /// Refuses a read at a revision that is compacted, or above `current`.
    pub(crate) fn check_revision(&self, range: &RangeOp<'_>, current: i64) -> Result<(), Refusal> {
        match range.revision {
            0 => Ok(()),
            revision if revision > current => Err(Refusal::FutureRevision),
            revision if revision < self.compacted => Err(Refusal::Compacted),
            _ => Ok(()),
        }
    }

    /// Refuses a put that names a lease which does not exist.
    pub(crate) fn check_lease(&self, put: &Put<'_>) -> Result<(), Refusal> {
        match put.lease == 0 || self.leases.get(LeaseId(put.lease)).is_some() {
            true => Ok(()),
            false => Err(Refusal::LeaseNotFound),
        }
    }

    /// Refuses a put that keeps the key's value or lease if the key does not exist before the
    /// transaction. A key that the transaction itself creates does not count.
    pub(crate) fn check_put(&self, put: &Put<'_>) -> Result<(), Refusal> {
        let is_there = || self.index.newest(put.key).is_some();
        match is_kept(put) && !is_there() {
            true => Err(Refusal::KeyNotFound),
            false => Ok(()),
        }
    }
}

/// Continues a walk along the path, and passes each operation to `check`. True when the walk is
/// done.
fn walk_step(
    txn: &Txn<'_>,
    judged: &[bool],
    checking: &mut Checking,
    budget: &mut Budget,
    check: impl Fn(&Op<'_>, &mut Checking) -> Result<(), Refusal>,
) -> Result<bool, Refusal> {
    let mut walk = Walk::at(txn, &checking.levels);
    if checking.entered == 0 {
        walk.enter(Taken::Branch(judged[0]));
        checking.entered = 1;
    }
    loop {
        if !budget.spend_visit() {
            checking.levels = walk.levels();
            return Ok(false);
        }
        match walk.visit() {
            None => return Ok(true),
            Some(Visit::Op(op)) => {
                check(op, checking)?;
                if let Op::Txn(_) = op {
                    walk.enter(Taken::Branch(judged[checking.entered]));
                    checking.entered += 1;
                }
            }
            Some(Visit::End) => {}
        }
    }
}

/// Refuses a put that keeps the key's value or lease if the transaction has deleted the key before.
/// etcd has no such check, and crashes in this case, so this check comes after all checks that etcd
/// has. A delete looks only at keys that it removes from `present`, and a put adds at most one key
/// to `present`. So the cost of all deletes together grows with the number of puts, and not with
/// deletes times puts.
fn check_present(op: &Op<'_>, checking: &mut Checking) -> Result<(), Refusal> {
    let Checking { kept, present, .. } = checking;
    let present = present.get_or_insert_default();
    match op {
        Op::Put(put) if is_kept(put) && !present.contains(put.key) => Err(Refusal::KeyNotFound),
        Op::Put(put) => {
            if kept.contains(put.key) {
                present.insert(put.key.into());
            }
            Ok(())
        }
        Op::DeleteRange(delete) => {
            let from =
                present.range::<[u8], _>((Bound::Included(delete.range.key), Bound::Unbounded));
            let deleted: Vec<_> =
                from.take_while(|key| delete.range.contains(key)).cloned().collect();
            for key in deleted {
                present.remove(&key);
            }
            Ok(())
        }
        Op::Range(_) | Op::Txn(_) => Ok(()),
    }
}

/// Whether a put keeps the key's value or lease.
fn is_kept(put: &Put<'_>) -> bool {
    put.ignore_value || put.ignore_lease
}

fn holds_for(compare: &Compare<'_>, event: Option<&Event>) -> bool {
    let number = |operand: i64, of: fn(&Event) -> i64| event.map_or(0, of).cmp(&operand);
    let ordering = match compare.target {
        CompareTarget::Version(operand) => number(operand, |event| event.numbers().version),
        CompareTarget::Create(operand) => number(operand, |event| event.numbers().create_revision),
        CompareTarget::Mod(operand) => number(operand, Event::revision),
        CompareTarget::Lease(operand) => number(operand, |event| event.numbers().lease),
        CompareTarget::Value(operand) => match event {
            Some(event) => event.value().cmp(operand),
            None => return false,
        },
    };
    match compare.relation {
        Relation::Equal => ordering == Ordering::Equal,
        Relation::Greater => ordering == Ordering::Greater,
        Relation::Less => ordering == Ordering::Less,
        Relation::NotEqual => ordering != Ordering::Equal,
    }
}

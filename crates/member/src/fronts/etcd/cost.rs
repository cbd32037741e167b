//! Counts what a transaction costs, before the transaction is logged or read. The cost is the
//! number of keys that all its operations but the largest look at. A transaction that costs more
//! than [`ETCD_TXN_KEYS_MAX`] is refused.
//!
//! The count comes from the index, so it takes the state's lock and goes in steps. It is an
//! estimate: the index also counts removed keys that are not pruned yet, and the state may change
//! before the transaction is applied. Apply does not count again: it is safe for any transaction.
//!
//! | operation | keys |
//! | --- | --- |
//! | on one key, or a count | 1 |
//! | a comparison or a removal of a range | all keys of the range |
//! | a read with an order or with bounds of revisions | all keys of the range |
//! | another read | all keys of the range; with a limit, up to one more than the limit |
//!
//! Both branches count, and so do nested transactions. The largest operation does not count: as a
//! call of its own it would never be refused for its cost, so a transaction is not refused for it
//! either.

use bytes::Bytes;
use machine::etcd::Store;
use machine::etcd::command::{KeyRange, Op, RangeOp, Txn};
use machine::etcd::range::is_plain;

use crate::fronts::etcd::limits::{ETCD_COUNT_COST_KEYS, ETCD_TXN_KEYS_MAX};

/// The cost of a transaction while it is counted.
#[derive(Debug, Default)]
pub(super) struct Cost {
    /// Ranges whose keys are counted in the index.
    ranges: Vec<Ranged>,
    /// The position in `ranges` of the next one to count.
    next: usize,
    sum: Sum,
    /// The most versions that the transaction's reads can find.
    found_max: u64,
}

/// The range of an operation.
#[derive(Debug)]
struct Ranged {
    key: Bytes,
    end: Bytes,
    /// The most keys that the operation looks at, however many the range has.
    keys_max: u64,
    is_read: bool,
}

/// How many keys the operations look at, as counted so far.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    all: u64,
    /// The keys of the largest single operation.
    largest: u64,
}

impl Sum {
    fn add(&mut self, keys: u64) {
        self.all = self.all.saturating_add(keys);
        self.largest = self.largest.max(keys);
    }

    fn is_too_large(self) -> bool {
        self.all - self.largest > ETCD_TXN_KEYS_MAX
    }
}

/// How one step of counting ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// The count goes on in another hold of the lock.
    More,
    /// The transaction may run. Its reads find at most this many versions.
    Within(u64),
    /// The transaction looks at too many keys.
    TooMany,
}

impl Cost {
    /// Begins a count. The caller has checked the transaction's form.
    pub fn of(txn: &Txn<'_>) -> Cost {
        let mut cost = Cost::default();
        cost.add(txn);
        cost
    }

    /// Whether the transaction may run without a count in the index: it has at most one range of
    /// unknown size, and that range is its largest operation or costs too little to matter.
    pub fn is_small(&self) -> bool {
        self.ranges.len() <= 1 && self.sum.all <= ETCD_TXN_KEYS_MAX
    }

    fn add(&mut self, txn: &Txn<'_>) {
        for compare in &txn.compares {
            self.add_range(compare.range, u64::MAX, false);
        }
        for op in txn.success.iter().chain(&txn.failure) {
            match op {
                Op::Range(range) => {
                    self.add_range(range.range, keys_max(range), !range.count_only);
                }
                Op::Put(_) => self.sum.add(1),
                Op::DeleteRange(delete) => {
                    self.add_range(delete.range, u64::MAX, false);
                }
                Op::Txn(txn) => self.add(txn),
            }
        }
    }

    fn add_range(&mut self, range: KeyRange<'_>, keys_max: u64, is_read: bool) {
        if range.end.is_empty() || keys_max <= 1 {
            self.sum.add(1);
            self.found_max += u64::from(is_read);
            return;
        }
        let (key, end) = (Bytes::copy_from_slice(range.key), Bytes::copy_from_slice(range.end));
        self.ranges.push(Ranged { key, end, keys_max, is_read });
    }

    /// Counts further. Subtracts what the lookups in the index cost from `keys_left`.
    pub fn step(&mut self, store: &Store, keys_left: &mut u64) -> Counted {
        while let Some(ranged) = self.ranges.get(self.next) {
            if self.sum.is_too_large() {
                return Counted::TooMany;
            }
            if *keys_left == 0 {
                return Counted::More;
            }
            *keys_left = keys_left.saturating_sub(ETCD_COUNT_COST_KEYS);
            let range = KeyRange { key: &ranged.key, end: &ranged.end };
            let keys = store.key_count_of(range).min(ranged.keys_max).max(1);
            self.sum.add(keys);
            self.found_max = self.found_max.saturating_add(if ranged.is_read { keys } else { 0 });
            self.next += 1;
        }
        match self.sum.is_too_large() {
            true => Counted::TooMany,
            false => Counted::Within(self.found_max),
        }
    }
}

/// The most keys that a read looks at if its range has enough keys.
fn keys_max(op: &RangeOp<'_>) -> u64 {
    match u64::try_from(op.limit) {
        _ if op.count_only => 1,
        Ok(limit @ 1..) if is_plain(op) => limit.saturating_add(1),
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests;

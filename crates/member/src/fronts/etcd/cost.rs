//! What a transaction may cost is counted before it is logged or read: the keys that it looks at.
//!
//! The count comes from the index, so it takes the state's lock and goes in steps. It is an
//! estimate: the index counts keys that were removed and are not pruned yet, and the state may
//! change before the transaction is applied. Apply never repeats it; Apply is safe for any
//! transaction.
//!
//! | operation | keys |
//! | --- | --- |
//! | on one key, or a count | 1 |
//! | a comparison or a removal of a range | all keys of the range |
//! | a read with an order or with bounds of revisions | all keys of the range |
//! | another read | up to one more than its limit |
//!
//! Both branches count, with the transactions nested in them. The largest single operation does
//! not: a lone one is never refused for its cost, so it is not refused in a transaction either.

use bytes::Bytes;
use machine::etcd::Store;
use machine::etcd::command::{KeyRange, Op, RangeOp, Txn};
use machine::etcd::range::is_plain;

use crate::fronts::etcd::limits::{ETCD_COUNT_COST_KEYS, ETCD_TXN_KEYS_MAX};

/// The cost of a transaction while it is counted.
#[derive(Debug, Default)]
pub(super) struct Cost {
    /// The ranges that are to be looked up in the index.
    ranges: Vec<Ranged>,
    /// The position of the next one.
    next: usize,
    sum: Sum,
    /// The most versions that its reads can find.
    found_max: u64,
}

/// A range of an operation.
#[derive(Debug)]
struct Ranged {
    key: Bytes,
    end: Bytes,
    /// The most keys that it looks at.
    keys_max: u64,
    is_read: bool,
}

/// Keys that operations look at.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    all: u64,
    /// The largest single operation.
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

/// How a step of a count ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    /// It goes on in another hold.
    More,
    /// The transaction may be run. Its reads find at most this many versions.
    Within(u64),
    /// It looks at too many keys.
    TooMany,
}

impl Cost {
    /// Begins to count. The caller has checked the transaction's form.
    pub fn of(txn: &Txn<'_>) -> Cost {
        let mut cost = Cost::default();
        cost.add(txn);
        cost
    }

    /// Whether the transaction may be run, whatever the index says: it has one range at most.
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

    /// Goes on, and takes what it costs to look ranges up off `keys_left`.
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

/// The most keys that a read looks at, if its range has enough.
fn keys_max(op: &RangeOp<'_>) -> u64 {
    match u64::try_from(op.limit) {
        _ if op.count_only => 1,
        Ok(limit @ 1..) if is_plain(op) => limit.saturating_add(1),
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests;

//! Refuses a transaction that puts a key which it also puts or deletes elsewhere (`checkIntervals`
//! in `server/etcdserver/api/v3rpc/key.go`).
//!
//! The check goes through a list of operations in this order: the list's deletes; its nested
//! transactions, one after the other, each with everything in it; its puts. It refuses a put of a
//! key that an operation earlier in this order puts or deletes. So a nested put may share its key
//! with a delete in a later nested transaction, as in etcd. The two branches of a transaction never
//! both run, so they may share keys; and two deletes may always share keys.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;

use machine::etcd::command::{KeyRange, Op, Txn};

use crate::Error;

/// Checks each branch of a transaction by itself.
pub fn check(txn: &Txn<'_>) -> Result<(), Error> {
    Touched::of(&txn.success)?;
    Touched::of(&txn.failure)?;
    Ok(())
}

/// The keys that a list of operations puts, and the ranges that it deletes.
#[derive(Default)]
struct Touched<'a> {
    puts: BTreeSet<&'a [u8]>,
    deletes: Ranges<'a>,
}

impl<'a> Touched<'a> {
    /// The keys that a list touches, or an error if a put shares its key with another operation as
    /// the module's head describes. Recursion goes as deep as the transaction, whose depth is
    /// bounded.
    fn of(ops: &[Op<'a>]) -> Result<Touched<'a>, Error> {
        let mut touched = Touched::default();
        for op in ops {
            if let Op::DeleteRange(delete) = op {
                touched.deletes.add(delete.range);
            }
        }
        for op in ops {
            if let Op::Txn(txn) = op {
                touched.add_nested(Touched::of(&txn.success)?, Touched::of(&txn.failure)?)?;
            }
        }
        for op in ops {
            if let Op::Put(put) = op {
                touched.check_put(put.key)?;
                touched.puts.insert(put.key);
            }
        }
        Ok(touched)
    }

    fn check_put(&self, key: &[u8]) -> Result<(), Error> {
        let touched = self.puts.contains(key) || self.deletes.contain(key);
        if touched { Err(Error::DuplicateKey) } else { Ok(()) }
    }

    /// Adds the keys that the two branches of a nested transaction touch.
    fn add_nested(&mut self, success: Touched<'a>, failure: Touched<'a>) -> Result<(), Error> {
        for key in success.puts.iter().chain(&failure.puts) {
            self.check_put(key)?;
        }
        for branch in [success, failure] {
            let mut puts = branch.puts;
            if puts.len() > self.puts.len() {
                mem::swap(&mut puts, &mut self.puts);
            }
            self.puts.extend(puts);
            self.deletes.add_all(branch.deletes);
        }
        Ok(())
    }
}

/// A set of ranges of keys. A range does not contain its end. The end `\0`, which elsewhere means
/// the end of all keys, has no special meaning: as in etcd, such a delete counts here as a delete
/// of nothing.
#[derive(Default)]
struct Ranges<'a> {
    /// Ranges of a single key.
    keys: BTreeSet<&'a [u8]>,
    /// All other ranges, as start to end. No two of them overlap.
    ends: BTreeMap<&'a [u8], &'a [u8]>,
}

impl<'a> Ranges<'a> {
    fn contain(&self, key: &[u8]) -> bool {
        let before = self.ends.range(..=key).next_back();
        self.keys.contains(key) || before.is_some_and(|(_, end)| key < *end)
    }

    fn add(&mut self, range: KeyRange<'a>) {
        if range.end.is_empty() {
            self.keys.insert(range.key);
        } else if range.key < range.end {
            self.add_range(range.key, range.end);
        }
    }

    /// Adds a range that is not empty, and merges it with the ranges that it overlaps or touches.
    fn add_range(&mut self, mut start: &'a [u8], mut end: &'a [u8]) {
        if let Some((before, its_end)) = self.ends.range(..=start).next_back()
            && *its_end >= start
        {
            start = before;
            end = end.max(its_end);
        }
        while let Some((after, its_end)) = self.ends.range(start..=end).next() {
            let (after, its_end) = (*after, *its_end);
            end = end.max(its_end);
            self.ends.remove(after);
        }
        self.ends.insert(start, end);
    }

    fn add_all(&mut self, mut other: Ranges<'a>) {
        if other.keys.len() > self.keys.len() {
            mem::swap(&mut other.keys, &mut self.keys);
        }
        if other.ends.len() > self.ends.len() {
            mem::swap(&mut other.ends, &mut self.ends);
        }
        self.keys.extend(other.keys);
        for (start, end) in other.ends {
            self.add_range(start, end);
        }
    }
}

#[cfg(test)]
mod tests;

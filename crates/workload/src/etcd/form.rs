//! The checks that a server makes on a call before it enters the log, in etcd's order
//! (`server/etcdserver/api/v3rpc/key.go`, etcd 3.6.16).
//!
//! A call that fails a check never enters the log. Compactions and calls about leases have no such
//! checks.

use std::collections::BTreeSet;

use crate::etcd::op::{DeleteRange, Error, Op, Put, Txn, TxnOp};

/// The most operations, or conditions, of one transaction (default of `--max-txn-ops`). A
/// transaction inside another may have as many as the outer one leaves.
pub const TXN_OPS_MAX: usize = 128;

/// Checks a call before it enters the log.
///
/// # Errors
/// The error that etcd would give first.
pub fn check(op: &Op) -> Result<(), Error> {
    match op {
        Op::Range(range) => check_key(&range.key),
        Op::Put(put) => check_put(put),
        Op::DeleteRange(delete) => check_key(&delete.key),
        Op::Compact(_) | Op::Lease(_) => Ok(()),
        Op::Txn(txn) => {
            check_txn(txn, TXN_OPS_MAX)?;
            touched(&txn.success)?;
            touched(&txn.failure)?;
            Ok(())
        }
    }
}

fn check_key(key: &[u8]) -> Result<(), Error> {
    if key.is_empty() { Err(Error::EmptyKey) } else { Ok(()) }
}

fn check_put(put: &Put) -> Result<(), Error> {
    check_key(&put.key)?;
    if put.ignore_value && !put.value.is_empty() {
        return Err(Error::ValueProvided);
    }
    if put.ignore_lease && put.lease != 0 {
        return Err(Error::LeaseProvided);
    }
    Ok(())
}

fn check_txn(txn: &Txn, ops_max: usize) -> Result<(), Error> {
    let ops = txn.compares.len().max(txn.success.len()).max(txn.failure.len());
    let Some(left) = ops_max.checked_sub(ops) else { return Err(Error::TooManyOps) };
    txn.compares.iter().try_for_each(|compare| check_key(&compare.key))?;
    txn.branches().try_for_each(|op| match op {
        TxnOp::Range(range) => check_key(&range.key),
        TxnOp::Put(put) => check_put(put),
        TxnOp::DeleteRange(delete) => check_key(&delete.key),
        TxnOp::Txn(txn) => check_txn(txn, left),
        TxnOp::Empty => Err(Error::KeyNotFound),
    })
}

/// The keys that a list of operations puts, and the ranges that it deletes.
#[derive(Default)]
struct Touched<'t> {
    puts: BTreeSet<&'t [u8]>,
    deletes: Vec<&'t DeleteRange>,
}

impl<'t> Touched<'t> {
    /// Adds a put. Refuses a key that is put already, unless it is in `except`, or deleted.
    fn put(&mut self, key: &'t [u8], except: &BTreeSet<&[u8]>) -> Result<(), Error> {
        let is_put_twice = self.puts.contains(key) && !except.contains(key);
        if is_put_twice || self.deletes.iter().any(|delete| deletes(delete, key)) {
            return Err(Error::DuplicateKey);
        }
        self.puts.insert(key);
        Ok(())
    }
}

/// Whether the check counts a key as deleted. etcd's check does not know an open range end: it
/// takes the range for empty (seen on 3.6.16), so such a delete is allowed beside any put.
fn deletes(delete: &DeleteRange, key: &[u8]) -> bool {
    match delete.range_end.as_slice() {
        [] => delete.key == key,
        end => delete.key.as_slice() <= key && key < end,
    }
}

/// Collects what operations touch, and refuses those that touch a key twice (`checkIntervals`).
/// Nested transactions are checked in order: the puts of each against the deletes of earlier ones,
/// but not its deletes against their puts. The two branches of a transaction may put the same key.
fn touched(ops: &[TxnOp]) -> Result<Touched<'_>, Error> {
    let mut all = Touched::default();
    for op in ops {
        let TxnOp::DeleteRange(delete) = op else { continue };
        all.deletes.push(delete);
    }
    for op in ops {
        let TxnOp::Txn(txn) = op else { continue };
        let (success, failure) = (touched(&txn.success)?, touched(&txn.failure)?);
        for key in &success.puts {
            all.put(key, &BTreeSet::new())?;
        }
        for key in &failure.puts {
            all.put(key, &success.puts)?;
        }
        all.deletes.extend(success.deletes);
        all.deletes.extend(failure.deletes);
    }
    for op in ops {
        let TxnOp::Put(put) = op else { continue };
        all.put(&put.key, &BTreeSet::new())?;
    }
    Ok(all)
}

#[cfg(test)]
mod tests;

//! Short constructors of calls and answers for tests.

use crate::etcd::op::{
    Compact, Compare, CompareResult, CompareTarget, DeleteRange, KeyValue, Op, Put, Range, Txn,
    TxnOp,
};

pub fn range(key: &str) -> Range {
    Range { key: key.into(), ..Range::default() }
}

pub fn range_to(key: &str, range_end: &str) -> Range {
    Range { range_end: range_end.into(), ..range(key) }
}

/// A range over all keys.
pub fn all() -> Range {
    range_to("\0", "\0")
}

pub fn put(key: &str, value: &str) -> Put {
    Put { key: key.into(), value: value.into(), ..Put::default() }
}

pub fn delete(key: &str) -> DeleteRange {
    DeleteRange { key: key.into(), ..DeleteRange::default() }
}

pub fn delete_to(key: &str, range_end: &str) -> DeleteRange {
    DeleteRange { range_end: range_end.into(), ..delete(key) }
}

pub fn compact(revision: i64) -> Op {
    Op::Compact(Compact { revision, physical: false })
}

pub fn compare(key: &str, result: CompareResult, target: CompareTarget) -> Compare {
    Compare { key: key.into(), range_end: Vec::new(), result, target }
}

/// A transaction without conditions.
pub fn txn<const N: usize>(success: [TxnOp; N]) -> Txn {
    Txn { success: success.into(), ..Txn::default() }
}

impl From<Range> for Op {
    fn from(range: Range) -> Op {
        Op::Range(range)
    }
}

impl From<Put> for Op {
    fn from(put: Put) -> Op {
        Op::Put(put)
    }
}

impl From<DeleteRange> for Op {
    fn from(delete: DeleteRange) -> Op {
        Op::DeleteRange(delete)
    }
}

impl From<Txn> for Op {
    fn from(txn: Txn) -> Op {
        Op::Txn(txn)
    }
}

impl From<Range> for TxnOp {
    fn from(range: Range) -> TxnOp {
        TxnOp::Range(range)
    }
}

impl From<Put> for TxnOp {
    fn from(put: Put) -> TxnOp {
        TxnOp::Put(put)
    }
}

impl From<DeleteRange> for TxnOp {
    fn from(delete: DeleteRange) -> TxnOp {
        TxnOp::DeleteRange(delete)
    }
}

impl From<Txn> for TxnOp {
    fn from(txn: Txn) -> TxnOp {
        TxnOp::Txn(txn)
    }
}

/// A pair with its creation revision, last revision and version.
pub fn pair(key: &str, value: &str, numbers: [i64; 3]) -> KeyValue {
    let [create_revision, mod_revision, version] = numbers;
    let (key, value) = (key.into(), value.into());
    KeyValue { key, value, create_revision, mod_revision, version, lease: 0 }
}

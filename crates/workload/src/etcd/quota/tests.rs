//! The count against the quota, and the calls that are refused.

use super::*;
use crate::etcd::model::Model;
use crate::etcd::op::Put;
use crate::etcd::short::{compact, delete, put};

/// Checks how many bytes count after these calls.
#[track_caller]
fn check_bytes(ops: &[Op], expected: u64) {
    let mut model = Model::new();
    for op in ops {
        model.apply(op).expect("there is room");
    }
    assert_eq!(model.bytes(), expected, "{ops:?}");
}

#[test]
fn versions_that_can_be_read_count() {
    // A version is one byte for its kind, five numbers of one byte and the length of the key, one
    // byte; key and value come on top.
    let first: Op = put("a", "1").into();
    check_bytes(&[], 0);
    check_bytes(std::slice::from_ref(&first), 9);
    check_bytes(&[put("key", "value").into()], 15);
    check_bytes(&[first.clone(), put("a", "2").into()], 18);
    // A delete has no value, and three numbers less.
    check_bytes(&[first.clone(), delete("a").into()], 14);
    check_bytes(&[first.clone(), put("a", "2").into(), compact(3)], 9);
    // A delete is dropped only by the compaction of a later revision.
    check_bytes(&[first.clone(), delete("a").into(), compact(3)], 5);
    let rest = [put("b", "1").into(), compact(4)];
    check_bytes(&[vec![first, delete("a").into()], rest.to_vec()].concat(), 9);
}

#[test]
fn numbers_take_a_byte_for_each_seven_bits() {
    for (number, bytes) in [(0, 1), (127, 1), (128, 2), (1 << 14, 3), (1 << 40, 6), (-1, 10)] {
        assert_eq!(number_bytes(number), bytes, "{number}");
    }
}

fn grant(lease: i64) -> Op {
    Op::Lease(LeaseOp::Grant { lease, ttl_s: 5 })
}

/// A store with this quota and one version of 9 bytes.
fn store(quota_bytes: u64) -> Model {
    let mut model = Model::new();
    model.apply(&put("a", "1").into()).expect("there is room");
    model.set_quota(quota_bytes);
    model
}

#[test]
fn a_put_is_refused_that_would_reach_the_quota() {
    // A put with such a key and value costs 258.
    let op: Op = put("b", "1").into();
    assert!(store(268).apply(&op).is_ok());
    let mut model = store(267);
    assert_eq!(model.apply(&op), Err(Error::NoSpace));
    assert!(model.is_alarmed());
    assert_eq!(model.bytes(), 9, "it has changed nothing");
    // The more expensive branch counts, whichever is taken.
    let large = Txn { failure: vec![TxnOp::Put(put("b", "1"))], ..Txn::default() };
    assert_eq!(store(267).apply(&Op::Txn(large)), Err(Error::NoSpace));
    assert!(store(74).apply(&grant(1)).is_ok());
    assert_eq!(store(73).apply(&grant(1)), Err(Error::NoSpace));
}

#[test]
fn puts_and_grants_are_refused_until_the_alarms_of_all_members_end() {
    let mut model = store(267);
    for member in [7, 8] {
        assert_eq!(model.apply_by(&put("b", "1").into(), member), Err(Error::NoSpace));
    }
    model.set_quota(1_000_000);
    // The second refusal was because of the alarm, and raised no other.
    assert!(!model.disarm(8));
    assert_eq!(model.apply(&grant(1)), Err(Error::NoSpace));
    assert!(model.apply(&delete("a").into()).is_ok());
    assert!(model.apply(&compact(3)).is_ok());
    assert!(model.disarm(7));
    assert!(model.apply(&put("b", "1").into()).is_ok());
}

#[test]
fn the_bound_on_memory_refuses_without_an_alarm() {
    let mut model = store(267);
    model.set_quota(400);
    model.bound();
    // Each key of this size takes 121 bytes in memory.
    let mut count = 1;
    while model.apply(&put(&format!("{count}"), "1").into()).is_ok() {
        count += 1;
    }
    assert_eq!(count, 6, "6 * 121 + 258 + 256 is not below 3 * 400");
    assert!(!model.is_alarmed());
    assert!(model.apply(&delete("1").into()).is_ok());
}

#[test]
fn a_store_that_is_large_when_the_bound_begins_goes_on() {
    let mut model = store(100);
    model.bound();
    model.set_quota(1_000);
    let key = |count: u64| Put { value: vec![0; 3], ..put(&format!("{count}"), "") };
    // 121 bytes in memory for 9 that count: a factor of 14.
    let count = (1..).take_while(|count| model.apply(&key(*count).into()).is_ok()).count() as u64;
    assert!(count > 30, "{count}");
}

//! Each check before the log, at its limit. The surprising results were seen on etcd 3.6.16.

use super::*;
use crate::etcd::op::{CompareResult, CompareTarget};
use crate::etcd::short::{compare, delete, delete_to, put, range, txn};

fn ok(op: impl Into<Op>) {
    assert_eq!(check(&op.into()), Ok(()));
}

fn bad(op: impl Into<Op>, error: Error) {
    assert_eq!(check(&op.into()), Err(error));
}

fn two(success: TxnOp, failure: TxnOp) -> Txn {
    Txn { compares: Vec::new(), success: vec![success], failure: vec![failure] }
}

#[test]
fn an_empty_key_is_refused() {
    bad(range(""), Error::EmptyKey);
    bad(put("", "v"), Error::EmptyKey);
    bad(delete(""), Error::EmptyKey);
    bad(txn([put("", "v").into()]), Error::EmptyKey);
    bad(two(range("a").into(), range("").into()), Error::EmptyKey);
    let compares = vec![compare("", CompareResult::Equal, CompareTarget::Lease(0))];
    bad(Txn { compares, ..Txn::default() }, Error::EmptyKey);
    ok(range("\0"));
}

#[test]
fn what_is_to_stay_must_not_be_given() {
    bad(Put { ignore_value: true, ..put("a", "v") }, Error::ValueProvided);
    bad(Put { ignore_lease: true, lease: 1, ..put("a", "v") }, Error::LeaseProvided);
    bad(Put { ignore_value: true, ignore_lease: true, ..put("a", "v") }, Error::ValueProvided);
    bad(Put { ignore_value: true, ..put("", "v") }, Error::EmptyKey);
    ok(Put { ignore_value: true, ignore_lease: true, ..put("a", "") });
}

#[test]
fn an_empty_operation_is_refused_as_a_missing_key() {
    bad(txn([TxnOp::Empty]), Error::KeyNotFound);
    bad(two(range("a").into(), TxnOp::Empty), Error::KeyNotFound);
    ok(Txn::default());
}

#[test]
fn operations_are_counted_by_the_longest_list() {
    let ranges = |count| vec![TxnOp::Range(range("a")); count];
    ok(Txn { success: ranges(128), failure: ranges(128), ..Txn::default() });
    bad(Txn { success: ranges(129), ..Txn::default() }, Error::TooManyOps);
    bad(Txn { failure: ranges(129), ..Txn::default() }, Error::TooManyOps);
    // The number of operations is checked before the keys.
    let compares = vec![compare("", CompareResult::Equal, CompareTarget::Lease(0)); 129];
    bad(Txn { compares, ..Txn::default() }, Error::TooManyOps);
}

#[test]
fn a_transaction_inside_has_what_the_outer_one_leaves() {
    let ranges = |count| Txn { success: vec![range("a").into(); count], ..Txn::default() };
    ok(txn([ranges(127).into()]));
    bad(txn([ranges(128).into()]), Error::TooManyOps);
    ok(txn([ranges(126).into(), ranges(126).into()]));
    bad(txn([txn([ranges(127).into()]).into()]), Error::TooManyOps);
}

#[test]
fn a_key_is_put_once() {
    bad(txn([put("a", "1").into(), put("a", "2").into()]), Error::DuplicateKey);
    bad(two(put("a", "1").into(), put("", "2").into()), Error::EmptyKey);
    ok(txn([put("a", "1").into(), put("b", "2").into()]));
    ok(two(put("a", "1").into(), put("a", "2").into()));
    ok(txn([two(put("a", "1").into(), put("a", "2").into()).into()]));
    bad(
        txn([two(put("a", "1").into(), put("a", "2").into()).into(), put("a", "3").into()]),
        Error::DuplicateKey,
    );
    bad(
        txn([txn([put("a", "1").into()]).into(), txn([put("a", "2").into()]).into()]),
        Error::DuplicateKey,
    );
    bad(
        Txn {
            failure: vec![put("a", "1").into(), put("a", "2").into()],
            ..txn([range("a").into()])
        },
        Error::DuplicateKey,
    );
}

#[test]
fn a_put_key_is_not_deleted_beside_it() {
    bad(txn([delete("a").into(), put("a", "1").into()]), Error::DuplicateKey);
    bad(txn([put("a", "1").into(), delete("a").into()]), Error::DuplicateKey);
    bad(txn([put("b", "1").into(), delete_to("a", "c").into()]), Error::DuplicateKey);
    ok(txn([put("c", "1").into(), delete_to("a", "c").into()]));
    ok(txn([delete("a").into(), delete_to("a", "c").into()]));
    bad(txn([txn([put("a", "1").into()]).into(), delete("a").into()]), Error::DuplicateKey);
    bad(txn([txn([delete("a").into()]).into(), put("a", "1").into()]), Error::DuplicateKey);
    ok(txn([two(delete("a").into(), put("a", "1").into()).into()]));
}

#[test]
fn deletes_inside_are_held_against_later_puts_only() {
    let (puts, deletes) = (txn([put("a", "1").into()]), txn([delete("a").into()]));
    ok(txn([puts.clone().into(), deletes.clone().into()]));
    bad(txn([deletes.into(), puts.into()]), Error::DuplicateKey);
}

#[test]
fn an_open_end_is_not_known_to_the_check() {
    ok(txn([delete_to("a", "\0").into(), put("b", "1").into()]));
    ok(txn([put("b", "1").into(), delete_to("\0", "\0").into()]));
    ok(txn([delete_to("b", "a").into(), put("a", "1").into()]));
}

#[test]
fn compactions_are_not_checked() {
    ok(crate::etcd::short::compact(-7));
}

//! The rules of the store, one per test. Doubtful ones were seen on etcd 3.6.16.

use super::*;
use crate::etcd::op::{CompareResult as R, CompareTarget as T};
use crate::etcd::short::{
    all, compact, compare, delete, delete_to, pair, put, range, range_to, txn,
};

/// A store after these calls, which must succeed.
fn store<const N: usize>(ops: [Op; N]) -> Model {
    let mut model = Model::new();
    for op in ops {
        let answer = model.apply(&op);
        assert!(answer.is_ok(), "{op:?}: {answer:?}");
    }
    model
}

/// A store with a put at revision 2, b at 3, and a again at 4.
fn ab() -> Model {
    store([put("a", "1").into(), put("b", "2").into(), put("a", "3").into()])
}

fn read(model: &Model, range: Range) -> RangeAnswer {
    match model.answer_at(&range.into(), model.view()) {
        Ok(Response::Range(answer)) => answer,
        other => panic!("{other:?}"),
    }
}

fn keys(answer: &RangeAnswer) -> String {
    answer.kvs.iter().map(|pair| String::from_utf8_lossy(&pair.key).into_owned()).collect()
}

fn error(model: &mut Model, op: impl Into<Op>, error: Error) {
    let before = model.clone();
    assert_eq!(model.apply(&op.into()), Err(error));
    assert_eq!(*model, before, "a refused call changes nothing");
}

fn done(model: &mut Model, op: impl Into<Op>) -> TxnAnswer {
    match model.apply(&op.into()) {
        Ok(Response::Txn(answer)) => answer,
        other => panic!("{other:?}"),
    }
}

fn holds(model: &Model, compare: Compare) -> bool {
    let txn = Txn { compares: vec![compare], ..Txn::default() };
    done(&mut model.clone(), txn).succeeded
}

// Revisions and generations.

#[test]
fn a_fresh_store_is_at_revision_1() {
    let model = Model::new();
    assert_eq!(read(&model, all()), RangeAnswer { revision: 1, ..RangeAnswer::default() });
}

#[test]
fn each_put_makes_a_revision() {
    let model = ab();
    assert_eq!(read(&model, all()).kvs, [pair("a", "3", [2, 4, 2]), pair("b", "2", [3, 3, 1])]);
    assert_eq!(model.view().revision, 4);
}

#[test]
fn a_delete_of_nothing_makes_no_revision() {
    let mut model = ab();
    let answer = model.apply(&delete("zz").into());
    assert_eq!(answer, Ok(Response::DeleteRange(DeleteAnswer { revision: 4, ..nothing() })));
    assert_eq!(model.view().revision, 4);
}

fn nothing() -> DeleteAnswer {
    DeleteAnswer::default()
}

#[test]
fn a_delete_of_several_keys_makes_one_revision() {
    let mut model = ab();
    let prev_kvs = read(&model, all()).kvs;
    let answer = model.apply(&DeleteRange { prev_kv: true, ..delete_to("a", "c") }.into());
    let expected = DeleteAnswer { revision: 5, deleted: 2, prev_kvs };
    assert_eq!(answer, Ok(Response::DeleteRange(expected)));
    assert_eq!(read(&model, all()).count, 0);
}

#[test]
fn a_key_that_is_made_again_starts_over() {
    let model = store([
        put("a", "1").into(),
        put("a", "2").into(),
        delete("a").into(),
        put("a", "4").into(),
    ]);
    assert_eq!(read(&model, range("a")).kvs, [pair("a", "4", [5, 5, 1])]);
    let old = read(&model, Range { revision: 3, ..range("a") });
    assert_eq!(old.kvs, [pair("a", "2", [2, 3, 2])]);
    assert_eq!(read(&model, Range { revision: 4, ..range("a") }).count, 0);
}

#[test]
fn a_put_tells_the_pair_from_before() {
    let mut model = ab();
    let answer = model.apply(&Put { prev_kv: true, ..put("a", "4") }.into());
    let prev_kv = Some(pair("a", "3", [2, 4, 2]));
    assert_eq!(answer, Ok(Response::Put(PutAnswer { revision: 5, prev_kv })));
    let answer = model.apply(&Put { prev_kv: true, ..put("c", "5") }.into());
    assert_eq!(answer, Ok(Response::Put(PutAnswer { revision: 6, prev_kv: None })));
}

#[test]
fn what_is_ignored_stays() {
    let mut model = Model::new();
    model.grant(9);
    for op in [
        Put { lease: 9, ..put("a", "1") },
        Put { ignore_lease: true, ..put("a", "2") },
        Put { ignore_value: true, ..put("a", "") },
    ] {
        model.apply(&op.into()).unwrap();
        let at = model.view().revision;
        let found = read(&model, range("a")).kvs.remove(0);
        let (value, lease): (&[u8], _) = [(&b"1"[..], 9), (b"2", 9), (b"2", 0)][at as usize - 2];
        assert_eq!((found.value.as_slice(), found.lease), (value, lease), "revision {at}");
    }
}

#[test]
fn what_is_ignored_must_exist() {
    error(&mut ab(), Put { ignore_value: true, ..put("c", "") }, Error::KeyNotFound);
    error(&mut ab(), Put { ignore_lease: true, ..put("c", "1") }, Error::KeyNotFound);
}

#[test]
fn an_unknown_lease_comes_before_a_missing_key_but_not_in_a_txn() {
    let both = Put { ignore_value: true, lease: 7, ..put("c", "") };
    error(&mut ab(), both.clone(), Error::LeaseNotFound);
    error(&mut ab(), txn([both.into()]), Error::KeyNotFound);
}

#[test]
fn a_lease_takes_its_keys_along_at_one_revision() {
    let mut model = ab();
    model.grant(9);
    model.apply(&Put { lease: 9, ..put("x", "1") }.into()).unwrap();
    model.apply(&Put { lease: 9, ..put("y", "1") }.into()).unwrap();
    model.apply(&Put { lease: 9, ..put("z", "1") }.into()).unwrap();
    model.apply(&put("y", "detached").into()).unwrap();
    model.revoke(9);
    assert_eq!(model.view().revision, 9);
    assert_eq!(keys(&read(&model, all())), "aby");
    model.revoke(9);
    assert_eq!(model.view().revision, 9);
    error(&mut model, Put { lease: 9, ..put("x", "1") }, Error::LeaseNotFound);
}

#[test]
fn without_space_only_puts_are_refused() {
    let mut model = ab();
    model.set_no_space(true);
    let unused = Txn { failure: vec![put("a", "1").into()], ..txn([range("a").into()]) };
    error(&mut model, unused, Error::NoSpace);
    error(&mut model, Put { lease: 7, ..put("a", "1") }, Error::NoSpace);
    error(&mut model, put("", "1"), Error::EmptyKey);
    for op in [delete("a").into(), txn([delete("b").into()]).into(), compact(4)] {
        assert!(model.apply(&op).is_ok());
    }
}

// Ranges.

#[test]
fn the_end_of_a_range_is_not_in_it() {
    let model = store([
        put("a", "").into(),
        put("a\0", "").into(),
        put("b", "").into(),
        put("c", "").into(),
    ]);
    for (key, end, found) in [
        ("a", "", "a"),
        ("a", "b", "aa\0"),
        ("a", "b\0", "aa\0b"),
        ("a\0", "c", "a\0b"),
        ("b", "\0", "bc"),
        ("\0", "\0", "aa\0bc"),
        ("\0", "b", "aa\0"),
        ("b", "b", ""),
        ("c", "a", ""),
        ("0", "", ""),
    ] {
        assert_eq!(keys(&read(&model, range_to(key, end))), found, "{key:?} {end:?}");
    }
}

#[test]
fn the_header_is_of_the_newest_revision_also_for_an_old_one() {
    let answer = read(&ab(), Range { revision: 2, ..range_to("a", "z") });
    assert_eq!((answer.revision, answer.count), (4, 1));
    assert_eq!(answer.kvs, [pair("a", "1", [2, 2, 1])]);
}

#[test]
fn revisions_that_do_not_exist_are_refused() {
    error(&mut ab(), Range { revision: 5, ..range("a") }, Error::FutureRevision);
    assert_eq!(read(&ab(), Range { revision: 4, ..range("a") }).count, 1);
    assert_eq!(read(&ab(), Range { revision: -5, ..range("a") }).count, 1);
    assert_eq!(read(&ab(), Range { revision: 1, ..range("a") }).count, 0);
}

#[test]
fn the_count_is_of_all_keys_in_the_range() {
    for (range, count, found, more) in [
        (Range { limit: 1, ..all() }, 2, "a", true),
        (Range { limit: 2, ..all() }, 2, "ab", false),
        (Range { limit: -1, ..all() }, 2, "ab", false),
        (Range { min_mod_revision: 4, ..all() }, 2, "a", false),
        (Range { max_mod_revision: 3, ..all() }, 2, "b", false),
        (Range { min_create_revision: 3, ..all() }, 2, "b", false),
        (Range { max_create_revision: 2, ..all() }, 2, "a", false),
        (Range { min_mod_revision: 3, limit: 1, ..all() }, 2, "a", true),
        (Range { max_mod_revision: 3, limit: 1, ..all() }, 2, "b", false),
        (Range { count_only: true, ..all() }, 2, "", false),
        (Range { count_only: true, limit: 1, ..all() }, 2, "", false),
        (Range { min_mod_revision: 9, ..all() }, 2, "", false),
    ] {
        let answer = read(&ab(), range.clone());
        let got = (answer.count, keys(&answer), answer.more);
        assert_eq!(got, (count, found.to_string(), more), "{range:?}");
    }
}

#[test]
fn keys_only_leaves_out_the_value_alone() {
    let answer = read(&ab(), Range { keys_only: true, ..range("a") });
    assert_eq!(answer.kvs, [pair("a", "", [2, 4, 2])]);
}

#[test]
fn sorting_comes_before_the_limit() {
    // a: created 2, changed 4, version 2; b: created 3, changed 3; c: created and changed 5.
    let mut model = ab();
    model.apply(&put("c", "0").into()).unwrap();
    let sorted = |sort_order, sort_target, limit| {
        keys(&read(&model, Range { sort_order, sort_target, limit, ..all() }))
    };
    use {SortOrder as O, SortTarget as S};
    for (order, target, limit, found) in [
        (O::None, S::Key, 0, "abc"),
        (O::Descend, S::Key, 0, "cba"),
        (O::Descend, S::Key, 2, "cb"),
        (O::None, S::Mod, 0, "bac"),
        (O::Ascend, S::Mod, 1, "b"),
        (O::Ascend, S::Create, 0, "abc"),
        (O::Descend, S::Create, 1, "c"),
        (O::Ascend, S::Version, 0, "bca"),
        (O::Descend, S::Version, 0, "abc"),
        (O::Ascend, S::Value, 0, "cba"),
        (O::Descend, S::Value, 1, "a"),
    ] {
        assert_eq!(sorted(order, target, limit), found, "{order:?} {target:?} {limit}");
    }
}

#[test]
fn without_an_order_the_first_keys_and_one_more_are_sorted() {
    // Changed at 4, 3 and 2, in the order of keys.
    let model = store([put("c", "").into(), put("b", "").into(), put("a", "").into()]);
    let by_mod = |limit| Range { sort_target: SortTarget::Mod, limit, ..all() };
    let found = |range| (keys(&read(&model, range)), read(&model, range_to("a", "d")).count);
    assert_eq!(found(by_mod(1)), ("b".to_string(), 3));
    assert_eq!(found(by_mod(2)), ("cb".to_string(), 3));
    assert_eq!(found(by_mod(0)), ("cba".to_string(), 3));
    // With any filter, etcd looks at all keys.
    assert_eq!(found(Range { min_mod_revision: 1, ..by_mod(1) }), ("c".to_string(), 3));
}

#[test]
fn values_are_sorted_also_if_only_keys_are_wanted() {
    let range = Range {
        sort_order: SortOrder::Descend,
        sort_target: SortTarget::Value,
        keys_only: true,
        ..all()
    };
    assert_eq!(keys(&read(&ab(), range)), "ab");
}

// Compactions.

#[test]
fn a_compacted_revision_can_be_read_and_older_ones_cannot() {
    let mut model = ab();
    assert_eq!(model.apply(&compact(3)), Ok(Response::Compact { revision: 4 }));
    error(&mut model, Range { revision: 2, ..range("a") }, Error::Compacted);
    assert_eq!(read(&model, Range { revision: 3, ..range("a") }).kvs, [pair("a", "1", [2, 2, 1])]);
    assert_eq!(read(&model, range("a")).kvs, [pair("a", "3", [2, 4, 2])]);
}

#[test]
fn compactions_go_forward_up_to_the_newest_revision() {
    let mut model = ab();
    error(&mut model, compact(5), Error::FutureRevision);
    assert!(model.apply(&compact(3)).is_ok());
    error(&mut model, compact(3), Error::Compacted);
    error(&mut model, compact(2), Error::Compacted);
    error(&mut model, compact(0), Error::Compacted);
    assert!(model.apply(&compact(4)).is_ok());
    assert_eq!(model.view(), View { revision: 4, compacted: 4 });
}

#[test]
fn a_fresh_store_can_be_compacted_at_0_once() {
    let mut model = Model::new();
    error(&mut model, compact(-1), Error::Compacted);
    assert!(model.apply(&compact(0)).is_ok());
    error(&mut model, compact(0), Error::Compacted);
    assert!(model.apply(&compact(1)).is_ok());
}

#[test]
fn a_compaction_keeps_the_numbers_of_a_pair() {
    let mut model = ab();
    assert!(model.apply(&compact(4)).is_ok());
    assert!(model.apply(&put("a", "5").into()).is_ok());
    assert_eq!(read(&model, range("a")).kvs, [pair("a", "5", [2, 5, 3])]);
}

#[test]
fn an_earlier_view_has_its_own_revision_and_compaction() {
    let mut model = ab();
    assert!(model.apply(&compact(4)).is_ok());
    let old = Op::from(Range { revision: 2, ..range("a") });
    assert!(model.answer_at(&old, View { revision: 3, compacted: -1 }).is_ok());
    let view = View { revision: 3, compacted: 3 };
    assert_eq!(model.answer_at(&old, view), Err(Error::Compacted));
    let answer = model.answer_at(&put("z", "1").into(), View { revision: 2, compacted: -1 });
    assert_eq!(answer, Ok(Response::Put(PutAnswer { revision: 3, prev_kv: None })));
}

// Conditions.

#[test]
fn conditions_look_at_each_number() {
    // a: created 2, changed 4, version 2.
    for (result, target, expected) in [
        (R::Equal, T::Version(2), true),
        (R::Equal, T::Version(1), false),
        (R::NotEqual, T::Version(1), true),
        (R::Greater, T::Version(1), true),
        (R::Greater, T::Version(2), false),
        (R::Less, T::Create(3), true),
        (R::Less, T::Create(2), false),
        (R::Equal, T::Mod(4), true),
        (R::Equal, T::Lease(0), true),
        (R::Greater, T::Value(b"2".to_vec()), true),
        (R::Less, T::Value(b"2".to_vec()), false),
        (R::Equal, T::Value(b"3".to_vec()), true),
    ] {
        let one = compare("a", result, target);
        assert_eq!(holds(&ab(), one.clone()), expected, "{one:?}");
    }
}

#[test]
fn a_missing_key_has_zeros_and_no_value() {
    for (result, target, expected) in [
        (R::Equal, T::Version(0), true),
        (R::Equal, T::Create(0), true),
        (R::Equal, T::Mod(0), true),
        (R::Equal, T::Lease(0), true),
        (R::Less, T::Mod(1), true),
        (R::Greater, T::Mod(0), false),
        (R::Equal, T::Value(Vec::new()), false),
        (R::NotEqual, T::Value(b"x".to_vec()), false),
        (R::Less, T::Value(b"x".to_vec()), false),
    ] {
        let one = compare("zz", result, target);
        assert_eq!(holds(&ab(), one.clone()), expected, "{one:?}");
        // A range without keys counts as one key that does not exist.
        let range_end = b"zzz".to_vec();
        assert_eq!(holds(&ab(), Compare { range_end, ..one.clone() }), expected, "{one:?}");
    }
}

#[test]
fn a_condition_on_a_range_must_hold_for_each_key() {
    let on = |result, target| Compare { range_end: vec![0], ..compare("a", result, target) };
    assert!(holds(&ab(), on(R::Greater, T::Version(0))));
    assert!(!holds(&ab(), on(R::Equal, T::Version(2))));
    assert!(holds(&ab(), on(R::Greater, T::Value(b"1".to_vec()))));
}

// Transactions.

#[test]
fn a_txn_makes_one_revision_and_sees_its_own_changes() {
    let mut model = ab();
    let answer =
        done(&mut model, txn([put("x", "1").into(), range("x").into(), delete("a").into()]));
    assert_eq!(model.view().revision, 5);
    let kvs = vec![pair("x", "1", [5, 5, 1])];
    let responses = vec![
        Response::Put(PutAnswer { revision: 5, prev_kv: None }),
        Response::Range(RangeAnswer { revision: 5, kvs, more: false, count: 1 }),
        Response::DeleteRange(DeleteAnswer { revision: 5, deleted: 1, prev_kvs: Vec::new() }),
    ];
    assert_eq!(answer, TxnAnswer { revision: 5, succeeded: true, responses });
}

#[test]
fn headers_in_a_txn_are_of_the_moment_and_empty_for_one_inside() {
    let inner = txn([range("c").into(), txn([]).into()]);
    let ops = [
        range("c").into(),
        delete("zz").into(),
        put("c", "1").into(),
        delete("zz").into(),
        range("d").into(),
        inner.into(),
    ];
    let answer = done(&mut ab(), txn(ops));
    let revisions: Vec<i64> = answer.responses.iter().map(Response::revision).collect();
    assert_eq!(revisions, [4, 4, 5, 5, 5, 0]);
    let Response::Txn(inner) = &answer.responses[5] else { panic!() };
    let revisions: Vec<i64> = inner.responses.iter().map(Response::revision).collect();
    assert_eq!((answer.revision, revisions), (5, vec![5, 0]));
}

#[test]
fn a_txn_without_a_change_makes_no_revision() {
    let mut model = ab();
    let failed = Txn {
        compares: vec![compare("a", R::Equal, T::Version(9))],
        success: vec![put("a", "9").into()],
        failure: vec![range("a").into(), delete("zz").into()],
    };
    let answer = done(&mut model, failed);
    assert_eq!((answer.revision, answer.succeeded, answer.responses.len()), (4, false, 2));
    assert_eq!(model.view().revision, 4);
}

#[test]
fn conditions_inside_are_judged_on_the_state_before() {
    let inner = Txn {
        compares: vec![compare("x", R::Equal, T::Version(0))],
        success: vec![put("y", "1").into()],
        failure: vec![put("z", "1").into()],
    };
    let mut model = ab();
    done(&mut model, txn([put("x", "1").into(), inner.into()]));
    assert_eq!(keys(&read(&model, all())), "abxy");
}

#[test]
fn the_path_is_checked_before_anything_is_done() {
    let put_x = || TxnOp::from(put("x", "1"));
    let at = |revision| TxnOp::from(Range { revision, ..range("a") });
    error(&mut ab(), txn([put_x(), at(5)]), Error::FutureRevision);
    error(&mut ab(), txn([put_x(), Put { lease: 7, ..put("y", "") }.into()]), Error::LeaseNotFound);
    let kept = Put { ignore_value: true, ..put("y", "") };
    error(&mut ab(), txn([put_x(), kept.clone().into()]), Error::KeyNotFound);
    error(&mut ab(), txn([put_x(), txn([at(9)]).into()]), Error::FutureRevision);
    error(&mut ab(), txn([txn([kept.into()]).into(), at(9)]), Error::KeyNotFound);
    let mut model = ab();
    assert!(model.apply(&compact(3)).is_ok());
    error(&mut model, txn([put_x(), at(2)]), Error::Compacted);
    // The branch that is not taken is not checked.
    let answer = done(&mut model, Txn { failure: vec![at(2)], ..txn([at(3)]) });
    assert!(answer.succeeded);
}

#[test]
fn a_negative_revision_in_a_txn_is_an_old_one() {
    let at = |revision| txn([Range { revision, ..range("a") }.into()]);
    let mut model = ab();
    assert!(model.apply(&at(-1).into()).is_ok());
    error(&mut model, at(-2), Error::Compacted);
    assert!(model.apply(&compact(1)).is_ok());
    error(&mut model, at(-1), Error::Compacted);
}

#[test]
fn a_key_can_be_deleted_and_put_at_one_revision_through_an_open_end() {
    let mut model = ab();
    let ops = [delete_to("a", "\0").into(), put("b", "9").into(), range("b").into()];
    let answer = done(&mut model, txn(ops));
    let Response::Range(found) = &answer.responses[2] else { panic!() };
    assert_eq!(found.kvs, [pair("b", "9", [5, 5, 1])]);
    assert_eq!(read(&model, all()).kvs, [pair("b", "9", [5, 5, 1])]);
    assert_eq!(keys(&read(&model, Range { revision: 4, ..all() })), "ab");
    done(&mut model, txn([put("c", "1").into(), delete_to("a", "\0").into()]));
    assert_eq!((read(&model, all()).count, model.view().revision), (0, 6));
}

#[test]
fn what_etcd_dies_of_is_refused() {
    let kept = Put { ignore_value: true, ..put("b", "") };
    error(&mut ab(), txn([delete_to("a", "\0").into(), kept.into()]), Error::KeyNotFound);
}

#[test]
fn a_serializable_txn_is_one_without_any_other_operation() {
    let old = Range { serializable: true, ..range("a") };
    for (op, is_read, is_serializable) in [
        (Op::from(txn([old.clone().into()])), true, true),
        (txn([old.clone().into(), range("a").into()]).into(), true, false),
        (txn([]).into(), true, true),
        (txn([txn([]).into()]).into(), false, false),
        (txn([delete("a").into()]).into(), false, false),
        (range("a").into(), true, false),
        (old.into(), true, true),
    ] {
        assert_eq!((op.is_read(), op.is_serializable()), (is_read, is_serializable), "{op:?}");
    }
}

use machine::Machine;
use machine::etcd::command::{
    Command, Compare, CompareTarget, DeleteRange, KeyRange, Op, Put, RangeOp, Relation, SortOrder,
    Txn,
};
use machine::{BootId, Changes, Command as AnyCommand, ConnectionId, MemberId, Origin, Stamp};

use super::{Cost, Counted};
use crate::fronts::etcd::limits::ETCD_TXN_KEYS_MAX;

const ALL: KeyRange<'static> = KeyRange { key: b"\0", end: b"\0" };

fn put(key: &[u8]) -> Put<'_> {
    Put { key, value: b"", lease: 0, prev_kv: false, ignore_value: false, ignore_lease: false }
}

/// A state with 1,000 keys.
fn machine() -> Machine {
    let mut machine = Machine::default();
    let origin = Origin { member: MemberId(1), boot: BootId(1) };
    let connection = ConnectionId(0);
    for number in 0..1_000 {
        let key = format!("{number:04}");
        let command = AnyCommand::Etcd(Command::Put(put(key.as_bytes())));
        let stamp = Stamp { time_ms: 0, origin, connection, identities: &[] };
        machine.apply(&stamp, &command, &mut Changes::default());
    }
    machine
}

/// Counts the cost of a transaction, with one lookup a step.
fn count(txn: &Txn<'_>, machine: &Machine) -> (u64, Counted) {
    let mut cost = Cost::of(txn);
    loop {
        let counted = cost.step(machine.etcd(), &mut 1);
        if counted != Counted::More {
            return (cost.sum.all - cost.sum.largest, counted);
        }
    }
}

fn ranges(ops: Vec<RangeOp<'_>>) -> Txn<'_> {
    let success = ops.into_iter().map(Op::Range).collect();
    Txn { compares: vec![], success, failure: vec![] }
}

#[test]
fn the_largest_operation_is_free_and_the_others_cost_the_keys_that_they_look_at() {
    let machine = machine();
    let all = || RangeOp::of(ALL);
    let check = |ops: Vec<RangeOp<'_>>, expected: u64| {
        assert_eq!(count(&ranges(ops.clone()), &machine).0, expected, "{ops:?}");
    };
    check(vec![all()], 0);
    check(vec![all(), all()], 1_000);
    check(vec![all(), RangeOp { limit: 9, ..all() }], 10);
    check(vec![all(), RangeOp { count_only: true, ..all() }], 1);
    check(vec![all(), RangeOp::of(KeyRange { key: b"0001", end: b"" })], 1);
    check(vec![all(), RangeOp::of(KeyRange { key: b"x", end: b"y" })], 1);
    let by_value = RangeOp { limit: 1, order: SortOrder::Descend, ..all() };
    check(vec![by_value.clone(), by_value, all()], 2_000);
    let bounds = machine::etcd::command::Bounds { min: 0, max: 3 };
    check(vec![all(), RangeOp { limit: 1, create_revision: bounds, ..all() }], 1_000);
}

#[test]
fn both_branches_nested_transactions_and_comparisons_count() {
    let machine = machine();
    let (relation, target) = (Relation::Greater, CompareTarget::Version(0));
    let compare = Compare { range: ALL, relation, target };
    let delete = || Op::DeleteRange(DeleteRange { range: ALL, prev_kv: false });
    let nested = Txn { compares: vec![compare.clone()], success: vec![delete()], failure: vec![] };
    let txn = Txn {
        compares: vec![compare],
        success: vec![Op::Txn(nested.clone()), Op::Put(put(b"a"))],
        failure: vec![Op::Txn(nested)],
    };
    assert_eq!(count(&txn, &machine), (4_001, Counted::Within(0)));
}

#[test]
fn one_key_more_than_the_bound_is_too_many() {
    let machine = machine();
    let ops = |count: usize| ranges(vec![RangeOp::of(ALL); count]);
    let bound = (ETCD_TXN_KEYS_MAX / 1_000) as usize;
    assert_eq!(count(&ops(bound + 1), &machine).1, Counted::Within((bound as u64 + 1) * 1_000));
    assert_eq!(count(&ops(bound + 2), &machine).1, Counted::TooMany);
    assert!(Cost::of(&ops(1)).is_small(), "one operation is never too large");
    assert!(!Cost::of(&ops(2)).is_small());
}

use std::collections::BTreeMap;

use super::command::{
    Bounds, Command, Compare, CompareTarget, DeleteRange, KeyRange, Op, Put, RangeOp, Relation,
    SortOrder, SortTarget, Txn,
};
use super::event::{Event, Place, Version};
use super::reply::{Found, OpDone, Outcome, Refusal, TxnDone};
use super::restore::{RecordDecoder, Records, StoreRestore};
use super::settings::Settings;
use super::store::Store;
use super::tail::Sum;
use super::txn::At;
use crate::Machine;
use crate::change::Changes;
use crate::codec::Reader;
use crate::command::Command as AnyCommand;
use crate::etcd::alarm::{Alarm, AlarmKind};
use crate::etcd::change::KeyChange;
use crate::ids::{BootId, ConnectionId, LeaseId, LogIndex, MemberId, Ordinal, Origin};
use crate::image::FreezeStep;
use crate::image::restore::{Restore, RestoreError};
use crate::image::step::WalkStep;
use crate::limits::ETCD_ALARMS_MAX;
use crate::limits::RESTORED_NUMBER_MAX;
use crate::machine::tests::rig::Random;
use crate::stamp::Stamp;

pub(super) fn keys<'a>(key: &'a str, end: &'a str) -> KeyRange<'a> {
    KeyRange { key: key.as_bytes(), end: end.as_bytes() }
}

pub(super) fn all() -> RangeOp<'static> {
    read(keys("\0", "\0"))
}

pub(super) fn read(range: KeyRange<'_>) -> RangeOp<'_> {
    RangeOp::of(range)
}

pub(super) fn a_put<'a>(key: &'a str, value: &'a str) -> Put<'a> {
    Put {
        key: key.as_bytes(),
        value: value.as_bytes(),
        lease: 0,
        prev_kv: false,
        ignore_value: false,
        ignore_lease: false,
    }
}

/// Applies a command to a store alone. Leases are tested with a whole machine.
fn apply(store: &mut Store, command: &Command<'_>) -> Result<Outcome, Refusal> {
    let at = At { ordinal: Ordinal(1), time_ms: 0, who: None, member_id: 9 };
    let done = store.apply_step(at, command, (u64::MAX, true), &mut Changes::default().etcd);
    done.expect("a step without a bound is whole")
}

fn put(store: &mut Store, key: &str, value: &str) -> i64 {
    match apply(store, &Command::Put(a_put(key, value))) {
        Ok(Outcome::Put(done)) => done.revision,
        other => panic!("{other:?}"),
    }
}

pub(super) fn a_delete<'a>(key: &'a str, end: &'a str) -> DeleteRange<'a> {
    DeleteRange { range: keys(key, end), prev_kv: false }
}

fn delete(store: &mut Store, key: &str, end: &str) -> (u64, i64) {
    match apply(store, &Command::DeleteRange(a_delete(key, end))) {
        Ok(Outcome::DeleteRange(done)) => (done.count, done.revision),
        other => panic!("{other:?}"),
    }
}

fn compact(store: &mut Store, revision: i64) -> Result<(), Refusal> {
    apply(store, &Command::Compact { revision }).map(|_| ())
}

fn txn(store: &mut Store, txn: Txn<'_>) -> Result<TxnDone, Refusal> {
    match apply(store, &Command::Txn(txn))? {
        Outcome::Txn(done) => Ok(done),
        other => panic!("{other:?}"),
    }
}

pub(super) fn a_txn<'a>(
    compares: Vec<Compare<'a>>,
    success: Vec<Op<'a>>,
    failure: Vec<Op<'a>>,
) -> Txn<'a> {
    Txn { compares, success, failure }
}

/// The result of a read as text: each version as `key=value@mod/create/version`, the count, and
/// whether there are more.
fn shown(found: &Found) -> String {
    let texts: Vec<String> = found.events.iter().map(event_text).collect();
    let more = if found.more { " more" } else { "" };
    format!("{} of {}{more}", texts.join(" "), found.count)
}

pub(super) fn event_text(event: &Event) -> String {
    let numbers = event.numbers();
    format!(
        "{}={}@{}/{}/{}",
        event.key().escape_ascii(),
        event.value().escape_ascii(),
        event.revision(),
        numbers.create_revision,
        numbers.version
    )
}

fn check(store: &Store, op: RangeOp<'_>, expected: &str) {
    let found = store.range(&op);
    assert_eq!(found.as_ref().map(shown), Ok(expected.to_string()));
}

/// A store with keys a to d, where b was changed, and c was deleted and created again.
fn sample() -> Store {
    let mut store = Store::default();
    for (key, value) in [("a", "1"), ("b", "4"), ("c", "x"), ("b", "3"), ("d", "2")] {
        put(&mut store, key, value);
    }
    assert_eq!(delete(&mut store, "c", ""), (1, 7));
    assert_eq!(put(&mut store, "c", "0"), 8);
    store
}

#[test]
fn a_fresh_store_is_at_revision_1_and_each_write_moves_it_by_one() {
    let mut store = Store::default();
    assert_eq!((store.revision(), store.compacted()), (1, -1));
    assert_eq!(put(&mut store, "a", "1"), 2);
    assert_eq!(put(&mut store, "a", "2"), 3);
    assert_eq!(delete(&mut store, "b", ""), (0, 3));
    assert_eq!(delete(&mut store, "a", "c"), (1, 4));
    assert_eq!(delete(&mut store, "a", "c"), (0, 4));
    assert_eq!(store.revision(), 4);
}

#[test]
fn a_range_shows_the_keys_in_it_with_their_numbers() {
    let store = sample();
    check(&store, all(), "a=1@2/2/1 b=3@5/3/2 c=0@8/8/1 d=2@6/6/1 of 4");
    check(&store, read(keys("b", "")), "b=3@5/3/2 of 1");
    check(&store, read(keys("bb", "")), " of 0");
    check(&store, read(keys("b", "d")), "b=3@5/3/2 c=0@8/8/1 of 2");
    check(&store, read(keys("c", "\0")), "c=0@8/8/1 d=2@6/6/1 of 2");
    check(&store, read(keys("d", "b")), " of 0");
    check(&store, read(keys("b", "b")), " of 0");
}

#[test]
fn a_range_at_an_older_revision_shows_what_was_there_then() {
    let store = sample();
    let at = |revision| RangeOp { revision, ..all() };
    check(&store, at(1), " of 0");
    check(&store, at(4), "a=1@2/2/1 b=4@3/3/1 c=x@4/4/1 of 3");
    check(&store, at(7), "a=1@2/2/1 b=3@5/3/2 d=2@6/6/1 of 3");
    check(&store, at(-1), "a=1@2/2/1 b=3@5/3/2 c=0@8/8/1 d=2@6/6/1 of 4");
    assert_eq!(store.range(&at(9)), Err(Refusal::FutureRevision));
    let found = store.range(&at(4)).expect("it is not compacted");
    assert_eq!(found.revision, 8, "the header has the present revision");
}

#[test]
fn limits_orders_and_selections_are_those_of_etcd() {
    let store = sample();
    let limit = |limit, order, target| RangeOp { limit, order, target, ..all() };
    let (none, up, down) = (SortOrder::None, SortOrder::Ascend, SortOrder::Descend);
    check(&store, limit(2, none, SortTarget::Key), "a=1@2/2/1 b=3@5/3/2 of 4 more");
    check(&store, limit(4, none, SortTarget::Key), "a=1@2/2/1 b=3@5/3/2 c=0@8/8/1 d=2@6/6/1 of 4");
    check(&store, limit(1, down, SortTarget::Key), "d=2@6/6/1 of 4 more");
    check(&store, limit(2, up, SortTarget::Value), "c=0@8/8/1 a=1@2/2/1 of 4 more");
    check(&store, limit(2, down, SortTarget::Mod), "c=0@8/8/1 d=2@6/6/1 of 4 more");
    check(&store, limit(1, down, SortTarget::Version), "b=3@5/3/2 of 4 more");
    check(&store, limit(2, down, SortTarget::Create), "c=0@8/8/1 d=2@6/6/1 of 4 more");
    // Without an order, etcd takes the first keys by key, one more than the limit, and sorts those.
    check(&store, limit(2, none, SortTarget::Mod), "a=1@2/2/1 b=3@5/3/2 of 4 more");
    let selected = RangeOp { mod_revision: Bounds { min: 5, max: 6 }, limit: 1, ..all() };
    check(&store, selected, "b=3@5/3/2 of 4 more");
    let selected = RangeOp { create_revision: Bounds { min: 0, max: 3 }, ..all() };
    check(&store, selected, "a=1@2/2/1 b=3@5/3/2 of 4");
    let counted = RangeOp { count_only: true, limit: 1, ..all() };
    check(&store, counted.clone(), " of 4");
    check(&store, RangeOp { revision: 4, ..counted }, " of 3");
}

#[test]
fn a_compaction_refuses_older_reads_and_keeps_what_existed() {
    let mut store = sample();
    assert_eq!(compact(&mut store, 9), Err(Refusal::FutureRevision));
    assert_eq!(compact(&mut store, 5), Ok(()));
    for revision in [5, 0, -7] {
        assert_eq!(compact(&mut store, revision), Err(Refusal::Compacted));
    }
    let at = |revision| RangeOp { revision, ..all() };
    for _ in 0..2 {
        assert_eq!(store.range(&at(4)), Err(Refusal::Compacted));
        check(&store, at(5), "a=1@2/2/1 b=3@5/3/2 c=x@4/4/1 of 3");
        check(&store, at(0), "a=1@2/2/1 b=3@5/3/2 c=0@8/8/1 d=2@6/6/1 of 4");
        store.prune();
    }
    assert_eq!(compact(&mut store, 8), Ok(()));
    store.prune();
    check(&store, at(8), "a=1@2/2/1 b=3@5/3/2 c=0@8/8/1 d=2@6/6/1 of 4");
    assert!(!store.has_garbage());
    assert_eq!(store.tail_sum, Sum::default());
}

#[test]
fn a_put_that_keeps_value_or_lease_needs_the_key() {
    let mut store = sample();
    let keeping = |key| Put { ignore_value: true, prev_kv: true, ..a_put(key, "") };
    assert_eq!(apply(&mut store, &Command::Put(keeping("x"))), Err(Refusal::KeyNotFound));
    let Ok(Outcome::Put(done)) = apply(&mut store, &Command::Put(keeping("b"))) else { panic!() };
    assert_eq!(done.prev.as_ref().map(event_text), Some("b=3@5/3/2".to_string()));
    check(&store, read(keys("b", "")), "b=3@9/3/3 of 1");
    let leased = Put { lease: 7, ..a_put("x", "") };
    assert_eq!(apply(&mut store, &Command::Put(leased)), Err(Refusal::LeaseNotFound));
    let both = Put { lease: 7, ignore_value: true, ..a_put("x", "") };
    assert_eq!(apply(&mut store, &Command::Put(both.clone())), Err(Refusal::LeaseNotFound));
    let within = a_txn(vec![], vec![Op::Put(both)], vec![]);
    assert_eq!(txn(&mut store, within), Err(Refusal::KeyNotFound));
    assert_eq!(store.revision(), 9);
}

#[test]
fn a_put_that_keeps_the_value_of_a_key_that_its_txn_deletes_is_refused() {
    let mut store = sample();
    let keeping = || Op::Put(Put { ignore_value: true, ..a_put("b", "") });
    let delete = || Op::DeleteRange(a_delete("a", "\0"));
    for ops in
        [vec![delete(), keeping()], vec![Op::Txn(a_txn(vec![], vec![delete()], vec![])), keeping()]]
    {
        let mut with_range = ops.clone();
        with_range.push(Op::Range(RangeOp { revision: 9, ..all() }));
        assert_eq!(txn(&mut store, a_txn(vec![], ops, vec![])), Err(Refusal::KeyNotFound));
        // etcd finds this error first.
        let refused = txn(&mut store, a_txn(vec![], with_range, vec![]));
        assert_eq!(refused, Err(Refusal::FutureRevision));
    }
    assert_eq!(store.revision(), 8);
    let ops = vec![delete(), Op::Put(a_put("b", "5")), keeping()];
    assert!(txn(&mut store, a_txn(vec![], ops, vec![])).is_ok());
    check(&store, all(), "b=5@9/9/2 of 1");
}

#[test]
fn puts_beyond_the_quota_are_refused_and_room_comes_back_by_a_compaction() {
    let mut store = sample();
    let quota_bytes = store.bytes() + 1_000;
    let settings = Settings { quota_bytes, ..Settings::default() };
    assert_eq!(apply(&mut store, &Command::Configure(settings)), Ok(Outcome::Configured));
    let value = "v".repeat(700);
    let large = || a_put("large", &value);
    assert_eq!(put(&mut store, "large", &value), 9);
    assert_eq!(store.alarms().iter().count(), 0);
    assert_eq!(apply(&mut store, &Command::Put(large())), Err(Refusal::NoSpace));
    // The refusal has raised the alarm for the member that handed over the command.
    let alarm = Alarm { kind: AlarmKind::NoSpace, member: 9 };
    assert!(store.alarms().iter().eq([alarm]));
    let disarm = |store: &mut Store| {
        let disarmed = apply(store, &Command::DisarmAlarm(alarm));
        assert!(matches!(disarmed, Ok(Outcome::Alarmed { alarm: Some(_), .. })));
    };
    disarm(&mut store);
    // A transaction counts the puts of its larger branch, nested ones included. Without puts it
    // counts nothing.
    let inner = a_txn(vec![], vec![Op::Put(large())], vec![]);
    let missing = || Compare {
        range: keys("x", ""),
        relation: Relation::Equal,
        target: CompareTarget::Version(0),
    };
    let of = |success, failure| a_txn(vec![missing()], success, failure);
    assert_eq!(txn(&mut store, of(vec![], vec![Op::Txn(inner)])), Err(Refusal::NoSpace));
    let removing = vec![Op::Range(all()), Op::DeleteRange(a_delete("large", ""))];
    assert!(txn(&mut store, of(removing, vec![])).is_ok());
    // Deleting the key makes no room: its last version can still be read.
    assert_eq!(apply(&mut store, &Command::Put(large())), Err(Refusal::NoSpace));
    compact(&mut store, 10).expect("it is not compacted");
    // There is room again, but the alarm still refuses writes.
    let small = || Command::Put(a_put("small", ""));
    assert_eq!(apply(&mut store, &small()), Err(Refusal::NoSpace));
    let grant = || Command::Grant { lease: LeaseId(5), ttl_s: 60 };
    assert_eq!(apply(&mut store, &grant()), Err(Refusal::NoSpace));
    assert!(txn(&mut store, of(vec![Op::DeleteRange(a_delete("none", ""))], vec![])).is_ok());
    disarm(&mut store);
    assert_eq!(put(&mut store, "large", &value), 11);
    assert!(apply(&mut store, &grant()).is_ok());
}

#[test]
fn while_data_is_known_to_be_corrupt_no_write_is_taken() {
    let mut store = sample();
    let alarm = Alarm { kind: AlarmKind::Corrupt, member: 3 };
    for _ in 0..2 {
        let raised = apply(&mut store, &Command::RaiseAlarm(alarm));
        assert_eq!(raised, Ok(Outcome::Alarmed { revision: 8, alarm: Some(alarm) }));
    }
    let commands = [
        Command::Put(a_put("a", "")),
        Command::DeleteRange(a_delete("a", "")),
        Command::Txn(a_txn(vec![], vec![], vec![])),
        Command::Compact { revision: 8 },
        Command::Grant { lease: LeaseId(5), ttl_s: 60 },
        Command::Revoke { lease: LeaseId(5) },
    ];
    for command in commands {
        assert_eq!(apply(&mut store, &command), Err(Refusal::Corrupt), "{command:?}");
    }
    assert!(apply(&mut store, &Command::Expire { leases: Vec::new() }).is_ok());
    let other = Alarm { member: 4, ..alarm };
    let disarmed = apply(&mut store, &Command::DisarmAlarm(other));
    assert_eq!(disarmed, Ok(Outcome::Alarmed { revision: 8, alarm: None }));
    assert!(apply(&mut store, &Command::DisarmAlarm(alarm)).is_ok());
    assert_eq!(put(&mut store, "a", ""), 9);
}

#[test]
fn alarms_are_bounded_and_stand_in_images_and_commands() {
    let mut store = sample();
    let digest = store.digest();
    for member in 0..ETCD_ALARMS_MAX as u64 {
        let alarm = Alarm { kind: AlarmKind::Corrupt, member };
        assert!(apply(&mut store, &Command::RaiseAlarm(alarm)).is_ok());
    }
    let more = Alarm { kind: AlarmKind::NoSpace, member: 1 };
    assert_eq!(apply(&mut store, &Command::RaiseAlarm(more)), Err(Refusal::NoSpace));
    assert_ne!(store.digest(), digest);
    for command in [Command::RaiseAlarm(more), Command::DisarmAlarm(more)] {
        let (command, mut bytes) = (AnyCommand::Etcd(command), Vec::new());
        command.encode(&mut bytes);
        assert_eq!(AnyCommand::decode(&bytes), Ok(command));
        assert!((0..bytes.len()).all(|end| AnyCommand::decode(&bytes[..end]).is_err()));
    }
    let alarms = store.alarms().clone();
    let restored = through_an_image(&mut store, 1_000).expect("it is whole");
    assert_eq!((restored.alarms(), restored.digest()), (&alarms, store.digest()));
}

#[test]
fn an_image_has_the_settings_even_of_a_store_without_keys() {
    let settings = Settings { quota_bytes: 5 << 30, txn_ops_max: 200, lease_ttl_s_min: 7 };
    let mut machine = Machine::default();
    let origin = Origin { member: MemberId(1), boot: BootId(1) };
    let stamp = Stamp { time_ms: 0, origin, connection: ConnectionId(0), identities: &[] };
    let configure = AnyCommand::Etcd(Command::Configure(settings));
    let digest = machine.digest();
    machine.apply(&stamp, &configure, &mut Changes::default());
    assert_ne!(machine.digest(), digest);
    machine.finish_entry(LogIndex(2));
    machine.freeze();
    let mut restore = Restore::default();
    loop {
        match machine.freeze_step(64, 3) {
            FreezeStep::Piece(piece) => restore.piece(&piece).expect("it is whole"),
            FreezeStep::Last(piece) => break restore.piece(&piece).expect("it is whole"),
            FreezeStep::Aborted => panic!("nothing replaces the state"),
        }
    }
    let restored = restore.finish().expect("its digest is right");
    assert_eq!(restored.etcd.settings(), settings);
    assert_eq!(restored.digest(), machine.digest());
}

#[test]
fn comparisons_on_a_missing_key_are_judged_on_zeros_and_values_never_hold() {
    let mut store = sample();
    let mut holds = |range, relation, target| {
        let compare = Compare { range, relation, target };
        txn(&mut store, a_txn(vec![compare], vec![], vec![]))
            .expect("it only reads")
            .branch
            .succeeded
    };
    let missing = keys("x", "");
    for target in [
        CompareTarget::Version(0),
        CompareTarget::Create(0),
        CompareTarget::Mod(0),
        CompareTarget::Lease(0),
    ] {
        assert!(holds(missing, Relation::Equal, target));
        assert!(!holds(missing, Relation::NotEqual, target));
    }
    for relation in [Relation::Equal, Relation::NotEqual, Relation::Less, Relation::Greater] {
        assert!(!holds(missing, relation, CompareTarget::Value(b"")));
    }
    assert!(holds(keys("a", "e"), Relation::Greater, CompareTarget::Mod(1)));
    assert!(!holds(keys("a", "e"), Relation::Greater, CompareTarget::Mod(2)));
    assert!(holds(keys("x", "z"), Relation::Equal, CompareTarget::Mod(0)));
    assert!(!holds(keys("x", "z"), Relation::Equal, CompareTarget::Mod(1)));
    assert!(holds(keys("b", ""), Relation::Equal, CompareTarget::Value(b"3")));
    assert!(holds(keys("b", ""), Relation::Less, CompareTarget::Version(3)));
}

/// etcd does so too: it reads the earlier version at the revision before the event
/// (`v3rpc/watch.go`).
#[test]
fn a_watch_shows_the_version_before_the_txn_beside_each_of_its_events() {
    let mut store = Store::default();
    put(&mut store, "k", "one");
    let ops = vec![
        Op::Put(a_put("k", "two")),
        Op::DeleteRange(a_delete("j", "\0")),
        Op::Txn(a_txn(vec![], vec![Op::Put(a_put("k", "three"))], vec![])),
    ];
    apply(&mut store, &Command::Txn(a_txn(vec![], ops, vec![]))).expect("it is done");
    let behind = Place { revision: 2, sub: u32::MAX };
    let befores: Vec<Option<&[u8]>> =
        store.events_behind(behind).map(|event| store.before(event).map(Event::value)).collect();
    assert_eq!(befores, [Some(&b"one"[..]), Some(b"one"), None]);
}

#[test]
fn operations_of_a_txn_share_a_revision_and_see_the_ones_before() {
    let mut store = sample();
    let inner = a_txn(
        vec![Compare {
            range: keys("n", ""),
            relation: Relation::Equal,
            target: CompareTarget::Version(0),
        }],
        vec![Op::Range(read(keys("n", "")))],
        vec![],
    );
    let ops = vec![
        Op::Range(read(keys("n", ""))),
        Op::Put(a_put("n", "1")),
        Op::Range(read(keys("n", ""))),
        Op::Txn(inner),
        Op::DeleteRange(a_delete("a", "c")),
        Op::Range(RangeOp { revision: 8, ..read(keys("a", "")) }),
        Op::Range(RangeOp { count_only: true, ..all() }),
        Op::Range(RangeOp { count_only: true, revision: 8, ..all() }),
    ];
    let done = txn(&mut store, a_txn(vec![], ops, vec![])).expect("nothing refuses it");
    let texts: Vec<String> = done.branch.done.iter().map(done_text).collect();
    let expected = [
        "8:  of 0",
        "put 9",
        "9: n=1@9/9/1 of 1",
        // The comparison is judged on the state before the whole transaction.
        "true [9: n=1@9/9/1 of 1]",
        "deleted 2 at 9",
        "9: a=1@2/2/1 of 1",
        "9:  of 3",
        // This counts at the revision before the transaction.
        "9:  of 4",
    ];
    assert_eq!(texts, expected);
    assert_eq!((done.revision, store.revision()), (9, 9));
}

fn done_text(done: &OpDone) -> String {
    match done {
        OpDone::Range(found) => format!("{}: {}", found.revision, shown(found)),
        OpDone::Put(done) => format!("put {}", done.revision),
        OpDone::DeleteRange(done) => format!("deleted {} at {}", done.count, done.revision),
        OpDone::Txn(branch) => {
            let texts: Vec<String> = branch.done.iter().map(done_text).collect();
            format!("{} [{}]", branch.succeeded, texts.join(", "))
        }
    }
}

#[test]
fn a_txn_with_a_refused_operation_changes_nothing() {
    let mut store = sample();
    compact(&mut store, 4).expect("it is not compacted");
    let digest = store.digest();
    let refused = |op: Op<'static>| a_txn(vec![], vec![Op::Put(a_put("n", "1")), op], vec![]);
    let at = |revision| Op::Range(RangeOp { revision, ..read(keys("a", "")) });
    assert_eq!(txn(&mut store, refused(at(3))), Err(Refusal::Compacted));
    assert_eq!(txn(&mut store, refused(at(-1))), Err(Refusal::Compacted));
    assert_eq!(txn(&mut store, refused(at(9))), Err(Refusal::FutureRevision));
    let nested = Op::Txn(a_txn(vec![], vec![at(9)], vec![]));
    assert_eq!(txn(&mut store, refused(nested)), Err(Refusal::FutureRevision));
    assert_eq!((store.digest(), store.revision()), (digest, 8));
    // The branch that does not run is not checked.
    let other = a_txn(vec![], vec![], vec![at(9)]);
    assert!(txn(&mut store, other).is_ok());
}

#[test]
fn commands_are_read_as_they_were_written_and_no_cut_or_changed_byte_panics() {
    let compare = |target| Compare { range: keys("a", "b"), relation: Relation::Less, target };
    let inner = a_txn(
        vec![compare(CompareTarget::Value(b"v")), compare(CompareTarget::Lease(-1))],
        vec![Op::DeleteRange(DeleteRange { prev_kv: true, ..a_delete("x", "\0") })],
        vec![Op::Range(RangeOp { keys_only: true, order: SortOrder::Descend, ..all() })],
    );
    let ops = vec![Op::Txn(inner), Op::Put(Put { lease: 9, prev_kv: true, ..a_put("k", "v") })];
    for command in [
        Command::Put(Put { ignore_value: true, ..a_put("k", "") }),
        Command::DeleteRange(a_delete("a", "")),
        Command::Txn(a_txn(vec![compare(CompareTarget::Mod(3))], ops, vec![])),
        Command::Compact { revision: 5 },
        Command::Configure(Settings { quota_bytes: 1 << 40, txn_ops_max: 7, lease_ttl_s_min: 9 }),
        Command::Grant { lease: LeaseId(-3), ttl_s: 5 },
        Command::Revoke { lease: LeaseId(i64::MIN) },
        Command::Expire { leases: vec![(LeaseId(4), Ordinal(8)), (LeaseId(5), Ordinal(0))] },
    ] {
        let command = AnyCommand::Etcd(command);
        let mut bytes = Vec::new();
        command.encode(&mut bytes);
        assert_eq!(AnyCommand::decode(&bytes), Ok(command));
        for at in 0..bytes.len() {
            assert!(AnyCommand::decode(&bytes[..at]).is_err());
            let mut changed = bytes.clone();
            changed[at] ^= 0x81;
            let _ = AnyCommand::decode(&changed);
        }
    }
}

#[test]
fn transactions_within_transactions_have_a_depth() {
    let nested = |depth| {
        let mut txn = a_txn(vec![], vec![], vec![]);
        for _ in 0..depth {
            txn = a_txn(vec![], vec![Op::Txn(txn)], vec![]);
        }
        let mut bytes = Vec::new();
        AnyCommand::Etcd(Command::Txn(txn)).encode(&mut bytes);
        AnyCommand::decode(&bytes).is_ok()
    };
    assert!(nested(crate::limits::ETCD_TXN_DEPTH_MAX));
    assert!(!nested(crate::limits::ETCD_TXN_DEPTH_MAX + 1));
}

#[test]
fn events_that_break_the_format_are_refused() {
    let store = sample();
    for event in store.tail.behind(Default::default()) {
        let bytes = event.bytes();
        assert_eq!(Event::decode(bytes).as_ref(), Ok(event));
        let value_bytes = event.value().len();
        for end in 0..bytes.len() - value_bytes {
            assert!(Event::decode(&bytes[..end]).is_err(), "{event:?} cut at {end}");
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.to_vec();
            changed[at] ^= 0x80;
            let _ = Event::decode(&changed);
        }
    }
}

/// A plain model: the value of every key at each revision, and all published changes.
#[derive(Default)]
struct Plain {
    history: Vec<BTreeMap<String, String>>,
    changes: Vec<KeyChange>,
}

impl Plain {
    fn check(&self, store: &Store) {
        assert_eq!(self.history.len() as i64, store.revision());
        for revision in store.compacted().max(1)..=store.revision() {
            let found = store.range(&RangeOp { revision, ..all() }).expect("it is not compacted");
            let texts: BTreeMap<String, String> = found
                .events
                .iter()
                .map(|event| (event.key().escape_ascii().to_string(), event_text(event)))
                .collect();
            assert_eq!(texts, self.history[revision as usize - 1], "at revision {revision}");
            let (from, to) = ("b", "e");
            let counted = RangeOp { revision, count_only: true, ..read(keys(from, to)) };
            let count = store.range(&counted).expect("it is not compacted").count;
            let plain = texts.keys().filter(|key| (from..to).contains(&key.as_str()));
            assert_eq!(count, plain.count() as u64, "at revision {revision}");
        }
        let counted = store.range(&RangeOp { count_only: true, ..all() }).expect("it can be read");
        assert_eq!(counted.count, store.key_count());
    }

    /// For each revision, checks what a watcher finds that starts there.
    fn check_events(&self, store: &Store) {
        for from in store.compacted().max(1)..=store.revision() + 1 {
            let behind = Place { revision: from - 1, sub: u32::MAX };
            let found: Vec<&Event> = store.events_behind(behind).collect();
            let published = self.changes.iter().filter(|change| {
                let event = &change.event;
                let key = event.key().escape_ascii().to_string();
                let state = &self.history[event.revision() as usize - 1];
                let is_left = event.is_delete() || state.get(&key) == Some(&event_text(event));
                let revision = event.revision();
                revision >= from && (is_left || revision > store.compacted())
            });
            let published: Vec<&KeyChange> = published.collect();
            let events: Vec<&Event> = published.iter().map(|change| &change.event).collect();
            assert_eq!(found, events, "from {from}");
            for KeyChange { event, before } in published {
                let is_kept = event.revision() > store.compacted();
                assert_eq!(store.before(event), before.as_ref().filter(|_| is_kept));
                if is_kept {
                    let mut of_key = store.events_of(event.key(), event.revision() - 1);
                    assert!(of_key.any(|it| it == event), "{event:?}");
                }
            }
        }
    }

    fn note(&mut self, store: &Store) {
        if self.history.len() as i64 != store.revision() {
            let found = store.range(&all()).expect("it can be read");
            let key = |event: &Event| event.key().escape_ascii().to_string();
            let texts = found.events.iter().map(|event| (key(event), event_text(event)));
            self.history.push(texts.collect());
        }
    }
}

fn random_step(machine: &mut Machine, random: &mut Random, plain: &mut Plain) {
    let names = ["a", "b", "c", "d", "e", "f"];
    let mut name = || names[random.below(6)];
    let (key, end) = (name(), name());
    let value = format!("{}", random.below(1_000));
    let op = match random.below(10) {
        0 => Command::DeleteRange(a_delete(key, "")),
        1 => Command::DeleteRange(a_delete(key, end)),
        2 => {
            let ops = vec![Op::DeleteRange(a_delete(key, "")), Op::Put(a_put(end, &value))];
            Command::Txn(a_txn(vec![], ops, vec![]))
        }
        3 => {
            let back = random.below(6) as i64;
            Command::Compact { revision: machine.etcd.revision() - back }
        }
        _ => Command::Put(a_put(key, &value)),
    };
    let origin = Origin { member: MemberId(1), boot: BootId(1) };
    let stamp = Stamp { time_ms: 0, origin, connection: ConnectionId(0), identities: &[] };
    let mut changes = Changes::default();
    changes.etcd.set_wants_keys(true);
    machine.apply(&stamp, &AnyCommand::Etcd(op), &mut changes);
    plain.changes.extend_from_slice(changes.etcd.keys());
    plain.note(&machine.etcd);
    if random.below(3) == 0 {
        machine.prune();
    }
}

/// The sums of base and tail, computed from the versions that can be read.
fn sums_of(store: &Store) -> (Sum, Sum) {
    let (mut base, mut tail) = (Sum::default(), Sum::default());
    if store.compacted() > 0 {
        let at = RangeOp { revision: store.compacted(), ..all() };
        let found = store.range(&at).expect("the compacted revision can be read");
        found.events.iter().for_each(|event| base.add(Sum::of(event)));
    }
    store
        .edge
        .events
        .iter()
        .filter(|event| event.is_delete())
        .for_each(|event| base.add(Sum::of(event)));
    for event in store.tail.behind(Default::default()) {
        if event.revision() > store.compacted() {
            tail.add(Sum::of(event));
        }
    }
    (base, tail)
}

#[test]
fn random_histories_are_read_at_every_revision_and_images_hold_them_whatever_comes_meanwhile() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let (mut machine, mut plain) = (Machine::default(), Plain::default());
        plain.history.push(BTreeMap::new());
        for round in 0..6 {
            for _ in 0..random.below(120) {
                random_step(&mut machine, &mut random, &mut plain);
            }
            plain.check(&machine.etcd);
            plain.check_events(&machine.etcd);
            assert_eq!(sums_of(&machine.etcd), (machine.etcd.base_sum, machine.etcd.tail_sum));
            let (digest, revision) = (machine.digest(), machine.etcd.revision());
            let compacted = machine.etcd.compacted();
            let bytes_max = machine.image_bytes_max();
            machine.finish_entry(LogIndex(2 + round));
            machine.freeze();
            let mut restore = Restore::default();
            let mut bytes = 0;
            loop {
                let (piece, is_last) = match machine.freeze_step(64, 3) {
                    FreezeStep::Piece(piece) => (piece, false),
                    FreezeStep::Last(piece) => (piece, true),
                    FreezeStep::Aborted => panic!("no old values are kept"),
                };
                bytes += piece.len() as u64;
                restore.piece(&piece).expect("it is whole");
                if is_last {
                    break;
                }
                for _ in 0..random.below(3) {
                    random_step(&mut machine, &mut random, &mut plain);
                }
            }
            assert!(bytes <= bytes_max, "{bytes} of {bytes_max}");
            let restored = restore.finish().expect("its digest is right");
            assert_eq!(restored.digest(), digest);
            assert_eq!(
                (restored.etcd.revision(), restored.etcd.compacted()),
                (revision, compacted)
            );
            let mut until = Plain {
                history: plain.history[..revision as usize].to_vec(),
                changes: plain.changes.clone(),
            };
            until.changes.retain(|change| change.event.revision() <= revision);
            until.check(&restored.etcd);
            until.check_events(&restored.etcd);
            if random.below(2) == 0 {
                plain = until;
                machine = restored;
            }
        }
    }
}

/// Restores a store from its image, which is written in pieces of `bytes` bytes.
fn through_an_image(store: &mut Store, bytes: usize) -> Result<Store, RestoreError> {
    let (mut decoder, mut restore) = (RecordDecoder::default(), StoreRestore::default());
    store.freeze(Ordinal(1));
    loop {
        let mut piece = Vec::new();
        let step = store.freeze_step(&mut piece, bytes, 100);
        let mut records = Records::default();
        decoder.decode(&mut Reader::new(&piece), &mut records)?;
        restore.install(records)?;
        match step {
            WalkStep::Going => {}
            WalkStep::Ended => return restore.finish(Ordinal(1)),
            WalkStep::Aborted => panic!("nothing takes its place"),
        }
    }
}

#[test]
fn images_of_many_chunks_hold_keys_with_many_versions_and_transactions_of_many_events() {
    let mut store = Store::default();
    for number in 0..1_200 {
        put(&mut store, &format!("{:04}", number % 900), "v");
        put(&mut store, "hot", "v");
    }
    delete(&mut store, "0", "1");
    put(&mut store, "0001", "w");
    let newest = store.revision();
    for compacted in [None, Some(3), Some(600), Some(newest - 1), Some(newest)] {
        if let Some(revision) = compacted {
            compact(&mut store, revision).expect("it is not compacted");
            store.prune();
        }
        let mut restored = through_an_image(&mut store, 1_000).expect("it is whole");
        assert_eq!(restored.digest(), store.digest(), "compacted at {compacted:?}");
        assert_eq!(sums_of(&restored), (restored.base_sum, restored.tail_sum));
        let behind = Place { revision: store.compacted(), sub: u32::MAX };
        assert!(restored.tail.behind(Place::default()).eq(store.tail.behind(behind)));
        assert_eq!(restored.tail.count(), store.tail.count_behind(behind));
        let half = (store.compacted().max(0) + newest).div_euclid(2);
        if half > store.compacted() {
            compact(&mut restored, half).expect("it is not compacted");
            assert_eq!(sums_of(&restored), (restored.base_sum, restored.tail_sum));
        }
        while restored.has_garbage() {
            restored.prune();
        }
    }
}

#[test]
fn images_whose_events_do_not_fit_their_chunks_are_refused() {
    let mut store = Store::default();
    for number in 0..600 {
        put(&mut store, &format!("{number:04}"), "v");
    }
    store.freeze(Ordinal(1));
    let mut bytes = Vec::new();
    while let WalkStep::Going = store.freeze_step(&mut bytes, 1 << 20, u32::MAX) {}
    let restore = |bytes: &[u8]| {
        let (mut records, mut restore) = (Records::default(), StoreRestore::default());
        RecordDecoder::default().decode(&mut Reader::new(bytes), &mut records)?;
        restore.install(records)?;
        restore.finish(Ordinal(1)).map(|_| ())
    };
    assert_eq!(restore(&bytes), Ok(()));
    // The start record has 33 bytes, and each of the two chunk records has 13.
    let (first, second) = (33 + 1, 33 + 13 + 1);
    for (at, byte) in [(first, 1), (first, 3), (second, 1), (second, 3), (second + 8, 1)] {
        let mut changed = bytes.clone();
        changed[at] = byte;
        assert!(restore(&changed).is_err(), "byte {at} is {byte}");
    }
    let without_chunk = [&bytes[..33], &bytes[33 + 13..]].concat();
    assert!(restore(&without_chunk).is_err());
    let without_last = bytes.len()
        - (5 + store.tail.behind(Place::default()).last().map_or(0, |it| it.bytes().len()));
    // The last chunk may have any number of events, so only the digest shows that one is missing.
    assert_eq!(restore(&bytes[..without_last]), Ok(()));
}

#[test]
fn a_compaction_over_many_chunks_leaves_the_sums_right() {
    let mut store = Store::default();
    for number in 0..3 * crate::limits::ETCD_CHUNK_EVENTS {
        put(&mut store, &format!("{}", number % 700), "v");
    }
    for revision in [2, 511, 513, 514, 1_200, store.revision()] {
        compact(&mut store, revision).expect("it is not compacted");
        assert_eq!(sums_of(&store), (store.base_sum, store.tail_sum), "at {revision}");
        if revision % 2 == 0 {
            store.prune();
        }
        assert_eq!(sums_of(&store), (store.base_sum, store.tail_sum), "at {revision}, pruned");
    }
    while store.has_garbage() {
        store.prune();
    }
    assert_eq!(store.key_count(), 700);
    assert!(store.tail.count() < crate::limits::ETCD_CHUNK_EVENTS as u64);
}

/// With few changes among many keys, a count at an older revision works back from the present one.
#[test]
fn many_keys_are_counted_at_every_revision() {
    let (mut store, mut random) = (Store::default(), Random(3));
    let name = |number: usize| format!("{number:04}");
    for number in 0..4_000 {
        put(&mut store, &name(number), "v");
    }
    for _ in 0..50 {
        match random.below(3) {
            0 => delete(&mut store, &name(random.below(4_100)), "").1,
            1 => delete(&mut store, "0100", "0105").1,
            _ => put(&mut store, &name(random.below(4_100)), "w"),
        };
    }
    for revision in store.revision() - 60..=store.revision() {
        for (from, to) in [("\0", "\0"), ("0100", "3900"), ("0050", "\0"), ("01", "0102")] {
            let (range, count_only) = (keys(from, to), true);
            let counted = store.range(&RangeOp { revision, count_only, ..read(range) });
            let walked = store.index.range(range, revision).count() as u64;
            assert_eq!(counted.map(|found| found.count), Ok(walked), "{from} at {revision}");
            let page = store.range(&RangeOp { revision, limit: 1, ..read(range) });
            assert_eq!(page.map(|found| found.count), Ok(walked), "{from} at {revision}");
        }
    }
}

#[test]
fn a_decoder_stops_where_a_list_is_longer_than_its_bytes() {
    let mut bytes = vec![12, 3, 3];
    bytes.extend_from_slice(&[0xff; 12]);
    assert!(AnyCommand::decode(&bytes).is_err());
    assert!(Command::decode(&mut Reader::new(&[9])).is_err());
}

#[test]
fn an_event_has_one_form_and_keeps_the_largest_numbers() {
    // A deletion of key `a` at revision 2: kind, revision, position, length, key.
    assert!(Event::decode(&[b'D', 2, 0, 1, b'a']).is_ok());
    assert!(Event::decode(&[b'D', 0x82, 0, 0, 1, b'a']).is_err(), "a byte more than needed");
    assert!(Event::decode(&[b'D', 2, 0xff, 0xff, 0xff, 0xff, 0x10, 1, b'a']).is_err(), "33 bits");
    let too_long = [&[b'D'][..], &[0xff; 10], &[0, 1, b'a']].concat();
    assert!(Event::decode(&too_long).is_err(), "70 bits");
    let place = Place { revision: i64::MAX, sub: u32::MAX };
    let too_high = Version { create_revision: 1, version: i64::MAX, lease: -1 };
    let refused = Event::decode(Event::put(place, b"k", too_high, b"v").bytes());
    assert!(refused.is_err(), "the next version would be none");
    let numbers = Version { version: RESTORED_NUMBER_MAX as i64, ..too_high };
    let event = Event::put(place, b"k", numbers, b"v");
    assert_eq!(Event::decode(event.bytes()).as_ref(), Ok(&event));
    assert_eq!((event.place(), event.numbers()), (place, numbers));
    assert_eq!((event.key(), event.value()), (&b"k"[..], &b"v"[..]));
}

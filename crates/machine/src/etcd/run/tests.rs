use crate::change::Changes;
use crate::command::Command as AnyCommand;
use crate::etcd::change::{KeyChange, LeaseChange};
use crate::etcd::command::{
    Bounds, Command, Compare, CompareTarget, DeleteRange, KeyRange, Op, Put, RangeOp, Relation,
    SortOrder, SortTarget, Txn,
};
use crate::etcd::event::{Event, Place};
use crate::etcd::reply::Refusal;
use crate::etcd::store::Store;
use crate::etcd::txn_read::TxnRead;
use crate::ids::{BootId, ConnectionId, LeaseId, LogIndex, MemberId, Ordinal, Origin};
use crate::machine::tests::rig::Random;
use crate::machine::{ApplyStep, Machine};
use crate::reply::Reply;
use crate::stamp::Stamp;

const KEYS: [&[u8]; 8] = [b"a", b"b", b"b\0", b"bb", b"c", b"d", b"e", b"f"];
const LEASES: usize = 4;

const EVERYTHING: KeyRange<'_> = KeyRange { key: b"\0", end: b"\0" };

fn stamp() -> Stamp<'static> {
    let origin = Origin { member: MemberId(1), boot: BootId(1) };
    Stamp { time_ms: 0, origin, connection: ConnectionId(0), identities: &[] }
}

fn key(random: &mut Random) -> &'static [u8] {
    KEYS[random.below(KEYS.len())]
}

fn range(random: &mut Random) -> KeyRange<'static> {
    match random.below(8) {
        0 => EVERYTHING,
        1 => KeyRange { key: key(random), end: b"\0" },
        2..5 => KeyRange { key: key(random), end: key(random) },
        _ => KeyRange { key: key(random), end: b"" },
    }
}

fn op(random: &mut Random, depth: u32) -> Op<'static> {
    let prev_kv = random.below(2) == 0;
    match random.below(if depth == 0 { 3 } else { 4 }) {
        0 => Op::Range(read(random)),
        1 => Op::DeleteRange(DeleteRange { range: range(random), prev_kv }),
        2 => Op::Put(put(random)),
        _ => Op::Txn(txn(random, depth - 1)),
    }
}

/// A random read. Its revision is the present one, or one that may be refused.
fn read(random: &mut Random) -> RangeOp<'static> {
    let orders = [SortOrder::None, SortOrder::Ascend, SortOrder::Descend];
    let targets = [SortTarget::Key, SortTarget::Create, SortTarget::Mod, SortTarget::Value];
    RangeOp {
        limit: random.below(4) as i64,
        revision: if random.below(8) == 0 { 1 + random.below(20) as i64 } else { 0 },
        order: orders[random.below(orders.len())],
        target: targets[random.below(targets.len())],
        count_only: random.below(4) == 0,
        create_revision: Bounds { min: 0, max: 40 * random.below(2) as i64 },
        ..RangeOp::of(range(random))
    }
}

fn put(random: &mut Random) -> Put<'static> {
    let lease = random.below(LEASES) as i64;
    let prev_kv = random.below(2) == 0;
    Put { key: key(random), value: b"v", lease, prev_kv, ignore_value: false, ignore_lease: false }
}

fn txn(random: &mut Random, depth: u32) -> Txn<'static> {
    let relation = Relation::Greater;
    let target = CompareTarget::Version(random.below(3) as i64);
    let compares = vec![Compare { range: range(random), relation, target }];
    let mut ops = || (0..random.below(4)).map(|_| op(random, depth)).collect();
    Txn { compares, success: ops(), failure: ops() }
}

fn command(random: &mut Random, store: &Store) -> Command<'static> {
    let lease = LeaseId(1 + random.below(LEASES - 1) as i64);
    match random.below(16) {
        0 => Command::DeleteRange(DeleteRange { range: range(random), prev_kv: true }),
        1..4 => Command::Txn(txn(random, 3)),
        4 => Command::Grant { lease, ttl_s: 60 },
        5 => Command::Revoke { lease },
        6 => {
            let granted = |(lease, found): (LeaseId, &crate::etcd::lease::Lease)| {
                (lease, Ordinal(found.grant().granted.0 - u64::from(lease.0 == 2)))
            };
            Command::Expire { leases: store.leases().iter().map(granted).collect() }
        }
        7 => Command::Compact { revision: store.revision() - random.below(4) as i64 },
        _ => Command::Put(put(random)),
    }
}

/// The results of reads of a store: the keys and their number at several revisions, and the events.
fn shown(store: &Store) -> impl PartialEq + std::fmt::Debug + use<> {
    let newest = store.revision();
    let at_each: Vec<_> = (store.compacted().max(newest - 3).max(1)..=newest + 1)
        .map(|revision| {
            let read = |range, count_only| {
                store.range(&RangeOp { revision, count_only, ..RangeOp::of(range) })
            };
            let some = KeyRange { key: b"b", end: b"e" };
            (read(EVERYTHING, false), read(EVERYTHING, true), read(some, true), read(some, false))
        })
        .collect();
    let events: Vec<Event> = store.events_behind(Place::default()).cloned().collect();
    let of_key = |key: &&[u8]| store.events_of(key, store.compacted()).cloned().collect();
    let of_keys: Vec<Vec<Event>> = KEYS.iter().map(of_key).collect();
    (newest, at_each, events, of_keys)
}

/// Applies a command in steps of random size. Checks that reads between the steps, and watchers,
/// see only whole revisions.
fn apply_in_steps(
    machine: &mut Machine,
    command: &Command<'_>,
    is_taken: bool,
    random: &mut Random,
) -> (Reply, Vec<KeyChange>, Vec<LeaseChange>, bool, usize) {
    let (mut keys, mut leases) = (Vec::new(), Vec::new());
    let mut is_watched = random.below(2) == 0;
    let mut before = shown(&machine.etcd);
    let begin = machine.etcd.revision();
    for pauses in 0.. {
        let mut changes = Changes::default();
        changes.etcd.set_wants_keys(is_watched);
        let keys_max = 1 + random.below(4) as u64;
        let step = AnyCommand::Etcd(command.clone());
        let step_max = ApplyStep { keys_max, is_taken };
        let reply = machine.apply_step(&stamp(), &step, step_max, &mut changes);
        assert_eq!(reply.is_none(), machine.is_amid_command());
        keys.extend_from_slice(changes.etcd.keys());
        leases.extend_from_slice(changes.etcd.deadlines());
        let newest = keys.last().map(|change| change.event.revision());
        assert!(newest.is_none_or(|newest| newest <= machine.etcd.revision()));
        if let Some(reply) = reply {
            return (reply, keys, leases, is_watched, pauses);
        }
        // An expiry has a revision for each lease, so the end of each becomes visible.
        if !matches!(command, Command::Expire { .. }) {
            assert_eq!(machine.etcd.revision(), begin);
            assert_eq!(shown(&machine.etcd), before, "{command:?}");
        }
        before = shown(&machine.etcd);
        if random.below(4) == 0 {
            machine.prune();
            assert_eq!(shown(&machine.etcd), before, "{command:?}");
        }
        // The first watcher may come between two steps.
        is_watched |= random.below(8) == 0 && machine.etcd.revision() == begin;
    }
    unreachable!("a step looks at a key")
}

#[test]
fn steps_of_any_size_end_in_the_same_state_and_reads_between_them_see_no_part_of_a_command() {
    let (mut paused, mut paused_txns, mut paused_ends) = (0, 0, 0);
    for seed in 0..400 {
        let mut random = Random(seed);
        let (mut whole, mut stepped) = (Machine::default(), Machine::default());
        let mut silent = Machine::default();
        for number in 0..60 {
            let command = command(&mut random, &whole.etcd);
            let mut changes = Changes::default();
            changes.etcd.set_wants_keys(true);
            let expected = whole.apply(&stamp(), &AnyCommand::Etcd(command.clone()), &mut changes);
            let ordinal = stepped.mark().ordinal;
            let (reply, keys, leases, is_watched, pauses) =
                apply_in_steps(&mut stepped, &command, true, &mut random);
            apply_in_steps(&mut silent, &command, false, &mut random);
            assert_eq!(reply, expected, "seed {seed}, command {number}: {command:?}");
            assert_eq!(reply.mark.ordinal, ordinal.next());
            if is_watched {
                let pairs = |changes: &[KeyChange]| -> Vec<_> {
                    changes.iter().map(|it| (it.event.clone(), it.before.clone())).collect()
                };
                assert_eq!(pairs(&keys), pairs(changes.etcd.keys()), "seed {seed}: {command:?}");
            }
            assert_eq!(leases, changes.etcd.deadlines());
            assert_eq!(stepped.digest(), whole.digest(), "seed {seed}, command {number}");
            assert_eq!(silent.digest(), whole.digest(), "seed {seed}, command {number}");
            assert!(shown(&stepped.etcd) == shown(&whole.etcd));
            paused += usize::from(pauses > 0);
            paused_txns += usize::from(pauses > 0 && matches!(command, Command::Txn(_)));
            paused_ends += usize::from(pauses > 0 && !leases.is_empty());
            stepped.finish_entry(LogIndex(2 + number));
            whole.finish_entry(LogIndex(2 + number));
            silent.finish_entry(LogIndex(2 + number));
        }
    }
    let counts = (paused, paused_txns, paused_ends);
    assert!(paused > 500 && paused_txns > 300 && paused_ends > 40, "{counts:?}");
}

#[test]
fn a_transaction_that_only_reads_shows_one_revision_whatever_its_steps() {
    let (mut compacted, mut reached, mut refused) = (0, 0, 0);
    for seed in 0..1_000 {
        let mut random = Random(seed);
        let mut machine = Machine::default();
        for _ in 0..30 {
            let command = AnyCommand::Etcd(command(&mut random, &machine.etcd));
            machine.apply(&stamp(), &command, &mut Changes::default());
        }
        let begun_at = machine.etcd.revision();
        let mut txn = reads_only(txn(&mut random, 3));
        read_near(&mut txn, begun_at, &mut random);
        // The results of reading it at once, for each state that there is during the read.
        let mut expected = vec![machine.etcd.read_txn(&txn)];
        let mut read = TxnRead::default();
        let shown = loop {
            match machine.etcd.txn_read_step(&txn, &mut read, &mut (1 + random.below(3) as u64)) {
                Ok(true) => break Ok(read.finish()),
                Ok(false) => {}
                Err(refusal) => break Err(refusal),
            }
            let before = machine.etcd.compacted();
            let command = AnyCommand::Etcd(command(&mut random, &machine.etcd));
            machine.apply(&stamp(), &command, &mut Changes::default());
            compacted += usize::from(machine.etcd.compacted() > before);
            expected.push(machine.etcd.read_txn(&txn));
        };
        assert!(expected.contains(&shown), "seed {seed}: {txn:?}: {shown:?} of {expected:?}");
        refused += usize::from(shown == Err(Refusal::FutureRevision));
        let reaches = shown == Err(Refusal::FutureRevision) && machine.etcd.revision() > begun_at;
        reached += usize::from(reaches);
    }
    let counts = (compacted, refused, reached);
    assert!(compacted > 50 && refused > 100 && reached > 50, "{counts:?}");
}

/// Sets the revision of half of the ranges to one near `revision`, before or after it, which a
/// write or a compaction between two steps may reach.
fn read_near(txn: &mut Txn<'static>, revision: i64, random: &mut Random) {
    for op in txn.success.iter_mut().chain(&mut txn.failure) {
        match op {
            Op::Range(range) if random.below(2) == 0 => {
                range.revision = (revision - 2 + random.below(5) as i64).max(1);
            }
            Op::Txn(nested) => read_near(nested, revision, random),
            _ => {}
        }
    }
}

/// The transaction with a read in place of each write.
fn reads_only(txn: Txn<'static>) -> Txn<'static> {
    let of = |ops: Vec<Op<'static>>| -> Vec<Op<'static>> {
        let read = |op| match op {
            Op::Put(put) => Op::Range(RangeOp::of(KeyRange { key: put.key, end: b"" })),
            Op::DeleteRange(delete) => Op::Range(RangeOp::of(delete.range)),
            Op::Txn(txn) => Op::Txn(reads_only(txn)),
            read => read,
        };
        ops.into_iter().map(read).collect()
    };
    Txn { compares: txn.compares, success: of(txn.success), failure: of(txn.failure) }
}

#[test]
fn a_step_of_a_transaction_with_many_comparisons_looks_at_its_keys_and_no_more() {
    let mut machine = Machine::default();
    for number in 0..100 {
        let key = format!("{number:03}");
        let put = Put { key: key.as_bytes(), ..put(&mut Random(0)) };
        let command = AnyCommand::Etcd(Command::Put(Put { lease: 0, ..put }));
        machine.apply(&stamp(), &command, &mut Changes::default());
    }
    let (relation, target) = (Relation::Greater, CompareTarget::Version(0));
    let compares = vec![Compare { range: EVERYTHING, relation, target }; 100];
    let read = Op::Range(RangeOp { order: SortOrder::Descend, ..RangeOp::of(EVERYTHING) });
    let command =
        AnyCommand::Etcd(Command::Txn(Txn { compares, success: vec![read; 100], failure: vec![] }));
    let steps = |machine: &mut Machine, is_taken| {
        let step = ApplyStep { keys_max: 10, is_taken };
        let mut changes = Changes::default();
        (1..)
            .find(|_| machine.apply_step(&stamp(), &command, step, &mut changes).is_some())
            .expect("it ends")
    };
    // 100 comparisons of 100 keys each, and one key for each comparison itself.
    let judging = 100 * 101 / 10;
    let silent = steps(&mut machine, false);
    assert!((judging..judging + 3).contains(&silent), "{silent}");
    // The reads take as many steps, and one more each to sort the result, which is a single run.
    let taken = steps(&mut machine, true);
    assert!((2 * judging..2 * judging + 103).contains(&taken), "{taken}");
}

/// A read is at the revision of its first step. A higher revision that a write reaches meanwhile is
/// still a future one for the read.
#[test]
fn a_revision_that_is_reached_while_a_transaction_is_read_is_refused() {
    let mut machine = Machine::default();
    let set = || {
        let put = Put { key: b"a", lease: 0, ..put(&mut Random(0)) };
        AnyCommand::Etcd(Command::Put(put))
    };
    machine.apply(&stamp(), &set(), &mut Changes::default());
    let revision = machine.etcd.revision() + 1;
    let range = KeyRange { key: b"a", end: b"" };
    let (relation, target) = (Relation::Greater, CompareTarget::Version(0));
    let compares = vec![Compare { range, relation, target }; 3];
    let success = vec![Op::Range(RangeOp { revision, ..RangeOp::of(range) })];
    let txn = Txn { compares, success, failure: vec![] };
    let mut read = TxnRead::default();
    assert_eq!(machine.etcd.txn_read_step(&txn, &mut read, &mut 1), Ok(false));
    machine.apply(&stamp(), &set(), &mut Changes::default());
    let rest = machine.etcd.txn_read_step(&txn, &mut read, &mut u64::MAX.clone());
    assert_eq!(rest, Err(Refusal::FutureRevision));
}

/// A transaction compared keys before a compaction, and then refused a range of the chosen branch
/// because of that compaction. No single state gives this answer (sim seed 5505419).
#[test]
fn a_transaction_is_judged_anew_if_its_range_was_compacted_meanwhile() {
    let mut machine = Machine::default();
    let set = |machine: &mut Machine| {
        let command =
            AnyCommand::Etcd(Command::Put(Put { key: b"a", lease: 0, ..put(&mut Random(0)) }));
        machine.apply(&stamp(), &command, &mut Changes::default());
    };
    (0..4).for_each(|_| set(&mut machine));
    let (begun_at, range) = (machine.etcd.revision(), KeyRange { key: b"a", end: b"" });
    let (relation, target) = (Relation::Equal, CompareTarget::Mod(begun_at));
    let success = vec![Op::Range(RangeOp { revision: begun_at - 2, ..RangeOp::of(range) })];
    let txn = Txn { compares: vec![Compare { range, relation, target }], success, failure: vec![] };
    let mut read = TxnRead::default();
    assert_eq!(machine.etcd.txn_read_step(&txn, &mut read, &mut 1), Ok(false));
    set(&mut machine);
    let command = AnyCommand::Etcd(Command::Compact { revision: begun_at - 1 });
    machine.apply(&stamp(), &command, &mut Changes::default());
    let mut step = || machine.etcd.txn_read_step(&txn, &mut read, &mut u64::MAX.clone());
    assert_eq!((step(), step()), (Ok(false), Ok(true)));
    assert_eq!(Ok(read.finish()), machine.etcd.read_txn(&txn));
}

use super::*;
use crate::change::Changes;
use crate::command::Command as AnyCommand;
use crate::etcd::command::{Command, DeleteRange, Op, Put, Txn};
use crate::etcd::range::RangeRead;
use crate::etcd::reply::{Found, OpDone, Outcome};
use crate::etcd::store::Store;
use crate::ids::{BootId, ConnectionId, LeaseId, LogIndex, MemberId, Origin};
use crate::machine::tests::rig::Random;
use crate::machine::{ApplyStep, Machine};
use crate::reply::{Outcome as AnyOutcome, Reply};
use crate::stamp::Stamp;

fn keys<'a>(key: &'a str, end: &'a str) -> KeyRange<'a> {
    KeyRange { key: key.as_bytes(), end: end.as_bytes() }
}

/// A read that asks for the key of a range that was created first.
fn first(range: KeyRange<'_>) -> RangeOp<'_> {
    let (order, target) = (SortOrder::Ascend, SortTarget::Create);
    RangeOp { limit: 1, order, target, ..RangeOp::of(range) }
}

/// A read that asks for the key of a range that was created last, at revision `max` or before; 0
/// means no bound.
fn last(range: KeyRange<'_>, max: i64) -> RangeOp<'_> {
    let create_revision = Bounds { min: 0, max };
    RangeOp { order: SortOrder::Descend, create_revision, ..first(range) }
}

fn a_put(key: &str) -> Op<'_> {
    Op::Put(put_of(key.as_bytes(), 0))
}

fn put_of(key: &[u8], lease: i64) -> Put<'_> {
    let (prev_kv, ignore_value, ignore_lease) = (false, false, false);
    Put { key, value: b"v", lease, prev_kv, ignore_value, ignore_lease }
}

fn a_delete<'a>(key: &'a str, end: &'a str) -> Op<'a> {
    Op::DeleteRange(DeleteRange { range: keys(key, end), prev_kv: false })
}

/// Applies one step of a command.
fn step(machine: &mut Machine, command: &Command<'_>, keys_max: u64) -> Option<Reply> {
    let origin = Origin { member: MemberId(1), boot: BootId(1) };
    let stamp = Stamp { time_ms: 0, origin, connection: ConnectionId(0), identities: &[] };
    let command = AnyCommand::Etcd(command.clone());
    let step = ApplyStep { keys_max, is_taken: true };
    machine.apply_step(&stamp, &command, step, &mut Changes::default())
}

/// Runs operations in one transaction, in steps of `keys_max` keys. Returns the result of its last
/// range, and the number of steps.
fn run(machine: &mut Machine, ops: Vec<Op<'_>>, keys_max: u64) -> (Option<Found>, usize) {
    let command = Command::Txn(Txn { compares: vec![], success: ops, failure: vec![] });
    for steps in 1.. {
        let Some(reply) = step(machine, &command, keys_max) else { continue };
        let AnyOutcome::Etcd(Ok(Outcome::Txn(done))) = reply.outcome else { panic!("{reply:?}") };
        let ranges = done.branch.done.into_iter().filter_map(|done| match done {
            OpDone::Range(found) => Some(found),
            _ => None,
        });
        return (ranges.last(), steps);
    }
    unreachable!("a step looks at a key")
}

/// The result that a read at this revision must have, computed by a walk: takes all keys by key,
/// drops those outside of the read's bounds, and sorts the rest in a stable order.
fn walked(store: &Store, op: &RangeOp<'_>, revision: i64) -> Found {
    let all = RangeOp { revision, ..RangeOp::of(op.range) };
    let mut found = store.range(&all).expect("it is not compacted");
    found.keys_only = op.keys_only;
    let created = |event: &Event| event.numbers().create_revision;
    let Bounds { min, max } = op.create_revision;
    found.events.retain(|event| min == 0 || created(event) >= min);
    found.events.retain(|event| max == 0 || created(event) <= max);
    match op.order {
        SortOrder::Descend => found.events.sort_by_key(|event| core::cmp::Reverse(created(event))),
        SortOrder::None | SortOrder::Ascend => found.events.sort_by_key(created),
    }
    found.more = found.events.len() > 1;
    found.events.truncate(1);
    found
}

/// Reads in steps of `keys_max` keys. Returns the result, and how many keys were looked at.
fn read(store: &Store, op: &RangeOp<'_>, keys_max: u64) -> (Found, u64) {
    let mut read = store.begin_range(op).expect("it is not above the store's revision");
    let mut count = 0;
    loop {
        let mut keys_left = keys_max;
        let is_done = store.range_step(op, &mut read, &mut keys_left).expect("it is not compacted");
        count += keys_max - keys_left;
        if is_done {
            return (read.finish(op), count);
        }
    }
}

fn prune_all(machine: &mut Machine) {
    while machine.etcd.has_garbage() {
        machine.prune();
    }
}

fn set_limits(store: &mut Store, limits: OrderLimits) {
    store.orders.limits = limits;
}

const SMALL: OrderLimits = OrderLimits {
    keys_min: 3,
    keys_max: 30,
    orders_max: 3,
    idle_reads: 6,
    idle_writes: 12,
    step_keys: 2,
};

const NONE: OrderLimits = OrderLimits { keys_min: u64::MAX, ..SMALL };

/// Checks the invariants that the head of the module states.
fn check(store: &Store) {
    let CreationOrders { whole, build, key_count, .. } = &store.orders;
    let mut kept = 0;
    let built = build.iter().map(|build| (&build.order, Some(&*build.next)));
    let orders: Vec<_> = whole.iter().map(|order| (order, None)).chain(built).collect();
    for (order, next) in &orders {
        let mut in_order = Vec::new();
        let mut long_count = 0;
        for event in store.index.range(order.range.range(), i64::MAX) {
            match next.is_none_or(|next| event.key() < next) {
                true if event.key().len() > ETCD_ORDER_KEY_BYTES_MAX => long_count += 1,
                true => in_order.push((event.numbers().create_revision, event.key())),
                false => {}
            }
        }
        in_order.sort();
        let kept_keys = order.keys.in_order.iter();
        assert!(kept_keys.map(|it| (it.revision, &*it.key)).eq(in_order.iter().copied()));
        assert_eq!(order.keys.long_count, long_count);
        kept += in_order.len();
    }
    assert_eq!(*key_count, kept);
    assert!(*key_count <= store.orders.limits.keys_max);
    assert!(whole.len() <= store.orders.limits.orders_max);
    assert!(whole.is_sorted_by(|one, other| one.range.key < other.range.key));
    for (at, (order, _)) in orders.iter().enumerate() {
        let others = || orders[at + 1..].iter();
        assert!(!others().any(|(other, _)| order.range.overlaps(other.range.range())));
    }
}

/// How often a run reached each situation that it is to test.
#[derive(Debug, Default)]
struct Seen {
    answers: usize,
    walks: usize,
    reads_in_steps: usize,
    pauses: usize,
    writes_amid_a_build: usize,
    dropped: usize,
    ties: usize,
}

struct Model {
    random: Random,
    machine: Machine,
    /// An equal machine that never has creation orders.
    plain: Machine,
    under_way: Option<(RangeOp<'static>, RangeRead, i64)>,
    seen: Seen,
}

const NAMES: [&str; 4] = ["a/", "a/b/", "b/", "c"];

impl Model {
    fn key(&mut self) -> Vec<u8> {
        let mut key = NAMES[self.random.below(NAMES.len())].as_bytes().to_vec();
        key.extend(format!("{}", self.random.below(8)).bytes());
        if self.random.below(60) == 0 {
            key.resize(ETCD_ORDER_KEY_BYTES_MAX + 1, b'x');
        }
        key
    }

    fn range(&mut self) -> KeyRange<'static> {
        match self.random.below(12) {
            0 => keys("\0", "\0"),
            1 => keys("a/b", "\0"),
            2 => keys("b/2", ""),
            3 => keys("c", "b"),
            4 => keys("a/", "b/"),
            5..8 => keys("a/b/", "a/b0"),
            8..10 => keys("b/", "b0"),
            _ => keys("c", "d"),
        }
    }

    fn op(&mut self) -> RangeOp<'static> {
        let newest = self.machine.etcd.revision();
        let some = |random: &mut Random| match random.below(8) {
            0 => -1,
            1 => i64::MAX,
            2..5 => 0,
            _ => newest - random.below(30) as i64,
        };
        let range = self.range();
        let random = &mut self.random;
        let create_revision = Bounds { min: some(random), max: some(random) };
        let order = match random.below(9) {
            // Without an order, only bounds make the read look at all keys.
            0 if create_revision != Bounds::default() => SortOrder::None,
            0..5 => SortOrder::Ascend,
            _ => SortOrder::Descend,
        };
        let keys_only = random.below(4) == 0;
        RangeOp { create_revision, order, keys_only, ..first(range) }
    }

    fn command<'k>(&mut self, key: &'k [u8], others: &'k [Vec<u8>]) -> Command<'k> {
        let range = self.range();
        let lease = LeaseId(1 + self.random.below(2) as i64);
        match self.random.below(24) {
            0 => Command::DeleteRange(DeleteRange { range, prev_kv: false }),
            1 => Command::Revoke { lease },
            2 => Command::Grant { lease, ttl_s: 60 },
            3 => Command::Compact { revision: self.machine.etcd.revision() - 2 },
            4..8 => {
                let range = KeyRange { key, end: b"" };
                Command::DeleteRange(DeleteRange { range, prev_kv: false })
            }
            8..16 => {
                let mut success: Vec<Op<'k>> =
                    others.iter().map(|key| Op::Put(put_of(key, 0))).collect();
                for _ in 0..self.random.below(4) {
                    let at = self.random.below(success.len() + 1);
                    success.insert(at, Op::Range(self.op()));
                }
                if self.random.below(4) == 0 {
                    success.push(Op::DeleteRange(DeleteRange { range, prev_kv: true }));
                    success.push(Op::Range(self.op()));
                }
                Command::Txn(Txn { compares: vec![], success, failure: vec![] })
            }
            _ => Command::Put(put_of(key, self.random.below(3) as i64)),
        }
    }

    /// Applies a command in steps of random size, with reads and pruning between the steps.
    fn apply(&mut self, command: &Command<'_>) {
        let expected = step(&mut self.plain, command, u64::MAX);
        loop {
            self.seen.writes_amid_a_build += usize::from(self.machine.etcd.orders.build.is_some());
            let keys_max = 1 + self.random.below(6) as u64;
            let reply = step(&mut self.machine, command, keys_max);
            check(&self.machine.etcd);
            if reply.is_some() {
                assert_eq!(reply, expected, "{command:?}");
                return;
            }
            self.seen.pauses += 1;
            self.between();
        }
    }

    fn between(&mut self) {
        for _ in 0..self.random.below(3) {
            if self.random.below(2) == 0 {
                self.machine.prune();
                check(&self.machine.etcd);
            }
            let op = self.op();
            let store = &self.machine.etcd;
            let has_answer = store.first_created(&op, store.revision(), store.revision()).is_some();
            *(if has_answer { &mut self.seen.answers } else { &mut self.seen.walks }) += 1;
            assert!(!(has_answer && store.is_paused()));
            let (found, _) = read(store, &op, 1 + self.random.below(5) as u64);
            assert_eq!(found, walked(store, &op, 0), "{op:?}");
            if let [event] = &found.events[..] {
                let created = event.numbers().create_revision;
                let create_revision = Bounds { min: created, max: created };
                let of_revision = RangeOp { create_revision, ..op };
                let is_tie = walked(store, &of_revision, 0).more;
                self.seen.ties += usize::from(is_tie && has_answer);
            }
            self.seen.dropped += usize::from(!store.orders.dropped.is_empty());
        }
        self.read_on();
    }

    /// Continues a read that takes several steps. It stays at one revision, whatever is written
    /// meanwhile.
    fn read_on(&mut self) {
        let op = self.op();
        let store = &self.machine.etcd;
        let (op, mut read, at) = self.under_way.take().unwrap_or_else(|| {
            let read = store.begin_range(&op).expect("it is at the present revision");
            (op, read, store.revision())
        });
        match store.range_step(&op, &mut read, &mut 2) {
            Ok(false) => self.under_way = Some((op, read, at)),
            Ok(true) => {
                let (found, expected) = (read.finish(&op), walked(store, &op, at));
                assert_eq!((found.events, found.more), (expected.events, expected.more));
                assert_eq!(found.count, expected.count);
                self.seen.reads_in_steps += 1;
            }
            Err(_) => assert!(at < store.compacted()),
        }
    }
}

#[test]
fn answers_are_those_of_a_walk_whatever_is_written_dropped_or_half_built_meanwhile() {
    let mut seen = Seen::default();
    for seed in 0..150 {
        let random = Random(seed);
        let (machine, plain) = (Machine::default(), Machine::default());
        let mut model = Model { random, machine, plain, under_way: None, seen };
        set_limits(&mut model.machine.etcd, SMALL);
        set_limits(&mut model.plain.etcd, NONE);
        for number in 0..200 {
            let key = model.key();
            // A transaction must not put a key twice.
            let mut others: Vec<_> = (0..model.random.below(6)).map(|_| model.key()).collect();
            others.sort();
            others.dedup();
            let command = model.command(&key, &others);
            model.apply(&command);
            model.between();
            let index = LogIndex(2 + number);
            model.machine.finish_entry(index);
            model.plain.finish_entry(index);
            assert_eq!(model.machine.digest(), model.plain.digest());
        }
        assert!(model.plain.etcd.orders.whole.is_empty());
        seen = model.seen;
    }
    assert!(seen.answers > 3_000 && seen.walks > 3_000, "{seen:?}");
    assert!(seen.reads_in_steps > 1_000 && seen.pauses > 3_000, "{seen:?}");
    assert!(seen.writes_amid_a_build > 500 && seen.dropped > 500, "{seen:?}");
    assert!(seen.ties > 100, "{seen:?}");
}

/// A machine with `count` waiters for a lock, each created at its own revision, the last key first.
fn waiting(count: usize) -> Machine {
    let mut machine = Machine::default();
    for number in (0..count).rev() {
        run(&mut machine, vec![a_put(&format!("lock/{number:05}"))], u64::MAX);
    }
    machine
}

const LOCK: KeyRange<'_> = KeyRange { key: b"lock/", end: b"lock0" };

#[test]
fn of_20_000_waiters_each_one_but_the_first_looks_at_a_few_keys() {
    let mut machine = waiting(20_000);
    let (found, steps) = run(&mut machine, vec![a_put("lock/x"), Op::Range(first(LOCK))], 1_000);
    assert_eq!(found.map(|found| found.count), Some(20_001));
    assert!((20..=23).contains(&steps), "{steps}");
    for number in 0..1_000 {
        let (own, holder) = (format!("lock/y{number}"), format!("lock/{:05}", 19_999 - number));
        // A put and a range in one transaction. The two versions that the range finds are sorted.
        let (found, steps) = run(&mut machine, vec![a_put(&own), Op::Range(first(LOCK))], 6);
        let found = found.expect("it has a range");
        assert_eq!((found.events[0].key(), found.more, steps), (holder.as_bytes(), true, 1));
        // Then the client waits for the key created before its own.
        let store = &machine.etcd;
        let op = last(LOCK, store.revision() - 1);
        let (found, count) = read(store, &op, 4);
        assert!(count <= 2, "{count}");
        let before = if number == 0 { "lock/x".into() } else { format!("lock/y{}", number - 1) };
        assert_eq!(found.events[0].key(), before.as_bytes());
        assert_eq!(found.count, 20_002);
        // The lock's holder leaves.
        assert_eq!(run(&mut machine, vec![a_delete(&holder, "")], 4), (None, 1));
    }
    check(&machine.etcd);
}

#[test]
fn reads_alone_get_an_order_too() {
    let mut machine = waiting(2_000);
    let op = last(LOCK, 1_500);
    let (found, count) = read(&machine.etcd, &op, 100);
    assert_eq!(count, 2_000);
    assert!(machine.etcd.has_garbage());
    for _ in 0..3 {
        machine.prune();
        assert_eq!(read(&machine.etcd, &op, 100), (found.clone(), 2_000));
    }
    prune_all(&mut machine);
    assert_eq!(read(&machine.etcd, &op, 100), (found, 2));
    // A read at an old revision walks.
    let past = RangeOp { revision: 1_900, ..op };
    assert_eq!(read(&machine.etcd, &past, 100), (walked(&machine.etcd, &past, 1_900), 2_000));
}

#[test]
fn few_keys_too_many_keys_and_long_keys_are_walked_through() {
    let mut machine = waiting(ETCD_ORDER_KEYS_MIN as usize - 1);
    let has_order = |machine: &mut Machine, range| {
        let _ = read(&machine.etcd, &first(range), 10);
        prune_all(machine);
        let store = &machine.etcd;
        store.first_created(&first(range), store.revision(), store.revision()).is_some()
    };
    assert!(!has_order(&mut machine, LOCK));
    run(&mut machine, vec![a_put("lock/x")], 10);
    assert!(has_order(&mut machine, LOCK));
    assert!(!has_order(&mut machine, keys("lock/x", "")), "one key");
    assert!(!has_order(&mut machine, keys("lock0", "lock/")), "no key");

    let long = format!("lock/{}", "x".repeat(ETCD_ORDER_KEY_BYTES_MAX));
    run(&mut machine, vec![a_put(&long)], 10);
    assert!(!has_order(&mut machine, LOCK), "a long key");
    run(&mut machine, vec![a_delete(&long, "")], 10);
    assert!(has_order(&mut machine, LOCK));

    machine.etcd.orders.limits.keys_max = ETCD_ORDER_KEYS_MIN as usize;
    assert!(has_order(&mut machine, LOCK), "as many as may be");
    run(&mut machine, vec![a_put("lock/y")], 10);
    assert!(!has_order(&mut machine, LOCK), "one more");
    check(&machine.etcd);
    assert!(machine.etcd.orders.whole.is_empty() && !machine.etcd.has_garbage());
}

#[test]
fn a_range_in_use_is_kept_and_the_one_that_was_read_longest_ago_goes() {
    let mut machine = Machine::default();
    set_limits(&mut machine.etcd, SMALL);
    for name in ["a", "b", "c", "d"] {
        for number in 0..5 {
            run(&mut machine, vec![a_put(&format!("{name}/{number}"))], 10);
        }
    }
    let ask = |machine: &mut Machine, range| {
        let (found, count) = read(&machine.etcd, &first(range), 10);
        assert_eq!(found, walked(&machine.etcd, &first(range), 0));
        prune_all(machine);
        check(&machine.etcd);
        count <= 2
    };
    let [a, b, c, d] = [keys("a/", "a0"), keys("b/", "b0"), keys("c/", "c0"), keys("d/", "d0")];
    for range in [a, b, c] {
        assert!(!ask(&mut machine, range));
        assert!(ask(&mut machine, range));
    }
    assert!(ask(&mut machine, a));
    assert!(!ask(&mut machine, d), "it takes the place of b");
    for range in [a, c, d] {
        assert!(ask(&mut machine, range));
    }
    // A range that overlaps the range of an order in use is walked, until that order is out of use.
    let part_of_a = keys("a/1", "a/9");
    for _ in 0..SMALL.idle_reads - 3 {
        assert!(!ask(&mut machine, part_of_a));
        assert!(ask(&mut machine, d));
        assert!(ask(&mut machine, a));
    }
    for _ in 0..SMALL.idle_reads {
        assert!(!ask(&mut machine, part_of_a));
    }
    assert!(ask(&mut machine, part_of_a));
    assert!(!ask(&mut machine, a));
}

#[test]
fn an_order_goes_with_its_last_key() {
    let mut machine = waiting(200);
    run(&mut machine, vec![Op::Range(first(LOCK))], 10);
    assert_eq!(machine.etcd.orders.whole.len(), 1);
    run(&mut machine, vec![a_delete("lock/", "lock0")], 10);
    assert!(machine.etcd.orders.whole.is_empty());
    assert_eq!(machine.etcd.orders.key_count, 0);
}

#[test]
fn an_order_that_nobody_reads_is_not_kept_up_for_ever() {
    let mut machine = waiting(200);
    run(&mut machine, vec![Op::Range(first(LOCK))], 10);
    let order_count = |machine: &Machine| machine.etcd.orders.whole.len();
    for number in 0..4 {
        if number == 2 {
            assert_eq!(order_count(&machine), 1);
            let _ = read(&machine.etcd, &first(LOCK), 10);
        }
        // Create and delete a key, and change another one.
        for _ in 0..ETCD_ORDER_IDLE_WRITES / 4 {
            run(&mut machine, vec![a_put("lock/x"), a_delete("lock/x", "")], 10);
        }
        run(&mut machine, vec![a_put("lock/00000")], 10);
    }
    assert_eq!(order_count(&machine), 1);
    run(&mut machine, vec![a_put("lock/x")], 10);
    assert_eq!(order_count(&machine), 0);
    prune_all(&mut machine);
    assert!(machine.etcd.orders.dropped.is_empty());
}

#[test]
fn versions_that_changed_since_are_shown_as_they_are() {
    let mut machine = waiting(200);
    run(&mut machine, vec![Op::Range(first(LOCK))], 10);
    run(&mut machine, vec![a_put("lock/00199")], 10);
    let (found, count) = read(&machine.etcd, &first(LOCK), 10);
    assert_eq!((found.events[0].numbers().version, count), (2, 2));
    // A key that one transaction deletes and puts again counts as created last.
    run(&mut machine, vec![a_delete("lock/00199", ""), a_put("lock/00199")], 10);
    let newest = machine.etcd.revision();
    let (found, _) = read(&machine.etcd, &last(LOCK, 0), 10);
    let numbers = found.events[0].numbers();
    assert_eq!((numbers.version, numbers.create_revision), (1, newest));
    assert_eq!(read(&machine.etcd, &first(LOCK), 10).0, walked(&machine.etcd, &first(LOCK), 0));
}

use super::*;
use crate::change::Changes;
use crate::command::Command;
use crate::control::Command as ControlCommand;
use crate::etcd::auth::AuthCommand;
use crate::etcd::command::{Command as EtcdCommand, DeleteRange, KeyRange, Put};
use crate::etcd::reply::Refusal;
use crate::etcd::settings::Settings;
use crate::etcd_v2::command::{Command as V2Command, Write};
use crate::etcd_v2::key::Key;
use crate::etcd_v2::reply::Reason;
use crate::ids::{ConnectionId, LeaseId, Origin};
use crate::image::FreezeStep;
use crate::image::restore::Restore;
use crate::level::Level;
use crate::machine::{Machine, PreparedImage};
use crate::reply::Outcome;
use crate::stamp::Stamp;

#[test]
fn a_store_that_was_allowed_before_is_not_refused() {
    let of = HeldBounds::for_stores;
    let usual = HeldBounds { etcd_factor: 3, etcd_v2_floor: 0 };
    assert_eq!(of(1_000, (0, 0), 0), usual);
    assert_eq!(of(1_000, (100, 800), 1_000), usual);
    // It holds more than its quota: eight bytes in memory for each counted byte.
    let small_keys = of(1_000, (500, 3_900), 0);
    assert_eq!(small_keys.etcd_factor, 8);
    assert!(small_keys.etcd(1_000) >= 7_800, "the quota is reached first");
    let tree = of(1_000, (0, 0), 5_000);
    assert_eq!((tree.etcd_v2(1_000), tree.etcd_v2(9_000)), (10_000, 27_000));
    assert_eq!(tree.or(small_keys), HeldBounds { etcd_factor: 8, etcd_v2_floor: 10_000 });
    // An unlimited quota bounds nothing. If a quota is set later, what the store holds now stays
    // allowed.
    let large = of(u64::MAX, (1 << 30, 8 << 30), 5 << 30);
    assert_eq!((large.etcd_factor, large.etcd_v2_floor), (8, 10 << 30));
    assert_eq!(of(u64::MAX, (1, 1), 1).etcd(u64::MAX), u64::MAX);
    assert_eq!(usual.etcd_v2(u64::MAX), u64::MAX);
}

fn apply(machine: &mut Machine, command: &Command<'_>) -> Outcome {
    let (origin, connection) = (Origin::default(), ConnectionId(0));
    let stamp = Stamp { time_ms: 0, origin, connection, identities: &[] };
    machine.apply(&stamp, command, &mut Changes::default()).outcome
}

fn raise(machine: &mut Machine, level: Level) {
    apply(machine, &Command::Control(ControlCommand::Raise(level.into())));
}

/// A machine at a level, with this quota.
fn machine(level: Level, quota_bytes: u64) -> Machine {
    let mut machine = Machine::default();
    raise(&mut machine, level);
    let settings = Settings { quota_bytes, ..Settings::default() };
    apply(&mut machine, &Command::Etcd(EtcdCommand::Configure(settings)));
    machine
}

fn etcd(machine: &mut Machine, command: EtcdCommand<'_>) -> Result<(), Refusal> {
    match apply(machine, &Command::Etcd(command)) {
        Outcome::Etcd(outcome) => outcome.map(drop),
        other => panic!("{other:?}"),
    }
}

fn put(machine: &mut Machine, number: usize) -> Result<(), Refusal> {
    let (lease, prev_kv, ignore_value, ignore_lease) = (0, false, false, false);
    let key = format!("{number:08}");
    let put = Put { key: key.as_bytes(), value: b"", lease, prev_kv, ignore_value, ignore_lease };
    etcd(machine, EtcdCommand::Put(put))
}

/// Puts small keys until one is refused, and returns how many there are.
fn fill(machine: &mut Machine, first: usize) -> usize {
    let refused = (first..).find(|number| put(machine, *number).is_err());
    refused.expect("each put takes space")
}

fn set(machine: &mut Machine, key: &str, value: &[u8]) -> Result<(), Reason> {
    let write = Write { key: Key::new(key).expect("is a key"), value, ttl_s: None };
    let set = V2Command::Set { write, is_dir: false, is_refresh: false };
    match apply(machine, &Command::EtcdV2(set)) {
        Outcome::EtcdV2(outcome) => outcome.map(drop).map_err(|refusal| refusal.reason),
        other => panic!("{other:?}"),
    }
}

/// The machine restored from its image.
fn copy(machine: &mut Machine) -> Machine {
    machine.freeze();
    let mut restore = Restore::default();
    loop {
        let (piece, is_last) = match machine.freeze_step(1_000, 1_000) {
            FreezeStep::Piece(piece) => (piece, false),
            FreezeStep::Last(piece) => (piece, true),
            FreezeStep::Aborted => panic!("nothing changes meanwhile"),
        };
        restore.piece(&piece).expect("is a piece");
        if is_last {
            return restore.finish().expect("is whole");
        }
    }
}

fn refresh(machine: &mut Machine, key: &str, ttl_s: Option<u64>) -> Result<(), Reason> {
    let write = Write { key: Key::new(key).expect("is a key"), value: b"", ttl_s };
    match apply(machine, &Command::EtcdV2(V2Command::Update { write, is_refresh: true })) {
        Outcome::EtcdV2(outcome) => outcome.map(drop).map_err(|refusal| refusal.reason),
        other => panic!("{other:?}"),
    }
}

const QUOTA: u64 = 100_000;

#[test]
fn what_is_held_is_bounded_from_level_4_on_and_raises_no_alarm() {
    let mut old = machine(Level::ETCD_V2, QUOTA);
    let old_count = fill(&mut old, 0);
    assert!(old.etcd().bytes() > QUOTA - 300, "the quota alone counts");
    assert_eq!(old.etcd().alarms().iter().count(), 1);

    let mut new = machine(Level::TOKENS, QUOTA);
    let count = fill(&mut new, 0);
    assert!(count < old_count / 2, "{count} of {old_count}");
    assert!((290_000..=3 * QUOTA).contains(&new.etcd().held()), "{}", new.etcd().held());
    assert_eq!(new.etcd().alarms().iter().count(), 0);
    let grant = |number| EtcdCommand::Grant { lease: LeaseId(number), ttl_s: 9 };
    assert!((1..5).any(|number| etcd(&mut new, grant(number)) == Err(Refusal::NoSpace)));
    // Deleting and compacting make room again.
    let all = KeyRange { key: b"\0", end: b"\0" };
    assert_eq!(
        etcd(&mut new, EtcdCommand::DeleteRange(DeleteRange { range: all, prev_kv: false })),
        Ok(())
    );
    let revision = new.etcd().revision();
    assert_eq!(etcd(&mut new, EtcdCommand::Compact { revision }), Ok(()));
    assert_eq!(put(&mut new, 1), Ok(()));
    assert_eq!(etcd(&mut new, EtcdCommand::Compact { revision: revision + 1 }), Ok(()));
    // Leases count against the bound too.
    let leases = (10..).find(|number| etcd(&mut new, grant(*number)).is_err());
    assert!((900..950).contains(&leases.expect("each takes space")), "{leases:?}");
}

#[test]
fn a_store_that_holds_more_than_its_quota_goes_on_to_its_quota() {
    let mut machine = machine(Level::ETCD_V2, QUOTA);
    (0..5_000).for_each(|number| put(&mut machine, number).expect("is within the quota"));
    assert!(machine.etcd().held() > 5 * QUOTA);
    let before = machine.digest();
    raise(&mut machine, Level::TOKENS);
    assert_ne!(machine.digest(), before);
    assert_eq!(machine.control().bounds().map(|bounds| bounds.etcd_factor), Some(9));
    fill(&mut machine, 5_000);
    assert!(machine.etcd().bytes() > QUOTA - 300);
    assert_eq!(machine.etcd().alarms().iter().count(), 1, "it is the quota that refuses");
}

#[test]
fn the_tree_of_etcd_v2_has_a_bound_and_an_error_of_its_own() {
    let mut machine = machine(Level::TOKENS, QUOTA);
    let refused = (0..).find_map(|number| {
        let key = format!("/dir{number}/key");
        set(&mut machine, &key, b"value").err().map(|reason| (number, reason))
    });
    let (number, reason) = refused.expect("each write takes space");
    assert!((400..540).contains(&number), "{number}");
    assert_eq!(reason, Reason::NoSpace(format!("/dir{number}/key").into()));
    assert!(machine.etcd_v2().tree().held() <= 3 * QUOTA);
    // A write that makes nothing larger is not refused, and removals make room.
    assert_eq!(set(&mut machine, "/dir1/key", b"other"), Ok(()));
    assert!(set(&mut machine, "/dir1/key", &[b'x'; 2_000]).is_err());
    let with_ttl =
        (3..number).find(|at| refresh(&mut machine, &format!("/dir{at}/key"), Some(9)).is_err());
    assert!(with_ttl.is_some_and(|at| at < 20), "a time to live takes space: {with_ttl:?}");
    assert_eq!(refresh(&mut machine, "/dir3/key", Some(7)), Ok(()), "it had one");
    assert_eq!(refresh(&mut machine, "/dir3/key", None), Ok(()));
    assert!(machine.etcd_v2().tree().held() <= 3 * QUOTA);
    let key = Key::new("/dir2").expect("is a key");
    let delete = V2Command::Delete { key, is_dir: true, is_recursive: true };
    apply(&mut machine, &Command::EtcdV2(delete));
    assert_eq!(set(&mut machine, "/new", b""), Ok(()));
    // Nothing of this changed etcd v3's keys and alarms.
    assert_eq!(machine.etcd().alarms().iter().count(), 0);
    assert_eq!(put(&mut machine, 1), Ok(()));
}

#[test]
fn a_tree_that_was_larger_before_may_grow() {
    let mut machine = machine(Level::ETCD_V2, 1_000);
    for number in 0..100 {
        set(&mut machine, &format!("/key{number}"), b"").expect("there is no bound");
    }
    let held = machine.etcd_v2().tree().held();
    raise(&mut machine, Level::TOKENS);
    (0..).find(|number| set(&mut machine, &format!("/more{number}"), b"").is_err());
    assert!((2 * held - 1_000..=2 * held).contains(&machine.etcd_v2().tree().held()));
}

#[test]
fn bounds_are_restored_with_the_state_and_are_those_of_the_ensemble_with_another() {
    let mut large = machine(Level::ETCD_V2, 1_000_000);
    (0..5_000).for_each(|number| put(&mut large, number).expect("is within the quota"));
    let bounds_of = |machine: &Machine| machine.control().bounds().expect("it has bounds");

    let mut small = machine(Level::TOKENS, QUOTA);
    assert_eq!(small.etcd().bounds, Some(bounds_of(&small)));
    small.prepare_image(PreparedImage { hash: 7, machine: Box::new(large) });
    apply(&mut small, &Command::Control(ControlCommand::InstallImage { hash: 7 }));
    assert_eq!(bounds_of(&small).etcd_factor, 9, "it may hold what it has");
    assert_eq!(small.etcd().bounds, Some(bounds_of(&small)));
    assert_eq!(put(&mut small, 5_000), Ok(()));

    let restored = copy(&mut small);
    assert_eq!(bounds_of(&restored), bounds_of(&small));
    assert_eq!(restored.etcd().bounds, small.etcd().bounds);
    assert_eq!(restored.digest(), small.digest());
}

#[test]
fn a_new_ensemble_begins_with_the_level_and_the_bounds_of_its_backup() {
    let mut wide = machine(Level::ETCD_V2, QUOTA);
    (0..5_000).for_each(|number| put(&mut wide, number).expect("is within the quota"));
    let below = Machine::begin_with(copy(&mut wide));
    assert_eq!((below.control().level().level, below.control().bounds()), (Level::ETCD_V2, None));
    raise(&mut wide, Level::TOKENS);
    let begun = Machine::begin_with(copy(&mut wide));
    assert_eq!(begun.control().level().level, Level::TOKENS);
    assert_eq!(begun.control().bounds(), wide.control().bounds());
    assert_eq!(begun.etcd().bounds, wide.etcd().bounds);
}

/// An image without users says nothing about passwords, whatever its level is.
#[test]
fn an_image_of_level_4_makes_no_state_of_level_4() {
    let mut of_level_4 = machine(Level::TOKENS, QUOTA);
    put(&mut of_level_4, 1).expect("there is room");
    let mut old = machine(Level::ETCD_V2, QUOTA);
    old.prepare_image(PreparedImage { hash: 7, machine: Box::new(of_level_4) });
    apply(&mut old, &Command::Control(ControlCommand::InstallImage { hash: 7 }));
    assert_eq!((old.control().bounds(), old.etcd().bounds), (None, None));
    let mut again = copy(&mut old);
    for machine in [&mut old, &mut again] {
        let user = AuthCommand::AddUser { user: "ann", password: Some(b"a hash") };
        assert_eq!(etcd(machine, EtcdCommand::Auth(user)), Ok(()));
    }
    assert_eq!(old.digest(), again.digest(), "a start from a snapshot has the same");
}

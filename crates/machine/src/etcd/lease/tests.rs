use std::collections::BTreeMap;

use super::*;
use crate::Machine;
use crate::change::Changes;
use crate::codec::Reader;
use crate::command::Command as AnyCommand;
use crate::etcd::alarm::{Alarm, AlarmKind};
use crate::etcd::command::{Command, Op, Put};
use crate::etcd::reply::{Granted, Outcome, Refusal};
use crate::etcd::settings::Settings;
use crate::etcd::tests::{a_delete, a_put, a_txn, all};
use crate::ids::{BootId, ConnectionId, LogIndex, MemberId, Origin};
use crate::image::FreezeStep;
use crate::image::restore::Restore;
use crate::machine::tests::rig::Random;
use crate::reply::Outcome as AnyOutcome;
use crate::stamp::Stamp;

/// A machine, and the changes of leases that it has published.
#[derive(Default)]
struct Rig {
    machine: Machine,
    changes: Vec<LeaseChange>,
}

impl Rig {
    fn apply(&mut self, command: Command<'_>) -> Result<Outcome, Refusal> {
        let origin = Origin { member: MemberId(1), boot: BootId(1) };
        let stamp = Stamp { time_ms: 5, origin, connection: ConnectionId(0), identities: &[] };
        let mut changes = Changes::default();
        let reply = self.machine.apply(&stamp, &AnyCommand::Etcd(command), &mut changes);
        self.changes.extend_from_slice(changes.etcd.deadlines());
        let AnyOutcome::Etcd(outcome) = reply.outcome else { panic!("{:?}", reply.outcome) };
        outcome
    }

    fn grant(&mut self, lease: i64, ttl_s: i64) -> Result<(i64, i64), Refusal> {
        match self.apply(Command::Grant { lease: LeaseId(lease), ttl_s })? {
            Outcome::Granted(Granted { lease, ttl_s, .. }) => Ok((lease.0, ttl_s)),
            other => panic!("{other:?}"),
        }
    }

    fn put(&mut self, key: &str, lease: i64) -> Result<Outcome, Refusal> {
        self.apply(Command::Put(Put { lease, ..a_put(key, "v") }))
    }

    fn revoke(&mut self, lease: i64) -> Result<Outcome, Refusal> {
        self.apply(Command::Revoke { lease: LeaseId(lease) })
    }

    fn lease(&self, lease: i64) -> Option<&Lease> {
        self.machine.etcd.leases().get(LeaseId(lease))
    }

    /// The keys of a lease as text; `none` if the lease does not exist.
    fn keys(&self, lease: i64) -> String {
        let text = |key: &[u8]| key.escape_ascii().to_string();
        match self.lease(lease) {
            Some(lease) => lease.keys().map(text).collect::<Vec<_>>().join(" "),
            None => "none".to_string(),
        }
    }

    fn granted(&self, lease: i64) -> Ordinal {
        self.lease(lease).expect("it exists").grant().granted
    }

    /// The keys and revisions of the deletions above a revision, as text.
    fn removals(&self, above: i64) -> String {
        let store = &self.machine.etcd;
        let events = store.tail.behind(Default::default());
        let texts = events.filter(|event| event.is_delete() && event.revision() > above);
        let text = |event: &Event| format!("{}@{}", event.key().escape_ascii(), event.revision());
        texts.map(text).collect::<Vec<_>>().join(" ")
    }
}

#[test]
fn a_grant_gets_what_etcd_gives() {
    let mut rig = Rig::default();
    let too_large = Err(Refusal::LeaseTtlTooLarge);
    for (lease, ttl_s, expected) in [
        (7, 60, Ok((7, 60))),
        (7, 60, Err(Refusal::LeaseExists)),
        (7, ETCD_LEASE_TTL_S_MAX + 1, too_large),
        (8, ETCD_LEASE_TTL_S_MAX, Ok((8, ETCD_LEASE_TTL_S_MAX))),
        (9, i64::MAX, too_large),
        (-3, 1, Ok((-3, 2))),
        (i64::MIN, i64::MIN, Ok((i64::MIN, 2))),
        (10, 0, Ok((10, 2))),
        (11, 2, Ok((11, 2))),
        (12, 3, Ok((12, 3))),
    ] {
        assert_eq!(rig.grant(lease, ttl_s), expected, "{lease} {ttl_s}");
    }
    assert_eq!(rig.machine.etcd.revision(), 1, "a grant moves no revision");
    let settings = Settings { lease_ttl_s_min: 9, ..Settings::default() };
    assert_eq!(rig.apply(Command::Configure(settings)), Ok(Outcome::Configured));
    assert_eq!(rig.grant(13, 3), Ok((13, 9)));
    let settings = Settings { lease_ttl_s_min: 0, ..Settings::default() };
    assert_eq!(rig.apply(Command::Configure(settings)), Ok(Outcome::Configured));
    assert_eq!(rig.grant(14, -3), Ok((14, 1)));
}

#[test]
fn a_chosen_number_is_positive_and_free_and_the_same_on_all_members() {
    let (mut rig, mut other) = (Rig::default(), Rig::default());
    let mut chosen = Vec::new();
    for _ in 0..1_000 {
        let (lease, ttl_s) = rig.grant(0, 60).expect("it is chosen");
        assert_eq!(other.grant(0, 60), Ok((lease, ttl_s)));
        assert!(lease > 0 && ttl_s == 60);
        chosen.push(lease);
    }
    chosen.sort_unstable();
    chosen.dedup();
    assert_eq!(chosen.len(), 1_000);
    // An id that a lease has is not chosen.
    let leases = &rig.machine.etcd.leases;
    let free = leases.choose(Ordinal(5_000), 5);
    let mut taken = Leases::default();
    let grant = Grant { ttl_s: 1, granted: Ordinal(1) };
    assert!(taken.add(free, grant));
    assert_ne!(taken.choose(Ordinal(5_000), 5), free);
}

#[test]
fn a_key_belongs_to_the_lease_of_its_newest_version() {
    let mut rig = Rig::default();
    rig.grant(1, 60).unwrap();
    rig.grant(2, 60).unwrap();
    for (key, lease) in [("b", 1), ("a", 1), ("c", 2), ("a", 1)] {
        assert!(rig.put(key, lease).is_ok());
    }
    assert_eq!((rig.keys(1), rig.keys(2)), ("a b".into(), "c".into()));
    assert!(rig.put("a", 2).is_ok());
    assert_eq!((rig.keys(1), rig.keys(2)), ("b".into(), "a c".into()));
    let keep = Put { ignore_lease: true, ..a_put("a", "w") };
    assert!(rig.apply(Command::Put(keep)).is_ok());
    assert_eq!(rig.keys(2), "a c");
    assert!(rig.put("a", 0).is_ok());
    assert_eq!(rig.keys(2), "c");
    let ops = vec![
        Op::Put(Put { lease: 1, ..a_put("d", "") }),
        Op::DeleteRange(a_delete("b", "")),
        Op::Put(Put { lease: 2, ..a_put("b", "") }),
    ];
    assert!(rig.apply(Command::Txn(a_txn(vec![], ops, vec![]))).is_ok());
    assert_eq!((rig.keys(1), rig.keys(2)), ("d".into(), "b c".into()));
    assert!(rig.apply(Command::DeleteRange(a_delete("a", "d"))).is_ok());
    assert_eq!((rig.keys(1), rig.keys(2)), ("d".into(), String::new()));
}

#[test]
fn a_put_that_names_no_lease_is_refused_and_changes_nothing() {
    let mut rig = Rig::default();
    rig.grant(1, 60).unwrap();
    assert_eq!(rig.put("a", 2), Err(Refusal::LeaseNotFound));
    let within = |lease| vec![Op::Put(a_put("a", "")), Op::Put(Put { lease, ..a_put("b", "") })];
    let refused = rig.apply(Command::Txn(a_txn(vec![], within(2), vec![])));
    assert_eq!(refused, Err(Refusal::LeaseNotFound));
    assert_eq!(rig.machine.etcd.revision(), 1);
    assert!(rig.apply(Command::Txn(a_txn(vec![], within(1), within(2)))).is_ok());
    rig.revoke(1).unwrap();
    assert_eq!(rig.put("a", 1), Err(Refusal::LeaseNotFound));
}

#[test]
fn a_revoked_lease_takes_its_keys_with_it_at_one_revision_in_their_order() {
    let mut rig = Rig::default();
    rig.grant(1, 60).unwrap();
    rig.grant(2, 60).unwrap();
    for (key, lease) in [("c", 1), ("a", 1), ("b", 2), ("d", 1), ("e", 0)] {
        rig.put(key, lease).unwrap();
    }
    assert_eq!(rig.revoke(1), Ok(Outcome::Revoked { revision: 7 }));
    assert_eq!(rig.removals(1), "a@7 c@7 d@7");
    assert_eq!((rig.keys(1), rig.keys(2)), ("none".into(), "b".into()));
    assert_eq!(rig.revoke(1), Err(Refusal::LeaseNotFound));
    assert_eq!(rig.revoke(0), Err(Refusal::LeaseNotFound));
    rig.grant(3, 60).unwrap();
    assert_eq!(rig.revoke(3), Ok(Outcome::Revoked { revision: 7 }), "it had no keys");
    assert_eq!(rig.machine.etcd.range(&all()).map(|found| found.count), Ok(2));
}

#[test]
fn only_the_grant_that_was_judged_expires_and_each_lease_has_its_revision() {
    let mut rig = Rig::default();
    for (lease, key) in [(1, "a"), (2, "b"), (3, "c")] {
        rig.grant(lease, 60).unwrap();
        rig.put(key, lease).unwrap();
    }
    let judged = [1, 2, 3].map(|lease| (LeaseId(lease), rig.granted(lease)));
    rig.revoke(2).unwrap();
    rig.grant(2, 60).unwrap();
    rig.put("b", 2).unwrap();
    rig.changes.clear();
    let expire = Command::Expire { leases: [&judged[..], &[(LeaseId(9), Ordinal(1))]].concat() };
    assert_eq!(rig.apply(expire), Ok(Outcome::Expired));
    assert_eq!(rig.removals(6), "a@7 c@8");
    assert_eq!((rig.keys(1), rig.keys(2), rig.keys(3)), ("none".into(), "b".into(), "none".into()));
    assert_eq!(rig.changes, [1, 3].map(|lease| LeaseChange::Ended(LeaseId(lease))));
}

#[test]
fn leases_count_against_the_quota() {
    let mut rig = Rig::default();
    let quota_bytes = 3 * ETCD_LEASE_BYTES + 1;
    let settings = Settings { quota_bytes, ..Settings::default() };
    rig.apply(Command::Configure(settings)).unwrap();
    for lease in 1..=3 {
        assert!(rig.grant(lease, 60).is_ok());
    }
    assert_eq!(rig.grant(4, 60), Err(Refusal::NoSpace));
    let alarm = Alarm { kind: AlarmKind::NoSpace, member: 1 };
    rig.apply(Command::DisarmAlarm(alarm)).unwrap();
    assert_eq!(rig.grant(1, 60), Err(Refusal::LeaseExists), "as etcd's lessor, that comes first");
    rig.revoke(1).unwrap();
    assert!(rig.grant(4, 60).is_ok());
    assert_eq!(rig.machine.etcd.bytes(), 3 * ETCD_LEASE_BYTES);
}

/// Checks that each lease has exactly the keys whose newest version names it.
fn check(machine: &Machine) {
    let found = machine.etcd.range(&all()).expect("it can be read");
    let mut expected: BTreeMap<LeaseId, Vec<&[u8]>> = BTreeMap::new();
    for event in found.events.iter().filter(|event| event.numbers().lease != 0) {
        expected.entry(LeaseId(event.numbers().lease)).or_default().push(event.key());
    }
    let leases = machine.etcd.leases();
    let (mut digest, mut with_keys) = (Digest::default(), BTreeMap::new());
    for (id, lease) in leases.iter() {
        digest.add(digest_of(id, lease.grant()));
        assert_eq!(lease.keys().len(), lease.keys().count());
        if lease.keys().len() > 0 {
            with_keys.insert(id, lease.keys().collect::<Vec<_>>());
        }
        // The lease shares the newest version, so it keeps no older one in memory.
        for Attached(kept) in &lease.keys {
            assert_eq!(machine.etcd.index.newest(kept.key()), Some(kept));
        }
    }
    assert_eq!(with_keys, expected);
    assert_eq!(leases.digest(), digest);
}

fn random_step(rig: &mut Rig, random: &mut Random) {
    let lease = random.below(8) as i64;
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let (key, end) = (random.pick(&names), random.pick(&names));
    let command = match random.below(12) {
        0..3 => Command::Grant { lease: LeaseId(lease), ttl_s: random.below(100) as i64 },
        3 => Command::Revoke { lease: LeaseId(lease) },
        4 => {
            let judged = |(id, lease): (LeaseId, &Lease)| (id, lease.grant().granted);
            Command::Expire {
                leases: rig.machine.etcd.leases().iter().map(judged).take(2).collect(),
            }
        }
        5 => Command::DeleteRange(a_delete(key, end)),
        6 => Command::Compact { revision: rig.machine.etcd.revision() - random.below(4) as i64 },
        7 => {
            let ops =
                vec![Op::DeleteRange(a_delete(key, "")), Op::Put(Put { lease, ..a_put(end, "w") })];
            Command::Txn(a_txn(vec![], ops, vec![]))
        }
        _ => Command::Put(Put { lease, ..a_put(key, "v") }),
    };
    let _ = rig.apply(command);
}

/// The leases that Loop knows after these changes.
fn replayed(changes: &[LeaseChange]) -> BTreeMap<LeaseId, Grant> {
    let mut leases = BTreeMap::new();
    for change in changes {
        match *change {
            LeaseChange::Granted { lease, granted, ttl_s } => {
                leases.insert(lease, Grant { ttl_s, granted });
            }
            LeaseChange::Ended(lease) => assert!(leases.remove(&lease).is_some()),
        }
    }
    leases
}

#[test]
fn an_image_holds_the_leases_of_one_moment_whatever_comes_meanwhile() {
    for seed in 0..200 {
        let (mut rig, mut random) = (Rig::default(), Random(seed));
        for _ in 0..random.below(60) {
            random_step(&mut rig, &mut random);
        }
        check(&rig.machine);
        let told = replayed(&rig.changes);
        assert!(rig.machine.etcd.leases().iter().map(|(id, lease)| (id, lease.grant())).eq(told));
        let digest = rig.machine.digest();
        let grants: Vec<_> = rig.machine.etcd.leases().behind(None).collect();
        let bytes_max = rig.machine.image_bytes_max();
        rig.machine.finish_entry(LogIndex(2));
        rig.machine.freeze();
        let (mut restore, mut bytes) = (Restore::default(), 0);
        loop {
            let (piece, is_last) = match rig.machine.freeze_step(30, 1 + (seed % 2) as u32) {
                FreezeStep::Piece(piece) => (piece, false),
                FreezeStep::Last(piece) => (piece, true),
                FreezeStep::Aborted => panic!("nothing replaces the state"),
            };
            bytes += piece.len() as u64;
            restore.piece(&piece).expect("it is whole");
            if is_last {
                break;
            }
            for _ in 0..random.below(4) {
                random_step(&mut rig, &mut random);
            }
        }
        assert!(bytes <= bytes_max, "seed {seed}: {bytes} of {bytes_max}");
        let restored = restore.finish().expect("its digest is right");
        assert_eq!(restored.digest(), digest, "seed {seed}");
        assert!(restored.etcd.leases().behind(None).eq(grants));
        check(&restored);
        check(&rig.machine);
    }
}

/// Restores an image of a machine in which `change` has altered the records of etcd's section.
fn restored_with(machine: &mut Machine, change: impl Fn(&mut Vec<u8>)) -> Result<Machine, String> {
    use crate::image::format::Space;

    machine.freeze();
    let FreezeStep::Piece(first) = machine.freeze_step(usize::MAX, u32::MAX) else { panic!() };
    let mut restore = Restore::default();
    restore.piece(&first).expect("it is whole");
    let mut records = Vec::new();
    let mut frame;
    loop {
        let (piece, is_last) = match machine.freeze_step(usize::MAX, u32::MAX) {
            FreezeStep::Piece(piece) => (piece, false),
            FreezeStep::Last(piece) => (piece, true),
            FreezeStep::Aborted => panic!("nothing replaces the state"),
        };
        if piece.first() == Some(&b'F') {
            let length = u32::from_le_bytes(piece[2..6].try_into().unwrap()) as usize;
            assert_eq!(piece[1], Space::Etcd.number());
            records.extend_from_slice(&piece[6..6 + length]);
            frame = piece[6 + length..].to_vec();
        } else {
            frame = piece;
        }
        if is_last {
            break;
        }
    }
    change(&mut records);
    let mut piece = vec![b'F', Space::Etcd.number()];
    piece.extend_from_slice(&(records.len() as u32).to_le_bytes());
    piece.extend_from_slice(&records);
    // The last number in the end is the bytes of etcd's section.
    let end = frame.len() - 8;
    frame[end..].copy_from_slice(&(records.len() as u64).to_le_bytes());
    piece.extend_from_slice(&frame);
    restore.piece(&piece).map_err(|error| error.to_string())?;
    restore.finish().map_err(|error| error.to_string())
}

#[test]
fn an_image_whose_leases_do_not_fit_is_refused() {
    const START_BYTES: usize = 33;
    const LEASE_BYTES: usize = 25;
    let mut rig = Rig::default();
    rig.grant(1, 60).unwrap();
    rig.put("a", 1).unwrap();
    rig.machine.finish_entry(LogIndex(2));
    let mut check = |change: &dyn Fn(&mut Vec<u8>), expected: &str| match restored_with(
        &mut rig.machine,
        change,
    ) {
        Ok(machine) => assert_eq!(expected, "", "{:?}", machine.digest()),
        Err(error) => {
            assert!(!expected.is_empty() && error.contains(expected), "{error}, and not {expected}")
        }
    };
    let lease = START_BYTES..START_BYTES + LEASE_BYTES;
    let set = |offset: usize, number: i64| {
        let at = START_BYTES + 1 + offset;
        move |records: &mut Vec<u8>| records[at..at + 8].copy_from_slice(&number.to_le_bytes())
    };
    check(&|_| {}, "");
    check(&|records| drop(records.drain(lease.clone())), "do not fit");
    check(&set(0, 2), "do not fit");
    check(&set(0, 0), "number of a lease");
    check(&set(8, 0), "time to live of a lease");
    check(&set(8, ETCD_LEASE_TTL_S_MAX + 1), "time to live of a lease");
    check(&set(8, 61), "digest");
    check(&set(16, 9), "do not fit");
    let again = |records: &mut Vec<u8>| {
        let copy = records[lease.clone()].to_vec();
        records.splice(START_BYTES..START_BYTES, copy);
    };
    check(&again, "two leases have number 1");
    let behind = |records: &mut Vec<u8>| {
        let copy: Vec<u8> = records.drain(lease.clone()).collect();
        records.extend(copy);
    };
    check(&behind, "order of etcd records");
}

#[test]
fn leases_of_an_installed_image_count_as_granted_by_the_command_that_installs_it() {
    let mut image = Rig::default();
    for lease in 1..=3 {
        image.grant(lease, 60).unwrap();
        image.put("a", lease).unwrap();
    }
    image.revoke(2).unwrap();
    let mut rig = Rig::default();
    rig.grant(9, 60).unwrap();
    let hash = 5;
    let prepared = crate::PreparedImage { hash, machine: Box::new(image.machine) };
    rig.machine.prepare_image(prepared);
    let origin = Origin { member: MemberId(1), boot: BootId(1) };
    let stamp = Stamp { time_ms: 0, origin, connection: ConnectionId(0), identities: &[] };
    let mut changes = Changes::default();
    let install = AnyCommand::Control(crate::ControlCommand::InstallImage { hash });
    let mark = rig.machine.apply(&stamp, &install, &mut changes).mark;
    assert_eq!((rig.keys(9), rig.keys(1), rig.keys(3)), ("none".into(), "".into(), "a".into()));
    assert_eq!([1, 3].map(|lease| rig.granted(lease)), [mark.ordinal; 2]);
    let told = replayed(changes.etcd.deadlines());
    assert!(rig.machine.etcd.leases().behind(None).eq(told));
    check(&rig.machine);
}

#[test]
fn a_command_that_expires_more_leases_than_allowed_is_refused() {
    let mut bytes = vec![12, 3, 8];
    bytes.extend_from_slice(&(crate::limits::EXPIRE_LEASES_MAX as u32 + 1).to_le_bytes());
    bytes.resize(bytes.len() + 16 * (crate::limits::EXPIRE_LEASES_MAX + 1), 0);
    assert!(AnyCommand::decode(&bytes).is_err());
    assert!(decode(&mut Reader::new(&[0; 24])).is_err());
}

//! Reads the files of level 2: an entry with etcd's commands, and an image with etcd's keys.

use std::fmt::Write as _;

use machine::etcd::alarm::{Alarm, AlarmKind};
use machine::etcd::auth::{AuthCommand, ETCD_SCHEME, Permission, PermissionKind};
use machine::etcd::command::{
    Bounds, Command as EtcdCommand, Compare, CompareTarget, DeleteRange, KeyRange, Op, Put,
    RangeOp, Relation, SortOrder, SortTarget, Txn,
};
use machine::etcd::event::{Event, Place, Version};
use machine::etcd::lease::Grant;
use machine::etcd::token::Token;
use machine::etcd::{Settings, Store};
use machine::{Command, ConnectionId, ControlCommand, Identity, LeaseId, Level, Machine, Ordinal};

use super::{HERE, NOBODY, Sent, apply, entry_at, image_of, restore, visit};

const ENTRY: &[u8] = include_bytes!("../fixtures/entry-etcd-v1.bin");
const IMAGE: &[u8] = include_bytes!("../fixtures/image-etcd-v4.bin");
const IMAGE_TEXT: &str = include_str!("../fixtures/image-etcd-v4.txt");

/// The identities of a connection of user bob, identified at revision 12 of users and roles.
const BOB: &[Identity<'static>] = &[Identity { scheme: ETCD_SCHEME, id: "12/bob" }];

const ALL: KeyRange<'static> = KeyRange { key: b"\0", end: b"\0" };
const LETTERS: [u8; 16] = *b"aBcDeFgHiJkLmNoP";

fn range(key: &'static str, end: &'static str) -> KeyRange<'static> {
    KeyRange { key: key.as_bytes(), end: end.as_bytes() }
}

fn put(key: &'static str, value: &'static [u8], lease: i64) -> Put<'static> {
    let (prev_kv, ignore_value, ignore_lease) = (false, false, false);
    Put { key: key.as_bytes(), value, lease, prev_kv, ignore_value, ignore_lease }
}

fn a_read(revision: i64) -> RangeOp<'static> {
    RangeOp {
        range: range("a", "z"),
        limit: 7,
        revision,
        order: SortOrder::Descend,
        target: SortTarget::Create,
        keys_only: true,
        count_only: true,
        mod_revision: Bounds { min: 1, max: 2 },
        create_revision: Bounds { min: -3, max: i64::MAX },
    }
}

/// A transaction with everything that one can have, nested in another one. It reads at a revision.
fn transaction(revision: i64) -> Txn<'static> {
    let compare = |relation, target| Compare { range: range("k", "l"), relation, target };
    let compares = vec![
        compare(Relation::Equal, CompareTarget::Version(3)),
        compare(Relation::Greater, CompareTarget::Create(-1)),
        compare(Relation::Less, CompareTarget::Mod(1 << 40)),
        compare(Relation::NotEqual, CompareTarget::Value(b"value")),
        compare(Relation::Equal, CompareTarget::Lease(-9)),
    ];
    let sorted = [
        (SortOrder::None, SortTarget::Key),
        (SortOrder::Ascend, SortTarget::Version),
        (SortOrder::Descend, SortTarget::Mod),
        (SortOrder::Ascend, SortTarget::Value),
    ];
    let read = |(order, target)| Op::Range(RangeOp { order, target, ..RangeOp::of(ALL) });
    let mut success: Vec<Op<'static>> = sorted.into_iter().map(read).collect();
    success.push(Op::Range(a_read(revision)));
    success.push(Op::Put(Put { prev_kv: true, ..put("put", b"in a transaction", 0) }));
    success.push(Op::DeleteRange(DeleteRange { range: range("gone", ""), prev_kv: true }));
    let inner = Txn { compares: Vec::new(), success: success.clone(), failure: Vec::new() };
    Txn { compares, success, failure: vec![Op::Txn(inner)] }
}

fn changes_of_users() -> Vec<AuthCommand<'static>> {
    let permission = |kind, range| Some(Permission { kind, range });
    vec![
        AuthCommand::AddUser { user: "root", password: Some(b"a hash") },
        AuthCommand::AddUser { user: "bob", password: None },
        AuthCommand::AddUser { user: "eve", password: Some(b"") },
        AuthCommand::ChangePassword { user: "bob", password: b"another hash" },
        AuthCommand::AddRole { role: "root" },
        AuthCommand::AddRole { role: "reader" },
        AuthCommand::AddRole { role: "gone" },
        AuthCommand::GrantPermission {
            role: "reader",
            permission: permission(PermissionKind::Read, range("a", "z")),
        },
        AuthCommand::GrantPermission {
            role: "reader",
            permission: permission(PermissionKind::ReadWrite, range("b", "")),
        },
        AuthCommand::GrantPermission {
            role: "reader",
            permission: permission(PermissionKind::Write, range("c", "\0")),
        },
        AuthCommand::GrantPermission { role: "reader", permission: None },
        AuthCommand::RevokePermission { role: "reader", range: range("b", "") },
        AuthCommand::GrantRole { user: "root", role: "root" },
        AuthCommand::GrantRole { user: "bob", role: "reader" },
        AuthCommand::GrantRole { user: "bob", role: "gone" },
        AuthCommand::RevokeRole { user: "bob", role: "gone" },
        AuthCommand::DeleteRole { role: "gone" },
        AuthCommand::DeleteUser { user: "eve" },
        AuthCommand::Authenticate { user: "bob", prefix: LETTERS, revision: 1 << 40 },
        AuthCommand::Disable,
    ]
}

/// Every command of etcd's space.
fn everything() -> Vec<Sent> {
    let settings = Settings { quota_bytes: u64::MAX, txn_ops_max: 500, lease_ttl_s_min: 3 };
    let lease = LeaseId(0x1234_5678_9abc_def0);
    let leases = vec![(lease, Ordinal(8)), (LeaseId(-1), Ordinal(u64::MAX))];
    let alarm = |kind| Alarm { kind, member: 0xfeed };
    let mut commands = vec![
        EtcdCommand::Configure(settings),
        EtcdCommand::Put(put("put", b"value", 0)),
        EtcdCommand::Put(Put { ignore_value: true, ignore_lease: true, ..put("put", b"", 0) }),
        EtcdCommand::Put(Put { prev_kv: true, ..put("leased", b"\0\xff", lease.0) }),
        EtcdCommand::DeleteRange(DeleteRange { range: range("a", "b"), prev_kv: true }),
        EtcdCommand::DeleteRange(DeleteRange { range: ALL, prev_kv: false }),
        EtcdCommand::Txn(transaction(1 << 40)),
        EtcdCommand::Compact { revision: 1 << 40 },
        EtcdCommand::Grant { lease, ttl_s: 9_000_000_000 },
        EtcdCommand::Grant { lease: LeaseId(0), ttl_s: 1 },
        EtcdCommand::Revoke { lease },
        EtcdCommand::Expire { leases },
        EtcdCommand::Expire { leases: Vec::new() },
        EtcdCommand::RaiseAlarm(alarm(AlarmKind::NoSpace)),
        EtcdCommand::RaiseAlarm(alarm(AlarmKind::Corrupt)),
        EtcdCommand::DisarmAlarm(alarm(AlarmKind::Corrupt)),
    ];
    commands.extend(changes_of_users().into_iter().map(EtcdCommand::Auth));
    commands.push(EtcdCommand::Auth(AuthCommand::Enable));
    commands.into_iter().map(|command| sent(BOB, command)).collect()
}

fn sent(who: &'static [Identity<'static>], command: EtcdCommand<'static>) -> Sent {
    (ConnectionId(4), who, Command::Etcd(command))
}

fn entry() -> Vec<u8> {
    entry_at(Level::ETCD, &[(HERE, 1, everything())])
}

/// A machine with several versions of keys above and at the compacted revision, deletions at that
/// revision, leases, users, tokens and alarms.
fn machine_with_a_past() -> Machine {
    let mut machine = Machine::default();
    let mut next = 2;
    let raise = Command::Control(ControlCommand::Raise(Level::ETCD.into()));
    apply(
        &mut machine,
        &entry_at(Level::ETCD, &[(HERE, 1, vec![(ConnectionId(0), NOBODY, raise)])]),
    );
    let mut run = |commands: Vec<EtcdCommand<'static>>| {
        let commands = commands.into_iter().map(|command| sent(NOBODY, command)).collect();
        apply(&mut machine, &entry_at(Level::ETCD, &[(HERE, next, commands)]));
        next += 1;
    };
    let settings = Settings { quota_bytes: 1 << 33, txn_ops_max: 500, lease_ttl_s_min: 3 };
    run(vec![
        EtcdCommand::Configure(settings),
        EtcdCommand::Grant { lease: LeaseId(77), ttl_s: 60 },
        EtcdCommand::Grant { lease: LeaseId(-78), ttl_s: 1 },
        EtcdCommand::Grant { lease: LeaseId(79), ttl_s: 5 },
        EtcdCommand::Grant { lease: LeaseId(0), ttl_s: 100 },
        EtcdCommand::Put(put("of the past", b"value", 79)),
        EtcdCommand::Put(put("leased", b"value", 77)),
        EtcdCommand::Put(put("gone", b"value", 0)),
        EtcdCommand::Put(put("gone too", b"value", 0)),
        EtcdCommand::Put(put("old", b"first", 0)),
    ]);
    // Write more events than two chunks hold.
    for _ in 0..12 {
        run((0..100).map(|_| EtcdCommand::Put(put("many", b"value", 0))).collect());
    }
    let delete =
        EtcdCommand::DeleteRange(DeleteRange { range: range("gone", "h"), prev_kv: false });
    let compacted = 6 + 1_200 + 1;
    let alarm = Alarm { kind: AlarmKind::NoSpace, member: 0xfeed };
    run(vec![
        delete,
        EtcdCommand::Compact { revision: compacted },
        EtcdCommand::Revoke { lease: LeaseId(79) },
        EtcdCommand::Put(put("old", b"second", 0)),
        EtcdCommand::Put(put("moved", b"value", 77)),
        EtcdCommand::Put(put("moved", b"value", -78)),
        EtcdCommand::Put(put("gone", b"again", 0)),
        EtcdCommand::Txn(transaction(0)),
    ]);
    for _ in 0..12 {
        run((0..100).map(|_| EtcdCommand::Put(put("many", b"later", 0))).collect());
    }
    run(changes_of_users().into_iter().map(EtcdCommand::Auth).collect());
    run(vec![EtcdCommand::RaiseAlarm(alarm)]);
    run(vec![EtcdCommand::Auth(AuthCommand::Enable)]);
    run(vec![EtcdCommand::Auth(AuthCommand::Authenticate {
        user: "root",
        prefix: LETTERS,
        revision: 18,
    })]);
    machine
}

/// The whole state of etcd's space as text.
fn describe(machine: &Machine) -> String {
    let store = machine.etcd();
    let level = machine.control().level();
    let mut out = format!("digest {:032x}\n", machine.digest().0);
    let _ = writeln!(out, "level {} of {}", level.level, level.version);
    let numbers = (store.revision(), store.compacted(), store.bytes(), store.key_count());
    let _ = writeln!(out, "revision, compacted, bytes, keys {numbers:?}");
    let Settings { quota_bytes, txn_ops_max, lease_ttl_s_min } = store.settings();
    let _ = writeln!(out, "settings {quota_bytes} {txn_ops_max} {lease_ttl_s_min}");
    for revision in [store.compacted(), store.compacted() + 3, store.revision()] {
        let _ = writeln!(out, "at {revision}");
        let read = store.walk_range(ALL, revision, |event| {
            let _ = writeln!(out, "  {}", describe_event(event));
            true
        });
        read.expect("the revision can be read");
    }
    let events: Vec<String> = store.events_behind(Place::default()).map(describe_event).collect();
    let (first, last) = (events[..10].join("\n  "), events[events.len() - 1].as_str());
    let _ = writeln!(out, "{} events\n  {first}\n  ...\n  {last}", events.len());
    for (lease, found) in store.leases().iter() {
        let keys: Vec<String> = found.keys().map(|key| key.escape_ascii().to_string()).collect();
        let Grant { ttl_s, granted } = found.grant();
        let _ = writeln!(out, "lease {} {ttl_s} s granted {} {keys:?}", lease.0, granted.0);
    }
    describe_users(store, &mut out);
    for Alarm { kind, member } in store.alarms().iter() {
        let _ = writeln!(out, "alarm {} {member:x}", kind.name());
    }
    out
}

fn describe_event(event: &Event) -> String {
    let (Place { revision, sub }, key) = (event.place(), event.key().escape_ascii());
    if event.is_delete() {
        return format!("{revision}/{sub} delete {key}");
    }
    let Version { create_revision, version, lease } = event.numbers();
    let value = event.value().escape_ascii();
    format!("{revision}/{sub} put {key} {create_revision} {version} {lease} {value}")
}

fn describe_users(store: &Store, out: &mut String) {
    let auth = store.auth();
    let _ = writeln!(out, "enforced {} at revision {}", auth.is_enabled(), auth.revision());
    for (name, user) in auth.users() {
        let password = user.password.as_deref().map(|it| it.escape_ascii().to_string());
        let _ = writeln!(out, "user {name} {password:?} {:?}", user.roles);
    }
    for (name, role) in auth.roles() {
        let _ = writeln!(out, "role {name}");
        for Permission { kind, range } in role.permissions() {
            let (key, end) = (range.key.escape_ascii(), range.end.escape_ascii());
            let _ = writeln!(out, "  {} {key} {end}", kind as u8);
        }
    }
    let last = 3_000;
    for made in 0..last {
        let token = Token { prefix: LETTERS, made: Ordinal(made) };
        if let Some(user) = auth.user_of_token(token) {
            let _ = writeln!(out, "token {token} of {user}");
        }
    }
}

#[test]
fn an_entry_of_level_2_is_read_and_is_written_with_the_same_bytes() {
    let mut expected = everything().into_iter();
    visit(ENTRY, &mut |_, _, stamp, command| {
        let found = (stamp.connection, stamp.identities, command);
        let expected = expected.next();
        assert_eq!(Some(found), expected.as_ref().map(|(by, who, it)| (*by, *who, it)));
        assert_eq!(command.level(), Level::ETCD);
    });
    assert_eq!(expected.next(), None);
    assert_eq!(entry(), ENTRY);
}

#[test]
fn an_image_with_keys_gives_the_machine_it_was_taken_of() {
    assert_eq!(describe(&restore(IMAGE)), IMAGE_TEXT);
    assert_eq!(describe(&machine_with_a_past()), IMAGE_TEXT);
}

#[test]
fn an_image_with_keys_is_written_with_the_same_bytes() {
    assert_eq!(image_of(&mut machine_with_a_past()), IMAGE);
    assert_eq!(image_of(&mut restore(IMAGE)), IMAGE);
}

pub fn write_fixtures(write: impl Fn(&str, &[u8])) {
    write("entry-etcd-v1.bin", &entry());
    let mut machine = machine_with_a_past();
    write("image-etcd-v4.txt", describe(&machine).as_bytes());
    write("image-etcd-v4.bin", &image_of(&mut machine));
}

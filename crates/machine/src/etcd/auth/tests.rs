use super::*;
use crate::ControlCommand;
use crate::change::Changes;
use crate::command::Command as AnyCommand;
use crate::etcd::command::{
    Command, Compare, CompareTarget, DeleteRange, Op, Put, RangeOp, Relation, Txn,
};
use crate::etcd::lease_list::LeaseList;
use crate::etcd::reply::Outcome;
use crate::ids::{BootId, ConnectionId, LeaseId, LogIndex, MemberId, Ordinal, Origin};
use crate::image::FreezeStep;
use crate::image::restore::Restore;
use crate::level::Level;
use crate::limits::ETCD_TOKENS_MAX;
use crate::machine::Machine;
use crate::machine::tests::rig::Random;
use crate::stamp::Stamp;
use crate::zk::acl::Identity;

const NAMES: [&str; 4] = ["alice", "bob", "root", "carol"];
const KEYS: [&str; 6] = ["a", "a\0", "b", "c", "d", "e"];

fn keys<'a>(key: &'a str, end: &'a str) -> KeyRange<'a> {
    KeyRange { key: key.as_bytes(), end: end.as_bytes() }
}

fn add_user(user: &str) -> AuthCommand<'_> {
    AuthCommand::AddUser { user, password: Some(b"hash") }
}

fn grant<'a>(role: &'a str, kind: PermissionKind, key: &'a str, end: &'a str) -> AuthCommand<'a> {
    let permission = Some(Permission { kind, range: keys(key, end) });
    AuthCommand::GrantPermission { role, permission }
}

/// Applies a command with an ordinal that no earlier token has.
fn apply_to(auth: &mut Auth, command: &AuthCommand<'_>) -> Result<AuthDone, Refusal> {
    let ordinal = Ordinal(auth.revision() + auth.tokens.bytes() as u64);
    auth.apply(ordinal, command)
}

/// Applies commands that must succeed.
fn run(auth: &mut Auth, commands: &[AuthCommand<'_>]) {
    for command in commands {
        assert_eq!(apply_to(auth, command), Ok(AuthDone::Changed), "{command:?}");
    }
}

#[test]
fn changes_are_refused_as_etcd_does() {
    use AuthCommand::{
        AddRole, ChangePassword, DeleteRole, DeleteUser, Disable, Enable, GrantPermission,
        GrantRole, RevokePermission, RevokeRole,
    };
    let mut auth = Auth::default();
    assert_eq!(auth.revision(), 1);
    let refused = |auth: &mut Auth, command: AuthCommand<'_>, why: Refusal| {
        let before = auth.clone();
        assert_eq!(apply_to(auth, &command), Err(why), "{command:?}");
        assert_eq!(*auth, before);
    };
    run(&mut auth, &[Disable]);
    refused(&mut auth, Enable, Refusal::RootUserMissing);
    refused(&mut auth, add_user(""), Refusal::UserEmpty);
    run(&mut auth, &[add_user("root")]);
    refused(&mut auth, add_user("root"), Refusal::UserExists);
    refused(&mut auth, Enable, Refusal::RootRoleMissing);
    refused(&mut auth, GrantRole { user: "bob", role: "root" }, Refusal::UserNotFound);
    refused(&mut auth, GrantRole { user: "root", role: "r" }, Refusal::RoleNotFound);
    // The role `root` can be granted even if it does not exist.
    run(&mut auth, &[GrantRole { user: "root", role: "root" }]);
    assert_eq!(auth.revision(), 3);
    run(&mut auth, &[GrantRole { user: "root", role: "root" }, Enable, Enable]);
    assert_eq!(auth.revision(), 3);
    refused(&mut auth, DeleteUser { user: "root" }, Refusal::InvalidAuthManagement);
    refused(&mut auth, DeleteRole { role: "root" }, Refusal::InvalidAuthManagement);
    let revoke = RevokeRole { user: "root", role: "root" };
    refused(&mut auth, revoke.clone(), Refusal::InvalidAuthManagement);
    refused(&mut auth, DeleteUser { user: "bob" }, Refusal::UserNotFound);
    refused(&mut auth, ChangePassword { user: "bob", password: b"" }, Refusal::UserNotFound);
    refused(&mut auth, AddRole { role: "" }, Refusal::RoleEmpty);
    run(&mut auth, &[AddRole { role: "r" }, add_user("bob")]);
    refused(&mut auth, AddRole { role: "r" }, Refusal::RoleExists);
    refused(&mut auth, RevokeRole { user: "bob", role: "r" }, Refusal::RoleNotGranted);
    let given = GrantPermission { role: "x", permission: None };
    refused(&mut auth, given, Refusal::PermissionNotGiven);
    let read = PermissionKind::Read;
    refused(&mut auth, grant("x", read, "a", ""), Refusal::RoleNotFound);
    for (key, end) in [("", ""), ("", "\0"), ("b", "a"), ("b", "b")] {
        refused(&mut auth, grant("r", read, key, end), Refusal::InvalidAuthManagement);
    }
    run(&mut auth, &[grant("r", read, "a", "c"), grant("r", PermissionKind::Write, "a", "c")]);
    let kinds: Vec<_> = auth.role("r").unwrap().permissions().map(|it| it.kind).collect();
    assert_eq!(kinds, [PermissionKind::Write]);
    let revoke_range = |end| RevokePermission { role: "r", range: keys("a", end) };
    refused(&mut auth, revoke_range("b"), Refusal::PermissionNotGranted);
    run(&mut auth, &[GrantRole { user: "bob", role: "r" }, revoke_range("c")]);
    run(&mut auth, &[DeleteRole { role: "r" }]);
    assert!(auth.user("bob").unwrap().roles.is_empty());
    let revision = auth.revision();
    run(&mut auth, &[Disable, revoke, DeleteUser { user: "root" }]);
    assert_eq!(auth.revision(), revision + 3);
    assert_eq!(auth.users().map(|(name, _)| name).collect::<Vec<_>>(), ["bob"]);
}

#[test]
fn a_user_without_a_password_never_gets_one() {
    let mut auth = Auth::default();
    run(
        &mut auth,
        &[
            AuthCommand::AddUser { user: "a", password: None },
            add_user("b"),
            AuthCommand::ChangePassword { user: "a", password: b"new" },
            AuthCommand::ChangePassword { user: "b", password: b"new" },
        ],
    );
    assert_eq!(auth.user("a").unwrap().password, None);
    assert_eq!(auth.user("b").unwrap().password.as_deref(), Some(&b"new"[..]));
}

#[test]
fn a_change_beyond_the_bound_is_refused_and_removals_never_are() {
    let mut auth = Auth::default();
    let name = |number: usize| format!("{number:0>1000}");
    let mut count = 0;
    while apply_to(&mut auth, &add_user(&name(count))).is_ok() {
        count += 1;
    }
    assert_eq!(apply_to(&mut auth, &add_user(&name(count))), Err(Refusal::NoSpace));
    assert!((2_000..4_000).contains(&count), "{count}");
    run(&mut auth, &[AuthCommand::DeleteUser { user: &name(0) }, add_user(&name(count))]);
}

/// A random command. Most of them have an effect.
fn draw(random: &mut Random) -> AuthCommand<'static> {
    let pick = |random: &mut Random, all: &[&'static str]| all[random.below(all.len())];
    let (user, role) = (pick(random, &NAMES), pick(random, &NAMES));
    match random.below(16) {
        0 => AuthCommand::Enable,
        1 => AuthCommand::Disable,
        2 => AuthCommand::DeleteUser { user },
        3 => AuthCommand::ChangePassword { user, password: b"other" },
        4 => AuthCommand::RevokeRole { user, role },
        5 => AuthCommand::DeleteRole { role },
        6 => AuthCommand::RevokePermission { role, range: range(random) },
        7 => AuthCommand::AddUser { user, password: None },
        8 => add_user(user),
        9 => AuthCommand::AddRole { role },
        14 => AuthCommand::Authenticate { user, prefix: *b"abcdefghijklmnop", revision: 3 },
        10 | 11 => AuthCommand::GrantRole { user, role },
        _ => {
            let kind = [PermissionKind::Read, PermissionKind::Write, PermissionKind::ReadWrite]
                [random.below(3)];
            let permission = Some(Permission { kind, range: range(random) });
            AuthCommand::GrantPermission { role, permission }
        }
    }
}

fn range(random: &mut Random) -> KeyRange<'static> {
    let key = KEYS[random.below(KEYS.len())];
    match random.below(4) {
        0 => keys(key, ""),
        1 => keys(key, "\0"),
        _ => keys(key, KEYS[random.below(KEYS.len())]),
    }
}

/// Whether the permissions of a user's roles cover every key of a range. It tries the keys one by
/// one: between two keys that permissions name, one more key represents all others there.
fn is_covered(auth: &Auth, user: &str, access: Access, range: KeyRange<'_>) -> bool {
    let Some(user) = auth.user(user) else { return false };
    if user.roles.contains("root") {
        return true;
    }
    let mut all: Vec<Vec<u8>> = KEYS.iter().map(|key| key.as_bytes().to_vec()).collect();
    all.extend(KEYS.map(|key| [key.as_bytes(), b"\0\0"].concat()));
    all.push(b"z".to_vec());
    let is_in = |key: &[u8], range: KeyRange<'_>| match range.end {
        [] => key == range.key,
        [0] => key >= range.key,
        end => key >= range.key && key < end,
    };
    // A range that ends before it begins counts as its first key alone.
    let is_asked = |key: &[u8]| is_in(key, range) || key == range.key;
    let other = match access {
        Access::Read => PermissionKind::Write,
        Access::Write => PermissionKind::Read,
    };
    let roles = user.roles.iter().filter_map(|role| auth.role(role));
    let permissions: Vec<_> =
        roles.flat_map(Role::permissions).filter(|it| it.kind != other).collect();
    let is_permitted = |key: &[u8]| permissions.iter().any(|it| is_in(key, it.range));
    all.iter().filter(|key| is_asked(key)).all(|key| is_permitted(key))
}

#[test]
fn a_range_is_permitted_where_the_union_of_a_users_permissions_covers_it() {
    let (mut permitted, mut refused) = (0, 0);
    for seed in 0..300 {
        let (mut random, mut auth) = (Random(seed), Auth::default());
        for _ in 0..80 {
            let _ = apply_to(&mut auth, &draw(&mut random));
            for access in [Access::Read, Access::Write] {
                let (user, range) = (NAMES[random.below(NAMES.len())], range(&mut random));
                let expected = is_covered(&auth, user, access, range);
                assert_eq!(auth.permits(user, access, range), expected, "{seed}: {auth:?}");
                let is_some = auth.user(user).is_some_and(|user| !user.roles.is_empty());
                permitted += usize::from(expected && !auth.is_root(user));
                refused += usize::from(!expected && is_some);
            }
        }
    }
    assert!(permitted > 200 && refused > 500, "{permitted}, {refused}");
}

#[test]
fn changes_are_read_as_they_were_written_and_no_cut_or_changed_byte_panics() {
    let mut random = Random(1);
    let given = AuthCommand::GrantPermission { role: "r", permission: None };
    let drawn = (0..90).map(|_| draw(&mut random));
    for command in drawn.chain([given]) {
        let command = AnyCommand::Etcd(Command::Auth(command));
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

/// Applies a command for a user. The user is in the connection's identities, as in a batch.
fn apply_as(
    machine: &mut Machine,
    who: Option<AuthInfo<'_>>,
    command: Command<'_>,
) -> Result<Outcome, Refusal> {
    let origin = Origin { member: MemberId(1), boot: BootId(1) };
    let id = who.map(AuthInfo::to_id);
    let identities: Vec<_> =
        id.iter().map(|id| Identity { scheme: ETCD_SCHEME, id: id.as_str() }).collect();
    let stamp = Stamp { time_ms: 0, origin, connection: ConnectionId(1), identities: &identities };
    let reply = machine.apply(&stamp, &AnyCommand::Etcd(command), &mut Changes::default());
    match reply.outcome {
        crate::reply::Outcome::Etcd(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

/// Applies a command as `root`.
fn apply(machine: &mut Machine, command: AuthCommand<'_>) {
    let _ = apply_as(machine, now(machine, "root"), Command::Auth(command));
}

/// A user, identified at the present revision of users and roles.
fn now<'a>(machine: &Machine, user: &'a str) -> Option<AuthInfo<'a>> {
    Some(AuthInfo { user, revision: machine.etcd.auth().revision() })
}

/// A machine that enforces permissions: alice may read and write the keys from `a` to before `c`,
/// and bob may write only `b`.
fn enforced() -> Machine {
    let mut machine = Machine::default();
    let changes = [
        add_user("root"),
        AuthCommand::GrantRole { user: "root", role: "root" },
        add_user("alice"),
        AuthCommand::AddUser { user: "bob", password: None },
        AuthCommand::AddRole { role: "r" },
        AuthCommand::AddRole { role: "w" },
        grant("r", PermissionKind::ReadWrite, "a", "c"),
        grant("w", PermissionKind::Write, "b", ""),
        AuthCommand::GrantRole { user: "alice", role: "r" },
        AuthCommand::GrantRole { user: "bob", role: "w" },
        AuthCommand::Enable,
    ];
    for change in changes {
        let done = apply_as(&mut machine, None, Command::Auth(change.clone()));
        assert!(done.is_ok(), "{change:?}: {done:?}");
    }
    machine
}

fn put<'a>(key: &'a str, lease: i64, prev_kv: bool) -> Put<'a> {
    let (key, value) = (key.as_bytes(), b"v".as_slice());
    Put { key, value, lease, prev_kv, ignore_value: false, ignore_lease: false }
}

#[test]
fn each_command_needs_the_permissions_that_etcd_asks_for() {
    use Refusal::{AuthOldRevision, PermissionDenied, UserEmpty, UserNotFound};
    let mut machine = enforced();
    let delete = |key, end, prev_kv| DeleteRange { range: keys(key, end), prev_kv };
    let txn = |success: Vec<Op<'static>>, failure: Vec<Op<'static>>| {
        let range = keys("a", "");
        let compare =
            Compare { range, relation: Relation::Equal, target: CompareTarget::Version(7) };
        Command::Txn(Txn { compares: vec![compare], success, failure })
    };
    let read = |key, end| Op::Range(RangeOp::of(keys(key, end)));
    let nested = |op: Op<'static>| {
        Op::Txn(Txn { compares: Vec::new(), success: Vec::new(), failure: vec![op] })
    };
    let mut check = |who: Option<&str>, command: Command<'_>, expected: Option<Refusal>| {
        let who = who.and_then(|user| now(&machine, user));
        let refusal = apply_as(&mut machine, who, command.clone()).err();
        assert_eq!(refusal, expected, "{who:?}: {command:?}");
    };
    check(None, Command::Put(put("a", 0, false)), Some(UserEmpty));
    check(Some("zoe"), Command::Put(put("a", 0, false)), Some(PermissionDenied));
    check(Some("root"), Command::Put(put("zzz", 0, true)), None);
    check(Some("alice"), Command::Put(put("b", 0, true)), None);
    check(Some("alice"), Command::Put(put("c", 0, false)), Some(PermissionDenied));
    check(Some("bob"), Command::Put(put("b", 0, false)), None);
    check(Some("bob"), Command::Put(put("b", 0, true)), Some(PermissionDenied));
    check(Some("alice"), Command::DeleteRange(delete("a", "c", true)), None);
    check(Some("alice"), Command::DeleteRange(delete("a", "d", false)), Some(PermissionDenied));
    check(Some("alice"), Command::DeleteRange(delete("a", "\0", false)), Some(PermissionDenied));
    check(Some("bob"), Command::DeleteRange(delete("b", "", true)), Some(PermissionDenied));
    check(Some("bob"), Command::DeleteRange(delete("b", "", false)), None);
    check(Some("alice"), txn(vec![read("a", "c")], vec![Op::Put(put("b", 0, false))]), None);
    // The branch that does not run counts too, and so does a nested transaction.
    check(Some("alice"), txn(vec![read("a", "d")], Vec::new()), Some(PermissionDenied));
    check(Some("alice"), txn(vec![nested(read("d", ""))], Vec::new()), Some(PermissionDenied));
    check(Some("bob"), txn(Vec::new(), Vec::new()), Some(PermissionDenied));
    check(None, Command::Compact { revision: 1 }, Some(UserEmpty));
    check(Some("alice"), Command::Compact { revision: 1 }, Some(PermissionDenied));
    check(Some("root"), Command::Compact { revision: 1 }, None);
    check(None, Command::Auth(add_user("x")), Some(UserEmpty));
    check(Some("zoe"), Command::Auth(add_user("x")), Some(UserNotFound));
    check(Some("alice"), Command::Auth(add_user("x")), Some(PermissionDenied));
    check(None, Command::Configure(Default::default()), None);
    let old = Some(AuthInfo { user: "alice", revision: 3 });
    let refused = apply_as(&mut machine, old, Command::Put(put("a", 0, false)));
    assert_eq!(refused.err(), Some(AuthOldRevision));
    let origin = Origin { member: MemberId(1), boot: BootId(1) };
    let of_loop = Stamp { time_ms: 0, origin, connection: ConnectionId(0), identities: &[] };
    let compact = AnyCommand::Etcd(Command::Compact { revision: machine.etcd.revision() });
    let reply = machine.apply(&of_loop, &compact, &mut Changes::default());
    assert!(matches!(reply.outcome, crate::reply::Outcome::Etcd(Ok(Outcome::Compacted { .. }))));
}

#[test]
fn a_lease_needs_the_permissions_for_its_keys() {
    let mut machine = enforced();
    let mut check = |who: Option<&str>, command: Command<'_>, expected: Option<Refusal>| {
        let who = who.and_then(|user| now(&machine, user));
        let refusal = apply_as(&mut machine, who, command.clone()).err();
        assert_eq!(refusal, expected, "{who:?}: {command:?}");
    };
    let grant = |lease| Command::Grant { lease: LeaseId(lease), ttl_s: 100 };
    let revoke = |lease| Command::Revoke { lease: LeaseId(lease) };
    check(None, grant(1), Some(Refusal::UserEmpty));
    check(Some("bob"), grant(1), None);
    check(Some("alice"), Command::Put(put("a", 1, false)), None);
    // bob may write b, but not a, which has the lease as well.
    check(Some("bob"), Command::Put(put("b", 1, false)), Some(Refusal::PermissionDenied));
    check(Some("bob"), revoke(1), Some(Refusal::PermissionDenied));
    check(None, revoke(1), Some(Refusal::UserEmpty));
    check(Some("bob"), revoke(2), Some(Refusal::LeaseNotFound));
    check(Some("root"), Command::Put(put("z", 1, false)), None);
    check(Some("alice"), revoke(1), Some(Refusal::PermissionDenied));
    let expire = Command::Expire { leases: vec![(LeaseId(1), Ordinal(1))] };
    check(None, expire, None);
    check(Some("root"), revoke(1), None);
}

/// Lists the leases in steps of `step` keys.
fn listed(machine: &Machine, user: &str, step: u64) -> Result<Vec<i64>, Refusal> {
    let mut list = LeaseList::default();
    while !list_on(machine, user, &mut list, step)? {}
    Ok(list.found.iter().map(|lease| lease.0).collect())
}

/// One step of a list. True when the list is complete.
fn list_on(
    machine: &Machine,
    user: &str,
    list: &mut LeaseList,
    step: u64,
) -> Result<bool, Refusal> {
    let mut keys_left = step;
    let is_done = machine.etcd.list_leases(now(machine, user), list, &mut keys_left)?;
    assert!(is_done || keys_left == 0, "it goes as far as it may");
    Ok(is_done)
}

/// A machine with four leases. The first has three keys and the third has one; alice may read them.
fn with_leases() -> Machine {
    let mut machine = enforced();
    let root = now(&machine, "root");
    let grants = (1..=4).map(|lease| Command::Grant { lease: LeaseId(lease), ttl_s: 100 });
    let puts = [("a1", 1), ("a2", 1), ("a3", 1), ("b", 3)];
    let puts = puts.map(|(key, lease)| Command::Put(put(key, lease, false)));
    for command in grants.chain(puts) {
        assert!(apply_as(&mut machine, root, command).is_ok());
    }
    machine
}

#[test]
fn leases_are_listed_in_steps_of_any_length() {
    let mut machine = with_leases();
    for step in [1, 2, 3, 4, 5, 100] {
        assert_eq!(listed(&machine, "root", step), Ok(vec![1, 2, 3, 4]));
        assert_eq!(listed(&machine, "alice", step), Ok(vec![1, 2, 3, 4]));
        assert_eq!(listed(&machine, "bob", step), Err(Refusal::PermissionDenied));
    }
    let root = now(&machine, "root");
    assert!(apply_as(&mut machine, root, Command::Put(put("z", 4, false))).is_ok());
    for step in [1, 2, 100] {
        assert_eq!(listed(&machine, "alice", step), Err(Refusal::PermissionDenied));
        assert_eq!(listed(&machine, "root", step), Ok(vec![1, 2, 3, 4]));
    }
    // The first step looks at no more keys and leases than allowed.
    let mut list = LeaseList::default();
    assert_eq!(list_on(&machine, "alice", &mut list, 5), Ok(false));
    assert_eq!(list.found, [LeaseId(1), LeaseId(2)]);
}

#[test]
fn a_list_of_leases_goes_on_in_another_state() {
    for (key_anew, expected) in [
        // The lease has ended.
        (None, Ok(true)),
        // A new lease has the same id, and all its keys are checked.
        (Some("a0"), Ok(true)),
        (Some("A"), Err(Refusal::PermissionDenied)),
    ] {
        let mut machine = with_leases();
        let mut list = LeaseList::default();
        assert_eq!(list_on(&machine, "alice", &mut list, 2), Ok(false));
        assert!(list.found.is_empty(), "two of its keys were looked at");
        let root = now(&machine, "root");
        assert!(apply_as(&mut machine, root, Command::Revoke { lease: LeaseId(1) }).is_ok());
        if let Some(key) = key_anew {
            let grant = Command::Grant { lease: LeaseId(1), ttl_s: 100 };
            assert!(apply_as(&mut machine, root, grant).is_ok());
            assert!(apply_as(&mut machine, root, Command::Put(put(key, 1, false))).is_ok());
        }
        assert_eq!(list_on(&machine, "alice", &mut list, 100), expected);
        if expected.is_ok() {
            let first = if key_anew.is_some() { 1 } else { 2 };
            let found: Vec<i64> = list.found.iter().map(|lease| lease.0).collect();
            assert_eq!(found, (first..=4).collect::<Vec<_>>());
        }
    }
    let mut machine = with_leases();
    let mut list = LeaseList::default();
    assert_eq!(list_on(&machine, "alice", &mut list, 2), Ok(false));
    apply(&mut machine, AuthCommand::AddRole { role: "new" });
    let old = Some(AuthInfo { user: "alice", revision: 3 });
    let on = machine.etcd.list_leases(old, &mut list, &mut 100);
    assert_eq!(on, Err(Refusal::AuthOldRevision));
}

#[test]
fn who_may_write_all_keys_of_a_lease_is_remembered_until_somebody_else_puts_one() {
    let mut machine = enforced();
    let put_by = |machine: &mut Machine, user: &'static str, key, lease| {
        let who = now(machine, user);
        apply_as(machine, who, Command::Put(put(key, lease, false))).err()
    };
    let is_writable = |machine: &Machine, user| {
        let tag = machine.etcd.auth().user_tag(now(machine, user));
        machine.etcd.leases().get(LeaseId(1)).unwrap().is_writable_by(tag)
    };
    let root = now(&machine, "root");
    let grant = Command::Grant { lease: LeaseId(1), ttl_s: 100 };
    assert!(apply_as(&mut machine, root, grant).is_ok());
    for key in ["a1", "a2", "a3"] {
        assert_eq!(put_by(&mut machine, "alice", key, 1), None);
        assert!(is_writable(&machine, "alice"));
    }
    assert_eq!(put_by(&mut machine, "root", "z", 0), None);
    assert!(is_writable(&machine, "alice"), "that key has no lease");
    assert_eq!(put_by(&mut machine, "root", "z", 1), None);
    assert!(!is_writable(&machine, "alice"));
    assert_eq!(put_by(&mut machine, "alice", "a1", 1), Some(Refusal::PermissionDenied));
    assert_eq!(put_by(&mut machine, "root", "z", 0), None);
    assert_eq!(put_by(&mut machine, "alice", "a1", 1), None);
    // A user who was identified before the newest change is refused, even if the lease remembers
    // the user's permission: members that remember it and members that do not must decide alike.
    let old = now(&machine, "alice");
    apply(&mut machine, AuthCommand::AddRole { role: "new" });
    assert_eq!(put_by(&mut machine, "alice", "a1", 1), None);
    for _ in 0..2 {
        let refused = apply_as(&mut machine, old, Command::Revoke { lease: LeaseId(1) });
        assert_eq!(refused, Err(Refusal::AuthOldRevision));
    }
    // At another revision of users and roles, the lease remembers nothing.
    apply(&mut machine, AuthCommand::RevokeRole { user: "alice", role: "r" });
    assert!(!is_writable(&machine, "alice"));
    assert_eq!(put_by(&mut machine, "alice", "a1", 1), Some(Refusal::PermissionDenied));
    // While permissions are not enforced, anybody may attach a key to the lease, and the revision
    // does not change.
    apply(&mut machine, AuthCommand::GrantRole { user: "alice", role: "r" });
    assert_eq!(put_by(&mut machine, "alice", "a1", 1), None);
    apply(&mut machine, AuthCommand::Disable);
    assert_eq!(put_by(&mut machine, "zoe", "y", 1), None);
    apply(&mut machine, AuthCommand::Enable);
    assert_eq!(put_by(&mut machine, "alice", "a1", 1), Some(Refusal::PermissionDenied));
}

#[test]
fn tokens_end_with_their_user_its_password_and_the_enforcement() {
    let mut machine = enforced();
    let made = |machine: &mut Machine, user: &'static str| {
        let revision = machine.etcd.auth().revision();
        let prefix = *b"abcdefghijklmnop";
        let command = AuthCommand::Authenticate { user, prefix, revision };
        match apply_as(machine, None, Command::Auth(command))? {
            Outcome::Authenticated { token, .. } => Ok(token),
            other => panic!("{other:?}"),
        }
    };
    let token = made(&mut machine, "alice").unwrap();
    assert_eq!(Token::parse(&token.to_string()), Some(token));
    let user = |machine: &Machine, token| machine.etcd.auth().user_of_token(token).cloned();
    assert_eq!(user(&machine, token).as_deref(), Some("alice"));
    let other = Token { prefix: *b"abcdefghijklmnoq", ..token };
    assert_eq!(user(&machine, other), None);
    assert_eq!(user(&machine, Token { made: Ordinal(1), ..token }), None);
    assert_eq!(made(&mut machine, "zoe"), Err(Refusal::AuthFailed));
    assert_eq!(made(&mut machine, "bob"), Err(Refusal::AuthFailed), "bob has no password");
    let (alice, digest) = (made(&mut machine, "alice").unwrap(), machine.digest());
    assert_ne!(alice, token);
    let root = made(&mut machine, "root").unwrap();
    assert_ne!(machine.digest(), digest);
    apply(&mut machine, AuthCommand::ChangePassword { user: "alice", password: b"new" });
    assert_eq!([user(&machine, token), user(&machine, alice)], [None, None]);
    let alice = made(&mut machine, "alice").unwrap();
    apply(&mut machine, AuthCommand::DeleteUser { user: "alice" });
    apply(&mut machine, add_user("alice"));
    assert_eq!(user(&machine, alice), None);
    assert_eq!(user(&machine, root).as_deref(), Some("root"));
    apply(&mut machine, AuthCommand::Disable);
    assert_eq!(user(&machine, root), None);
    assert_eq!(made(&mut machine, "root"), Err(Refusal::AuthNotEnabled));
    for text in ["", ".", "abcdefghijklmnop", "abcdefghijklmnop.", "abcdefghijklmnop.+1", "a.1"] {
        assert_eq!(Token::parse(text), None, "{text}");
    }
    assert_eq!(Token::parse("abcdefghijklmnop.18446744073709551616"), None);
}

#[test]
fn a_token_is_not_made_behind_a_change() {
    let mut machine = enforced();
    let revision = machine.etcd.auth().revision();
    apply(&mut machine, AuthCommand::AddRole { role: "new" });
    let prefix = *b"abcdefghijklmnop";
    let command = AuthCommand::Authenticate { user: "root", prefix, revision };
    let refused = apply_as(&mut machine, None, Command::Auth(command));
    assert_eq!(refused, Err(Refusal::AuthOldRevision));
}

#[test]
fn of_too_many_tokens_the_oldest_of_the_user_with_the_most_goes() {
    let mut tokens = Tokens::default();
    let token = |made: usize| Token { prefix: [b'a'; 16], made: Ordinal(made as u64) };
    (0..10).for_each(|number| tokens.add(token(number), "few"));
    (10..ETCD_TOKENS_MAX + 5).for_each(|number| tokens.add(token(number), "many"));
    assert!((0..10).all(|number| tokens.user(token(number)).is_some()));
    assert!((10..15).all(|number| tokens.user(token(number)).is_none()));
    assert!(tokens.user(token(15)).is_some());
    assert_eq!([14, 15].map(|number| tokens.contains(Ordinal(number))), [false, true]);
    tokens.remove_user("many");
    tokens.remove_user("few");
    assert_eq!(tokens.digest(), Digest::default());
}

#[test]
fn an_image_has_the_users_and_roles_of_its_beginning_whatever_comes_meanwhile() {
    for seed in 0..40 {
        let (mut random, mut machine) = (Random(seed), Machine::default());
        if seed % 2 == 1 {
            machine = enforced();
        }
        for _ in 0..random.below(60) {
            let revision = machine.etcd.auth().revision();
            let authenticate =
                AuthCommand::Authenticate { user: "root", prefix: [b'x'; 16], revision };
            apply(&mut machine, authenticate);
            apply(&mut machine, draw(&mut random));
        }
        machine.finish_entry(LogIndex(2));
        let (digest, auth) = (machine.digest(), machine.etcd.auth().clone());
        let bytes_max = machine.image_bytes_max();
        machine.freeze();
        let (mut restore, mut bytes) = (Restore::default(), 0);
        loop {
            let (piece, is_last) = match machine.freeze_step(10, 1) {
                FreezeStep::Piece(piece) => (piece, false),
                FreezeStep::Last(piece) => (piece, true),
                FreezeStep::Aborted => panic!("nothing replaces the state"),
            };
            bytes += piece.len() as u64;
            restore.piece(&piece).expect("it is whole");
            if is_last {
                break;
            }
            apply(&mut machine, draw(&mut random));
        }
        assert!(bytes <= bytes_max, "{bytes} of {bytes_max}");
        let restored = restore.finish().expect("its digest is right");
        assert_eq!((restored.digest(), restored.etcd.auth()), (digest, &auth));
        for name in NAMES {
            let all = keys("\0", "\0");
            assert_eq!(restored.etcd.auth().permits(name, Access::Read, all), {
                auth.permits(name, Access::Read, all)
            });
        }
    }
}

#[test]
fn records_of_users_and_roles_that_break_the_format_are_refused() {
    let mut auth = Auth::default();
    run(
        &mut auth,
        &[
            add_user("alice"),
            add_user("root"),
            AuthCommand::AddRole { role: "r" },
            AuthCommand::AddRole { role: "s" },
            AuthCommand::GrantRole { user: "alice", role: "r" },
            AuthCommand::GrantRole { user: "alice", role: "s" },
            grant("r", PermissionKind::Read, "a", "b"),
            grant("r", PermissionKind::Write, "c", ""),
        ],
    );
    for made in [5, 300] {
        auth.tokens.add(Token { prefix: *b"abcdefghijklmnop", made: Ordinal(made) }, "root");
    }
    auth.tokens.add(Token { prefix: *b"qrstuvwxyzabcdef", made: Ordinal(7) }, "zoe");
    let encoded = |auth: &Auth| {
        let mut bytes = Vec::new();
        auth.encode(&mut bytes);
        assert!(bytes.len() as u64 <= auth.bytes_max());
        bytes
    };
    let read_at = |bytes: &[u8], knows: bool| {
        let mut reader = Reader::new(bytes);
        let auth = Auth::decode(&mut reader, knows)?;
        reader.finish().map(|()| auth)
    };
    let mut knowing = auth.clone();
    knowing.know_passwords_since(true);
    let change = AuthCommand::ChangePassword { user: "alice", password: b"new" };
    knowing.apply(Ordinal(9), &change).unwrap();
    for auth in [&auth, &knowing] {
        let (bytes, knows) = (encoded(auth), auth.knows_passwords_since());
        let found = read_at(&bytes, knows).unwrap();
        assert_eq!((&found, found.digest()), (auth, auth.digest()));
        for at in 0..bytes.len() {
            assert!(read_at(&bytes[..at], knows).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                // If the changed bytes can be read at all, the result has another digest.
                if let Ok(other) = read_at(&changed, knows) {
                    assert_ne!(other.digest(), auth.digest(), "bit {bit} of byte {at}");
                }
            }
        }
    }
    let bytes = encoded(&auth);
    let read = |bytes: &[u8]| read_at(bytes, false);
    let of = |name: &str| [&(name.len() as u32).to_le_bytes()[..], name.as_bytes()].concat();
    let swapped = |one: &str, other: &str| {
        let (one, other) = (of(one), of(other));
        let at = bytes.windows(one.len()).position(|it| it == one).expect("it is there");
        [&bytes[..at], &other, &bytes[at + one.len()..]].concat()
    };
    assert!(read(&swapped("alice", "")).is_err());
    assert!(read(&swapped("alice", "zelda")).is_err(), "users are in order");
    assert!(read(&swapped("r", "t")).is_err(), "roles of a user are in order");
}

/// A signed token names its user and a revision. For calls that need any user, or the role `root`,
/// etcd ignores the revision: a token of a deleted user stays valid there.
#[test]
fn a_signed_token_ends_with_its_user_and_with_its_password() {
    let mut machine = enforced();
    let raise = |machine: &mut Machine, level: Level| {
        let command = AnyCommand::Control(ControlCommand::Raise(level.into()));
        let (origin, connection) = (Origin::default(), ConnectionId(0));
        let stamp = Stamp { time_ms: 0, origin, connection, identities: &[] };
        machine.apply(&stamp, &command, &mut Changes::default());
    };
    let tries = |machine: &Machine, who| {
        let auth = machine.etcd.auth();
        (auth.require_user(who), auth.require_root(who).err() == Some(Refusal::InvalidAuthToken))
    };
    let change = |user| AuthCommand::ChangePassword { user, password: b"new" };
    let (ends, stays) = ((Err(Refusal::InvalidAuthToken), true), (Ok(()), false));
    raise(&mut machine, Level::ETCD_V2);
    let root = now(&machine, "root");
    apply(&mut machine, change("root"));
    assert_eq!(tries(&machine, root), stays, "below the level nobody knows");
    raise(&mut machine, Level::TOKENS);
    assert_eq!(tries(&machine, root), stays, "what was before is not known");
    let (root, bob) = (now(&machine, "root"), now(&machine, "bob"));
    // Changes of other users, and of roles, leave the tokens valid.
    for other in [
        change("alice"),
        AuthCommand::AddUser { user: "carol", password: Some(b"c") },
        AuthCommand::AddRole { role: "new" },
        AuthCommand::GrantRole { user: "bob", role: "new" },
        AuthCommand::DeleteRole { role: "new" },
        AuthCommand::DeleteUser { user: "carol" },
    ] {
        apply(&mut machine, other);
        assert_eq!(tries(&machine, root), stays);
        assert_eq!(tries(&machine, bob), stays);
    }
    apply(&mut machine, change("root"));
    assert_eq!(tries(&machine, root), ends);
    assert_eq!(tries(&machine, now(&machine, "root")), stays);
    let grant = Command::Grant { lease: LeaseId(1), ttl_s: 100 };
    assert_eq!(apply_as(&mut machine, root, grant.clone()), Err(Refusal::InvalidAuthToken));
    // A new user with the same name is not the user of the old token.
    let bob = now(&machine, "bob");
    apply(&mut machine, AuthCommand::DeleteUser { user: "bob" });
    assert_eq!(tries(&machine, bob).0, ends.0);
    apply(&mut machine, AuthCommand::AddUser { user: "bob", password: None });
    assert_eq!(tries(&machine, bob), ends);
    assert_eq!(tries(&machine, now(&machine, "bob")), stays);
    // A state that replaces this one has other passwords.
    let alice = now(&machine, "alice");
    let before = machine.etcd.auth().revision();
    std::sync::Arc::make_mut(&mut machine.etcd.auth).on_installed(before, true);
    assert_eq!(tries(&machine, alice), ends);
    let alice = now(&machine, "alice");
    assert!(apply_as(&mut machine, alice, grant).is_ok());
}

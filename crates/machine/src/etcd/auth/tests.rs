use super::*;
use crate::change::ChangeBatch;
use crate::command::Command as AnyCommand;
use crate::etcd::command::Command;
use crate::ids::{BootId, ConnectionId, LogIndex, MemberId, Origin};
use crate::image::FreezeStep;
use crate::image::restore::Restore;
use crate::machine::Machine;
use crate::machine::tests::rig::Random;
use crate::stamp::Stamp;

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

/// Runs changes that must succeed.
fn run(auth: &mut Auth, commands: &[AuthCommand<'_>]) {
    for command in commands {
        assert_eq!(auth.apply(command), Ok(()), "{command:?}");
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
        assert_eq!(auth.apply(&command), Err(why), "{command:?}");
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
    // The role `root` need not exist.
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
    while auth.apply(&add_user(&name(count))).is_ok() {
        count += 1;
    }
    assert_eq!(auth.apply(&add_user(&name(count))), Err(Refusal::NoSpace));
    assert!((2_000..4_000).contains(&count), "{count}");
    run(&mut auth, &[AuthCommand::DeleteUser { user: &name(0) }, add_user(&name(count))]);
}

/// A change drawn at random; most have an effect.
fn draw(random: &mut Random) -> AuthCommand<'static> {
    let pick = |random: &mut Random, all: &[&'static str]| all[random.below(all.len())];
    let (user, role) = (pick(random, &NAMES), pick(random, &NAMES));
    match random.below(14) {
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

/// Whether the permissions of a user's roles cover every key of a range, tried key by key. Between
/// two of the keys that permissions name, one more key stands for all others.
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
    // One that ends before it begins is as its first key.
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
            let _ = auth.apply(&draw(&mut random));
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
    let drawn = (0..60).map(|_| draw(&mut random));
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

fn apply(machine: &mut Machine, command: AuthCommand<'_>) {
    let origin = Origin { member: MemberId(1), boot: BootId(1) };
    let stamp = Stamp { time_ms: 0, origin, connection: ConnectionId(0), identities: &[] };
    let command = AnyCommand::Etcd(Command::Auth(command));
    machine.apply(&stamp, &command, &mut ChangeBatch::default());
}

#[test]
fn an_image_has_the_users_and_roles_of_its_beginning_whatever_comes_meanwhile() {
    for seed in 0..40 {
        let (mut random, mut machine) = (Random(seed), Machine::default());
        for _ in 0..random.below(60) {
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
    let mut bytes = Vec::new();
    auth.encode(&mut bytes);
    let read = |bytes: &[u8]| {
        let mut reader = Reader::new(bytes);
        let auth = Auth::decode(&mut reader)?;
        reader.finish().map(|()| auth)
    };
    assert_eq!(read(&bytes), Ok(auth.clone()));
    for at in 0..bytes.len() {
        assert!(read(&bytes[..at]).is_err(), "cut at {at}");
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            // What can be read differs, and so does its digest.
            if let Ok(other) = read(&changed) {
                assert_ne!(other.digest(), auth.digest(), "bit {bit} of byte {at}");
            }
        }
    }
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

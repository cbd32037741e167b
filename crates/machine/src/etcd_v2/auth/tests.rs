use super::*;
use crate::etcd_v2::change::Changes;
use crate::etcd_v2::command::{Command, Compare, Judged, Write as KeyWrite};
use crate::etcd_v2::reply::{Outcome, Reason, Refusal};
use crate::etcd_v2::store::Store;
use crate::etcd_v2::tests::{Rig, check_invariants};

const ADMIN: Who<'_> = Who::User(ROOT);

fn names(names: &[&str]) -> Names {
    names.iter().map(|name| Arc::from(*name)).collect()
}

/// Applies a command for a client. Returns what it has done, or why it is refused.
fn apply(store: &mut Store, who: Who<'_>, command: &AuthCommand<'_>) -> Result<Done, Refused> {
    let before = (store.index(), store.digest());
    let command = Command::Auth(command.clone());
    match store.apply((who, 0), &command, &mut Changes::default()) {
        Ok(Outcome::AuthDone(done)) => {
            assert_eq!(store.index(), before.0, "the index stays");
            assert_ne!(store.digest(), before.1);
            Ok(done)
        }
        Err(Refusal { reason: Reason::Auth(refused), .. }) => {
            assert_eq!((store.index(), store.digest()), before);
            Err(refused)
        }
        other => panic!("{other:?}"),
    }
}

fn a_user<'a>(name: &'a str, password: &'a str, grant: &[&'a str]) -> AuthCommand<'a> {
    let hash = password.as_bytes();
    let (may_create, may_change) = (true, grant.is_empty());
    let (grant, revoke) = (grant.to_vec(), Vec::new());
    AuthCommand::PutUser(PutUser { name, may_create, may_change, hash, grant, revoke })
}

fn a_change<'a>(name: &'a str, grant: &[&'a str], revoke: &[&'a str]) -> AuthCommand<'a> {
    let (grant, revoke) = (grant.to_vec(), revoke.to_vec());
    let (may_create, may_change) = (false, true);
    AuthCommand::PutUser(PutUser { name, may_create, may_change, hash: b"", grant, revoke })
}

fn a_role<'a>(name: &'a str, read: &[&'a str], write: &[&'a str]) -> AuthCommand<'a> {
    let grant = Patterns { read: read.to_vec(), write: write.to_vec() };
    AuthCommand::PutRole(PutRole { name, is_change: false, grant, revoke: Patterns::default() })
}

/// A command that changes the patterns that a role may read.
fn may_read<'a>(name: &'a str, grant: &[&'a str], revoke: &[&'a str]) -> AuthCommand<'a> {
    let [grant, revoke] =
        [grant, revoke].map(|read| Patterns { read: read.to_vec(), write: Vec::new() });
    AuthCommand::PutRole(PutRole { name, is_change: true, grant, revoke })
}

const ON: AuthCommand<'_> = AuthCommand::Enforce { is_enabled: true };
const OFF: AuthCommand<'_> = AuthCommand::Enforce { is_enabled: false };

/// A store that enforces permissions: user `app` may read everything below `/app`, and write one
/// key there.
fn a_store() -> Store {
    let mut store = Store::default();
    for command in [
        a_user(ROOT, "secret", &[]),
        a_role("app", &["/app/*"], &["/app/key"]),
        a_user("app", "secret", &["app", "gone"]),
        a_role(GUEST_ROLE, &["/open"], &[]),
        ON,
    ] {
        assert!(apply(&mut store, Who::Guest, &command).is_ok(), "{command:?}");
    }
    store
}

#[test]
fn who_may_do_what() {
    let store = a_store();
    let may = |who, key: &str, is_write, is_recursive| {
        let key = Key::new(key).unwrap();
        store.auth().permits(who, Access { key, is_write, is_recursive })
    };
    let app = Who::User("app");
    for (who, key, reads, writes) in [
        (Who::Member, "/any", true, true),
        (ADMIN, "/any", true, true),
        (app, "/app/key", true, true),
        (app, "/app/other", true, false),
        // The directory itself; a client may write its key with a slash at the end.
        (app, "/app", true, false),
        (app, "/apple", false, false),
        (app, "", false, false),
        (app, "/open", false, false),
        (Who::Guest, "/open", true, false),
        (Who::Guest, "/open/below", false, false),
        (Who::Guest, "/app/key", false, false),
        (Who::User("nobody"), "/open", false, false),
    ] {
        let found = [false, true].map(|is_write| may(who, key, is_write, false));
        assert_eq!(found, [reads, writes], "{who:?} {key}");
    }
    // Access to everything below a key needs a pattern that matches a whole prefix; except for
    // guests, as in etcd.
    assert!(may(app, "/app", false, true) && !may(app, "/app/key", true, true));
    assert!(may(Who::Guest, "/open", false, true));
    for (who, is_root) in [(ADMIN, true), (Who::Member, true), (app, false), (Who::Guest, false)] {
        assert_eq!(store.auth().permits_root(who), is_root, "{who:?}");
    }
}

#[test]
fn each_command_needs_a_permission_for_its_key() {
    let mut store = a_store();
    let (key, other) = (Key::new("/app/key").unwrap(), Key::new("/app/other").unwrap());
    let compare = Compare { value: b"", index: 1 };
    for (key, is_permitted) in [(key, true), (other, false)] {
        let write = KeyWrite { key, value: b"", ttl_s: None };
        let (is_dir, is_refresh) = (false, false);
        for command in [
            Command::Update { write, is_refresh },
            Command::CompareAndSwap { write, compare, is_refresh },
            Command::Delete { key, is_dir, is_recursive: false },
            Command::CompareAndDelete { key, compare },
            Command::Set { write, is_dir, is_refresh },
            Command::Create { write, is_dir, is_in_order: false },
        ] {
            let mut changes = Changes::default();
            let outcome = store.apply((Who::User("app"), 0), &command, &mut changes);
            let is_refused = matches!(&outcome, Err(it) if it == &Refusal::UNAUTHORIZED);
            assert_eq!(is_refused, !is_permitted, "{command:?}: {outcome:?}");
        }
    }
    let all = Command::Delete { key, is_dir: false, is_recursive: true };
    let mut changes = Changes::default();
    assert_eq!(store.apply((Who::User("app"), 0), &all, &mut changes), Err(Refusal::UNAUTHORIZED));
    let expire = Command::Expire { keys: vec![Judged { key: other, since: 1 }] };
    assert!(store.apply((Who::Member, 0), &expire, &mut changes).is_ok());
    let elsewhere = Key::new("/elsewhere").unwrap();
    assert_eq!(store.check_read(Who::User("app"), elsewhere, true), Err(Refusal::UNAUTHORIZED));
    assert_eq!(store.check_read(Who::User("app"), other, true), Ok(()));
}

#[test]
fn permissions_are_enforced_once_there_is_a_root() {
    let mut store = Store::default();
    let mut run = |who, command| apply(&mut store, who, &command);
    assert_eq!(run(Who::Guest, OFF), Err(Refused::AlreadyDisabled));
    assert_eq!(run(Who::Guest, ON), Err(Refused::NoRootUser));
    let (is_new, roles) = (true, names(&[ROOT]));
    assert_eq!(run(Who::Guest, a_user(ROOT, "x", &[])), Ok(Done::User { is_new, roles }));
    assert_eq!(run(Who::Guest, ON), Ok(Done::Other));
    assert_eq!(run(Who::Guest, OFF), Err(Refused::NotRoot));
    assert_eq!(run(ADMIN, ON), Err(Refused::AlreadyEnabled));
    let delete = AuthCommand::DeleteUser { name: ROOT };
    assert_eq!(run(ADMIN, delete.clone()), Err(Refused::RootUserStays));
    // The user keeps the role.
    let (is_new, roles) = (false, names(&["more", ROOT]));
    let change = a_change(ROOT, &["more"], &[ROOT]);
    assert_eq!(run(ADMIN, change), Ok(Done::User { is_new, roles }));
    assert_eq!(run(ADMIN, OFF), Ok(Done::Other));
    assert_eq!(run(Who::Guest, delete), Ok(Done::Other));
    let guest = store.auth().roles().get(GUEST_ROLE).unwrap();
    assert_eq!((guest.read.clone(), guest.write.clone()), (names(&["/*"]), names(&["/*"])));
}

#[test]
fn a_change_of_a_user_is_merged_or_refused() {
    let mut store = Store::default();
    let mut run = |command| apply(&mut store, Who::Guest, &command);
    let named = |name: &str| Box::<str>::from(name);
    assert_eq!(run(a_user("a", "", &[])), Err(Refused::NoPassword(named("a"))));
    assert_eq!(run(a_change("a", &["r"], &[])), Err(Refused::NoUser(named("a"))));
    let done = |is_new, roles: &[&str]| Ok(Done::User { is_new, roles: names(roles) });
    assert_eq!(run(a_user("a", "x", &["r", "q", "r"])), done(true, &["q", "r"]));
    assert_eq!(run(a_user("a", "x", &["r"])), Err(Refused::UserExists(named("a"))));
    assert_eq!(run(a_user("a", "", &[])), Err(Refused::UserUnchanged));
    assert_eq!(run(a_user("a", "y", &[])), done(false, &["q", "r"]));
    assert_eq!(run(a_change("a", &["s"], &["q"])), done(false, &["r", "s"]));
    let (role, user) = (named("s"), named("a"));
    let granted = Refused::RoleGranted { role, user };
    assert_eq!(run(a_change("a", &["t", "s"], &[])), Err(granted));
    let (role, user) = (named("q"), named("a"));
    let not_granted = Refused::RoleNotGranted { role, user };
    assert_eq!(run(a_change("a", &["t"], &["q"])), Err(not_granted));
    assert_eq!(run(a_change("a", &["t"], &["t"])), Err(Refused::UserUnchanged));
    let delete = AuthCommand::DeleteUser { name: "a" };
    assert_eq!(run(delete.clone()), Ok(Done::Other));
    assert_eq!(run(delete), Err(Refused::UserGone(named("a"))));
    assert!(store.is_unused(), "nothing is left");
}

#[test]
fn a_change_of_a_role_is_merged_or_refused() {
    let mut store = Store::default();
    let mut run = |command| apply(&mut store, Who::Guest, &command);
    let named = |name: &str| Box::<str>::from(name);
    assert_eq!(run(a_role(ROOT, &[], &[])), Err(Refused::RootRole));
    assert_eq!(run(may_read(ROOT, &["/a"], &[])), Err(Refused::RootRole));
    assert_eq!(run(may_read("r", &["/a"], &[])), Err(Refused::NoRole(named("r"))));
    let role = |read: &[&str]| Ok(Done::Role(Role { read: names(read), write: names(&["/w"]) }));
    assert_eq!(run(a_role("r", &["/b", "/a", "/b"], &["/w"])), role(&["/a", "/b"]));
    assert_eq!(run(a_role("r", &[], &[])), Err(Refused::RoleExists(named("r"))));
    // Revoking a pattern that the role does not have is no error.
    assert_eq!(run(may_read("r", &["/c"], &["/a", "/none"])), role(&["/b", "/c"]));
    assert_eq!(run(may_read("r", &["/c"], &[])), Err(Refused::ReadGranted(named("/c"))));
    assert_eq!(run(may_read("r", &[], &["/none"])), Err(Refused::RoleUnchanged));
    let delete = |name| AuthCommand::DeleteRole { name };
    assert_eq!(run(delete(ROOT)), Err(Refused::RootRole));
    assert_eq!(run(delete("r")), Ok(Done::Other));
    assert_eq!(run(delete("r")), Err(Refused::RoleGone(named("r"))));
}

#[test]
fn users_and_roles_have_a_bound_below_which_all_goes_on() {
    let mut store = Store::default();
    let name = |number: usize| format!("{number:0>60000}");
    let mut count = 0;
    while apply(&mut store, Who::Guest, &a_role(&name(count), &[], &[])).is_ok() {
        count += 1;
    }
    assert!((60..72).contains(&count), "{count}");
    let refused = apply(&mut store, Who::Guest, &a_role(&name(count), &[], &[]));
    assert_eq!(refused, Err(Refused::TooLarge));
    assert!(apply(&mut store, Who::Guest, &a_role("small", &[], &[])).is_ok());
    let delete = AuthCommand::DeleteRole { name: &name(0) };
    assert_eq!(apply(&mut store, Who::Guest, &delete), Ok(Done::Other));
    assert!(apply(&mut store, Who::Guest, &a_role(&name(count), &[], &[])).is_ok());
}

/// Many short patterns take more memory than a long one, although their record has fewer bytes.
#[test]
fn the_bound_is_one_of_memory() {
    let mut store = Store::default();
    let long = "x".repeat(4_000_000);
    assert!(apply(&mut store, Who::Guest, &a_role("r", &[&long], &[])).is_ok());
    let short: Vec<String> = (0..100_000).map(|number| number.to_string()).collect();
    let short: Vec<&str> = short.iter().map(String::as_str).collect();
    let change = may_read("r", &short, &[&long]);
    assert_eq!(apply(&mut store, Who::Guest, &change), Err(Refused::TooLarge));
    assert!(apply(&mut store, Who::Guest, &may_read("r", &short[..1_000], &[&long])).is_ok());
}

#[test]
fn a_store_with_nothing_but_users_is_restored() {
    for command in [a_role("r", &["/a"], &[]), a_user("a", "x", &["r"])] {
        let mut rig = Rig::default();
        apply(&mut rig.store, Who::Guest, &command).unwrap();
        assert!(!rig.store.is_unused());
        check_invariants(&mut rig);
    }
    check_invariants(&mut Rig { store: a_store(), ..Rig::default() });
}

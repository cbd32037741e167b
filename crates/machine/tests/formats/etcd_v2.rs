//! Reads the files of level 3: an entry with the commands of etcd v2, and an image with etcd v2's
//! tree.

use std::fmt::Write as _;

use machine::etcd_v2::Store;
use machine::etcd_v2::auth::{AuthCommand, ETCD_V2_SCHEME, Patterns, PutRole, PutUser};
use machine::etcd_v2::command::{Command as V2Command, Compare, Judged, Write};
use machine::etcd_v2::event::{Event, NodeState};
use machine::etcd_v2::key::Key;
use machine::etcd_v2::tree::Node;
use machine::limits::ETCD_V2_TTL_S_MAX;
use machine::{Command, ConnectionId, ControlCommand, Identity, Level, Machine};

use super::{HERE, NOBODY, Sent, apply, entry_at, image_of, restore, visit};

const ENTRY: &[u8] = include_bytes!("../fixtures/entry-etcd-v2-v1.bin");
const IMAGE: &[u8] = include_bytes!("../fixtures/image-etcd-v2-v4.bin");
const IMAGE_TEXT: &str = include_str!("../fixtures/image-etcd-v2-v4.txt");

const ANN: &[Identity<'static>] = &[Identity { scheme: ETCD_V2_SCHEME, id: "ann" }];

fn key(text: &'static str) -> Key<'static> {
    Key::new(text).expect("a good key")
}

fn write(text: &'static str, value: &'static [u8]) -> Write<'static> {
    Write { key: key(text), value, ttl_s: None }
}

fn living(text: &'static str, value: &'static [u8], ttl_s: u64) -> Write<'static> {
    Write { ttl_s: Some(ttl_s), ..write(text, value) }
}

fn set(write: Write<'static>) -> V2Command<'static> {
    V2Command::Set { write, is_dir: false, is_refresh: false }
}

fn delete(text: &'static str) -> V2Command<'static> {
    V2Command::Delete { key: key(text), is_dir: true, is_recursive: true }
}

/// Every command that changes the tree, each with all that it can have.
fn changes_of_keys() -> Vec<V2Command<'static>> {
    let compare = |value, index| Compare { value, index };
    let judged = |text, since| Judged { key: key(text), since };
    vec![
        set(write("/a/b", b"value")),
        set(living("/\u{e9}", b"\0\xff", ETCD_V2_TTL_S_MAX)),
        V2Command::Set { write: living("/dir", b"", 0), is_dir: true, is_refresh: false },
        V2Command::Set { write: living("/a/b", b"", 60), is_dir: false, is_refresh: true },
        V2Command::Create { write: write("/new", b""), is_dir: false, is_in_order: false },
        V2Command::Create { write: living("/queue", b"job", 5), is_dir: false, is_in_order: true },
        V2Command::Create { write: write("/queue", b""), is_dir: true, is_in_order: true },
        V2Command::Update { write: write("/new", b"newer"), is_refresh: false },
        V2Command::Update { write: living("/new", b"", 7), is_refresh: true },
        V2Command::CompareAndSwap {
            write: write("/new", b"newest"),
            compare: compare(b"newer", 0),
            is_refresh: false,
        },
        V2Command::CompareAndSwap {
            write: living("/new", b"", 8),
            compare: compare(b"", u64::MAX),
            is_refresh: true,
        },
        V2Command::Delete { key: key("/new"), is_dir: false, is_recursive: false },
        V2Command::Delete { key: key(""), is_dir: true, is_recursive: true },
        V2Command::CompareAndDelete { key: key("/a/b"), compare: compare(b"value", 9) },
        V2Command::Expire {
            keys: vec![judged("/dir", 6), judged("/queue/00000000000000000008", 1)],
        },
        V2Command::Expire { keys: Vec::new() },
    ]
}

fn user(name: &'static str) -> PutUser<'static> {
    let (may_create, may_change) = (true, false);
    PutUser { name, may_create, may_change, hash: b"a hash", grant: Vec::new(), revoke: Vec::new() }
}

/// Every command that changes users and roles. After them, there are three users and one role.
fn changes_of_users() -> Vec<V2Command<'static>> {
    let role = |name, is_change, read, write| {
        let revoke = Patterns::default();
        AuthCommand::PutRole(PutRole { name, is_change, grant: Patterns { read, write }, revoke })
    };
    let revoke = Patterns { read: vec!["/none"], write: vec!["/c"] };
    let changes = vec![
        role("reader", false, vec!["/a*", "/b"], vec!["/c", "/d*"]),
        role("gone", false, Vec::new(), vec!["*"]),
        AuthCommand::PutUser(user("root")),
        AuthCommand::PutUser(PutUser { grant: vec!["reader", "gone"], ..user("ann") }),
        AuthCommand::PutUser(PutUser { may_change: true, ..user("eve") }),
        AuthCommand::PutUser(user("gone")),
        AuthCommand::PutUser(PutUser {
            may_create: false,
            may_change: true,
            hash: b"",
            revoke: vec!["gone"],
            ..user("ann")
        }),
        AuthCommand::PutRole(PutRole {
            name: "reader",
            is_change: true,
            grant: Patterns::default(),
            revoke,
        }),
        AuthCommand::DeleteUser { name: "gone" },
        AuthCommand::DeleteRole { name: "gone" },
        AuthCommand::Enforce { is_enabled: false },
        AuthCommand::Enforce { is_enabled: true },
    ];
    changes.into_iter().map(V2Command::Auth).collect()
}

/// Every command of the space.
fn everything() -> Vec<Sent> {
    let commands = changes_of_keys().into_iter().chain(changes_of_users());
    commands.map(|command| sent(ANN, command)).collect()
}

fn sent(who: &'static [Identity<'static>], command: V2Command<'static>) -> Sent {
    (ConnectionId(4), who, Command::EtcdV2(command))
}

fn entry() -> Vec<u8> {
    entry_at(Level::ETCD_V2, &[(HERE, 1, everything())])
}

/// A machine with files, directories, times to live, users and a role, whose history has dropped
/// its first events.
fn machine_with_a_past() -> Machine {
    let mut machine = Machine::default();
    let raise = Command::Control(ControlCommand::Raise(Level::ETCD_V2.into()));
    let raise = vec![(ConnectionId(0), NOBODY, raise)];
    apply(&mut machine, &entry_at(Level::ETCD_V2, &[(HERE, 1, raise)]));
    let mut next = 2;
    let mut run = |commands: Vec<V2Command<'static>>| {
        let commands = commands.into_iter().map(|command| sent(NOBODY, command)).collect();
        apply(&mut machine, &entry_at(Level::ETCD_V2, &[(HERE, next, commands)]));
        next += 1;
    };
    for _ in 0..12 {
        run((0..100).map(|_| set(write("/many", b"value"))).collect());
    }
    run(changes_of_keys().into_iter().filter(|it| *it != delete("")).collect());
    run(vec![
        set(write("/dir/of/files/one", b"1")),
        set(living("/dir/of/files/two", b"2", 90)),
        V2Command::Set {
            write: living("/dir/that lives", b"", 30),
            is_dir: true,
            is_refresh: false,
        },
        set(write("/dir/that lives/_hidden", b"3")),
        V2Command::Create { write: write("/queue", b"job"), is_dir: false, is_in_order: true },
        set(write("/gone/below", b"value")),
        delete("/gone"),
        V2Command::CompareAndDelete {
            key: key("/dir/of/files/one"),
            compare: Compare { value: b"1", index: 0 },
        },
    ]);
    let over = Judged { key: key("/queue/00000000000000001209"), since: 1_209 };
    run(vec![V2Command::Expire { keys: vec![over] }]);
    run(changes_of_users());
    machine
}

/// The whole state of etcd v2's space as text.
fn describe(machine: &Machine) -> String {
    let store = machine.etcd_v2();
    let level = machine.control().level();
    let mut out = format!("digest {:032x}\n", machine.digest().0);
    let _ = writeln!(out, "level {} of {}", level.level, level.version);
    let _ = writeln!(out, "index {}", store.index());
    describe_below(store.tree().root(), "", &mut out);
    let events: Vec<String> = store.history().events().map(|it| describe_event(it)).collect();
    let (first, last) = (&events[..3], &events[events.len() - 30..]);
    let _ = writeln!(out, "{} events behind {}", events.len(), store.history().cleared());
    let _ = writeln!(out, "  {}\n  ...\n  {}", first.join("\n  "), last.join("\n  "));
    describe_users(store, &mut out);
    out
}

fn describe_below(dir: &Node, at: &str, out: &mut String) {
    for (name, node) in dir.children() {
        let path = format!("{at}/{name}");
        let value = node.value().map(|value| value.escape_ascii().to_string());
        let (created, modified) = (node.stat.created, node.stat.modified);
        let _ = write!(out, "{path:?} {value:?} {created} {modified}");
        if let Some(ttl) = node.stat.ttl {
            let _ = write!(out, " {ttl:?}");
        }
        out.push('\n');
        describe_below(node, &path, out);
    }
}

fn describe_event(event: &Event) -> String {
    let state = |state: &NodeState| {
        let value = state.value.as_ref().map(|value| value.escape_ascii().to_string());
        let NodeState { created, modified, is_dir, expiration, .. } = state;
        let kind = if *is_dir { "dir" } else { "file" };
        format!("{kind} {value:?} {created} {modified} {expiration:?}")
    };
    let refresh = if event.is_refresh { " refresh" } else { "" };
    let before = event.prev.as_ref().map(state);
    let (name, key) = (event.action.name(), &event.key);
    format!("{name}{refresh} {key:?}: {}, before: {before:?}", state(&event.node))
}

fn describe_users(store: &Store, out: &mut String) {
    let auth = store.auth();
    let _ = writeln!(out, "enforced {}", auth.is_enabled());
    for (name, user) in auth.users() {
        let _ = writeln!(out, "user {name} {} {:?}", user.hash.escape_ascii(), user.roles);
    }
    for (name, role) in auth.roles() {
        let _ = writeln!(out, "role {name} {:?} {:?}", role.read, role.write);
    }
}

#[test]
fn an_entry_of_level_3_is_read_and_is_written_with_the_same_bytes() {
    let mut expected = everything().into_iter();
    visit(ENTRY, &mut |_, _, stamp, command| {
        let found = (stamp.connection, stamp.identities, command);
        let expected = expected.next();
        assert_eq!(Some(found), expected.as_ref().map(|(by, who, it)| (*by, *who, it)));
        assert_eq!(command.level(), Level::ETCD_V2);
    });
    assert_eq!(expected.next(), None);
    assert_eq!(entry(), ENTRY);
}

#[test]
fn an_image_with_a_tree_of_v2_gives_the_machine_it_was_taken_of() {
    assert_eq!(describe(&restore(IMAGE)), IMAGE_TEXT);
    assert_eq!(describe(&machine_with_a_past()), IMAGE_TEXT);
}

#[test]
fn an_image_with_a_tree_of_v2_is_written_with_the_same_bytes() {
    assert_eq!(image_of(&mut machine_with_a_past()), IMAGE);
    assert_eq!(image_of(&mut restore(IMAGE)), IMAGE);
}

pub fn write_fixtures(write: impl Fn(&str, &[u8])) {
    write("entry-etcd-v2-v1.bin", &entry());
    let mut machine = machine_with_a_past();
    write("image-etcd-v2-v4.txt", describe(&machine).as_bytes());
    write("image-etcd-v2-v4.bin", &image_of(&mut machine));
}

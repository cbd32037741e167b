//! Reads the file of level 4: an image that says when etcd's users got their passwords, and has
//! bounds on the memory of etcd's spaces.

use std::fmt::Write as _;

use machine::etcd::Settings;
use machine::etcd::auth::AuthCommand;
use machine::etcd::command::{Command as EtcdCommand, Put};
use machine::etcd_v2::command::{Command as V2Command, Write};
use machine::etcd_v2::key::Key;
use machine::{Command, ConnectionId, ControlCommand, Level, Machine};

use super::{HERE, NOBODY, Sent, apply, entry_at, image_of, restore};

const IMAGE: &[u8] = include_bytes!("../fixtures/image-level-4-v4.bin");
const IMAGE_TEXT: &str = include_str!("../fixtures/image-level-4-v4.txt");

fn raise(level: Level) -> Command<'static> {
    Command::Control(ControlCommand::Raise(level.into()))
}

fn put(key: &'static str) -> Command<'static> {
    let (lease, prev_kv, ignore_value, ignore_lease) = (0, false, false, false);
    let (key, value) = (key.as_bytes(), &b""[..]);
    let put = Put { key, value, lease, prev_kv, ignore_value, ignore_lease };
    Command::Etcd(EtcdCommand::Put(put))
}

fn set(key: &'static str) -> Command<'static> {
    let write = Write { key: Key::new(key).expect("a good key"), value: b"value", ttl_s: None };
    Command::EtcdV2(V2Command::Set { write, is_dir: false, is_refresh: false })
}

fn user(command: AuthCommand<'static>) -> Command<'static> {
    Command::Etcd(EtcdCommand::Auth(command))
}

/// A machine that held more than its small quota before the level rose to 4, with three users: one
/// from before, one whose password is known to be newer, and one without a password.
fn machine() -> Machine {
    let small = Settings { quota_bytes: 1_500, ..Settings::default() };
    let keys = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"];
    let nodes = ["/a/b", "/c/d", "/e/f", "/g/h"];
    let mut commands = vec![raise(Level::ETCD_V2), Command::Etcd(EtcdCommand::Configure(small))];
    commands.extend(keys.map(put));
    commands.extend(nodes.map(set));
    commands.push(user(AuthCommand::AddUser { user: "ann", password: Some(b"a hash") }));
    commands.push(raise(Level::TOKENS));
    commands.push(user(AuthCommand::AddUser { user: "bob", password: Some(b"another") }));
    commands.push(user(AuthCommand::AddUser { user: "carol", password: None }));
    commands.push(user(AuthCommand::ChangePassword { user: "bob", password: b"the last" }));
    let sent = |command| -> Sent { (ConnectionId(1), NOBODY, command) };
    let sent = commands.into_iter().map(sent).collect();
    let mut machine = Machine::default();
    apply(&mut machine, &entry_at(Level::TOKENS, &[(HERE, 1, sent)]));
    machine
}

fn describe(machine: &Machine) -> String {
    let mut text = String::new();
    let bounds = machine.control().bounds().expect("it is at level 4");
    let (etcd, etcd_v2) = (machine.etcd(), machine.etcd_v2());
    writeln!(text, "level {}, {bounds:?}", machine.control().level().level).expect("is written");
    writeln!(text, "etcd: {} bytes, holds {}", etcd.bytes(), etcd.held()).expect("is written");
    writeln!(text, "etcd v2: holds {}", etcd_v2.tree().held()).expect("is written");
    writeln!(text, "digest {:032x}", machine.digest().0).expect("is written");
    text
}

#[test]
fn an_image_of_level_4_is_read_and_is_written_with_the_same_bytes() {
    assert_eq!(image_of(&mut machine()), IMAGE);
    let mut restored = restore(IMAGE);
    assert_eq!(describe(&restored), IMAGE_TEXT);
    assert_eq!(restored.digest(), machine().digest());
    assert_eq!(image_of(&mut restored), IMAGE);
}

pub fn write_fixtures(write: impl Fn(&str, &[u8])) {
    let mut machine = machine();
    write("image-level-4-v4.txt", describe(&machine).as_bytes());
    write("image-level-4-v4.bin", &image_of(&mut machine));
}

//! Tests of the store as a part of the machine: commands, images, installs.

use super::*;
use crate::ControlCommand;
use crate::change::Changes;
use crate::command::Command as AnyCommand;
use crate::ids::{BootId, ConnectionId, LogIndex, MemberId, Origin};
use crate::image::FreezeStep;
use crate::image::restore::Restore;
use crate::level::Level;
use crate::machine::{ApplyStep, Machine, PreparedImage};
use crate::reply::Outcome as AnyOutcome;
use crate::stamp::Stamp;

const NOBODY: Origin = Origin { member: MemberId(1), boot: BootId(1) };
const STAMP: Stamp<'static> =
    Stamp { time_ms: 5_000, origin: NOBODY, connection: ConnectionId(0), identities: &[] };

fn apply(machine: &mut Machine, command: Command<'_>, changes: &mut Changes) -> String {
    let reply = machine.apply(&STAMP, &AnyCommand::EtcdV2(command), changes);
    assert_eq!(reply.mark.ordinal, machine.mark().ordinal);
    match reply.outcome {
        AnyOutcome::EtcdV2(Ok(Outcome::Written(event))) => event_text(&event),
        AnyOutcome::EtcdV2(Ok(Outcome::Expired { count })) => format!("expired {count}"),
        AnyOutcome::EtcdV2(Err(refusal)) => refusal_text(&refusal),
        other => panic!("{other:?}"),
    }
}

fn set(machine: &mut Machine, key: &str, parameters: &str) {
    let answer = apply(machine, command("PUT", key, parameters), &mut Changes::default());
    assert!(answer.starts_with("set "), "{answer}");
}

fn image(machine: &mut Machine, bytes: usize) -> Vec<Vec<u8>> {
    machine.freeze();
    let mut pieces = Vec::new();
    loop {
        match machine.freeze_step(bytes, 2) {
            FreezeStep::Piece(piece) => pieces.push(piece),
            FreezeStep::Last(piece) => {
                pieces.push(piece);
                return pieces;
            }
            FreezeStep::Aborted => panic!("nothing aborts it"),
        }
    }
}

fn restored(pieces: &[Vec<u8>]) -> Machine {
    let mut restore = Restore::default();
    for piece in pieces {
        restore.piece(piece).unwrap();
    }
    restore.finish().unwrap()
}

#[test]
fn a_command_needs_level_3() {
    for command in [command("PUT", "/a", "value=1"), command("DELETE", "/a", "")] {
        let command = AnyCommand::EtcdV2(command);
        assert_eq!(command.level(), Level::ETCD_V2);
        let mut bytes = Vec::new();
        command.encode(&mut bytes);
        assert_eq!(bytes[..2], [12, 4]);
        assert_eq!(AnyCommand::decode(&bytes), Ok(command));
    }
}

#[test]
fn a_command_changes_the_digest_and_tells_of_changes() {
    let mut machine = Machine::default();
    let mut changes = Changes::default();
    let before = machine.digest();
    let answer = apply(&mut machine, command("PUT", "/a", "value=1&ttl=9"), &mut changes);
    assert_eq!(answer, "set /a=1 +1/+1 ttl 9");
    assert_ne!(machine.digest(), before);
    assert!(!changes.is_empty());
    assert_eq!((changes.etcd_v2.keys().len(), changes.etcd_v2.deadlines().len()), (1, 1));
    let mut nobody = Changes::for_nobody();
    apply(&mut machine, command("PUT", "/b", ""), &mut nobody);
    assert!(nobody.is_empty());
}

#[test]
fn an_image_has_a_section_only_if_the_tree_was_used() {
    let mut machine = Machine::default();
    let unused = image(&mut machine, usize::MAX).concat();
    let refused = command("PUT", "/a", "prevExist=true");
    apply(&mut machine, refused, &mut Changes::default());
    let still_unused = image(&mut machine, usize::MAX).concat();
    assert_eq!(unused.len(), still_unused.len());
    set(&mut machine, "/a/b", "value=1&ttl=9");
    set(&mut machine, "/c", "dir=true");
    for bytes in [1, 100, usize::MAX] {
        let pieces = image(&mut machine, bytes);
        assert!(pieces.concat().len() as u64 <= machine.image_bytes_max());
        let other = restored(&pieces);
        assert_same(other.etcd_v2(), machine.etcd_v2());
        assert_eq!(other.digest(), machine.digest());
    }
}

#[test]
fn an_image_is_of_one_index_while_commands_go_on() {
    let mut machine = Machine::default();
    set(&mut machine, "/a/b", "value=1");
    set(&mut machine, "/c", "value=2");
    let digest = machine.digest();
    machine.freeze();
    let mut pieces = Vec::new();
    for number in 0.. {
        match machine.freeze_step(1, 1) {
            FreezeStep::Piece(piece) => pieces.push(piece),
            FreezeStep::Last(piece) => {
                pieces.push(piece);
                break;
            }
            FreezeStep::Aborted => panic!("nothing aborts it"),
        }
        set(&mut machine, &format!("/a/{number}"), "value=3");
        set(&mut machine, "/c", "value=4");
    }
    assert_eq!(restored(&pieces).digest(), digest);
}

#[test]
fn an_installed_image_gives_full_times_and_no_lower_index() {
    let mut machine = Machine::default();
    set(&mut machine, "/a", "value=1&ttl=9");
    let since = machine.etcd_v2().index();
    let prepared = Box::new(restored(&image(&mut machine, usize::MAX)));
    set(&mut machine, "/b", "value=2");
    machine.freeze();
    machine.prepare_image(PreparedImage { hash: 7, machine: prepared });
    let install = AnyCommand::Control(ControlCommand::InstallImage { hash: 7 });
    let mut changes = Changes::default();
    machine.apply(&STAMP, &install, &mut changes);
    let deadlines: Vec<_> = changes.etcd_v2.deadlines().iter().map(deadline_text).collect();
    assert_eq!(deadlines, ["/a +4 9s"]);
    assert_eq!(machine.etcd_v2().index(), FIRST_INDEX + 4);
    assert!(machine.etcd_v2().get(Key::new("/b").unwrap()).is_err());
    let keys = vec![Judged { key: Key::new("/a").unwrap(), since }];
    let answer = apply(&mut machine, Command::Expire { keys }, &mut Changes::default());
    assert_eq!(answer, "expired 0");
    assert_eq!(machine.control().level().level, Level::ETCD_V2);
    let aborted = (0..100).any(|_| {
        machine.is_freezing() && machine.freeze_step(usize::MAX, u32::MAX) == FreezeStep::Aborted
    });
    assert!(aborted, "the image of the old state is worthless");
    machine.finish_entry(LogIndex(2));
}

/// A machine with a directory of 20 files that have a time to live.
fn a_machine_with_a_directory() -> Machine {
    let mut machine = Machine::default();
    for number in 0..20 {
        set(&mut machine, &format!("/d/{number}"), "value=1&ttl=9");
    }
    machine
}

#[test]
fn a_removal_in_steps_gives_what_it_gives_as_a_whole() {
    let removal = AnyCommand::EtcdV2(command("DELETE", "/d", "recursive=true"));
    for keys_max in [1, 2, 7] {
        let (mut whole, mut stepped) = (a_machine_with_a_directory(), a_machine_with_a_directory());
        let mut changes = [Changes::default(), Changes::default()];
        let reply = whole.apply(&STAMP, &removal, &mut changes[0]);
        let (mark, digest) = (stepped.mark(), stepped.digest());
        let step = ApplyStep { keys_max, is_taken: false };
        let mut steps = 1;
        let seen = loop {
            match stepped.apply_step(&STAMP, &removal, step, &mut changes[1]) {
                Some(seen) => break seen,
                None => steps += 1,
            }
            assert!(stepped.is_amid_command());
            assert_eq!((stepped.mark(), stepped.digest()), (mark, digest));
        };
        assert_eq!(steps, 21_u64.div_ceil(keys_max));
        assert!(!stepped.is_amid_command());
        assert_eq!((seen, stepped.digest()), (reply, whole.digest()));
        let texts = changes.each_ref().map(|changes| {
            let keys = changes.etcd_v2.keys().iter().map(|change| event_text(&change.event));
            let deadlines = changes.etcd_v2.deadlines().iter().map(deadline_text);
            keys.chain(deadlines).collect::<Vec<_>>()
        });
        assert_eq!(texts[0], texts[1]);
        assert_eq!(texts[0].len(), 21);
    }
}

#[test]
fn a_removed_directory_is_garbage_unless_a_start_applies_the_removal() {
    let removal = AnyCommand::EtcdV2(command("DELETE", "/d", "recursive=true"));
    let mut machine = a_machine_with_a_directory();
    machine.apply(&STAMP, &removal, &mut Changes::default());
    assert!(machine.has_garbage());
    while machine.has_garbage() {
        machine.prune();
    }
    let mut machine = a_machine_with_a_directory();
    let file = machine.etcd_v2().get(Key::new("/d/1").unwrap()).unwrap().node;
    machine.apply(&STAMP, &removal, &mut Changes::for_nobody());
    assert!(!machine.has_garbage());
    assert_eq!(Arc::strong_count(&file), 1);
}

//! Tests that removals in steps have the same result as removals at once.

use super::*;
use crate::etcd_v2::auth::Who;
use crate::etcd_v2::change::Changes;
use crate::etcd_v2::command::{Command, Compare, Judged, Write};
use crate::etcd_v2::key::Key;
use crate::etcd_v2::reply::{Outcome, Refusal};
use crate::etcd_v2::tests::{Rig, check_invariants};
use crate::machine::tests::rig::Random;

type Done = Result<Outcome, Refusal>;

/// Applies a command in steps of up to `nodes_max` nodes. Passes the rig to `between` after each
/// step but the last.
fn apply_in_steps(
    rig: &mut Rig,
    command: &Command<'_>,
    nodes_max: u64,
    between: &mut dyn FnMut(&Rig),
) -> Done {
    loop {
        let mut budget = Budget::new(nodes_max);
        let whose = (Who::Member, rig.time_ms);
        let done = rig.store.apply_step(whose, command, &mut budget, &mut rig.changes);
        assert!(budget.looked_at() <= nodes_max);
        assert_eq!(rig.store.is_paused(), done.is_none());
        match done {
            Some(done) => return done,
            None => between(rig),
        }
    }
}

fn random_key(random: &mut Random) -> String {
    let levels = 1 + random.below(4);
    (0..levels).map(|_| format!("/{}", ["a", "b", "c", "_d", "e"][random.below(5)])).collect()
}

/// Some of the keys with a time to live, each with the index to judge it by. Some of the indexes
/// are too low.
fn judged_keys(rig: &Rig, random: &mut Random) -> Vec<(String, u64)> {
    let mut judged = Vec::new();
    rig.store.tree().root().ttls(&mut String::new(), &mut |key, ttl| {
        if random.below(3) == 0 {
            let is_late = random.below(8) == 0;
            judged.push((key.to_string(), ttl.since - u64::from(is_late)));
        }
    });
    judged
}

/// Applies a command at once to the first rig, in steps to the second, and key by key to the third.
/// Checks that they stay equal.
fn check(rigs: &mut [Rig; 3], command: &Command<'_>, nodes_max: u64) -> usize {
    let [whole, stepped, by_key] = rigs;
    let parts: Vec<Command<'_>> = match command {
        Command::Expire { keys } => {
            keys.iter().map(|key| Command::Expire { keys: vec![*key] }).collect()
        }
        command => vec![command.clone()],
    };
    let mut digests = vec![by_key.store.digest()];
    for part in &parts {
        by_key.apply(part);
        digests.push(by_key.store.digest());
    }
    let mut pauses = 0;
    let seen = apply_in_steps(stepped, command, nodes_max, &mut |rig| {
        pauses += 1;
        let passed = rig.store.paused.as_ref().unwrap().passed;
        assert_eq!(rig.store.digest(), digests[passed], "no removal is done by halves");
        rig.store.tree().check_sums();
    });
    let done = whole.store.apply((Who::Member, whole.time_ms), command, &mut whole.changes);
    assert_eq!(seen, done, "{command:?}");
    assert_eq!(stepped.store.digest(), whole.store.digest(), "{command:?}");
    assert_eq!(by_key.store.digest(), whole.store.digest(), "{command:?}");
    let [(whole_told, whole_deadlines), (told, deadlines), _] =
        rigs.each_mut().map(|rig| (rig.told(), rig.deadlines()));
    assert_eq!((told, deadlines), (whole_told, whole_deadlines), "{command:?}");
    pauses
}

#[test]
fn random_commands_in_steps_give_what_they_give_as_a_whole() {
    let mut pauses = 0;
    for seed in 0..60 {
        let nodes_max = [1, 2, 7][seed as usize % 3];
        let mut random = Random(400 + seed);
        let mut rigs = <[Rig; 3]>::default();
        for number in 0..200 {
            let key = random_key(&mut random);
            let key = Key::new(&key).unwrap();
            let ttl_s = (random.below(2) == 0).then_some(number);
            let write = Write { key, value: b"v", ttl_s };
            let dir = Write { value: b"", ..write };
            let judged;
            let command = match random.below(20) {
                0 => Command::Delete { key, is_dir: true, is_recursive: true },
                1 => {
                    judged = judged_keys(&rigs[0], &mut random);
                    let keys = judged.iter().map(|(key, since)| (Key::new(key).unwrap(), *since));
                    let keys = keys.map(|(key, since)| Judged { key, since });
                    Command::Expire { keys: keys.collect() }
                }
                2 => Command::CompareAndDelete { key, compare: Compare { value: b"v", index: 0 } },
                3..6 => Command::Update { write: dir, is_refresh: false },
                6..8 => Command::Set { write: dir, is_dir: true, is_refresh: false },
                _ => Command::Set { write, is_dir: false, is_refresh: false },
            };
            pauses += check(&mut rigs, &command, nodes_max);
        }
        let [whole, stepped, _] = &mut rigs;
        assert_eq!(whole.store.tree(), stepped.store.tree());
        assert_eq!(whole.store.history(), stepped.store.history());
    }
    assert!(pauses > 500, "the test is worth something: {pauses}");
}

/// A directory with files and one directory with as many files in it. Some files have a time to
/// live.
fn a_rig(files: usize) -> Rig {
    let mut rig = Rig::default();
    for number in 0..files {
        let ttl = if number % 3 == 0 { "&ttl=9" } else { "" };
        rig.run("PUT", &format!("/d/{number:05}"), &format!("value=1{ttl}"));
        rig.run("PUT", &format!("/d/in/{number:05}"), &format!("value=1{ttl}"));
    }
    rig.changes = Changes::default();
    rig
}

#[test]
fn a_removal_tells_of_all_times_to_live_in_their_order() {
    let mut rig = a_rig(1_000);
    let mut expected = Vec::new();
    let removed = rig.store.tree().find(Key::new("/d").unwrap()).unwrap().clone();
    removed.ttls(&mut String::new(), &mut |_, ttl| {
        expected.push(DeadlineChange::Ended { since: ttl.since });
    });
    drop(removed);
    let command =
        Command::Delete { key: Key::new("/d").unwrap(), is_dir: true, is_recursive: true };
    let mut steps = 1;
    let index = rig.store.index();
    let done = apply_in_steps(&mut rig, &command, 10, &mut |rig| {
        steps += 1;
        assert_eq!(rig.store.index(), index);
        assert!(rig.changes.keys().is_empty());
        assert!(rig.changes.deadlines().len() <= 10 * (steps - 1));
    });
    assert!(matches!(done, Ok(Outcome::Written(_))));
    assert_eq!(steps, 2_002usize.div_ceil(10), "the directory, that in it, and the files");
    assert_eq!(rig.changes.deadlines(), expected);
    assert_eq!(rig.changes.deadlines().len(), 2 * 334);
}

#[test]
fn a_directory_without_times_to_live_needs_no_walk() {
    let mut rig = Rig::default();
    for number in 0..100 {
        rig.run("PUT", &format!("/d/{number}"), "value=1");
    }
    let command =
        Command::Delete { key: Key::new("/d").unwrap(), is_dir: true, is_recursive: true };
    let never = &mut |_: &Rig| panic!("it is one step");
    assert!(apply_in_steps(&mut rig, &command, 1, never).is_ok());
    check_invariants(&mut rig);
}

#[test]
fn a_user_who_may_not_remove_a_directory_is_refused_at_once() {
    let mut rig = a_rig(10);
    for command in &crate::etcd_v2::tests::auth_commands()[..10] {
        rig.apply(command);
    }
    let command =
        Command::Delete { key: Key::new("/d").unwrap(), is_dir: true, is_recursive: true };
    let mut budget = Budget::new(1);
    let whose = (Who::User("nobody"), 0);
    let done = rig.store.apply_step(whose, &command, &mut budget, &mut rig.changes);
    assert_eq!((done, budget.looked_at()), (Some(Err(Refusal::UNAUTHORIZED)), 0));
}

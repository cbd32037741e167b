//! Tests that commands applied in steps have the same result as commands applied at once.

use super::rig::{
    Random, Rig, Sent, answer_text, dump, parse, random_multi, random_op, random_sent,
};
use super::*;
use crate::image::FreezeStep;
use crate::image::restore::Restore;
use crate::{OpenTransaction, Replacement, SessionId, ZkCommand};

/// The observations of a test while it applied a command in steps.
struct Seen {
    reply: Reply,
    /// How often the command was paused.
    pauses: usize,
    /// How often readers of the tree had to wait.
    waits: usize,
    /// The transactions that were only partly published at the end of a step.
    open: Vec<OpenTransaction>,
}

/// Applies a command in steps of up to `znodes_max` znodes. If `shares`, all steps add to the rig's
/// batch of changes; else each step has its own batch.
fn apply_in_steps(rig: &mut Rig, sent: &Sent<'_>, znodes_max: u64, shares: bool) -> Seen {
    let (mut pauses, mut waits, mut open) = (0, 0, Vec::new());
    let mark = rig.machine.mark();
    loop {
        let mut own = Changes::default();
        let changes = if shares { &mut rig.changes } else { &mut own };
        let reply = Rig::step(&mut rig.machine, sent, znodes_max, changes);
        if !shares {
            open.extend(own.zk.open_transaction());
            assert_eq!(own.zk.ends_pause(), reply.is_some() && pauses > 0);
            own.control.iter().for_each(|change| rig.changes.control.push(change.clone()));
            rig.changes.zk.append(own.zk);
        }
        assert_eq!(rig.machine.is_amid_command(), reply.is_none());
        if let Some(reply) = reply {
            return Seen { reply, pauses, waits, open };
        }
        assert_eq!(rig.machine.mark(), mark, "a command that is not done has no number yet");
        pauses += 1;
        waits += usize::from(rig.machine.zk.is_amid_change());
    }
}

/// Applies a command at once to one machine and in steps to an equal one, and checks that they stay
/// equal.
fn check_step_by_step(rigs: &mut [Rig; 2], sent: &Sent<'_>, znodes_max: u64, what: &str) -> Seen {
    let [whole, stepped] = rigs;
    let reply = whole.apply(sent);
    let seen = apply_in_steps(stepped, sent, znodes_max, znodes_max == 2);
    assert_eq!(seen.reply, reply, "{what}: {sent:?}");
    assert_eq!(stepped.machine.digest(), whole.machine.digest(), "{what}: {sent:?}");
    assert_eq!(stepped.take_changes(), whole.take_changes(), "{what}: {sent:?}");
    seen
}

fn two() -> [Rig; 2] {
    [Rig::default(), Rig::default()]
}

fn run(rigs: &mut [Rig; 2], script: &str) {
    let answers: Vec<String> = rigs.iter_mut().map(|rig| rig.run(script)).collect();
    assert_eq!(answers[0], answers[1]);
    rigs.iter_mut().for_each(|rig| drop(rig.take_changes()));
}

#[test]
fn random_commands_in_steps_give_what_they_give_as_a_whole() {
    let (mut pauses, mut waits) = (0, 0);
    for seed in 0..90 {
        let znodes_max = [1, 2, 7][seed as usize % 3];
        let mut random = Random(9000 + seed);
        let mut rigs = two();
        run(&mut rigs, "configure extended enforce_quota");
        for number in 0..150 {
            let mut sent = random_sent(&mut random, &rigs[0].machine);
            if random.percent(20) {
                let session = SessionId(1);
                sent.command = random_multi(&mut random, session);
            }
            let what = format!("seed {seed}, command {number}");
            let seen = check_step_by_step(&mut rigs, &sent, znodes_max, &what);
            pauses += seen.pauses;
            waits += seen.waits;
        }
        assert_eq!(dump(&rigs[0].machine), dump(&rigs[1].machine), "seed {seed}");
        rigs.iter_mut().for_each(|rig| rig::check_invariants(&mut rig.machine));
    }
    assert!(pauses > 500, "the test is worth something: {pauses}");
    assert!(waits > 500, "the test is worth something: {waits}");
}

#[test]
fn long_multis_in_steps_are_done_or_refused_as_a_whole() {
    let mut refused = 0;
    for seed in 0..200 {
        let mut random = Random(7000 + seed);
        let mut rigs = two();
        for _ in 0..10 {
            let mut ops: Vec<_> = (0..40).map(|_| random_op(&mut random)).collect();
            // Drop most of the operations that would be refused, so that some multis succeed.
            if random.percent(70) {
                let mut tried = copy_of(&mut rigs[0]);
                ops.retain(|op| {
                    let (session, op) = (SessionId(1), op.clone());
                    let command = Command::Zk(ZkCommand::Write { session, op });
                    let sent = Sent { connection: 1, identities: Vec::new(), command };
                    matches!(tried.apply(&sent).outcome, Outcome::Zk(Ok(_)))
                });
            }
            let command = Command::Zk(ZkCommand::Multi { session: SessionId(1), ops });
            let sent = Sent { connection: 1, identities: Vec::new(), command };
            let znodes_max = [1, 2, 7][seed as usize % 3];
            let seen = check_step_by_step(&mut rigs, &sent, znodes_max, &format!("seed {seed}"));
            refused += usize::from(matches!(seen.reply.outcome, Outcome::Zk(Err(_))));
            assert!(seen.open.is_empty(), "nobody sees a part of a multi");
            assert_eq!(seen.waits, seen.pauses);
        }
        rigs.iter_mut().for_each(|rig| rig::check_invariants(&mut rig.machine));
    }
    assert!((500..1_500).contains(&refused), "both come often: {refused} of 2000 are refused");
}

/// A rig with an equal machine, made through an image.
fn copy_of(rig: &mut Rig) -> Rig {
    rig.machine.freeze();
    let FreezeStep::Last(piece) = rig.machine.freeze_step(usize::MAX, u32::MAX) else {
        panic!("a state of a test is one piece");
    };
    let mut restore = Restore::default();
    restore.piece(&piece).unwrap();
    Rig { machine: restore.finish().unwrap(), changes: Changes::default() }
}

#[test]
fn a_session_ends_in_steps_in_the_order_of_the_paths() {
    for end in ["close", "expire 1@1", "#2 open; expire 3@3 1@1 2@72 1@1"] {
        for znodes_max in [1, 2, 7] {
            let mut rigs = two();
            let mut random = Random(3);
            run(&mut rigs, "create /a; create /a-; create /a/b");
            for number in 0..67 {
                let parent = random.pick(&["", "/a", "/a-", "/a/b"]);
                let name = random.next() % 1000;
                run(&mut rigs, &format!("create {parent}/{name}-{number} mode=1"));
            }
            let (before, last) = end.rsplit_once("; ").unwrap_or(("nothing", end));
            run(&mut rigs, before);
            let seen = check_step_by_step(&mut rigs, &parse(last), znodes_max, end);
            // Each ephemeral is looked at, collected, merged in several passes, and removed.
            assert!(seen.pauses > 4 * 67 / znodes_max as usize, "{}", seen.pauses);
            assert!(seen.waits < seen.pauses, "collecting and sorting keep no reader waiting");
            if znodes_max != 2 {
                let of_one = OpenTransaction { session: Some(SessionId(1)) };
                assert!(seen.open.contains(&of_one), "{end}");
            }
            rigs.iter_mut().for_each(|rig| rig::check_invariants(&mut rig.machine));
        }
    }
}

#[test]
fn a_subtree_is_counted_in_steps() {
    let usage = "create /zookeeper/quota/a/zookeeper_stats";
    let multi = format!("multi create /a/z 12345 + {usage} + create /a/y 1 + set /a/z 1");
    let refused = format!("{multi} + delete /missing");
    for command in [usage, &multi, &refused] {
        for znodes_max in [1, 2, 7] {
            let mut rigs = two();
            run(
                &mut rigs,
                "create /a xx; create /a/b; create /a/b/c yyy; create /b; create /a/d z",
            );
            run(&mut rigs, "create /zookeeper/quota/a; create /zookeeper/quota/a/zookeeper_limits");
            let sent = parse(command);
            let seen = check_step_by_step(&mut rigs, &sent, znodes_max, command);
            assert!(seen.waits > 0, "{command}: {}", answer_text(&seen.reply.outcome));
            assert_eq!(dump(&rigs[0].machine), dump(&rigs[1].machine));
            // A path without a subtree has no usage, and a count of the root goes through the whole
            // tree.
            run(&mut rigs, "create /zookeeper/quota/zookeeper");
            let own = parse("create /zookeeper/quota/zookeeper/zookeeper_stats");
            check_step_by_step(&mut rigs, &own, znodes_max, "its own subtree");
            run(&mut rigs, "create /zookeeper/quota/none");
            let none = parse("create /zookeeper/quota/none/zookeeper_stats");
            check_step_by_step(&mut rigs, &none, znodes_max, "no subtree");
            rigs.iter_mut().for_each(|rig| rig::check_invariants(&mut rig.machine));
        }
    }
}

#[test]
fn long_paths_use_up_a_step() {
    let name = "n".repeat(3_000);
    let mut rigs = two();
    run(&mut rigs, &format!("create /{name}"));
    for number in 0..10 {
        run(&mut rigs, &format!("create /{name}/{number} mode=1"));
    }
    let seen = check_step_by_step(&mut rigs, &parse("close"), 10, "close");
    // A step of ten znodes may handle 10 KiB of paths: those of four of these znodes.
    assert!(seen.pauses >= 3, "{}", seen.pauses);
}

#[test]
fn an_image_that_is_written_between_steps_is_that_of_its_beginning() {
    let mut between_steps = 0;
    for seed in 0..60 {
        let mut random = Random(400 + seed);
        let mut rig = Rig::default();
        rig.run("configure extended");
        let (mut begun, mut pieces) = (None, Vec::new());
        for _ in 0..300 {
            if begun.is_none() {
                begun = Some((dump(&rig.machine), rig.machine.digest()));
                rig.machine.freeze();
            }
            let sent = random_sent(&mut random, &rig.machine);
            while Rig::step(&mut rig.machine, &sent, 1, &mut rig.changes).is_none() {
                between_steps += usize::from(begun.is_some());
                write_some(&mut rig.machine, &mut begun, &mut pieces);
            }
            write_some(&mut rig.machine, &mut begun, &mut pieces);
        }
    }
    assert!(between_steps > 1_000, "the test is worth something: {between_steps}");
}

/// Writes the next piece of an image. When the image is whole, compares it with the state at its
/// beginning.
fn write_some(
    machine: &mut Machine,
    begun: &mut Option<(String, crate::Digest)>,
    pieces: &mut Vec<Vec<u8>>,
) {
    let Some((text, digest)) = begun else { return };
    let is_last = match machine.freeze_step(100, 2) {
        FreezeStep::Piece(piece) => {
            pieces.push(piece);
            false
        }
        FreezeStep::Last(piece) => {
            pieces.push(piece);
            true
        }
        FreezeStep::Aborted => unreachable!("no other state takes the place of this one"),
    };
    if is_last {
        let mut restore = Restore::default();
        pieces.drain(..).for_each(|piece| restore.piece(&piece).unwrap());
        let restored = restore.finish().unwrap();
        assert_eq!(dump(&restored), *text);
        assert_eq!(restored.digest(), *digest);
        *begun = None;
    }
}

#[test]
fn another_state_ends_the_wait_for_a_command_that_is_done_in_part() {
    let mut rig = Rig::default();
    rig.run("create /a mode=1; create /b mode=1");
    let mut changes = Changes::default();
    while changes.zk.open_transaction().is_none() {
        assert!(Rig::step(&mut rig.machine, &parse("close"), 1, &mut changes).is_none());
    }
    assert!(!changes.zk.ends_pause());
    changes.on_replaced(&rig.machine, rig.machine.mark(), Replacement::Image);
    assert_eq!(changes.zk.open_transaction(), None);
    assert!(changes.zk.ends_pause());
}

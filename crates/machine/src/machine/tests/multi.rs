//! Tests of multis: all operations take effect or none, and later operations see earlier ones.

use super::rig::{Random, Rig, Sent, check_invariants, dump, random_multi, random_op, random_sent};
use super::*;
use crate::{SessionId, ZkCommand, ZkOutcome};

#[test]
fn later_operations_see_what_earlier_ones_did() {
    check("multi", "[]");
    check("multi create /a + create /a/b", "[created /a, created /a/b]");
    check("multi create /a + set /a x v0 + check /a v1", "[created /a, set 1, checked]");
    check("multi create /a + delete /a + create /a", "[created /a, deleted, created /a]");
    check(
        "multi create /a mode=2 + create /a mode=2",
        "[created /a0000000000, created /a0000000001]",
    );
    check("multi create /a + acl /a acl=world:anyone=r + set /a x", "NoAuth at 2 of 3");
    check("multi create /e mode=1 + create /e/a", "NoChildrenForEphemerals at 1 of 2");
    check("create /a; multi create /a/b + delete /a", "NotEmpty at 1 of 2");
}

#[test]
fn the_first_refusal_is_named_with_its_position() {
    check("multi delete /a", "NoNode at 0 of 1");
    check("multi create /a + create /a + delete /b", "NodeExists at 1 of 3");
    check("multi create /a + create /b + check /a v3", "BadVersion at 2 of 3");
}

#[test]
fn all_operations_of_a_multi_share_one_zxid_and_time() {
    let mut rig = Rig::default();
    rig.run("multi create /a + create /a/b + set /a x");
    let (parent, child) = (rig.stat("/a"), rig.stat("/a/b"));
    let zxids = [parent.czxid, parent.mzxid, parent.pzxid, child.czxid, child.pzxid];
    assert_eq!(zxids, [2; 5]);
    assert_eq!([parent.ctime, parent.mtime, child.ctime], [2000; 3]);
}

/// Applies `script`, and then a multi that is refused: only the ordinal and the zxid may change.
fn check_refused(script: &str, multi: &str) {
    let mut rig = Rig::default();
    rig.run(script);
    let before = without_counters(&rig.machine);
    let digest = rig.machine.zk.tree.digest();
    let changes = rig.changes.zk.len();
    let answer = rig.run(multi);
    assert!(answer.contains(" of "), "{multi} is refused, not {answer}");
    assert_eq!(without_counters(&rig.machine), before, "{multi}");
    assert_eq!(rig.machine.zk.tree.digest(), digest, "{multi}");
    assert_eq!(rig.changes.zk.len(), changes);
    check_invariants(&mut rig.machine);
}

fn without_counters(machine: &Machine) -> String {
    dump(machine).split_once('\n').unwrap().1.to_string()
}

#[test]
fn a_refused_multi_takes_everything_back() {
    check_refused("create /a", "multi create /b + delete /missing");
    check_refused("create /a", "multi create /a/b + create /a/b/c + delete /missing");
    check_refused("create /a x", "multi set /a y + set /a null + delete /missing");
    check_refused("create /a", "multi acl /a acl=world:anyone=rwc + malformed");
    check_refused("create /a mode=1", "multi delete /a + create /a + delete /a + malformed");
    check_refused("create /a; create /a/b; delete /a/b", "multi delete /a + malformed");
    check_refused("create /a; create /a/b", "multi delete /a/b + delete /a + malformed");
    check_refused("create /a", "multi create /a/s mode=2 + create /a/s mode=3 + malformed");
    check_refused("create /a x", "multi set /a y + delete /a + create /a + set /a z + malformed");
    check_refused("create /a; delete /a", "multi create /b + create /c + delete /b + malformed");
}

#[test]
fn a_refused_multi_leaves_the_session_its_ephemerals() {
    let mut rig = Rig::default();
    rig.run("create /a mode=1; multi delete /a + create /b mode=1 + malformed");
    assert_eq!(rig.machine.zk.ephemeral_paths(SessionId(1)), ["/a"]);
    rig.run("close");
    assert!(rig.machine.zk.tree.find("/a").is_none());
}

#[test]
fn random_refused_multis_leave_no_trace() {
    let mut refused = 0;
    for seed in 0..60 {
        let mut random = Random(1000 + seed);
        let mut rig = Rig::default();
        rig.run("configure extended");
        for _ in 0..100 {
            let sent = random_sent(&mut random, &rig.machine);
            rig.apply(&sent);
            let command = random_multi(&mut random, SessionId(1));
            let Some(owner) = rig.machine.zk.sessions.get(SessionId(1)).map(|s| s.owner) else {
                rig.run("@1 open");
                continue;
            };
            let connection = owner.connection.0;
            let sent = Sent { connection, identities: sent.identities, command };
            let before = (rig.machine.zk.tree.digest(), without_counters(&rig.machine));
            let sessions = rig.machine.zk.sessions.digest();
            let changes = rig.changes.zk.len();
            if matches!(rig.apply(&sent).outcome, Outcome::Zk(Err(_))) {
                refused += 1;
                let after = (rig.machine.zk.tree.digest(), without_counters(&rig.machine));
                assert_eq!(after, before, "seed {seed}: {sent:?}");
                assert_eq!(rig.machine.zk.sessions.digest(), sessions);
                assert_eq!(rig.changes.zk.len(), changes);
            }
            check_invariants(&mut rig.machine);
        }
    }
    assert!(refused > 2000, "the test is worth something: {refused}");
}

#[test]
fn a_multi_that_succeeds_does_what_its_operations_do_one_by_one() {
    for seed in 0..200 {
        let mut random = Random(5000 + seed);
        let ops: Vec<_> = (0..12).map(|_| random_op(&mut random)).collect();
        let mut one_by_one = Rig::default();
        let mut taken = Vec::new();
        let mut outcomes = Vec::new();
        for op in ops {
            let command = Command::Zk(ZkCommand::Write { session: SessionId(1), op: op.clone() });
            let sent = Sent { connection: 1, identities: Vec::new(), command };
            if let Outcome::Zk(Ok(outcome)) = one_by_one.apply(&sent).outcome {
                taken.push(op);
                outcomes.push(outcome);
            }
        }
        let mut at_once = Rig::default();
        let command = Command::Zk(ZkCommand::Multi { session: SessionId(1), ops: taken });
        let sent = Sent { connection: 1, identities: Vec::new(), command };
        let Outcome::Zk(Ok(ZkOutcome::Multi(found))) = at_once.apply(&sent).outcome else {
            unreachable!("a multi of what was done one by one is done")
        };
        let kinds = |outcomes: &[ZkOutcome]| -> Vec<String> {
            let text = |outcome: &ZkOutcome| rig::answer_text(&Outcome::Zk(Ok(outcome.clone())));
            outcomes.iter().map(text).collect()
        };
        assert_eq!(kinds(&found), kinds(&outcomes), "seed {seed}");
    }
}

use super::Numbers;
use crate::machine::tests::rig::{Rig, check_invariants, dump};
use crate::zk::change::QuotaExceeded;

const ENFORCED: &str = "configure enforce_quota";

fn check_numbers(text: &str, expected: &str) {
    assert_eq!(Numbers::parse(Some(text.as_bytes())).text(), expected, "{text}");
}

#[test]
fn numbers_are_written_as_zookeeper_does() {
    check_numbers("", "count=-1,bytes=-1");
    check_numbers("count=4,bytes=5", "count=4,bytes=5");
    check_numbers("bytes=5;count=4", "count=4,bytes=5");
    let hard = "count=4,bytes=5=;byteHardLimit=7;countHardLimit=6";
    check_numbers(hard, hard);
    check_numbers("countHardLimit=6,,;count=4,byteHardLimit=7,bytes=5", hard);
    check_numbers("count=1,count=2", "count=2,bytes=-1");
}

#[test]
fn what_is_no_number_is_not_there() {
    check_numbers("nonsense", "count=-1,bytes=-1");
    check_numbers("count=,bytes=x,=,==,;;,=5", "count=-1,bytes=-1=;=5");
    check_numbers("count=99999999999999999999,bytes=3", "count=-1,bytes=3");
    assert_eq!(Numbers::parse(None), Numbers::parse(Some(b"\xff\xfe=3")));
    let long = format!("count=4,{}", "x".repeat(crate::limits::QUOTA_TEXT_BYTES_MAX));
    check_numbers(&long, "count=-1,bytes=-1");
}

/// A machine with a quota on `/a`, after a script.
fn with_quota(limits: &str, script: &str) -> Rig {
    let mut rig = Rig::default();
    rig.run("create /zookeeper/quota/a; create /a xx; create /a/b yyy");
    rig.run(&format!("create /zookeeper/quota/a/zookeeper_limits {limits}"));
    assert_eq!(
        rig.run("create /zookeeper/quota/a/zookeeper_stats anything"),
        "created /zookeeper/quota/a/zookeeper_stats"
    );
    if !script.is_empty() {
        rig.run(script);
    }
    rig
}

fn usage(rig: &Rig, of: &str) -> String {
    let path = format!("/zookeeper/quota{of}/zookeeper_stats");
    let znode = rig.machine.zk.tree.find(&path).expect("the test made it");
    String::from_utf8(znode.data().expect("it is written").to_vec()).unwrap()
}

/// Checks the usage of `/a` after a script. It was 2 znodes and 5 bytes before.
fn check_usage(script: &str, expected: &str) {
    let mut rig = with_quota("count=-1,bytes=-1", script);
    assert_eq!(usage(&rig, "/a"), expected, "{script}");
    check_invariants(&mut rig.machine);
}

#[test]
fn usage_follows_every_write_in_the_subtree() {
    check_usage("", "count=2,bytes=5");
    check_usage("create /a/c zz", "count=3,bytes=7");
    check_usage("create /a/b/c null", "count=3,bytes=5");
    check_usage("set /a/b y", "count=2,bytes=3");
    check_usage("set /a/b null", "count=2,bytes=2");
    check_usage("delete /a/b", "count=1,bytes=2");
    check_usage("delete /a/b; delete /a", "count=0,bytes=0");
    check_usage("create /b xxx; create /ab", "count=2,bytes=5");
    check_usage("create /a/e x mode=1; close", "count=2,bytes=5");
    check_usage("multi create /a/c z + set /a/c zz + delete /a/b", "count=2,bytes=4");
}

#[test]
fn usage_changes_neither_version_nor_time_of_its_znode() {
    let rig = with_quota("count=-1", "create /a/c");
    let stat = rig.stat("/zookeeper/quota/a/zookeeper_stats");
    assert_eq!((stat.version, stat.mzxid), (0, stat.czxid));
    assert_eq!(stat.data_bytes, "count=3,bytes=5".len() as i32);
}

#[test]
fn no_change_tells_of_usage() {
    let mut rig = with_quota("count=-1", "");
    rig.take_changes();
    rig.run("create /a/c");
    let changes = rig.take_changes();
    assert!(changes.ends_with(": created /a/c") && !changes.contains("data"), "{changes}");
}

#[test]
fn a_refused_multi_leaves_usage_as_it_was() {
    for script in ["create /a/c zz", "set /a/b y", "delete /a/b", "create /a/c + delete /a/b"] {
        let mut rig = with_quota("count=-1", "set /zookeeper/quota/a/zookeeper_stats nonsense");
        let digest = rig.machine.zk.tree.digest();
        let answer = rig.run(&format!("multi {script} + malformed"));
        assert!(answer.contains(" of "), "{answer}");
        assert_eq!(rig.machine.zk.tree.digest(), digest, "{script}");
        assert_eq!(usage(&rig, "/a"), "nonsense");
        check_invariants(&mut rig.machine);
    }
    let mut rig = Rig::default();
    rig.run("create /a; create /zookeeper/quota/a; create /zookeeper/quota/a/zookeeper_limits");
    let before = dump(&rig.machine);
    rig.run("multi create /zookeeper/quota/a/zookeeper_stats + create /a/b + malformed");
    let after = dump(&rig.machine);
    assert_eq!(before.split_once('\n').unwrap().1, after.split_once('\n').unwrap().1);
    check_invariants(&mut rig.machine);
}

#[test]
fn the_deepest_quota_counts_and_the_roots_does_not() {
    let mut rig = with_quota("count=-1", "");
    rig.run("create /zookeeper/quota/a/b; create /zookeeper/quota/a/b/zookeeper_limits");
    rig.run("create /zookeeper/quota/a/b/zookeeper_stats");
    rig.run("create /zookeeper/quota/zookeeper_limits; create /zookeeper/quota/zookeeper_stats x");
    rig.run("create /a/b/c zz; create /a/d; create /e");
    assert_eq!(usage(&rig, "/a/b"), "count=2,bytes=5");
    assert_eq!(usage(&rig, "/a"), "count=3,bytes=5");
    assert_eq!(usage(&rig, ""), "x");
    rig.run("delete /zookeeper/quota/a/b/zookeeper_limits; create /a/b/d zzz");
    assert_eq!(usage(&rig, "/a/b"), "count=2,bytes=5");
    assert_eq!(usage(&rig, "/a"), "count=4,bytes=8");
    check_invariants(&mut rig.machine);
}

#[test]
fn usage_that_nobody_keeps_is_not_counted() {
    let mut rig = Rig::default();
    rig.run("create /a; create /zookeeper/quota/a; create /zookeeper/quota/a/zookeeper_limits");
    assert_eq!(rig.run("create /a/b"), "created /a/b");
    rig.run("create /zookeeper/quota/none; create /zookeeper/quota/none/zookeeper_stats");
    assert_eq!(usage(&rig, "/none"), "count=0,bytes=0");
    check_invariants(&mut rig.machine);
}

/// Checks the answer to the last command of a script under these limits, which are enforced.
fn check_enforced(limits: &str, script: &str, expected: &str) {
    let mut rig = with_quota(limits, ENFORCED);
    assert_eq!(rig.run(script), expected, "{limits}: {script}");
    check_invariants(&mut rig.machine);
}

#[test]
fn a_hard_limit_refuses_what_goes_over_it() {
    let count = "count=-1,bytes=-1=;countHardLimit=3";
    check_enforced(count, "create /a/c", "created /a/c");
    check_enforced(count, "create /a/c; create /a/d", "QuotaExceeded");
    check_enforced(count, "create /a/c; set /a/c xxxxxxxxxx", "set 1");
    check_enforced(count, "create /a/c; delete /a/c; create /a/d", "created /a/d");
    check_enforced(count, "multi create /a/c + create /a/d", "QuotaExceeded at 1 of 2");
    let bytes = "byteHardLimit=6";
    check_enforced(bytes, "create /a/c x", "created /a/c");
    check_enforced(bytes, "create /a/c xx", "QuotaExceeded");
    check_enforced(bytes, "set /a/b yyyy", "set 1");
    check_enforced(bytes, "set /a/b yyyyy", "QuotaExceeded");
    check_enforced(bytes, "create /a/c null", "created /a/c");
    check_enforced("countHardLimit=0", "create /b", "created /b");
    check_enforced("countHardLimit=0", "create /a/c", "QuotaExceeded");
    check_enforced("count=9,countHardLimit=2", "create /a/c", "QuotaExceeded");
}

#[test]
fn a_soft_limit_refuses_nothing_and_a_hard_one_only_where_it_is_enforced() {
    check_enforced("count=1,bytes=1", "create /a/c xxx", "created /a/c");
    check_enforced("nonsense", "create /a/c xxx", "created /a/c");
    let mut rig = with_quota("countHardLimit=1", "");
    assert_eq!(rig.run("create /a/c"), "created /a/c");
}

/// `PrepRequestProcessor`: a setData checks the quota before the version, a create checks it last.
#[test]
fn a_quota_is_checked_in_its_turn() {
    let limit = "countHardLimit=1,byteHardLimit=1";
    check_enforced(limit, "set /a/b yyyyy v9", "QuotaExceeded");
    check_enforced(limit, "set /a/c yyyyy v9", "NoNode");
    check_enforced(limit, "create /a/b", "NodeExists");
    check_enforced(limit, "create /a/c/d", "NoNode");
}

#[test]
fn an_exceeded_quota_is_noted_once_for_each_limit() {
    let mut rig = with_quota("count=1,byteHardLimit=6", ENFORCED);
    rig.take_changes();
    rig.run("create /a/c xx");
    let exceeded = |of, usage, limit, hard| {
        let path = "/a".into();
        QuotaExceeded { path, hard, of, usage, limit }
    };
    let expected = [exceeded("count", 3, 1, false), exceeded("bytes", 7, 6, true)];
    assert_eq!(rig.changes.zk.quotas_exceeded(), expected);
    rig.run("multi create /a/c xx; multi create /a/c xx");
    assert_eq!(rig.changes.zk.quotas_exceeded().len(), crate::limits::QUOTA_WARNINGS_MAX);
}

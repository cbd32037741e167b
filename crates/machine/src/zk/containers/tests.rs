use super::*;
use crate::machine::tests::rig::{Rig, check_invariants};
use crate::zk::tree::ROOT;

/// Applies a script, one command each second, and checks the answer to its last command.
fn check(script: &str, expected: &str) {
    let mut rig = Rig::default();
    assert_eq!(rig.run(script), expected, "{script}");
    check_invariants(&mut rig.machine);
}

#[test]
fn a_container_goes_when_its_last_child_has_gone() {
    check("create /c mode=4; create /c/a; delete /c/a; sweep 0 /c", "deleted 1");
    check("create /c mode=4; create /c/a; sweep 0 /c", "deleted 0");
    check("create /c mode=4; multi create /c/a + delete /c/a; sweep 0 /c", "deleted 1");
    check("create /c mode=4; multi create /c/a + malformed; sweep 0 /c", "deleted 0");
    check("create /c mode=7", "created /c0000000000");
    let made = "create /c mode=7; create /c0000000000/a";
    check(&format!("{made}; sweep 0 /c0000000000"), "deleted 0");
    check(&format!("{made}; delete /c0000000000/a; sweep 0 /c0000000000"), "deleted 1");
}

#[test]
fn a_container_that_never_had_a_child_goes_after_the_time_that_is_set_for_it() {
    check("create /c mode=4; sweep 0 /c", "deleted 0");
    check("create /c mode=4; sweep 1000 /c", "deleted 0");
    check("create /c mode=4; sweep 999 /c", "deleted 1");
    check("create /c mode=4; set /c x; sweep 1000 /c", "deleted 0");
    check("create /c mode=4; sweep 18446744073709551615 /c", "deleted 0");
}

#[test]
fn a_ttl_znode_goes_when_its_time_to_live_has_passed_since_its_data_was_set() {
    let check = |script: &str, expected| check(&format!("configure extended; {script}"), expected);
    check("create /t mode=5 ttl=1000; sweep 0 /t", "deleted 0");
    check("create /t mode=5 ttl=999; sweep 0 /t", "deleted 1");
    check("create /t mode=6 ttl=999; sweep 0 /t0000000000", "deleted 1");
    check("create /t mode=5 ttl=1500; check /t; sweep 0 /t", "deleted 1");
    check("create /t mode=5 ttl=1500; set /t x; sweep 0 /t", "deleted 0");
    check("create /t mode=5 ttl=1099511627775; sweep 1 /t", "deleted 0");
    check("create /t mode=5 ttl=1; create /t/a; sweep 0 /t", "deleted 0");
    check("create /t mode=5 ttl=1; create /t/a; delete /t/a; sweep 0 /t", "deleted 1");
    // The setting matters only when a TTL znode is created, not when it is removed.
    check("create /t mode=5 ttl=1; configure; sweep 0 /t", "deleted 1");
}

#[test]
fn other_znodes_never_go_by_themselves() {
    check("create /p; create /p/a; delete /p/a; sweep 1 /p", "deleted 0");
    check("create /e mode=1; sweep 1 /e", "deleted 0");
    check("sweep 1 / /zookeeper /zookeeper/config /nothing nothing", "deleted 0");
}

#[test]
fn no_permission_is_needed() {
    let script = "create /p acl=world:anyone=c; create /p/c mode=4; create /p/c/a; delete /p/c/a";
    check(&format!("{script}; delete /p/c"), "NoAuth");
    check(&format!("{script}; sweep 0 /p/c"), "deleted 1");
}

#[test]
fn each_goes_in_a_transaction_of_its_own_in_the_order_given() {
    let mut rig = Rig::default();
    rig.run("create /b mode=4; create /b/a; create /c mode=4; create /d mode=4");
    rig.take_changes();
    rig.run("delete /b/a; sweep 500 /d /no /b /b");
    assert_eq!(rig.take_changes(), "6: deleted /b/a; 7: deleted /d; 8: deleted /b");
    assert_eq!(rig.stat("/").pzxid, 8);
    rig.run("create /e; sweep 0 /c; create /f");
    assert_eq!(rig.take_changes(), "9: created /e; 10: created /f");
}

/// The result of a search, as `PATHS`, with ` | more` if the search is not done.
fn found(rig: &Rig, search: ContainerSearch) -> String {
    let found = rig.machine.zk.find_container_znodes(&search);
    let more = if found.next.is_some() { " | more" } else { "" };
    format!("{}{more}", found.paths.join(" "))
}

const SEARCH: ContainerSearch =
    ContainerSearch { from: ROOT, count_max: usize::MAX, time_ms: 0, never_used_ms_max: 0 };

#[test]
fn a_search_finds_what_a_command_of_that_time_would_remove() {
    let mut rig = Rig::default();
    rig.run(
        "configure extended; create /p; create /p/used mode=4; create /p/used/a; delete /p/used/a",
    );
    rig.run("create /new mode=4; create /t mode=5 ttl=1000; create /e mode=1; create /u mode=4");
    rig.run("create /u/in mode=4; create /u/in/a; delete /u/in/a");
    let at = |time_ms| found(&rig, ContainerSearch { time_ms, ..SEARCH });
    assert_eq!(at(0), "/p/used /u/in");
    let mtime = rig.stat("/t").mtime;
    assert_eq!(at(mtime + 1000), "/p/used /u/in");
    assert_eq!(at(mtime + 1001), "/p/used /t /u/in");
    assert_eq!(at(i64::MIN), "/p/used /u/in");
    let never_used = ContainerSearch { time_ms: i64::MAX, never_used_ms_max: 1, ..SEARCH };
    assert_eq!(found(&rig, never_used), "/p/used /new /t /u/in");
}

#[test]
fn a_search_goes_on_where_it_ended() {
    let mut rig = Rig::default();
    for name in ["a", "b", "c"] {
        rig.run(&format!("create /{name} mode=4; create /{name}/x; delete /{name}/x"));
    }
    let first = ContainerSearch { count_max: 2, ..SEARCH };
    assert_eq!(found(&rig, first), "/a /b | more");
    let next = rig.machine.zk.find_container_znodes(&first).next.unwrap();
    assert_eq!(found(&rig, ContainerSearch { from: next, ..first }), "/c");
    assert_eq!(found(&rig, ContainerSearch { count_max: 3, ..SEARCH }), "/a /b /c");
    assert_eq!(found(&rig, ContainerSearch { count_max: 0, ..SEARCH }), " | more");
}

#[test]
fn a_search_looks_at_a_bounded_number_and_finds_a_bounded_number() {
    let mut rig = Rig::default();
    for number in 0..CONTAINER_ZNODES_LOOKED_AT_MAX {
        rig.run(&format!("create /{number} mode=4"));
    }
    assert_eq!(found(&rig, SEARCH), "");
    rig.run("create /last mode=4");
    assert_eq!(found(&rig, SEARCH), " | more");
    let all = ContainerSearch { time_ms: i64::MAX, never_used_ms_max: 1, ..SEARCH };
    let found = rig.machine.zk.find_container_znodes(&all);
    assert_eq!(found.paths.len(), CONTAINER_ZNODES_DELETED_MAX);
}

use super::*;
use crate::{
    Attachment, BootId, ConnectionId, Level, MemberId, Refusal, SessionId, ZkChange, ZkCommand,
    Zxid,
};

mod model;
mod multi;
mod refusals;
pub(crate) mod rig;
mod steps;

use crate::together::one_by_one;
use crate::zk::query::DescendantCount;
use rig::{ORIGIN, Random, Rig, check_invariants, dump, random_sent};

/// Applies a script, and checks the answer to its last command.
fn check(script: &str, expected: &str) {
    let mut rig = Rig::default();
    assert_eq!(rig.run(script), expected, "{script}");
    check_invariants(&mut rig.machine);
}

#[test]
fn a_session_is_opened_once() {
    check("#2 open", "opened");
    check("open", "SessionIdTaken(SessionId(1))");
    check("close; open", "opened");
}

#[test]
fn attach_needs_a_living_session_and_its_password() {
    check("#2 attach", "SessionExpired");
    check("#2 open 5; #2 attach 5", "attached");
    check("#2 open 5; #2 attach 6", "WrongPassword");
    check("close; attach", "SessionExpired");
}

#[test]
fn only_the_last_connection_to_attach_may_act() {
    check("@9 create /a", "SessionMoved");
    check("@9 attach; create /a", "SessionMoved");
    check("@9 attach; @9 create /a", "created /a");
    check("@9 attach; attach; @9 create /a", "SessionMoved");
    check("@9 attach; close", "SessionMoved");
    check("@9 attach; multi create /a", "SessionMoved");
    check("@9 close", "SessionMoved");
}

#[test]
fn a_connection_of_another_boot_or_member_is_another_owner() {
    let mut rig = Rig::default();
    let others = [Origin { member: MemberId(8), ..ORIGIN }, Origin { boot: BootId(4), ..ORIGIN }];
    for origin in others {
        let identities = &[];
        let stamp = Stamp { time_ms: 0, origin, connection: ConnectionId(1), identities };
        let command = Command::Zk(ZkCommand::CloseSession { session: SessionId(1) });
        let reply = rig.machine.apply(&stamp, &command, &mut rig.changes);
        assert_eq!(reply.outcome, Outcome::Zk(Err(Refusal::SessionMoved)));
    }
}

#[test]
fn attach_replaces_owner_and_timeout_and_notes_its_ordinal() {
    let mut rig = Rig::default();
    rig.run("#2 open 5; @9 #2 attach 5");
    let session = rig.machine.zk.sessions.get(SessionId(2)).unwrap();
    assert_eq!(session.timeout_ms, 9000);
    assert_eq!(session.owner, Attachment { origin: ORIGIN, connection: ConnectionId(9) });
    assert_eq!(session.attached, Ordinal(3));
}

#[test]
fn a_closed_session_is_expired_for_all_that_follows() {
    check("close; create /a", "SessionExpired");
    check("close; multi create /a", "SessionExpired");
    check("close; close", "SessionExpired");
    check("#9 delete /a", "SessionExpired");
}

#[test]
fn expiry_spares_a_session_that_attached_since() {
    check("expire 1@1", "expired 1");
    check("expire 1@0", "expired 0");
    check("attach; expire 1@1", "expired 0");
    check("attach; expire 1@2", "expired 1");
    check("close; expire 1@1", "expired 0");
    check("close; open; expire 1@1", "expired 0");
    check("#2 open; expire 1@1 2@2 3@3 1@1", "expired 2");
}

#[test]
fn ephemerals_go_with_their_session_in_the_order_of_their_paths() {
    let script = "create /b mode=1; create /a; create /a/z mode=1; create /a/b mode=1; \
                  #2 open; #2 create /other mode=1; create /plain";
    for end in ["close", "expire 1@1"] {
        let mut rig = Rig::default();
        rig.run(script);
        rig.take_changes();
        rig.run(end);
        let deleted = "9: deleted /a/b; 9: deleted /a/z; 9: deleted /b; 9: closed 1";
        assert_eq!(rig.take_changes(), deleted, "{end}");
        assert_eq!(rig.stat("/a").pzxid, 9);
        assert_eq!(rig.stat("/a").cversion, 4);
        assert!(rig.machine.zk.tree.find("/other").is_some());
        assert!(rig.machine.zk.tree.find("/plain").is_some());
        check_invariants(&mut rig.machine);
    }
}

#[test]
fn an_ephemeral_that_was_deleted_is_not_deleted_again() {
    let mut rig = Rig::default();
    rig.run("create /a mode=1; delete /a; create /a; close");
    assert!(rig.machine.zk.tree.find("/a").is_some());
    assert_eq!(rig.machine.zk.ephemeral_paths(SessionId(1)), Vec::<String>::new());
}

#[test]
fn ephemeral_paths_are_those_of_one_session_and_sorted() {
    let mut rig = Rig::default();
    rig.run("#2 open; create /c mode=1; #2 create /b mode=1; create /a mode=3; create /d mode=4");
    assert_eq!(rig.machine.zk.ephemeral_paths(SessionId(1)), ["/a0000000002", "/c"]);
    assert_eq!(rig.machine.zk.ephemeral_paths(SessionId(2)), ["/b"]);
    assert_eq!(rig.machine.zk.ephemeral_paths(SessionId(3)), Vec::<String>::new());
}

/// Counts the znodes below a path in small steps, and runs one script after each step.
fn count(rig: &mut Rig, path: &str, between: &[&str]) -> Result<u32, Refusal> {
    let mut so_far = DescendantCount::default();
    let mut between = between.iter();
    loop {
        if let Some(count) = rig.machine.zk.count_descendants(path, &[], 2, &mut so_far)? {
            return Ok(count);
        }
        if let Some(script) = between.next() {
            rig.run(script);
        }
    }
}

const COUNTED: &str =
    "create /a; create /a/b; create /a/b/c; create /ab; create /a/d; create /e; create /e/f";

#[test]
fn descendants_are_counted_at_any_depth() {
    let mut rig = Rig::default();
    rig.run(COUNTED);
    let all = [("/", 10), ("", 11), ("/a", 3), ("/a/b", 1), ("/a/b/c", 0), ("/zookeeper", 2)];
    for (path, expected) in all {
        assert_eq!(count(&mut rig, path, &[]), Ok(expected), "{path}");
    }
    for path in ["/no", "/a/", "a", "/a\0"] {
        assert_eq!(count(&mut rig, path, &[]), Err(Refusal::NoNode), "{path}");
    }
    rig.run("delete /a/b/c");
    assert_eq!(count(&mut rig, "/a", &[]), Ok(2));
}

#[test]
fn a_count_has_whatever_is_there_all_the_time() {
    let mut rig = Rig::default();
    rig.run(COUNTED);
    // Znodes created or deleted during the count may or may not be counted.
    let between = ["create /a/g", "create /a/h", "delete /a/h; create /e/h", "delete /e/f"];
    let counted = count(&mut rig, "/a", &between).unwrap();
    assert!((3..=5).contains(&counted), "{counted}");
    // A count ends with an error if its znode is removed meanwhile.
    assert_eq!(
        count(&mut rig, "/ab", &["create /ab/c; delete /ab/c", "delete /ab"]),
        Err(Refusal::NoNode)
    );
    check_invariants(&mut rig.machine);
}

/// Checks how many zxids the last command of a script consumes.
fn check_zxid(script: &str, consumed: i64) {
    let mut rig = Rig::default();
    let (before, last) = script.rsplit_once("; ").unwrap_or(("check /", script));
    rig.run(before);
    let zxid = rig.machine.mark().zxid.0;
    rig.run(last);
    assert_eq!(rig.machine.mark().zxid.0 - zxid, consumed, "{script}");
}

#[test]
fn writes_consume_a_zxid_refused_ones_too() {
    check_zxid("create /a", 1);
    check_zxid("create /a/b", 1);
    check_zxid("check /", 1);
    check_zxid("malformed", 1);
    check_zxid("multi", 1);
    check_zxid("multi create /a + create /b + delete /a", 1);
    check_zxid("multi create /a + delete /b", 1);
    check_zxid("@9 create /a", 1);
    check_zxid("@9 multi create /a", 1);
    check_zxid("#9 create /a", 1);
    check_zxid("#2 open", 1);
    check_zxid("close", 1);
    check_zxid("@9 close", 1);
    check_zxid("close; close", 1);
    check_zxid("#2 open; expire 1@1 2@2", 2);
}

#[test]
fn what_changes_no_znode_and_no_session_list_consumes_no_zxid() {
    check_zxid("open", 0);
    check_zxid("attach", 0);
    check_zxid("attach 9", 0);
    check_zxid("#9 attach", 0);
    check_zxid("configure skip_acl", 0);
    check_zxid("expire 1@9", 0);
}

#[test]
fn every_command_has_its_ordinal_and_every_reply_the_zxid_it_stands_at() {
    let mut rig = Rig::default();
    let mut seen = Vec::new();
    for script in ["create /a", "create /a", "attach", "create /b", "configure"] {
        rig.run(script);
        let counters = rig.machine.mark();
        seen.push((counters.ordinal.0, counters.zxid.0));
    }
    assert_eq!(seen, [(2, 2), (3, 3), (4, 3), (5, 4), (6, 4)]);
}

#[test]
fn entries_are_counted_by_index() {
    let mut machine = Machine::default();
    assert_eq!(machine.index(), LogIndex(1));
    machine.finish_entry(LogIndex(2));
    machine.finish_entry(LogIndex(3));
    assert_eq!(machine.index(), LogIndex(3));
}

/// Begins batches (member, boot, sequence), and checks which were accepted.
fn check_batches(batches: &[(u64, u64, u64)], expected: &[bool]) {
    let mut machine = Machine::default();
    let begin = |&(member, boot, sequence): &(u64, u64, u64)| {
        let origin = Origin { member: MemberId(member), boot: BootId(boot) };
        machine.begin_batch(origin, sequence)
    };
    let taken: Vec<bool> = batches.iter().map(begin).collect();
    assert_eq!(taken, expected, "{batches:?}");
    assert_eq!(machine.mark().zxid, Zxid(0));
    assert_eq!(machine.mark().ordinal, Ordinal(0));
}

#[test]
fn duplicates_gaps_and_older_boots_are_skipped() {
    check_batches(&[(1, 1, 1)], &[true]);
    check_batches(&[(1, 1, 0)], &[false]);
    check_batches(&[(1, 1, 2)], &[false]);
    check_batches(&[(1, 1, 1), (1, 1, 1)], &[true, false]);
    check_batches(&[(1, 1, 1), (1, 1, 2), (1, 1, 1), (1, 1, 3)], &[true, true, false, true]);
    check_batches(&[(1, 1, 1), (1, 1, 3), (1, 1, 2)], &[true, false, true]);
    check_batches(&[(1, 5, 1), (1, 4, 1), (1, 4, 2), (1, 5, 2)], &[true, false, false, true]);
    check_batches(&[(1, 5, 1), (1, 6, 2), (1, 6, 1), (1, 5, 2)], &[true, false, true, false]);
    check_batches(&[(1, 1, 1), (2, 1, 1), (2, 1, 2), (1, 1, 2)], &[true, true, true, true]);
}

#[test]
fn a_skipped_batch_leaves_no_trace() {
    let mut machine = Machine::default();
    assert!(machine.begin_batch(ORIGIN, 1));
    let before = (machine.digest(), dump(&machine));
    assert!(!machine.begin_batch(ORIGIN, 1));
    assert!(!machine.begin_batch(ORIGIN, 3));
    assert_eq!((machine.digest(), dump(&machine)), before);
    assert_eq!(machine.control.last_batch(ORIGIN.member), Some((ORIGIN.boot, 1)));
    assert_eq!(machine.control.last_batch(MemberId(99)), None);
}

#[test]
fn each_command_emits_its_changes() {
    let cases = [
        ("#2 open", "2: session 2 to 2 for 4000"),
        ("@9 attach", "1: session 1 to 9 for 9000"),
        ("configure", "1: configured"),
        ("close", "2: closed 1"),
        ("expire 1@1", "2: closed 1"),
        ("create /a", "2: created /a"),
        ("create /a mode=2", "2: created /a0000000000"),
        ("create /a; set /a x", "2: created /a; 3: data /a"),
        ("create /a; delete /a", "2: created /a; 3: deleted /a"),
        ("create /a; acl /a acl=world:anyone=r", "2: created /a"),
        ("create /a; check /a", "2: created /a"),
        ("multi create /a + set /a x + delete /a", "2: created /a; 2: data /a; 2: deleted /a"),
        ("create /a/b", ""),
        ("multi create /a + delete /b", ""),
        ("create /x; multi create /a + delete /b", "2: created /x"),
        ("malformed", ""),
        ("open", ""),
        ("expire 1@9", ""),
    ];
    for (script, expected) in cases {
        let mut rig = Rig::default();
        rig.run(script);
        assert_eq!(rig.take_changes(), expected, "{script}");
    }
}

#[test]
fn changes_carry_the_acls_that_restrict_who_may_know() {
    let secret = "digest:u:x=rwcda";
    let mut rig = Rig::default();
    rig.run(&format!("create /a acl={secret}; ~digest|u:x create /a/b acl=world:anyone=rd"));
    rig.run("~digest|u:x set /a x; ~digest|u:x delete /a/b");
    let expected = format!(
        "2: created /a own {secret}; 3: created /a/b own world:anyone=rd parent {secret}; \
         4: data /a own {secret}; 5: deleted /a/b own world:anyone=rd parent {secret}"
    );
    assert_eq!(rig.take_changes(), expected);
}

#[test]
fn a_batch_of_changes_is_cut_back_with_its_paths() {
    let mut batch = Changes::default().zk;
    assert!(batch.is_empty());
    for path in ["/a", "/bb", "/ccc"] {
        batch.push(
            Mark { ordinal: Ordinal(1), zxid: Zxid(1) },
            ZkChange::DataSet { acl: None },
            path,
        );
    }
    batch.truncate(7);
    assert_eq!((batch.len(), batch.path_bytes()), (3, 9));
    batch.truncate(1);
    assert_eq!((batch.len(), batch.path_bytes()), (1, 2));
    assert_eq!(batch.iter().map(|(_, path)| path).collect::<Vec<_>>(), ["/a"]);
}

#[test]
fn settings_are_state() {
    let mut rig = Rig::default();
    let before = rig.machine.digest();
    rig.run("configure skip_acl");
    assert!(rig.machine.zk.settings.skip_acl);
    assert_ne!(rig.machine.digest(), before);
}

#[test]
fn the_servers_are_shown_in_the_config_znode_as_zookeeper_shows_them() {
    let mut rig = Rig::default();
    let at_birth = rig.stat("/zookeeper/config");
    rig.run("servers 0");
    assert_eq!(rig.stat("/zookeeper/config"), at_birth);
    rig.take_changes();

    rig.run("servers 0 2=b:1:2:observer 1=a:1:2");
    let data = |rig: &Rig| {
        let znode = rig.machine.zk.tree.find("/zookeeper/config").unwrap();
        String::from_utf8(znode.data().unwrap().to_vec()).unwrap()
    };
    let shown = "server.1=a:1:2:participant\nserver.2=b:1:2:observer\nversion=0";
    assert_eq!(data(&rig), shown);
    let stat = rig.stat("/zookeeper/config");
    assert_eq!((stat.version, stat.aversion, stat.czxid, stat.mzxid), (-1, -1, 0, 0));
    assert_eq!((stat.ctime, stat.cversion, stat.pzxid), (0, 0, 0));
    assert_eq!(stat.mtime, 1000 * rig.machine.mark().ordinal.0 as i64);
    let changes = "servers [1, 2] {}; 1: data /zookeeper/config own world:anyone=r";
    assert_eq!(rig.take_changes(), changes);
    check_invariants(&mut rig.machine);

    // An equal list changes no znode, nor does an empty list.
    rig.run("servers 0 1=a:1:2 2=b:1:2:observer");
    assert_eq!(rig.take_changes(), "servers [1, 2] {}");
    rig.run("servers 0");
    assert_eq!(rig.take_changes(), "servers [] {}");
    assert_eq!(rig.stat("/zookeeper/config"), stat);

    rig.run("servers 31 7=c:1:2");
    assert_eq!(data(&rig), "server.7=c:1:2:participant\nversion=1f");
    assert_eq!(rig.stat("/zookeeper/config").mzxid, 0x1f);
    assert_eq!(rig.stat("/zookeeper/config").version, -1);
    check_invariants(&mut rig.machine);
}

#[test]
fn a_level_only_rises() {
    let mut rig = Rig::default();
    assert_eq!(rig.machine.control.level().level, Level::FIRST);
    let before = rig.machine.digest();
    rig.run("raise 1");
    assert_eq!(
        (rig.take_changes(), rig.machine.control.level().level),
        (String::new(), Level::FIRST)
    );
    rig.run("raise 2");
    assert_eq!(
        (rig.take_changes().as_str(), rig.machine.control.level().level),
        ("raised to 2", Level::ETCD)
    );
    assert_eq!(rig.machine.control.level().version, Level::ETCD.version());
    let raised = rig.machine.digest();
    assert_ne!(raised, before);
    rig.run("raise 1");
    assert_eq!(
        (rig.take_changes(), rig.machine.control.level().level),
        (String::new(), Level::ETCD)
    );
    check_invariants(&mut rig.machine);
}

#[test]
fn nothing_has_an_ordinal_and_changes_nothing_else() {
    let mut rig = Rig::default();
    rig.run("open 1");
    rig.take_changes();
    let (mark, tree) = (rig.machine.mark(), rig.machine.zk.digest());
    assert_eq!(rig.run("nothing"), "done");
    assert_eq!(rig.machine.mark().ordinal, mark.ordinal.next());
    assert_eq!(rig.machine.mark().zxid, mark.zxid);
    assert_eq!((rig.take_changes(), rig.machine.zk.digest()), (String::new(), tree));
}

#[test]
fn the_same_commands_give_the_same_state_and_replies() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let (mut first, mut second) = (Rig::default(), Rig::default());
        for _ in 0..150 {
            let sent = random_sent(&mut random, &first.machine);
            assert_eq!(first.apply(&sent), second.apply(&sent), "seed {seed}: {sent:?}");
        }
        assert_eq!(first.machine.digest(), second.machine.digest(), "seed {seed}");
        assert_eq!(dump(&first.machine), dump(&second.machine), "seed {seed}");
        assert_eq!(first.take_changes(), second.take_changes(), "seed {seed}");
    }
}

#[test]
fn a_deferred_digest_is_what_it_would_be() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let (mut running, mut deferred) = (Rig::default(), Rig::default());
        for _ in 0..6 {
            deferred.machine.defer_digest();
            for _ in 0..random.below(60) {
                let sent = random_sent(&mut random, &running.machine);
                assert_eq!(running.apply(&sent), deferred.apply(&sent), "seed {seed}: {sent:?}");
            }
            deferred.machine.settle_digest(one_by_one);
            assert_eq!(running.machine.digest(), deferred.machine.digest(), "seed {seed}");
            check_invariants(&mut deferred.machine);
            let sent = random_sent(&mut random, &running.machine);
            assert_eq!(running.apply(&sent), deferred.apply(&sent), "seed {seed}: {sent:?}");
        }
        assert_eq!(dump(&running.machine), dump(&deferred.machine), "seed {seed}");
    }
}

#[test]
fn changes_for_nobody_are_not_kept() {
    let mut rig = Rig { changes: Changes::for_nobody(), ..Rig::default() };
    assert_eq!(rig.run("create /a x; multi create /b + check /none; set /a y"), "set 1");
    assert!(rig.changes.is_empty());
}

#[test]
fn states_that_differ_have_different_digests() {
    let base = "create /a x; create /b acl=world:anyone=r";
    let further = [
        "attach",
        "#2 open",
        "close",
        "configure extended",
        "set /a x",
        "set /a null",
        "check /",
        "create /c",
        "create /a/a",
        "delete /a",
        "acl /a acl=world:anyone=rcda",
        "malformed",
    ];
    let mut digests = Vec::new();
    for script in further {
        let mut rig = Rig::default();
        rig.run(base);
        rig.run(script);
        digests.push(rig.machine.digest().0);
    }
    digests.sort_unstable();
    digests.dedup();
    // `check` and `malformed` both only consume a zxid.
    assert_eq!(digests.len(), further.len() - 1);
}

use super::*;
use crate::command::Command;
use crate::ids::Ordinal;
use crate::image::FreezeStep;
use crate::image::restore::Restore;
use crate::machine::tests::rig::{Random, Rig, Sent, check_invariants, dump, random_sent};
use crate::{
    Attachment, ControlCommand, Outcome, Replacement, SessionChange, SessionId, ZkCommand,
    ZkOutcome,
};

/// A copy of the machine, made through an image.
fn copy(machine: &mut Machine) -> Machine {
    machine.freeze();
    let mut restore = Restore::default();
    loop {
        match machine.freeze_step(1_000, 10) {
            FreezeStep::Piece(piece) => restore.piece(&piece).unwrap(),
            FreezeStep::Last(piece) => {
                restore.piece(&piece).unwrap();
                return restore.finish().unwrap();
            }
            FreezeStep::Aborted => unreachable!("nothing changes meanwhile"),
        }
    }
}

fn install(rig: &mut Rig, image: Machine) -> crate::Reply {
    let hash = 77;
    rig.machine.prepare_image(PreparedImage { hash, machine: Box::new(image) });
    let command = Command::Control(ControlCommand::InstallImage { hash });
    rig.apply(&Sent { connection: 0, identities: Vec::new(), command })
}

/// The lines of a dump that an installed image replaces: the znodes.
fn znodes(machine: &Machine) -> Vec<String> {
    let text = dump(machine);
    text.lines().filter(|line| line.starts_with('/')).map(str::to_string).collect()
}

#[test]
fn the_znodes_and_sessions_are_those_of_the_image_and_the_counters_go_on() {
    for seed in 0..40 {
        let mut random = Random(seed);
        let (mut rig, mut other) = (Rig::default(), Rig::default());
        for _ in 0..random.below(150) {
            let sent = random_sent(&mut random, &rig.machine);
            rig.apply(&sent);
        }
        for _ in 0..random.below(150) {
            let sent = random_sent(&mut random, &other.machine);
            other.apply(&sent);
        }
        let before = rig.machine.mark();
        let settings = rig.machine.zk.settings.clone();
        let image = copy(&mut other.machine);
        let reply = install(&mut rig, image);
        assert_eq!(reply.outcome, Outcome::DONE);
        let after = rig.machine.mark();
        assert_eq!(after.ordinal, before.ordinal.next());
        assert_eq!(after.zxid, before.zxid.max(other.machine.mark().zxid).next());
        assert_eq!(rig.machine.zk.settings, settings);
        assert_eq!(znodes(&rig.machine), znodes(&other.machine), "seed {seed}");
        assert!(!znodes(&rig.machine).is_empty());
        let mut sessions: Vec<_> = rig.machine.zk.sessions.iter().collect();
        sessions.sort_by_key(|(id, _)| *id);
        let mut expected: Vec<_> = other.machine.zk.sessions.iter().collect();
        expected.sort_by_key(|(id, _)| *id);
        assert_eq!(sessions.len(), expected.len());
        for ((id, session), (expected_id, expected)) in sessions.iter().zip(expected) {
            assert_eq!(*id, expected_id);
            assert_eq!(session.password, expected.password);
            assert_eq!((session.owner, session.attached), (Attachment::default(), after.ordinal));
        }
        check_invariants(&mut rig.machine);
        // A copy made from the machine's image is equal to it: the digest covers everything.
        let own = copy(&mut rig.machine);
        assert_eq!(dump(&own), dump(&rig.machine));
        assert!(rig.machine.take_replaced().is_some());
        let mut restored = Rig { machine: own, changes: Changes::default() };
        for _ in 0..50 {
            let sent = random_sent(&mut random, &rig.machine);
            assert_eq!(rig.apply(&sent), restored.apply(&sent), "seed {seed}: {sent:?}");
        }
        assert_eq!(dump(&restored.machine), dump(&rig.machine));
    }
}

#[test]
fn nobody_acts_for_a_session_before_its_client_attaches_again() {
    let mut rig = Rig::default();
    rig.run("create /e mode=1");
    let image = copy(&mut rig.machine);
    rig.run("create /later");
    install(&mut rig, image);
    assert_eq!(rig.run("create /x"), "SessionMoved");
    // A session that was judged before the install is not expired by that judgement.
    let judged = vec![(SessionId(1), Ordinal(1))];
    let expire = Command::Zk(ZkCommand::ExpireSessions { sessions: judged });
    let sent = Sent { connection: 0, identities: Vec::new(), command: expire };
    assert_eq!(rig.apply(&sent).outcome, Outcome::Zk(Ok(ZkOutcome::Expired(0))));
    assert_eq!(rig.run("attach; create /x"), "created /x");
    assert_eq!(rig.run("delete /later"), "NoNode");
    assert!(rig.machine.zk.tree.find("/e").is_some());
    check_invariants(&mut rig.machine);
}

#[test]
fn a_running_freeze_is_worth_nothing() {
    let mut rig = Rig::default();
    rig.run("create /a; create /b");
    let image = copy(&mut rig.machine);
    rig.machine.freeze();
    assert!(matches!(rig.machine.freeze_step(1, 1), FreezeStep::Piece(_)));
    install(&mut rig, image);
    rig.run("attach; set /a x; delete /b; create /c");
    assert_eq!(rig.machine.freeze_step(1, 1), FreezeStep::Aborted);
    assert!(!rig.machine.is_freezing());
    check_invariants(&mut rig.machine);
}

#[test]
fn watchers_are_told_once_with_the_sessions_that_there_are() {
    let mut rig = Rig::default();
    rig.run("create /a");
    let image = copy(&mut rig.machine);
    rig.changes = Changes::default();
    install(&mut rig, image);
    let mark = rig.machine.mark();
    assert_eq!(rig.changes.control.replaced(), Some((mark, Replacement::Image)));
    let (session, attached) = (SessionId(1), mark.ordinal);
    let timeout_ms = rig.machine.zk.sessions.get(session).unwrap().timeout_ms;
    let expected = [SessionChange::Attached { session, attached, timeout_ms }];
    assert_eq!(rig.changes.zk.deadlines(), expected);
    assert_eq!(rig.take_changes(), format!("{}: replaced by Image", mark.zxid.0));
}

/// Installing an image keeps the settings, so the batch keeps a change of settings made before.
#[test]
fn settings_that_were_set_before_an_image_are_told_with_it() {
    let mut rig = Rig::default();
    let image = copy(&mut rig.machine);
    let settings = crate::etcd::Settings { txn_ops_max: 7, ..Default::default() };
    let command = Command::Etcd(crate::etcd::command::Command::Configure(settings));
    rig.apply(&Sent { connection: 0, identities: Vec::new(), command });
    install(&mut rig, image);
    assert!(rig.changes.control.replaced().is_some());
    assert_eq!(rig.changes.etcd.settings(), Some(settings));
    assert_eq!(rig.machine.etcd().settings(), settings);
}

#[test]
fn an_image_that_was_not_prepared_stops_everything() {
    let mut rig = Rig::default();
    let image = copy(&mut rig.machine);
    rig.machine.prepare_image(PreparedImage { hash: 1, machine: Box::new(image) });
    let command = Command::Control(ControlCommand::InstallImage { hash: 2 });
    let sent = Sent { connection: 0, identities: Vec::new(), command };
    let applied = std::panic::catch_unwind(core::panic::AssertUnwindSafe(|| rig.apply(&sent)));
    let panic = applied.expect_err("there is no such image");
    let text = panic.downcast_ref::<String>().expect("a panic with numbers has a text");
    assert!(text.contains("00000002, which is not in the data directory"), "{text}");
}

#[test]
fn the_servers_shown_are_those_of_the_ensemble_and_not_of_the_image() {
    let (mut rig, mut other) = (Rig::default(), Rig::default());
    rig.run("servers 0 1=own:1:2");
    other.run("servers 7 1=other:1:2");
    let image = copy(&mut other.machine);
    install(&mut rig, image);
    let znode = rig.machine.zk.tree.find("/zookeeper/config").unwrap();
    assert_eq!(znode.data(), Some(&b"server.1=own:1:2:participant\nversion=0"[..]));
    assert_eq!((znode.version(), znode.stat().mzxid), (-1, 0));
    check_invariants(&mut rig.machine);
}

use super::super::pending::acl_text;
use super::super::tests::rig::{Rig, config};
use super::super::{Now, ZkFrontConfig};
use super::*;
use machine::{Mark, Ordinal, SessionId, ZkChange};

fn rig(audit: bool, slow_request_ms: Option<u64>) -> Rig {
    let mut rig = Rig::default();
    rig.fronts[0] = ZkFront::new(ZkFrontConfig { audit, slow_request_ms, ..config(0) });
    rig
}

/// The lines of the audit log for a script, without the session id.
fn audited(script: &str) -> Vec<String> {
    let mut rig = rig(true, None);
    rig.play("c1: connect");
    rig.play(script);
    let session = format!("session={:#x}\t", rig.client(1).session.0);
    rig.audits.iter().map(|event| event.to_string().replacen(&session, "", 1)).collect()
}

#[test]
fn each_write_of_a_client_is_one_line() {
    let log =
        audited("c1: create /a v | set /a w | delete /a | delete /a | get /b | create /s v f2");
    let line = |rest: &str| format!("user=10.0.0.1\tip=10.0.0.1\t{rest}");
    let expected = [
        line("operation=create\tznode=/a\tznode_type=persistent\tresult=success"),
        line("operation=setData\tznode=/a\tresult=success"),
        line("operation=delete\tznode=/a\tresult=success"),
        line("operation=delete\tznode=/a\tresult=failure"),
        line(
            "operation=create\tznode=/s0000000001\tznode_type=persistent_sequential\tresult=success",
        ),
    ];
    assert_eq!(log, expected);
}

#[test]
fn a_multi_is_a_line_for_each_part_or_one_for_its_failure() {
    let log =
        audited("c1: multi create,/a,v set,/a,w check,/a\nc1: multi create,/b,v delete,/none");
    let line = |rest: &str| format!("user=10.0.0.1\tip=10.0.0.1\t{rest}");
    let expected = [
        line("operation=create\tznode=/a\tznode_type=persistent\tresult=success"),
        line("operation=setData\tznode=/a\tresult=success"),
        line("operation=multiOperation\tresult=failure"),
    ];
    assert_eq!(log, expected);
}

#[test]
fn a_reconfig_is_one_line_once_its_result_is_known() {
    let log = audited(
        "configure skip_acl=on\nc1: reconfig 2\nconfigure reconfig=on skip_acl=on\nservers\n\
         c1: join server.3=s3:1:2;3\naccept\nfinish\nc1: join server.4=s4:1:2;3\nrefuse\n\
         c1: join server.5=s5:1:2;3 77",
    );
    let line = |rest: &str| format!("user=10.0.0.1\tip=10.0.0.1\toperation=reconfig\t{rest}");
    let failed = line("result=failure");
    let succeeded = line("znode=/zookeeper/config\tresult=success");
    assert_eq!(log, [failed.clone(), succeeded, failed.clone(), failed]);
}

#[test]
fn a_reconfig_whose_client_is_gone_before_its_end_was_invoked() {
    let mut rig = rig(true, None);
    rig.play("configure reconfig=on skip_acl=on\nservers\nc1: connect\nc1: join server.4=s4:1:2;3");
    let id = rig.client(1).id;
    rig.fronts[0].on_closed(id);
    let audits = rig.fronts[0].take_output().audits;
    let told: Vec<_> = audits.iter().map(|event| (event.operation, event.result)).collect();
    assert_eq!(told, [("reconfig", AuditResult::Invoked)]);
}

#[test]
fn nothing_is_told_unless_it_is_configured() {
    let mut rig = rig(false, None);
    rig.play("c1: connect\nc1: create /a v");
    assert!(rig.audits.is_empty());
    assert!(!rig.fronts[0].keeps_journal());
}

#[test]
fn a_write_whose_client_is_gone_was_invoked() {
    let mut rig = rig(true, None);
    rig.play("c1: connect\nc1~ create /a v");
    let id = rig.client(1).id;
    rig.fronts[0].on_closed(id);
    let audits = rig.fronts[0].take_output().audits;
    assert_eq!(audits.len(), 1);
    assert!(audits[0].to_string().ends_with("\tresult=invoked"), "{}", audits[0]);
}

#[test]
fn control_characters_make_no_lines() {
    let event = AuditEvent {
        session: 1,
        user: "a\nsession=0x2\tuser=b".into(),
        ip: "::1".into(),
        operation: "setAcl",
        znode: Some("/a".into()),
        znode_type: None,
        acl: Some("world:anyone:cdrwa".into()),
        result: AuditResult::Success,
    };
    let expected = "session=0x1\tuser=a?session=0x2?user=b\tip=::1\toperation=setAcl\tznode=/a\t\
        acl=world:anyone:cdrwa\tresult=success";
    assert_eq!(event.to_string(), expected);
}

#[test]
fn an_acl_is_shown_as_zookeeper_does() {
    let entry =
        |perms, id: &str| machine::AclEntry { perms, scheme: "digest".into(), id: id.into() };
    assert_eq!(acl_text(&[entry(31, "u:h"), entry(1, "v:i")]), "digest:u:h:cdrwadigest:v:i:r");
    assert_eq!(acl_text(&[]), "");
}

#[test]
fn a_slow_request_is_told_once_in_a_while() {
    let mut rig = rig(false, Some(10));
    rig.play("c1: connect\nc1~ create /a v | create /b v");
    rig.now = Now { monotonic_ms: 11, wall_ms: 0, contact_at_ms: None };
    rig.fronts[0].set_now(rig.now);
    rig.run();
    let session = rig.client(1).session.0;
    let told = |path: &str, xid, elapsed_ms, not_told| SlowRequest {
        peer: "10.0.0.1:5001".into(),
        session,
        xid,
        operation: "create",
        path: path.into(),
        elapsed_ms,
        not_told,
    };
    assert_eq!(rig.slow, [told("/a", 1, 11, 0)]);
    rig.play("c1~ create /c v");
    rig.now = Now { monotonic_ms: 11 + SLOW_REQUEST_INTERVAL_MS, wall_ms: 0, contact_at_ms: None };
    rig.fronts[0].set_now(rig.now);
    rig.run();
    assert_eq!(rig.slow[1..], [told("/c", 3, SLOW_REQUEST_INTERVAL_MS, 1)]);
}

#[test]
fn an_ephemeral_that_goes_with_its_session_is_a_line_of_the_server() {
    let deleted = || ZkChange::Deleted { acl: None, parent_acl: None };
    let closed = |session| ZkChange::SessionClosed { session: SessionId(session) };
    let mut changes = ZkChanges::default();
    let mut ordinal = 0;
    let mut push = |zxid, kind, path: &str| {
        ordinal += 1;
        let mark = Mark { ordinal: Ordinal(ordinal), zxid: Zxid(zxid) };
        changes.push(mark, kind, path);
    };
    push(4, deleted(), "/by/its/client");
    push(5, deleted(), "/a");
    push(5, deleted(), "/b");
    push(5, closed(0x11), "");
    push(6, closed(0x12), "");
    push(7, deleted(), "/by/its/client/too");
    push(8, closed(-1), "");
    push(9, deleted(), "/c");
    push(9, closed(0x13), "");
    let mut log = Vec::new();
    audit_ended_sessions(&changes, "zookeeper", |event| log.push(event.to_string()));
    let line = |session: &str, path: &str| {
        format!(
            "session={session}\tuser=zookeeper\t\
             operation=ephemeralZNodeDeletionOnSessionCloseOrExpire\tznode={path}\tresult=success"
        )
    };
    assert_eq!(log, [line("0x11", "/a"), line("0x11", "/b"), line("0x13", "/c")]);
}

#[test]
fn the_ephemerals_of_a_session_that_ends_in_steps_are_a_line_each() {
    let mut rig = Rig::default();
    rig.play("c1: connect\nc1: create /a x | create /b x | create /c x f1 | create /d x f1");
    rig.play("c1: create /e x f1 | delete /a\nc1~ delete /b | bye\nloop");
    let mut log = Vec::new();
    while rig.apply.has_work() {
        rig.apply.step(&mut rig.machine, 1);
        let output = rig.apply.take_output();
        audit_ended_sessions(&output.changes.zk, "me", |event| log.extend(event.znode.clone()));
    }
    assert_eq!(log, ["/c", "/d", "/e"]);
}

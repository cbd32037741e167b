use etcd::pb::authpb;
use etcd::pb::etcdserverpb::request_op::Request;

use super::super::credentials::Credentials;
use super::*;

fn line_of(operation: Operation) -> AuditLine {
    AuditLine::new("::ffff:10.0.0.1".parse().unwrap(), operation)
}

/// The fields of the line for a call of the Front, after the address; `None` if there is no line.
fn of_front(method: EtcdMethod, request: &impl Message) -> Option<String> {
    let operation = Operation::from_front(method, &request.encode_to_vec().into())?;
    Some(line(line_of(operation)))
}

fn line(line: AuditLine) -> String {
    let text = line.to_string();
    let fields = text.strip_prefix("ip=10.0.0.1\toperation=").expect("the address comes first");
    fields.strip_suffix("\tresult=invoked").expect("there is no result yet").to_string()
}

fn check(method: EtcdMethod, request: &impl Message, expected: &str) {
    assert_eq!(of_front(method, request).as_deref(), Some(expected));
}

fn put(key: &str) -> pb::PutRequest {
    pb::PutRequest { key: key.to_string().into(), value: "secret".into(), ..<_>::default() }
}

#[test]
fn lines_have_keys_and_no_values() {
    check(EtcdMethod::Put, &put("a\t\""), "put\tkey=\"a\\t\\\"\"");
    check(
        EtcdMethod::Put,
        &pb::PutRequest { lease: 255, ..put("a") },
        "put\tkey=\"a\"\tlease=00000000000000ff",
    );
    let delete =
        pb::DeleteRangeRequest { key: "a".into(), range_end: "b".into(), ..<_>::default() };
    check(EtcdMethod::DeleteRange, &delete, "deleteRange\tkey=\"a\"\trange_end=\"b\"");
    check(
        EtcdMethod::Compact,
        &pb::CompactionRequest { revision: 7, physical: true },
        "compact\trevision=7",
    );
    check(
        EtcdMethod::LeaseGrant,
        &pb::LeaseGrantRequest { ttl: 5, id: 1 },
        "leaseGrant\tlease=0000000000000001\tttl=5",
    );
    check(
        EtcdMethod::LeaseRevoke,
        &pb::LeaseRevokeRequest { id: -1 },
        "leaseRevoke\tlease=ffffffffffffffff",
    );
    let whole = "k".repeat(1_024);
    check(EtcdMethod::Put, &put(&whole), &format!("put\tkey=\"{whole}\""));
    let cut = format!("put\tkey=\"{whole}\"...(1025 bytes)");
    check(EtcdMethod::Put, &put(&format!("{whole}k")), &cut);
}

#[test]
fn a_transaction_that_only_reads_has_no_line() {
    let op = |request| pb::RequestOp { request: Some(request) };
    let range =
        || op(Request::RequestRange(pb::RangeRequest { key: "r".into(), ..<_>::default() }));
    let reads = pb::TxnRequest { success: vec![range()], ..<_>::default() };
    assert_eq!(of_front(EtcdMethod::Txn, &reads), None);
    let nested =
        pb::TxnRequest { failure: vec![op(Request::RequestTxn(reads.clone()))], ..reads.clone() };
    assert_eq!(of_front(EtcdMethod::Txn, &nested), None);
    let writes = pb::TxnRequest { failure: vec![op(Request::RequestPut(put("p")))], ..reads };
    check(EtcdMethod::Txn, &writes, "txn\twrites=failure:<put key:\"p\">");
    let outer = pb::TxnRequest { success: vec![op(Request::RequestTxn(writes))], ..<_>::default() };
    check(EtcdMethod::Txn, &outer, "txn\twrites=success:<put key:\"p\">");
    let operation = Operation::from_front(EtcdMethod::Txn, &Bytes::from_static(&[0xff])).unwrap();
    assert_eq!(line(line_of(operation)), "txn", "it is malformed");
}

#[test]
fn a_line_has_a_bound_and_says_what_it_does_not_show() {
    let op = |key: &str| pb::RequestOp { request: Some(Request::RequestPut(put(key))) };
    // As many operations as are allowed by default.
    let keys = |bytes: usize| (0..128).map(move |number| format!("{number:0bytes$}"));
    let ops = |bytes: usize| keys(bytes).map(|key| op(&key)).collect::<Vec<_>>();
    let of = |bytes| pb::TxnRequest { success: ops(bytes), failure: ops(bytes), ..<_>::default() };
    let whole = of_front(EtcdMethod::Txn, &of(230)).unwrap();
    assert!(!whole.contains("not_shown"), "{whole}");
    assert!(keys(230).all(|key| whole.matches(&key).count() == 2));
    let cut = of_front(EtcdMethod::Txn, &of(1_000)).unwrap();
    assert!(cut.len() <= 64 * 1024 + 64, "{}", cut.len());
    // Each write has 1,013 bytes, and the label before them 8.
    let shown = (64 * 1024 - 8) / 1_013;
    assert_eq!(cut.matches("<put").count(), shown);
    assert!(cut.ends_with(&format!(">\twrites_not_shown={}", 256 - shown)), "{cut}");
}

#[test]
fn lines_about_users_have_names_and_no_passwords() {
    let (name, password) = ("bob\n".to_string(), "secret".to_string());
    let add = pb::AuthUserAddRequest {
        name: name.clone(),
        password: password.clone(),
        hashed_password: password.clone(),
        ..<_>::default()
    };
    check(EtcdMethod::Auth(AuthMethod::UserAdd), &add, "userAdd\tname=bob?");
    let change = pb::AuthUserChangePasswordRequest {
        name: name.clone(),
        password: password.clone(),
        hashed_password: password.clone(),
    };
    check(
        EtcdMethod::Auth(AuthMethod::UserChangePassword),
        &change,
        "userChangePassword\tname=bob?",
    );
    let asks = pb::AuthenticateRequest { name, password };
    check(EtcdMethod::Auth(AuthMethod::Authenticate), &asks, "authenticate\tname=bob?");
    let perm = authpb::Permission { perm_type: 2, key: "a".into(), range_end: vec![0].into() };
    let grant = pb::AuthRoleGrantPermissionRequest { name: "r".into(), perm: Some(perm) };
    check(
        EtcdMethod::Auth(AuthMethod::RoleGrantPermission),
        &grant,
        "roleGrantPermission\trole=r\tpermission=READWRITE\tkey=\"a\"\trange_end=\"\\x00\"",
    );
    let long = pb::AuthRoleAddRequest { name: "é".repeat(257) };
    let expected = format!("roleAdd\trole={}...", "é".repeat(256));
    check(EtcdMethod::Auth(AuthMethod::RoleAdd), &long, &expected);
    assert_eq!(of_front(EtcdMethod::Auth(AuthMethod::UserList), &pb::AuthUserListRequest {}), None);
}

#[test]
fn calls_about_members_have_lines_if_they_change_something() {
    let shown = |method, request: Vec<u8>| {
        let operation = Operation::from_front(EtcdMethod::Cluster(method), &request.into())?;
        Some(line(line_of(operation)))
    };
    let add = pb::MemberAddRequest { peer_ur_ls: vec!["http://h:1".into()], is_learner: true };
    assert_eq!(
        shown(ClusterMethod::MemberAdd, add.encode_to_vec()).as_deref(),
        Some("memberAdd\tpeers=http://h:1\tlearner=true")
    );
    let moved = pb::MoveLeaderRequest { target_id: 255 }.encode_to_vec();
    assert_eq!(shown(ClusterMethod::MoveLeader, moved).as_deref(), Some("moveLeader\tmember=ff"));
    assert_eq!(shown(ClusterMethod::MemberList, Vec::new()), None);
    assert_eq!(shown(ClusterMethod::Status, Vec::new()), None);
    let downgrade = ClusterMethod::Downgrade;
    let validate = pb::DowngradeRequest { action: 0, version: "3.5".into() };
    assert_eq!(shown(downgrade, validate.encode_to_vec()), None);
    let alarm = |action| pb::AlarmRequest { action, member_id: 16, alarm: 1 };
    check(EtcdMethod::Alarm, &alarm(2), "alarmDeactivate\tmember=10\talarm=NOSPACE");
    assert_eq!(of_front(EtcdMethod::Alarm, &alarm(0)), None);
}

#[test]
fn a_line_has_the_user_and_the_result() {
    let told = |result: Result<(), CallRefused>, credentials: Credentials| {
        let operation =
            Operation::from_front(EtcdMethod::Put, &put("a").encode_to_vec().into()).unwrap();
        let mut line = line_of(operation);
        line.user = credentials.claimed_user().cloned();
        line.tell_result(result);
        assert_eq!(line.is_failure(), line.to_string().contains("failure"));
        line.to_string()
    };
    let call = "ip=10.0.0.1\toperation=put\tkey=\"a\"\tresult=";
    assert_eq!(told(Ok(()), Credentials::Nobody), format!("{call}success"));
    assert_eq!(
        told(Err(Error::PermissionDenied.into()), Credentials::Certificate("a\tb".into())),
        format!("user=a?b\t{call}failure\terror=etcdserver: permission denied")
    );
    // A call that timed out may still take effect.
    assert_eq!(told(Err(Error::TimedOut.into()), Credentials::Nobody), format!("{call}invoked"));
    // A token does not name a user.
    assert_eq!(
        told(Ok(()), Credentials::Token("abcdefghijklmnop.1".into())),
        format!("{call}success")
    );
}

#[test]
fn a_wrong_password_of_etcd_v2_is_a_line() {
    let line = AuditLine::wrong_password_of_v2("10.0.0.1".parse().unwrap(), "ada\n");
    let text = Error::AuthFailed.text();
    let expected =
        format!("ip=10.0.0.1\toperation=v2Authenticate\tname=ada?\tresult=failure\terror={text}");
    assert_eq!(line.to_string(), expected);
    assert!(line.is_failure());
}

//! Tests of the audit log about etcd clients, in the real process.

use etcd::pb::Message;
use etcd::pb::etcdserverpb as pb;
use serde_json::json;

use super::auth::{Client, connect_over_tls, enforce};
use super::grpc_client::{call as grpc_call, connect, framed, head, run, soon};
use super::{ETCD, base64};
use crate::server::Server;
use crate::tls::wire::fixture;

/// The audit log's lines about etcd clients, without their timestamps.
pub fn lines(server: &Server) -> Vec<String> {
    let log = server.log();
    let lines = log.lines().filter_map(|line| line.split_once(" AUDIT: ").map(|(_, rest)| rest));
    // Lines without a client's address are not about clients.
    lines.filter(|line| line.contains("ip=127.0.0.1\t")).map(str::to_string).collect()
}

/// The lines written since the last call; `seen` is the number of lines so far.
fn new_lines(server: &Server, seen: &mut usize) -> Vec<String> {
    let all = lines(server);
    all[core::mem::replace(seen, all.len())..].to_vec()
}

fn expected(user: &str, operations: &[&str]) -> Vec<String> {
    let user = if user.is_empty() { String::new() } else { format!("user={user}\t") };
    operations.iter().map(|it| format!("{user}ip=127.0.0.1\toperation={it}")).collect()
}

const DENIED: &str = "result=failure\terror=etcdserver: permission denied";

#[test]
fn changes_of_etcd_clients_are_audited() {
    let server = Server::start("etcd-audit", &[ETCD, "audit.enable=true"]);
    let (address, mut seen) = (server.face("etcd"), 0);
    enforce(address);
    let nobodys = new_lines(&server, &mut seen);
    let all = "READWRITE\tkey=\"a\"\trange_end=\"b\"";
    let grant = format!("roleGrantPermission\trole=role\tpermission={all}\tresult=success");
    let steps = [
        "userAdd\tname=root\tresult=success",
        "userGrantRole\tname=root\trole=root\tresult=success",
        "userAdd\tname=alice\tresult=success",
        "roleAdd\trole=role\tresult=success",
        grant.as_str(),
        "userGrantRole\tname=alice\trole=role\tresult=success",
        "authEnable\tresult=success",
    ];
    assert_eq!(nobodys, expected("", &steps));
    let alice = Client::of(address, "alice", "a");
    assert_eq!(alice.put("a\t"), Ok(()));
    assert!(alice.put("b").is_err());
    alice.must("kv/range", json!({"key": "YQ=="}));
    let (key, end) = (base64("a"), base64("b"));
    alice.must("kv/deleterange", json!({"key": key, "range_end": end}));
    let op = |name: &str| json!({name: {"key": "YQ=="}});
    alice.must("kv/txn", json!({"success": [op("request_range")]}));
    alice.must("kv/txn", json!({"failure": [op("request_put")]}));
    alice.refused("kv/compaction", json!({"revision": 2}));
    let granted = alice.must("lease/grant", json!({"TTL": 100}))["ID"].clone();
    let lease = granted.as_str().unwrap().parse::<i64>().unwrap();
    alice.must("kv/put", json!({"key": "YQ==", "lease": granted}));
    alice.must("lease/revoke", json!({"ID": granted}));
    alice.refused("cluster/member/remove", json!({"ID": "255"}));
    alice.refused("auth/user/changepw", json!({"name": "root", "password": "secret"}));
    let (grant, revoke, put) = (
        format!("leaseGrant\tlease={lease:016x}\tttl=100\tresult=success"),
        format!("leaseRevoke\tlease={lease:016x}\tresult=success"),
        format!("put\tkey=\"a\"\tlease={lease:016x}\tresult=success"),
    );
    let (denied_put, denied_compact) =
        (format!("put\tkey=\"b\"\t{DENIED}"), format!("compact\trevision=2\t{DENIED}"));
    let (denied_member, denied_password) = (
        format!("memberRemove\tmember=ff\t{DENIED}"),
        format!("userChangePassword\tname=root\t{DENIED}"),
    );
    let steps = [
        "put\tkey=\"a\\t\"\tresult=success",
        &denied_put,
        "deleteRange\tkey=\"a\"\trange_end=\"b\"\tresult=success",
        "txn\twrites=failure:<put key:\"a\">\tresult=success",
        &denied_compact,
        &grant,
        &put,
        &revoke,
        &denied_member,
        &denied_password,
    ];
    let mut found = new_lines(&server, &mut seen);
    let login = "ip=127.0.0.1\toperation=authenticate\tname=alice\tresult=success";
    assert_eq!(found.remove(0), login);
    assert_eq!(found, expected("alice", &steps));
    super::request(address, "POST /v3/maintenance/snapshot", "{}").unwrap();
    let step = "snapshot\tresult=failure\terror=etcdserver: user name is empty";
    assert_eq!(new_lines(&server, &mut seen), expected("", &[step]));
    let root = Client::of(address, "root", "r");
    root.must("maintenance/defragment", json!({}));
    root.must("maintenance/alarm", json!({"action": "ACTIVATE", "alarm": "NOSPACE"}));
    root.must("maintenance/alarm", json!({}));
    root.must("auth/disable", json!({}));
    let steps = [
        "defragment\tresult=success",
        "alarmActivate\tmember=0\talarm=NOSPACE\tresult=success",
        "authDisable\tresult=success",
    ];
    assert_eq!(new_lines(&server, &mut seen)[1..], expected("root", &steps));
    let log = server.log();
    for secret in ["secret", &alice.token.unwrap(), "dg=="] {
        assert!(!log.contains(secret), "{secret}");
    }
}

#[test]
fn the_audit_log_names_the_owner_of_a_certificate() {
    let server = Server::start(
        "etcd-audit-certificates",
        &[
            "audit.enable=true",
            "quorate.etcdTlsAddr=127.0.0.1:0",
            &format!("ssl.keyStore.location={}", fixture("server.pem")),
            &format!("ssl.trustStore.location={}", fixture("ca.pem")),
        ],
    );
    let address = server.face("etcd-tls");
    run(async {
        let requests = connect_over_tls(address, "client").await;
        let put = pb::PutRequest { key: "a".into(), ..Default::default() };
        let sent = grpc_call(&requests, head("/etcdserverpb.KV/Put"), framed(&put.encode_to_vec()));
        assert_eq!(soon(sent).await.unwrap().status().0, "0");
    });
    assert_eq!(lines(&server), expected("client", &["put\tkey=\"a\"\tresult=success"]));
}

#[test]
fn nothing_is_audited_unless_it_is_asked_for() {
    let server = Server::start("etcd-audit-off", &[ETCD]);
    let address = server.face("etcd");
    run(async {
        let requests = connect(address).await;
        let put = pb::PutRequest { key: "a".into(), ..Default::default() };
        let sent = grpc_call(&requests, head("/etcdserverpb.KV/Put"), framed(&put.encode_to_vec()));
        assert_eq!(soon(sent).await.unwrap().status().0, "0");
    });
    assert_eq!(lines(&server), Vec::<String>::new());
}

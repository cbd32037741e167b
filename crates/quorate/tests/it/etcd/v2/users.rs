//! Tests of users and roles of etcd v2, in the real process.

use std::process::Command;

use super::*;
use crate::etcd::auth::{over_tls, with_certificates};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// The `Authorization` header for `user:password`. After a `!`, the rest is the header's value as
/// it is.
pub fn header(credentials: &str) -> String {
    match credentials.strip_prefix('!') {
        Some(other) => format!("Authorization: {other}\r\n"),
        None => format!("Authorization: Basic {}\r\n", STANDARD.encode(credentials)),
    }
}

/// Sends a request in the form of the file's lines, and returns the status of the answer.
fn status(address: SocketAddr, line: &str) -> u16 {
    end(send(address, line)).status
}

/// Creates users and roles, and enforces permissions: `app` may read and write below `/app`, and
/// guests may read `/open`.
fn enforce(address: SocketAddr) {
    for (line, expected) in [
        ("users/root {\"user\":\"root\",\"password\":\"r\"}", 201),
        ("users/app {\"user\":\"app\",\"password\":\"a\",\"roles\":[\"app\"]}", 200),
        (
            "roles/app {\"role\":\"app\",\
             \"permissions\":{\"kv\":{\"read\":[\"/app/*\"],\"write\":[\"/app/*\"]}}}",
            201,
        ),
        ("roles/guest {\"role\":\"guest\",\"permissions\":{\"kv\":{\"read\":[\"/open\"]}}}", 201),
        ("enable", 200),
    ] {
        assert_eq!(status(address, &format!("PUT /v2/auth/{line}")), expected, "{line}");
    }
}

#[test]
fn requests_about_users_are_answered_as_by_etcd() {
    let server = Server::start("etcd-v2-users", &[ETCD, V2]);
    check_answers(server.face("etcd"), include_str!("users.txt"), 110);
}

#[test]
fn waits_need_a_permission_too() {
    let server = Server::start("etcd-v2-users-wait", &[ETCD, V2, "quorate.etcdBcryptCost=4"]);
    let etcd = server.face("etcd");
    enforce(etcd);
    for (line, expected) in [
        ("GET /v2/keys/app/k?wait=true", 401),
        ("GET /v2/keys/app?wait=true&recursive=true @app:b", 401),
        ("GET /v2/keys/other?wait=true @app:a", 401),
        // Past events need the permission, too.
        ("GET /v2/keys/other?wait=true&waitIndex=1 @app:a", 401),
    ] {
        assert_eq!(status(etcd, line), expected, "{line}");
    }
    let mut waiting =
        BufReader::new(send(etcd, "GET /v2/keys/app?wait=true&recursive=true @app:a"));
    assert!(head_of(&mut waiting).contains(" 200 "));
    assert_eq!(status(etcd, "PUT /v2/keys/app/k @app:a value=1"), 201);
    assert_eq!(chunk_of(&mut waiting)["node"]["key"], "/app/k");
}

/// The first request needs one password hash, which takes about a second at this cost. The next 200
/// requests together must take less than 20 such hashes.
#[test]
fn a_password_is_hashed_once_for_many_requests() {
    let server = Server::start("etcd-v2-users-cost", &[ETCD, V2, "quorate.etcdBcryptCost=14"]);
    let etcd = server.face("etcd");
    enforce(etcd);
    let begun_at = Instant::now();
    assert_eq!(status(etcd, "PUT /v2/keys/app/first @app:a value=1"), 201);
    let first = begun_at.elapsed();
    let begun_at = Instant::now();
    for number in 0..200 {
        let line = format!("PUT /v2/keys/app/{number} @app:a value=1");
        assert_eq!(status(etcd, &line), 201);
    }
    let others = begun_at.elapsed();
    assert!(others < 20 * first, "{first:?}, then {others:?}");
    let change = "PUT /v2/auth/users/app @root:r {\"user\":\"app\",\"password\":\"new\"}";
    assert_eq!(status(etcd, change), 200);
    assert_eq!(status(etcd, "GET /v2/keys/app/1 @app:a"), 401, "the password is another");
    assert_eq!(status(etcd, "GET /v2/keys/app/1 @app:new"), 200);
}

#[test]
fn users_hold_on_all_members_and_outlive_kills() {
    let flags = ["--enable-v2", "--bcrypt-cost=4"];
    let mut three = Three::start_with("etcd-v2-users-three", &flags);
    let clients = three.clients;
    enforce(clients[0]);
    for at in clients {
        wait_until("it enforces permissions", || status(at, "GET /v2/keys/app") == 401);
        assert_eq!(status(at, "PUT /v2/keys/app/k @app:a value=1") / 100, 2);
        assert_eq!(status(at, "PUT /v2/keys/other @app:a value=1"), 401);
    }
    let leader = three.end_leader();
    let other = clients[(leader + 1) % 3];
    let revoke = "PUT /v2/auth/users/app @root:r {\"user\":\"app\",\"revoke\":[\"app\"]}";
    wait_until("it is revoked", || status(other, revoke) == 200);
    // The member that is back may not have seen the change yet, but the command is checked when it
    // is applied.
    three.restart(leader);
    let back = clients[leader];
    wait_until("it writes again", || status(back, "PUT /v2/keys/app/k @root:r value=2") == 200);
    assert_eq!(status(back, "PUT /v2/keys/app/k @app:a value=3"), 401);
}

#[test]
fn users_outlive_a_snapshot_and_are_printed_without_their_passwords() {
    let lines = [ETCD, V2, "snapCount=100", "quorate.etcdBcryptCost=4", "audit.enable=true"];
    let mut server = Server::start("etcd-v2-users-restart", &lines);
    let etcd = server.face("etcd");
    enforce(etcd);
    for number in 0..150 {
        status(etcd, &format!("PUT /v2/keys/app/{number} @app:a value=x"));
    }
    status(etcd, "PUT /v2/auth/users/app @root:r {\"user\":\"app\",\"revoke\":[\"none\"]}");
    assert_eq!(status(etcd, "GET /v2/keys/app/1 @app:b"), 401);
    let audited = audit::lines(&server);
    let wrong = "ip=127.0.0.1\toperation=v2Authenticate\tname=app\tresult=failure\t\
                 error=etcdserver: authentication failed, invalid user ID or password";
    assert!(audited.contains(&wrong.to_string()), "{audited:?}");
    let refused = "user=root\tip=127.0.0.1\toperation=v2UserPut\tname=app\t\
                   result=failure\terror=Revoking ungranted role";
    assert!(audited.contains(&refused.to_string()), "{audited:?}");
    let enabled = "ip=127.0.0.1\toperation=v2AuthEnable\tresult=success".to_string();
    let wrote = "user=app\tip=127.0.0.1\toperation=v2Set\tkey=\"/app/9\"\tresult=success";
    assert!(audited.contains(&enabled), "{audited:?}");
    assert!(audited.contains(&wrote.to_string()), "{audited:?}");
    server.kill_nine();
    server.restart();
    let etcd = server.face("etcd");
    assert_eq!(status(etcd, "GET /v2/keys/app/1"), 401);
    assert_eq!(status(etcd, "GET /v2/keys/app/1 @app:a"), 200);
    server.stop();
    let mut inspect = Command::new(env!("CARGO_BIN_EXE_quorate"));
    let inspected = inspect.arg("inspect").arg(server.data_dir()).arg("--etcd=v2").output();
    let text = String::from_utf8(inspected.unwrap().stdout).unwrap();
    let expected = "\npermissions are enforced\nuser app app\nuser root root\n\
                    role app read /app/* write /app/*\nrole guest read /open\n";
    assert!(text.contains(expected), "{text}");
    assert!(!text.contains("$2"), "a hash is shown: {text}");
}

#[test]
fn the_common_name_of_a_certificate_is_a_user() {
    let (_member, [plain, secure]) =
        with_certificates("etcd-v2-users-certificates", &["--enable-v2"]);
    enforce(plain);
    let shown = |line: &str| over_tls(secure, "client", line, "");
    // No user has this name yet, so the client is a guest.
    assert!(shown("GET /v2/keys/app/k").contains(" 401 "));
    // The certificate's subject is C=DE, O=Test, CN=client.
    let add = "PUT /v2/auth/users/client @root:r \
               {\"user\":\"client\",\"password\":\"x\",\"roles\":[\"app\"]}";
    assert_eq!(status(plain, add), 200);
    assert!(shown("GET /v2/keys/app/k").contains(" 404 "));
    assert!(shown("GET /v2/auth/users").contains(" 401 "));
}

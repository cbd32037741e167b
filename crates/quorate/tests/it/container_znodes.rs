//! Tests of znodes that the server deletes by itself: containers, and znodes with a time to live.

use std::time::{Duration, Instant};

use zk::ErrorCode;
use zk::request::{CreateKind, Request, WriteRequest};

use crate::client::{Client, TIMEOUT_MS, open_acl};
use crate::server::Server;

const CONTAINER: i32 = 4;
const TTL: i32 = 5;
const SEQUENTIAL_TTL: i32 = 6;

const SOON: &str = "-Dznode.container.checkIntervalMs=100";
const EXTENDED: &str = "extendedTypesEnabled=true";

fn create_of(kind: CreateKind, path: &str, flags: i32, ttl_ms: i64) -> Request<'_> {
    let (data, acl) = (Some(&b"x"[..]), open_acl());
    Request::Write(WriteRequest::Create { kind, path, data, acl, flags, ttl_ms })
}

fn create_container(path: &str) -> Request<'_> {
    create_of(CreateKind::Container, path, CONTAINER, -1)
}

fn create_ttl(path: &str, ttl_ms: i64) -> Request<'_> {
    create_of(CreateKind::Ttl, path, TTL, ttl_ms)
}

fn error(client: &mut Client, request: &Request<'_>) -> ErrorCode {
    client.call(request).header.error
}

/// Waits until the server has deleted a znode.
fn wait_until_gone(client: &mut Client, path: &str) {
    let begun = Instant::now();
    while client.exists(path) {
        assert!(begun.elapsed() < Duration::from_secs(30), "{path} stays");
        std::thread::yield_now();
    }
}

#[test]
fn a_container_goes_with_its_last_child_and_one_without_stays() {
    let server = Server::start("containers", &[SOON]);
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    let answer = client.call(&create_container("/c"));
    assert_eq!((answer.header.error, answer.text().as_str()), (ErrorCode::OK, "/c"));
    assert_eq!((answer.stat().ephemeral_owner, answer.stat().data_bytes), (0, 1));
    assert_eq!(error(&mut client, &create_container("/unused")), ErrorCode::OK);
    assert_eq!(error(&mut client, &create_container("/used")), ErrorCode::OK);
    for child in ["/c/a", "/used/a"] {
        assert!(client.create(child, b"", 0).is_ok());
    }
    assert_eq!(client.delete("/c/a"), ErrorCode::OK);
    wait_until_gone(&mut client, "/c");
    assert!(client.exists("/unused"));
    assert!(client.exists("/used"));
}

#[test]
fn a_container_survives_a_restart_and_goes_after_it() {
    let mut server = Server::start("containers-restart", &[SOON]);
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    assert_eq!(error(&mut client, &create_container("/c")), ErrorCode::OK);
    assert!(client.create("/c/a", b"", 0).is_ok());
    server.kill_nine();
    server.restart();
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    assert_eq!(client.delete("/c/a"), ErrorCode::OK);
    wait_until_gone(&mut client, "/c");
}

#[test]
fn a_container_that_is_never_used_goes_after_the_interval_that_is_set() {
    let never_used = "-Dznode.container.maxNeverUsedIntervalMs=1";
    let server = Server::start("containers-unused", &[SOON, never_used]);
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    assert_eq!(error(&mut client, &create_container("/c")), ErrorCode::OK);
    wait_until_gone(&mut client, "/c");
}

#[test]
fn a_ttl_znode_goes_when_its_time_to_live_is_over_and_it_has_no_child() {
    let server = Server::start("ttl", &[SOON, EXTENDED]);
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    let answer = client.call(&create_ttl("/t", 1));
    assert_eq!((answer.header.error, answer.text().as_str()), (ErrorCode::OK, "/t"));
    assert_eq!(answer.stat().ephemeral_owner, 0);
    let sequential = create_of(CreateKind::Ttl, "/s", SEQUENTIAL_TTL, 1);
    let answer = client.call(&sequential);
    assert_eq!(answer.text(), "/s0000000001");
    assert_eq!(error(&mut client, &create_ttl("/long", 600_000)), ErrorCode::OK);
    wait_until_gone(&mut client, "/t");
    wait_until_gone(&mut client, "/s0000000001");
    assert!(client.exists("/long"));
}

#[test]
fn a_ttl_needs_the_setting_and_a_value_in_range() {
    let server = Server::start("ttl-off", &[]);
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    assert_eq!(error(&mut client, &create_ttl("/t", 1)), ErrorCode::UNIMPLEMENTED);
    assert_eq!(error(&mut client, &create_ttl("/t", 0)), ErrorCode::UNIMPLEMENTED);
    let server = Server::start("ttl-range", &[EXTENDED]);
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    let ttl_ms_max = (1 << 40) - 1;
    for ttl_ms in [0, -1, ttl_ms_max + 1] {
        assert_eq!(error(&mut client, &create_ttl("/t", ttl_ms)), ErrorCode::BAD_ARGUMENTS);
    }
    assert_eq!(error(&mut client, &create_ttl("/t", ttl_ms_max)), ErrorCode::OK);
}

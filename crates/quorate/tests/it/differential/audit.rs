//! Compares the audit log with the real server's, for sessions that end with their ephemerals.

use std::net::SocketAddr;

use zk::ErrorCode;
use zk::request::Request;

use bench::differential::wire::Received;

use super::both;
use crate::client::{Client, EPHEMERAL, SEQUENTIAL, TIMEOUT_MS};

/// Runs two sessions with ephemerals. One is closed, the other expires.
fn play(address: SocketAddr) {
    let mut closed = Client::open(address, TIMEOUT_MS);
    closed.create("/p", b"", 0).unwrap();
    for (path, flags) in [("/p/b", EPHEMERAL), ("/p/a", EPHEMERAL), ("/p/", EPHEMERAL | SEQUENTIAL)]
    {
        closed.create(path, b"", flags).unwrap();
    }
    let mut expired = Client::open(address, 4_000);
    expired.create("/x", b"", EPHEMERAL).unwrap();
    assert_eq!(expired.delete("/p/a"), ErrorCode::OK);
    assert_eq!(closed.call(&Request::CloseSession).header.error, ErrorCode::OK);
    assert_eq!(expired.connection.receive(), Received::End);
    // When this write is in the audit log, all lines of the others are.
    Client::open(address, TIMEOUT_MS).create("/end", b"", 0).unwrap();
}

/// The audit lines about sessions, sorted, because the real server deletes ephemerals in the order
/// of a hash set. Session ids are replaced by numbers in order of appearance.
fn audited(log: &str) -> Vec<String> {
    let mut sessions: Vec<String> = Vec::new();
    let mut lines = Vec::new();
    for line in log.lines().filter(|line| line.contains("\toperation=")) {
        let Some((_, line)) = line.split_once("session=") else { continue };
        let Some((session, rest)) = line.split_once('\t') else { continue };
        let number = sessions.iter().position(|known| known == session);
        let number = number.unwrap_or_else(|| {
            sessions.push(session.to_string());
            sessions.len() - 1
        });
        lines.push(format!("{number} {rest}"));
    }
    lines.sort_unstable();
    lines
}

#[test]
fn ephemerals_that_go_with_their_session_are_audited_as_by_the_real_server() {
    let flags = "-Dzookeeper.audit.enable=true -Dzkloglevel=INFO";
    let (real_server, mut server) = both("audit", &[], flags);
    play(real_server.address());
    play(server.address());
    let (expected, got) = (audited(&real_server.log()), audited(&server.log()));
    assert_eq!(got, expected);
    let ended = "ephemeralZNodeDeletionOnSessionCloseOrExpire";
    assert_eq!(got.iter().filter(|line| line.contains(ended)).count(), 3, "{got:?}");
    // Changes that are replayed at a start must not be logged again.
    server.kill_nine();
    server.restart();
    assert_eq!(audited(&server.log()), got);
}

//! Attacks the admin server's command `restore` with uploads that are not snapshots.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::rig::{Attack, MIB};

/// Uploads these bytes as a snapshot to restore, and announces `missing` bytes more. Returns the
/// HTTP status; `None` if there is no answer.
fn restore(attack: &Attack, bytes: &[u8], missing: usize) -> Option<u16> {
    let mut stream = TcpStream::connect(attack.server.face("admin")).expect("it is served");
    stream.set_read_timeout(Some(Duration::from_secs(5))).expect("is set");
    let head = format!(
        "POST /commands/restore HTTP/1.1\r\nHost: q\r\nConnection: close\r\nAuthorization: digest \
         super:test\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n",
        bytes.len() + missing
    );
    stream.write_all(&[head.as_bytes(), bytes].concat()).expect("is sent");
    let mut answer = String::new();
    // The server waits for the rest of an incomplete body, so this read may time out.
    stream.read_to_string(&mut answer).ok()?;
    answer.split(' ').nth(1)?.parse().ok()
}

#[test]
fn uploads_that_are_no_snapshots_are_refused_and_have_their_turns() {
    let lines = [
        "admin.enableServer=true",
        "admin.serverAddress=127.0.0.1",
        "admin.serverPort=0",
        "admin.rateLimiterIntervalInMS=4000",
    ];
    let attack = Attack::prepare("restores", &lines, 1_000);
    let garbage = vec![7; 3 << 20];
    // An upload that stops in the middle only delays other uploads, and only until its client
    // disconnects.
    assert_eq!(restore(&attack, &garbage[..1_000], 1_000), None);
    assert_eq!(restore(&attack, &garbage, 0), Some(400));
    // Further uploads are refused until the interval is over, however many there are.
    assert!((0..20).all(|_| restore(&attack, b"x", 0) == Some(429)));
    attack.end(256 * MIB);
}

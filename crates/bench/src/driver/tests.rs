//! What a connection does that no workload is about.

use std::net::TcpListener;

use zk::request::XID_PING;
use zk::response::ConnectResponse;

use super::*;

/// Nothing is asked, and nothing ends it but the connection.
struct Waiting;

impl Load for Waiting {
    fn next(&mut self, _: usize, _: &mut Session, _: u64) -> Next {
        Next::Wait
    }

    fn on_reply(&mut self, _: usize, _: ReplyHeader, _: JuteReader<'_>, _: u64, _: u64) {
        unreachable!("nothing was asked");
    }
}

/// No ping meets the end before nothing has been heard for too long.
const TIMEOUT_MS: i32 = 3_000_000;

/// The poll tells of the last bytes and of the end at once, and never again.
#[test]
fn an_end_right_behind_the_last_bytes_is_seen() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let mut greeting = [0; 49];
        stream.read_exact(&mut greeting).unwrap();
        let (session, password) = (1, [0; 16]);
        let response =
            ConnectResponse { timeout_ms: TIMEOUT_MS, session, password, read_only: Some(false) };
        let mut answer = Vec::new();
        response.encode(&mut answer);
        stream.write_all(&answer).unwrap();
        stream
    });
    let mut driver = Driver::connect(&[address], 1, TIMEOUT_MS).unwrap();
    let mut stream = server.join().unwrap();
    let pong = [&[0, 0, 0, 16][..], &XID_PING.to_be_bytes(), &[0; 12]].concat();
    stream.write_all(&pong).unwrap();
    drop(stream);
    driver.run(&mut Waiting).unwrap();
    assert_eq!(driver.lost().count(), 1);
}

//! Tests of how the driver handles connections that end. No workload tests this.

use std::net::TcpListener;

use zk::request::{ConnectRequest, XID_PING};
use zk::response::ConnectResponse;

use super::*;

/// A load that sends nothing, so that only the end of its connection finishes it.
struct Waiting;

impl Load for Waiting {
    fn next(&mut self, _: usize, _: &mut Session, _: u64) -> Next {
        Next::Wait
    }

    fn on_reply(&mut self, _: usize, _: ReplyHeader, _: JuteReader<'_>, _: u64, _: u64) {
        unreachable!("nothing was asked");
    }
}

/// A session timeout so long that neither a ping nor silence ends a connection first.
const TIMEOUT_MS: i32 = 3_000_000;

/// The poll reports the last bytes and the end of the connection in one event, and no event
/// follows.
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

/// The server opens one session and closes the next connection, as ZooKeeper does at the connection
/// limit of an address.
#[test]
fn a_session_too_many_names_the_limit() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let first = accept(&listener, TIMEOUT_MS).0;
        drop(listener.accept().unwrap());
        first
    });
    let error = Driver::connect(&[address], 2, TIMEOUT_MS).err().unwrap().to_string();
    assert!(error.starts_with("session 1 cannot be opened: the connection ended"), "{error}");
    assert!(error.contains("; 1 are open, ") && error.contains("maxClientCnxns"), "{error}");
    server.join().unwrap();
}

/// Accepts a connection and answers its connect request: with session 5.
fn accept(listener: &TcpListener, timeout_ms: i32) -> (std::net::TcpStream, ConnectRequest) {
    let mut stream = listener.accept().unwrap().0;
    let mut greeting = [0; 49];
    stream.read_exact(&mut greeting).unwrap();
    let request = ConnectRequest::decode(&greeting[4..]).unwrap();
    let (session, password) = (5, [3; 16]);
    let mut answer = Vec::new();
    let response = ConnectResponse { timeout_ms, session, password, read_only: Some(false) };
    response.encode(&mut answer);
    stream.write_all(&answer).unwrap();
    (stream, request)
}

/// A load that sends one request and finishes at its answer.
#[derive(Default)]
struct OneSync {
    sent: usize,
    answered: usize,
    losses: Vec<Loss>,
}

impl Load for OneSync {
    fn next(&mut self, _: usize, session: &mut Session, now_ns: u64) -> Next {
        if self.answered > 0 {
            return Next::Finished;
        }
        if session.under_way() > 0 {
            return Next::Wait;
        }
        self.sent += 1;
        session.send(&zk::request::Request::Sync { path: Some("/") }, now_ns);
        Next::Sent
    }

    fn on_reply(&mut self, _: usize, _: ReplyHeader, _: JuteReader<'_>, _: u64, _: u64) {
        self.answered += 1;
    }

    fn on_lost(&mut self, _: usize, loss: &Loss, _: u64) {
        self.losses.push(loss.clone());
    }
}

/// The first server closes the connection after the request, the second before it opens a session,
/// and nothing listens at the third address. The session goes on at the fourth.
#[test]
fn a_session_goes_on_at_the_next_server() {
    let listeners: [TcpListener; 3] =
        core::array::from_fn(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let [first, second, fourth] = [0, 1, 2].map(|at: usize| listeners[at].local_addr().unwrap());
    let servers = std::thread::spawn(move || {
        let [first, second, fourth] = listeners;
        let (mut stream, _) = accept(&first, TIMEOUT_MS);
        stream.read_exact(&mut [0; 17]).unwrap();
        drop(stream);
        drop(second.accept().unwrap());
        let (mut stream, request) = accept(&fourth, TIMEOUT_MS);
        stream.read_exact(&mut [0; 17]).unwrap();
        let answer = [&[0, 0, 0, 16, 0, 0, 0, 2][..], &[0; 12]].concat();
        stream.write_all(&answer).unwrap();
        (stream, request)
    });
    let mut driver = Driver::connect(&[first, second, nobody, fourth], 1, TIMEOUT_MS).unwrap();
    driver.reconnect_after(Duration::from_millis(1), 1);
    let mut load = OneSync::default();
    driver.run(&mut load).unwrap();
    let request = servers.join().unwrap().1;
    assert_eq!((request.session, request.password), (5, vec![3; 16]));
    assert_eq!((load.sent, load.answered, driver.lost().count()), (2, 1, 0));
    let losses: Vec<_> = load.losses.iter().map(|it| (it.was_open, it.unanswered)).collect();
    assert_eq!(losses, [(true, 1), (false, 0), (false, 0)]);
}

/// The server has expired the session: the load hears of it, and the client gets a new session.
#[test]
fn a_session_that_is_over_is_replaced() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let mut first = accept(&listener, TIMEOUT_MS).0;
        first.read_exact(&mut [0; 17]).unwrap();
        drop(first);
        let refused = accept(&listener, 0).1;
        let (mut stream, new) = accept(&listener, TIMEOUT_MS);
        stream.read_exact(&mut [0; 17]).unwrap();
        let answer = [&[0, 0, 0, 16, 0, 0, 0, 1][..], &[0; 12]].concat();
        stream.write_all(&answer).unwrap();
        (stream, refused.session, new.session)
    });
    let mut driver = Driver::connect(&[address], 1, TIMEOUT_MS).unwrap();
    driver.reconnect_after(Duration::from_millis(1), 1);
    let mut load = OneSync::default();
    driver.run(&mut load).unwrap();
    let (_stream, refused, new) = server.join().unwrap();
    assert_eq!((refused, new), (5, 0));
    assert!(load.losses.iter().any(|it| it.error == SessionError::Refused), "{:?}", load.losses);
}

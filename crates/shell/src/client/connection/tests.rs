//! Tests of a session whose connections end, against a scripted server.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::net::{SocketAddr, TcpListener};

use zk::jute::{JuteWrite, begin_frame, end_frame};
use zk::{RequestHeader, request::opcode};

use super::super::{Client, Target};
use super::*;

/// The server's end of one connection.
struct Served {
    stream: TcpStream,
    frames: Frames,
}

impl Served {
    /// Accepts a connection, and reads its connect request.
    fn accept(listener: &TcpListener) -> (Served, ConnectRequest) {
        let (stream, _) = listener.accept().unwrap();
        let mut served = Served { stream, frames: Frames::default() };
        let body = served.next();
        (served, ConnectRequest::decode(&body).unwrap())
    }

    fn next(&mut self) -> Vec<u8> {
        self.frames.next(&mut self.stream).unwrap().unwrap()
    }

    /// Answers the connect request with this session; 0 refuses a session.
    fn greet(&mut self, session: i64, timeout_ms: i32) {
        self.greet_as(session, timeout_ms, false);
    }

    /// Answers the connect request. `read_only`: as a server that is cut off from its ensemble.
    fn greet_as(&mut self, session: i64, timeout_ms: i32, read_only: bool) {
        let (password, read_only) = ([7; 16], Some(read_only));
        let response = ConnectResponse { timeout_ms, session, password, read_only };
        let mut bytes = Vec::new();
        response.encode(&mut bytes);
        self.stream.write_all(&bytes).unwrap();
    }

    /// Reads the next request: its header, and the bytes behind the header.
    fn request(&mut self) -> (RequestHeader, Vec<u8>) {
        let body = self.next();
        let mut reader = JuteReader::new(&body);
        let header = RequestHeader::decode(&mut reader).unwrap();
        (header, body[reader.offset()..].to_vec())
    }

    fn reply(&mut self, xid: i32, zxid: i64, error: i32, body: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = Vec::new();
        let start = begin_frame(&mut bytes);
        bytes.put_int(xid);
        bytes.put_long(zxid);
        bytes.put_int(error);
        body(&mut bytes);
        end_frame(&mut bytes, start);
        self.stream.write_all(&bytes).unwrap();
    }
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Opens a session whose events go to a channel.
fn client(target: &str, timeout_ms: u32) -> (Result<Client, ClientError>, Receiver<Event>) {
    let (sender, events) = sync_channel(16);
    let target = Target::parse(target, timeout_ms).unwrap();
    (Client::connect(&target, move |event| drop(sender.try_send(event))), events)
}

const LIMIT: Duration = Duration::from_secs(20);

#[test]
fn the_session_goes_on_with_its_credentials_and_watches() {
    let (listener, address) = listener();
    let server = std::thread::spawn(move || {
        let (mut first, asked) = Served::accept(&listener);
        assert_eq!((asked.session, asked.last_zxid_seen), (0, 0));
        first.greet(9, 30_000);
        let (auth, _) = first.request();
        assert_eq!((auth.xid, auth.opcode), (XID_AUTH, opcode::AUTH));
        first.reply(XID_AUTH, 0, 0, |_| {});
        let (exists, _) = first.request();
        first.reply(exists.xid, 77, ErrorCode::NO_NODE.0, |_| {});
        let (add, _) = first.request();
        first.reply(add.xid, 78, 0, |out| out.put_int(0));
        drop(first);
        let (mut second, asked) = Served::accept(&listener);
        assert_eq!((asked.session, asked.password), (9, vec![7; 16]));
        assert_eq!(asked.last_zxid_seen, 78);
        second.greet(9, 30_000);
        assert_eq!(second.request().0.opcode, opcode::AUTH);
        let (set, body) = second.request();
        assert_eq!((set.xid, set.opcode), (XID_SET_WATCHES, opcode::SET_WATCHES2));
        let mut reader = JuteReader::new(&body);
        assert_eq!(reader.long(), Ok(78));
        assert_eq!(reader.texts(), Ok(vec![]));
        assert_eq!(reader.texts(), Ok(vec!["/app/a"]));
        second.reply(XID_AUTH, 0, 0, |_| {});
        second.reply(XID_SET_WATCHES, 78, 0, |_| {});
        second.reply(XID_EVENT, 80, 0, |out| {
            out.put_int(1);
            out.put_int(3);
            out.put_text("/app/a");
        });
        let (delete, _) = second.request();
        second.reply(delete.xid, 81, 0, |_| {});
    });
    let (client, events) = client(&format!("{address}/app"), 30_000);
    let client = client.unwrap();
    let next = || events.recv_timeout(LIMIT).unwrap();
    assert!(matches!(next(), Event::Connected { again: false, session: 9, .. }));
    client.add_auth("digest", b"u:p").unwrap();
    assert_eq!(client.exists("/a", true).unwrap(), None);
    client.add_watch("/", AddWatchMode::PersistentRecursive).unwrap();
    assert!(matches!(next(), Event::Lost { .. }));
    assert!(matches!(next(), Event::Connected { again: true, watch_count: 2, .. }));
    let path = "/a".to_string();
    assert_eq!(next(), Event::Watch { event_type: 1, state: 3, path, zxid: 80 });
    client.delete("/b", -1).unwrap();
    server.join().unwrap();
}

#[test]
fn a_session_that_the_server_gave_up_is_over() {
    let (listener, address) = listener();
    let server = std::thread::spawn(move || {
        let (mut first, _) = Served::accept(&listener);
        first.greet(9, 30_000);
        first.request();
        drop(first);
        Served::accept(&listener).0.greet(0, 0);
    });
    let (client, events) = client(&address.to_string(), 30_000);
    let client = client.unwrap();
    assert!(client.sync("/").is_err());
    let seen: Vec<Event> = (0..3).map(|_| events.recv_timeout(LIMIT).unwrap()).collect();
    assert!(matches!(seen[1..], [Event::Lost { .. }, Event::Expired]), "{seen:?}");
    server.join().unwrap();
    assert!(matches!(client.sync("/"), Err(ClientError::Expired)));
}

#[test]
fn the_next_server_is_tried_where_one_has_no_session_to_give() {
    let ((deaf, first), (listener, second)) = (listener(), listener());
    drop(deaf);
    let server = std::thread::spawn(move || {
        let (mut served, _) = Served::accept(&listener);
        served.greet(9, 30_000);
        served
    });
    let (client, _) = client(&format!("{first},{second}"), 30_000);
    assert!(client.is_ok());
    drop(server.join().unwrap());
    let (refused, _) = self::client(&first.to_string(), 30_000);
    assert!(matches!(refused, Err(ClientError::Unreachable { .. })));
    // The error names each server with its cause.
    let (refused, _) = self::client(&format!("{first},{second}"), 30_000);
    let text = refused.err().unwrap().to_string();
    for server in [first, second] {
        assert!(text.contains(&format!(" {server}: ")), "{text}");
    }
}

#[test]
fn a_server_without_a_word_is_left() {
    let (listener, address) = listener();
    let server = std::thread::spawn(move || {
        let (mut silent, _) = Served::accept(&listener);
        silent.greet(9, 300);
        // Pings arrive and get no answer.
        assert_eq!(silent.request().0.opcode, opcode::PING);
        let (mut second, asked) = Served::accept(&listener);
        assert_eq!(asked.session, 9);
        second.greet(9, 300);
    });
    let (client, events) = client(&address.to_string(), 300);
    drop(events.recv_timeout(LIMIT));
    let lost = events.recv_timeout(LIMIT).unwrap();
    assert!(
        matches!(&lost, Event::Lost { reason, .. } if reason == "it does not answer"),
        "{lost:?}"
    );
    server.join().unwrap();
    drop(client);
}

#[test]
fn a_change_that_was_under_way_may_have_been_made() {
    let (listener, address) = listener();
    let server = std::thread::spawn(move || {
        let (mut first, _) = Served::accept(&listener);
        first.greet(9, 30_000);
        first.request();
    });
    let (client, _) = client(&address.to_string(), 30_000);
    let lost = client.unwrap().delete("/a", -1);
    assert!(matches!(&lost, Err(ClientError::Lost(_))), "{lost:?}");
    server.join().unwrap();
}

#[test]
fn a_server_that_may_only_be_read_from_and_opens_no_session_is_said_so() {
    let (listener, address) = listener();
    let server = std::thread::spawn(move || {
        let (mut first, _) = Served::accept(&listener);
        first.reply(0, -1, -119, |_| {});
    });
    let (client, _) = client(&address.to_string(), 30_000);
    let text = client.err().unwrap().to_string();
    assert!(text.ends_with("it is cut off from its ensemble and opens no session"), "{text}");
    server.join().unwrap();
}

/// Answers the four-letter word `isro` on a new connection.
fn answer_probe(listener: &TcpListener, answer: &str) {
    let (mut stream, _) = listener.accept().unwrap();
    let mut word = [0; 4];
    stream.read_exact(&mut word).unwrap();
    assert_eq!(&word, b"isro");
    stream.write_all(answer.as_bytes()).unwrap();
}

#[test]
fn a_session_that_may_only_read_goes_to_a_server_that_can_be_written_to() {
    let ((cut_off, first), (whole, second)) = (listener(), listener());
    let server = std::thread::spawn(move || {
        let (mut served, asked) = Served::accept(&cut_off);
        assert_eq!((asked.read_only, asked.session), (Some(true), 0));
        served.greet_as(9, 30_000, true);
        let (create, _) = served.request();
        served.reply(create.xid, -1, -119, |_| {});
        // The ensemble works again, but this server has not joined it yet.
        answer_probe(&whole, "ro");
        answer_probe(&cut_off, "ro");
        answer_probe(&whole, "rw");
        let (mut served, asked) = Served::accept(&whole);
        // A session that a cut-off server gave is unknown to the other servers, so a new one is
        // asked for.
        assert_eq!((asked.session, asked.password), (0, vec![0; 16]));
        served.greet_as(10, 30_000, false);
        let (delete, _) = served.request();
        served.reply(delete.xid, 5, 0, |_| {});
    });
    let (sender, events) = sync_channel(16);
    let mut target = Target::parse(&format!("{first},{second}"), 30_000).unwrap();
    target.read_only = true;
    let client = Client::connect(&target, move |event| drop(sender.try_send(event))).unwrap();
    let next = || events.recv_timeout(LIMIT).unwrap();
    assert!(matches!(next(), Event::Connected { read_only: true, session: 9, .. }));
    assert_eq!(client.phase(), Phase::ConnectedReadOnly);
    let refused = client.delete("/a", -1);
    assert!(matches!(refused, Err(ClientError::Refused(NOT_READ_ONLY))), "{refused:?}");
    let lost = next();
    let reason = format!("{second} can be written to");
    assert!(matches!(&lost, Event::Lost { reason: said, .. } if *said == reason), "{lost:?}");
    assert!(matches!(next(), Event::Connected { read_only: false, again: false, .. }));
    client.delete("/a", -1).unwrap();
    server.join().unwrap();
}

#[test]
fn what_follows_refused_credentials_is_asked_on_the_next_connection() {
    let (listener, address) = listener();
    let server = std::thread::spawn(move || {
        let (mut first, _) = Served::accept(&listener);
        first.greet(9, 30_000);
        assert_eq!(first.request().0.opcode, opcode::AUTH);
        first.reply(XID_AUTH, 0, ErrorCode::AUTH_FAILED.0, |_| {});
        let (mut second, asked) = Served::accept(&listener);
        assert_eq!(asked.session, 9);
        second.greet(9, 30_000);
        // The refused credentials are not sent again.
        let (sync, _) = second.request();
        assert_eq!(sync.opcode, opcode::SYNC);
        second.reply(sync.xid, 1, 0, |_| {});
        (first, second)
    });
    let (client, events) = client(&address.to_string(), 30_000);
    let client = client.unwrap();
    let refused = client.add_auth("digest", b"u:p");
    assert!(matches!(refused, Err(ClientError::Refused(ErrorCode::AUTH_FAILED))), "{refused:?}");
    client.sync("/").unwrap();
    let _connections = server.join().unwrap();
    // The end of the first connection is not reported.
    let said: Vec<Event> = events.try_iter().collect();
    assert!(matches!(said[..], [Event::Connected { .. }]), "{said:?}");
}

#[test]
fn what_does_not_speak_the_protocol_is_said_so() {
    let (listener, address) = listener();
    let server = std::thread::spawn(move || {
        let (mut first, _) = Served::accept(&listener);
        first.stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let (client, _) = client(&address.to_string(), 30_000);
    let text = client.err().unwrap().to_string();
    assert!(text.contains("does not speak ZooKeeper's protocol"), "{text}");
    server.join().unwrap();
}

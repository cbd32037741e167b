//! Tests with malformed frames and records.

use std::io::Write;
use std::net::TcpStream;

use workload::generate::Random;
use zk::ErrorCode;
use zk::jute::{JuteReader, JuteWrite};
use zk::request::{
    ConnectRequest, ReadKind, ReadRequest, Request, SetWatchesRequest, WriteRequest, XID_EVENT,
    XID_SET_WATCHES, opcode,
};

use super::*;
use crate::client::{Greeted, create};

/// Appends a part of a request.
type Appends<'a> = &'a dyn Fn(&mut Vec<u8>);

const CLOSED: bool = true;
const OPEN: bool = false;

#[test]
fn a_frame_that_is_cut_is_no_request() {
    let server = Server::start("cut", &[]);
    let mut whole = Vec::new();
    Request::Write(create("/cut", b"data", 0)).encode(1, &mut whole);
    for end in 0..whole.len() {
        let mut stream = plain_session(server.address());
        stream.write_all(&whole[..end]).unwrap();
    }
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    assert!(!client.exists("/cut"));
    drop(client);
    wait_until("the connections are gone", || connections_of(&server) == 1);
    assert_well(&server);
}

#[test]
fn lengths_that_cannot_be_end_the_connection() {
    let server = Server::start("lengths", &[]);
    for length in [-1, i32::MIN, i32::MAX, FRAME_BYTES_MAX as i32 + 1] {
        assert_eq!(provoke(&server, &length.to_be_bytes()), (vec![], CLOSED), "{length}");
    }
    // These frames are too short for a request header.
    for length in 0..8 {
        let bytes = frame(|out| out.resize(4 + length, 0));
        assert_eq!(provoke(&server, &bytes), (vec![], CLOSED), "{length}");
    }
    for length in [-1, i32::MIN, i32::MAX, 0, 1025, 100_000] {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(&length.to_be_bytes()).unwrap();
        assert_eq!(read_to_end(&mut stream), b"", "{length}");
    }
    assert_well(&server);
}

#[test]
fn the_largest_frame_is_served_and_one_byte_more_ends_the_connection() {
    for (setting, bytes_max) in [(None, FRAME_BYTES_MAX), (Some("-Djute.maxbuffer=5000"), 5000)] {
        let server = Server::start("largest", setting.as_slice());
        let mut client = Client::open(server.address(), TIMEOUT_MS);
        client.create("/large", b"", 0).unwrap();
        let around = raw_request(1, opcode::SET_DATA, |out| {
            out.put_text("/large");
            out.put_buffer(Some(&[]));
            out.put_int(-1);
        });
        let data = vec![1; bytes_max - (around.len() - 4)];
        assert_eq!(client.set("/large", &data), ErrorCode::OK);
        assert_eq!(client.get("/large"), Ok(data.clone()));
        let more = vec![1; data.len() + 1];
        let write = WriteRequest::SetData { path: "/large", data: Some(&more), version: -1 };
        assert!(client.try_call(&Request::Write(write)).is_none());
        let mut client = Client::open(server.address(), TIMEOUT_MS);
        assert_eq!(client.get("/large"), Ok(data));
        assert_well(&server);
    }
}

#[test]
fn an_unknown_operation_is_answered_and_ends_the_connection() {
    let server = Server::start("unknown", &[]);
    for unknown in [0, 10, 20, 23, 99, 200, -1, -10, i32::MAX, i32::MIN] {
        let bytes = raw_request(7, unknown, |_| {});
        let expected = vec![(7, ErrorCode::UNIMPLEMENTED)];
        assert_eq!(provoke(&server, &bytes), (expected, CLOSED), "{unknown}");
    }
    assert_well(&server);
}

#[test]
fn paths_that_zookeeper_refuses_are_bad_arguments() {
    let server = Server::start("paths", &[]);
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    // In a create, ZooKeeper checks the parent before the path itself.
    let nested = ["a/b", "/a/", "/a//b", "/a/./b", "/a/../b", "/a/."];
    let flat = [
        "",
        "a",
        "/",
        "//",
        "/.",
        "/..",
        "/\0",
        "/a\u{1f}",
        "/a\u{7f}",
        "/\u{9f}",
        "/\u{e000}",
        "/\u{f8ff}",
        "/\u{fff0}",
        "/\u{1f600}",
    ];
    for path in nested.into_iter().chain(flat) {
        let error = client.create(path, b"", 0).unwrap_err();
        match path {
            "/" => assert_eq!(error, ErrorCode::NODE_EXISTS),
            path if nested.contains(&path) => assert_eq!(error, ErrorCode::NO_NODE),
            _ => assert_eq!(error, ErrorCode::BAD_ARGUMENTS),
        }
        let expected = if path == "/" { ErrorCode::OK } else { ErrorCode::BAD_ARGUMENTS };
        assert_eq!(client.set(path, b""), expected);
        // A read of such a path finds no znode. The empty path means the root, as in ZooKeeper.
        let is_root = path.is_empty() || path == "/";
        assert_eq!(client.exists(path), is_root);
        assert_ne!(client.delete(path), ErrorCode::OK);
    }
    let null = raw_request(9, opcode::CREATE, |out| out.put_int(-1));
    assert_eq!(provoke(&server, &null).0, [(9, ErrorCode::MARSHALLING_ERROR)]);
    assert_well(&server);
}

#[test]
fn acls_that_say_nothing_are_invalid() {
    let server = Server::start("acls", &[]);
    let of = |acl: Appends<'_>| {
        raw_request(3, opcode::CREATE, |out| {
            out.put_text("/acl");
            out.put_buffer(None);
            acl(out);
            out.put_int(0);
        })
    };
    let entry = |scheme: &str, id: &str| {
        let (scheme, id) = (scheme.to_string(), id.to_string());
        move |out: &mut Vec<u8>| {
            out.put_int(1);
            out.put_int(31);
            out.put_text(&scheme);
            out.put_text(&id);
        }
    };
    let invalid: [Appends<'_>; 9] = [
        &|out| out.put_int(0),
        &|out| out.put_int(-1),
        &|out| out.put_int(-2),
        &entry("", ""),
        &entry("world", "somebody"),
        &entry("nonsense", "x"),
        &entry("digest", "no-colon"),
        &entry("ip", "300.1.1.1"),
        &entry("auth", ""),
    ];
    for (case, acl) in invalid.into_iter().enumerate() {
        let expected = vec![(3, ErrorCode::INVALID_ACL)];
        assert_eq!(provoke(&server, &of(acl)), (expected, OPEN), "{case}");
    }
    let malformed: [Appends<'_>; 3] =
        [&|out| out.put_int(i32::MAX), &|out| out.put_int(100_000), &|out| {
            out.put_int(1);
            out.put_int(31);
            out.put_int(i32::MAX);
        }];
    for (case, acl) in malformed.into_iter().enumerate() {
        let expected = vec![(3, ErrorCode::MARSHALLING_ERROR)];
        assert_eq!(provoke(&server, &of(acl)), (expected, OPEN), "{case}");
    }
    assert!(!Client::open(server.address(), TIMEOUT_MS).exists("/acl"));
    assert_well(&server);
}

#[test]
fn counts_and_lengths_beyond_the_frame_are_no_memory() {
    let server = Server::start("counts", &[]);
    let before = resident_mib(server.pid());
    for count in [i32::MAX, i32::MIN, -2, 1 << 30, 1 << 24] {
        let vectors: [(i32, Vec<u8>); 4] = [
            (
                opcode::SET_WATCHES,
                raw_request(5, opcode::SET_WATCHES, |out| {
                    out.put_long(0);
                    out.put_int(count);
                }),
            ),
            (
                opcode::GET_DATA,
                raw_request(5, opcode::GET_DATA, |out| {
                    out.put_int(count);
                }),
            ),
            (
                opcode::SET_DATA,
                raw_request(5, opcode::SET_DATA, |out| {
                    out.put_text("/");
                    out.put_int(count);
                }),
            ),
            (
                opcode::MULTI,
                raw_request(5, opcode::MULTI, |out| {
                    out.put_int(opcode::CREATE);
                    out.put_bool(false);
                    out.put_int(-1);
                    out.put_int(count);
                }),
            ),
        ];
        for (opcode, bytes) in vectors {
            let expected = vec![(5, ErrorCode::MARSHALLING_ERROR)];
            assert_eq!(provoke(&server, &bytes), (expected, OPEN), "{opcode} {count}");
        }
    }
    assert!(resident_mib(server.pid()) < before + 100);
    assert_well(&server);
}

#[test]
fn a_connect_request_that_makes_no_sense_ends_the_connection() {
    let server = Server::start("greetings", &[]);
    let greeting = |password_bytes: i32, rest: &[u8]| {
        frame(|out| {
            out.put_int(0);
            out.put_long(0);
            out.put_int(TIMEOUT_MS);
            out.put_long(0);
            out.put_int(password_bytes);
            out.extend_from_slice(rest);
        })
    };
    for password_bytes in [i32::MAX, 1 << 20, 17, -2, i32::MIN] {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(&greeting(password_bytes, &[0; 16])).unwrap();
        assert_eq!(read_to_end(&mut stream), b"", "{password_bytes}");
    }
    // The server does not wait for the rest of a frame that is too long for a connect request.
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.write_all(&[0, 0, 4, 1, 0]).unwrap();
    assert_eq!(read_to_end(&mut stream), b"");
    // Old clients omit the last byte, others append bytes; both are served.
    for (rest, answer_bytes) in [(vec![0; 16], 36), (vec![0; 17], 37), (vec![0; 900], 37)] {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.write_all(&greeting(16, &rest)).unwrap();
        assert_eq!(read_frame(&mut stream).len(), answer_bytes);
    }
    assert_well(&server);
}

#[test]
fn a_session_that_is_not_the_clients_is_refused() {
    let server = Server::start("impostor", &[]);
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    client.create("/mine", b"", crate::client::EPHEMERAL).unwrap();
    for (session, password) in [
        (client.session, vec![0; 16]),
        (client.session, vec![]),
        (client.session, client.password[..15].to_vec()),
        (client.session, vec![7; 600]),
        (client.session + 1, client.password.clone()),
        (-1, client.password.clone()),
        (i64::MIN, vec![0; 16]),
    ] {
        let request = ConnectRequest { session, password, ..ConnectRequest::new(TIMEOUT_MS) };
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        stream.write_all(&bytes).unwrap();
        let answer = read_to_end(&mut stream);
        let response = ConnectResponse::decode(&answer[4..]).unwrap();
        assert_eq!(response, ConnectResponse::refused(Some(false)), "{request:?}");
        assert_eq!(answer.len(), 41);
    }
    // This does not disturb the session's real owner.
    assert!(client.exists("/mine"));
    assert_well(&server);
}

#[test]
fn a_client_from_the_future_is_not_answered() {
    let server = Server::start("future", &[]);
    for zxid in [1_000_000, i64::MAX] {
        let greeted = Client::try_greet(server.address(), 0, &[0; 16], zxid);
        assert!(matches!(greeted, Greeted::Ended));
    }
    let greeted = Client::try_greet(server.address(), 0, &[0; 16], i64::MIN);
    assert!(matches!(greeted, Greeted::Attached(_)));
    assert_well(&server);
}

#[test]
fn a_request_may_come_byte_by_byte() {
    let server = Server::start("slowly", &[]);
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_nodelay(true).unwrap();
    let mut bytes = client::greeting(TIMEOUT_MS);
    Request::Write(create("/slowly", b"data", 0)).encode(1, &mut bytes);
    crate::client::read(ReadKind::GetData, "/slowly").encode(2, &mut bytes);
    for byte in bytes {
        stream.write_all(&[byte]).unwrap();
    }
    assert!(ConnectResponse::decode(&read_frame(&mut stream)).unwrap().timeout_ms > 0);
    assert_eq!(error_of(&read_frame(&mut stream)), (1, ErrorCode::OK));
    assert_eq!(error_of(&read_frame(&mut stream)), (2, ErrorCode::OK));
    assert_well(&server);
}

#[test]
fn four_letter_words_in_odd_forms() {
    let server = Server::start("words", &["4lw.commands.whitelist=ruok,stat,srvr"]);
    let ask = |word: &[u8]| String::from_utf8(ask_word(server.address(), word)).unwrap();
    assert_eq!(ask(b"ruok"), "imok");
    assert_eq!(ask(b"ruok\n"), "imok");
    assert_eq!(ask(b"ruokruok"), "imok");
    assert!(ask(b"stat\r\n").starts_with("Zookeeper version:"));
    for word in ["mntr", "conf", "cons", "dump", "wchs", "gtmk"] {
        let refused = format!("{word} is not executed because it is not in the whitelist.\n");
        assert_eq!(ask(word.as_bytes()), refused);
    }
    // These are not words, so the bytes count as the length of a frame, which is too long.
    for word in ["RUOK", "xxxx", "GET / HTTP/1.1\r\n\r\n", "\u{16}\u{3}\u{1}\u{2}\0"] {
        assert_eq!(ask(word.as_bytes()), "");
    }
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_nodelay(true).unwrap();
    for byte in b"ruok" {
        stream.write_all(&[*byte]).unwrap();
    }
    assert_eq!(read_to_end(&mut stream), b"imok");
    // A word that is cut off, and a word followed by more bytes.
    TcpStream::connect(server.address()).unwrap().write_all(b"ruo").unwrap();
    assert!(
        ask_word(server.address(), &[b"srvr".as_slice(), &[b'x'; 100_000]].concat()).len() < 10_000
    );
    // Once there is a session, the letters of a word are the length of a frame.
    assert_eq!(provoke(&server, b"ruok"), (vec![], CLOSED));
    assert_well(&server);
}

#[test]
fn a_path_of_ten_thousand_parts_lives_like_any_other() {
    const PARTS: usize = 10_000;
    let mut server = Server::start("deep", &["snapCount=4000"]);
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    let deepest = "/a".repeat(PARTS);
    let mut bytes = Vec::new();
    for depth in 1..=PARTS {
        client.encode(&Request::Write(create(&deepest[..2 * depth], b"", 0)), &mut bytes);
    }
    client.connection.send(&bytes);
    for _ in 0..PARTS {
        assert_eq!(client.receive().unwrap().header.error, ErrorCode::OK);
    }
    assert!(client.exists(&deepest));
    assert!(!client.exists(&"/b".repeat(PARTS)));
    server.kill_nine();
    server.restart();
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    assert!(client.exists(&deepest));
    assert_eq!(client.delete("/a"), ErrorCode::NOT_EMPTY);
    assert_eq!(client.delete(&deepest), ErrorCode::OK);
    assert_well(&server);
}

#[test]
fn a_name_of_a_mebibyte_lives_like_any_other() {
    let mut server = Server::start("long-name", &[]);
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    let around = raw_request(1, opcode::EXISTS, |out| {
        out.put_text("/");
        out.put_bool(true);
    });
    // The create is longer than the read, because it also has data, an ACL and flags.
    let name = "n".repeat(FRAME_BYTES_MAX - (around.len() - 4) - 100);
    let path = format!("/{name}");
    let read = ReadRequest { kind: ReadKind::Exists, path: &path, watch: true };
    assert_eq!(client.call(&Request::Read(read)).header.error, ErrorCode::NO_NODE);
    let xid = client.send(&Request::Write(create(&path, b"x", 0)));
    let event = client.receive().unwrap();
    assert_eq!(event.header.xid, XID_EVENT);
    assert!(event.body.ends_with(name.as_bytes()));
    let answer = client.receive().unwrap();
    assert_eq!((answer.header.xid, answer.text()), (xid, path.clone()));
    let children = client.call(&crate::client::read(ReadKind::GetChildren, "/")).names();
    assert!(children.contains(&name));
    server.kill_nine();
    server.restart();
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    assert_eq!(client.get(&path), Ok(b"x".to_vec()));
    assert_eq!(client.delete(&path), ErrorCode::OK);
    assert_well(&server);
}

#[test]
fn a_multi_of_fifty_thousand_operations_is_one() {
    const OPS: usize = 50_000;
    let server = Server::start("multi", &[]);
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    let check = |version| WriteRequest::Check { path: "/", version };
    let answer = client.call(&Request::Multi(vec![check(-1); OPS]));
    assert_eq!(answer.header.error, ErrorCode::OK);
    assert_eq!(answer.body.len(), OPS * 9 + 9);
    // The last operation is refused, and therefore all operations before it.
    let mut ops = vec![check(-1); OPS - 1];
    ops[0] = create("/multi", b"", 0);
    ops.push(check(77));
    let answer = client.call(&Request::Multi(ops));
    assert_eq!(answer.body.len(), OPS * 13 + 9);
    let last = answer.body.len() - 13 - 9;
    let mut reader = JuteReader::new(&answer.body[last..]);
    let result = (reader.int(), reader.byte(), reader.int(), reader.int());
    assert_eq!(result, (Ok(-1), Ok(0), Ok(-103), Ok(-103)));
    assert!(!client.exists("/multi"));
    assert_eq!(client.call(&Request::Multi(vec![])).header.error, ErrorCode::OK);
    assert_well(&server);
}

#[test]
fn watches_on_twenty_thousand_paths_are_set_at_once() {
    const PATHS: usize = 20_000;
    let server = Server::start("set-watches", &[]);
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    let paths: Vec<String> = (0..PATHS).map(|number| format!("/watched-{number}")).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let ask = |watches: SetWatchesRequest<'_>| {
        let mut bytes = Vec::new();
        Request::SetWatches(watches).encode(XID_SET_WATCHES, &mut bytes);
        bytes
    };
    // None of the znodes exists, so each is reported as deleted before the reply.
    let data = SetWatchesRequest { data: paths.clone(), ..SetWatchesRequest::default() };
    client.connection.send(&ask(data));
    for path in &paths {
        let event = client.receive().unwrap();
        assert_eq!(event.header.xid, XID_EVENT);
        assert!(event.body.ends_with(path.as_bytes()));
    }
    assert_eq!(client.receive().unwrap().header.xid, XID_SET_WATCHES);
    let exist = SetWatchesRequest { exist: paths.clone(), ..SetWatchesRequest::default() };
    client.connection.send(&ask(exist));
    assert_eq!(client.receive().unwrap().header.xid, XID_SET_WATCHES);
    let last = paths[PATHS - 1];
    client.send(&Request::Write(create(last, b"", 0)));
    let event = client.receive().unwrap();
    assert_eq!(event.header.xid, XID_EVENT);
    assert!(event.body.ends_with(last.as_bytes()));
    assert_eq!(client.receive().unwrap().text(), last);
    assert_well(&server);
}

/// Random streams of connects, requests, words and noise, cut off anywhere.
#[test]
fn two_thousand_connections_that_end_in_the_middle_leave_nothing() {
    let server = Server::start("middle", &["snapCount=1000"]);
    let mut random = Random::new(11);
    let mut small = Client::open(server.address(), TIMEOUT_MS);
    small.create("/small", &[1; 2000], 0).unwrap();
    for round in 0..2_000 {
        let mut bytes = if random.one_in(20) { Vec::new() } else { client::greeting(TIMEOUT_MS) };
        for xid in 1..random.between(2, 30) as i32 {
            draw_request(&mut random, xid, &mut bytes);
        }
        for _ in 0..random.below(3) {
            let place = random.below(bytes.len() as u64) as usize;
            bytes[place] ^= 1 << random.below(8);
        }
        let end = random.between(0, bytes.len() as u64) as usize;
        let mut stream = TcpStream::connect(server.address()).unwrap();
        // The server may already have closed the connection.
        let _ = stream.write_all(&bytes[..end]);
        if random.one_in(3) {
            let _ = stream.shutdown(std::net::Shutdown::Write);
            read_to_end(&mut stream);
        }
        if round % 500 == 0 {
            assert_well(&server);
        }
    }
    drop(small);
    wait_until("the connections are gone", || connections_of(&server) == 1);
    assert_well(&server);
}

fn draw_request(random: &mut Random, xid: i32, bytes: &mut Vec<u8>) {
    let path = ["/small", "/", "/middle", "/none", "bad", "/middle/x"][random.below(6) as usize];
    let watch = random.one_in(2);
    let kinds = [
        ReadKind::Exists,
        ReadKind::GetData,
        ReadKind::GetChildren,
        ReadKind::GetChildren2,
        ReadKind::GetAcl,
    ];
    let kind = kinds[random.below(5) as usize];
    match random.below(12) {
        0..=3 => Request::Read(ReadRequest { kind, path, watch }).encode(xid, bytes),
        4..=5 => {
            let flags = random.below(4) as i32;
            Request::Write(create(path, b"some", flags)).encode(xid, bytes);
        }
        6 => Request::Write(WriteRequest::Delete { path, version: -1 }).encode(xid, bytes),
        7 => {
            let set = WriteRequest::SetData { path, data: Some(&[5; 3000]), version: -1 };
            Request::Multi(vec![set.clone(), set]).encode(xid, bytes);
        }
        8 => Request::Sync { path: Some(path) }.encode(xid, bytes),
        9 => Request::Ping.encode(zk::request::XID_PING, bytes),
        10 => Request::Auth { scheme: "digest", credentials: Some(b"a:b") }.encode(-4, bytes),
        _ => Request::CloseSession.encode(xid, bytes),
    }
}

//! Tests of the gateway's streams over WebSocket, as browsers and some libraries use them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde_json::Value;

use super::auth::{Client, enforce};
use super::{base64, put, request};
use crate::server::Server;

/// A connection that speaks WebSocket.
struct Socket(TcpStream);

/// Asks for WebSocket, with an additional header line. Returns the connection and the head of the
/// answer.
fn ask(address: SocketAddr, path: &str, header: &str) -> (TcpStream, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: e\r\nConnection: keep-alive, Upgrade\r\n\
         Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n{header}\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        answer.extend(byte);
    }
    (stream, String::from_utf8(answer).unwrap())
}

impl Socket {
    /// Opens a WebSocket, with the key from the example in RFC 6455, 1.3.
    fn open(address: SocketAddr, path: &str) -> Socket {
        Socket::open_with(address, path, "").0
    }

    /// Opens a WebSocket with an additional header line. Returns it with the head of the answer.
    fn open_with(address: SocketAddr, path: &str, header: &str) -> (Socket, String) {
        let (stream, answer) = ask(address, path, header);
        assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
        assert!(answer.contains("Sec-Websocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{answer}");
        (Socket(stream), answer)
    }

    fn send(&mut self, opcode: u8, payload: &[u8]) {
        let mask = [7, 77, 0, 200];
        let masked = payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask);
        let head = [0x80 | opcode, 0x80 | payload.len() as u8];
        let frame: Vec<u8> = head.into_iter().chain(mask).chain(masked).collect();
        self.0.write_all(&frame).unwrap();
    }

    /// Reads the next frame, which must be a whole message. Returns its opcode and payload.
    fn receive(&mut self) -> (u8, Vec<u8>) {
        let (first, payload) = self.receive_frame();
        assert!(first & 0x80 != 0, "{first}");
        (first & 0x0f, payload)
    }

    /// Reads the next frame. Returns its first byte and payload.
    fn receive_frame(&mut self) -> (u8, Vec<u8>) {
        let mut head = [0; 2];
        self.0.read_exact(&mut head).unwrap();
        assert!(head[1] & 0x80 == 0, "{head:?}");
        let mut length = [0; 8];
        match head[1] {
            126 => self.0.read_exact(&mut length[6..]).unwrap(),
            127 => self.0.read_exact(&mut length).unwrap(),
            small => length[7] = small,
        }
        let mut payload = vec![0; u64::from_be_bytes(length) as usize];
        self.0.read_exact(&mut payload).unwrap();
        (head[0], payload)
    }

    fn message(&mut self) -> Value {
        let (opcode, payload) = self.receive();
        assert_eq!(opcode, 1);
        assert_eq!(payload.last(), Some(&b'}'), "a message has no line end");
        serde_json::from_slice(&payload).unwrap()
    }
}

#[test]
fn watches_and_keep_alives_go_over_websocket() {
    let server = Server::start("etcd-websocket", &[super::ETCD]);
    let etcd = server.face("etcd");
    let mut socket = Socket::open(etcd, "/v3/watch");
    let create = format!("{{\"create_request\":{{\"key\":\"{}\"}}}}", base64("key"));
    socket.send(1, create.as_bytes());
    assert_eq!(socket.message()["result"]["created"], true);
    // Another watch on the same stream.
    socket.send(1, create.as_bytes());
    assert_eq!(socket.message()["result"]["watch_id"], "1");
    assert!(put(etcd, "key", "value"));
    for _ in 0..2 {
        let events = socket.message();
        assert_eq!(events["result"]["events"][0]["kv"]["value"], base64("value"), "{events}");
    }
    socket.send(9, b"are you there");
    assert_eq!(socket.receive(), (10, b"are you there".to_vec()));
    socket.send(8, &[]);
    assert_eq!(socket.receive(), (8, 1_000_u16.to_be_bytes().to_vec()));

    let grant = request(etcd, "POST /v3/lease/grant", r#"{"TTL":60,"ID":7}"#).unwrap();
    assert_eq!(grant.0, 200);
    let mut socket = Socket::open(etcd, "/v3/lease/keepalive");
    for _ in 0..2 {
        socket.send(1, br#"{"ID":7}"#);
        assert_eq!(socket.message()["result"]["TTL"], "60");
    }
    // An opcode that does not exist.
    socket.send(3, b"x");
    assert_eq!(socket.receive(), (8, 1_002_u16.to_be_bytes().to_vec()));
    assert_eq!(request(etcd, "GET /health", "").unwrap().0, 200);
}

#[test]
fn a_long_message_comes_in_several_frames() {
    let server = Server::start("etcd-websocket-long", &[super::ETCD]);
    let etcd = server.face("etcd");
    let value = "v".repeat(100_000);
    for number in 0..10 {
        assert!(put(etcd, &format!("key{number}"), &value));
    }
    let mut socket = Socket::open(etcd, "/v3/watch");
    let range = format!("\"key\":\"{}\",\"range_end\":\"{}\"", base64("key"), base64("kez"));
    let create = format!("{{\"create_request\":{{{range},\"prev_kv\":true}}}}");
    socket.send(1, create.as_bytes());
    assert_eq!(socket.message()["result"]["created"], true);
    let (status, _) = request(etcd, "POST /v3/kv/deleterange", &format!("{{{range}}}")).unwrap();
    assert_eq!(status, 200);
    let (mut text, mut frames) = (Vec::new(), 0);
    loop {
        let (first, payload) = socket.receive_frame();
        // The first frame has the opcode for text, the others that for continuations.
        assert_eq!(first & 0x0f, u8::from(frames == 0));
        text.extend(payload);
        frames += 1;
        if first & 0x80 != 0 {
            break;
        }
    }
    assert!(frames > 1, "{frames}");
    let message: Value = serde_json::from_slice(&text).unwrap();
    let events = message["result"]["events"].as_array().unwrap();
    assert_eq!(events.len(), 10);
    assert!(events.iter().all(|event| event["prev_kv"]["value"] == base64(&value)));
    // Short messages follow.
    assert!(put(etcd, "key", "value"));
    let events = socket.message();
    assert_eq!(events["result"]["events"][0]["kv"]["value"], base64("value"), "{events}");
}

/// etcd accepts WebSocket here, but then never answers: it waits for the end of the request, which
/// only comes with the end of the connection.
#[test]
fn a_call_that_etcd_would_never_answer_is_refused_at_once() {
    let server = Server::start("etcd-websocket-unary", &[super::ETCD]);
    let etcd = server.face("etcd");
    for path in ["/v3/kv/range", "/v3/kv/put", "/v3/election/observe"] {
        let (mut stream, answer) = ask(etcd, path, "Connection: close\r\n");
        assert!(answer.starts_with("HTTP/1.1 501 "), "{path}: {answer}");
        let mut body = String::new();
        stream.read_to_string(&mut body).unwrap();
        assert!(body.contains("over WebSocket there are watches and keep-alives only"), "{body}");
    }
    let (_, answer) = ask(etcd, "/v3/nothing", "");
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    // As in etcd, a request outside of the gateway is answered normally, without WebSocket.
    let (_, answer) = ask(etcd, "/version", "");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[test]
fn a_token_stands_beside_the_protocol() {
    let server = Server::start("etcd-websocket-token", &[super::ETCD]);
    let etcd = server.face("etcd");
    enforce(etcd);
    let token = Client::of(etcd, "alice", "a").token.unwrap();
    let watch = |header: &str| {
        let (mut socket, answer) = Socket::open_with(etcd, "/v3/watch", header);
        let create = format!("{{\"create_request\":{{\"key\":\"{}\"}}}}", base64("a"));
        socket.send(1, create.as_bytes());
        (socket.message(), answer)
    };
    let (created, answer) = watch(&format!("Sec-WebSocket-Protocol: Bearer, {token}\r\n"));
    assert!(created["result"]["canceled"].is_null(), "{created}");
    assert!(answer.contains("Sec-Websocket-Protocol: Bearer\r\n"), "{answer}");
    // As in etcd, no other header is forwarded as metadata.
    let (refused, answer) = watch(&format!("Authorization: {token}\r\n"));
    assert_eq!(refused["result"]["canceled"], true, "{refused}");
    assert!(!answer.contains("Sec-Websocket-Protocol"), "{answer}");
}

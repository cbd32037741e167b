//! Tests with clients that send malformed requests, read nothing, or never stop. Their connections
//! may suffer; the server, its memory and its other clients must not.

pub mod disk_full;
pub mod flood;
mod garbage;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use zk::ErrorCode;
use zk::jute::{JuteReader, JuteWrite, begin_frame, end_frame};
use zk::request::{ReadKind, Request};
use zk::response::ConnectResponse;

use crate::client::{self, Client, TIMEOUT_MS};
use crate::ensemble::open;
use crate::server::{PATIENCE, Server, wait_until};
use bench::differential::wire::Received;

/// The default of `jute.maxbuffer`.
const FRAME_BYTES_MAX: usize = zk::limits::FRAME_BYTES_MAX_DEFAULT as usize;

/// Fails unless another client is served, and nothing panicked.
fn assert_well(server: &Server) {
    let mut client = open(server.address());
    let path = client.create("/well-", b"well", client::SEQUENTIAL).unwrap();
    assert_eq!(client.get(&path), Ok(b"well".to_vec()));
    assert_eq!(client.set(&path, b"better"), ErrorCode::OK);
    assert_eq!(client.delete(&path), ErrorCode::OK);
    assert!(client.close());
    assert!(!server.log().contains("panicked"), "{}", server.log());
}

/// A frame, with the length of its body in front.
fn frame(body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    let start = begin_frame(&mut out);
    body(&mut out);
    end_frame(&mut out, start);
    out
}

/// A request whose body our own encoder would not produce.
fn raw_request(xid: i32, opcode: i32, body: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    frame(|out| {
        out.put_int(xid);
        out.put_int(opcode);
        body(out);
    })
}

/// Sends a four-letter word, and returns everything up to the end of the connection.
fn ask_word(address: SocketAddr, word: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(word).unwrap();
    read_to_end(&mut stream)
}

/// Reads up to the end of the connection. A reset counts as an end.
fn read_to_end(stream: &mut TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("no end: {error}"),
        _ => all,
    }
}

/// The resident memory of a process, in MiB.
fn resident_mib(pid: Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() / 1024
}

/// A raw socket with a session. Nothing is read from it unless the test does so.
fn plain_session(address: SocketAddr) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&client::greeting(TIMEOUT_MS)).unwrap();
    let response = ConnectResponse::decode(&read_frame(&mut stream)).unwrap();
    assert!(response.timeout_ms > 0);
    stream
}

fn read_frame(stream: &mut TcpStream) -> Vec<u8> {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    zk::frame::read(stream).unwrap()
}

fn error_of(body: &[u8]) -> (i32, ErrorCode) {
    let mut reader = JuteReader::new(body);
    let (xid, _) = (reader.int().unwrap(), reader.long().unwrap());
    (xid, ErrorCode(reader.int().unwrap()))
}

/// Sends bytes on a connection that has a session. Returns the errors in the replies, and whether
/// the server closed the connection. A ping is sent behind the bytes; its reply marks the end of
/// the replies.
fn provoke(server: &Server, bytes: &[u8]) -> (Vec<(i32, ErrorCode)>, bool) {
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    let mut all = bytes.to_vec();
    Request::Ping.encode(zk::request::XID_PING, &mut all);
    client.connection.send(&all);
    let mut errors = Vec::new();
    loop {
        match client.connection.receive() {
            Received::End => return (errors, true),
            Received::Silence => panic!("the server is silent after {errors:?}"),
            Received::Frame(body) => match error_of(&body) {
                (zk::request::XID_PING, _) => return (errors, false),
                error => errors.push(error),
            },
        }
    }
}

fn connections_of(server: &Server) -> u64 {
    let text = String::from_utf8(ask_word(server.address(), b"srvr")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Connections: "));
    line.expect(&text).parse().unwrap()
}

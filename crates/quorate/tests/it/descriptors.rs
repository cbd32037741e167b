//! Tests of file descriptors: a server uses as many as the system allows, and keeps some of them
//! free of client connections.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use bench::workloads::chunk::cmdw::client::ChunkClient;
use bench::workloads::chunk::cmdw::load::block_of;
use bytes::Bytes;
use chunk::block::{BlockId, ChunkInfo};
use rustix::net::{AddressFamily, SocketType};
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};

use crate::bad_input::flood::raise_file_limit;
use crate::client::{Client, TIMEOUT_MS, greeting};
use crate::monitoring::{METRICS, http};
use crate::server::{PATIENCE, Server, command, folder, wait_until};

fn open_count(pid: Pid) -> u64 {
    let open = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_pid()));
    open.expect("it runs").count() as u64
}

/// The soft and the hard limit on a process's open files.
fn limits(pid: u32) -> (u64, u64) {
    let text = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files")).unwrap();
    let mut words = line.split_whitespace().map(|word| word.parse().unwrap_or(u64::MAX));
    (words.next().unwrap(), words.next().unwrap())
}

#[test]
fn a_server_may_open_as_many_files_as_the_system_lets_it() {
    let folder = folder("descriptors-raised");
    let data = folder.join("data");
    fs::write(folder.join("zoo.cfg"), format!("dataDir={}\nclientPort=0\n", data.display()))
        .unwrap();
    let serve = command(&folder);
    // The shell sets a low soft limit for the server.
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -Sn 256 && exec \"$0\" \"$@\""]).arg(serve.get_program());
    shell.args(serve.get_args()).current_dir(&folder).stdout(Stdio::piped());
    let mut server = shell.stderr(Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let (soft, hard) = limits(server.id());
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(line.starts_with("quorate ready"), "{line}");
    assert_eq!(soft, hard);
    assert!(soft > 256, "{soft}");
    fs::remove_dir_all(folder).unwrap();
}

/// Opens `count` connections and sends `first` on each. Returns those that were not closed at once.
fn connect_many(address: SocketAddr, count: u64, first: &[u8]) -> Vec<TcpStream> {
    let mut kept = Vec::new();
    for _ in 0..count {
        let Ok(mut stream) = TcpStream::connect(address) else { continue };
        // A refused connection is closed, perhaps during this write.
        if stream.write_all(first).is_ok() {
            kept.push(stream);
        }
    }
    kept
}

/// Waits until each connection is answered or closed, and returns the answered ones.
fn answered(streams: Vec<TcpStream>) -> Vec<TcpStream> {
    let is_answered = |mut stream: &TcpStream| {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        match stream.read(&mut [0; 4]) {
            Ok(count) => count > 0,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("neither an answer nor an end: {error}"),
        }
    };
    streams.into_iter().filter(is_answered).collect()
}

#[test]
fn clients_leave_descriptors_for_the_log_and_are_served_again_when_some_go() {
    let lines = ["quorate.chunkAddr=127.0.0.1:0", "4lw.commands.whitelist=*"];
    let mut server = Server::start("descriptors-reserve", &lines);
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    let chunks = ChunkClient::connect(server.face("chunk")).unwrap();
    let few = open_count(server.pid()) + 80;
    let limit = Rlimit { current: Some(few), ..getrlimit(Resource::Nofile) };
    prlimit(Some(server.pid()), Resource::Nofile, limit).expect("may be lowered");
    let of_chunks = answered(connect_many(server.face("chunk"), 20, PREFACE));
    assert_eq!(of_chunks.len(), 20);
    let many = answered_to_words(server.address(), 100);
    assert!(many.len() < 100, "all of them are served");
    assert!(!many.is_empty());
    // On a busy machine the server may open the next segments of its log only now.
    let own = 8;
    wait_until("those that were cut off are gone", || {
        open_count(server.pid()) <= few - few / 4 + own
    });
    assert!(server.log().contains("too few descriptors are left"));
    // Clients of the other port cannot use the descriptors that this port left free.
    let others = answered(connect_many(server.face("chunk"), 100, PREFACE));
    assert!(others.len() < 80, "{} more", others.len());
    assert!(open_count(server.pid()) < few);
    // Both logs still get descriptors for new segments.
    let data = vec![7; 900_000];
    client.create("/a", b"", 0).unwrap();
    for _ in 0..100 {
        assert_eq!(client.set("/a", &data), zk::ErrorCode::OK);
    }
    let data = Bytes::from(vec![5; 4 << 20]);
    for local_id in 0..80 {
        let id = BlockId { container_id: 1, local_id };
        let chunk = ChunkInfo::plain(format!("{local_id}_chunk_1"), 0, data.len() as u64);
        chunks.write_chunk(id, &chunk, &data).unwrap();
        chunks.put_block(&block_of(id, vec![chunk])).unwrap();
    }
    drop((many, of_chunks, others));
    wait_until("there is room", || answered_to_words(server.address(), 1).len() == 1);
    server.stop();
}

/// One address holds as many connections to etcd's port as it can get. Further ones are refused,
/// but the other faces still accept connections, and so does etcd's from another address.
#[test]
fn each_face_has_its_share_of_the_descriptors() {
    raise_file_limit(4_000);
    let lines = [
        "quorate.chunkAddr=127.0.0.1:0",
        "quorate.etcdAddr=127.0.0.1:0",
        "4lw.commands.whitelist=*",
        "admin.serverPort=0",
        "admin.serverAddress=127.0.0.1",
    ];
    let mut server = Server::start("descriptors-shares", &[&lines[..], &METRICS].concat());
    let limit = Rlimit { current: Some(1_000), ..getrlimit(Resource::Nofile) };
    prlimit(Some(server.pid()), Resource::Nofile, limit).expect("may be lowered");
    let etcd = server.face("etcd");
    // WebSockets come first; each counts for as long as it is open.
    let sockets = answered(connect_many(etcd, 1_200, WEBSOCKET));
    assert!((300..600).contains(&sockets.len()), "{} WebSockets", sockets.len());
    assert!(Client::open(server.address(), TIMEOUT_MS).exists("/"));
    drop(sockets);
    wait_until("the WebSockets are gone", || open_count(server.pid()) < 300);
    let held = answered(connect_many(etcd, 1_200, PREFACE));
    assert!((300..600).contains(&held.len()), "{} are held", held.len());
    assert!(server.log().contains("too few descriptors are left"));
    assert!(server.log().matches("is closed").count() < 100, "not each of them is logged");

    for _ in 0..20 {
        let mut client = Client::open(server.address(), TIMEOUT_MS);
        assert!(client.exists("/"));
        assert!(ChunkClient::connect(server.face("chunk")).is_ok());
        assert_eq!(http(server.face("admin"), "GET /health/live").0, 200);
        assert_eq!(http(server.face("metrics"), "GET /metrics").0, 200);
    }
    let others = connect_from(Ipv4Addr::new(127, 0, 0, 2), etcd);
    assert_eq!(answered(vec![others]).len(), 1);
    // No admitted connection was closed.
    let are_open = held.iter().all(|mut stream| {
        stream.set_nonblocking(true).unwrap();
        let read = stream.read(&mut [0; 4_096]);
        stream.set_nonblocking(false).unwrap();
        !matches!(read, Ok(0)) && !read.is_err_and(|error| error.kind() != ErrorKind::WouldBlock)
    });
    assert!(are_open);
    drop(held);
    wait_until("there is room", || answered(connect_many(etcd, 1, PREFACE)).len() == 1);
    server.stop();
}

/// HTTP/2's preface, which a server answers with its settings.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A request to watch over WebSocket.
const WEBSOCKET: &[u8] = b"GET /v3/watch HTTP/1.1\r\nHost: e\r\nConnection: Upgrade\r\n\
    Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

/// Connects from the given address of this machine, and begins to speak HTTP/2.
fn connect_from(own: Ipv4Addr, address: SocketAddr) -> TcpStream {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    rustix::net::bind(&socket, &SocketAddr::from((own, 0))).unwrap();
    rustix::net::connect(&socket, &address).unwrap();
    let mut stream = TcpStream::from(socket);
    stream.write_all(PREFACE).unwrap();
    stream
}

/// Opens connections with a connect request. Returns those that were answered, still open.
fn answered_to_words(address: SocketAddr, count: u64) -> Vec<TcpStream> {
    answered(connect_many(address, count, &greeting(TIMEOUT_MS)))
}

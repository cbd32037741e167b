//! Tests with too many connections, clients that read nothing, and clients that never stop sending.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use zk::request::{ReadRequest, WriteRequest, XID_PING, opcode};

use super::*;
use crate::client::{Greeted, create};
use crate::server::Over;

/// The length of a large znode's data.
const LARGE_BYTES: usize = 100 * 1024;

/// Raises the limit on open files for this process and its children, and returns the limit that now
/// applies.
pub fn raise_file_limit(wanted: u64) -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let wide = Rlimit { current: Some(wanted), maximum: limit.maximum.map(|max| max.max(wanted)) };
    let within = Rlimit { current: limit.maximum.map(|max| max.min(wanted)), ..limit };
    if limit.current.is_some_and(|current| current < wanted)
        && setrlimit(Resource::Nofile, wide).is_err()
    {
        setrlimit(Resource::Nofile, within).unwrap();
    }
    getrlimit(Resource::Nofile).current.unwrap_or(wanted)
}

/// One of the connections never completes its connect request, and is closed after ten seconds.
#[test]
fn ten_thousand_connections_are_served_at_once() {
    let count = 10_000.min(raise_file_limit(20_000) - 1_000) as usize;
    println!("{count} connections");
    let server = Server::start("many", &[]);
    let open = || TcpStream::connect(server.address()).unwrap();
    let mut quiet: Vec<TcpStream> = (0..50).map(|_| open()).collect();
    quiet.push(TcpStream::connect(server.address()).unwrap());
    quiet[50].write_all(&[0, 0, 0, 45, 0, 0]).unwrap();
    let greeting = client::greeting(40_000);
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = open();
        client.write_all(&greeting).unwrap();
        clients.push(client);
    }
    for client in &mut clients {
        assert!(ConnectResponse::decode(&read_frame(client)).unwrap().timeout_ms > 0);
    }
    let mut ping = Vec::new();
    Request::Ping.encode(XID_PING, &mut ping);
    for client in &mut clients {
        client.write_all(&ping).unwrap();
    }
    for client in &mut clients {
        assert_eq!(error_of(&read_frame(client)), (XID_PING, ErrorCode::OK));
    }
    let mib = resident_mib(server.pid());
    println!("{mib} MiB resident");
    assert!(mib < 600, "{mib} MiB");
    assert_well(&server);
    for mut socket in quiet {
        assert_eq!(read_to_end(&mut socket), b"");
    }
    drop(clients);
    wait_until("the connections are gone", || connections_of(&server) == 1);
    assert_well(&server);
}

#[test]
fn an_address_may_hold_max_client_cnxns_connections() {
    let server = Server::start("per-address", &["maxClientCnxns=3"]);
    // The connection of the start-up check may still be closing.
    let mut held: Vec<Client> = Vec::new();
    wait_until("three are let in", || {
        match Client::try_greet(server.address(), 0, &[0; 16], 0) {
            Greeted::Attached(client) => held.push(*client),
            other => panic!("{other:?}"),
        }
        held.len() == 3
    });
    for _ in 0..10 {
        assert_eq!(ask_word(server.address(), b"srvr"), b"");
    }
    assert!(held.iter_mut().all(|client| client.exists("/")));
    drop(held.pop());
    wait_until("one more is let in", || !ask_word(server.address(), b"srvr").is_empty());
    assert!(!server.log().contains("panicked"));
}

#[test]
fn an_address_may_connect_again_once_it_was_told_the_end() {
    let server = Server::start("per-address-again", &["maxClientCnxns=1"]);
    let greet = || match Client::try_greet(server.address(), 0, &[0; 16], 0) {
        Greeted::Attached(client) => Some(client),
        _ => None,
    };
    let mut first = None;
    wait_until("the connection of the start-up check is gone", || {
        first = greet();
        first.is_some()
    });
    // These clients do not close their side of the connections.
    let mut ended = vec![first.unwrap()];
    let before = socket_count(server.pid());
    for _ in 0..20 {
        let last = ended.last_mut().unwrap();
        assert!(last.close() && last.receive().is_none());
        ended.push(greet().expect("it is let in"));
    }
    // The limit also applies to connections whose clients have not closed their side: only one of
    // those stays open.
    assert!(socket_count(server.pid()) <= before + 1);
}

fn socket_count(pid: Pid) -> usize {
    let open = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_pid())).unwrap();
    let ends = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    ends.filter(|end| end.to_string_lossy().starts_with("socket:")).count()
}

/// Runs `harm` in several threads while another client works, and returns the server's highest
/// memory during that time. The flag tells `harm` when to stop.
fn most_memory_during(
    server: &Server,
    harms: usize,
    harm: impl Fn(usize, &AtomicBool) + Sync,
) -> u64 {
    let stop = AtomicBool::new(false);
    let mut most = 0;
    std::thread::scope(|scope| {
        let _over = Over(&stop);
        for id in 0..harms {
            let (harm, stop) = (&harm, &stop);
            scope.spawn(move || harm(id, stop));
        }
        let mut client = Client::open(server.address(), TIMEOUT_MS);
        client.create("/bystander", b"", 0).unwrap();
        for round in 0..300 {
            let data = format!("{round}").into_bytes();
            assert_eq!(client.set("/bystander", &data), ErrorCode::OK);
            assert_eq!(client.get("/bystander"), Ok(data));
            most = most.max(resident_mib(server.pid()));
            std::thread::sleep(Duration::from_millis(5));
        }
        client.delete("/bystander");
    });
    most
}

/// Sends the same bytes over and over, as fast as the socket takes them, until `stop` is set.
/// Returns how many bytes were sent.
fn write_until(stream: &mut TcpStream, bytes: &[u8], stop: &AtomicBool) -> usize {
    stream.set_nonblocking(true).unwrap();
    let mut total = 0;
    while !stop.load(Ordering::Relaxed) {
        match stream.write(&bytes[total % bytes.len()..]) {
            Ok(count) => total += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(_) => break,
        }
    }
    total
}

fn requests(count: i32, mut request: impl FnMut(i32) -> Request<'static>) -> Vec<u8> {
    let mut bytes = Vec::new();
    (1..=count).for_each(|xid| request(xid).encode(xid, &mut bytes));
    bytes
}

const GET_LARGE: Request<'static> =
    Request::Read(ReadRequest { kind: ReadKind::GetData, path: "/large", watch: true });

fn make_large(server: &Server, bytes: usize) {
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    client.create("/large", &vec![1; bytes], 0).unwrap();
    client.close();
}

#[test]
fn a_client_that_takes_nothing_is_left_alone() {
    let server = Server::start("takes-nothing", &[]);
    make_large(&server, LARGE_BYTES);
    let before = resident_mib(server.pid());
    let asks = requests(20_000, |_| GET_LARGE);
    let most = most_memory_during(&server, 4, |_, stop| {
        let mut stream = plain_session(server.address());
        write_until(&mut stream, &asks, stop);
    });
    println!("{before} MiB before, at most {most} MiB");
    assert!(most < before + 100, "{before} MiB before, {most} MiB");
    assert_well(&server);
}

/// Twenty clients ask for 64 replies of 1 MiB each, with 2 KB of requests: behind a write, so that
/// Apply makes the replies; between writes; or with multi-reads. While they are made and while they
/// wait to be read, all replies together must fit into the memory for replies, plus the allocator's
/// overhead.
#[test]
fn what_clients_that_take_nothing_hold_is_bounded_together() {
    let set = || Request::Write(WriteRequest::SetData { path: "/", data: Some(b""), version: -1 });
    let read = ReadRequest { kind: ReadKind::GetData, path: "/large", watch: false };
    let behind_one = requests(650, |xid| if xid % 65 == 1 { set() } else { GET_LARGE });
    let between = requests(640, |xid| if xid % 2 == 1 { set() } else { GET_LARGE });
    let at_once = requests(10, |_| Request::MultiRead(vec![read.clone(); 30]));
    for (name, asks) in [("behind", behind_one), ("between", between), ("at-once", at_once)] {
        let server = Server::start(&format!("takes-no-more-{name}"), &[]);
        make_large(&server, FRAME_BYTES_MAX - 200);
        let before = resident_mib(server.pid());
        let most = most_memory_during(&server, 20, |_, stop| {
            let mut stream = plain_session(server.address());
            write_until(&mut stream, &asks, stop);
        });
        println!("{name}: {before} MiB before, at most {most} MiB");
        assert!(most < before + 4 * 64 + 50, "{name}: {before} MiB before, {most} MiB");
        assert_well(&server);
    }
}

/// A list that is too large is refused because of its size, before it is built, and the client can
/// continue.
#[test]
fn a_reply_beyond_reply_bytes_max_is_an_error_and_no_lost_connection() {
    let lines = ["quorate.replyBytesMax=100KiB", "4lw.commands.whitelist=*"];
    let server = Server::start("reply-bytes-max", &lines);
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    client.create("/many", b"", 0).unwrap();
    for number in 0..1_100 {
        client.create(&format!("/many/{number:0>100}"), b"", 0).unwrap();
    }
    let list = ReadRequest { kind: ReadKind::GetChildren2, path: "/many", watch: false };
    let answer = client.call(&Request::Read(list));
    assert_eq!(answer.header.error, ErrorCode::MARSHALLING_ERROR);
    assert!(answer.body.is_empty());
    assert!(client.exists("/many"));
    let log = server.log();
    assert!(log.contains("a reply of 114400 bytes is refused: session 0x"), "{log}");
    assert!(log.contains(", /many"), "{log}");
    let shown = String::from_utf8(ask_word(server.address(), b"mntr")).unwrap();
    assert!(shown.contains("zk_replies_refused\t1\n"), "{shown}");
    assert_well(&server);
}

/// A single request may ask for more than any server can hold.
#[test]
fn a_multi_read_of_three_gibibytes_is_refused() {
    let server = Server::start("multi-read", &[]);
    make_large(&server, FRAME_BYTES_MAX - 200);
    let before = resident_mib(server.pid());
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    let read = ReadRequest { kind: ReadKind::GetData, path: "/large", watch: false };
    let answer = client.call(&Request::MultiRead(vec![read.clone(); 30]));
    assert!(answer.body.len() > 30 * 1_000_000);
    for count in [100, 3_000, 30_000] {
        let answer = client.call(&Request::MultiRead(vec![read.clone(); count]));
        assert_eq!(answer.header.error, ErrorCode::MARSHALLING_ERROR);
        assert!(answer.body.is_empty());
    }
    let most = resident_mib(server.pid());
    assert!(most < before + 100, "{before} MiB before, {most} MiB");
    assert_well(&server);
}

#[test]
fn a_client_that_never_stops_harms_nobody() {
    let server = Server::start("never-stops", &[]);
    let before = resident_mib(server.pid());
    let pings = requests(10_000, |_| Request::Ping);
    let syncs = requests(10_000, |_| Request::Sync { path: Some("/") });
    let sets = requests(200, |_| {
        let data = Some([3_u8; 10_000].as_slice());
        Request::Write(WriteRequest::SetData { path: "/", data, version: -1 })
    });
    let noise: Vec<u8> =
        (0..1_000_000_u32).map(|byte| (byte.wrapping_mul(97) >> 8) as u8).collect();
    let most = most_memory_during(&server, 8, |id, stop| {
        while !stop.load(Ordering::Relaxed) {
            let mut stream = plain_session(server.address());
            match id {
                0 | 1 => write_until(&mut stream, &pings, stop),
                2 | 3 => write_until(&mut stream, &syncs, stop),
                4 | 5 => write_until(&mut stream, &sets, stop),
                _ => write_until(&mut stream, &noise, stop),
            };
        }
    });
    println!("{before} MiB before, at most {most} MiB");
    assert!(most < before + 200, "{before} MiB before, {most} MiB");
    assert_well(&server);
}

#[test]
fn frames_that_are_never_finished_cost_no_more_than_they_hold() {
    const COUNT: usize = 100;
    let server = Server::start("unfinished", &[]);
    let before = resident_mib(server.pid());
    let whole = raw_request(1, opcode::SET_DATA, |out| out.resize(FRAME_BYTES_MAX + 4, 0));
    let mut streams: Vec<TcpStream> = (0..COUNT).map(|_| plain_session(server.address())).collect();
    for stream in &mut streams {
        stream.write_all(&whole[..FRAME_BYTES_MAX]).unwrap();
    }
    assert_well(&server);
    let most = resident_mib(server.pid());
    println!("{before} MiB before, {most} MiB with {COUNT} unfinished frames");
    assert!(most < before + 3 * COUNT as u64, "{before} MiB before, {most} MiB");
    drop(streams);
    wait_until("the connections are gone", || connections_of(&server) == 1);
    assert_well(&server);
}

/// A client that reads nothing may set watches, but the server does not keep their events for ever.
#[test]
fn events_that_are_not_taken_end_the_connection() {
    const WATCHES: usize = 200;
    let server = Server::start("untaken-events", &[]);
    let before = resident_mib(server.pid());
    let paths: Vec<String> =
        (0..WATCHES).map(|number| format!("/{number:04}{}", "w".repeat(500_000))).collect();
    let mut watcher = plain_session(server.address());
    for (xid, path) in paths.iter().enumerate() {
        let mut bytes = Vec::new();
        let read = ReadRequest { kind: ReadKind::Exists, path, watch: true };
        Request::Read(read).encode(xid as i32, &mut bytes);
        watcher.write_all(&bytes).unwrap();
        assert_eq!(error_of(&read_frame(&mut watcher)).1, ErrorCode::NO_NODE);
    }
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    let mut most = 0;
    for path in &paths {
        client.create(path, b"", 0).unwrap();
        most = most.max(resident_mib(server.pid()));
    }
    wait_until("it is disconnected", || server.log().contains("bytes unread"));
    println!("{before} MiB before, at most {most} MiB");
    assert!(most < before + 600, "{before} MiB before, {most} MiB");
    let _ = watcher.shutdown(Shutdown::Both);
    assert_well(&server);
}

/// Watches of absent znodes, which no other limit bounds.
#[test]
fn watches_of_one_client_hold_so_much_memory_and_no_more() {
    let server = Server::start("many-watches", &[]);
    let before = resident_mib(server.pid());
    let mut most = 0;
    // The memory of closed sessions is reused.
    for _ in 0..3 {
        let mut client = Client::open(server.address(), TIMEOUT_MS);
        let mut set = 0;
        for number in 0..400 {
            let path = format!("/{number:04}{}", "w".repeat(1_000_000));
            let read = ReadRequest { kind: ReadKind::Exists, path: &path, watch: true };
            if client.try_call(&Request::Read(read)).is_none() {
                break;
            }
            set += 1;
            most = most.max(resident_mib(server.pid()));
        }
        assert!((60..400).contains(&set), "{set}");
    }
    println!("{before} MiB before, at most {most} MiB");
    assert!(most < before + 300, "{before} MiB before, {most} MiB");
    assert_well(&server);
}

/// A client that reads everything gets it fast: the server sends whenever the socket is writable,
/// and does not wait for a tick.
#[test]
fn half_a_gibibyte_of_replies_arrives_whole() {
    const COUNT: i32 = 5_000;
    let server = Server::start("fast", &[]);
    make_large(&server, LARGE_BYTES);
    let mut stream = plain_session(server.address());
    let mut sending = stream.try_clone().unwrap();
    let asks = requests(COUNT, |_| GET_LARGE);
    std::thread::scope(|scope| {
        scope.spawn(move || sending.write_all(&asks).unwrap());
        let began = Instant::now();
        for xid in 1..=COUNT {
            assert_eq!(error_of(&read_frame(&mut stream)), (xid, ErrorCode::OK));
        }
        println!("{COUNT} replies of {LARGE_BYTES} bytes in {:?}", began.elapsed());
    });
    assert_well(&server);
}

/// One connection sends 100 writes of the largest size. Each is answered, and the server needs
/// memory for only a few of them at a time.
#[test]
fn a_write_of_the_largest_size_waits_for_no_other() {
    let server = Server::start("largest-writes", &[]);
    let data = vec![4; FRAME_BYTES_MAX - 200];
    let before = resident_mib(server.pid());
    let mut client = Client::open(server.address(), TIMEOUT_MS);
    client.create("/largest", b"", 0).unwrap();
    let mut bytes = Vec::new();
    for _ in 0..100 {
        let write = WriteRequest::SetData { path: "/largest", data: Some(&data), version: -1 };
        client.encode(&Request::Write(write), &mut bytes);
    }
    client.encode(&Request::Write(create("/last", b"", 0)), &mut bytes);
    client.connection.send(&bytes);
    for _ in 0..=100 {
        assert_eq!(client.receive().unwrap().header.error, ErrorCode::OK);
    }
    let most = resident_mib(server.pid());
    assert!(most < before + 200, "{before} MiB before, {most} MiB");
    assert_well(&server);
}

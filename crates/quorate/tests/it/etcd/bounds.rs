//! Tests of the bounds of the etcd face: what many clients cost, and how clients that misbehave
//! affect others.
//!
//! `QUORATE_ETCD_LARGE=1` runs the large sizes, whose figures `docs/etcd.md` shows. They need some
//! 10,100 descriptors for this process, and as many for the server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;

use bytes::Bytes;
use etcd::pb::Message;
use etcd::pb::etcdserverpb as pb;
use etcd::pb::health::HealthCheckRequest;
use h2::client::SendRequest;
use tokio::time::{Duration, Instant, sleep};

use super::grpc_client::{connect, connect_with_window, framed, head, kv, open, run, soon};
use super::streams::{everything, fill};
use super::{ETCD, put, resident_bytes};
use crate::server::{Server, wait_until};

/// How long a small call may take while other clients misbehave. This is generous for slow
/// machines, and far less than the 5 s that a call waits for memory that others hold.
const PROMPT: Duration = Duration::from_millis(1_500);

fn is_large() -> bool {
    std::env::var_os("QUORATE_ETCD_LARGE").is_some()
}

/// The small size for ordinary test runs, or the large size for measuring.
fn sized(small: usize, large: usize) -> usize {
    if is_large() { large } else { small }
}

/// Makes some puts and reads as a well-behaved client. Returns the longest time that one took.
pub async fn longest_call(requests: &SendRequest<Bytes>) -> Duration {
    let mut longest = Duration::ZERO;
    let put = pb::PutRequest { key: "a".into(), value: "1".into(), ..Default::default() };
    let range = pb::RangeRequest { key: "a".into(), ..Default::default() };
    for _ in 0..50 {
        let begun_at = Instant::now();
        assert_eq!(kv(requests, "Put", &put).await.status().0, "0");
        assert_eq!(kv(requests, "Range", &range).await.status().0, "0");
        longest = longest.max(begun_at.elapsed());
        sleep(Duration::from_millis(2)).await;
    }
    longest
}

fn report(what: &str, count: usize, before: usize, after: usize) {
    let bytes = after.saturating_sub(before);
    println!("{count} {what}: {} KiB, {} bytes each", bytes / 1_024, bytes / count.max(1));
}

#[test]
fn idle_connections_cost_little_memory() {
    let server = Server::start("etcd-idle", &[ETCD]);
    let count = sized(300, 9_500);
    run(async {
        let address = server.face("etcd");
        let client = connect(address).await;
        longest_call(&client).await;
        let before = resident_bytes(&server);
        let mut idle = Vec::new();
        for _ in 0..count {
            let connection = connect(address).await;
            let range = pb::RangeRequest { key: "a".into(), ..Default::default() };
            assert_eq!(kv(&connection, "Range", &range).await.status().0, "0");
            idle.push(connection);
        }
        let after = resident_bytes(&server);
        report("idle connections", count, before, after);
        assert!(after.saturating_sub(before) < count * 40_000 + 8_000_000);
        assert!(longest_call(&client).await < PROMPT);
    });
}

#[test]
fn streams_cost_little_memory_and_are_gone_with_their_clients() {
    let server = Server::start("etcd-many-streams", &[ETCD]);
    let (connection_count, stream_count) = (sized(20, 100), sized(2_000, 100_000));
    run(async {
        let address = server.face("etcd");
        let client = connect(address).await;
        longest_call(&client).await;
        let before = resident_bytes(&server);
        let mut connections = Vec::new();
        let mut watches = Vec::new();
        let message = framed(&HealthCheckRequest::default().encode_to_vec());
        for _ in 0..connection_count {
            let connection = connect(address).await;
            for _ in 0..stream_count / connection_count {
                let watch = head("/grpc.health.v1.Health/Watch");
                watches.push(soon(open(&connection, watch, message.clone())).await.unwrap());
            }
            connections.push(connection);
        }
        let after = resident_bytes(&server);
        report("open streams", watches.len(), before, after);
        assert!(after.saturating_sub(before) < stream_count * 15_000 + 16_000_000);
        assert!(longest_call(&client).await < PROMPT);
        drop(watches);
        assert!(longest_call(&client).await < PROMPT);
    });
}

/// With HPACK, a client needs only a few bytes to send a header again.
#[test]
fn large_headers_that_are_sent_again_are_kept_once() {
    let server = Server::start("etcd-large-headers", &[ETCD]);
    let stream_count = sized(2_000, 9_000);
    run(async {
        let address = server.face("etcd");
        let connection = connect(address).await;
        longest_call(&connection).await;
        let before = resident_bytes(&server);
        let token = "t".repeat(3_900);
        let mut watch = head("/grpc.health.v1.Health/Watch");
        for _ in 0..32 {
            watch.headers_mut().append("token", token.parse().unwrap());
        }
        let message = framed(&HealthCheckRequest::default().encode_to_vec());
        let mut watches = Vec::new();
        for _ in 0..stream_count {
            let opened = open(&connection, watch.clone(), message.clone());
            watches.push(soon(opened).await.unwrap());
        }
        let after = resident_bytes(&server);
        report("streams with 32 large headers", watches.len(), before, after);
        assert!(after.saturating_sub(before) < stream_count * 15_000 + 16_000_000);
        assert!(longest_call(&connection).await < PROMPT);
    });
}

#[test]
fn readers_that_never_read_take_the_room_and_no_more() {
    let server = Server::start("etcd-unread", &[ETCD]);
    let (reader_count, key_count) = (sized(40, 200), sized(300, 1_000));
    run(async {
        let address = server.face("etcd");
        let client = connect(address).await;
        fill(&client, key_count, 100_000).await;
        let before = resident_bytes(&server);
        let message = framed(&everything().encode_to_vec());
        let mut readers = Vec::new();
        for _ in 0..reader_count {
            let connection = connect_with_window(address, 1_000).await;
            let (connection, message) = (connection.clone(), message.clone());
            readers.push(tokio::task::spawn_local(async move {
                let range = head("/etcdserverpb.KV/Range");
                // The client does not read the answer, and the server may reset the stream.
                let answer = open(&connection, range, message).await;
                sleep(Duration::from_secs(60)).await;
                drop((connection, answer));
            }));
        }
        let mut longest = Duration::ZERO;
        let mut peak = 0;
        for _ in 0..sized(4, 20) {
            longest = longest.max(longest_call(&client).await);
            peak = peak.max(resident_bytes(&server));
            sleep(Duration::from_millis(400)).await;
        }
        report("readers that never read", reader_count, before, peak);
        println!("the longest call of another client took {longest:?}");
        // The bound is 512 MiB for all responses, plus one response that is larger than a share.
        let largest = key_count * 100_100;
        assert!(peak.saturating_sub(before) < (512 << 20) + largest + (64 << 20), "{peak}");
        assert!(longest < PROMPT, "{longest:?}");
        readers.iter().for_each(|reader| reader.abort());
    });
}

/// Clients that put keys for `time`. Returns how many puts were acknowledged, and the longest time
/// that one took.
async fn put_for(clients: &[SendRequest<Bytes>], each: usize, time: Duration) -> (usize, Duration) {
    let until = Instant::now() + time;
    let mut tasks = Vec::new();
    for client in clients {
        for number in 0..each {
            let client = client.clone();
            tasks.push(tokio::task::spawn_local(async move {
                let (mut count, mut longest) = (0, Duration::ZERO);
                let key = Bytes::from(format!("client{number}"));
                while Instant::now() < until {
                    let value = Bytes::from_static(b"value");
                    let put = pb::PutRequest { key: key.clone(), value, ..Default::default() };
                    let begun_at = Instant::now();
                    assert_eq!(kv(&client, "Put", &put).await.status().0, "0");
                    longest = longest.max(begun_at.elapsed());
                    count += 1;
                }
                (count, longest)
            }));
        }
    }
    let (mut count, mut longest) = (0, Duration::ZERO);
    for task in tasks {
        let (of_task, longest_of_task) = task.await.unwrap();
        count += of_task;
        longest = longest.max(longest_of_task);
    }
    (count, longest)
}

/// Makes puts and cancels each as soon as it is sent. Returns how long this took.
async fn cancel(address: SocketAddr, count: usize) -> Duration {
    let connection = connect(address).await;
    let put = pb::PutRequest { key: "gone".into(), value: "1".into(), ..Default::default() };
    let message = framed(&put.encode_to_vec());
    let begun_at = Instant::now();
    for number in 0..count {
        let mut ready = connection.clone().ready().await.unwrap();
        let (response, mut stream) =
            ready.send_request(head("/etcdserverpb.KV/Put"), false).unwrap();
        stream.send_data(message.clone(), true).unwrap();
        if number % 50 == 0 {
            // Gives the connection's task time to send them.
            tokio::task::yield_now().await;
            sleep(Duration::from_micros(200)).await;
        }
        stream.send_reset(h2::Reason::CANCEL);
        drop(response);
    }
    begun_at.elapsed()
}

#[test]
fn a_flood_of_cancelled_calls_does_not_stop_others() {
    let server = Server::start("etcd-cancels", &[ETCD]);
    let (client_count, cancel_count) = (sized(100, 1_000), sized(5_000, 100_000));
    run(async {
        let address = server.face("etcd");
        let mut clients = Vec::new();
        for _ in 0..10 {
            clients.push(connect(address).await);
        }
        let clients = Rc::new(clients);
        let time = Duration::from_secs(sized(1, 10) as u64);
        let alone = put_for(&clients, client_count / 10, time).await;
        let flood = async {
            let mut took = Duration::ZERO;
            for _ in 0..10 {
                took += cancel(address, cancel_count / 10).await;
            }
            took
        };
        let (took, beside) = tokio::join!(flood, put_for(&clients, client_count / 10, time));
        println!("{client_count} clients alone: {} puts, longest {:?}", alone.0, alone.1);
        println!("beside {cancel_count} cancels in {took:?}: {} puts, {:?}", beside.0, beside.1);
        assert!(beside.0 > 0);
        assert!(beside.1 < 4 * PROMPT, "{beside:?}");
        assert!(longest_call(&clients[0]).await < PROMPT);
    });
}

/// Opens connections that send `head` and `part` and then nothing.
fn stalled(address: SocketAddr, count: usize, head: &[u8], part: &[u8]) -> Vec<TcpStream> {
    (0..count)
        .map(|_| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
            stream.write_all(head).unwrap();
            // The server may not read all of it.
            let _ = stream.write_all(part);
            stream
        })
        .collect()
}

const LONG_HEAD: &[u8] =
    b"POST /v3/kv/put HTTP/1.1\r\nHost: e\r\nContent-Length: 4194000\r\n\r\n{\"key\":\"";

#[test]
fn announced_bodies_take_no_memory() {
    let server = Server::start("etcd-announced", &[ETCD]);
    let count = sized(200, 2_000);
    let address = server.face("etcd");
    assert!(put(address, "a", "1"));
    let before = resident_bytes(&server);
    let bodies = stalled(address, count, LONG_HEAD, b"AAAA");
    run(async {
        // As many gRPC messages, each announced with the largest length.
        let connection = connect(address).await;
        let mut calls = Vec::new();
        for _ in 0..count {
            let mut ready = soon(connection.clone().ready()).await.unwrap();
            let (response, mut stream) =
                ready.send_request(head("/etcdserverpb.KV/Put"), false).unwrap();
            let part = Bytes::from_static(&[0, 0, 0x20, 0, 0, 1, 2, 3]);
            stream.send_data(part, false).unwrap();
            calls.push((response, stream));
        }
        sleep(Duration::from_millis(500)).await;
        let after = resident_bytes(&server);
        report("announced bodies and messages", 2 * count, before, after);
        assert!(after.saturating_sub(before) < 2 * count * 40_000 + 8_000_000);
        assert!(longest_call(&connection).await < PROMPT);
    });
    drop(bodies);
}

#[test]
fn bodies_that_stall_take_the_room_for_requests_and_no_more() {
    let server = Server::start("etcd-bodies", &[ETCD]);
    let (count, part) = (sized(40, 400), vec![b'A'; 3_900_000]);
    let address = server.face("etcd");
    assert!(put(address, "a", "1"));
    let before = resident_bytes(&server);
    let bodies = stalled(address, count, LONG_HEAD, &part);
    std::thread::sleep(Duration::from_secs(1));
    let after = resident_bytes(&server);
    report("stalled bodies of 3.9 MB", count, before, after);
    assert!(after.saturating_sub(before) < (256 << 20) + (64 << 20));
    // Small bodies have memory of their own, so this one does not wait.
    let begun_at = Instant::now();
    assert!(put(address, "a", "1"));
    assert!(begun_at.elapsed() < PROMPT);
    // A large body may have to wait until the stalled ones are disconnected.
    let large = "x".repeat(1_000_000);
    drop(bodies);
    wait_until("the room is free again", || {
        let begun_at = Instant::now();
        put(address, "b", &large) && begun_at.elapsed() < PROMPT
    });
}

#[test]
fn json_that_is_not_read_takes_the_room_for_responses_and_no_more() {
    let server = Server::start("etcd-json-unread", &[ETCD]);
    let (count, key_count) = (sized(30, 200), sized(200, 1_000));
    let address = server.face("etcd");
    run(async { fill(&connect(address).await, key_count, 100_000).await });
    let before = resident_bytes(&server);
    let body = "{\"key\":\"AA==\",\"range_end\":\"AA==\"}";
    let head = format!(
        "POST /v3/kv/range HTTP/1.1\r\nHost: e\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let mut readers = stalled(address, count, head.as_bytes(), b"");
    std::thread::sleep(Duration::from_secs(2));
    let peak = resident_bytes(&server);
    report("readers of JSON that never read", count, before, peak);
    let largest = key_count * 133_336;
    assert!(peak.saturating_sub(before) < (512 << 20) + 3 * largest + (64 << 20), "{peak}");
    // A client that does read gets everything.
    let mut reader = readers.swap_remove(0);
    drop(readers);
    reader.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut text = vec![0; 1 << 20];
    let mut read = 0;
    while read < largest {
        let count = reader.read(&mut text).unwrap();
        assert!(count > 0, "it ended after {read} bytes");
        read += count;
    }
}

/// Which timer the kernel runs for the server's end of a connection, as `/proc/net/tcp` shows it; 2
/// means keep-alive.
fn kernel_timer(client: &TcpStream) -> Option<String> {
    let hex = |address: SocketAddr| format!("0100007F:{:04X}", address.port());
    let (ours, theirs) = (hex(client.local_addr().unwrap()), hex(client.peer_addr().unwrap()));
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().find_map(|line| {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let is_it = columns.get(1..3) == Some(&[&theirs[..], &ours[..]][..]);
        is_it.then(|| columns[5].split(':').next().unwrap_or_default().to_string())
    })
}

#[test]
fn the_kernel_looks_after_silent_clients() {
    let server = Server::start("etcd-silent", &[ETCD]);
    let client = TcpStream::connect(server.face("etcd")).unwrap();
    wait_until("the timer runs", || kernel_timer(&client).as_deref() == Some("02"));
}

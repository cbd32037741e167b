//! Tests of etcd watches in the real process.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

use bytes::Bytes;
use etcd::pb::etcdserverpb as pb;
use etcd::pb::etcdserverpb::watch_request::RequestUnion;
use h2::client::SendRequest;

use super::grpc_client::{Bidi, PATIENCE, connect, connect_with_window, head, kv, run};
use super::{ETCD, base64, call, put, request};
use crate::server::Server;

pub const WATCH: &str = "/etcdserverpb.Watch/Watch";

fn create(key: &str, start_revision: i64) -> pb::WatchRequest {
    let key = Bytes::from(key.to_string());
    // The end of the range of keys with this prefix. The prefix's last byte is never the highest
    // one.
    let mut end = key.to_vec();
    *end.last_mut().unwrap() += 1;
    let request =
        pb::WatchCreateRequest { key, range_end: end.into(), start_revision, ..Default::default() };
    pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(request)) }
}

pub fn progress() -> pb::WatchRequest {
    let request = RequestUnion::ProgressRequest(pb::WatchProgressRequest {});
    pb::WatchRequest { request_union: Some(request) }
}

fn cancel(watch_id: i64) -> pb::WatchRequest {
    let request = RequestUnion::CancelRequest(pb::WatchCancelRequest { watch_id });
    pb::WatchRequest { request_union: Some(request) }
}

pub async fn put_value(requests: &SendRequest<Bytes>, key: &str, value: Bytes) {
    let put = pb::PutRequest { key: key.to_string().into(), value, ..Default::default() };
    assert_eq!(kv(requests, "Put", &put).await.status().0, "0");
}

/// Opens a stream with a watch of all keys with this prefix.
pub async fn watch(requests: &SendRequest<Bytes>, prefix: &str, start_revision: i64) -> Bidi {
    let mut stream = Bidi::open(requests, head(WATCH), &create(prefix, start_revision)).await;
    let created: pb::WatchResponse = stream.next().await;
    assert!(created.created && !created.canceled, "{created:?}");
    stream
}

/// The revisions of the next events, at least `count` of them.
async fn revisions(stream: &mut Bidi, count: usize) -> Vec<i64> {
    let mut revisions = Vec::new();
    while revisions.len() < count {
        let response: pb::WatchResponse = stream.next().await;
        assert!(!response.canceled, "{response:?}");
        let of = |event: &etcd::pb::mvccpb::Event| event.kv.as_ref().unwrap().mod_revision;
        revisions.extend(response.events.iter().map(of));
    }
    revisions
}

#[test]
fn a_stream_has_many_watches_beside_calls_on_one_connection() {
    let server = Server::start("etcd-watch", &[ETCD]);
    run(async {
        let requests = connect(server.face("etcd")).await;
        let mut stream = watch(&requests, "a", 0).await;
        stream.send(&create("a", 1));
        assert_eq!(stream.next::<pb::WatchResponse>().await.watch_id, 1);
        put_value(&requests, "a1", "v".into()).await;
        put_value(&requests, "b1", "v".into()).await;
        for _ in 0..2 {
            let response: pb::WatchResponse = stream.next().await;
            let event = response.events[0].kv.clone().unwrap();
            assert_eq!((event.key, event.mod_revision), ("a1".into(), 2));
        }
        stream.send(&progress());
        let promised: pb::WatchResponse = stream.next().await;
        assert_eq!((promised.watch_id, promised.header.unwrap().revision), (-1, 3));
        stream.send(&cancel(0));
        assert!(stream.next::<pb::WatchResponse>().await.canceled);
        let delete = pb::DeleteRangeRequest { key: "a1".into(), ..Default::default() };
        assert_eq!(kv(&requests, "DeleteRange", &delete).await.status().0, "0");
        let response: pb::WatchResponse = stream.next().await;
        assert_eq!((response.watch_id, response.events[0].r#type), (1, 1));
    });
}

/// Clients that send all requests at once close their side right away (grpcio with a list,
/// grpcurl). They must still get events for as long as they are connected.
#[test]
fn a_client_that_sends_no_more_gets_events_until_it_goes() {
    let server = Server::start("etcd-watch-half", &[ETCD]);
    run(async {
        let requests = connect(server.face("etcd")).await;
        let mut watching = Bidi::open_with_one(&requests, head(WATCH), &create("a", 1)).await;
        assert!(watching.next::<pb::WatchResponse>().await.created);
        for revision in 2..5 {
            put_value(&requests, "a1", "v".into()).await;
            assert_eq!(revisions(&mut watching, 1).await, [revision]);
        }
        let mut limited = head(WATCH);
        limited.headers_mut().insert("grpc-timeout", "200m".parse().unwrap());
        let limited = Bidi::open_with_one(&requests, limited, &create("a", 1)).await;
        assert_eq!(limited.ended().await.0, "4", "its deadline ends it");
        let streams = || request(server.face("etcd"), "GET /metrics", "").unwrap().1;
        let has = |count: usize| {
            streams()
                .lines()
                .any(|line| line == format!("etcd_debugging_mvcc_watch_stream_total {count}"))
        };
        assert!(has(1), "{}", streams());
        watching.cancel();
        let until = std::time::Instant::now() + PATIENCE;
        while !has(0) {
            assert!(std::time::Instant::now() < until, "a reset ends it");
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    });
}

#[test]
fn clients_that_read_nothing_cost_a_cursor_and_miss_nothing() {
    let server = Server::start("etcd-watch-slow", &[ETCD]);
    run(async {
        let requests = connect(server.face("etcd")).await;
        put_value(&requests, "k", "v".into()).await;
        let mut slow = Vec::new();
        for _ in 0..64 {
            let requests = connect_with_window(server.face("etcd"), 1_000).await;
            slow.push((watch(&requests, "k", 0).await, requests));
        }
        let mut fast = watch(&requests, "k", 0).await;
        let before = super::resident_bytes(&server);
        let value = Bytes::from(vec![7; 50_000]);
        for number in 0..400 {
            put_value(&requests, &format!("k{}", number % 10), value.clone()).await;
        }
        let all: Vec<i64> = (3..=402).collect();
        assert_eq!(revisions(&mut fast, 400).await, all);
        // The history has 20 MB, and the 64 clients would need 20 MB each if the server kept the
        // events for each of them.
        let grown = super::resident_bytes(&server).saturating_sub(before);
        assert!(grown < 120_000_000, "{grown} bytes");
        let (mut reader, _connection) = slow.pop().unwrap();
        assert_eq!(revisions(&mut reader, 400).await, all);
        // The compaction removes what the other clients have not read yet.
        let compact = pb::CompactionRequest { revision: 400, physical: true };
        assert_eq!(kv(&requests, "Compact", &compact).await.status().0, "0");
        let (mut reader, _connection) = slow.pop().unwrap();
        let mut last = 0;
        let end = loop {
            let response: pb::WatchResponse = reader.next().await;
            for event in &response.events {
                last += 1;
                assert_eq!(event.kv.as_ref().unwrap().mod_revision, 2 + last);
            }
            if response.canceled {
                break response;
            }
        };
        assert_eq!((end.compact_revision, end.header.unwrap().revision), (400, 0));
        assert!(last < 400, "the history was compacted");
    });
}

#[test]
fn a_watch_goes_on_behind_a_kill_from_the_revision_that_it_had() {
    let mut server = Server::start("etcd-watch-kill", &[ETCD]);
    run(async {
        let requests = connect(server.face("etcd")).await;
        let mut stream = watch(&requests, "k", 0).await;
        for number in 0..20 {
            put_value(&requests, &format!("k{number}"), "v".into()).await;
        }
        let seen = revisions(&mut stream, 5).await;
        server.kill_nine();
        server.restart();
        let requests = connect(server.face("etcd")).await;
        let mut stream = watch(&requests, "k", seen.last().unwrap() + 1).await;
        let rest = revisions(&mut stream, 20 - seen.len()).await;
        assert_eq!([seen, rest].concat(), (2..=21).collect::<Vec<i64>>());
    });
}

/// Opens a watch stream through the gateway, with this body.
fn gateway_watch(address: SocketAddr, body: &str) -> BufReader<TcpStream> {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    let head = format!("POST /v3/watch HTTP/1.1\r\nHost: e\r\nContent-Length: {length}\r\n\r\n");
    socket.write_all(format!("{head}{body}").as_bytes()).unwrap();
    BufReader::new(socket)
}

/// The next line that is JSON.
fn line(reader: &mut BufReader<TcpStream>) -> String {
    loop {
        let mut line = String::new();
        assert!(reader.read_line(&mut line).unwrap() > 0, "the stream goes on");
        if line.starts_with('{') {
            return line;
        }
    }
}

#[test]
fn the_gateway_streams_a_line_for_each_response_at_once() {
    let server = Server::start("etcd-watch-gateway", &[ETCD]);
    let etcd = server.face("etcd");
    let [key, end] = ["k", "l"].map(base64);
    let one = format!("{{\"create_request\":{{\"key\":\"{key}\",\"range_end\":\"{end}\"}}}}");
    let other = "{\"createRequest\":{\"key\":\"eA==\",\"watchId\":\"7\"}} what is no JSON";
    let mut reader = gateway_watch(etcd, &format!("{one}\n{other}"));
    assert!(line(&mut reader).contains("\"created\":true"));
    assert!(line(&mut reader).contains("\"watch_id\":\"7\",\"created\":true"));
    assert!(put(etcd, "k", "v"));
    let event = line(&mut reader);
    let expected = "\"events\":[{\"kv\":{\"key\":\"aw==\",\"create_revision\":\"2\",\
                    \"mod_revision\":\"2\",\"version\":\"1\",\"value\":\"dg==\"}}]}}";
    assert!(event.starts_with("{\"result\":{\"header\":{") && event.contains(expected), "{event}");
    // Clients that disconnect in the middle of a request, or send nothing, affect nobody.
    for body in ["", "{", &one] {
        drop(gateway_watch(etcd, body));
    }
    assert_eq!(call(etcd, "deleterange", &format!("{{\"key\":\"{key}\"}}")).0, 200);
    assert!(line(&mut reader).contains("\"type\":\"DELETE\""));
    assert_eq!(request(etcd, "GET /health", "").unwrap().0, 200);
}

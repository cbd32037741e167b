//! Tests of calls of clients that require a leader (`clientv3.WithRequireLeader`), on a member that
//! loses its leader.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use etcd::pb::etcdserverpb as pb;
use etcd::pb::etcdserverpb::watch_request::RequestUnion;
use etcd::pb::{Message, v3electionpb as election};
use h2::client::SendRequest;
use hyper::Request;
use hyper::header::HeaderValue;

use super::grpc_client::{Answer, Bidi, PATIENCE, call, connect, framed, head, run, soon};
use super::{Three, base64, request};
use crate::server::Server;

const WATCH: &str = "/etcdserverpb.Watch/Watch";
const KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
const OBSERVE: &str = "/v3electionpb.Election/Observe";
const LEASE: i64 = 7;

/// The headers of a call, with or without the requirement of a leader.
fn head_with(path: &str, requires_leader: bool) -> Request<()> {
    let mut head = head(path);
    if requires_leader {
        head.headers_mut().insert("hasleader", HeaderValue::from_static("true"));
    }
    head
}

fn watch() -> pb::WatchRequest {
    let create = pb::WatchCreateRequest { key: "a".into(), ..Default::default() };
    pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) }
}

async fn ask(requests: &SendRequest<Bytes>, head: Request<()>, request: &impl Message) -> Answer {
    soon(call(requests, head, framed(&request.encode_to_vec()))).await.unwrap()
}

/// Opens a stream of each kind, and waits for the first message of each.
async fn streams(requests: &SendRequest<Bytes>, requires_leader: bool) -> [Bidi; 3] {
    let head = |path| head_with(path, requires_leader);
    let mut watch = Bidi::open(requests, head(WATCH), &watch()).await;
    assert!(watch.next::<pb::WatchResponse>().await.created);
    let keep = pb::LeaseKeepAliveRequest { id: LEASE };
    let mut keep = Bidi::open(requests, head(KEEP_ALIVE), &keep).await;
    assert!(keep.next::<pb::LeaseKeepAliveResponse>().await.ttl > 0);
    let observe = election::LeaderRequest { name: "e".into() };
    let mut observe = Bidi::open_with_one(requests, head(OBSERVE), &observe).await;
    assert!(observe.next::<election::LeaderResponse>().await.kv.is_some());
    [watch, keep, observe]
}

#[test]
fn calls_that_require_a_leader_end_without_one_and_others_go_on() {
    let mut three = Three::start("etcd-leaderless");
    let leader = three.leader();
    let [left, other] = [1, 2].map(|more| (leader + more) % 3);
    run(async {
        let requests = connect(three.clients[left]).await;
        let grant = pb::LeaseGrantRequest { id: LEASE, ttl: 600 };
        let granted = ask(&requests, head("/etcdserverpb.Lease/LeaseGrant"), &grant).await;
        assert_eq!(granted.status().0, "0");
        let campaign =
            election::CampaignRequest { name: "e".into(), lease: LEASE, value: "v".into() };
        let elected = ask(&requests, head("/v3electionpb.Election/Campaign"), &campaign).await;
        assert_eq!(elected.status().0, "0");
        let requiring = streams(&requests, true).await;
        let [mut watch_on, keep_on, observe_on] = streams(&requests, false).await;
        three.end(leader);
        three.end(other);
        let no_leader = ("14".to_string(), "etcdserver: no leader".to_string());
        for stream in requiring {
            assert_eq!(stream.ended().await, no_leader);
        }
        // From now on such calls are refused at once, even a read that needs no leader.
        let range = pb::RangeRequest { key: "a".into(), serializable: true, ..Default::default() };
        let range_head = |is_requiring| head_with("/etcdserverpb.KV/Range", is_requiring);
        assert_eq!(ask(&requests, range_head(true), &range).await.status(), no_leader);
        assert_eq!(ask(&requests, range_head(false), &range).await.status().0, "0");
        for path in [WATCH, KEEP_ALIVE, OBSERVE] {
            let answer = ask(&requests, head_with(path, true), &watch()).await;
            assert_eq!(answer.status(), no_leader, "{path}");
        }
        for mut stream in [keep_on, observe_on] {
            assert!(stream.is_silent_for(Duration::from_millis(100)).await);
        }
        watch_on.send(&watch());
        assert!(watch_on.next::<pb::WatchResponse>().await.created);
    });
}

/// Clients of the gateway require a leader with this header. Its name is not case-sensitive.
const REQUIRING: &str = "Grpc-Metadata-HasLeader: true\r\n";

/// Sends a call to the gateway, with a body that lacks its last byte.
fn begin(address: SocketAddr, path: &str, header: &str, body: &str) -> BufReader<TcpStream> {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len() + 1;
    let head = format!(
        "POST /v3/{path} HTTP/1.1\r\nHost: e\r\n{header}Content-Length: {length}\r\n\r\n{body}"
    );
    socket.write_all(head.as_bytes()).unwrap();
    BufReader::new(socket)
}

/// The next line of JSON in a stream.
fn line(reader: &mut BufReader<TcpStream>) -> String {
    let mut line = String::new();
    while !line.starts_with('{') {
        line.clear();
        assert!(reader.read_line(&mut line).unwrap() > 0, "the stream goes on");
    }
    line
}

/// Makes a call with a complete body, and returns the status and body of the answer.
fn answer(address: SocketAddr, path: &str, header: &str, body: &str) -> (u16, String) {
    let mut reader = begin(address, path, &format!("Connection: close\r\n{header}"), body);
    reader.get_mut().write_all(b" ").unwrap();
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_string())
}

/// The expected answers are those of etcd 3.6.16.
#[test]
fn calls_of_the_gateway_that_require_a_leader_end_without_one_and_others_go_on() {
    let mut three = Three::start("etcd-leaderless-gateway");
    let leader = three.leader();
    let [left, other] = [1, 2].map(|more| (leader + more) % 3);
    let etcd = three.clients[left];
    let (key, name) = (base64("a"), base64("e"));
    let granted = request(etcd, "POST /v3/lease/grant", "{\"ID\":7,\"TTL\":600}");
    assert_eq!(granted.unwrap().0, 200);
    let campaign = format!("{{\"name\":\"{name}\",\"lease\":7,\"value\":\"\"}}");
    assert_eq!(request(etcd, "POST /v3/election/campaign", &campaign).unwrap().0, 200);
    let watch = format!("{{\"create_request\":{{\"key\":\"{key}\"}}}}");
    let observe = format!("{{\"name\":\"{name}\"}}");
    let calls = [
        ("watch", watch.as_str()),
        ("lease/keepalive", "{\"ID\":7}"),
        ("election/observe", observe.as_str()),
    ];
    let open = |header: &str| {
        calls.map(|(path, body)| {
            let mut stream = begin(etcd, path, header, body);
            // The call of an observer has a single request, which is answered once its body is
            // complete.
            stream.get_mut().write_all(if path.ends_with("observe") { b" " } else { b"" }).unwrap();
            assert!(line(&mut stream).starts_with("{\"result\":{"), "{path}");
            stream
        })
    };
    let requiring = open(REQUIRING);
    let others = open("");
    three.end(leader);
    three.end(other);
    let ended = "{\"error\":{\"code\":14,\"message\":\"etcdserver: no leader\",";
    for mut stream in requiring {
        assert!(line(&mut stream).starts_with(ended));
    }
    let range = format!("{{\"key\":\"{key}\",\"serializable\":true}}");
    let (status, body) = answer(etcd, "kv/range", REQUIRING, &range);
    assert!(body.contains("\"code\":14,\"message\":\"etcdserver: no leader\""), "{body}");
    assert_eq!(status, 503);
    for unlike in ["", "hasleader: true\r\n", "Grpc-Metadata-HasLeader: TRUE\r\n"] {
        assert_eq!(answer(etcd, "kv/range", unlike, &range).0, 200, "{unlike}");
    }
    for (path, body) in calls {
        let (status, body) = answer(etcd, path, REQUIRING, body);
        assert!(status == 503 && body.starts_with(ended), "{path}: {status} {body}");
    }
    // A body that is not JSON is refused before the leader matters.
    assert_eq!(answer(etcd, "kv/range", REQUIRING, "{bad").0, 400);
    for mut stream in others {
        let socket = stream.get_mut();
        socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        let silent = stream.fill_buf().map(<[u8]>::len);
        assert!(silent.is_err() || silent.is_ok_and(|bytes| bytes > 0), "the stream goes on");
    }
}

/// The expected answers are those of etcd 3.6.16.
#[test]
fn calls_of_the_gateway_end_at_the_time_that_their_client_sets() {
    let server = Server::start("etcd-gateway-timeout", &[super::ETCD]);
    let etcd = server.face("etcd");
    let late = "context deadline exceeded";
    let lock = r#"{"name":"YQ=="}"#;
    assert_eq!(answer(etcd, "lock/lock", "", lock).0, 200);
    let (status, body) = answer(etcd, "lock/lock", "Grpc-Timeout: 50m\r\n", lock);
    assert!(status == 504 && body.contains(late), "{body}");
    for (timeout, expected) in [("5S", 200), ("0S", 200), ("", 200), ("x", 400), ("12", 400)] {
        let header = format!("Grpc-Timeout: {timeout}\r\n");
        let (status, body) = answer(etcd, "kv/put", &header, r#"{"key":"YQ=="}"#);
        assert_eq!(status, expected, "{timeout}: {body}");
        assert_eq!(status == 400, body.contains("invalid grpc-timeout: "), "{body}");
    }
    let watch = r#"{"create_request":{"key":"YQ=="}}"#;
    let mut stream = begin(etcd, "watch", "Grpc-Timeout: 300m\r\n", watch);
    assert!(line(&mut stream).contains("\"created\":true"));
    assert!(line(&mut stream).contains(late));
    let (status, _) = answer(etcd, "watch", "Grpc-Timeout: x\r\n", watch);
    assert_eq!(status, 400);
}

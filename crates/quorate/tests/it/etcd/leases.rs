//! Tests of leases in the real process, over gRPC and the JSON gateway. Times are measured from
//! before a call is sent, so a slow machine does not make a test fail.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use etcd::pb::Message;
use etcd::pb::etcdserverpb as pb;
use h2::client::SendRequest;
use tokio::time::sleep;

use super::grpc_client::{Answer, call, connect, framed, head, kv, run, soon};
use super::{ETCD, Three, base64, get, request};
use crate::server::{Server, wait_until};

/// Calls a method of the service `Lease` with these messages.
async fn calls(requests: &SendRequest<Bytes>, name: &str, messages: &[Vec<u8>]) -> Answer {
    let head = head(&format!("/etcdserverpb.Lease/{name}"));
    let body: Vec<u8> = messages.iter().flat_map(|message| framed(message)).collect();
    soon(call(requests, head, body.into())).await.unwrap()
}

async fn lease<M: Message + Default>(
    requests: &SendRequest<Bytes>,
    name: &str,
    request: &impl Message,
) -> M {
    calls(requests, name, &[request.encode_to_vec()]).await.all().remove(0)
}

pub async fn grant(requests: &SendRequest<Bytes>, id: i64, ttl: i64) -> pb::LeaseGrantResponse {
    lease(requests, "LeaseGrant", &pb::LeaseGrantRequest { id, ttl }).await
}

async fn put(requests: &SendRequest<Bytes>, key: &'static str, lease: i64) -> (String, String) {
    let put = pb::PutRequest { key: key.into(), lease, ..Default::default() };
    kv(requests, "Put", &put).await.status()
}

/// The seconds that a lease has left according to this member, -1 if it does not exist; and its
/// keys.
async fn left(requests: &SendRequest<Bytes>, id: i64) -> (i64, Vec<Bytes>) {
    let request = pb::LeaseTimeToLiveRequest { id, keys: true };
    let found: pb::LeaseTimeToLiveResponse = lease(requests, "LeaseTimeToLive", &request).await;
    (found.ttl, found.keys)
}

/// Keeps leases alive through one stream. Returns the time to live that each then has, in s.
pub async fn keep(requests: &SendRequest<Bytes>, ids: &[i64]) -> Vec<i64> {
    let messages: Vec<_> =
        ids.iter().map(|id| pb::LeaseKeepAliveRequest { id: *id }.encode_to_vec()).collect();
    let answers: Vec<pb::LeaseKeepAliveResponse> =
        calls(requests, "LeaseKeepAlive", &messages).await.all();
    assert!(answers.iter().map(|answer| answer.id).eq(ids.iter().copied()), "in their order");
    answers.into_iter().map(|answer| answer.ttl).collect()
}

/// Waits until a key is gone. Returns when that was seen.
async fn wait_until_gone(requests: &SendRequest<Bytes>, key: &'static str) -> Instant {
    loop {
        let range = pb::RangeRequest { key: key.into(), ..Default::default() };
        let found: pb::RangeResponse = kv(requests, "Range", &range).await.all().remove(0);
        if found.count == 0 {
            return Instant::now();
        }
        sleep(Duration::from_millis(20)).await;
    }
}

async fn revision(requests: &SendRequest<Bytes>) -> i64 {
    let range = pb::RangeRequest { key: "none".into(), ..Default::default() };
    let found: pb::RangeResponse = kv(requests, "Range", &range).await.all().remove(0);
    found.header.unwrap().revision
}

#[test]
fn a_lease_lives_as_long_as_it_is_kept_alive_and_takes_its_keys_with_it() {
    let server = Server::start("etcd-lease", &[ETCD]);
    run(async {
        let requests = connect(server.face("etcd")).await;
        assert_eq!(put(&requests, "a", 7).await.1, "etcdserver: requested lease not found");
        let granted = grant(&requests, 7, 1).await;
        assert_eq!((granted.id, granted.ttl), (7, 2), "the shortest time");
        for key in ["b", "a", "c"] {
            assert_eq!(put(&requests, key, 7).await.0, "0");
        }
        assert_eq!(put(&requests, "c", 0).await.0, "0");
        let mut kept_at = Instant::now();
        for _ in 0..4 {
            sleep(Duration::from_secs(1)).await;
            kept_at = Instant::now();
            assert_eq!(keep(&requests, &[7, 8, 7]).await, [2, 0, 2]);
        }
        let (ttl, keys) = left(&requests, 7).await;
        assert_eq!((ttl, &keys[..]), (1, &[Bytes::from("a"), Bytes::from("b")][..]));
        let before = revision(&requests).await;
        let gone_at = wait_until_gone(&requests, "b").await;
        assert!(gone_at - kept_at >= Duration::from_secs(2), "{:?}", gone_at - kept_at);
        assert_eq!(revision(&requests).await, before + 1, "both keys went at one revision");
        assert_eq!(left(&requests, 7).await, (-1, vec![]));
        assert_eq!(keep(&requests, &[7]).await, [0]);
    });
}

#[test]
fn leases_outlive_kill_nine_and_get_their_full_time() {
    let mut server = Server::start("etcd-lease-kill", &[ETCD]);
    run(async {
        let requests = connect(server.face("etcd")).await;
        grant(&requests, 7, 100).await;
        assert_eq!(put(&requests, "a", 7).await.0, "0");
        grant(&requests, 8, 3).await;
        assert_eq!(put(&requests, "b", 8).await.0, "0");
        sleep(Duration::from_secs(2)).await;
        server.kill_nine();
        let started_at = Instant::now();
        server.restart();
        let requests = connect(server.face("etcd")).await;
        let (ttl, keys) = left(&requests, 7).await;
        assert_eq!(keys, [Bytes::from("a")]);
        assert!((90..100).contains(&ttl), "{ttl}");
        let gone_at = wait_until_gone(&requests, "b").await;
        assert!(gone_at - started_at >= Duration::from_secs(3));
        let leases: pb::LeaseLeasesResponse =
            lease(&requests, "LeaseLeases", &pb::LeaseLeasesRequest {}).await;
        assert_eq!(leases.leases, [pb::LeaseStatus { id: 7 }]);
        lease::<pb::LeaseRevokeResponse>(
            &requests,
            "LeaseRevoke",
            &pb::LeaseRevokeRequest { id: 7 },
        )
        .await;
        assert_eq!(revision(&requests).await, 5);
    });
}

#[test]
fn errors_are_those_of_etcd() {
    let server = Server::start("etcd-lease-errors", &[ETCD]);
    run(async {
        let requests = connect(server.face("etcd")).await;
        grant(&requests, 7, 100).await;
        let check = async |name, message: Vec<u8>, code: &str, text: &str| {
            let status = calls(&requests, name, &[message]).await.status();
            assert_eq!(status, (code.to_string(), text.to_string()), "{name}");
        };
        let grant = |id, ttl| pb::LeaseGrantRequest { id, ttl }.encode_to_vec();
        check("LeaseGrant", grant(7, 9), "9", "etcdserver: lease already exists").await;
        check("LeaseGrant", grant(7, 1 << 40), "11", "etcdserver: too large lease TTL").await;
        let revoke = pb::LeaseRevokeRequest { id: 9 }.encode_to_vec();
        check("LeaseRevoke", revoke, "5", "etcdserver: requested lease not found").await;
        // A stream that ends without any message, and one whose second message is malformed.
        assert_eq!(calls(&requests, "LeaseKeepAlive", &[]).await.status().0, "0");
        let good = pb::LeaseKeepAliveRequest { id: 7 }.encode_to_vec();
        let answer = calls(&requests, "LeaseKeepAlive", &[good, vec![0xff]]).await;
        assert_eq!((answer.messages.len(), &answer.status().0[..]), (1, "13"));
    });
}

fn gateway(address: SocketAddr, path: &str, body: &str) -> (u16, String) {
    request(address, &format!("POST {path}"), body).expect("the server answers")
}

#[test]
fn the_gateway_has_leases_under_all_their_paths() {
    let server = Server::start("etcd-lease-json", &[ETCD]);
    let etcd = server.face("etcd");
    let check = |path: &str, body: &str, status: u16, expected: &str| {
        let (found, answer) = gateway(etcd, path, body);
        assert_eq!(found, status, "{path}: {answer}");
        assert!(answer.contains(expected), "{path}: {answer}");
    };
    check("/v3/lease/grant", r#"{"ID":7,"TTL":"60"}"#, 200, r#""ID":"7","TTL":"60""#);
    check("/v3beta/lease/grant", r#"{"ID":"7","TTL":60}"#, 400, "lease already exists");
    let put = format!(r#"{{"key":"{}","lease":"7"}}"#, base64("a"));
    check("/v3/kv/put", &put, 200, "revision");
    for path in ["/v3/lease/timetolive", "/v3/kv/lease/timetolive", "/v3beta/kv/lease/timetolive"] {
        let keys = format!(r#""TTL":"59","grantedTTL":"60","keys":["{}"]"#, base64("a"));
        check(path, r#"{"ID":"7","keys":true}"#, 200, &keys);
        check(path, r#"{"ID":"8"}"#, 200, r#""ID":"8","TTL":"-1""#);
    }
    // Each keep-alive is answered by a line. As in etcd, the stream ends with the body.
    let line = |fields: &str| {
        let (status, body) = gateway(etcd, "/v3/lease/keepalive", fields);
        assert_eq!(status, 200, "{body}");
        body
    };
    let lines = line(r#"{"ID":"7"} {"ID":8}"#);
    let [one, two] = [r#""ID":"7","TTL":"60"}}"#, r#""ID":"8"}}"#];
    assert!(lines.contains(one) && lines.contains(two), "{lines}");
    assert_eq!(lines.matches(r#"{"result":{"header":"#).count(), 2, "{lines}");
    assert!(!line("").contains("result"));
    assert!(!line(r#"{"ID":"x"}"#).contains("result"));
    for path in ["/v3/lease/leases", "/v3/kv/lease/leases"] {
        check(path, "{}", 200, r#""leases":[{"ID":"7"}]"#);
    }
    check("/v3/kv/lease/revoke", r#"{"ID":"7"}"#, 200, "revision");
    check("/v3/lease/revoke", r#"{"ID":"7"}"#, 404, "requested lease not found");
    assert_eq!(get(etcd, "a"), None);
}

#[test]
fn a_lease_of_three_members_is_kept_alive_on_any_and_outlives_its_leader() {
    const TTL: Duration = Duration::from_secs(4);
    let mut three = Three::start("etcd-lease-three");
    let clients = three.clients;
    let leader = run(async {
        let requests = connect(clients[0]).await;
        grant(&requests, 7, TTL.as_secs() as i64).await;
        assert_eq!(put(&requests, "a", 7).await.0, "0");
        for client in clients {
            let requests = connect(client).await;
            assert_eq!(keep(&requests, &[7, 8]).await, [4, 0]);
            assert_eq!(left(&requests, 7).await, (3, vec![Bytes::from("a")]));
            let found = left(&requests, 8).await;
            assert_eq!(found, (-1, vec![]));
        }
        sleep(Duration::from_secs(3)).await;
        let ended_at = Instant::now();
        let leader = three.end_leader();
        let other = connect(clients[(leader + 1) % 3]).await;
        // A keep-alive that is sent while there is no leader is answered by the next leader.
        let kept = keep(&other, &[7]).await;
        assert_eq!(kept, [4]);
        let gone_at = wait_until_gone(&other, "a").await;
        assert!(gone_at - ended_at >= TTL, "{:?}", gone_at - ended_at);
        leader
    });
    let [one, two] = [1, 2].map(|more| clients[(leader + more) % 3]);
    wait_until("both have ended it", || get(one, "a").is_none() && get(two, "a").is_none());
}

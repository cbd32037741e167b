//! Calls of clients that require a leader (`clientv3.WithRequireLeader`), on a member that loses
//! it.

use std::time::Duration;

use bytes::Bytes;
use etcd::pb::etcdserverpb as pb;
use etcd::pb::etcdserverpb::watch_request::RequestUnion;
use etcd::pb::{Message, v3electionpb as election};
use h2::client::SendRequest;
use hyper::Request;
use hyper::header::HeaderValue;

use super::Three;
use super::grpc_client::{Answer, Bidi, call, connect, framed, head, run, soon};

const WATCH: &str = "/etcdserverpb.Watch/Watch";
const KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
const OBSERVE: &str = "/v3electionpb.Election/Observe";
const LEASE: i64 = 7;

/// The head of a call that requires a leader, or does not.
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

/// One stream of each kind, which has had its first message.
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
    let three = Three::start("etcd-leaderless");
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
        // From now on such calls are refused at once, also a read that needs no leader.
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

//! Tests of large responses: the server makes them in pieces as their clients take them, and
//! refuses those longer than a limit.

use std::net::SocketAddr;

use bytes::Bytes;
use etcd::pb::Message;
use etcd::pb::etcdserverpb as pb;
use etcd::pb::etcdserverpb::request_op::Request;
use h2::client::SendRequest;
use serde_json::Value;
use tokio::time::{Duration, sleep};

use super::bounds::longest_call;
use super::grpc_client::{connect, connect_with_window, framed, head, kv, open, run, soon};
use super::streams::{everything, fill};
use super::watches::{WATCH, put_value};
use super::{ETCD, base64, dechunked, get, memory_bytes, request, resident_bytes};
use crate::server::Server;

const VALUE_BYTES: usize = 1_400_000;

/// A transaction that reads a key `count` times, in nested transactions of 50 reads each.
fn reads(key: &str, count: usize) -> pb::TxnRequest {
    let op = |request| pb::RequestOp { request: Some(request) };
    let range = pb::RangeRequest { key: key.to_string().into(), ..Default::default() };
    let nested = pb::TxnRequest {
        success: vec![op(Request::RequestRange(range)); 50],
        ..Default::default()
    };
    let success = vec![op(Request::RequestTxn(nested)); count / 50];
    pb::TxnRequest { success, ..Default::default() }
}

async fn put_large(requests: &SendRequest<Bytes>, key: &str) {
    put_value(requests, key, vec![7; VALUE_BYTES].into()).await;
}

/// Runs `work` while a well-behaved client makes calls.
async fn beside<T>(address: SocketAddr, work: impl Future<Output = T>) -> T {
    let client = connect(address).await;
    let (done, longest) = tokio::join!(work, longest_call(&client));
    println!("the longest call of a client beside it took {longest:?}");
    done
}

#[test]
fn a_response_beyond_the_limit_is_refused_before_it_is_made() {
    let server = Server::start("etcd-beyond", &[ETCD]);
    let address = server.face("etcd");
    run(async {
        let requests = connect(address).await;
        put_large(&requests, "large").await;
        let before = memory_bytes(&server, "VmHWM:");
        let refused = |answer: &super::grpc_client::Answer| {
            let (code, text) = answer.status();
            assert_eq!(code, "8");
            let bytes = text.strip_prefix("grpc: trying to send message larger than max (");
            let bytes = bytes.and_then(|text| text.strip_suffix(" vs. 2147483647)"));
            let bytes: usize = bytes.unwrap_or_else(|| panic!("{text}")).parse().unwrap();
            // The server only measured until the limit was exceeded, so the size that it reports is
            // not the full one.
            assert!(bytes > i32::MAX as usize && bytes < 3_200 * (VALUE_BYTES + 100), "{bytes}");
            assert!(answer.messages.is_empty());
        };
        let read = reads("large", 3_200);
        refused(&beside(address, kv(&requests, "Txn", &read)).await);
        // A write takes effect even though its response is refused.
        let put = pb::PutRequest { key: "done".into(), value: "yes".into(), ..Default::default() };
        let mut write = reads("large", 3_200);
        write.success.push(pb::RequestOp { request: Some(Request::RequestPut(put)) });
        refused(&beside(address, kv(&requests, "Txn", &write)).await);
        assert_eq!(get(address, "done").as_deref(), Some("yes"));
        // A response just below the limit is sent. Its prefix shows its length.
        let below = framed(&reads("large", 1_500).encode_to_vec());
        let answer = soon(open(&requests, head("/etcdserverpb.KV/Txn"), below)).await.unwrap();
        let first = soon(answer.into_body().data()).await.unwrap().unwrap();
        let length = u32::from_be_bytes(first[1..5].try_into().unwrap()) as usize;
        assert!(length > 1_500 * VALUE_BYTES && length < 1_500 * (VALUE_BYTES + 100));
        let grown = memory_bytes(&server, "VmHWM:").saturating_sub(before);
        println!("responses of 2.1 and 4.5 GB: {} KiB", grown / 1_024);
        assert!(grown < 64 << 20, "{grown}");
    });
    // The gateway has the same limit, as if it were a gRPC client.
    let range = format!("{{\"request_range\":{{\"key\":\"{}\"}}}}", base64("large"));
    let nested =
        format!("{{\"request_txn\":{{\"success\":[{}]}}}}", [range.as_str(); 50].join(","));
    let body = format!("{{\"success\":[{}]}}", [nested.as_str(); 64].join(","));
    let (status, body) = request(address, "POST /v3/kv/txn", &body).unwrap();
    assert_eq!(status, 429, "{body}");
    assert!(body.contains("grpc: trying to send message larger than max ("), "{body}");
}

#[test]
fn a_large_response_to_a_slow_client_costs_a_few_pieces() {
    let server = Server::start("etcd-large-slow", &[ETCD]);
    let address = server.face("etcd");
    run(async {
        let requests = connect(address).await;
        put_large(&requests, "large").await;
        longest_call(&requests).await;
        let before = resident_bytes(&server);
        let slow = connect_with_window(address, 65_535).await;
        let message = framed(&reads("large", 300).encode_to_vec());
        let answer = soon(open(&slow, head("/etcdserverpb.KV/Txn"), message)).await.unwrap();
        let mut body = answer.into_body();
        let (mut taken, mut length, mut peak) = (0, 0, 0);
        while let Some(frame) = soon(body.data()).await {
            let frame = frame.unwrap();
            body.flow_control().release_capacity(frame.len()).unwrap();
            if taken == 0 {
                length = u32::from_be_bytes(frame[1..5].try_into().unwrap()) as usize;
            }
            let before_frame = taken;
            taken += frame.len();
            // The client pauses now and then, and others are served meanwhile.
            if before_frame >> 26 != taken >> 26 {
                sleep(Duration::from_millis(200)).await;
                longest_call(&requests).await;
                peak = peak.max(resident_bytes(&server));
            }
        }
        assert!(length > 300 * VALUE_BYTES && length < 300 * (VALUE_BYTES + 100), "{length}");
        assert_eq!(taken, 5 + length);
        let trailers = soon(body.trailers()).await.unwrap().unwrap();
        assert_eq!(trailers["grpc-status"], "0");
        let grown = peak.saturating_sub(before);
        println!("a response of {length} bytes: {} KiB", grown / 1_024);
        assert!(grown < 32 << 20, "{grown}");
    });
}

#[test]
fn json_in_pieces_is_that_of_the_whole_response() {
    let server = Server::start("etcd-large-json", &[ETCD]);
    let address = server.face("etcd");
    let whole: pb::RangeResponse = run(async {
        let requests = connect(address).await;
        fill(&requests, 300, 10_000).await;
        put_large(&requests, "large").await;
        kv(&requests, "Range", &everything()).await.all().remove(0)
    });
    assert_eq!(whole.kvs.len(), 301);
    let range = "{\"key\":\"AA==\",\"range_end\":\"AA==\"}";
    let (status, body) = request(address, "POST /v3/kv/range", range).unwrap();
    assert_eq!(status, 200);
    let json: Value = serde_json::from_str(&dechunked(&body)).unwrap();
    assert_eq!(json["count"], "301");
    let kvs = json["kvs"].as_array().unwrap();
    assert_eq!(kvs.len(), whole.kvs.len());
    for (shown, kv) in kvs.iter().zip(&whole.kvs) {
        assert_eq!(shown["key"], base64(std::str::from_utf8(&kv.key).unwrap()));
        assert_eq!(shown["mod_revision"], kv.mod_revision.to_string());
        assert!(shown["value"].as_str() == Some(&base64(std::str::from_utf8(&kv.value).unwrap())));
    }
}

/// A removal of many keys is a single message for each watch, with the removed values if the watch
/// asks for them.
#[test]
fn a_large_message_of_a_watch_comes_in_pieces() {
    let server = Server::start("etcd-large-watch", &[ETCD]);
    let address = server.face("etcd");
    run(async {
        let requests = connect(address).await;
        fill(&requests, 300, 10_000).await;
        let create = pb::WatchCreateRequest {
            key: "key".into(),
            range_end: "kez".into(),
            prev_kv: true,
            ..Default::default()
        };
        let create = pb::watch_request::RequestUnion::CreateRequest(create);
        let create = pb::WatchRequest { request_union: Some(create) };
        let mut stream = super::grpc_client::Bidi::open(&requests, head(WATCH), &create).await;
        assert!(stream.next::<pb::WatchResponse>().await.created);
        let all = everything();
        let delete = pb::DeleteRangeRequest {
            key: all.key.clone(),
            range_end: all.range_end.clone(),
            prev_kv: true,
        };
        let deleted: pb::DeleteRangeResponse =
            kv(&requests, "DeleteRange", &delete).await.all().remove(0);
        assert_eq!((deleted.deleted, deleted.prev_kvs.len()), (300, 300));
        let response: pb::WatchResponse = stream.next().await;
        let before = response.events.iter().map(|event| event.prev_kv.clone().unwrap());
        assert!(before.eq(deleted.prev_kvs));
    });
}

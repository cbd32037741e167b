//! Attacks with requests whose answers are much larger than the requests. The server limits the
//! length of an answer, and encodes a large answer in pieces.

use bytes::Bytes;
use etcd::pb::Message;
use etcd::pb::etcdserverpb as pb;

use super::requests::{all, drain, exists, nested_64, put, range, refused, txn};
use super::rig::{Attack, MIB, RISE_MAX};
use crate::etcd::call;
use crate::etcd::grpc_client::{connect, kv, run};

/// gRPC's code for an answer that is too large.
const RESOURCE_EXHAUSTED: &str = "8";

/// Length of the single large value.
const VALUE_BYTES: usize = 1_400_000;

fn large() -> pb::RequestOp {
    range(pb::RangeRequest { key: "large".into(), ..Default::default() })
}

/// A server with one large value.
fn prepare(name: &str) -> Attack {
    let attack = Attack::prepare(name, &[], 0);
    run(async {
        let value = Bytes::from(vec![b'v'; VALUE_BYTES]);
        let put = pb::PutRequest { key: "large".into(), value, ..Default::default() };
        assert_eq!(kv(&connect(attack.etcd()).await, "Put", &put).await.status().0, "0");
    });
    attack
}

/// 3,200 times 1.4 MB is 4.5 GB, which does not fit the length field of a gRPC message.
#[test]
fn an_answer_of_more_than_two_gigabytes_is_refused() {
    let attack = prepare("answer");
    run(async {
        let requests = connect(attack.etcd()).await;
        let drained = drain(&requests, &txn(nested_64(50, &large()))).await;
        assert_eq!(drained.status, RESOURCE_EXHAUSTED);
        // A write whose answer is refused has still taken effect, as if the answer had been lost.
        let request = txn([vec![put("a")], nested_64(50, &large())].concat());
        assert_eq!(drain(&requests, &request).await.status, RESOURCE_EXHAUSTED);
        assert!(exists(&requests, "a").await);
    });
    attack.end(RISE_MAX);
}

/// The server never has the whole answer in memory.
#[test]
fn a_large_answer_is_encoded_while_it_is_taken() {
    let attack = prepare("pieces");
    let count = 10;
    run(async {
        let requests = connect(attack.etcd()).await;
        let drained = drain(&requests, &txn(nested_64(count, &large()))).await;
        assert_eq!(drained.status, "0");
        assert!(drained.bytes > count * 64 * VALUE_BYTES);
    });
    attack.end(448 * MIB);
}

/// Transactions that only read many ranges of many keys, over gRPC and as JSON.
#[test]
fn reads_of_many_keys_many_times_are_refused() {
    let attack = Attack::prepare("reads", &[], 100_000);
    let flat = txn(vec![range(all()); 128]);
    run(async {
        let requests = connect(attack.etcd()).await;
        refused(&requests, &flat).await;
        refused(&requests, &txn(nested_64(13, &range(all())))).await;
    });
    let op = r#"{"requestRange":{"key":"aw==","rangeEnd":"bA=="}}"#;
    let body = format!(r#"{{"success":[{}]}}"#, [op; 128].join(","));
    let (status, text) = call(attack.etcd(), "txn", &body);
    assert_eq!(status, 400, "{text}");
    assert!(text.contains("etcdserver: request is too large"), "{text}");
    assert!(flat.encode_to_vec().len() < body.len());
    attack.end(RISE_MAX);
}

//! Makes the requests that the attacks send, and checks the server's answers.

use std::time::Instant;

use bytes::Bytes;
use etcd::pb::etcdserverpb::{self as pb, compare, range_request, request_op::Request};
use etcd::pb::{Message, mvccpb::KeyValue};
use h2::client::SendRequest;

use crate::etcd::grpc_client::{Answer, call, framed, head, kv, open, soon};

/// An HTTP/2 connection.
pub type Connection = SendRequest<Bytes>;

/// How many keys one transaction of [`fill`] puts: etcd's default for `max-txn-ops`.
const PUTS_PER_TXN: usize = 128;

/// The key with this number. All such keys are in `[k,l)`.
pub fn key(number: usize) -> String {
    format!("k{number:06}")
}

/// A read of the range `[k,l)`.
pub fn all() -> pb::RangeRequest {
    pb::RangeRequest { key: "k".into(), range_end: "l".into(), ..Default::default() }
}

/// A read of the key in `[k,l)` with the lowest value: the answer has one key, but the server must
/// look at all.
pub fn first_by_value() -> pb::RangeRequest {
    pb::RangeRequest {
        limit: 1,
        sort_order: range_request::SortOrder::Ascend.into(),
        sort_target: range_request::SortTarget::Value.into(),
        ..all()
    }
}

/// A removal of `[k,l)`.
pub fn delete_all(prev_kv: bool) -> pb::DeleteRangeRequest {
    pb::DeleteRangeRequest { key: "k".into(), range_end: "l".into(), prev_kv }
}

/// A comparison that is true for every key in `[k,l)`, so that the server must look at all.
pub fn compare_all() -> pb::Compare {
    pb::Compare {
        result: compare::CompareResult::Greater.into(),
        target: compare::CompareTarget::Version.into(),
        key: "k".into(),
        range_end: "l".into(),
        target_union: Some(compare::TargetUnion::Version(0)),
    }
}

fn op(request: Request) -> pb::RequestOp {
    pb::RequestOp { request: Some(request) }
}

pub fn range(request: pb::RangeRequest) -> pb::RequestOp {
    op(Request::RequestRange(request))
}

/// A put of an empty value.
pub fn put(key: &str) -> pb::RequestOp {
    let key = Bytes::copy_from_slice(key.as_bytes());
    op(Request::RequestPut(pb::PutRequest { key, ..Default::default() }))
}

pub fn delete(request: pb::DeleteRangeRequest) -> pb::RequestOp {
    op(Request::RequestDeleteRange(request))
}

pub fn nested(txn: pb::TxnRequest) -> pb::RequestOp {
    op(Request::RequestTxn(txn))
}

/// A transaction of these operations without comparisons.
pub fn txn(success: Vec<pb::RequestOp>) -> pb::TxnRequest {
    pb::TxnRequest { success, ..Default::default() }
}

/// `count` nested transactions, each of 64 times the same operation.
pub fn nested_64(count: usize, of: &pb::RequestOp) -> Vec<pb::RequestOp> {
    vec![nested(txn(vec![of.clone(); 64])); count]
}

/// A put, and nested transactions with 4,032 reads of all keys: 41 KB.
pub fn put_and_ranges() -> pb::TxnRequest {
    txn([vec![put("a")], nested_64(63, &range(all()))].concat())
}

/// A put, and 3,520 comparisons of all keys, most of them in nested transactions: 46 KB.
pub fn put_and_comparisons() -> pb::TxnRequest {
    let compare = vec![compare_all(); 64];
    let inner = nested(pb::TxnRequest { compare: compare.clone(), ..Default::default() });
    let success = [vec![put("a")], vec![inner; 54]].concat();
    pb::TxnRequest { compare, success, ..Default::default() }
}

/// Puts `count` keys with empty values, attached to `lease` unless that is 0.
pub async fn fill(requests: &Connection, count: usize, lease: i64) {
    let numbers: Vec<usize> = (0..count).collect();
    for numbers in numbers.chunks(PUTS_PER_TXN) {
        let puts = numbers.iter().map(|number| {
            op(Request::RequestPut(pb::PutRequest {
                key: key(*number).into(),
                lease,
                ..Default::default()
            }))
        });
        assert_eq!(kv(requests, "Txn", &txn(puts.collect())).await.status().0, "0");
    }
}

/// How many keys in `[k,l)` the server has.
pub async fn count(requests: &Connection) -> usize {
    let request = pb::RangeRequest { count_only: true, ..all() };
    let answer: Vec<pb::RangeResponse> = kv(requests, "Range", &request).await.all();
    usize::try_from(answer[0].count).unwrap()
}

/// Whether the server has this key.
pub async fn exists(requests: &Connection, key: &'static str) -> bool {
    let request = pb::RangeRequest { key: key.into(), ..Default::default() };
    let answer: Vec<pb::RangeResponse> = kv(requests, "Range", &request).await.all();
    answer[0].count == 1
}

/// Sends a request whose encoded message is given, and returns the answer.
pub async fn send(requests: &Connection, method: &str, message: &[u8]) -> Answer {
    let head = head(&format!("/etcdserverpb.{method}"));
    soon(call(requests, head, framed(message))).await.unwrap()
}

/// Calls a method of the service `Lease`, and returns the answer.
pub async fn send_lease(requests: &Connection, method: &str, request: &impl Message) -> Answer {
    send(requests, &format!("Lease/{method}"), &request.encode_to_vec()).await
}

/// Calls a method that must not be refused. Prints the time it took, and returns the response.
pub async fn allowed<M: Message + Default>(
    requests: &Connection,
    method: &str,
    request: &impl Message,
) -> M {
    let begun_at = Instant::now();
    let mut answer = send(requests, method, &request.encode_to_vec()).await.all();
    println!("{method} took {:?}", begun_at.elapsed());
    answer.remove(0)
}

/// Fails unless the transaction is refused as too large.
pub async fn refused(requests: &Connection, request: &pb::TxnRequest) {
    is_too_large(&kv(requests, "Txn", request).await);
}

/// Fails unless this answer says that the request is too large.
pub fn is_too_large(answer: &Answer) {
    let expected = ("3".to_string(), "etcdserver: request is too large".to_string());
    assert_eq!(answer.status(), expected);
}

/// The result of [`drain`]: how much of an answer came, and its status.
#[derive(Debug)]
pub struct Drained {
    pub bytes: usize,
    pub status: String,
}

/// Sends a transaction, and reads its answer without keeping it.
pub async fn drain(requests: &Connection, request: &pb::TxnRequest) -> Drained {
    let begun_at = Instant::now();
    let message = framed(&request.encode_to_vec());
    let response = open(requests, head("/etcdserverpb.KV/Txn"), message).await.unwrap();
    let (parts, mut body) = response.into_parts();
    let mut bytes = 0;
    while let Some(frame) = soon(body.data()).await {
        let frame = frame.unwrap();
        body.flow_control().release_capacity(frame.len()).unwrap();
        bytes += frame.len();
    }
    let trailers = body.trailers().await.unwrap().unwrap_or_default();
    let answer = Answer { headers: parts.headers, ..Answer::default() };
    let code = trailers.get("grpc-status").map(|code| code.to_str().unwrap().to_string());
    let status = code.unwrap_or_else(|| answer.text("grpc-status"));
    println!("{bytes} bytes took {:?}", begun_at.elapsed());
    Drained { bytes, status }
}

/// Fails unless these are all the keys that [`fill`] put, in order.
pub fn are_all(found: &[KeyValue], count: usize) {
    assert_eq!(found.len(), count);
    for (number, found) in found.iter().enumerate() {
        assert_eq!(found.key, key(number).as_bytes());
    }
}

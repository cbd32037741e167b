//! Bodies for requests of etcd clients: messages of the key-value service, JSON of the gateway in
//! both directions, and etcd v2.

use bytes::Bytes;
use etcd::gateway::{self, GatewayMethod, Scanner};
use etcd::pb::Message;
use etcd::pb::etcdserverpb::compare::TargetUnion;
use etcd::pb::etcdserverpb::request_op::Request;
use etcd::pb::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
};
use etcd::{convert, limits, v2};
use machine::Command;

/// A request of the key-value service, decoded as each of its messages in turn. If it decodes as
/// one, it must encode and decode again to an equal one; if it also passes the checks, it must have
/// a key.
pub fn etcd_request(bytes: &[u8]) {
    if let Some(request) = decoded_twice::<RangeRequest>(bytes)
        && let Ok(range) = convert::range(&request)
    {
        assert!(!range.range.key.is_empty());
    }
    if let Some(request) = decoded_twice::<PutRequest>(bytes)
        && let Ok(put) = convert::put(&request)
    {
        assert!(!put.key.is_empty());
    }
    if let Some(request) = decoded_twice::<DeleteRangeRequest>(bytes)
        && let Ok(delete) = convert::delete_range(&request)
    {
        assert!(!delete.range.key.is_empty());
    }
    if let Some(request) = decoded_twice::<TxnRequest>(bytes)
        && let Ok(txn) = convert::txn(&request, limits::TXN_OPS_MAX_DEFAULT)
    {
        assert_eq!(txn.compares.len(), request.compare.len());
        assert_eq!(txn.success.len(), request.success.len());
        assert_eq!(txn.failure.len(), request.failure.len());
    }
}

fn decoded_twice<T: Message + Default + PartialEq>(bytes: &[u8]) -> Option<T> {
    let message = T::decode(bytes).ok()?;
    assert!(T::decode(&message.encode_to_vec()[..]).as_ref() == Ok(&message));
    Some(message)
}

fn op(request: Request) -> RequestOp {
    RequestOp { request: Some(request) }
}

fn put(key: &'static str) -> PutRequest {
    let key = Bytes::from_static(key.as_bytes());
    PutRequest { key: key.clone(), value: key, lease: 300, prev_kv: true, ..Default::default() }
}

fn range(key: &'static str) -> RangeRequest {
    RangeRequest {
        key: Bytes::from_static(key.as_bytes()),
        range_end: Bytes::from_static(b"z"),
        limit: 1_000,
        revision: -1,
        sort_order: 2,
        sort_target: 4,
        ..Default::default()
    }
}

fn delete(key: &'static str) -> DeleteRangeRequest {
    let key = Bytes::from_static(key.as_bytes());
    DeleteRangeRequest { key, range_end: Bytes::from_static(b"f"), prev_kv: true }
}

fn txn() -> TxnRequest {
    let compare = |target: i32, operand: TargetUnion| Compare {
        result: 1,
        target,
        key: Bytes::from_static(b"k"),
        range_end: Bytes::from_static(b"\0"),
        target_union: Some(operand),
    };
    let nested = TxnRequest {
        compare: vec![compare(3, TargetUnion::Value(Bytes::from_static(b"v")))],
        success: vec![op(Request::RequestPut(put("g"))), op(Request::RequestRange(range("a")))],
        failure: vec![op(Request::RequestPut(put("g")))],
    };
    TxnRequest {
        compare: vec![
            compare(0, TargetUnion::Version(1)),
            compare(2, TargetUnion::ModRevision(70_000)),
            compare(4, TargetUnion::Lease(-1)),
        ],
        success: vec![
            op(Request::RequestDeleteRange(delete("c"))),
            op(Request::RequestTxn(nested.clone())),
            op(Request::RequestPut(put("b"))),
        ],
        failure: vec![op(Request::RequestTxn(nested))],
    }
}

pub fn etcd_request_seeds() -> Vec<Vec<u8>> {
    vec![
        put("k").encode_to_vec(),
        range("k").encode_to_vec(),
        delete("k").encode_to_vec(),
        txn().encode_to_vec(),
    ]
}

/// The calls whose JSON the bodies translate, in both directions.
const CALLS: [&str; 5] = [
    "/etcdserverpb.KV/Txn",
    "/etcdserverpb.Watch/Watch",
    "/etcdserverpb.Cluster/MemberAdd",
    "/etcdserverpb.Maintenance/Status",
    "/etcdserverpb.Auth/RoleGrantPermission",
];

fn calls() -> impl Iterator<Item = &'static GatewayMethod> {
    CALLS.iter().map(|path| gateway::method(path).expect("it is a call"))
}

/// The JSON of a request. If the gateway translates it, the result must decode as a message.
pub fn etcd_json(bytes: &[u8]) {
    for call in calls() {
        // This function normally sees only text that `Scanner` has accepted; it must return for
        // other text too.
        let _ = call.streamed_request(bytes);
        let Ok(message) = call.request(bytes) else { continue };
        if call.path == CALLS[0] {
            TxnRequest::decode(&message[..]).expect("it is a message");
        }
    }
}

pub fn etcd_json_seeds() -> Vec<Vec<u8>> {
    let txn = r#"{"compare":[{"target":"MOD","result":3,"key":"aw==","modRevision":"12"}],
        "success":[{"request_put":{"key":"Zm9v","value":"-_8","lease":"1e2"}},
        {"requestTxn":{"success":[{"request_range":{"key":"YQ","range_end":"AA==","limit":5,
        "sort_order":"DESCEND","serializable":true}}],"failure":null}}],"x":[1.5e-3,{"y":null}]}"#;
    let watch = r#"{"create_request":{"key":"Zm9v","filters":["NOPUT",1],"watch_id":"-1"}} {}"#;
    let member = r#"{"peerURLs":["http://\u00e9\ud83d\ude00:1\n"],"isLearner":false}"#;
    let grant = r#"{"name":"r","perm":{"permType":"READWRITE","key":"YQ==","range_end":"Yg=="}}"#;
    [txn, watch, member, grant].map(|text| text.as_bytes().to_vec()).to_vec()
}

/// The JSON for a message that the transcoder gets in pieces of `piece_bytes`; `None` if it is not
/// a message.
fn transcoded(call: &GatewayMethod, bytes: &[u8], piece_bytes: usize) -> Option<String> {
    let (mut transcoder, mut json) = (call.transcoder(), String::new());
    for piece in bytes.chunks(piece_bytes.max(1)) {
        transcoder.push(piece, &mut json).ok()?;
    }
    transcoder.finish(&mut json).ok()?;
    Some(json)
}

/// The message of a response. If the gateway translates it, the result must be one JSON object, the
/// same whether the message came at once or in pieces.
pub fn etcd_message(bytes: &[u8]) {
    for call in calls() {
        let [at_once, in_pieces] = [bytes.len(), 3].map(|piece| transcoded(call, bytes, piece));
        assert_eq!(at_once, in_pieces);
        if let Some(json) = at_once {
            assert_eq!(Scanner::default().scan(json.as_bytes()), Ok(Some(json.len())));
        }
        let Ok(json) = call.response(bytes) else { continue };
        assert_eq!(Scanner::default().scan(json.as_bytes()), Ok(Some(json.len())));
    }
}

pub fn etcd_message_seeds() -> Vec<Vec<u8>> {
    // A response to a transaction with a put, a read and a nested transaction; and a status
    // response.
    let txn = b"\x0a\x04\x18\x07\x20\x02\x10\x01\x1a\x06\x12\x04\x0a\x02\x18\x07\x1a\x10\x0a\x0e\
        \x0a\x02\x18\x07\x12\x06\x0a\x01k\x2a\x01v\x20\x01\x1a\x06\x22\x04\x0a\x00\x10\x01";
    let status = b"\x12\x053.6.0\x18\x80\x80\x02\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x42\
        \x03a\"b\x50\x01";
    vec![txn.to_vec(), status.to_vec()]
}

/// A request of etcd v2, a part on each line: the method, the path behind `/v2/keys`, the query and
/// the form. If it is valid, its command must encode and decode again to an equal one; if not, the
/// error's body must be JSON.
pub fn etcd_v2_request(bytes: &[u8]) {
    let mut lines = bytes.splitn(4, |byte| *byte == b'\n');
    let [Some(method), Some(path), Some(query), Some(form)] = [(); 4].map(|()| lines.next()) else {
        return;
    };
    let (Ok(method), Ok(path)) = (core::str::from_utf8(method), core::str::from_utf8(path)) else {
        return;
    };
    let clean = v2::clean(path);
    assert!(v2::clean(&clean) == clean && (!v2::is_plain(path) || path == clean));
    let Some(verb) = v2::Verb::of(method) else { return };
    let mut parameters = v2::Form::default();
    if parameters.add(form).is_err() || parameters.add(query).is_err() {
        return;
    }
    match v2::Request::new(verb, path, parameters) {
        Ok(request) => {
            assert!(request.bytes() >= request.key().text().len());
            let Some(command) = request.command() else { return };
            let mut encoded = Vec::new();
            Command::EtcdV2(command.clone()).encode(&mut encoded);
            assert_eq!(Command::decode(&encoded), Ok(Command::EtcdV2(command)));
        }
        Err(failure) => {
            let body = failure.body();
            let body = core::str::from_utf8(&body).expect("an answer is UTF-8");
            assert_eq!(Scanner::default().scan(body.as_bytes()), Ok(Some(body.len() - 1)));
        }
    }
}

pub fn etcd_v2_request_seeds() -> Vec<Vec<u8>> {
    [
        "PUT\n/a/b%20c\nprevExist=true&ttl=5\nvalue=x+y%00&refresh=false",
        "PUT\n/a\nprevValue=x&prevIndex=7\nvalue=z&dir=false",
        "POST\n/q//./r/..\n\nvalue=1&noValueOnSuccess=true",
        "DELETE\n/a\nrecursive=true&dir=1\n",
        "GET\n\nwait=true&waitIndex=18446744073709551615&stream=T\n",
        "HEAD\n/%ff\nquorum=maybe\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

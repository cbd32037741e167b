use etcd::pb::Message;

use super::*;

fn keys() -> Keys {
    Keys { count: 20, bytes: 8, value_bytes: 3 }
}

#[test]
fn keys_have_a_fixed_length_and_sort_as_numbers() {
    assert_eq!([0, 19].map(|number| keys().key(number)), ["00000000", "00000019"]);
    assert!(keys().key(20) > keys().key(19));
}

#[test]
fn each_key_has_its_request_and_mixed_transactions_have_two() {
    for (op, count) in [
        (Op::Put, 20),
        (Op::Range, 20),
        (Op::SerializableRange, 20),
        (Op::TxnPut, 20),
        (Op::TxnMixed, 40),
        (Op::LeaseKeepalive, 20),
    ] {
        assert_eq!(keys().calls(op).unwrap().len(), count, "{op:?}");
    }
}

#[test]
fn an_answer_to_something_else_is_an_error() {
    let one = pb::RangeResponse { kvs: vec![Default::default()], ..Default::default() };
    let none = pb::RangeResponse::default();
    let bytes = |message: &pb::RangeResponse| Bytes::from(message.encode_to_vec());
    assert!(Op::Range.is_answered_by(0, bytes(&one)));
    assert!(!Op::Range.is_answered_by(0, bytes(&none)));
    let txn = |response| {
        let responses = vec![pb::ResponseOp { response: Some(response) }];
        Bytes::from(pb::TxnResponse { responses, ..Default::default() }.encode_to_vec())
    };
    let read = txn(pb::response_op::Response::ResponseRange(one));
    let put = txn(pb::response_op::Response::ResponsePut(Default::default()));
    assert!(Op::TxnMixed.is_answered_by(0, read.clone()));
    assert!(!Op::TxnMixed.is_answered_by(1, read.clone()));
    assert!(Op::TxnMixed.is_answered_by(1, put.clone()));
    assert!(Op::TxnPut.is_answered_by(0, put));
    assert!(!Op::TxnPut.is_answered_by(0, read));
    assert!(!Op::TxnPut.is_answered_by(0, Bytes::new()));
    let kept = |ttl| {
        let kept = pb::LeaseKeepAliveResponse { ttl, ..Default::default() };
        Op::LeaseKeepalive.is_answered_by(0, kept.encode_to_vec().into())
    };
    assert!(kept(LEASE_TTL_S));
    assert!(!kept(0), "the lease is not there");
}

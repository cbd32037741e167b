use prost::Message as _;

use super::super::table::MESSAGES;
use super::*;
use crate::pb::etcdserverpb as pb;
use crate::pb::mvccpb;

fn json(name: &str, bytes: &[u8]) -> Result<String, BadMessage> {
    let message = MESSAGES.iter().find(|message| message.name == name);
    decode(message.expect("there is such a message"), bytes)
}

#[test]
fn messages_are_written_as_by_etcd() {
    let check = |name: &str, message: &dyn Fn(&mut Vec<u8>), expected: &str| {
        let mut bytes = Vec::new();
        message(&mut bytes);
        let found = json(&format!("etcdserverpb.{name}"), &bytes);
        assert_eq!(found.as_deref(), Ok(expected));
    };
    fn of(message: impl prost::Message) -> impl Fn(&mut Vec<u8>) {
        move |out| message.encode(out).unwrap()
    }
    let header = |revision: i64| {
        Some(pb::ResponseHeader { cluster_id: u64::MAX, member_id: 2, revision, raft_term: 3 })
    };
    let head = r#"{"header":{"cluster_id":"18446744073709551615","member_id":"2","#;
    check("DefragmentResponse", &of(pb::DefragmentResponse::default()), "{}");
    check(
        "PutResponse",
        &of(pb::PutResponse { header: header(7), prev_kv: None }),
        &format!(r#"{head}"revision":"7","raft_term":"3"}}}}"#),
    );
    let kv = mvccpb::KeyValue {
        key: "k".into(),
        create_revision: -1,
        mod_revision: 5,
        version: 1,
        value: "\u{ff}".into(),
        lease: 0,
    };
    check(
        "RangeResponse",
        &of(pb::RangeResponse {
            header: header(0),
            kvs: vec![kv.clone(), Default::default()],
            more: true,
            count: 2,
        }),
        &format!(
            r#"{head}"raft_term":"3"}},"kvs":[{{"key":"aw==","create_revision":"-1","mod_revision":"5","version":"1","value":"w78="}},{{}}],"more":true,"count":"2"}}"#
        ),
    );
    check(
        "WatchResponse",
        &of(pb::WatchResponse {
            watch_id: -1,
            events: vec![
                mvccpb::Event { r#type: 0, kv: Some(kv), prev_kv: None },
                mvccpb::Event { r#type: 1, kv: None, prev_kv: None },
                mvccpb::Event { r#type: 9, kv: None, prev_kv: None },
            ],
            ..Default::default()
        }),
        r#"{"watch_id":"-1","events":[{"kv":{"key":"aw==","create_revision":"-1","mod_revision":"5","version":"1","value":"w78="}},{"type":"DELETE"},{"type":9}]}"#,
    );
    check(
        "HashResponse",
        &of(pb::HashResponse { header: None, hash: u32::MAX }),
        r#"{"hash":4294967295}"#,
    );
    check(
        "StatusResponse",
        &of(pb::StatusResponse {
            errors: vec!["a\"\\\n\u{1}é".to_string(), String::new()],
            db_size_in_use: 4,
            is_learner: true,
            ..Default::default()
        }),
        r#"{"errors":["a\"\\\n\u0001é",""],"dbSizeInUse":"4","isLearner":true}"#,
    );
    check(
        "MemberListResponse",
        &of(pb::MemberListResponse {
            header: None,
            members: vec![pb::Member {
                id: 1,
                name: "m".to_string(),
                peer_ur_ls: vec!["http://a".to_string()],
                ..Default::default()
            }],
        }),
        r#"{"members":[{"ID":"1","name":"m","peerURLs":["http://a"]}]}"#,
    );
}

#[test]
fn fields_come_in_the_order_of_the_text() {
    // `count`, then `more`, then two headers (the last one counts), then an unknown field.
    let bytes = [0x20, 5, 0x18, 1, 0x0a, 0, 0x0a, 2, 0x18, 9, 0xf8, 0x07, 1];
    let expected = r#"{"header":{"revision":"9"},"more":true,"count":"5"}"#;
    assert_eq!(json("etcdserverpb.RangeResponse", &bytes).as_deref(), Ok(expected));
}

#[test]
fn zeros_on_the_wire_are_left_out_but_for_a_oneof() {
    let found = json("etcdserverpb.RangeResponse", &[0x18, 0, 0x20, 0]);
    assert_eq!(found.as_deref(), Ok("{}"));
    let found = json("etcdserverpb.Compare", &[0x08, 0, 0x20, 0]);
    assert_eq!(found.as_deref(), Ok(r#"{"version":"0"}"#));
}

#[test]
fn a_list_of_numbers_may_come_in_one_piece() {
    let found = json("etcdserverpb.WatchCreateRequest", &[0x2a, 2, 0, 1, 0x28, 1]);
    assert_eq!(found.as_deref(), Ok(r#"{"filters":["NOPUT","NODELETE","NODELETE"]}"#));
}

#[test]
fn bytes_of_no_message_are_refused() {
    let check =
        |bytes: &[u8]| assert_eq!(json("etcdserverpb.RangeResponse", bytes), Err(BadMessage));
    check(&[0x80]);
    check(&[0x0a]);
    check(&[0x0a, 1]);
    check(&[0x18]);
    check(&[0x1a, 1, 1]);
    check(&[0x08, 1]);
    check(&[0x0b]);
    check(&[0xf9, 0x07, 1]);
    check(&[0xfd, 0x07, 1]);
    check(&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
    assert_eq!(json("etcdserverpb.StatusResponse", &[0x12, 1, 0xff]), Err(BadMessage));
}

#[test]
fn the_deepest_txn_can_be_written() {
    let txn = |depth: usize| {
        let mut txn = pb::TxnResponse::default();
        for _ in 0..depth {
            let response = Some(pb::response_op::Response::ResponseTxn(txn));
            let responses = vec![pb::ResponseOp { response }];
            txn = pb::TxnResponse { responses, ..Default::default() };
        }
        json("etcdserverpb.TxnResponse", &txn.encode_to_vec())
    };
    assert!(txn(TXN_DEPTH_MAX).is_ok());
    assert_eq!(txn(TXN_DEPTH_MAX + 5), Err(BadMessage));
}

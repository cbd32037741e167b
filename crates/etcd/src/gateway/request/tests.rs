use bytes::Bytes;
use prost::Message as _;

use super::super::table::MESSAGES;
use super::*;
use crate::pb::etcdserverpb as pb;
use crate::pb::etcdserverpb::compare::TargetUnion;
use crate::pb::etcdserverpb::request_op::Request;

fn message(name: &str) -> &'static Message {
    MESSAGES.iter().find(|message| message.name == name).expect("there is such a message")
}

fn range(json: &str) -> Result<pb::RangeRequest, String> {
    let bytes = encode(message("etcdserverpb.RangeRequest"), json.as_bytes());
    bytes.map_err(|error| error.0).map(|bytes| pb::RangeRequest::decode(&bytes[..]).unwrap())
}

fn txn(json: &str) -> Result<pb::TxnRequest, String> {
    let bytes = encode(message("etcdserverpb.TxnRequest"), json.as_bytes());
    bytes.map_err(|error| error.0).map(|bytes| pb::TxnRequest::decode(&bytes[..]).unwrap())
}

fn key(key: &'static str) -> pb::RangeRequest {
    pb::RangeRequest { key: Bytes::from_static(key.as_bytes()), ..Default::default() }
}

#[test]
fn fields_have_two_names_and_many_forms() {
    let check = |json: &str, expected: pb::RangeRequest| assert_eq!(range(json), Ok(expected));
    let end = Bytes::from_static(b"foo");
    check("{}", pb::RangeRequest::default());
    check(r#"{"key":"Zm9v"}"#, key("foo"));
    check(r#"{"range_end":"Zm9v"}"#, pb::RangeRequest { range_end: end.clone(), ..key("") });
    check(r#"{"rangeEnd":"Zm9v"}"#, pb::RangeRequest { range_end: end, ..key("") });
    check(r#"{"KEY":"Zm9v","x":[1,{"a":2}],"[a.b]":1}"#, key(""));
    check(r#"{"key":null,"limit":null,"sort_order":null}"#, key(""));
    check(r#"{"limit":5}"#, pb::RangeRequest { limit: 5, ..key("") });
    check(r#"{"limit":"5"}"#, pb::RangeRequest { limit: 5, ..key("") });
    check(r#"{"limit":"1e2"}"#, pb::RangeRequest { limit: 100, ..key("") });
    check(r#"{"limit":"-0"}"#, key(""));
    check(r#"{"limit":"12 13"}"#, pb::RangeRequest { limit: 12, ..key("") });
    check(r#"{"limit":"12,x"}"#, pb::RangeRequest { limit: 12, ..key("") });
    check(r#"{"limit":"-9223372036854775808"}"#, pb::RangeRequest { limit: i64::MIN, ..key("") });
    check(r#"{"sort_order":"DESCEND"}"#, pb::RangeRequest { sort_order: 2, ..key("") });
    check(r#"{"sort_order":17}"#, pb::RangeRequest { sort_order: 17, ..key("") });
    check(r#"{"sort_order":-1}"#, pb::RangeRequest { sort_order: -1, ..key("") });
    check(r#"{"sort_order":1.0}"#, pb::RangeRequest { sort_order: 1, ..key("") });
    check(r#"{"sort_order":"BAD"}"#, key(""));
    check(
        r#"{"keys_only":true,"countOnly":false}"#,
        pb::RangeRequest { keys_only: true, ..key("") },
    );
    check("{ \"key\" :\n\"Zm9v\" , \"limit\":1 }", pb::RangeRequest { limit: 1, ..key("foo") });
    check(r#"{"k\u0065y":"Zm9v"}"#, key("foo"));
}

#[test]
fn base64_comes_in_both_alphabets_padded_or_not() {
    let check = |text: &str, expected: Option<&[u8]>| {
        assert_eq!(decode_base64(text).as_deref(), expected, "{text}");
    };
    check("", Some(b""));
    check("Zm8=", Some(b"fo"));
    check("Zm8", Some(b"fo"));
    check("Zm9v", Some(b"foo"));
    check("Zg==", Some(b"f"));
    check("Zg", Some(b"f"));
    check("+/8=", Some(b"\xfb\xff"));
    check("-_8=", Some(b"\xfb\xff"));
    check("-_8", Some(b"\xfb\xff"));
    check("Zm9vZh", Some(b"foof"));
    check("Zm9v\n", Some(b"foo"));
    check("Zm\r\n9v", Some(b"foo"));
    check("+_8=", None);
    check("Z", None);
    check("Zg=", None);
    check("Zm9v==", None);
    check("Zm8==", None);
    check("!!", None);
    check("Zm 9v", None);
    check("é===", None);
}

/// The error texts are etcd 3.6.16's answers to the same JSON.
#[test]
fn errors_of_values_are_those_of_etcd() {
    let check = |json: &str, expected: &str| {
        assert_eq!(range(json), Err(format!("proto: {expected}")), "{json}");
    };
    check(r#"{"key":1}"#, "(line 1:8): invalid value for bytes field key: 1");
    check(r#"{"key":"!!"}"#, r#"(line 1:8): invalid value for bytes field key: "!!""#);
    check(r#"{"key":"Zm9v","key":"Zm9v"}"#, r#"(line 1:15): duplicate field "key""#);
    check(
        r#"{"key":"Zm9v","range_end":"","rangeEnd":""}"#,
        r#"(line 1:30): duplicate field "rangeEnd""#,
    );
    check("null", "syntax error (line 1:1): unexpected token null");
    check("[1]", "syntax error (line 1:1): unexpected token [");
    check(r#""x""#, r#"syntax error (line 1:1): unexpected token "x""#);
    check("12", "syntax error (line 1:1): unexpected token 12");
    check(r#"{"limit":1.5}"#, "(line 1:10): invalid value for int64 field limit: 1.5");
    check(r#"{"limit":" 1"}"#, r#"(line 1:10): invalid value for int64 field limit: " 1""#);
    check(r#"{"limit":"1 "}"#, r#"(line 1:10): invalid value for int64 field limit: "1 ""#);
    check(r#"{"limit":""}"#, r#"(line 1:10): invalid value for int64 field limit: """#);
    check(r#"{"limit":"12x"}"#, r#"(line 1:10): invalid value for int64 field limit: "12x""#);
    check(r#"{"limit":"0x1"}"#, r#"(line 1:10): invalid value for int64 field limit: "0x1""#);
    check(
        r#"{"limit":9223372036854775808}"#,
        "(line 1:10): invalid value for int64 field limit: 9223372036854775808",
    );
    check(
        r#"{"serializable":"true"}"#,
        r#"(line 1:17): invalid value for bool field serializable: "true""#,
    );
    check(r#"{"sort_order":true}"#, "(line 1:15): invalid value for enum field sortOrder: true");
    check(r#"{"key":["Zm9v"]}"#, "(line 1:8): invalid value for bytes field key: [");
    check(r#"{"key":{}}"#, "(line 1:8): invalid value for bytes field key: {");
    check(
        "{\n \"x\":1,\n  \"é\":2, \"key\":5}",
        "(line 3:16): invalid value for bytes field key: 5",
    );
}

#[test]
fn numbers_have_the_range_of_their_type() {
    let hash = message("etcdserverpb.HashResponse");
    let grant = message("etcdserverpb.LeaseGrantRequest");
    let remove = message("etcdserverpb.MemberRemoveRequest");
    let check = |message: &'static Message, json: &str, expected: bool| {
        assert_eq!(encode(message, json.as_bytes()).is_ok(), expected, "{json}");
    };
    check(hash, r#"{"hash":4294967295}"#, true);
    check(hash, r#"{"hash":4294967296}"#, false);
    check(hash, r#"{"hash":-1}"#, false);
    check(grant, r#"{"TTL":"9223372036854775807"}"#, true);
    check(grant, r#"{"TTL":"9223372036854775808"}"#, false);
    check(remove, r#"{"ID":"18446744073709551615"}"#, true);
    check(remove, r#"{"ID":"18446744073709551616"}"#, false);
    check(remove, r#"{"ID":"-1"}"#, false);
    let order = message("etcdserverpb.RangeRequest");
    check(order, r#"{"sort_order":2147483647}"#, true);
    check(order, r#"{"sort_order":2147483648}"#, false);
}

#[test]
fn a_oneof_takes_one_value() {
    let range = |key: &'static str| Some(Request::RequestRange(self::key(key)));
    let check = |json: &str, expected: Option<Request>| {
        let found = txn(&format!("{{\"success\":[{json}]}}")).unwrap();
        assert_eq!(found.success, [pb::RequestOp { request: expected }], "{json}");
    };
    check("{}", None);
    check(r#"{"request_range":{"key":"Zm9v"}}"#, range("foo"));
    check(r#"{"requestRange":{}}"#, range(""));
    check(r#"{"request_put":null,"request_range":{"key":"Zm9v"}}"#, range("foo"));
    check(r#"{"request_range":{"key":"Zm9v"},"request_put":null}"#, range("foo"));
    check(r#"{"Request":{"RequestPut":{"key":"Zm9v"}}}"#, None);
    let both = r#"{"success":[{"request_range":{"key":"Zm9v"},"request_put":{"key":"Zm9v"}}]}"#;
    let error = "proto: (line 1:45): error parsing \"request_put\", oneof \
                 etcdserverpb.RequestOp.request is already set";
    assert_eq!(txn(both), Err(error.to_string()));
}

#[test]
fn a_zero_in_a_oneof_is_there() {
    let check = |json: &str, expected: Option<TargetUnion>| {
        let found = txn(&format!("{{\"compare\":[{json}]}}")).unwrap();
        assert_eq!(found.compare[0].target_union, expected, "{json}");
    };
    check("{}", None);
    check(r#"{"version":0}"#, Some(TargetUnion::Version(0)));
    check(r#"{"lease":"0"}"#, Some(TargetUnion::Lease(0)));
    check(r#"{"value":""}"#, Some(TargetUnion::Value(Bytes::new())));
    check(r#"{"version":0,"value":null}"#, Some(TargetUnion::Version(0)));
}

#[test]
fn lists_keep_their_zeros() {
    let check = |json: &str, expected: Result<usize, &str>| {
        let found = txn(json).map(|txn| txn.success.len());
        assert_eq!(found, expected.map_err(|text| format!("proto: {text}")), "{json}");
    };
    check(r#"{"success":null}"#, Ok(0));
    check(r#"{"success":[]}"#, Ok(0));
    check(r#"{"success":[{},{}]}"#, Ok(2));
    check(r#"{"success":[null]}"#, Err("syntax error (line 1:13): unexpected token null"));
    check(r#"{"success":{}}"#, Err("syntax error (line 1:12): unexpected token {"));
    check(r#"{"success":[1]}"#, Err("syntax error (line 1:13): unexpected token 1"));
    check(r#"{"success":[[]]}"#, Err("syntax error (line 1:13): unexpected token ["));
    let json = br#"{"create_request":{"filters":["NOPUT",1,"BAD",7]}}"#;
    let bytes = encode(message("etcdserverpb.WatchRequest"), json).unwrap();
    let watch = pb::WatchRequest::decode(&bytes[..]).unwrap();
    let Some(pb::watch_request::RequestUnion::CreateRequest(create)) = watch.request_union else {
        panic!("{watch:?}")
    };
    assert_eq!(create.filters, [0, 1, 7]);
    let bytes = encode(message("etcdserverpb.MemberAddRequest"), br#"{"peerURLs":["","a"]}"#);
    let add = pb::MemberAddRequest::decode(&bytes.unwrap()[..]).unwrap();
    assert_eq!(add.peer_ur_ls, ["", "a"]);
}

/// The JSON of a transaction nested in `depth` others; `inside` is the innermost one's content.
fn nested(depth: usize, inside: &str) -> String {
    let open = r#"{"success":[{"request_txn":"#.repeat(depth);
    [&open, inside, &"}]}".repeat(depth)].concat()
}

#[test]
fn messages_within_each_other_are_bounded_as_in_prost() {
    assert_eq!(MESSAGE_DEPTH_MAX, 100);
    assert!(txn(&nested(50, "{}")).is_ok());
    let error = Err("proto: exceeded max recursion depth".to_string());
    assert_eq!(txn(&nested(51, "{}")), error);
    assert_eq!(txn(&nested(50, r#"{"compare":[{}]}"#)), error);
    assert_eq!(txn(&nested(100_000, "{}")), error);
}

#[test]
fn prost_decodes_what_the_gateway_encodes_and_no_more() {
    let decoded = |depth: usize| {
        let mut txn = pb::TxnRequest::default();
        for _ in 0..depth {
            let request = Some(Request::RequestTxn(txn));
            let success = vec![pb::RequestOp { request }];
            txn = pb::TxnRequest { success, ..Default::default() };
        }
        pb::TxnRequest::decode(&txn.encode_to_vec()[..])
    };
    assert!(decoded(50).is_ok());
    assert!(decoded(51).is_err());
    assert_eq!(txn(&nested(50, "{}")), Ok(decoded(50).unwrap()));
}

#[test]
fn long_and_short_messages_have_their_length_in_front() {
    for len in [0, 1, 126, 127, 128, 20_000] {
        let text = "A".repeat(len / 3 * 4);
        let json =
            format!(r#"{{"success":[{{"request_put":{{"key":"Zm9v","value":"{text}"}}}}]}}"#);
        let found = txn(&json).unwrap();
        let Some(Request::RequestPut(put)) = &found.success[0].request else { panic!() };
        assert_eq!(put.value.len(), len / 3 * 3);
    }
}

#[test]
fn the_table_has_what_the_reader_assumes() {
    for message in &MESSAGES {
        assert!(message.fields.len() < 64, "{}", message.name);
        let mut oneofs: Vec<_> = message.fields.iter().filter_map(|field| field.oneof).collect();
        oneofs.dedup();
        assert!(oneofs.len() < 2, "{}", message.name);
    }
}

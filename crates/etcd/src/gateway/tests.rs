use prost::Message;

use super::*;
use crate::Error;
use crate::pb::etcdserverpb as pb;

fn put() -> &'static GatewayMethod {
    route("POST", "/v3/kv/put").expect("it is a path of etcd")
}

#[test]
fn a_request_is_the_first_value_of_its_body() {
    let check = |body: &str, expected: Result<&'static str, &str>| {
        let found = put()
            .request(body.as_bytes())
            .map(|bytes| pb::PutRequest::decode(&bytes[..]).expect("it is a message").key);
        assert_eq!(found.map_err(|error| error.0), expected.map(Into::into).map_err(Into::into));
    };
    check("", Ok(""));
    check(" \n", Ok(""));
    check("{}", Ok(""));
    check(r#" {"key":"Zm9v"} trailing"#, Ok("foo"));
    check(r#"{"key":"Zm9v"}{"key":"YmFy"}"#, Ok("foo"));
    check("garbage", Err("invalid character 'g' looking for beginning of value"));
    check("12", Err("proto: syntax error (line 1:1): unexpected token 12"));
    check(" null", Err("proto: syntax error (line 1:1): unexpected token null"));
    check(r#"{"key""#, Err("unexpected EOF"));
}

#[test]
fn two_million_brackets_are_refused() {
    for open in ["[", "{\"x\":", "{\"success\":[{\"request_txn\":"] {
        let body = open.repeat(1_572_864 / open.len());
        let error = put().request(body.as_bytes()).unwrap_err();
        assert!(error.0.ends_with("exceeded max depth"), "{error}");
    }
}

#[test]
fn a_response_is_one_object() {
    let message = pb::PutResponse {
        header: Some(pb::ResponseHeader { revision: 2, ..Default::default() }),
        prev_kv: None,
    };
    let message = message.encode_to_vec();
    let json = r#"{"header":{"revision":"2"}}"#;
    assert_eq!(put().response(&message).as_deref(), Ok(json));
    assert_eq!(put().streamed_response(&message), Ok(format!("{{\"result\":{json}}}\n")));
    assert_eq!(put().response(&[1]), Err(BadMessage));
}

#[test]
fn an_error_has_its_text_for_old_and_new_clients() {
    let body = error_body(Error::EmptyKey.code(), Error::EmptyKey.text());
    let expected = r#"{"error":"etcdserver: key is not provided","code":3,"message":"etcdserver: key is not provided"}"#;
    assert_eq!(body, expected);
    assert_eq!(error_body(Code::Unknown, "a\"b"), r#"{"error":"a\"b","code":2,"message":"a\"b"}"#);
    let line = streamed_error(Code::Unavailable, "etcdserver: no leader");
    let expected =
        r#"{"error":{"code":14,"message":"etcdserver: no leader","grpc_code":14,"http_code":503}}"#;
    assert_eq!(line, format!("{expected}\n"));
}

#[test]
fn codes_have_the_statuses_of_the_gateway() {
    let check = |code: Code, status: u16| assert_eq!(http_status(code), status, "{code:?}");
    check(Code::Ok, 200);
    check(Code::Cancelled, 499);
    check(Code::Unknown, 500);
    check(Code::InvalidArgument, 400);
    check(Code::DeadlineExceeded, 504);
    check(Code::NotFound, 404);
    check(Code::AlreadyExists, 409);
    check(Code::PermissionDenied, 403);
    check(Code::ResourceExhausted, 429);
    check(Code::FailedPrecondition, 400);
    check(Code::Aborted, 409);
    check(Code::OutOfRange, 400);
    check(Code::Unimplemented, 501);
    check(Code::Internal, 500);
    check(Code::Unavailable, 503);
    check(Code::DataLoss, 500);
    check(Code::Unauthenticated, 401);
}

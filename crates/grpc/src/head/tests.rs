//! Tests of request headers. The expected answers to refused requests are those of grpc-go 1.83.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use hyper::Request;

use super::*;
use crate::Method as Entry;

const PATH: &str = "/etcdserverpb.KV/Put";
const GRPC: (&str, &str) = ("content-type", "application/grpc");

fn kept() -> KeptValues {
    KeptValues::new(&Arc::new(tokio::sync::Semaphore::new(0)))
}

fn limits() -> Limits {
    let metadata_keys = &["token", "trace-bin"];
    Limits { takes_gzip: false, metadata_keys, ..crate::tests::limits() }
}

fn methods() -> Methods<u8> {
    let service = "etcdserverpb.KV";
    Methods::new([Entry { service, name: "Put", kind: Kind::Unary, method: 7 }], false)
}

fn parts(method: &str, uri: &str, headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

/// The HTTP status, the gRPC status and the message that a refused request gets.
fn refused(method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, String, String) {
    let uri = format!("http://localhost{path}");
    let response = read(parts(method, &uri, headers), &methods(), &limits(), &kept()).unwrap_err();
    let header = |name: &str| {
        let value = response.headers().get(name);
        value.map_or(String::new(), |value| value.to_str().unwrap().to_string())
    };
    (response.status().as_u16(), header("grpc-status"), header("grpc-message"))
}

fn opened(headers: &[(&str, &str)]) -> Head<u8> {
    read(parts("POST", &format!("http://localhost{PATH}"), headers), &methods(), &limits(), &kept())
        .unwrap()
}

#[track_caller]
fn check(actual: (u16, String, String), expected: (u16, &str, &str)) {
    assert_eq!((actual.0, &actual.1[..], &actual.2[..]), expected);
}

#[test]
fn a_head_names_its_method() {
    for content_type in ["application/grpc", "application/grpc+proto", "application/grpc;a=b"] {
        let head = opened(&[("content-type", content_type), ("grpc-encoding", "identity")]);
        assert_eq!((head.method, head.kind, head.deadline.at()), (7, Kind::Unary, None));
        // The response has the media type of the request.
        assert_eq!(head.content_type, content_type);
    }
}

#[test]
fn wrong_heads_are_answered_as_grpc_go_does() {
    check(
        refused("POST", PATH, &[("content-type", "text/html")]),
        (415, "3", r#"invalid gRPC request content-type "text/html""#),
    );
    check(refused("POST", PATH, &[]), (415, "3", r#"invalid gRPC request content-type """#));
    let other = [("content-type", "application/grpcx")];
    check(
        refused("POST", PATH, &other),
        (415, "3", r#"invalid gRPC request content-type "application/grpcx""#),
    );
    check(
        refused("GET", PATH, &[GRPC]),
        (405, "13", r#"Received a HEADERS frame with :method "GET" which should be POST"#),
    );
    check(refused("POST", "/a.B/C", &[GRPC]), (200, "12", "unknown service a.B"));
    check(
        refused("POST", "/etcdserverpb.KV/Pat", &[GRPC]),
        (200, "12", "unknown method Pat for service etcdserverpb.KV"),
    );
    check(refused("POST", "/Put", &[GRPC]), (200, "12", r#"malformed method name: "/Put""#));
    check(
        refused("POST", PATH, &[GRPC, ("grpc-encoding", "gzip")]),
        (200, "12", r#"grpc: Decompressor is not installed for grpc-encoding "gzip""#),
    );
    let response = read(parts("POST", PATH, &[GRPC]), &methods(), &limits(), &kept()).unwrap_err();
    assert_eq!(response.status().as_u16(), 400);
    assert_eq!(response.headers()["grpc-message"], "no host or :authority header present");
}

#[test]
fn timeouts_are_up_to_eight_digits_and_a_unit() {
    for (text, expected) in [
        ("1H", Duration::from_secs(3600)),
        ("2M", Duration::from_secs(120)),
        ("99999999S", Duration::from_secs(99_999_999)),
        ("10m", Duration::from_millis(10)),
        ("7u", Duration::from_micros(7)),
        ("0n", Duration::ZERO),
    ] {
        assert_eq!(parse_timeout(text), Ok(expected), "{text}");
    }
    for (text, expected) in [
        ("", r#"transport: timeout string is too short: """#),
        ("S", r#"transport: timeout string is too short: "S""#),
        ("123456789S", r#"transport: timeout string is too long: "123456789S""#),
        ("1s", r#"transport: timeout unit is not recognized: "1s""#),
        ("+1S", r#"strconv.ParseUint: parsing "+1": invalid syntax"#),
        ("1\u{e9}", r#"transport: timeout unit is not recognized: "1é""#),
    ] {
        assert_eq!(parse_timeout(text), Err(expected.to_string()), "{text}");
    }
}

#[test]
fn timeouts_of_heads_are_deadlines_or_refused() {
    assert!(opened(&[GRPC, ("grpc-timeout", "99999999H")]).deadline.at().is_some());
    check(
        refused("POST", PATH, &[GRPC, ("grpc-timeout", "1x")]),
        (400, "13", r#"malformed grpc-timeout: transport: timeout unit is not recognized: "1x""#),
    );
    check(
        refused("POST", PATH, &[GRPC, ("grpc-timeout", "0n")]),
        (200, "4", "context deadline exceeded"),
    );
}

#[test]
fn the_first_of_metadata_is_kept_and_binary_ones_are_well_formed() {
    let head = opened(&[
        GRPC,
        ("token", "one"),
        ("token", "two"),
        ("trace-bin", "AAEC/w=="),
        // Without padding; two values in one; with bits set behind the last byte.
        ("trace-bin", "AAEC/w"),
        ("trace-bin", "AQ==, Ag"),
        ("trace-bin", "AR"),
    ]);
    assert_eq!(head.metadata.text("token"), Some("one"));
    assert_eq!(head.metadata.text("none"), None);
    assert_eq!(head.metadata.text("trace-bin"), Some("AAEC/w=="));
    check(
        refused("POST", PATH, &[GRPC, ("trace-bin", "A*")]),
        (
            400,
            "13",
            r#"malformed binary metadata "A*" in header "trace-bin": illegal base64 data at input byte 1"#,
        ),
    );
}

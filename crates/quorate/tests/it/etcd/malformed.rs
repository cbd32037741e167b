//! Sends malformed calls, and expects the answers that etcd 3.6.16 gives on its port without TLS.
//!
//! With `QUORATE_REAL_ETCD=HOST:PORT`, the table is run against the server at that address, which
//! must be a fresh etcd, and not against ours.

use std::io::Write;
use std::net::SocketAddr;

use bytes::Bytes;
use etcd::pb::Message;
use etcd::pb::etcdserverpb as pb;
use etcd::pb::health::{HealthCheckRequest, HealthCheckResponse};
use flate2::Compression;
use flate2::write::GzEncoder;
use h2::client::SendRequest;
use hyper::header::{HeaderName, HeaderValue};
use hyper::{Method, Request};

use super::ETCD;
use super::grpc_client::{call, connect, framed, head, open, run, soon};
use crate::server::Server;

const RANGE: &str = "/etcdserverpb.KV/Range";
const PUT: &str = "/etcdserverpb.KV/Put";
const CHECK: &str = "/grpc.health.v1.Health/Check";
const WATCH: &str = "/grpc.health.v1.Health/Watch";
const LIST: &str = "/grpc.health.v1.Health/List";

/// A call with its expected answer: the HTTP status, `grpc-status` and `grpc-message`. A `*` at the
/// end matches any text.
struct Row {
    head: Request<()>,
    body: Bytes,
    expected: String,
}

fn row(head: Request<()>, body: impl Into<Bytes>, expected: &str) -> Row {
    Row { head, body: body.into(), expected: expected.to_string() }
}

fn with(mut head: Request<()>, name: &str, value: &[u8]) -> Request<()> {
    let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
    head.headers_mut().insert(name, HeaderValue::from_bytes(value).unwrap());
    head
}

fn range() -> Bytes {
    framed(&pb::RangeRequest { key: "absent".into(), ..Default::default() }.encode_to_vec())
}

fn put_of(value_bytes: usize) -> Bytes {
    let value = vec![0; value_bytes].into();
    framed(&pb::PutRequest { key: "k".into(), value, ..Default::default() }.encode_to_vec())
}

fn check_of(service: &str) -> Bytes {
    framed(&HealthCheckRequest { service: service.to_string() }.encode_to_vec())
}

/// The prefix of a message, with any flag and length.
fn prefix(flag: u8, length: u32) -> Vec<u8> {
    [&[flag][..], &length.to_be_bytes()].concat()
}

fn messages() -> Vec<Row> {
    let of_range = |body: Vec<u8>, expected| row(head(RANGE), body, expected);
    let short = prefix(0, 10);
    vec![
        of_range(range().to_vec(), "200 0 "),
        of_range(prefix(0, 0), "200 3 etcdserver: key is not provided"),
        of_range(framed(b"\xff\xff").to_vec(), "200 13 grpc: error unmarshalling request: *"),
        of_range(vec![], "200 2 EOF"),
        of_range(short[..3].to_vec(), "200 2 EOF"),
        of_range([&short[..], b"abc"].concat(), "200 2 unexpected EOF"),
        of_range([&range()[..], b"behind it"].concat(), "200 0 "),
        of_range([&range()[..], &range()[..]].concat(), "200 0 "),
        of_range(
            [&prefix(1, 3)[..], b"abc"].concat(),
            "200 13 grpc: compressed flag set with identity or empty encoding",
        ),
        of_range(
            [&prefix(2, 3)[..], b"abc"].concat(),
            "200 13 grpc: received unexpected payload format 2",
        ),
        of_range(
            prefix(0, u32::MAX),
            "200 8 grpc: received message larger than max (4294967295 vs. 2097152)",
        ),
        of_range(
            prefix(0, 2_097_153),
            "200 8 grpc: received message larger than max (2097153 vs. 2097152)",
        ),
        row(head(PUT), put_of(1_572_800), "200 0 "),
        row(head(PUT), put_of(1_572_900), "200 3 etcdserver: request is too large"),
        row(head(PUT), put_of(2_097_100), "200 3 etcdserver: request is too large"),
        row(
            head(PUT),
            put_of(2_097_150),
            "200 8 grpc: received message larger than max (2097157 vs. 2097152)",
        ),
    ]
}

fn heads() -> Vec<Row> {
    let of = |name: &str, value: &str, expected| {
        row(with(head(RANGE), name, value.as_bytes()), range(), expected)
    };
    let to = |path: &str, expected| row(head(path), range(), expected);
    let mut get = head(RANGE);
    *get.method_mut() = Method::GET;
    let mut without_type = head(RANGE);
    without_type.headers_mut().remove("content-type");
    let mut without_te = head(RANGE);
    without_te.headers_mut().remove("te");
    vec![
        to("/etcdserverpb.KV/Nothing", "200 12 unknown method Nothing for service etcdserverpb.KV"),
        to("/etcdserverpb.Nothing/Range", "200 12 unknown service etcdserverpb.Nothing"),
        to("/a/b/c", "200 12 unknown service a/b"),
        to("/nothing", "200 12 malformed method name: \"/nothing\""),
        to("/", "200 12 malformed method name: \"/\""),
        to("/etcdserverpb.KV/", "200 12 unknown method  for service etcdserverpb.KV"),
        row(
            get,
            range(),
            "405 13 Received a HEADERS frame with :method \"GET\" which should be POST",
        ),
        row(without_te, range(), "200 0 "),
        row(without_type, range(), "415 3 invalid gRPC request content-type \"\""),
        of("content-type", "text/plain", "415 3 invalid gRPC request content-type \"text/plain\""),
        of(
            "content-type",
            "application/json",
            "415 3 invalid gRPC request content-type \"application/json\"",
        ),
        of(
            "content-type",
            "application/grpc-web",
            "415 3 invalid gRPC request content-type \"application/grpc-web\"",
        ),
        of("content-type", "application/grpc+proto", "200 0 "),
        of("content-type", "application/grpc+json", "200 0 "),
        of("content-type", "application/grpc;x=y", "200 0 "),
        of("grpc-encoding", "identity", "200 0 "),
        of("grpc-encoding", "", "200 0 "),
        of(
            "grpc-encoding",
            "snappy",
            "200 12 grpc: Decompressor is not installed for grpc-encoding \"snappy\"",
        ),
        of(
            "x-bin",
            "!!!",
            "400 13 malformed binary metadata \"!!!\" in header \"x-bin\": \
             illegal base64 data at input byte 0",
        ),
        of("x-bin", "AAA", "200 0 "),
        row(with(head(RANGE), "x", b"\xff\xfe"), range(), "200 0 "),
    ]
}

fn timeouts() -> Vec<Row> {
    let of = |value: &str, expected: &str| {
        row(with(head(RANGE), "grpc-timeout", value.as_bytes()), range(), expected)
    };
    let malformed =
        |value: &str, why: &str| of(value, &format!("400 13 malformed grpc-timeout: {why}"));
    vec![
        of("10S", "200 0 "),
        of("99999999H", "200 0 "),
        of("0n", "200 4 context deadline exceeded"),
        of("1n", "200 4 context deadline exceeded"),
        malformed("", "transport: timeout string is too short: \"\""),
        malformed("5", "transport: timeout string is too short: \"5\""),
        malformed("S", "transport: timeout string is too short: \"S\""),
        malformed("abc", "transport: timeout unit is not recognized: \"abc\""),
        malformed("1x", "transport: timeout unit is not recognized: \"1x\""),
        malformed("+1S", "strconv.ParseUint: parsing \"+1\": invalid syntax"),
        malformed("-1S", "strconv.ParseUint: parsing \"-1\": invalid syntax"),
        malformed(" 1S", "strconv.ParseUint: parsing \" 1\": invalid syntax"),
        malformed("1.5S", "strconv.ParseUint: parsing \"1.5\": invalid syntax"),
        malformed("100000000H", "transport: timeout string is too long: \"100000000H\""),
    ]
}

fn health() -> Vec<Row> {
    vec![
        row(head(CHECK), check_of(""), "200 0 "),
        row(head(CHECK), check_of("etcdserverpb.KV"), "200 5 unknown service"),
        row(head(CHECK), check_of("nothing"), "200 5 unknown service"),
        row(head(CHECK), framed(&[0x0a, 1, 0xff]), "200 13 grpc: error unmarshalling request: *"),
        row(head(LIST), framed(&[]), "200 0 "),
        row(head(WATCH), framed(&[0x0a]), "200 13 grpc: *"),
        row(
            head(WATCH),
            prefix(0, 3)[..2].to_vec(),
            "200 13 cardinality violation: received no request message from \
             non-client-streaming RPC",
        ),
        row(head(WATCH), prefix(0, 3), "200 13 unexpected EOF"),
        row(head(WATCH), [&check_of("")[..], &prefix(0, 3)].concat(), "200 13 unexpected EOF"),
        row(
            head(WATCH),
            Bytes::new(),
            "200 13 cardinality violation: received no request message from \
             non-client-streaming RPC",
        ),
        row(
            head(WATCH),
            [check_of(""), check_of("")].concat(),
            "200 13 cardinality violation: received multiple request messages for \
             non-client-streaming RPC",
        ),
    ]
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A message whose prefix says that it is compressed.
fn compressed(bytes: &[u8]) -> Vec<u8> {
    [&prefix(1, bytes.len() as u32)[..], bytes].concat()
}

fn gzip() -> Vec<Row> {
    let of =
        |body: Vec<u8>, expected| row(with(head(PUT), "grpc-encoding", b"gzip"), body, expected);
    let put = &put_of(100)[5..];
    let whole = gzipped(put);
    let in_two = [gzipped(&put[..50]), gzipped(&put[50..])].concat();
    let mut wrong_sum = whole.clone();
    let end = wrong_sum.len();
    wrong_sum[end - 8] ^= 1;
    let mut wrong_length = whole.clone();
    wrong_length[end - 1] ^= 1;
    let mut named = vec![0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 3];
    named.extend_from_slice(b"name\0");
    named.extend_from_slice(&whole[10..]);
    vec![
        of(put_of(100).to_vec(), "200 0 "),
        of(compressed(&whole), "200 0 "),
        of(compressed(&in_two), "200 0 "),
        of(compressed(&named), "200 0 "),
        of(compressed(&gzipped(&put_of(1_572_800)[5..])), "200 0 "),
        of(compressed(&gzipped(&put_of(1_572_900)[5..])), "200 3 etcdserver: request is too large"),
        of(compressed(&gzipped(&put_of(2_097_141)[5..])), "200 3 etcdserver: request is too large"),
        of(
            compressed(&gzipped(&vec![0; 2_097_153])),
            "200 8 grpc: received message after decompression larger than max 2097152",
        ),
        of(
            compressed(&gzipped(&vec![0; 1_000_000_000])),
            "200 8 grpc: received message after decompression larger than max 2097152",
        ),
        of(compressed(b""), "200 13 grpc: failed to decompress the message: EOF"),
        of(compressed(b"\x1f\x8b"), "200 13 grpc: failed to decompress the message: *"),
        of(compressed(b"no gzip at all"), "200 13 grpc: failed to decompress the message: *"),
        of(compressed(&whole[..9]), "200 13 grpc: failed to decompress the message: *"),
        of(
            compressed(&whole[..whole.len() - 9]),
            "200 13 grpc: failed to read decompressed data: *",
        ),
        of(
            compressed(&whole[..whole.len() - 1]),
            "200 13 grpc: failed to read decompressed data: *",
        ),
        of(compressed(&wrong_sum), "200 13 grpc: failed to read decompressed data: *"),
        of(compressed(&wrong_length), "200 13 grpc: failed to read decompressed data: *"),
        of(
            compressed(&[&whole[..], b"behind"].concat()),
            "200 13 grpc: failed to read decompressed data: *",
        ),
        of(compressed(&gzipped(b"\xff\xff")), "200 13 grpc: error unmarshalling request: *"),
        of(compressed(&gzipped(b"")), "200 3 etcdserver: key is not provided"),
        of(
            [&prefix(2, 3)[..], b"abc"].concat(),
            "200 13 grpc: received unexpected payload format 2",
        ),
        row(
            with(head(PUT), "grpc-encoding", b"GZIP"),
            compressed(&whole),
            "200 12 grpc: Decompressor is not installed for grpc-encoding \"GZIP\"",
        ),
    ]
}

async fn answer(requests: &SendRequest<Bytes>, row: &Row) -> String {
    let request = row.head.clone();
    match soon(call(requests, request, row.body.clone())).await {
        Ok(answer) => {
            let (code, text) = answer.status();
            format!("{} {code} {text}", answer.http)
        }
        Err(error) => format!("{error}"),
    }
}

fn run_table(rows: &[Row], address: SocketAddr) {
    run(async {
        let requests = connect(address).await;
        let mut wrong = Vec::new();
        for row in rows {
            let found = answer(&requests, row).await;
            let is_right = match row.expected.strip_suffix('*') {
                Some(start) => found.starts_with(start),
                None => found == row.expected,
            };
            if !is_right {
                let value = row.head.headers();
                wrong.push(format!("{} {value:?}\n  {}\n  {found}", row.head.uri(), row.expected));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    });
}

#[test]
fn malformed_calls_are_answered_as_by_etcd() {
    let rows: Vec<Row> =
        [messages(), heads(), timeouts(), gzip(), health()].into_iter().flatten().collect();
    match std::env::var("QUORATE_REAL_ETCD") {
        Ok(address) => run_table(&rows, address.parse().unwrap()),
        Err(_) => run_table(&rows, Server::start("etcd-malformed", &[ETCD]).face("etcd")),
    }
}

#[test]
fn the_health_of_the_server_is_watched_until_the_client_goes() {
    let server = Server::start("etcd-health", &[ETCD]);
    run(async {
        let requests = connect(server.face("etcd")).await;
        for (service, expected) in [("", 1), ("nothing", 3)] {
            let watch = open(&requests, head(WATCH), check_of(service));
            let mut body = soon(watch).await.unwrap().into_body();
            let message = soon(body.data()).await.unwrap().unwrap();
            let response = HealthCheckResponse::decode(&message[5..]).unwrap();
            assert_eq!(response.status, expected);
            let more = tokio::time::timeout(std::time::Duration::from_millis(100), body.data());
            assert!(more.await.is_err(), "the stream stays open");
        }
    });
}

//! Tests of the crate over an in-memory connection, with an HTTP/2 client that may misbehave.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use flate2::Compression;
use flate2::write::GzEncoder;
use grpc_code::Code;
use h2::client::{ResponseFuture, SendRequest};
use h2::{Reason, RecvStream, SendStream};
use hyper::header::HeaderMap;
use hyper::{Request, Response};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::{Semaphore, mpsc};

use super::credits::Credits;
use super::*;

const MESSAGE_BYTES_MAX: usize = 100_000;
const STREAMS_MAX: u32 = 1_200;
const SHARE_BYTES: usize = 64 << 20;

/// How long a test waits for something that must come; the test fails when it is reached.
const PATIENCE: Duration = Duration::from_secs(30);

async fn soon<T>(what: &str, it: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, it).await.unwrap_or_else(|_| panic!("{what} does not come"))
}

/// The methods of the face in these tests.
#[derive(Clone, Copy, Debug)]
enum Does {
    /// Answers each message with the same message.
    Echo,
    /// Answers the count of all bytes of all messages.
    Count,
    /// Sends the request's message again and again until the client is gone.
    Flood,
    /// Ends with the code that is the message's first byte.
    Status,
    /// Answers the metadata `name` and `name-bin`.
    Metadata,
    /// Waits for ever.
    Wait,
    /// Answers one message, made in pieces, of as many bytes as the request says.
    Large,
}

const METHODS: [Method<Does>; 7] = [
    method("Echo", Kind::BidiStreaming, Does::Echo),
    method("Count", Kind::ClientStreaming, Does::Count),
    method("Flood", Kind::ServerStreaming, Does::Flood),
    method("Status", Kind::Unary, Does::Status),
    method("Metadata", Kind::Unary, Does::Metadata),
    method("Wait", Kind::Unary, Does::Wait),
    method("Large", Kind::Unary, Does::Large),
];

const fn method(name: &'static str, kind: Kind, method: Does) -> Method<Does> {
    Method { service: "test.Test", name, kind, method }
}

/// A server, and what its handlers report.
struct Rig {
    server: Arc<Server<Does>>,
    shares: Shares,
    /// How many messages Flood has handed over, or how many bytes Large has made.
    flooded: Arc<AtomicUsize>,
    ends: mpsc::Receiver<End>,
    end_sender: mpsc::Sender<End>,
}

pub(super) fn limits() -> Limits {
    Limits {
        message_bytes_max: MESSAGE_BYTES_MAX,
        takes_gzip: false,
        header_bytes_max: 64 * 1024,
        web_header_bytes_max: 0,
        metadata_keys: &["name", "name-bin"],
        metadata_prefix: "",
        streams_max: STREAMS_MAX,
        stream_window_bytes: 65_535,
        connection_window_bytes: 65_535,
        frame_bytes_max: 16_384,
        frames_overhead_bytes_max: 256 * 1024,
        send_bytes_max: 1024 * 1024,
        handshake_time_max: PATIENCE,
        connection_idle_time: None,
        pings: None,
        patience: Patience {
            stall_time: PATIENCE,
            waited_time: PATIENCE,
            finish_time: PATIENCE,
            first_time: None,
            idle_time: None,
        },
    }
}

fn run<F: Future<Output = ()>>(test: impl FnOnce(Rig) -> F) {
    run_with(limits(), None, test);
}

fn run_with<F: Future<Output = ()>>(
    limits: Limits,
    credits: Option<Arc<Credits>>,
    test: impl FnOnce(Rig) -> F,
) {
    let windows = Arc::new(Semaphore::new(16));
    let (methods, limits) = (Methods::new(METHODS, false), Arc::new(limits));
    let long_headers = Arc::new(Semaphore::new(LONG_HEADERS_MAX));
    let metadata_bytes = Arc::new(Semaphore::new(KEPT_BYTES_MAX));
    let server = Server { methods, limits, windows, long_headers, metadata_bytes, credits };
    let (end_sender, ends) = mpsc::channel(16);
    let shares = Arc::new([SHARE_BYTES; 3].map(Share::new));
    let flooded = Arc::default();
    let rig = Rig { server: Arc::new(server), shares, flooded, ends, end_sender };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(test(rig));
}

impl Rig {
    /// A new connection to the server: the client's end of the socket.
    fn socket(&self) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (server, shares) = (self.server.clone(), self.shares.clone());
        let (flooded, ends) = (self.flooded.clone(), self.end_sender.clone());
        let of_all = shares.clone();
        tokio::spawn(async move {
            let handle = move |call| {
                tokio::spawn(serve_call(call, (flooded.clone(), of_all.clone()), ends.clone()));
            };
            // The client of each test ends the connection, so the error does not matter.
            let shares = SharesBySize::of_all_sizes(shares);
            let _ = serve(theirs, &server, &shares, handle).await;
        });
        ours
    }

    async fn connect(&self) -> SendRequest<Bytes> {
        let (requests, connection) = h2::client::handshake(self.socket()).await.unwrap();
        tokio::spawn(connection);
        requests
    }
}

async fn serve_call(
    mut call: Box<Call<Does>>,
    (flooded, shares): (Arc<AtomicUsize>, Shares),
    ends: mpsc::Sender<End>,
) {
    let outcome = match call.method {
        Does::Echo => echo(&mut call).await,
        Does::Count => count(&mut call).await,
        Does::Flood => flood(&mut call, &flooded).await,
        Does::Status => status(&mut call).await,
        Does::Metadata => metadata(&mut call).await,
        Does::Wait => wait(&mut call).await,
        Does::Large => large(&mut call, &flooded, &shares).await,
    };
    if let Err(end @ (End::Gone | End::Status(Status { code: Code::DeadlineExceeded, .. }))) =
        &outcome
    {
        let told = match end {
            End::Gone => End::Gone,
            End::Status(status) => End::Status(status.clone()),
        };
        ends.send(told).await.unwrap();
    }
    call.finish(outcome);
}

async fn echo(call: &mut Call<Does>) -> Result<(), End> {
    while let Some(message) = call.requests.next().await? {
        let answer = framed(|out| out.extend_from_slice(&message.bytes))?;
        call.answers.send(answer, Some(message.room)).await?;
    }
    Ok(())
}

async fn count(call: &mut Call<Does>) -> Result<(), End> {
    let mut bytes = 0_u64;
    while let Some(message) = call.requests.next().await? {
        bytes += message.bytes.len() as u64;
    }
    call.answers.send(framed(|out| out.put_u64(bytes))?, None).await
}

async fn flood(call: &mut Call<Does>, flooded: &AtomicUsize) -> Result<(), End> {
    let message = call.requests.only().await?;
    loop {
        call.answers.taken().await?;
        call.answers.hand_over(framed(|out| out.extend_from_slice(&message.bytes))?, None);
        flooded.fetch_add(1, Ordering::Relaxed);
    }
}

/// The byte of a large answer at this offset.
fn byte_at(place: usize) -> u8 {
    (place % 251) as u8
}

async fn large(call: &mut Call<Does>, made: &Arc<AtomicUsize>, shares: &Shares) -> Result<(), End> {
    let message = call.requests.only().await?;
    let bytes: usize = std::str::from_utf8(&message.bytes).unwrap().parse().unwrap();
    let (made, mut place) = (made.clone(), 0);
    let encode = move |out: &mut Vec<u8>| {
        let end = bytes.min(place + 10_000);
        out.extend((place..end).map(byte_at));
        place = end;
        made.store(end, Ordering::Relaxed);
    };
    let answer = Outgoing::in_pieces(bytes, Box::new(encode))?;
    let mut room = Room::new(shares);
    room.grow_to(bytes).await;
    call.answers.send(answer, Some(room)).await
}

async fn status(call: &mut Call<Does>) -> Result<(), End> {
    let message = call.requests.only().await?;
    let code = Code::ALL[usize::from(message.bytes[0])];
    Err(Status::new(code, "100 % \u{e4}\n").into())
}

async fn metadata(call: &mut Call<Does>) -> Result<(), End> {
    call.requests.only().await?;
    let found = ["name", "name-bin"].into_iter().filter_map(|key| call.metadata.text(key));
    let text = found.collect::<Vec<_>>().join(" ");
    call.answers.send(framed(|out| out.extend_from_slice(text.as_bytes()))?, None).await
}

async fn wait(call: &mut Call<Does>) -> Result<(), End> {
    let message = call.requests.only().await?;
    // The request keeps its credit until this function ends.
    let _credit = message.credit;
    call.unless_ended(std::future::pending()).await
}

fn head(name: &str, headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::builder()
        .method("POST")
        .uri(format!("http://localhost/test.Test/{name}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

/// Opens a stream to a method.
async fn open(
    connection: &SendRequest<Bytes>,
    head: Request<()>,
) -> (ResponseFuture, SendStream<Bytes>) {
    let mut connection = connection.clone().ready().await.unwrap();
    connection.send_request(head, false).unwrap()
}

fn message(bytes: &[u8]) -> Bytes {
    framed(|out| out.extend_from_slice(bytes)).unwrap()
}

/// The answer that the client gets for a call.
#[derive(Debug, PartialEq)]
struct Outcome {
    http: u16,
    data: Bytes,
    /// The gRPC status and its message, in their form on the wire.
    status: Option<(u8, String)>,
}

impl Outcome {
    #[track_caller]
    fn assert_is(&self, http: u16, data: &[u8], code: Code, text: &str) {
        let status = Some((code as u8, text.to_string()));
        let data = Bytes::copy_from_slice(data);
        assert_eq!(*self, Outcome { http, data, status });
    }
}

async fn outcome(response: ResponseFuture) -> Outcome {
    outcome_of(soon("a response", response).await.unwrap()).await
}

async fn outcome_of(response: Response<RecvStream>) -> Outcome {
    let status = |headers: &HeaderMap| {
        let text = |name| headers.get(name).map_or("", |value| value.to_str().unwrap());
        let code = text("grpc-status").parse().ok();
        code.map(|code| (code, text("grpc-message").to_string()))
    };
    let (http, of_head) = (response.status().as_u16(), status(response.headers()));
    let mut body = response.into_body();
    let mut data = BytesMut::new();
    while let Some(frame) = soon("data", body.data()).await {
        let frame = frame.unwrap();
        body.flow_control().release_capacity(frame.len()).unwrap();
        data.extend_from_slice(&frame);
    }
    let trailers = soon("trailers", body.trailers()).await.unwrap();
    let status = trailers.as_ref().map_or(of_head, status);
    Outcome { http, data: data.freeze(), status }
}

/// Makes a call that sends these bytes and ends its stream.
async fn exchange(connection: &SendRequest<Bytes>, head: Request<()>, bytes: Bytes) -> Outcome {
    let (response, mut stream) = open(connection, head).await;
    stream.send_data(bytes, true).unwrap();
    outcome(response).await
}

#[track_caller]
fn assert_gone(end: Option<End>) {
    assert_eq!(end, Some(End::Gone));
}

#[test]
fn every_status_code_comes_with_its_message() {
    run(|rig| async move {
        let connection = rig.connect().await;
        for (number, code) in (0_u8..).zip(Code::ALL) {
            assert_eq!(code as u8, number);
            let outcome = exchange(&connection, head("Status", &[]), message(&[number])).await;
            outcome.assert_is(200, b"", code, "100 %25 %C3%A4%0A");
        }
    });
}

#[test]
fn each_kind_of_call_is_answered() {
    run(|rig| async move {
        let connection = rig.connect().await;
        let two: Bytes = [message(b"one"), message(b"two")].concat().into();
        // Both messages come in one frame.
        let echoed = exchange(&connection, head("Echo", &[]), two.clone()).await;
        echoed.assert_is(200, &two, Code::Ok, "");
        let counted = exchange(&connection, head("Count", &[]), two).await;
        counted.assert_is(200, &message(&6_u64.to_be_bytes()), Code::Ok, "");
        let none = exchange(&connection, head("Echo", &[]), Bytes::new()).await;
        none.assert_is(200, b"", Code::Ok, "");
    });
}

#[test]
fn one_message_is_answered_before_the_client_says_that_it_was_the_last() {
    run(|rig| async move {
        let connection = rig.connect().await;
        let (response, mut stream) = open(&connection, head("Metadata", &[])).await;
        stream.send_data(message(b""), false).unwrap();
        outcome(response).await.assert_is(200, &message(b""), Code::Ok, "");
    });
}

/// The statuses are those of etcd 3.6.16.
#[test]
fn calls_of_one_message_are_refused_without_it_and_with_two() {
    run(|rig| async move {
        let connection = rig.connect().await;
        let (none, two) = (Bytes::new(), Bytes::from([message(b""), message(b"")].concat()));
        let unary = exchange(&connection, head("Status", &[]), none.clone()).await;
        unary.assert_is(200, b"", Code::Unknown, "EOF");
        let cut = exchange(&connection, head("Status", &[]), message(b"a").slice(..5)).await;
        cut.assert_is(200, b"", Code::Unknown, "unexpected EOF");
        let unary = exchange(&connection, head("Metadata", &[]), two.clone()).await;
        unary.assert_is(200, &message(b""), Code::Ok, "");
        for (bytes, what) in
            [(none, "no request message from"), (two, "multiple request messages for")]
        {
            let stream = exchange(&connection, head("Flood", &[]), bytes).await;
            let text = format!("cardinality violation: received {what} non-client-streaming RPC");
            stream.assert_is(200, b"", Code::Internal, &text);
        }
    });
}

#[test]
fn messages_arrive_however_they_are_cut_into_frames() {
    run(|rig| async move {
        let connection = rig.connect().await;
        let bytes: Bytes = [message(b"hello"), message(b""), message(b"ok")].concat().into();
        for first in 0..=bytes.len() {
            let (response, mut stream) = open(&connection, head("Echo", &[])).await;
            stream.send_data(bytes.slice(..first), false).unwrap();
            // The server reads the first part before the rest comes.
            tokio::task::yield_now().await;
            stream.send_data(bytes.slice(first..), true).unwrap();
            outcome(response).await.assert_is(200, &bytes, Code::Ok, "");
        }
        let (response, mut stream) = open(&connection, head("Echo", &[])).await;
        for byte in bytes.chunks(1) {
            stream.send_data(Bytes::copy_from_slice(byte), false).unwrap();
        }
        stream.send_data(Bytes::new(), true).unwrap();
        outcome(response).await.assert_is(200, &bytes, Code::Ok, "");
    });
}

#[test]
fn messages_larger_than_windows_and_frames_pass() {
    run(|rig| async move {
        let connection = rig.connect().await;
        let bytes = message(&vec![7; MESSAGE_BYTES_MAX]);
        let (response, mut stream) = open(&connection, head("Echo", &[])).await;
        stream.send_data(bytes.clone(), true).unwrap();
        outcome(response).await.assert_is(200, &bytes, Code::Ok, "");
    });
}

#[test]
fn what_is_wrong_with_a_message_ends_its_stream_alone() {
    run(|rig| async move {
        let connection = rig.connect().await;
        let cases: [(&[u8], Code, &str); 5] = [
            (
                // The message is announced but not sent.
                &[0, 0, 1, 0x86, 0xa1],
                Code::ResourceExhausted,
                "grpc: received message larger than max (100001 vs. 100000)",
            ),
            (
                &[1, 0, 0, 0, 0],
                Code::Internal,
                "grpc: compressed flag set with identity or empty encoding",
            ),
            (&[9, 0, 0, 0, 0], Code::Internal, "grpc: received unexpected payload format 9"),
            (&[0, 0, 0], Code::Internal, "unexpected EOF"),
            (&[0, 0, 0, 0, 3, 1, 2], Code::Internal, "unexpected EOF"),
        ];
        for (bytes, code, text) in cases {
            let bytes = Bytes::copy_from_slice(bytes);
            let outcome = exchange(&connection, head("Echo", &[]), bytes).await;
            outcome.assert_is(200, b"", code, text);
            let after = exchange(&connection, head("Echo", &[]), message(b"a")).await;
            after.assert_is(200, &message(b"a"), Code::Ok, "");
        }
    });
}

#[test]
fn heads_that_open_no_call_are_refused() {
    run(|rig| async move {
        let connection = rig.connect().await;
        let refused = exchange(&connection, head("None", &[]), message(b"a")).await;
        let text = "unknown method None for service test.Test";
        refused.assert_is(200, b"", Code::Unimplemented, text);
        let gzip = head("Echo", &[("grpc-encoding", "gzip")]);
        let refused = exchange(&connection, gzip, message(b"a")).await;
        let text = r#"grpc: Decompressor is not installed for grpc-encoding "gzip""#;
        refused.assert_is(200, b"", Code::Unimplemented, text);
        let timeout = head("Echo", &[("grpc-timeout", "1x")]);
        let refused = exchange(&connection, timeout, message(b"a")).await;
        let text = r#"malformed grpc-timeout: transport: timeout unit is not recognized: "1x""#;
        refused.assert_is(400, b"", Code::Internal, text);
    });
}

#[test]
fn a_client_is_told_which_encodings_it_may_use() {
    run(|rig| async move {
        let connection = rig.connect().await;
        let (response, _stream) =
            open(&connection, head("Echo", &[("grpc-encoding", "gzip")])).await;
        let response = soon("a response", response).await.unwrap();
        assert_eq!(response.headers()["grpc-accept-encoding"], "identity");
    });
}

#[test]
fn metadata_that_are_read_reach_the_handler() {
    run(|rig| async move {
        let connection = rig.connect().await;
        let long = "l".repeat(20_000);
        let others = (0..500).map(|number| format!("other-{number}")).collect::<Vec<_>>();
        let mut headers: Vec<(&str, &str)> = others.iter().map(|key| (&key[..], "v")).collect();
        headers.extend([("name-bin", "AAEC"), ("name-bin", "/w"), ("name", &long)]);
        let outcome = exchange(&connection, head("Metadata", &headers), message(b"")).await;
        let text = format!("{} AAEC", "l".repeat(16 * 1024));
        outcome.assert_is(200, &message(text.as_bytes()), Code::Ok, "");
        let headers = [("name", "\u{e9}"), ("name", "the first text"), ("name", "the second")];
        let outcome = exchange(&connection, head("Metadata", &headers), message(b"")).await;
        outcome.assert_is(200, &message(b"the first text"), Code::Ok, "");
    });
}

#[test]
fn large_values_that_calls_keep_have_a_bound_and_equal_ones_count_once() {
    let of_face = Arc::new(Semaphore::new(6 << 20));
    let left = || of_face.available_permits();
    let connection = KeptValues::new(&of_face);
    let token = "t".repeat(4_000);
    let same: Vec<Value> = (0..10_000).filter_map(|_| connection.keep(&token)).collect();
    assert_eq!((same.len(), left()), (10_000, (6 << 20) - 4_000));
    drop(same);
    assert_eq!(left(), 6 << 20, "nothing is kept without a call");
    let small: Vec<Value> =
        (0..10_000).filter_map(|at| connection.keep(&format!("{at:0256}"))).collect();
    assert_eq!((small.len(), left()), (10_000, 6 << 20));
    // Other values of one connection: at most 16 KiB of each, and 4 MiB of all.
    let other = |at: usize| format!("{at:04}{}", "o".repeat(20_000));
    let kept: Vec<Value> = (0..1_000).filter_map(|at| connection.keep(&other(at))).collect();
    assert_eq!((kept.len(), left()), (256, 2 << 20));
    // A second connection gets what is left.
    let second = KeptValues::new(&of_face);
    let of_second: Vec<Value> = (0..1_000).filter_map(|at| second.keep(&other(at))).collect();
    assert_eq!((of_second.len(), left()), (128, 0));
    assert!(second.keep("a small one").is_some());
    drop(kept);
    assert_eq!(left(), 4 << 20);
}

/// A block of headers in frames of 16,000 bytes: a HEADERS frame, then CONTINUATION frames.
fn block_frames(stream: u8, flags: u8, block: &[u8]) -> Vec<Vec<u8>> {
    let count = block.chunks(16_000).count();
    let parts = block.chunks(16_000).enumerate().map(|(number, part)| {
        let [_, high, middle, low] = (part.len() as u32).to_be_bytes();
        let kind = if number == 0 { 1 } else { 9 };
        let flags = if number == 0 { flags } else { 0 };
        let end = if number + 1 == count { 4 } else { 0 };
        [&[high, middle, low, kind, flags | end, 0, 0, 0, stream], part].concat()
    });
    parts.collect()
}

/// A connection whose client has sent the preface and its settings.
async fn begun(rig: &Rig) -> DuplexStream {
    let mut socket = rig.socket();
    let start = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    socket.write_all(start).await.unwrap();
    socket
}

/// Reads until this many streams have ended.
async fn wait_ended(socket: &mut DuplexStream, count: usize) {
    let mut ended = 0;
    while ended < count {
        let mut head = [0; 9];
        soon("a frame", socket.read_exact(&mut head)).await.unwrap();
        let mut payload = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
        socket.read_exact(&mut payload).await.unwrap();
        assert!(head[3] != 7, "{payload:x?}");
        ended += usize::from(head[3] == 1 && head[4] & 1 > 0);
    }
}

/// Headers that are far longer decoded than encoded: they repeat one field of HPACK's table.
#[test]
fn indexed_headers_are_taken_and_long_ones_do_not_stay_open() {
    let mut block = b"\x83\x86\x44\x00/test.Test/Echo\x41\x01a".to_vec();
    block[3] = 15;
    block.extend_from_slice(b"\x40\x0ccontent-type\x10application/grpc\x40\x01k\x01v");
    let with = |count| [&block[..], &vec![0xbe; count]].concat();
    let limits = Limits { header_bytes_max: 1024 * 1024, ..limits() };
    run_with(limits, None, |rig| async move {
        let mut socket = begun(&rig).await;
        for number in 0..100_u8 {
            let frames = block_frames(2 * number + 1, 1, &with(15_000)).concat();
            socket.write_all(&frames).await.unwrap();
        }
        wait_ended(&mut socket, 100).await;
        // Headers beyond the limit end only their own call.
        socket.write_all(&block_frames(201, 1, &with(35_000)).concat()).await.unwrap();
        socket.write_all(&block_frames(203, 1, &with(10)).concat()).await.unwrap();
        wait_ended(&mut socket, 2).await;
        // As many connections as allowed are sending long headers. One more ends.
        let long = block_frames(1, 1, &with(25_000));
        let mut open = Vec::new();
        for _ in 0..=LONG_HEADERS_MAX {
            let mut socket = begun(&rig).await;
            socket.write_all(&long[0]).await.unwrap();
            socket.write_all(&long[1][..3_000]).await.unwrap();
            open.push(socket);
            tokio::task::yield_now().await;
        }
        let mut last = open.pop().unwrap();
        soon("its end", last.read_to_end(&mut Vec::new())).await.unwrap();
        // The others finish their headers, and make room for a new one.
        open[0].write_all(&long[1][3_000..]).await.unwrap();
        wait_ended(&mut open[0], 1).await;
        let mut next = begun(&rig).await;
        next.write_all(&long.concat()).await.unwrap();
        wait_ended(&mut next, 1).await;
    });
}

#[test]
fn a_call_past_its_deadline_is_answered_and_its_handler_told() {
    run(|mut rig| async move {
        let connection = rig.connect().await;
        let text = "context deadline exceeded";
        // The deadline passes while the handler waits: for work, for a message, and for the client.
        let short = [("grpc-timeout", "20m")];
        let outcome = exchange(&connection, head("Wait", &short), message(b"a")).await;
        outcome.assert_is(200, b"", Code::DeadlineExceeded, text);
        let exceeded = || Some(End::Status(Status::deadline_exceeded()));
        assert_eq!(soon("an end", rig.ends.recv()).await, exceeded());
        let (response, mut stream) = open(&connection, head("Echo", &short)).await;
        stream.send_data(message(b"a"), false).unwrap();
        let outcome = self::outcome(response).await;
        outcome.assert_is(200, &message(b"a"), Code::DeadlineExceeded, text);
        assert_eq!(soon("an end", rig.ends.recv()).await, exceeded());
        // The client takes only a part of a message: a status would say that the message ends
        // there.
        let (response, mut stream) = open(&connection, head("Flood", &short)).await;
        stream.send_data(message(&[7; 50_000]), true).unwrap();
        assert_eq!(soon("an end", rig.ends.recv()).await, exceeded());
        let mut body = soon("a response", response).await.unwrap().into_body();
        let error = loop {
            match soon("a reset", body.data()).await.unwrap() {
                Ok(frame) => body.flow_control().release_capacity(frame.len()).unwrap(),
                Err(error) => break error,
            }
        };
        assert_eq!(error.reason(), Some(Reason::CANCEL));
        let past = exchange(&connection, head("Wait", &[("grpc-timeout", "0n")]), message(b"a"));
        past.await.assert_is(200, b"", Code::DeadlineExceeded, text);
    });
}

#[test]
fn resets_are_seen_wherever_the_handler_waits() {
    run(|mut rig| async move {
        let connection = rig.connect().await;
        let cases = [
            // The client resets the stream during work, within a message, between messages, and
            // during an answer that it does not take.
            ("Wait", message(b"a")),
            ("Echo", message(b"hello").slice(..7)),
            ("Echo", message(b"hello")),
            ("Flood", message(&[7; 50_000])),
        ];
        for (name, bytes) in cases {
            let (response, mut stream) = open(&connection, head(name, &[])).await;
            stream.send_data(bytes, name == "Flood").unwrap();
            let response = match name {
                "Flood" => soon("a response", response).await.ok(),
                _ => None,
            };
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            stream.send_reset(Reason::CANCEL);
            drop((response, stream));
            assert_gone(soon("an end", rig.ends.recv()).await);
        }
    });
}

#[test]
fn clients_may_give_up_on_many_calls_at_once() {
    run(|rig| async move {
        let connection = rig.connect().await;
        let first = exchange(&connection, head("Metadata", &[]), message(b"")).await;
        first.assert_is(200, &message(b""), Code::Ok, "");
        let mut requests = connection.clone().ready().await.unwrap();
        for _ in 0..200 {
            let (_, mut stream) = requests.send_request(head("Wait", &[]), false).unwrap();
            stream.send_data(message(b"a"), false).unwrap();
            stream.send_reset(Reason::CANCEL);
        }
        let other = exchange(&connection, head("Metadata", &[]), message(b"")).await;
        other.assert_is(200, &message(b""), Code::Ok, "");
    });
}

#[test]
fn a_timeout_of_ten_thousand_years_is_waited_for() {
    run(|mut rig| async move {
        let connection = rig.connect().await;
        let long = [("grpc-timeout", "99999999H")];
        let (response, mut stream) = open(&connection, head("Wait", &long)).await;
        stream.send_data(message(b"a"), true).unwrap();
        let other = exchange(&connection, head("Metadata", &long), message(b"")).await;
        other.assert_is(200, &message(b""), Code::Ok, "");
        stream.send_reset(Reason::CANCEL);
        drop((response, stream));
        assert_gone(soon("an end", rig.ends.recv()).await);
    });
}

#[test]
fn a_connection_that_goes_away_ends_its_calls() {
    run(|mut rig| async move {
        let (mut requests, connection) = h2::client::handshake(rig.socket()).await.unwrap();
        let connection = tokio::spawn(connection);
        let (_response, mut stream) = requests.send_request(head("Wait", &[]), false).unwrap();
        stream.send_data(message(b"a"), false).unwrap();
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        connection.abort();
        assert_gone(soon("an end", rig.ends.recv()).await);
    });
}

/// Lets all tasks run until Flood hands over no more messages (or Large makes no more bytes).
/// Returns the count.
async fn settled(rig: &Rig) -> usize {
    let mut before = usize::MAX;
    loop {
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        let now = rig.flooded.load(Ordering::Relaxed);
        if now == before {
            return now;
        }
        before = now;
    }
}

#[test]
fn a_client_that_takes_nothing_costs_one_message() {
    run(|rig| async move {
        // The client leaves window for the other streams of its connection.
        let handshake = h2::client::Builder::new()
            .initial_connection_window_size(1 << 20)
            .handshake::<_, Bytes>(rig.socket());
        let (connection, driver) = handshake.await.unwrap();
        tokio::spawn(driver);
        // Messages have 50,000 bytes: the first fits into the client's window, the second does not.
        let (response, mut stream) = open(&connection, head("Flood", &[])).await;
        stream.send_data(message(&[7; 50_000]), true).unwrap();
        let response = soon("a response", response).await.unwrap();
        assert_eq!(settled(&rig).await, 2);
        // Other streams are served at the same time.
        let other = exchange(&connection, head("Metadata", &[]), message(b"")).await;
        other.assert_is(200, &message(b""), Code::Ok, "");
        // New messages take the place of the bytes that the client has taken.
        let mut body = response.into_body();
        let mut taken = 0;
        while taken < 1_000_000 {
            let frame = soon("data", body.data()).await.unwrap().unwrap();
            body.flow_control().release_capacity(frame.len()).unwrap();
            taken += frame.len();
        }
        let handed_over = settled(&rig).await;
        assert!((20..=22).contains(&handed_over), "{handed_over}");
    });
}

#[test]
fn a_client_that_reads_nothing_from_its_socket_costs_one_message() {
    run(|rig| async move {
        // The client allows 1 GiB, but reads none of it.
        let handshake = h2::client::Builder::new()
            .initial_window_size(1 << 30)
            .initial_connection_window_size(1 << 30)
            .handshake(rig.socket());
        let (mut requests, connection) = handshake.await.unwrap();
        let (_response, mut stream) = requests.send_request(head("Flood", &[]), false).unwrap();
        stream.send_data(message(&[7; 1_000]), true).unwrap();
        let mut connection = Box::pin(connection);
        for _ in 0..5 {
            // After these rounds the request has arrived.
            tokio::select! {
                biased;
                _ = &mut connection => panic!("it ended"),
                () = tokio::task::yield_now() => {}
            }
        }
        // Messages have 1,005 bytes. 64 KiB are in the socket, the client read that much up to five
        // times, and the server holds a frame and one message.
        let handed_over = settled(&rig).await;
        assert!((1..=450).contains(&handed_over), "{handed_over}");
    });
}

/// clientv3 3.5.0 sends this authority with each call: the library refuses it, grpc-go serves the
/// call.
#[test]
fn a_call_with_an_odd_authority_is_served() {
    run(|rig| async move {
        let mut socket = rig.socket();
        let literal = |index: u8, value: &[u8]| {
            let head = [0x40 | index, value.len() as u8];
            [&head[..], value].concat()
        };
        // The first two fields are `:method: POST` and `:scheme: http` from HPACK's static table,
        // which also has the names of the other three.
        let block = [
            vec![0x83, 0x86],
            literal(1, b"#initially=[127.0.0.1:2379]"),
            literal(4, b"/test.Test/Echo"),
            literal(31, b"application/grpc"),
        ];
        let block = block.concat();
        let head = [0, 0, block.len() as u8, 1, 5, 0, 0, 0, 1];
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        let bytes = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", &settings[..], &head, &block].concat();
        socket.write_all(&bytes).await.unwrap();
        loop {
            let mut head = [0; 9];
            soon("a frame", socket.read_exact(&mut head)).await.unwrap();
            let mut payload = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
            socket.read_exact(&mut payload).await.unwrap();
            assert_ne!(head[3], 3, "the stream is reset");
            if head[3] == 1 {
                // The encoded field `:status: 200`.
                assert_eq!(payload[0], 0x88);
                return;
            }
        }
    });
}

#[test]
fn an_answer_in_pieces_is_one_message() {
    run(|rig| async move {
        let connection = rig.connect().await;
        for bytes in [0, 1, 9_999, 10_000, 10_001, 2_000_000] {
            let of_large = message(bytes.to_string().as_bytes());
            let answer = exchange(&connection, head("Large", &[]), of_large).await;
            let expected: Vec<u8> = (0..bytes).map(byte_at).collect();
            answer.assert_is(200, &message(&expected), Code::Ok, "");
        }
        for share in rig.shares.iter() {
            assert_eq!(share.free_bytes(), SHARE_BYTES);
        }
    });
}

#[test]
fn pieces_are_made_as_the_client_takes_them() {
    run(|rig| async move {
        let handshake = h2::client::Builder::new()
            .initial_connection_window_size(1 << 20)
            .handshake::<_, Bytes>(rig.socket());
        let (connection, driver) = handshake.await.unwrap();
        tokio::spawn(driver);
        let bytes = 40_000_000;
        let (response, mut stream) = open(&connection, head("Large", &[])).await;
        stream.send_data(message(bytes.to_string().as_bytes()), true).unwrap();
        let response = soon("a response", response).await.unwrap();
        // The window of 65,535 bytes holds six pieces and a part of the seventh.
        assert_eq!(settled(&rig).await, 70_000);
        let mut body = response.into_body();
        let mut taken = 0;
        while taken < 20_000_000 {
            let frame = soon("data", body.data()).await.unwrap().unwrap();
            body.flow_control().release_capacity(frame.len()).unwrap();
            taken += frame.len();
        }
        let made = settled(&rig).await;
        assert!(made <= taken + 65_535 + 10_000, "{made} of {taken}");
        // Room for bytes that the client has taken is free for others.
        let held = SHARE_BYTES - rig.shares[0].free_bytes();
        assert!(held <= bytes - taken + 100_000, "{held}");
        assert!(held >= bytes - made, "{held}");
        // When a client goes away, all its room is free again.
        drop((body, stream));
        assert_eq!(settled(&rig).await, made);
        assert_eq!(rig.shares[0].free_bytes(), SHARE_BYTES);
    });
}

#[test]
fn an_answer_that_is_too_long_is_refused_before_a_byte_is_made() {
    run(|rig| async move {
        let connection = rig.connect().await;
        for bytes in [limits::SENT_BYTES_MAX + 1, 5_000_000_000, usize::MAX] {
            let of_large = message(bytes.to_string().as_bytes());
            let refused = exchange(&connection, head("Large", &[]), of_large).await;
            let text =
                format!("grpc: trying to send message larger than max ({bytes} vs. 2147483647)");
            refused.assert_is(200, b"", Code::ResourceExhausted, &text);
        }
        assert_eq!(rig.flooded.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn a_client_with_a_part_of_a_message_is_reset() {
    let patience = Patience { stall_time: Duration::from_millis(20), ..limits().patience };
    run_with(Limits { patience, ..limits() }, None, |mut rig| async move {
        let connection = rig.connect().await;
        let (response, mut stream) = open(&connection, head("Large", &[])).await;
        stream.send_data(message(b"300000"), true).unwrap();
        let response = soon("a response", response).await.unwrap();
        assert_gone(soon("an end", rig.ends.recv()).await);
        let mut body = response.into_body();
        let error = loop {
            match soon("data", body.data()).await {
                Some(Ok(frame)) => assert!(frame.len() <= 65_535),
                Some(Err(error)) => break error,
                None => panic!("the message seems to be whole"),
            }
        };
        assert_eq!(error.reason(), Some(Reason::CANCEL));
    });
}

#[test]
fn a_thousand_idle_streams_take_nothing_from_others() {
    run(|rig| async move {
        let connection = rig.connect().await;
        let first = exchange(&connection, head("Echo", &[]), message(b"a")).await;
        first.assert_is(200, &message(b"a"), Code::Ok, "");
        let mut idle = Vec::new();
        for number in 0..1_000_u16 {
            let (response, mut stream) = open(&connection, head("Echo", &[])).await;
            // Every other stream has sent the beginning of a message.
            if number % 2 == 0 {
                stream.send_data(Bytes::from_static(&[0, 0]), false).unwrap();
            }
            idle.push((response, stream));
        }
        let other = exchange(&connection, head("Echo", &[]), message(b"b")).await;
        other.assert_is(200, &message(b"b"), Code::Ok, "");
        let free = rig.shares[0].free_bytes();
        assert_eq!(free, SHARE_BYTES);
        for (number, (response, mut stream)) in (0_u16..).zip(idle) {
            let rest = message(b"c").slice(if number % 2 == 0 { 2.. } else { 0.. });
            stream.send_data(rest, true).unwrap();
            outcome(response).await.assert_is(200, &message(b"c"), Code::Ok, "");
        }
    });
}

#[test]
fn streams_that_are_silent_for_too_long_end() {
    let short = Duration::from_millis(20);
    let limits = limits();
    let patience = Patience {
        first_time: Some(short),
        idle_time: Some(short),
        stall_time: short,
        ..limits.patience
    };
    run_with(Limits { patience, ..limits }, None, |mut rig| async move {
        let connection = rig.connect().await;
        let text = "nothing came for too long";
        let (response, _silent) = open(&connection, head("Echo", &[])).await;
        outcome(response).await.assert_is(200, b"", Code::Unavailable, text);
        let (response, mut stream) = open(&connection, head("Echo", &[])).await;
        stream.send_data(message(b"a"), false).unwrap();
        outcome(response).await.assert_is(200, &message(b"a"), Code::Unavailable, text);
        // Silence within a request message, and not taking an answer, reset the stream.
        let (response, mut stream) = open(&connection, head("Echo", &[])).await;
        stream.send_data(Bytes::from_static(&[0, 0]), false).unwrap();
        assert_gone(soon("an end", rig.ends.recv()).await);
        let error = soon("a reset", response).await.unwrap_err();
        assert_eq!(error.reason(), Some(Reason::CANCEL));
        let (_response, mut stream) = open(&connection, head("Flood", &[])).await;
        stream.send_data(message(&[7; 50_000]), true).unwrap();
        assert_gone(soon("an end", rig.ends.recv()).await);
    });
}

#[test]
fn requests_beyond_all_credits_are_refused_at_once() {
    let credits = Arc::new(Credits::new(2, 1, "too many requests"));
    run_with(limits(), Some(credits), |rig| async move {
        let connection = rig.connect().await;
        let mut waiting = Vec::new();
        for _ in 0..2 {
            let (response, mut stream) = open(&connection, head("Wait", &[])).await;
            stream.send_data(message(b"a"), true).unwrap();
            waiting.push((response, stream));
        }
        let refused = exchange(&connection, head("Wait", &[]), message(b"a")).await;
        refused.assert_is(200, b"", Code::ResourceExhausted, "too many requests");
        let (_, mut stream) = waiting.pop().unwrap();
        stream.send_reset(Reason::CANCEL);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let served = exchange(&connection, head("Metadata", &[]), message(b"")).await;
        served.assert_is(200, &message(b""), Code::Ok, "");
    });
}

#[test]
fn credits_of_one_stream_are_its_own() {
    let credits = Arc::new(Credits::new(3, 1, "full"));
    let [one, other] = [&credits, &credits].map(credits::StreamCredits::new);
    let first = one.take().unwrap();
    assert_eq!(one.take().unwrap_err(), Status::new(Code::ResourceExhausted, "full"));
    let second = other.take().unwrap();
    drop(first);
    let third = one.take().unwrap();
    drop((second, third));
}

#[test]
fn what_is_no_http2_closes_the_connection() {
    run(|rig| async move {
        let mut socket = rig.socket();
        socket.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        soon("an end", socket.read_to_end(&mut answer)).await.unwrap();
    });
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_message_has_at_most_the_bytes_it_may_have() {
    let check = |bytes: usize, bytes_max: usize, fits: bool| {
        let found = gzip::decompressed(&gzipped(&vec![7; bytes]), bytes_max);
        let expected = if fits { Ok(vec![7; bytes]) } else { Err(gzip::NoMessage::TooLong) };
        assert!(found == expected, "{bytes} of {bytes_max}");
    };
    check(0, 0, true);
    check(1, 0, false);
    check(1_000, 1_000, true);
    check(1_001, 1_000, false);
    check(100_000_000, 1_000, false);
}

#[test]
fn what_is_cut_off_or_changed_is_no_message() {
    let whole = gzipped(b"a message of some bytes, bytes, bytes");
    for end in 0..whole.len() {
        assert!(gzip::decompressed(&whole[..end], 1_000).is_err(), "{end}");
    }
    for at in 10..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 0x10;
        assert!(gzip::decompressed(&changed, 1_000).is_err(), "{at}");
    }
}

//! Tests the chunk face over a socket, with an HTTP/2 client that may misbehave.
#![allow(clippy::unwrap_used)]

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use bench::workloads::chunk::cmdw::client::request as message_of;
use bytes::{Bytes, BytesMut};
use chunk::block::{BlockId, ChunkInfo};
use chunk::wire::{chunk_to_pb, encode_request, pb};
use config::ListenAddress;
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use hyper::{Request, Response};

use super::limits::{REQUESTS_BYTES_MAX, STREAMS_MAX};
use super::*;

const PATH: &str = "/hadoop.hdds.datanode.XceiverClientProtocolService/send";

/// A chunk face that stops when the test ends.
struct Rig {
    folder: PathBuf,
    face: Arc<ChunkFace>,
    address: SocketAddr,
}

/// Runs a test with its own face.
fn with_face<F: Future<Output = ()>>(name: &str, test: impl FnOnce(Rig) -> F) {
    with_limits(name, Limits::default(), 256, test);
}

/// Runs a test with a face that has these limits. `connections_per_ip_max` is the most connections
/// from one address.
fn with_limits<F: Future<Output = ()>>(
    name: &str,
    limits: Limits,
    connections_per_ip_max: usize,
    test: impl FnOnce(Rig) -> F,
) {
    let folder = std::env::temp_dir().join(format!("listen-chunk-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let config = ChunkConfig {
        dir: None,
        bytes_max: 0,
        free_bytes_min: None,
        addr: Some(ListenAddress { host: Some("127.0.0.1".to_string()), port: 0 }),
        tls_addr: None,
        connections_max: 1_024,
        connections_per_ip_max,
        layout: chunk::layout::Layout::Log,
        verify_writes: false,
    };
    let face = Arc::new(start_within(&config, &folder, limits, |_| None).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = face.clone();
        let connections = Connections::new([Face::Chunks]);
        tokio::spawn(async move { accepting.accept(listener, None, &connections).await });
        test(Rig { folder: folder.clone(), face: face.clone(), address }).await;
    });
    drop(runtime);
    Arc::into_inner(face).expect("nobody else has it").stop().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}

impl Rig {
    async fn connect(&self) -> SendRequest<Bytes> {
        let stream = TcpStream::connect(self.address).await.unwrap();
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        sender
    }
}

fn head(path: &str, content_type: &str) -> Request<()> {
    let uri = format!("http://localhost{path}");
    let request = Request::builder().method("POST").uri(uri).header("content-type", content_type);
    request.body(()).unwrap()
}

/// Opens a stream of the only gRPC method.
async fn open(connection: &SendRequest<Bytes>) -> (ResponseFuture, SendStream<Bytes>) {
    let mut connection = connection.clone().ready().await.unwrap();
    connection.send_request(head(PATH, "application/grpc"), false).unwrap()
}

/// The result of a stream: the HTTP status, the bytes of all messages and the gRPC status.
async fn outcome(response: ResponseFuture) -> (u16, Bytes, Option<u32>) {
    let response = response.await.unwrap();
    let code = |headers: &hyper::HeaderMap| -> Option<u32> {
        headers.get("grpc-status").map(|status| status.to_str().unwrap().parse().unwrap())
    };
    let (http, head) = (response.status().as_u16(), code(response.headers()));
    let mut body = response.into_body();
    let data = all(&mut body).await;
    let trailers = body.trailers().await.unwrap();
    (http, data, trailers.as_ref().map_or(head, code))
}

async fn all(body: &mut RecvStream) -> Bytes {
    let mut data = BytesMut::new();
    while let Some(frame) = body.data().await {
        let frame = frame.unwrap();
        body.flow_control().release_capacity(frame.len()).unwrap();
        data.extend_from_slice(&frame);
    }
    data.freeze()
}

/// A CreateContainer request with this trace id, which the answer repeats, framed as a gRPC
/// message.
fn create(container_id: u8, trace: &str) -> Vec<u8> {
    let trace_length = trace.len() as u8;
    let mut message = vec![0x08, 1, 0x12, trace_length];
    message.extend_from_slice(trace.as_bytes());
    message.extend_from_slice(&[0x18, container_id, 0x22, 1, b'd', 0x32, 0]);
    framed(&message)
}

fn framed(message: &[u8]) -> Vec<u8> {
    let mut framed = vec![0, 0, 0, 0, message.len() as u8];
    framed.extend_from_slice(message);
    framed
}

/// Sends these bytes as a whole stream, and returns its outcome.
async fn exchange(
    connection: &SendRequest<Bytes>,
    bytes: impl Into<Bytes>,
) -> (u16, Bytes, Option<u32>) {
    let (response, mut stream) = open(connection).await;
    stream.send_data(bytes.into(), true).unwrap();
    outcome(response).await
}

/// Fails unless the server answers a request on this connection.
async fn assert_serves(connection: &SendRequest<Bytes>, container_id: u8) {
    let (http, data, status) = exchange(connection, create(container_id, "t")).await;
    assert_eq!((http, status), (200, Some(0)));
    // The answer's type, trace and result (success).
    assert_eq!(data[5..12], [0x08, 1, 0x12, 1, b't', 0x18, 1]);
}

#[test]
fn requests_of_one_stream_are_answered_in_order() {
    with_face("order", |rig| async move {
        let connection = rig.connect().await;
        let requests: Vec<u8> =
            (0..100_u8).flat_map(|number| create(number, &format!("trace {number:03}"))).collect();
        let (response, mut stream) = open(&connection).await;
        // The pieces do not end where messages end.
        for piece in requests.chunks(7) {
            stream.send_data(Bytes::copy_from_slice(piece), false).unwrap();
        }
        stream.send_data(Bytes::new(), true).unwrap();
        let (http, data, status) = outcome(response).await;
        assert_eq!((http, status), (200, Some(0)));
        let text = String::from_utf8_lossy(&data).into_owned();
        let traces: Vec<&str> = text.split("trace ").skip(1).map(|part| &part[..3]).collect();
        let wanted: Vec<String> = (0..100).map(|number| format!("{number:03}")).collect();
        assert_eq!(traces, wanted);
    });
}

#[test]
fn a_stream_without_requests_ends_well() {
    with_face("none", |rig| async move {
        let connection = rig.connect().await;
        assert_eq!(exchange(&connection, Bytes::new()).await, (200, Bytes::new(), Some(0)));
    });
}

#[test]
fn an_answer_comes_as_fast_as_the_client_takes_it() {
    with_face("echo", |rig| async move {
        let connection = rig.connect().await;
        assert_serves(&connection, 1).await;
        // An Echo request in container 1 whose answer is 8 MiB, a hundred times what the client
        // lets the server send before it reads.
        let echo = [0x08, 22, 0x18, 1, 0x22, 0, 0xd2, 1, 5, 0x10, 0x80, 0x80, 0x80, 4];
        let (response, mut stream) = open(&connection).await;
        stream.send_data(framed(&echo).into(), true).unwrap();
        let mut body = response.await.unwrap().into_body();
        // This client reads nothing, and other clients do not wait for it.
        let other = rig.connect().await;
        for number in 2..10 {
            assert_serves(&other, number).await;
        }
        // Besides the payload: the prefix, the type, the result, and a tag and a length for two
        // fields.
        assert_eq!(all(&mut body).await.len(), (8 << 20) + 20);
    });
}

#[test]
fn what_is_wrong_with_a_stream_ends_that_stream_alone() {
    with_face("wrong", |rig| async move {
        let connection = rig.connect().await;
        let cases: [(&str, Vec<u8>, u32); 5] = [
            ("cut off", create(1, "t")[..9].to_vec(), 13),
            ("cut off in the prefix", vec![0, 0], 13),
            ("compressed", vec![1, 0, 0, 0, 0], 13),
            ("too large", vec![0, 0xff, 0, 0, 0], 8),
            ("no message of ours", framed(&[0xff, 0xff]), 13),
        ];
        for (number, (name, bytes, wanted)) in cases.into_iter().enumerate() {
            let (http, data, status) = exchange(&connection, bytes).await;
            assert_eq!((http, data.len(), status), (200, 0, Some(wanted)), "{name}");
            assert_serves(&connection, number as u8).await;
        }
        let mut after_one = create(100, "t");
        after_one.extend_from_slice(&[0, 0]);
        let (_, data, status) = exchange(&connection, after_one).await;
        assert_eq!((data.is_empty(), status), (false, Some(13)));
    });
}

#[test]
fn other_paths_and_media_are_refused() {
    with_face("heads", |rig| async move {
        let connection = rig.connect().await;
        let other = "/hadoop.hdds.datanode.IntraDatanodeProtocolService/upload";
        let cases = [(other, "application/grpc", 200, 12), (PATH, "text/plain", 415, 3)];
        for (path, content_type, wanted_http, wanted) in cases {
            let mut sender = connection.clone().ready().await.unwrap();
            let (response, _stream) = sender.send_request(head(path, content_type), false).unwrap();
            let (http, data, status) = outcome(response).await;
            assert_eq!((http, data.len(), status), (wanted_http, 0, Some(wanted)));
        }
        assert_serves(&connection, 1).await;
    });
}

#[test]
fn clients_that_go_away_within_a_request_harm_nobody() {
    with_face("gone", |rig| async move {
        let staying = rig.connect().await;
        for number in 0..10 {
            let leaving = rig.connect().await;
            let (_response, mut stream) = open(&leaving).await;
            stream.send_data(Bytes::from_static(&[0, 0, 1, 0, 0, 1, 2, 3]), false).unwrap();
            drop((stream, leaving));
            let (response, mut stream) = open(&staying).await;
            stream.send_data(Bytes::from_static(&[0, 0, 1, 0, 0, 1, 2, 3]), false).unwrap();
            stream.send_reset(h2::Reason::CANCEL);
            drop(response);
            assert_serves(&staying, number).await;
        }
        assert!(rig.folder.exists() && !rig.face.runtimes.is_empty());
    });
}

#[test]
fn more_streams_than_there_may_be_are_served_one_after_the_other() {
    with_face("streams", |rig| async move {
        let connection = rig.connect().await;
        // After an answer, the client also knows the server's limit on streams.
        assert_serves(&connection, 0).await;
        let mut open_streams = Vec::new();
        for _ in 0..STREAMS_MAX {
            open_streams.push(open(&connection).await);
        }
        let one_more = tokio::spawn({
            let connection = connection.clone();
            async move { assert_serves(&connection, 1).await }
        });
        for (response, mut stream) in open_streams {
            stream.send_data(Bytes::new(), true).unwrap();
            let response: Response<RecvStream> = response.await.unwrap();
            assert_eq!(response.status().as_u16(), 200);
        }
        one_more.await.unwrap();
    });
}

/// How long a test waits for something that must happen. Reaching it is a failure.
const PATIENCE: Duration = Duration::from_secs(30);

async fn soon<T>(what: &str, it: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, it).await.unwrap_or_else(|_| panic!("{what} does not come"))
}

const BLOCK: BlockId = BlockId { container_id: 1, local_id: 1 };

fn block_id() -> Option<pb::DatanodeBlockId> {
    let (container_id, local_id) = (Some(1), Some(1));
    Some(pb::DatanodeBlockId { container_id, local_id, ..Default::default() })
}

/// A request, framed as a gRPC message.
fn framed_request(request: &pb::ContainerCommandRequestProto) -> Bytes {
    let mut framed = vec![0; 5];
    encode_request(request, &mut framed);
    let length = framed.len() as u32 - 5;
    framed[1..5].copy_from_slice(&length.to_be_bytes());
    framed.into()
}

/// A request that writes a chunk of zeros and commits its block.
fn write_of(bytes: usize) -> Bytes {
    let chunk = chunk_to_pb(&ChunkInfo::plain("1_chunk_1".to_string(), 0, bytes as u64));
    let block = pb::BlockData {
        block_id: block_id(),
        chunks: vec![chunk.clone()],
        size: Some(bytes as i64),
        ..Default::default()
    };
    let mut message = message_of(pb::Type::WriteChunk, BLOCK.container_id);
    message.write_chunk = Some(pb::WriteChunkRequestProto {
        block_id: block_id(),
        chunk_data: Some(chunk),
        data: Some(vec![0; bytes].into()),
        block: Some(pb::PutBlockRequestProto { block_data: Some(block), ..Default::default() }),
        ..Default::default()
    });
    framed_request(&message)
}

/// A request to read the whole block in answers of `answer_bytes` bytes.
fn read_of(answer_bytes: u32) -> Bytes {
    let mut message = message_of(pb::Type::ReadBlock, BLOCK.container_id);
    message.read_block = Some(pb::ReadBlockRequestProto {
        block_id: block_id(),
        offset: Some(0),
        response_data_size: Some(answer_bytes),
        ..Default::default()
    });
    framed_request(&message)
}

/// Sends a whole stream as fast as the server takes it, and returns the answers.
async fn ask(connection: &SendRequest<Bytes>, bytes: Bytes) -> Bytes {
    let (response, mut stream) = open(connection).await;
    send(&mut stream, bytes).await;
    stream.send_data(Bytes::new(), true).unwrap();
    let (http, data, status) = outcome(response).await;
    assert_eq!((http, status), (200, Some(0)));
    data
}

/// Sends bytes until they are all taken or the server ends the stream.
async fn send(stream: &mut SendStream<Bytes>, mut bytes: Bytes) {
    while !bytes.is_empty() {
        stream.reserve_capacity(bytes.len());
        let capacity = std::future::poll_fn(|context| stream.poll_capacity(context)).await;
        let Some(Ok(capacity)) = capacity else { return };
        if stream.send_data(bytes.split_to(capacity.min(bytes.len())), false).is_err() {
            return;
        }
    }
}

#[test]
fn clients_that_take_nothing_of_a_block_hold_no_thread() {
    with_face("slow", |rig| async move {
        let writer = rig.connect().await;
        assert!(!ask(&writer, write_of(2 << 20)).await.is_empty());
        // Each runtime gets more slow streams than it has threads that may wait.
        let mut slow = Vec::new();
        for _ in 0..rig.face.runtimes.len() * (WAITING_THREADS_MAX / STREAMS_MAX as usize + 1) {
            let connection = rig.connect().await;
            for _ in 0..STREAMS_MAX {
                let (response, mut stream) = open(&connection).await;
                stream.send_data(read_of(64 * 1024), true).unwrap();
                // The first answer has arrived, and the client does not read it.
                slow.push(soon("an answer", response).await.unwrap());
            }
        }
        for number in 0..rig.face.runtimes.len() {
            let other = rig.connect().await;
            soon("what waits for a thread", assert_serves(&other, 2 + number as u8)).await;
            let read = soon("a block", ask(&other, read_of(1 << 20))).await;
            assert!(read.len() > 2 << 20);
        }
        // A client that does read gets everything, once the other streams have freed the window of
        // its connection.
        slow.truncate(1);
        for response in slow {
            let block = soon("the rest", async { all(&mut response.into_body()).await }).await;
            assert!(block.len() > 2 << 20);
        }
    });
}

#[test]
fn what_is_announced_and_not_sent_costs_others_nothing() {
    with_face("announced", |rig| async move {
        let mut stalled = Vec::new();
        for _ in 0..2 {
            let connection = rig.connect().await;
            for _ in 0..STREAMS_MAX {
                let (response, mut stream) = open(&connection).await;
                // Each announces a message of 33 MiB; together that is several times the memory for
                // requests.
                let begun = Bytes::from_static(&[0, 2, 16, 0, 0, 8]);
                stream.send_data(begun, false).unwrap();
                stalled.push((response, stream, connection.clone()));
            }
        }
        let other = rig.connect().await;
        let written = soon("an answer", ask(&other, write_of(4 << 20))).await;
        assert!(!written.is_empty());
    });
}

#[test]
fn requests_that_stall_with_all_the_room_are_cut_off_for_those_that_go_on() {
    let limits = Limits {
        requests_bytes: 8 << 20,
        waited_time: Duration::from_secs(1),
        finish_time: Duration::from_secs(3),
        ..Limits::default()
    };
    with_limits("stalled", limits, 256, |rig| async move {
        let mut stalled = Vec::new();
        // Together these may use half of the memory, as much as one address may. Each sends 1 MiB
        // of 2 and stops.
        for _ in 0..4 {
            let connection = rig.connect().await;
            let (response, mut stream) = open(&connection).await;
            let begun = write_of(2 << 20).split_to(1 << 20);
            tokio::spawn(async move {
                send(&mut stream, begun).await;
                std::future::pending::<()>().await;
            });
            stalled.push((response, connection));
        }
        let other = rig.connect().await;
        for _ in 0..3 {
            let written = soon("an answer", ask(&other, write_of(3 << 20))).await;
            assert!(!written.is_empty());
        }
    });
}

#[test]
fn an_answer_has_its_room_until_it_is_sent_and_no_longer() {
    with_face("answer-room", |rig| async move {
        let connection = rig.connect().await;
        assert!(!ask(&connection, write_of(2 << 20)).await.is_empty());
        let free = || rig.face.service.answers.free_bytes();
        let before = free();
        let (response, mut stream) = open(&connection).await;
        stream.send_data(read_of(1 << 20), true).unwrap();
        let response = soon("an answer", response).await.unwrap();
        assert!(free() + (1 << 20) <= before);
        assert!(all(&mut response.into_body()).await.len() > 2 << 20);
        // The server needs a moment to notice.
        soon("room", async {
            while free() != before || rig.face.service.requests.free_bytes() != REQUESTS_BYTES_MAX {
                tokio::task::yield_now().await;
            }
        })
        .await;
    });
}

#[test]
fn a_request_that_becomes_large_when_it_is_decoded_waits_for_that_room() {
    // A thousand chunks of two encoded bytes each.
    let block = pb::BlockData { chunks: vec![Default::default(); 1_000], ..Default::default() };
    let mut message = message_of(pb::Type::PutBlock, 1);
    message.put_block =
        Some(pb::PutBlockRequestProto { block_data: Some(block), ..Default::default() });
    let message = framed_request(&message).slice(5..);
    assert!(message.len() < 5_000, "{}", message.len());
    let measured = chunk::wire::Measured::of(message).unwrap();
    assert!(measured.memory_bytes() > 300_000, "{}", measured.memory_bytes());
}

#[test]
fn streams_that_say_nothing_for_long_end() {
    let short = Duration::from_millis(200);
    let limits = Limits { stall_time: short, idle_time: short, ..Limits::default() };
    with_limits("idle", limits, 256, |rig| async move {
        let connection = rig.connect().await;
        let (response, _silent) = open(&connection).await;
        let (_, data, status) = soon("an end", outcome(response)).await;
        assert_eq!((data.len(), status), (0, Some(14)));
        let (response, mut stream) = open(&connection).await;
        stream.send_data(create(1, "t").into(), false).unwrap();
        let (_, data, status) = soon("an end", outcome(response)).await;
        assert_eq!((data.is_empty(), status), (false, Some(14)));
        assert_serves(&connection, 2).await;
    });
}

#[test]
fn connections_share_the_windows_of_their_streams() {
    let windows_bytes = 3 * STREAM_WINDOW_BYTES as usize;
    with_limits("windows", Limits { windows_bytes, ..Limits::default() }, 256, |rig| async move {
        let windows = || rig.face.service.grpc.windows.available_permits();
        assert_eq!(windows(), 3);
        let mut connections = Vec::new();
        for left in [2, 1, 0, 0, 0] {
            let connection = rig.connect().await;
            // Requests that follow one another need only one stream window.
            for number in 0..3 {
                assert_serves(&connection, 10 * connections.len() as u8 + number).await;
            }
            assert_eq!(windows(), left);
            connections.push(connection);
        }
        // A stream that gets no window of its own is still served.
        let written = soon("an answer", ask(&connections[4], write_of(4 << 20))).await;
        assert!(!written.is_empty());
        connections.clear();
        soon("all windows", async {
            while windows() != 3 {
                tokio::task::yield_now().await;
            }
        })
        .await;
    });
}

#[test]
fn one_connection_too_many_from_an_address_is_closed() {
    with_limits("per-ip", Limits::default(), 2, |rig| async move {
        let first = rig.connect().await;
        assert_serves(&first, 1).await;
        let second = rig.connect().await;
        assert_serves(&second, 2).await;
        let third = std::net::TcpStream::connect(rig.address).unwrap();
        let end = tokio::task::spawn_blocking(move || (&third).read(&mut [0; 100]));
        assert_eq!(soon("an end", end).await.unwrap().unwrap(), 0);
        drop(first);
        // The server needs a moment to notice.
        soon("room", async {
            while rig.face.service.addresses.connection_count() != 1 {
                tokio::task::yield_now().await;
            }
        })
        .await;
        assert_serves(&rig.connect().await, 3).await;
    });
}

#[test]
fn only_a_store_that_stopped_has_no_more_work_in_the_background() {
    let io = |error: i32| ChunkError::Io {
        file: "log/1.log".to_string(),
        op: "open",
        error: std::io::Error::from_raw_os_error(error),
    };
    let out_of_descriptors = rustix::io::Errno::MFILE.raw_os_error();
    assert!(!is_final(&io(out_of_descriptors)));
    assert!(!is_final(&io(rustix::io::Errno::IO.raw_os_error())));
    assert!(!is_final(&ChunkError::DiskFull { bytes_wanted: 1 }));
    assert!(is_final(&ChunkError::Stopped("a write failed".to_string())));
}

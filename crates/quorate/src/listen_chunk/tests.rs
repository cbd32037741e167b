//! The face on a socket, with a client that speaks HTTP/2 but need not behave.
#![allow(clippy::unwrap_used)]

use std::path::PathBuf;

use bytes::BytesMut;
use h2::client::{ResponseFuture, SendRequest};
use h2::{RecvStream, SendStream};
use hyper::{Request, Response};

use super::*;
use crate::config::ListenAddress;

const PATH: &str = "/hadoop.hdds.datanode.XceiverClientProtocolService/send";

/// A face, which ends with the test.
struct Rig {
    folder: PathBuf,
    face: Arc<ChunkFace>,
    address: SocketAddr,
}

/// Runs a test with a face of its own.
fn with_face<F: Future<Output = ()>>(name: &str, test: impl FnOnce(Rig) -> F) {
    let folder = std::env::temp_dir().join(format!("listen-chunk-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).unwrap();
    let config = ChunkConfig {
        addr: ListenAddress { host: Some("127.0.0.1".to_string()), port: 0 },
        layout: chunk::layout::Layout::Log,
        verify_writes: false,
    };
    let face = Arc::new(start(&config, &folder).unwrap());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = face.clone();
        tokio::spawn(async move { accepting.accept(listener).await });
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

/// Opens a stream to the method.
async fn open(connection: &SendRequest<Bytes>) -> (ResponseFuture, SendStream<Bytes>) {
    let mut connection = connection.clone().ready().await.unwrap();
    connection.send_request(head(PATH, "application/grpc"), false).unwrap()
}

/// What came of a stream: the HTTP status, the bytes of all messages and the gRPC status.
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

/// A message with its prefix: CreateContainer, with that trace.
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

/// Sends these bytes as the whole of a stream.
async fn exchange(
    connection: &SendRequest<Bytes>,
    bytes: impl Into<Bytes>,
) -> (u16, Bytes, Option<u32>) {
    let (response, mut stream) = open(connection).await;
    stream.send_data(bytes.into(), true).unwrap();
    outcome(response).await
}

/// Fails unless a request on that connection is answered.
async fn assert_serves(connection: &SendRequest<Bytes>, container_id: u8) {
    let (http, data, status) = exchange(connection, create(container_id, "t")).await;
    assert_eq!((http, status), (200, Some(0)));
    // The type, the trace and success.
    assert_eq!(data[5..12], [0x08, 1, 0x12, 1, b't', 0x18, 1]);
}

#[test]
fn requests_of_one_stream_are_answered_in_order() {
    with_face("order", |rig| async move {
        let connection = rig.connect().await;
        let requests: Vec<u8> =
            (0..100_u8).flat_map(|number| create(number, &format!("trace {number:03}"))).collect();
        let (response, mut stream) = open(&connection).await;
        // In pieces that have nothing to do with the messages.
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
        // Echo in container 1, of 8 MiB: a hundred times what a client takes without saying so.
        let echo = [0x08, 22, 0x18, 1, 0x22, 0, 0xd2, 1, 5, 0x10, 0x80, 0x80, 0x80, 4];
        let (response, mut stream) = open(&connection).await;
        stream.send_data(framed(&echo).into(), true).unwrap();
        let mut body = response.await.unwrap().into_body();
        // Others are not kept waiting by a client that takes nothing.
        let other = rig.connect().await;
        for number in 2..10 {
            assert_serves(&other, number).await;
        }
        // The prefix, the type, the result, and a tag and a length for each of the two others.
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
        for (path, content_type, wanted) in [
            ("/hadoop.hdds.datanode.IntraDatanodeProtocolService/upload", "application/grpc", 200),
            (PATH, "text/plain", 415),
        ] {
            let mut sender = connection.clone().ready().await.unwrap();
            let (response, _stream) = sender.send_request(head(path, content_type), false).unwrap();
            let (http, data, status) = outcome(response).await;
            assert_eq!((http, data.len()), (wanted, 0));
            assert_eq!(status, (wanted == 200).then_some(12));
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
        // By then the client knows how many there may be.
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

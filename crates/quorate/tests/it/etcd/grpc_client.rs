//! A gRPC client for tests, made with the library `h2`. It may do what a real gRPC client would
//! not.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use etcd::pb::Message;
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use hyper::header::{HeaderMap, HeaderName};
use hyper::{Request, Response};
use tokio::net::TcpStream;

/// How long a test waits for something that must happen. Reaching it is a failure.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a test with its tasks on this thread.
pub fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test)
}

pub async fn soon<T>(it: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, it).await.expect("it comes in time")
}

/// Connects; each stream of the connection has a window of `bytes` bytes.
pub async fn connect_with_window(address: SocketAddr, bytes: u32) -> SendRequest<Bytes> {
    let socket = TcpStream::connect(address).await.unwrap();
    socket.set_nodelay(true).unwrap();
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(bytes).initial_connection_window_size(1 << 24);
    // Tests cancel thousands of calls, which the client must not count as a fault of the server.
    builder.max_concurrent_reset_streams(0);
    let (requests, connection) = soon(builder.handshake(socket)).await.unwrap();
    tokio::task::spawn_local(async move { drop(connection.await) });
    requests
}

pub async fn connect(address: SocketAddr) -> SendRequest<Bytes> {
    connect_with_window(address, 1 << 20).await
}

/// The headers of a well-formed request.
pub fn head(path: &str) -> Request<()> {
    Request::post(format!("http://localhost{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())
        .unwrap()
}

/// A message with gRPC's prefix.
pub fn framed(message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(5 + message.len());
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.len()).unwrap());
    bytes.put_slice(message);
    bytes.freeze()
}

/// The whole answer to a call.
#[derive(Debug, Default)]
pub struct Answer {
    pub http: u16,
    pub messages: Vec<Bytes>,
    /// Whether any message is compressed.
    pub is_compressed: bool,
    /// Headers and trailers.
    pub headers: HeaderMap,
}

impl Answer {
    pub fn text(&self, name: &str) -> String {
        let value = self.headers.get(HeaderName::from_bytes(name.as_bytes()).unwrap());
        value.map(|value| String::from_utf8_lossy(value.as_bytes()).into()).unwrap_or_default()
    }

    /// The values of `grpc-status` and `grpc-message`.
    pub fn status(&self) -> (String, String) {
        (self.text("grpc-status"), self.text("grpc-message"))
    }

    /// The decoded messages. Fails unless the call succeeded.
    pub fn all<M: Message + Default>(&self) -> Vec<M> {
        assert_eq!(self.status(), ("0".to_string(), String::new()));
        assert!(!self.is_compressed, "no answer is compressed");
        self.messages.iter().map(|message| M::decode(message.clone()).unwrap()).collect()
    }
}

/// Sends a body in frames, as far as the server's window allows.
async fn send_body(mut stream: SendStream<Bytes>, mut body: Bytes) {
    while !body.is_empty() {
        stream.reserve_capacity(body.len().min(1 << 20));
        let capacity = std::future::poll_fn(|context| stream.poll_capacity(context)).await;
        let Some(Ok(capacity)) = capacity else { return };
        if stream.send_data(body.split_to(capacity.min(body.len())), false).is_err() {
            return;
        }
    }
    let _ = stream.send_data(Bytes::new(), true);
}

/// Opens a call with this body, and returns the response, whose body the test can read piece by
/// piece.
pub async fn open(
    requests: &SendRequest<Bytes>,
    head: Request<()>,
    body: Bytes,
) -> Result<Response<RecvStream>, h2::Error> {
    let mut requests = requests.clone().ready().await?;
    let (response, stream) = requests.send_request(head, false)?;
    tokio::task::spawn_local(send_body(stream, body));
    response.await
}

/// Makes a call and reads its whole answer; an error if the server resets the stream.
pub async fn call(
    requests: &SendRequest<Bytes>,
    head: Request<()>,
    body: Bytes,
) -> Result<Answer, h2::Error> {
    let response = open(requests, head, body).await?;
    let http = response.status().as_u16();
    let (parts, mut body) = response.into_parts();
    let mut answer = Answer { http, headers: parts.headers, ..Answer::default() };
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.data().await {
        let frame = frame?;
        body.flow_control().release_capacity(frame.len())?;
        bytes.put_slice(&frame);
    }
    if let Some(trailers) = body.trailers().await? {
        answer.headers.extend(trailers);
    }
    let mut bytes = bytes.freeze();
    while bytes.len() >= 5 {
        answer.is_compressed |= bytes.get_u8() != 0;
        let length = bytes.get_u32() as usize;
        answer.messages.push(bytes.split_to(length));
    }
    assert!(bytes.is_empty(), "the answer ends between two messages");
    Ok(answer)
}

/// Calls a method of the service `KV` with one request.
pub async fn kv(requests: &SendRequest<Bytes>, name: &str, request: &impl Message) -> Answer {
    let head = head(&format!("/etcdserverpb.KV/{name}"));
    soon(call(requests, head, framed(&request.encode_to_vec()))).await.unwrap()
}

/// A call whose messages are sent and received one by one.
pub struct Bidi {
    requests: SendStream<Bytes>,
    answers: RecvStream,
    /// Received bytes that do not form a whole message yet.
    bytes: BytesMut,
}

impl Bidi {
    /// Opens a call and sends its first message.
    pub async fn open(
        requests: &SendRequest<Bytes>,
        head: Request<()>,
        first: &impl Message,
    ) -> Bidi {
        Bidi::open_with(requests, head, first, false).await
    }

    /// Opens a call and sends its only message.
    pub async fn open_with_one(
        requests: &SendRequest<Bytes>,
        head: Request<()>,
        only: &impl Message,
    ) -> Bidi {
        Bidi::open_with(requests, head, only, true).await
    }

    async fn open_with(
        requests: &SendRequest<Bytes>,
        head: Request<()>,
        first: &impl Message,
        is_last: bool,
    ) -> Bidi {
        let mut requests = requests.clone().ready().await.unwrap();
        let (response, mut requests) = requests.send_request(head, false).unwrap();
        requests.send_data(framed(&first.encode_to_vec()), is_last).unwrap();
        let answers = soon(response).await.unwrap().into_body();
        Bidi { requests, answers, bytes: BytesMut::new() }
    }

    pub fn send(&mut self, message: &impl Message) {
        self.requests.send_data(framed(&message.encode_to_vec()), false).unwrap();
    }

    /// Resets the stream.
    pub fn cancel(&mut self) {
        self.requests.send_reset(h2::Reason::CANCEL);
    }

    /// Waits until the server ends the call. Returns the code and text of its status.
    pub async fn ended(mut self) -> (String, String) {
        while soon(self.answers.data()).await.is_some() {}
        let headers = soon(self.answers.trailers()).await.unwrap().unwrap();
        Answer { headers, ..Answer::default() }.status()
    }

    /// Whether the server neither sends anything nor ends the call for `time`.
    pub async fn is_silent_for(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.answers.data()).await.is_err()
    }

    /// Waits for the next message.
    pub async fn next<M: Message + Default>(&mut self) -> M {
        loop {
            if let Some([_, a, b, c, d]) = self.bytes.get(..5) {
                let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
                if self.bytes.len() >= 5 + length {
                    self.bytes.advance(5);
                    return M::decode(self.bytes.split_to(length)).unwrap();
                }
            }
            let frame = soon(self.answers.data()).await.expect("the call goes on").unwrap();
            self.answers.flow_control().release_capacity(frame.len()).unwrap();
            self.bytes.put_slice(&frame);
        }
    }
}

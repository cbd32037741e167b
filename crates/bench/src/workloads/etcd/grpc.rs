//! gRPC calls over HTTP/2, from the client's side: one message goes out, one message comes back.
//!
//! Each step of a call is a function, because clients need different steps: a client of a datanode
//! does not wait for the trailers of an answer.

mod stream;

pub use stream::{Received, Stream};

use std::future::poll_fn;

use anyhow::Context;
use bytes::{Bytes, BytesMut};
use h2::RecvStream;
use h2::client::SendRequest;
use http::response::Parts;
use http::{HeaderMap, Request};
use tokio::io::{AsyncRead, AsyncWrite};

/// Bytes of the prefix of each message: a flag for compression, and the length.
pub const PREFIX_BYTES: usize = 5;

/// The sending half of a connection. Its clones send on the same connection.
pub type Sender = SendRequest<Bytes>;

/// Starts HTTP/2 on a connected stream. The server may send `window_bytes` before they are read. A
/// task of the tokio runtime serves the connection until the server or the last [`Sender`] closes
/// it.
///
/// # Errors
/// The server does not speak HTTP/2.
pub async fn open<S>(stream: S, window_bytes: u32) -> anyhow::Result<Sender>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = h2::client::Builder::new()
        .initial_window_size(window_bytes)
        .initial_connection_window_size(window_bytes)
        .handshake(stream);
    let (requests, connection) = handshake.await?;
    // The error that ends the connection reaches the caller through its next request.
    tokio::spawn(async { drop(connection.await) });
    Ok(requests)
}

/// The head of a call of the method at `path`. `path` begins with a slash.
///
/// # Errors
/// `path` is no valid path.
pub fn head(path: &str) -> anyhow::Result<Request<()>> {
    let head = Request::builder()
        .method("POST")
        .uri(format!("http://server{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers");
    Ok(head.body(())?)
}

/// A message with its prefix in front. `encode` appends the bytes of the message.
///
/// # Errors
/// The message is too long for the length in its prefix.
pub fn message(encode: impl FnOnce(&mut Vec<u8>)) -> anyhow::Result<Bytes> {
    let mut message = vec![0; PREFIX_BYTES];
    encode(&mut message);
    let count = u32::try_from(message.len() - PREFIX_BYTES)?;
    message[1..PREFIX_BYTES].copy_from_slice(&count.to_be_bytes());
    Ok(message.into())
}

/// Sends a call and waits for the head of the answer.
///
/// # Errors
/// The connection has ended, or the server has reset the stream.
pub async fn send(
    requests: &mut Sender,
    head: Request<()>,
    message: Bytes,
) -> anyhow::Result<(Parts, RecvStream)> {
    poll_fn(|context| requests.poll_ready(context)).await?;
    let (response, mut stream) = requests.send_request(head, false)?;
    stream.send_data(message, true)?;
    Ok(response.await?.into_parts())
}

/// Receives the body of an answer: one message with its prefix, or no bytes if there is no message.
///
/// # Errors
/// The body is longer than `bytes_max`, or ends early.
pub async fn receive(body: &mut RecvStream, bytes_max: usize) -> anyhow::Result<Bytes> {
    let mut data = Bytes::new();
    while let Some(frame) = body.data().await {
        let frame = frame?;
        body.flow_control().release_capacity(frame.len())?;
        let bytes = data.len() + frame.len();
        anyhow::ensure!(bytes <= bytes_max, "an answer has {bytes} bytes and more");
        // Most bodies arrive as one frame, which is then not copied.
        data = if data.is_empty() { frame } else { joined(data, &frame) };
    }
    Ok(data)
}

fn joined(data: Bytes, frame: &[u8]) -> Bytes {
    let mut data = BytesMut::from(data);
    data.extend_from_slice(frame);
    data.freeze()
}

/// The value of a header as text; empty if there is none.
pub fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The gRPC status code; 0 is success.
    pub code: u32,
    /// The message of the status as the server sent it: percent-encoded.
    pub message: String,
    /// The encoded response; empty if the status is not success.
    pub body: Bytes,
}

/// Sends a call and receives its whole answer.
///
/// # Errors
/// No answer comes, or it is not an answer of gRPC.
pub async fn call(
    requests: &mut Sender,
    head: Request<()>,
    message: Bytes,
    bytes_max: usize,
) -> anyhow::Result<Answer> {
    let (head, mut body) = send(requests, head, message).await?;
    let data = receive(&mut body, bytes_max).await?;
    let trailers = body.trailers().await?.unwrap_or(head.headers);
    let code = text(&trailers, "grpc-status").parse();
    let code = code.with_context(|| format!("no gRPC status, but HTTP status {}", head.status))?;
    let message = text(&trailers, "grpc-message").to_string();
    if data.is_empty() {
        anyhow::ensure!(code != 0, "success without a message");
        return Ok(Answer { code, message, body: data });
    }
    let prefix =
        data.first_chunk::<PREFIX_BYTES>().context("an answer is shorter than its prefix")?;
    let [0, length @ ..] = *prefix else { anyhow::bail!("an answer is compressed") };
    let body = data.slice(PREFIX_BYTES..);
    anyhow::ensure!(
        body.len() == u32::from_be_bytes(length) as usize,
        "an answer has a bad length"
    );
    Ok(Answer { code, message, body })
}

//! Serves HTTP/2 requests that are not gRPC calls. Their bodies are read as the handler takes them,
//! and their responses are sent as the client takes them. As for calls, the library holds at most
//! one piece of a response.

use std::error::Error;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderValue, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::{Request, Response};
use tokio::time::timeout;

use super::answers::{Piece, Sent};

/// The body of a request, read from its HTTP/2 stream.
pub struct StreamBody {
    stream: RecvStream,
    /// The length that the client has announced in `content-length`.
    announced: Option<u64>,
}

/// A request, and the stream for its response.
pub struct Exchange {
    /// The head of the request.
    pub parts: Parts,
    /// The body of the request.
    pub body: StreamBody,
    respond: SendResponse<Piece>,
    stall_time: Duration,
    /// Counts as a stream of the connection while it exists.
    _stream: Arc<()>,
}

impl Body for StreamBody {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        let data = match ready!(self.stream.poll_data(context)) {
            None => return Poll::Ready(None),
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            Some(Ok(data)) => data,
        };
        // Let the client send as many more bytes as were taken.
        let released = self.stream.flow_control().release_capacity(data.len());
        Poll::Ready(Some(released.map(|()| Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.announced {
            _ if self.stream.is_end_stream() => SizeHint::with_exact(0),
            Some(bytes) => SizeHint::with_exact(bytes),
            None => SizeHint::default(),
        }
    }
}

impl Exchange {
    pub(super) fn new(
        request: Request<RecvStream>,
        respond: SendResponse<Piece>,
        stall_time: Duration,
        stream: Arc<()>,
    ) -> Exchange {
        let (mut parts, body) = request.into_parts();
        // Handlers look for the host in the header where HTTP/1.1 has it.
        let authority = parts.uri.authority().map(|authority| authority.as_str());
        let host = authority.and_then(|host| HeaderValue::from_str(host).ok());
        if let Some(host) = host.filter(|_| !parts.headers.contains_key(HOST)) {
            parts.headers.insert(HOST, host);
        }
        let announced = parts.headers.get(CONTENT_LENGTH);
        let announced = announced.and_then(|bytes| bytes.to_str().ok()?.parse().ok());
        let body = StreamBody { stream: body, announced };
        Exchange { parts, body, respond, stall_time, _stream: stream }
    }

    /// Runs a handler and sends its response. The handler is dropped if the client goes away.
    pub async fn run<B, F>(self, handle: impl FnOnce(Parts, StreamBody) -> F)
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: Into<Box<dyn Error + Send + Sync>>,
        F: Future<Output = Response<B>>,
    {
        let Exchange { parts, body, mut respond, stall_time, _stream } = self;
        let response = tokio::select! {
            response = handle(parts, body) => response,
            _ = poll_fn(|context| respond.poll_reset(context)) => return,
        };
        let (mut parts, mut body) = response.into_parts();
        // HTTP/2 forbids these headers (RFC 9113, 8.2.2).
        parts.headers.remove(CONNECTION);
        parts.headers.remove(TRANSFER_ENCODING);
        let head = Response::from_parts(parts, ());
        let Ok(mut stream) = respond.send_response(head, body.is_end_stream()) else { return };
        if body.is_end_stream() {
            return;
        }
        let sent = Arc::new(Sent::default());
        loop {
            let frame = tokio::select! {
                frame = body.frame() => frame,
                _ = poll_fn(|context| stream.poll_reset(context)) => return,
            };
            let data = match frame {
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(_)) => return stream.send_reset(Reason::INTERNAL_ERROR),
                None => return drop(stream.send_data(sent.piece(Bytes::new()), true)),
            };
            if send(&mut stream, data, &sent, stall_time).await.is_none() {
                return stream.send_reset(Reason::CANCEL);
            }
        }
    }
}

/// Sends bytes, and waits until the socket has taken them. `None` if the client is gone, or takes
/// no byte for `stall_time`.
async fn send(
    stream: &mut SendStream<Piece>,
    mut data: Bytes,
    sent: &Arc<Sent>,
    stall_time: Duration,
) -> Option<()> {
    while !data.is_empty() {
        stream.reserve_capacity(data.len());
        let capacity = poll_fn(|context| match stream.capacity() {
            0 => stream.poll_capacity(context),
            bytes => Poll::Ready(Some(Ok(bytes))),
        });
        let capacity = timeout(stall_time, capacity).await.ok()??.ok()?;
        let bytes = data.split_to(capacity.min(data.len()));
        stream.send_data(sent.piece(bytes), false).ok()?;
        let taken = poll_fn(|context| sent.poll_empty(context));
        timeout(stall_time, taken).await.ok()?;
    }
    Some(())
}

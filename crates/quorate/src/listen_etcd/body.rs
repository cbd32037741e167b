//! Reads the bodies of HTTP requests, with limits on their size, time and memory.

use std::convert::Infallible;

use bytes::Bytes;
use grpc::{Room, StreamBody};
use http_body_util::channel::Channel;
use http_body_util::{BodyExt, Either};
use hyper::body::{Body, Frame, Incoming};
use tokio::time::{Instant, timeout_at};

use super::limits::{BODY_TIMES, STALL_TIME_MAX, WAITED_TIME_MAX};

/// The body of a request over HTTP/1.1 (left) or HTTP/2 (right).
pub(super) type WebBody = Either<Incoming, StreamBody>;

/// The body of a streaming request: over HTTP (left) or over WebSocket (right).
pub(super) type RequestBody = Either<WebBody, Channel<Bytes, Infallible>>;

/// Reads a whole body. `room`, the memory counted for the request, grows as bytes arrive, not by
/// the announced length. `None` if the body is longer than `body_bytes_max`, is cut off, or takes
/// too long.
pub(super) async fn read_body(
    mut body: impl Body<Data = Bytes> + Unpin,
    room: &mut Room,
    body_bytes_max: usize,
) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let due_at = Instant::now() + STALL_TIME_MAX;
    while let Some(frame) = next_frame(&mut body, room, due_at).await? {
        let Ok(data) = frame.into_data() else { continue };
        let length = bytes.len() + data.len();
        if length > body_bytes_max {
            return None;
        }
        timeout_at(due_at, room.grow_to(length * BODY_TIMES)).await.ok()?;
        bytes.extend_from_slice(&data);
    }
    Some(bytes)
}

/// The next frame of a body. `Some(None)` at the end of the body; `None` if the body is cut off or
/// not received by `due_at`. While other clients wait for memory that `room` holds, the limit is
/// [`WAITED_TIME_MAX`] per frame.
pub(super) async fn next_frame(
    body: &mut (impl Body<Data = Bytes> + Unpin),
    room: &Room,
    due_at: Instant,
) -> Option<Option<Frame<Bytes>>> {
    loop {
        let look_at = due_at.min(Instant::now() + WAITED_TIME_MAX);
        match timeout_at(look_at, body.frame()).await {
            Ok(frame) => return frame.transpose().ok(),
            Err(_) if Instant::now() >= due_at || room.is_waited_for() => return None,
            Err(_) => {}
        }
    }
}

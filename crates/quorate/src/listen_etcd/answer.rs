//! Builds the etcd face's HTTP responses with their bodies: those of the JSON gateway, and short
//! texts.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use etcd::gateway;
use grpc_code::Code;
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use thiserror::Error;
use tokio::sync::mpsc;

use grpc::Room;

/// The body of a response that comes in lines. Each line holds its memory until the socket has
/// taken it.
pub(super) struct Lines {
    lines: mpsc::Receiver<Bytes>,
    /// Whether the body would be complete if it ended now; the sender of the lines keeps this up to
    /// date. `None` if the body may end behind any line.
    is_whole: Option<Rc<Cell<bool>>>,
}

impl Lines {
    /// The body of a stream, which may end behind any line.
    pub fn of_stream(lines: mpsc::Receiver<Bytes>) -> Lines {
        Lines { lines, is_whole: None }
    }

    /// The next line; `None` behind the last one.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.lines.recv().await
    }

    /// Whether the body is incomplete if it ends now.
    pub fn is_cut_off(&self) -> bool {
        self.is_whole.as_ref().is_some_and(|is_whole| !is_whole.get())
    }

    /// A body that has long lines in parts: one answer, or a stream. The sender sets `is_whole` to
    /// true at the ends of lines where the body may end. If the body ends while `is_whole` is
    /// false, the connection is closed, to tell the client.
    pub fn of_one(lines: mpsc::Receiver<Bytes>, is_whole: Rc<Cell<bool>>) -> Lines {
        Lines { lines, is_whole: Some(is_whole) }
    }
}

/// The error of a body that ended before it was complete.
#[derive(Debug, Error)]
#[error("an answer was cut off: its client took nothing while others waited")]
pub(super) struct CutOff;

impl Body for Lines {
    type Data = Bytes;
    type Error = CutOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, CutOff>>> {
        self.lines.poll_recv(context).map(|line| match line {
            Some(line) => Some(Ok(Frame::data(line))),
            None if self.is_cut_off() => Some(Err(CutOff)),
            None => None,
        })
    }
}

/// A response: its body is bytes in memory, or lines as they come.
pub(super) type Answer = Response<Either<Full<Bytes>, Lines>>;

/// etcd's error text for a call that took longer than its client allowed.
pub(super) const LATE: &str = "context deadline exceeded";

/// The gateway's response to a call that is refused.
pub(super) fn refused(code: Code, text: &str) -> Answer {
    let status = StatusCode::from_u16(gateway::http_status(code));
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    of(status, gateway::CONTENT_TYPE, gateway::error_body(code, text))
}

/// The gateway's response to a streaming call that is refused before its first response.
pub(super) fn refused_stream(code: Code, text: &str) -> Answer {
    let mut answer = refused(code, text);
    let line = gateway::streamed_error(code, text);
    *answer.body_mut() = Either::Left(Full::new(line.into()));
    answer
}

/// A response whose body is a stream of lines.
pub(super) fn streaming(lines: Lines) -> Answer {
    let mut answer = of(StatusCode::OK, gateway::CONTENT_TYPE, String::new());
    *answer.body_mut() = Either::Right(lines);
    answer
}

/// The text of a response with the memory counted for it, held until the socket has taken the text.
pub(super) struct Roomy {
    pub text: Vec<u8>,
    pub _room: Room,
}

impl AsRef<[u8]> for Roomy {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// A response whose text may be large, with the memory counted for it.
pub(super) fn of_large(text: String, mut room: Room) -> Answer {
    room.shrink_to(text.capacity());
    let mut answer = of(StatusCode::OK, gateway::CONTENT_TYPE, String::new());
    let text = text.into_bytes();
    *answer.body_mut() = Either::Left(Full::new(Bytes::from_owner(Roomy { text, _room: room })));
    answer
}

/// A response with this text.
pub(super) fn of(status: StatusCode, media_type: &'static str, text: String) -> Answer {
    let mut answer = Response::new(Either::Left(Full::new(Bytes::from(text))));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}

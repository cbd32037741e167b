//! The answers of HTTP/1.1, and their bodies.

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

/// The body of a response: lines, and the room of each until the socket has taken it.
pub(super) struct Lines {
    lines: mpsc::Receiver<Bytes>,
    /// Whether the last line was the end, where the client must be told if not.
    is_whole: Option<Rc<Cell<bool>>>,
}

impl Lines {
    /// Lines of a stream, which may end behind any of them.
    pub fn of_stream(lines: mpsc::Receiver<Bytes>) -> Lines {
        Lines { lines, is_whole: None }
    }

    /// The next line; none behind the last one.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.lines.recv().await
    }

    /// Whether the last line was not the end.
    pub fn is_cut_off(&self) -> bool {
        self.is_whole.as_ref().is_some_and(|is_whole| !is_whole.get())
    }

    /// Parts of one answer. If they end before `is_whole`, the connection ends.
    pub fn of_one(lines: mpsc::Receiver<Bytes>, is_whole: Rc<Cell<bool>>) -> Lines {
        Lines { lines, is_whole: Some(is_whole) }
    }
}

/// An answer was cut off.
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

/// An answer: bytes in memory, or lines as they come.
pub(super) type Answer = Response<Either<Full<Bytes>, Lines>>;

/// The text of a call that takes longer than its client allows.
pub(super) const LATE: &str = "context deadline exceeded";

/// The answer of the gateway to a call that is refused.
pub(super) fn refused(code: Code, text: &str) -> Answer {
    let status = StatusCode::from_u16(gateway::http_status(code));
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    of(status, gateway::CONTENT_TYPE, gateway::error_body(code, text))
}

/// The answer of the gateway to a call with a stream of responses that is refused before the first.
pub(super) fn refused_stream(code: Code, text: &str) -> Answer {
    let mut answer = refused(code, text);
    let line = gateway::streamed_error(code, text);
    *answer.body_mut() = Either::Left(Full::new(line.into()));
    answer
}

/// An answer whose body is a stream of lines.
pub(super) fn streaming(lines: Lines) -> Answer {
    let mut answer = of(StatusCode::OK, gateway::CONTENT_TYPE, String::new());
    *answer.body_mut() = Either::Right(lines);
    answer
}

/// The text of a response and its room, until the socket has taken the text.
pub(super) struct Roomy {
    pub text: Vec<u8>,
    pub _room: Room,
}

impl AsRef<[u8]> for Roomy {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// An answer with a text that may be large, and its room.
pub(super) fn of_large(text: String, mut room: Room) -> Answer {
    room.shrink_to(text.capacity());
    let mut answer = of(StatusCode::OK, gateway::CONTENT_TYPE, String::new());
    let text = text.into_bytes();
    *answer.body_mut() = Either::Left(Full::new(Bytes::from_owner(Roomy { text, _room: room })));
    answer
}

/// An answer with a text.
pub(super) fn of(status: StatusCode, media_type: &'static str, text: String) -> Answer {
    let mut answer = Response::new(Either::Left(Full::new(Bytes::from(text))));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    answer
}

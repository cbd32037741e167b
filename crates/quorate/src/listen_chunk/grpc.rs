//! gRPC as far as the chunk face speaks it: heads, statuses, and messages with a length before
//! them. Source: gRPC over HTTP/2, `PROTOCOL-HTTP2.md` of grpc/grpc.

use bytes::{BufMut, Bytes, BytesMut};
use chunk::limits::REQUEST_BYTES_MAX;
use chunk::wire::{RequestError, pb};
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

/// The one method.
const PATH: &str = "/hadoop.hdds.datanode.XceiverClientProtocolService/send";

const MEDIA_TYPE: &str = "application/grpc";
const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// Bytes before each message: whether it is compressed, and its length, big-endian.
pub const PREFIX_BYTES: usize = 5;

/// How a stream ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    code: Code,
    message: String,
}

/// The codes that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    Ok = 0,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
}

impl Status {
    /// All was answered, whatever the answers say.
    pub fn ok() -> Status {
        Status { code: Code::Ok, message: String::new() }
    }

    fn new(code: Code, message: impl Into<String>) -> Status {
        Status { code, message: message.into() }
    }

    /// The client stopped within a message.
    pub fn cut_off() -> Status {
        Status::new(Code::Internal, "the stream ends within a message")
    }

    /// The client sent nothing for too long.
    pub fn idle() -> Status {
        Status::new(Code::Unavailable, "nothing came for too long")
    }

    /// What comes at the end of an answer.
    pub fn trailers(&self) -> HeaderMap {
        let mut trailers = HeaderMap::with_capacity(3);
        trailers.insert(STATUS, HeaderValue::from(self.code as u16));
        if !self.message.is_empty() {
            trailers.insert(MESSAGE, percent_encoded(&self.message));
        }
        if self.code == Code::Unimplemented {
            trailers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
        trailers
    }

    /// The whole answer to a request that none was given to before.
    pub fn response(&self) -> Response<()> {
        let mut response = response_head();
        response.headers_mut().extend(self.trailers());
        response
    }
}

impl From<RequestError> for Status {
    fn from(error: RequestError) -> Status {
        let code = match error {
            RequestError::TooLarge { .. } | RequestError::TooManyParts { .. } => {
                Code::ResourceExhausted
            }
            RequestError::CutOff | RequestError::Unreadable(_) | RequestError::NoType => {
                Code::Internal
            }
        };
        Status::new(code, error.to_string())
    }
}

/// How an answer begins.
pub fn response_head() -> Response<()> {
    let mut response = Response::new(());
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
    response
}

/// Whether a request is one of ours; if not, the whole answer to it.
pub fn check_head<B>(request: &Request<B>) -> Result<(), Box<Response<()>>> {
    let refused = |status: StatusCode| {
        let mut response = Response::new(());
        *response.status_mut() = status;
        Err(Box::new(response))
    };
    if request.method() != Method::POST {
        return refused(StatusCode::METHOD_NOT_ALLOWED);
    }
    let header = |name| request.headers().get(name).map(HeaderValue::as_bytes);
    if !header(CONTENT_TYPE).is_some_and(|value| value.starts_with(MEDIA_TYPE.as_bytes())) {
        return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE);
    }
    if request.uri().path() != PATH {
        let status = Status::new(Code::Unimplemented, "there is no such method here");
        return Err(Box::new(status.response()));
    }
    if header(ENCODING).is_some_and(|value| value != b"identity") {
        let status = Status::new(Code::Unimplemented, "messages are not compressed here");
        return Err(Box::new(status.response()));
    }
    Ok(())
}

/// Visible ASCII as it is, all else as `%XX`.
fn percent_encoded(text: &str) -> HeaderValue {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'%' => encoded.push_str("%25"),
            b' '..=b'~' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    HeaderValue::try_from(encoded).expect("it is visible ASCII")
}

/// What is there of a message, as frames come in. The frames of a stream have nothing to do with
/// its messages; but a small message is one frame mostly, and is then a slice of it.
#[derive(Debug, Default)]
pub struct Assembly {
    /// What was received and is not yet a part of anything.
    frame: Bytes,
    /// What there is of the prefix, if it came in pieces.
    prefix: BytesMut,
    /// Bytes that the message has, once its prefix is known.
    length: Option<usize>,
    /// What there is of the message, if it came in pieces.
    message: Vec<u8>,
}

/// Times the bytes of a message that arrived that the memory for it is at most: so little that one
/// that is announced and does not come takes nothing, and so much that it is copied once or twice.
const BUFFER_TIMES: usize = 4;

impl Assembly {
    /// The next frame. The one before has to be used up.
    pub fn push(&mut self, frame: Bytes) {
        assert!(self.frame.is_empty(), "a frame is used up before the next");
        self.frame = frame;
    }

    /// Whether nothing of a message was received.
    pub fn is_between(&self) -> bool {
        self.frame.is_empty() && self.prefix.is_empty() && self.length.is_none()
    }

    /// The length of the message that begins or goes on, once it is known.
    ///
    /// # Errors
    /// It is one that is not taken.
    pub fn length(&mut self) -> Result<Option<usize>, Status> {
        if self.length.is_some() {
            return Ok(self.length);
        }
        let missing = PREFIX_BYTES - self.prefix.len();
        let piece = self.frame.split_to(missing.min(self.frame.len()));
        self.prefix.extend_from_slice(&piece);
        let [flag, length @ ..] = &self.prefix[..] else { return Ok(None) };
        let Ok(length) = <[u8; 4]>::try_from(length) else { return Ok(None) };
        if *flag != 0 {
            let message = "a message is compressed, and no encoding was named";
            return Err(Status::new(Code::Internal, message));
        }
        let bytes = u32::from_be_bytes(length) as usize;
        if bytes > REQUEST_BYTES_MAX {
            return Err(RequestError::TooLarge { bytes, bytes_max: REQUEST_BYTES_MAX }.into());
        }
        self.prefix.clear();
        self.length = Some(bytes);
        Ok(self.length)
    }

    /// Bytes of memory that [`Assembly::take`] will have for the message.
    pub fn memory_bytes(&self) -> usize {
        let arrived = self.message.len().saturating_add(self.frame.len());
        match self.length {
            Some(length) if arrived > self.message.capacity() => {
                length.min(arrived.saturating_mul(BUFFER_TIMES))
            }
            Some(length) => length.min(self.message.capacity()),
            None => 0,
        }
    }

    /// The message of that length, if it is there as a whole.
    pub fn take(&mut self) -> Option<Bytes> {
        let length = self.length?;
        if self.message.is_empty() && self.frame.len() >= length {
            self.length = None;
            return Some(self.frame.split_to(length));
        }
        let capacity = self.memory_bytes();
        self.message.reserve_exact(capacity.saturating_sub(self.message.len()));
        let missing = length - self.message.len();
        let piece = self.frame.split_to(missing.min(self.frame.len()));
        self.message.extend_from_slice(&piece);
        if self.message.len() < length {
            return None;
        }
        self.length = None;
        Some(std::mem::take(&mut self.message).into())
    }
}

/// An answer with its prefix.
pub fn encode(answer: &pb::ContainerCommandResponseProto) -> Bytes {
    let mut out = vec![0; PREFIX_BYTES];
    chunk::wire::encode(answer, &mut out);
    let length = u32::try_from(out.len() - PREFIX_BYTES).expect("answers have a limit");
    let mut prefix = &mut out[1..PREFIX_BYTES];
    prefix.put_u32(length);
    out.into()
}

#[cfg(test)]
mod tests;

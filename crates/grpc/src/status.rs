//! The end of a call: a status, and the headers that carry it. Source: gRPC's `PROTOCOL-HTTP2.md`.

use grpc_code::Code;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
pub(super) const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// A status code with a message for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The code.
    pub code: Code,
    /// The message.
    pub message: String,
}

impl Status {
    /// A status with a message.
    pub fn new(code: Code, message: impl Into<String>) -> Status {
        Status { code, message: message.into() }
    }

    /// The status of a call that succeeded.
    pub fn ok() -> Status {
        Status::new(Code::Ok, "")
    }

    /// The status of a call that took longer than its client allowed. The text is grpc-go's.
    pub fn deadline_exceeded() -> Status {
        Status::new(Code::DeadlineExceeded, "context deadline exceeded")
    }

    /// The status for a client that sent nothing for too long.
    pub fn idle() -> Status {
        Status::new(Code::Unavailable, "nothing came for too long")
    }

    /// Adds the headers of the status to the trailers, or to a head without messages.
    pub(super) fn add_to(&self, headers: &mut HeaderMap) {
        headers.insert(STATUS, HeaderValue::from_static(self.code.text()));
        if !self.message.is_empty() {
            headers.insert(MESSAGE, percent_encoded(&self.message));
        }
        // A client whose encoding is refused must learn which encodings it may use.
        if self.code == Code::Unimplemented {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        }
    }

    /// The headers that end a response.
    pub(super) fn trailers(&self) -> HeaderMap {
        let mut trailers = HeaderMap::with_capacity(3);
        self.add_to(&mut trailers);
        trailers
    }
}

/// Why a call ends before its handler is done.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The client gets this status.
    Status(Status),
    /// The client went away, reset the stream, or stalled: the stream is reset.
    Gone,
}

impl From<h2::Error> for End {
    fn from(_: h2::Error) -> End {
        End::Gone
    }
}

impl From<Status> for End {
    fn from(status: Status) -> End {
        End::Status(status)
    }
}

/// Leaves visible ASCII as it is, and writes all else as `%XX`.
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

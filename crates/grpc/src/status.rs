//! The end of a call: the status codes of gRPC, and the headers that carry them. Source: gRPC's
//! `statuscodes.md` and `PROTOCOL-HTTP2.md`.

use hyper::header::{HeaderMap, HeaderName, HeaderValue};

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
pub(super) const ACCEPT_ENCODING: HeaderName = HeaderName::from_static("grpc-accept-encoding");

/// The count of gRPC's status codes.
pub const CODES: usize = 17;

/// The status codes of gRPC, by their numbers on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The call succeeded.
    Ok = 0,
    /// The caller gave up.
    Cancelled = 1,
    /// An error of no other kind.
    Unknown = 2,
    /// The request is wrong, whatever the state.
    InvalidArgument = 3,
    /// The time was up; the request may still take effect.
    DeadlineExceeded = 4,
    /// The request names a thing that does not exist.
    NotFound = 5,
    /// The request makes a thing that exists.
    AlreadyExists = 6,
    /// The caller may not do that.
    PermissionDenied = 7,
    /// A quota or a limit is used up.
    ResourceExhausted = 8,
    /// The state does not allow the request.
    FailedPrecondition = 9,
    /// A conflict with another request.
    Aborted = 10,
    /// A value is out of range as the state is.
    OutOfRange = 11,
    /// The server has no such method.
    Unimplemented = 12,
    /// The server or the request is broken.
    Internal = 13,
    /// The server cannot serve now.
    Unavailable = 14,
    /// Data is lost.
    DataLoss = 15,
    /// The caller did not say who it is.
    Unauthenticated = 16,
}

/// The codes by their numbers.
pub(super) const ALL: [Code; CODES] = [
    Code::Ok,
    Code::Cancelled,
    Code::Unknown,
    Code::InvalidArgument,
    Code::DeadlineExceeded,
    Code::NotFound,
    Code::AlreadyExists,
    Code::PermissionDenied,
    Code::ResourceExhausted,
    Code::FailedPrecondition,
    Code::Aborted,
    Code::OutOfRange,
    Code::Unimplemented,
    Code::Internal,
    Code::Unavailable,
    Code::DataLoss,
    Code::Unauthenticated,
];

impl Code {
    /// The code with this number; `None` if gRPC has none.
    pub fn from_number(number: u8) -> Option<Code> {
        ALL.get(usize::from(number)).copied()
    }

    /// The names of the codes in grpc-go, by their numbers.
    pub const NAMES: [&str; CODES] = [
        "OK",
        "Canceled",
        "Unknown",
        "InvalidArgument",
        "DeadlineExceeded",
        "NotFound",
        "AlreadyExists",
        "PermissionDenied",
        "ResourceExhausted",
        "FailedPrecondition",
        "Aborted",
        "OutOfRange",
        "Unimplemented",
        "Internal",
        "Unavailable",
        "DataLoss",
        "Unauthenticated",
    ];

    /// The number as the text that `grpc-status` holds.
    fn text(self) -> &'static str {
        const TEXTS: [&str; CODES] = [
            "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15",
            "16",
        ];
        TEXTS[self as usize]
    }
}

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

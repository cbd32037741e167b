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
    Ok = 0,
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

impl Code {
    /// The code that an error of etcd has: both have gRPC's numbers.
    pub fn of_etcd(code: etcd::Code) -> Code {
        match code {
            etcd::Code::Ok => Code::Ok,
            etcd::Code::Canceled => Code::Cancelled,
            etcd::Code::Unknown => Code::Unknown,
            etcd::Code::InvalidArgument => Code::InvalidArgument,
            etcd::Code::DeadlineExceeded => Code::DeadlineExceeded,
            etcd::Code::NotFound => Code::NotFound,
            etcd::Code::AlreadyExists => Code::AlreadyExists,
            etcd::Code::PermissionDenied => Code::PermissionDenied,
            etcd::Code::ResourceExhausted => Code::ResourceExhausted,
            etcd::Code::FailedPrecondition => Code::FailedPrecondition,
            etcd::Code::Aborted => Code::Aborted,
            etcd::Code::OutOfRange => Code::OutOfRange,
            etcd::Code::Unimplemented => Code::Unimplemented,
            etcd::Code::Internal => Code::Internal,
            etcd::Code::Unavailable => Code::Unavailable,
            etcd::Code::DataLoss => Code::DataLoss,
            etcd::Code::Unauthenticated => Code::Unauthenticated,
        }
    }

    /// The names by which grpc-go shows the codes, by their numbers.
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
    pub code: Code,
    pub message: String,
}

impl Status {
    pub fn new(code: Code, message: impl Into<String>) -> Status {
        Status { code, message: message.into() }
    }

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

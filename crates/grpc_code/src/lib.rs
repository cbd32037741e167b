//! The status codes of gRPC (`statuscodes.md` in gRPC's documentation).
//!
//! The codes have a crate of their own because two crates need them that must not depend on each
//! other: `etcd` gives each error its code and knows no HTTP/2; `grpc` sends codes and knows no
//! protocol above gRPC.

/// How many status codes gRPC has.
pub const CODES: usize = 17;

/// The status codes of gRPC; each variant's value is its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The call succeeded.
    Ok = 0,
    /// The caller cancelled the call.
    Cancelled = 1,
    /// An error that fits none of the other codes.
    Unknown = 2,
    /// The request is wrong in itself, in whatever state the server is.
    InvalidArgument = 3,
    /// The deadline of the call passed before its answer; the request may still take effect.
    DeadlineExceeded = 4,
    /// A thing that the request names does not exist.
    NotFound = 5,
    /// A thing that the request creates already exists.
    AlreadyExists = 6,
    /// The caller is known, but has no permission for this call.
    PermissionDenied = 7,
    /// A quota or a limit is used up.
    ResourceExhausted = 8,
    /// The state does not allow the request.
    FailedPrecondition = 9,
    /// The request conflicts with another one that runs at the same time.
    Aborted = 10,
    /// A number is outside of the range that the state allows.
    OutOfRange = 11,
    /// The server has no such method.
    Unimplemented = 12,
    /// An invariant of the server is broken, or the request does not decode.
    Internal = 13,
    /// The server cannot serve the call now; the client may try again.
    Unavailable = 14,
    /// Data is lost.
    DataLoss = 15,
    /// The call carries no valid credentials.
    Unauthenticated = 16,
}

impl Code {
    /// Every code, in the order of its number.
    pub const ALL: [Code; CODES] = [
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

    /// The code's number on the wire.
    pub fn number(self) -> u8 {
        self as u8
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

    /// The code's number in decimal, as the header `grpc-status` holds it.
    pub fn text(self) -> &'static str {
        const TEXTS: [&str; CODES] = [
            "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15",
            "16",
        ];
        TEXTS[self as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_listed_by_their_numbers() {
        for (at, code) in Code::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(code.number()), at);
            assert_eq!(code.text(), at.to_string());
        }
        assert_eq!(Code::NAMES[usize::from(Code::Unauthenticated.number())], "Unauthenticated");
    }
}

//! The status codes of gRPC (`statuscodes.md`).
//!
//! They are a crate because two crates need them that may not know each other: `etcd` gives each
//! error its code and knows no HTTP/2; `grpc` sends codes and knows no protocol above gRPC.

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
    /// The request is wrong, whatever the state is.
    InvalidArgument = 3,
    /// The deadline has passed; the request may still take effect.
    DeadlineExceeded = 4,
    /// A thing that the request names does not exist.
    NotFound = 5,
    /// A thing that the request creates already exists.
    AlreadyExists = 6,
    /// The caller may not do that.
    PermissionDenied = 7,
    /// A quota or a limit is used up.
    ResourceExhausted = 8,
    /// The state does not allow the request.
    FailedPrecondition = 9,
    /// A conflict with another request.
    Aborted = 10,
    /// A number is outside of the range that the state allows.
    OutOfRange = 11,
    /// The server has no such method.
    Unimplemented = 12,
    /// An invariant of the server is broken, or the request is no message.
    Internal = 13,
    /// The server cannot serve now.
    Unavailable = 14,
    /// Data is lost.
    DataLoss = 15,
    /// The caller did not prove who it is.
    Unauthenticated = 16,
}

impl Code {
    /// Every code, in the order of the numbers.
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

    /// The number on the wire.
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

    /// The number as the text that `grpc-status` holds.
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

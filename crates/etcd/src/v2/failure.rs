//! The errors of etcd v2. Each has a code, a cause, and the index of the store.
//!
//! Source: etcd 3.4, `etcdserver/api/v2error`.

use machine::etcd_v2::reply::{Mismatch, Reason, Refusal};

use super::{auth, json};

/// The error codes that can be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// There is no node at the key.
    KeyNotFound = 100,
    /// A comparison does not hold.
    TestFailed = 101,
    /// The node is a directory.
    NotFile = 102,
    /// A node above the key is a file.
    NotDir = 104,
    /// A node exists at the key.
    NodeExist = 105,
    /// The root cannot be changed.
    RootReadOnly = 107,
    /// The directory is not empty.
    DirNotEmpty = 108,
    /// The client has no right to do this.
    Unauthorized = 110,
    /// The tree has reached its limit of memory. etcd has neither this limit nor this code.
    NoSpace = 112,
    /// `prevValue` is empty.
    PrevValueRequired = 201,
    /// `ttl` is no number.
    TtlNotNumber = 202,
    /// An index is no number.
    IndexNotNumber = 203,
    /// The value of a parameter is not allowed.
    InvalidField = 209,
    /// The parameters cannot be read.
    InvalidForm = 210,
    /// A refresh has a value.
    RefreshValue = 211,
    /// A refresh has no time to live.
    RefreshTtlRequired = 212,
    /// The request could not be replicated.
    RaftInternal = 300,
    /// The events from the requested index on are no longer kept.
    EventIndexCleared = 401,
}

impl Code {
    /// The text of the code in answers.
    pub fn message(self) -> &'static str {
        match self {
            Code::KeyNotFound => "Key not found",
            Code::TestFailed => "Compare failed",
            Code::NotFile => "Not a file",
            Code::NotDir => "Not a directory",
            Code::NodeExist => "Key already exists",
            Code::RootReadOnly => "Root is read only",
            Code::DirNotEmpty => "Directory not empty",
            Code::Unauthorized => "The request requires user authentication",
            Code::NoSpace => "The store is full",
            Code::PrevValueRequired => "PrevValue is Required in POST form",
            Code::TtlNotNumber => "The given TTL in POST form is not a number",
            Code::IndexNotNumber => "The given index in POST form is not a number",
            Code::InvalidField => "Invalid field",
            Code::InvalidForm => "Invalid POST form",
            Code::RefreshValue => "Value provided on refresh",
            Code::RefreshTtlRequired => "A TTL must be provided on refresh",
            Code::RaftInternal => "Raft Internal Error",
            Code::EventIndexCleared => "The event in requested index is outdated and cleared",
        }
    }

    /// The HTTP status of the answer.
    pub fn status(self) -> u16 {
        match self {
            Code::KeyNotFound => 404,
            // `NoSpace` is below 500: at 500 and above clients would ask each member in turn, and
            // lose the reason.
            Code::NotFile | Code::DirNotEmpty | Code::NoSpace => 403,
            Code::Unauthorized => 401,
            Code::TestFailed | Code::NodeExist => 412,
            Code::RaftInternal => 500,
            _ => 400,
        }
    }
}

/// An error, ready to be answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The error's code.
    pub code: Code,
    /// The cause. It may quote a value, so it may be invalid UTF-8.
    pub cause: Vec<u8>,
    /// The index of the store when it refused; 0 if the store was not asked.
    pub index: u64,
}

impl Failure {
    /// An error found without asking the store; its index is 0.
    pub fn new(code: Code, cause: impl Into<Vec<u8>>) -> Failure {
        Failure { code, cause: cause.into(), index: 0 }
    }

    /// Bytes of the two values that the cause of a refusal quotes; 0 if it quotes none.
    pub fn cause_bytes(refusal: &Refusal) -> usize {
        match &refusal.reason {
            Reason::CompareFailed(Mismatch { value: Some(value), .. }) => {
                value.asked.len() + value.found.len()
            }
            _ => 0,
        }
    }

    /// The JSON of the answer.
    pub fn body(&self) -> Vec<u8> {
        let mut out = format!("{{\"errorCode\":{},\"message\":", self.code as u16).into_bytes();
        json::put_text(self.code.message().as_bytes(), &mut out);
        if !self.cause.is_empty() {
            out.extend_from_slice(b",\"cause\":");
            json::put_text(&self.cause, &mut out);
        }
        out.extend_from_slice(format!(",\"index\":{}}}\n", self.index).as_bytes());
        out
    }
}

impl From<&Refusal> for Failure {
    fn from(refusal: &Refusal) -> Failure {
        let of_key = |code, key: &str| (code, key.as_bytes().to_vec());
        let (code, cause) = match &refusal.reason {
            Reason::KeyNotFound(key) => of_key(Code::KeyNotFound, key),
            Reason::CompareFailed(mismatch) => (Code::TestFailed, cause_of(mismatch)),
            Reason::NotFile(key) => of_key(Code::NotFile, key),
            Reason::NotDir(key) => of_key(Code::NotDir, key),
            Reason::KeyExists(key) => of_key(Code::NodeExist, key),
            Reason::RootReadOnly => of_key(Code::RootReadOnly, "/"),
            Reason::DirNotEmpty(key) => of_key(Code::DirNotEmpty, key),
            Reason::NoSpace(key) => of_key(Code::NoSpace, key),
            Reason::Unauthorized => (Code::Unauthorized, b"Insufficient credentials".to_vec()),
            // Refused changes of users and roles have answers of their own: [`auth::refused`].
            Reason::Auth(refused) => (Code::Unauthorized, auth::refused(refused).1.into_bytes()),
            Reason::HistoryCleared { first, asked } => {
                let cause = format!("the requested history has been cleared [{first}/{asked}]");
                (Code::EventIndexCleared, cause.into_bytes())
            }
        };
        Failure { code, cause, index: refusal.index }
    }
}

/// The cause of a failed comparison (etcd 3.4 `v2store.getCompareFailCause`).
fn cause_of(mismatch: &Mismatch) -> Vec<u8> {
    let value = mismatch
        .value
        .as_ref()
        .map(|value| [b"[".as_slice(), &value.asked, b" != ", &value.found, b"]"].concat());
    let index = mismatch.index.map(|index| format!("[{} != {}]", index.asked, index.found));
    let parts = value.into_iter().chain(index.map(String::into_bytes));
    parts.collect::<Vec<_>>().join(b" ".as_slice())
}

#[cfg(test)]
mod tests;

//! The outcomes of etcd v2's commands, and the refusals of commands and reads.

use std::sync::Arc;

use crate::etcd_v2::auth::{Done, Refused};
use crate::etcd_v2::event::Event;
use crate::etcd_v2::key::Key;
use crate::etcd_v2::tree::Missing;

/// The outcome of a command that took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A key was written or removed. The event's index is the store's index.
    Written(Arc<Event>),
    /// All keys of the command that still had the judged time to live have expired.
    Expired {
        /// How many keys have expired.
        count: u64,
    },
    /// Users or roles were changed.
    AuthDone(Done),
}

/// A command or a read that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why it was refused.
    pub reason: Reason,
    /// The store's index, which a refusal does not move.
    pub index: u64,
}

/// Why a command or a read was refused. The keys are those that etcd's error messages name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is no node at this key. It is the first key on the way to the wanted one that does not
    /// exist.
    KeyNotFound(Box<str>),
    /// A comparison does not hold.
    CompareFailed(Mismatch),
    /// The node at this key is a directory.
    NotFile(Box<str>),
    /// The node at this key is a file, but the wanted key is below it.
    NotDir(Box<str>),
    /// There is a node at this key already.
    KeyExists(Box<str>),
    /// The root cannot be written or removed.
    RootReadOnly,
    /// The directory at this key is not empty.
    DirNotEmpty(Box<str>),
    /// A wait starts from an index whose event was dropped from the history.
    HistoryCleared {
        /// The lowest index that a wait can start from.
        first: u64,
        /// The index that the client wants to wait from.
        asked: u64,
    },
    /// The write would make the tree larger than its bound in memory. The key is the written one.
    NoSpace(Box<str>),
    /// The client has no permission for this.
    Unauthorized,
    /// A change of users and roles is refused.
    Auth(Refused),
}

impl Refusal {
    /// The client has no permission for this. The answer hides the store's index.
    pub const UNAUTHORIZED: Refusal = Refusal { reason: Reason::Unauthorized, index: 0 };
}

/// The parts of a comparison that do not hold; at least one is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The values, if the file does not have the wanted one.
    pub value: Option<OtherValue>,
    /// The indexes, if the last write does not have the wanted one.
    pub index: Option<OtherIndex>,
}

/// The two values of a comparison that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherValue {
    /// The value that the client wanted.
    pub asked: Box<[u8]>,
    /// The value that the file has.
    pub found: Arc<[u8]>,
}

/// The two indexes of a comparison that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherIndex {
    /// The index that the client wanted.
    pub asked: u64,
    /// The index of the file's last write.
    pub found: u64,
}

impl From<Missing<'_>> for Reason {
    fn from(missing: Missing<'_>) -> Reason {
        match missing {
            Missing::NoNode(key) => Reason::KeyNotFound(key.text().into()),
            Missing::IsFile(key) => Reason::NotDir(key.text().into()),
        }
    }
}

impl Reason {
    /// The reason for a node that is a directory where a file is needed.
    pub(crate) fn not_file(key: Key<'_>) -> Reason {
        Reason::NotFile(key.text().into())
    }
}

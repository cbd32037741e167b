//! The outcomes of commands, and the refusals of commands and reads.

use std::sync::Arc;

use crate::etcd_v2::auth::{Done, Refused};
use crate::etcd_v2::event::Event;
use crate::etcd_v2::key::Key;
use crate::etcd_v2::tree::Missing;

/// The outcome of a command that took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A write. The store's index is that of the event.
    Written(Arc<Event>),
    /// Keys have expired, as far as the command judged their present times to live.
    Expired {
        /// How many.
        count: u64,
    },
    /// A change of users and roles.
    AuthDone(Done),
}

/// A command or a read that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// The store's index, which the refusal did not move.
    pub index: u64,
}

/// Why a command or a read was refused. The keys are those that etcd names as the cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// There is no node at this key, the first on the way that does not exist.
    KeyNotFound(Box<str>),
    /// A comparison does not hold.
    CompareFailed(Mismatch),
    /// The node at this key is a directory.
    NotFile(Box<str>),
    /// The node at this key is a file, and the wanted key is below it.
    NotDir(Box<str>),
    /// There is a node at this key already.
    KeyExists(Box<str>),
    /// The root is neither written nor removed.
    RootReadOnly,
    /// The directory at this key is not empty.
    DirNotEmpty(Box<str>),
    /// A wait begins at an event that is gone.
    HistoryCleared {
        /// The first index that a wait can begin at.
        first: u64,
        /// The index that the wait begins at.
        asked: u64,
    },
    /// The tree takes as much memory as it may. The key is that of the write.
    NoSpace(Box<str>),
    /// The client may not do that.
    Unauthorized,
    /// A change of users and roles is refused.
    Auth(Refused),
}

impl Refusal {
    /// The client may not do that. It is not told the index.
    pub const UNAUTHORIZED: Refusal = Refusal { reason: Reason::Unauthorized, index: 0 };
}

/// The parts of a comparison that do not hold; one at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The values, if the file has another one.
    pub value: Option<OtherValue>,
    /// The indexes, if the last write has another one.
    pub index: Option<OtherIndex>,
}

/// A value that is not the one that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherValue {
    /// The value that was asked for.
    pub asked: Box<[u8]>,
    /// The value of the file.
    pub found: Arc<[u8]>,
}

/// An index that is not the one that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherIndex {
    /// The index that was asked for.
    pub asked: u64,
    /// The index of the last write.
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
    /// The node at this key is a directory.
    pub(crate) fn not_file(key: Key<'_>) -> Reason {
        Reason::NotFile(key.text().into())
    }
}

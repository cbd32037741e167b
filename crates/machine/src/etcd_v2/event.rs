//! Events. Each write that takes effect, and each expiry of a key, makes one event. It describes
//! the effect to the client that sent the write, to watchers, and in the history.

use std::sync::Arc;

use crate::codec::{DecodeError, Reader, Write};
use crate::etcd_v2::key::Key;
use crate::limits::ETCD_V2_INDEX_MAX;

/// A write that took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The kind of the write.
    pub action: Action,
    /// The key that was written; never the root.
    pub key: Arc<str>,
    /// The node after the write; without a value if the write removed it. Its `modified` is the
    /// index of the event.
    pub node: NodeState,
    /// The node before the write; `None` if the write created it.
    pub prev: Option<NodeState>,
    /// Whether the write was a refresh, which only changed the time to live: it wakes no watcher.
    pub is_refresh: bool,
}

/// The operation that an event reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// A key was set.
    Set = 1,
    /// A key was created.
    Create = 2,
    /// A key was updated.
    Update = 3,
    /// A key was set because a comparison held.
    CompareAndSwap = 4,
    /// A key was deleted.
    Delete = 5,
    /// A key was deleted because a comparison held.
    CompareAndDelete = 6,
    /// The time to live of a key has ended.
    Expire = 7,
}

impl Action {
    const ALL: [Action; 7] = [
        Action::Set,
        Action::Create,
        Action::Update,
        Action::CompareAndSwap,
        Action::Delete,
        Action::CompareAndDelete,
        Action::Expire,
    ];

    /// The name of the action in etcd's answers.
    pub fn name(self) -> &'static str {
        match self {
            Action::Set => "set",
            Action::Create => "create",
            Action::Update => "update",
            Action::CompareAndSwap => "compareAndSwap",
            Action::Delete => "delete",
            Action::CompareAndDelete => "compareAndDelete",
            Action::Expire => "expire",
        }
    }

    /// Whether the action, when it removes a directory, also removes everything in it.
    fn is_recursive_removal(self) -> bool {
        matches!(self, Action::Delete | Action::Expire)
    }
}

/// A node at the time of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeState {
    /// The index of the write that created the node.
    pub created: u64,
    /// The index of the last write of the node.
    pub modified: u64,
    /// Whether it is a directory.
    pub is_dir: bool,
    /// The value; `None` for directories, and after a removal.
    pub value: Option<Arc<[u8]>>,
    /// When the node's life ends; `None` if it has no time to live, and after a removal.
    pub expiration: Option<Expiration>,
}

/// When a node's life ends, for display only: the leader's own deadline decides when it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expiration {
    /// When the life ends, in ms since 1970, by the wall clock of the leader that stamped the
    /// write.
    pub at_ms: i64,
    /// The seconds that were left at the time of the event, rounded up.
    pub ttl_s: i64,
}

const EVENT_REFRESH: u8 = 1;
const EVENT_PREV: u8 = 2;

const STATE_DIR: u8 = 1;
const STATE_VALUE: u8 = 2;
const STATE_EXPIRATION: u8 = 4;

impl Event {
    /// The store's index after the write: the index of the event.
    pub fn index(&self) -> u64 {
        self.node.modified
    }

    /// Whether the write created the key (`v2store.Event.IsCreated`).
    pub fn is_created(&self) -> bool {
        match self.action {
            Action::Create => true,
            Action::Set => self.prev.is_none(),
            _ => false,
        }
    }

    /// Bytes of the event's key and values.
    pub fn bytes(&self) -> u64 {
        let states = core::iter::once(&self.node).chain(&self.prev);
        let values = states.filter_map(|state| state.value.as_ref()).map(|value| value.len());
        (self.key.len() + values.sum::<usize>()) as u64
    }

    /// The key that was written.
    pub fn key(&self) -> Key<'_> {
        Key::known(&self.key)
    }

    /// Whether the write removed a directory with everything in it.
    pub fn is_dir_removal(&self) -> bool {
        self.action.is_recursive_removal() && self.prev.as_ref().is_some_and(|prev| prev.is_dir)
    }

    /// Appends the event in the form that an image and the digest need:
    ///
    /// ```text
    /// event = action u8 | flags u8 (1: refresh, 2: has a state before) | key text | state
    ///       | [state before]
    /// state = flags u8 (1: directory, 2: has a value, 4: has an expiration) | created u64
    ///       | modified u64 | [value bytes] | [expiration: ms since 1970 i64 | s left i64]
    /// ```
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let flags = if self.is_refresh { EVENT_REFRESH } else { 0 }
            | if self.prev.is_some() { EVENT_PREV } else { 0 };
        out.put_u8(self.action as u8);
        out.put_u8(flags);
        out.put_bytes(self.key.as_bytes());
        self.node.encode(out);
        if let Some(prev) = &self.prev {
            prev.encode(out);
        }
    }

    /// Reads what [`Event::encode`] wrote.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Event, DecodeError> {
        let number = reader.u8()?;
        let Some(action) = Action::ALL.into_iter().find(|action| *action as u8 == number) else {
            return Err(reader.bad("action", u64::from(number)));
        };
        let flags = reader.u8()?;
        if flags & !(EVENT_REFRESH | EVENT_PREV) != 0 {
            return Err(reader.bad("flags of an event", u64::from(flags)));
        }
        let key = Key::decode(reader)?;
        if key.is_root() {
            return Err(reader.bad("event of the root", 0));
        }
        let node = NodeState::decode(reader)?;
        let prev = match flags & EVENT_PREV {
            0 => None,
            _ => Some(NodeState::decode(reader)?),
        };
        if prev.as_ref().is_some_and(|prev| prev.modified >= node.modified) {
            return Err(reader.bad("index of an event", node.modified));
        }
        let is_refresh = flags & EVENT_REFRESH != 0;
        Ok(Event { action, key: key.text().into(), node, prev, is_refresh })
    }
}

impl NodeState {
    fn encode(&self, out: &mut Vec<u8>) {
        let flags = if self.is_dir { STATE_DIR } else { 0 }
            | if self.value.is_some() { STATE_VALUE } else { 0 }
            | if self.expiration.is_some() { STATE_EXPIRATION } else { 0 };
        out.put_u8(flags);
        out.put_u64(self.created);
        out.put_u64(self.modified);
        if let Some(value) = &self.value {
            out.put_bytes(value);
        }
        if let Some(expiration) = &self.expiration {
            out.put_i64(expiration.at_ms);
            out.put_i64(expiration.ttl_s);
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<NodeState, DecodeError> {
        let flags = reader.u8()?;
        let is_dir = flags & STATE_DIR != 0;
        let has_value = flags & STATE_VALUE != 0;
        if flags & !(STATE_DIR | STATE_VALUE | STATE_EXPIRATION) != 0 || (is_dir && has_value) {
            return Err(reader.bad("flags of a state", u64::from(flags)));
        }
        let (created, modified) = (reader.u64()?, reader.u64()?);
        if created == 0 || created > modified || modified > ETCD_V2_INDEX_MAX {
            return Err(reader.bad("indexes of a state", modified));
        }
        let value = if has_value { Some(reader.bytes()?.into()) } else { None };
        let expiration = match flags & STATE_EXPIRATION {
            0 => None,
            _ => Some(Expiration { at_ms: reader.i64()?, ttl_s: reader.i64()? }),
        };
        Ok(NodeState { created, modified, is_dir, value, expiration })
    }
}

#[cfg(test)]
mod tests;

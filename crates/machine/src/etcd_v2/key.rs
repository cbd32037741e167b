//! Keys of etcd v2: paths of nodes in the tree, in a form where each node has exactly one key.

use crate::codec::{DecodeError, Reader};
use crate::limits::{ETCD_V2_KEY_BYTES_MAX, ETCD_V2_LEVELS_MAX};

/// Bytes that [`Key::in_order`] appends: a slash and a name.
const IN_ORDER_BYTES: usize = 1 + 20;

/// The key of a node: a slash and a name for each level. It is empty for the root, which has no key
/// in etcd's answers either. A name is not empty, not `.` or `..`, and has no slash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a>(&'a str);

impl<'a> Key<'a> {
    /// The key of the root.
    pub const ROOT: Key<'static> = Key("");

    /// Checks a text, and returns it as a key. `None` if it has another form, or is longer or
    /// deeper than allowed.
    pub fn new(text: &'a str) -> Option<Key<'a>> {
        let key = Key(text);
        let has_form = text.is_empty() || text.starts_with('/');
        let fits = text.len() <= ETCD_V2_KEY_BYTES_MAX && key.level_count() <= ETCD_V2_LEVELS_MAX;
        (has_form && fits && key.names().all(is_name)).then_some(key)
    }

    /// Returns a text as a key without a check: the text must have been a key before.
    pub fn known(text: &'a str) -> Key<'a> {
        debug_assert!(Key::new(text).is_some());
        Key(text)
    }

    /// The key as text.
    pub fn text(self) -> &'a str {
        self.0
    }

    /// Whether the key is the root's.
    pub fn is_root(self) -> bool {
        self.0.is_empty()
    }

    /// The names of the levels, from the root down.
    pub fn names(self) -> impl Iterator<Item = &'a str> {
        self.0.split('/').skip(1)
    }

    /// The number of levels; 0 for the root.
    pub fn level_count(self) -> usize {
        self.names().count()
    }

    /// The name of each level, from the root down, with the key that ends there.
    pub fn steps(self) -> impl Iterator<Item = (&'a str, Key<'a>)> {
        let mut end = 0;
        self.names().map(move |name| {
            end += 1 + name.len();
            (name, Key(&self.0[..end]))
        })
    }

    /// The key of the directory that the node is in, and the node's name there; `None` for the
    /// root.
    pub fn split(self) -> Option<(Key<'a>, &'a str)> {
        self.0.rsplit_once('/').map(|(parent, name)| (Key(parent), name))
    }

    /// Whether the key is below `ancestor` in the tree.
    pub fn is_below(self, ancestor: Key<'_>) -> bool {
        self.behind(ancestor).is_some_and(|rest| !rest.is_empty())
    }

    /// Whether the key is hidden from watchers of `ancestor`: a name below `ancestor` begins with
    /// `_`.
    ///
    /// etcd 3.4 `v2store.isHidden`.
    pub fn is_hidden_from(self, ancestor: Key<'_>) -> bool {
        self.behind(ancestor).is_some_and(|rest| rest.contains("/_"))
    }

    /// The part of the key behind `ancestor`; `None` unless `ancestor` is this key or above it.
    fn behind(self, ancestor: Key<'_>) -> Option<&'a str> {
        let rest = self.0.strip_prefix(ancestor.0)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    }

    /// Whether a key created in order in this directory is neither too long nor too deep.
    pub fn has_room_in_order(self) -> bool {
        self.0.len() + IN_ORDER_BYTES <= ETCD_V2_KEY_BYTES_MAX
            && self.level_count() < ETCD_V2_LEVELS_MAX
    }

    /// The key of a node that the write with this index creates in order in this directory. Such
    /// names sort like their indexes.
    ///
    /// etcd 3.4 `v2store.store.internalCreate`.
    pub(crate) fn in_order(self, index: u64) -> String {
        format!("{}/{index:020}", self.0)
    }

    /// Reads a key, and checks it.
    pub(crate) fn decode(reader: &mut Reader<'a>) -> Result<Key<'a>, DecodeError> {
        let text = reader.text()?;
        Key::new(text).ok_or_else(|| reader.bad("key of etcd v2 with bytes", text.len() as u64))
    }
}

/// Whether a listing of a directory leaves out this name.
///
/// etcd 3.4 `v2store.node.IsHidden`.
pub(crate) fn is_hidden(name: &str) -> bool {
    name.starts_with('_')
}

fn is_name(name: &str) -> bool {
    !matches!(name, "" | "." | "..")
}

#[cfg(test)]
mod tests;

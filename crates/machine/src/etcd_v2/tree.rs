//! The tree of etcd v2: files with values, and directories with children, each with an optional
//! time to live.
//!
//! Nodes are reference-counted, and a shared node never changes: a write copies a node that a
//! reader or an image shares, and changes any other in place. So a reader takes a reference to its
//! node under the lock, and walks through the node later; an image takes a reference to the root;
//! and the removal of a directory takes out one child.
//!
//! Each directory keeps sums over everything below it (nodes, bytes, digest), so that a removal
//! need not walk to correct the sums above.

use std::sync::Arc;

use crate::codec::{DecodeError, Reader, Write};
use crate::digest::Digest;
use crate::etcd_v2::children::{Children, Chunk};
use crate::etcd_v2::event::{Expiration, NodeState};
use crate::etcd_v2::key::{Key, is_hidden};
use crate::held::{ETCD_V2_NODE_HELD_BYTES, ETCD_V2_TTL_HELD_BYTES};
use crate::limits::{ETCD_V2_INDEX_MAX, ETCD_V2_TTL_S_MAX};

/// The tag of a node's record, and of its contribution to the digest.
pub(crate) const TAG_NODE: u8 = b'n';

/// A file or a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its indexes, and its time to live.
    pub stat: NodeStat,
    /// Its value or its children.
    pub content: Content,
}

/// The indexes and the time to live of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeStat {
    /// The index of the write that created the node. A set creates a new node in place of the old
    /// one.
    pub created: u64,
    /// The index of the last write of the node. For a directory, the index of its creation, as in
    /// etcd.
    pub modified: u64,
    /// The time to live; `None` if the node has none.
    pub ttl: Option<Ttl>,
}

/// The time to live of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ttl {
    /// How long the node lives, in seconds, from the write that gave the time to live.
    pub ttl_s: u64,
    /// When that time ends, in ms since 1970, by the stamp of that write. For display only.
    pub expires_ms: i64,
    /// The index of that write, which no other time to live has. A command that expires the node
    /// names this index. For a file, it is the node's `modified`, unless an image was installed
    /// since.
    pub since: u64,
}

/// The value of a file, or the children of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The value of a file.
    File(Arc<[u8]>),
    /// The children of a directory.
    Dir(Dir),
}

/// The children of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dir {
    children: Children<Node>,
    /// The sums over all nodes below the directory.
    below: Sums,
}

/// Sums over a set of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Sum of their contributions to the digest.
    pub digest: Digest,
    /// Sum of the bytes of their records in an image.
    pub bytes: u64,
    /// Number of nodes.
    pub node_count: u64,
    /// Number of nodes with a time to live.
    pub ttl_count: u64,
}

impl Sums {
    /// An estimate of the memory that the nodes take, in bytes.
    fn held(&self) -> u64 {
        self.bytes
            + self.node_count * ETCD_V2_NODE_HELD_BYTES
            + self.ttl_count * ETCD_V2_TTL_HELD_BYTES
    }

    fn add(&mut self, other: Sums) {
        self.digest.add(other.digest);
        self.bytes += other.bytes;
        self.node_count += other.node_count;
        self.ttl_count += other.ttl_count;
    }

    /// Subtracts the sums `gone`, which are contained in these, and adds `come`.
    fn replace(&mut self, gone: Sums, come: Sums) {
        self.digest.add(come.digest);
        self.digest.subtract(gone.digest);
        self.bytes = self.bytes + come.bytes - gone.bytes;
        self.node_count = self.node_count + come.node_count - gone.node_count;
        self.ttl_count = self.ttl_count + come.ttl_count - gone.ttl_count;
    }
}

impl Ttl {
    /// The end of the life as it is shown at time `now_ms`. Like etcd, rounds the seconds that are
    /// left up, even if they are negative (`v2store.node.expirationAndTTL`).
    pub fn shown(&self, now_ms: i64) -> Expiration {
        let late_ms = now_ms.saturating_sub(self.expires_ms);
        Expiration { at_ms: self.expires_ms, ttl_s: -late_ms.div_euclid(1_000) }
    }
}

impl Node {
    /// An empty directory.
    pub fn dir(stat: NodeStat) -> Node {
        Node { stat, content: Content::Dir(Dir::default()) }
    }

    /// A file.
    pub fn file(stat: NodeStat, value: impl Into<Arc<[u8]>>) -> Node {
        Node { stat, content: Content::File(value.into()) }
    }

    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        matches!(self.content, Content::Dir(_))
    }

    /// The value of a file; `None` for a directory.
    pub fn value(&self) -> Option<&Arc<[u8]>> {
        match &self.content {
            Content::File(value) => Some(value),
            Content::Dir(_) => None,
        }
    }

    /// The children of a directory by name, including hidden ones; none for a file.
    pub fn children(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Node>)> {
        self.children_behind(None)
    }

    /// The children of a directory that a listing shows, sorted by name.
    pub fn listed(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Node>)> {
        self.listed_behind(None)
    }

    /// As [`Node::listed`], but only names that sort after `after`; all if it is `None`.
    pub fn listed_behind(
        &self,
        after: Option<&str>,
    ) -> impl Iterator<Item = (&Arc<str>, &Arc<Node>)> {
        self.children_behind(after).filter(|(name, _)| !is_hidden(name))
    }

    /// The children of a directory whose names sort after `after`, including hidden ones; all if it
    /// is `None`.
    pub(crate) fn children_behind(
        &self,
        after: Option<&str>,
    ) -> impl Iterator<Item = (&Arc<str>, &Arc<Node>)> {
        let dir = match &self.content {
            Content::Dir(dir) => Some(dir),
            Content::File(_) => None,
        };
        dir.into_iter().flat_map(move |dir| dir.children.behind(after))
    }

    /// The node at a key relative to this one; `None` if there is none.
    pub fn at(&self, below: Key<'_>) -> Option<&Node> {
        below.names().try_fold(self, |node, name| match &node.content {
            Content::Dir(dir) => dir.children.get(name).map(Arc::as_ref),
            Content::File(_) => None,
        })
    }

    /// The node as an event or an answer shows it, without its children.
    pub fn shown(&self, now_ms: i64) -> NodeState {
        NodeState {
            created: self.stat.created,
            modified: self.stat.modified,
            is_dir: self.is_dir(),
            value: self.value().cloned(),
            expiration: self.stat.ttl.map(|ttl| ttl.shown(now_ms)),
        }
    }

    /// The sums over all nodes below this one.
    pub fn below(&self) -> Sums {
        match &self.content {
            Content::Dir(dir) => dir.below,
            Content::File(_) => Sums::default(),
        }
    }

    /// The chunks of a directory's children, so that the caller can drop them one by one; none for
    /// a file.
    pub(crate) fn into_chunks(self) -> Vec<Arc<Chunk<Node>>> {
        match self.content {
            Content::Dir(dir) => dir.children.into_chunks(),
            Content::File(_) => Vec::new(),
        }
    }

    /// Passes each time to live of this node, whose key is `key`, and of the nodes below it to
    /// `visit`.
    pub(crate) fn ttls(&self, key: &mut String, visit: &mut dyn FnMut(&str, &Ttl)) {
        if let Some(ttl) = &self.stat.ttl {
            visit(key, ttl);
        }
        if self.below().ttl_count == 0 {
            return;
        }
        for (name, child) in self.children() {
            let end = key.len();
            key.push('/');
            key.push_str(name);
            child.ttls(key, visit);
            key.truncate(end);
        }
    }

    /// The sums over the node itself, whose key is `key`, and all nodes below it.
    fn sums(&self, key: Key<'_>) -> Sums {
        let mut sums = own_sums(key, &self.stat, self.value().map(Arc::as_ref));
        sums.add(self.below());
        sums
    }

    fn as_dir_mut(&mut self) -> &mut Dir {
        match &mut self.content {
            Content::Dir(dir) => dir,
            Content::File(_) => unreachable!("the caller has found a directory here"),
        }
    }
}

/// Why [`Tree::find`] finds no node at a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing<'k> {
    /// There is no node at this key. It is the first key on the way to the wanted one that does not
    /// exist.
    NoNode(Key<'k>),
    /// There is a file at this key, but the wanted key is below it.
    IsFile(Key<'k>),
}

/// The tree of etcd v2, held by its root directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    root: Arc<Node>,
}

impl Default for Tree {
    fn default() -> Tree {
        Tree { root: Arc::new(Node::dir(NodeStat::default())) }
    }
}

impl Tree {
    /// The root: a directory without indexes, which is never removed.
    pub fn root(&self) -> &Arc<Node> {
        &self.root
    }

    /// The sums over all nodes except the root.
    pub fn sums(&self) -> Sums {
        self.root.below()
    }

    /// An estimate of the memory that the nodes take, in bytes. Equal on all members.
    pub fn held(&self) -> u64 {
        self.sums().held()
    }

    /// The node at a key.
    ///
    /// # Errors
    /// There is no node. The error names the key on the way where that became clear, which etcd's
    /// error messages show (`v2store.store.internalGet`).
    pub fn find<'k>(&self, key: Key<'k>) -> Result<&Arc<Node>, Missing<'k>> {
        let (mut node, mut at) = (&self.root, Key::ROOT);
        for (name, next) in key.steps() {
            let Content::Dir(dir) = &node.content else { return Err(Missing::IsFile(at)) };
            node = dir.children.get(name).ok_or(Missing::NoNode(next))?;
            at = next;
        }
        Ok(node)
    }

    /// Puts a node at a key, and returns the node that it replaces. Creates the missing directories
    /// on the way, with index `index`. The caller has checked that there is no file on the way, and
    /// that the key is not the root's.
    pub(crate) fn insert(&mut self, key: Key<'_>, node: Node, index: u64) -> Option<Arc<Node>> {
        let mut node = Arc::new(node);
        let mut at = key;
        if let Err(Missing::NoNode(first)) = self.find(key) {
            while at != first {
                let (parent, name) = at.split().expect("the first missing key is above");
                let below = node.sums(at);
                let mut children = Children::default();
                children.insert(name, node);
                let stat = NodeStat { created: index, modified: index, ttl: None };
                node = Arc::new(Node { stat, content: Content::Dir(Dir { children, below }) });
                at = parent;
            }
        }
        self.swap(at, Some(node))
    }

    /// Removes the node at a key with everything below it, and returns it. Panics if there is none.
    pub(crate) fn remove(&mut self, key: Key<'_>) -> Arc<Node> {
        self.swap(key, None).expect("the caller has found the node")
    }

    /// Replaces the indexes and time to live of the node at a key, and the value if it is a file.
    /// Panics if there is no node.
    pub(crate) fn change(&mut self, key: Key<'_>, stat: NodeStat, value: Option<Arc<[u8]>>) {
        let found = self.find(key).expect("the caller has found the node");
        let gone = own_sums(key, &found.stat, found.value().map(Arc::as_ref));
        let come = own_sums(key, &stat, value.as_deref());
        let (parent, name) = key.split().expect("the root has no numbers");
        let dir = self.directory(parent, gone, come);
        let node = Arc::make_mut(dir.children.get_mut(name).expect("it was found"));
        node.stat = stat;
        if let Some(value) = value {
            assert!(!node.is_dir(), "a directory has no value");
            node.content = Content::File(value);
        }
    }

    /// Puts a node at a key, or removes it. Its directory must exist. Returns the node that was
    /// there before.
    fn swap(&mut self, key: Key<'_>, node: Option<Arc<Node>>) -> Option<Arc<Node>> {
        let (parent, name) = key.split().expect("the root is never replaced");
        let gone = self.find(key).map_or_else(|_| Sums::default(), |found| found.sums(key));
        let come = node.as_ref().map_or_else(Sums::default, |node| node.sums(key));
        let dir = self.directory(parent, gone, come);
        match node {
            Some(node) => dir.children.insert(name, node),
            None => dir.children.remove(name),
        }
    }

    /// The directory at a key, to be changed. In it and in the directories above it, replaces
    /// `gone` by `come` in the sums.
    fn directory(&mut self, key: Key<'_>, gone: Sums, come: Sums) -> &mut Dir {
        let mut node = Arc::make_mut(&mut self.root);
        for name in key.names() {
            let dir = node.as_dir_mut();
            dir.below.replace(gone, come);
            node = Arc::make_mut(dir.children.get_mut(name).expect("the caller has found it"));
        }
        let dir = node.as_dir_mut();
        dir.below.replace(gone, come);
        dir
    }
}

fn own_sums(key: Key<'_>, stat: &NodeStat, value: Option<&[u8]>) -> Sums {
    let mut record = Vec::new();
    encode(key, stat, value, &mut record);
    Sums {
        digest: Digest::from_tagged(&record),
        bytes: record.len() as u64,
        node_count: 1,
        ttl_count: u64::from(stat.ttl.is_some()),
    }
}

/// The most bytes of a node's record in addition to its key and its value.
pub(crate) const RECORD_BYTES_MAX: u64 = 1 + 1 + 4 + 8 + 8 + TTL_BYTES + 4;

/// Bytes of a time to live in a node's record.
pub(crate) const TTL_BYTES: u64 = 8 + 8 + 8;

const FLAG_DIR: u8 = 1;
const FLAG_TTL: u8 = 2;

/// Appends a node in the form that an image and the digest need. `value` is `None` for a directory.
///
/// ```text
/// node = 'n' | flags u8 (1: directory, 2: has a time to live) | key text | created u64
///      | modified u64 | [s u64 | end in ms since 1970 i64 | index of its write u64]
///      | [value bytes, of a file]
/// ```
pub(crate) fn encode(key: Key<'_>, stat: &NodeStat, value: Option<&[u8]>, out: &mut Vec<u8>) {
    out.put_u8(TAG_NODE);
    let flags =
        if value.is_none() { FLAG_DIR } else { 0 } | if stat.ttl.is_some() { FLAG_TTL } else { 0 };
    out.put_u8(flags);
    out.put_bytes(key.text().as_bytes());
    out.put_u64(stat.created);
    out.put_u64(stat.modified);
    if let Some(ttl) = &stat.ttl {
        out.put_u64(ttl.ttl_s);
        out.put_i64(ttl.expires_ms);
        out.put_u64(ttl.since);
    }
    if let Some(value) = value {
        out.put_bytes(value);
    }
}

/// Reads a node, whose tag was read already. `index` is the store's.
pub(crate) fn decode<'a>(
    reader: &mut Reader<'a>,
    index: u64,
) -> Result<(Key<'a>, Node), DecodeError> {
    let flags = reader.u8()?;
    if flags & !(FLAG_DIR | FLAG_TTL) != 0 {
        return Err(reader.bad("flags of a node", u64::from(flags)));
    }
    let key = Key::decode(reader)?;
    if key.is_root() {
        return Err(reader.bad("record of the root", 0));
    }
    let (created, modified) = (reader.u64()?, reader.u64()?);
    if created == 0 || created > modified || modified > index {
        return Err(reader.bad("indexes of a node", modified));
    }
    let ttl = if flags & FLAG_TTL != 0 { Some(decode_ttl(reader, index)?) } else { None };
    let is_dir = flags & FLAG_DIR != 0;
    if let Some(ttl) = &ttl
        && ttl.since < modified
    {
        return Err(reader.bad("index of a time to live", ttl.since));
    }
    let stat = NodeStat { created, modified, ttl };
    let node = if is_dir { Node::dir(stat) } else { Node::file(stat, reader.bytes()?) };
    Ok((key, node))
}

fn decode_ttl(reader: &mut Reader<'_>, index: u64) -> Result<Ttl, DecodeError> {
    let ttl = Ttl { ttl_s: reader.u64()?, expires_ms: reader.i64()?, since: reader.u64()? };
    if ttl.ttl_s > ETCD_V2_TTL_S_MAX {
        return Err(reader.bad("time to live", ttl.ttl_s));
    }
    if ttl.since > index.min(ETCD_V2_INDEX_MAX) {
        return Err(reader.bad("index of a time to live", ttl.since));
    }
    Ok(ttl)
}

#[cfg(test)]
mod tests;

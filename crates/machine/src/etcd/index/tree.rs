//! A B+ tree of all keys, each with its versions. Each node counts the keys below it, and how many
//! of them exist, so the keys of a range are counted without a walk.
//!
//! An entry holds no key of its own: it takes the key from its versions. A full node splits in the
//! middle. But if the new entry comes behind all others of the node, it starts a new node alone:
//! keys often arrive in order, and so their nodes stay full.

use core::ops::{Add, Sub};

use crate::etcd::event::Event;
use crate::etcd::index::items::{NODE_MAX, insert};
use crate::etcd::index::leaf::Leaf;
use crate::etcd::index::versions::Versions;

/// A node with fewer items than `NODE_MIN` is merged with a neighbour, if they have at most
/// `JOINED_MAX` together.
const NODE_MIN: usize = NODE_MAX / 4;
const JOINED_MAX: usize = NODE_MAX * 3 / 4;

/// Numbers of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// All keys that have a version, including deleted ones.
    pub keys: u64,
    /// Keys that exist.
    pub live: u64,
}

impl Counts {
    pub fn of(versions: &Versions) -> Counts {
        Counts { keys: 1, live: u64::from(versions.is_live()) }
    }

    fn apply(&mut self, added: &Added) {
        self.keys += u64::from(added.is_new);
        self.live += u64::from(added.is_live);
        self.live -= u64::from(added.before.is_some());
    }
}

impl Add for Counts {
    type Output = Counts;

    fn add(self, other: Counts) -> Counts {
        Counts { keys: self.keys + other.keys, live: self.live + other.live }
    }
}

impl Sub for Counts {
    type Output = Counts;

    fn sub(self, other: Counts) -> Counts {
        Counts { keys: self.keys - other.keys, live: self.live - other.live }
    }
}

/// The keys with their versions, and how many there are.
#[derive(Default)]
pub(super) struct Tree {
    root: Node,
    counts: Counts,
}

enum Node {
    Leaf(Leaf),
    Inner(Vec<Child>),
}

struct Child {
    /// No key below this child is lower, and all keys of the children before it are lower. Not used
    /// for the first child of a node, whose lower bound is the bound of the node itself.
    from: Box<[u8]>,
    counts: Counts,
    node: Node,
}

/// The effect of an insertion below a node.
struct Added {
    /// The version before the new one; `None` if the key did not exist.
    before: Option<Event>,
    /// Whether the key was not in the tree before.
    is_new: bool,
    /// Whether the key exists now: its new version is not a deletion.
    is_live: bool,
    /// The new node to the right, if the node was split.
    split: Option<Child>,
}

/// The progress of a walk that changes versions.
struct ChangeWalk<'w> {
    /// The key to start at; `None` once the first leaf is reached.
    from: Option<&'w [u8]>,
    /// How many more keys the walk may visit.
    left: u64,
    change: &'w mut dyn FnMut(&mut Versions),
}

impl Default for Node {
    fn default() -> Node {
        Node::Leaf(Leaf::default())
    }
}

impl Tree {
    /// How many keys the tree has.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The versions of a key; `None` if the tree does not have it.
    pub fn get(&self, key: &[u8]) -> Option<&Versions> {
        let mut node = &self.root;
        loop {
            match node {
                Node::Inner(children) => node = &children[child_of(children, key)].node,
                Node::Leaf(leaf) => return Some(&leaf.entries()[leaf.place(key).ok()?]),
            }
        }
    }

    /// How many keys are before this one.
    pub fn before(&self, key: &[u8]) -> Counts {
        let (mut node, mut counts) = (&self.root, Counts::default());
        loop {
            match node {
                Node::Inner(children) => {
                    let at = child_of(children, key);
                    counts = counts + sum(children[..at].iter().map(|child| child.counts));
                    node = &children[at].node;
                }
                Node::Leaf(leaf) => {
                    let (Ok(end) | Err(end)) = leaf.place(key);
                    return counts + sum(leaf.entries()[..end].iter().map(Counts::of));
                }
            }
        }
    }

    /// The keys from this one on, in order.
    pub fn from(&self, key: &[u8]) -> Iter<'_> {
        let (mut node, mut above) = (&self.root, Vec::new());
        loop {
            match node {
                Node::Inner(children) => {
                    let at = child_of(children, key);
                    above.push(children[at + 1..].iter());
                    node = &children[at].node;
                }
                Node::Leaf(leaf) => {
                    let (Ok(start) | Err(start)) = leaf.place(key);
                    return Iter { above, leaf: leaf.entries()[start..].iter() };
                }
            }
        }
    }

    /// Adds the newest version of a key. Returns the version before it; `None` if the key did not
    /// exist.
    pub fn push(&mut self, event: Event) -> Option<Event> {
        let added = self.root.push(event);
        self.note(added)
    }

    /// Adds a key that follows all others.
    pub fn push_behind(&mut self, versions: Versions) {
        let added = self.root.push_behind(versions);
        self.note(added);
    }

    /// Updates the counts after an insertion. If the root was split, puts a new root above the two
    /// halves.
    fn note(&mut self, mut added: Added) -> Option<Event> {
        self.counts.apply(&added);
        if let Some(split) = added.split.take() {
            let counts = self.counts - split.counts;
            let first = Child { from: [].into(), counts, node: core::mem::take(&mut self.root) };
            self.root = Node::Inner(vec![first, split]);
        }
        added.before
    }

    /// Passes up to `count` keys, from this one on, to `change`, which may add versions to them.
    pub fn change_from(&mut self, key: &[u8], count: u64, mut change: impl FnMut(&mut Versions)) {
        let mut walk = ChangeWalk { from: Some(key), left: count, change: &mut change };
        self.counts.live = self.root.change(self.counts.live, &mut walk);
    }

    /// Removes the versions of the event's key before the event, and the event too if it is a
    /// deletion. Panics if the tree does not have the key.
    pub fn prune(&mut self, event: &Event) {
        self.counts.keys -= u64::from(self.root.prune(event));
        if let Node::Inner(children) = &mut self.root
            && children.len() <= 1
        {
            self.root = children.pop().map(|only| only.node).unwrap_or_default();
        }
    }
}

impl Node {
    fn len(&self) -> usize {
        match self {
            Node::Leaf(leaf) => leaf.len(),
            Node::Inner(children) => children.len(),
        }
    }

    fn counts(&self) -> Counts {
        match self {
            Node::Leaf(leaf) => sum(leaf.entries().iter().map(Counts::of)),
            Node::Inner(children) => sum(children.iter().map(|child| child.counts)),
        }
    }

    fn push(&mut self, event: Event) -> Added {
        match self {
            Node::Leaf(leaf) => push_to_leaf(leaf, event),
            Node::Inner(children) => {
                let at = child_of(children, event.key());
                let added = children[at].node.push(event);
                note_below(children, at, added)
            }
        }
    }

    fn push_behind(&mut self, versions: Versions) -> Added {
        match self {
            Node::Leaf(leaf) => insert_in_leaf(leaf, leaf.len(), versions),
            Node::Inner(children) => {
                let at = children.len() - 1;
                let added = children[at].node.push_behind(versions);
                note_below(children, at, added)
            }
        }
    }

    /// Continues a walk in this node. `live` is how many existing keys the node has; returns the
    /// number after the walk.
    fn change(&mut self, mut live: u64, walk: &mut ChangeWalk<'_>) -> u64 {
        match self {
            Node::Leaf(leaf) => {
                let start = walk.from.take().map_or(0, |key| {
                    let (Ok(start) | Err(start)) = leaf.place(key);
                    start
                });
                let count = (leaf.len() - start).min(walk.left as usize);
                walk.left -= count as u64;
                let entries = &mut leaf.entries_mut()[start..start + count];
                // Reading each version here lets the processor load many at once. The sum itself is
                // not needed.
                core::hint::black_box(
                    entries.iter().map(Versions::touch).fold(0, u8::wrapping_add),
                );
                for versions in entries {
                    live -= u64::from(versions.is_live());
                    (walk.change)(versions);
                    live += u64::from(versions.is_live());
                }
            }
            Node::Inner(children) => {
                let start = walk.from.map_or(0, |key| child_of(children, key));
                for child in &mut children[start..] {
                    if walk.left == 0 {
                        break;
                    }
                    live -= child.counts.live;
                    child.counts.live = child.node.change(child.counts.live, walk);
                    live += child.counts.live;
                }
            }
        }
        live
    }

    /// Prunes the key of an event. True if the key was removed from the tree, which happens only if
    /// its newest version is a deletion.
    fn prune(&mut self, event: &Event) -> bool {
        match self {
            Node::Leaf(leaf) => prune_in_leaf(leaf, event),
            Node::Inner(children) => {
                let at = child_of(children, event.key());
                let is_gone = children[at].node.prune(event);
                if is_gone {
                    children[at].counts.keys -= 1;
                    tidy(children, at);
                }
                is_gone
            }
        }
    }
}

fn push_to_leaf(leaf: &mut Leaf, event: Event) -> Added {
    match leaf.place(event.key()) {
        Ok(at) => {
            let versions = &mut leaf.entries_mut()[at];
            let before = Some(versions.last().clone()).filter(|last| !last.is_delete());
            versions.push(event);
            Added { before, is_new: false, is_live: versions.is_live(), split: None }
        }
        Err(at) => insert_in_leaf(leaf, at, Versions::new(event)),
    }
}

/// Inserts a key at the place where it belongs in the leaf.
fn insert_in_leaf(leaf: &mut Leaf, at: usize, versions: Versions) -> Added {
    let is_live = versions.is_live();
    let split = leaf.insert(at, versions).map(|right| {
        let from = right.entries()[0].key().into();
        let node = Node::Leaf(right);
        Child { from, counts: node.counts(), node }
    });
    Added { before: None, is_new: true, is_live, split }
}

/// Updates the counts of the child at `at` after an insertion below it, and inserts the node that
/// was split off it.
fn note_below(children: &mut Vec<Child>, at: usize, mut added: Added) -> Added {
    let child = &mut children[at];
    child.counts.apply(&added);
    if let Some(split) = added.split.take() {
        child.counts = child.counts - split.counts;
        added.split = insert(children, at + 1, split).map(|mut children| {
            let from = core::mem::take(&mut children[0].from);
            let node = Node::Inner(children);
            Child { from, counts: node.counts(), node }
        });
    }
    added
}

fn prune_in_leaf(leaf: &mut Leaf, event: &Event) -> bool {
    let at = leaf.place(event.key()).expect("a version that is not pruned is here");
    let events = leaf.entries()[at].as_slice();
    let mut count = events.partition_point(|other| other.place() < event.place());
    count += usize::from(event.is_delete());
    let is_gone = count == events.len();
    match is_gone {
        true => leaf.remove(at),
        false => leaf.entries_mut()[at].remove_first(count),
    }
    is_gone
}

/// Removes the child at `at` if it is empty, or merges it with a neighbour if it is small.
fn tidy(children: &mut Vec<Child>, at: usize) {
    let len = children[at].node.len();
    if len == 0 {
        children.remove(at);
        return;
    }
    if len >= NODE_MIN {
        return;
    }
    let fits = |left: usize| {
        children
            .get(left + 1)
            .is_some_and(|right| children[left].node.len() + right.node.len() <= JOINED_MAX)
    };
    let left = match at.checked_sub(1) {
        Some(before) if fits(before) => before,
        _ if fits(at) => at,
        _ => return,
    };
    let right = children.remove(left + 1);
    let joined = &mut children[left];
    joined.counts = joined.counts + right.counts;
    match (&mut joined.node, right.node) {
        (Node::Leaf(leaf), Node::Leaf(more)) => leaf.join(more),
        (Node::Inner(inner), Node::Inner(mut more)) => {
            more[0].from = right.from;
            inner.extend(more);
        }
        _ => unreachable!("neighbours are of one height"),
    }
}

/// The index of the child whose keys include this one, or would.
fn child_of(children: &[Child], key: &[u8]) -> usize {
    children[1..].partition_point(|child| *child.from <= *key)
}

fn sum(counts: impl Iterator<Item = Counts>) -> Counts {
    counts.fold(Counts::default(), |sum, counts| sum + counts)
}

/// The keys from some key on, in order.
pub(super) struct Iter<'t> {
    /// For each inner node above the present leaf, the children that are still to be visited.
    above: Vec<core::slice::Iter<'t, Child>>,
    leaf: core::slice::Iter<'t, Versions>,
}

impl<'t> Iterator for Iter<'t> {
    type Item = &'t Versions;

    fn next(&mut self) -> Option<&'t Versions> {
        loop {
            if let Some(versions) = self.leaf.next() {
                return Some(versions);
            }
            let child = loop {
                match self.above.last_mut()?.next() {
                    Some(child) => break child,
                    None => self.above.pop(),
                };
            };
            let mut node = &child.node;
            while let Node::Inner(children) = node {
                self.above.push(children[1..].iter());
                node = &children[0].node;
            }
            if let Node::Leaf(leaf) = node {
                self.leaf = leaf.entries().iter();
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! A leaf of the tree: up to 64 keys in order, each with its versions.
//!
//! A lookup should compare few whole keys, since each costs a wait for memory. So the leaf keeps an
//! array of *heads*: all keys of a leaf share a prefix, and a key's head is the four bytes behind
//! that prefix. Only keys with equal heads are compared as a whole.

use crate::etcd::index::items::{GROWTH, insert};
use crate::etcd::index::versions::Versions;

/// Keys in order, each with its versions.
#[derive(Default)]
pub(super) struct Leaf {
    entries: Vec<Versions>,
    /// The head of each entry's key, in the order of the entries.
    heads: Vec<u32>,
    /// Bytes of the prefix that all keys share.
    common: usize,
}

impl Leaf {
    fn new(entries: Vec<Versions>) -> Leaf {
        let mut leaf = Leaf { entries, heads: Vec::new(), common: 0 };
        leaf.find_heads();
        leaf
    }

    pub fn entries(&self) -> &[Versions] {
        &self.entries
    }

    /// The entries, for changing their versions. The caller must not change a key.
    pub fn entries_mut(&mut self) -> &mut [Versions] {
        &mut self.entries
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Finds a key: `Ok` holds its place, `Err` the place where it would be inserted.
    pub fn place(&self, key: &[u8]) -> Result<usize, usize> {
        let Some(first) = self.entries.first() else { return Err(0) };
        let beginning = &first.key()[..self.common];
        if !key.starts_with(beginning) {
            return Err(if key < beginning { 0 } else { self.entries.len() });
        }
        let head = head_of(key, self.common);
        let start = self.heads.partition_point(|other| *other < head);
        let count = self.heads[start..].iter().take_while(|other| **other == head).count();
        let alike = &self.entries[start..start + count];
        match alike.binary_search_by(|versions| versions.key().cmp(key)) {
            Ok(at) => Ok(start + at),
            Err(at) => Err(start + at),
        }
    }

    /// Inserts a key at the place that [`Leaf::place`] gave. If the leaf is full, splits it, and
    /// returns the new leaf to its right.
    pub fn insert(&mut self, at: usize, versions: Versions) -> Option<Leaf> {
        let has_common = self
            .entries
            .first()
            .is_some_and(|first| versions.key().starts_with(&first.key()[..self.common]));
        let head = head_of(versions.key(), self.common);
        let right = insert(&mut self.entries, at, versions).map(Leaf::new);
        match has_common && right.is_none() {
            true => {
                if self.heads.len() == self.heads.capacity() {
                    self.heads.reserve_exact(GROWTH);
                }
                self.heads.insert(at, head);
            }
            // The key went alone into a new leaf, so this leaf has not changed.
            false if self.heads.len() == self.entries.len() => {}
            false => self.find_heads(),
        }
        right
    }

    /// Removes the key at a place.
    pub fn remove(&mut self, at: usize) {
        self.entries.remove(at);
        self.heads.remove(at);
        let kept = self.entries.len() + GROWTH;
        if self.entries.capacity() > kept + self.entries.len() {
            self.entries.shrink_to(kept);
            self.heads.shrink_to(kept);
        }
    }

    /// Appends the keys of the leaf to the right of this one.
    pub fn join(&mut self, right: Leaf) {
        self.entries.extend(right.entries);
        self.find_heads();
    }

    fn find_heads(&mut self) {
        self.common = match self.entries.as_slice() {
            [] => 0,
            [first, .., last] => common_bytes(first.key(), last.key()),
            [only] => only.key().len(),
        };
        let heads = self.entries.iter().map(|versions| head_of(versions.key(), self.common));
        self.heads = heads.collect();
    }
}

/// The four bytes of a key from offset `from` on, as a number that sorts like the bytes.
fn head_of(key: &[u8], from: usize) -> u32 {
    let rest = key.get(from..).unwrap_or_default();
    let mut head = [0; 4];
    let count = rest.len().min(head.len());
    head[..count].copy_from_slice(&rest[..count]);
    u32::from_be_bytes(head)
}

/// Bytes of the prefix that two keys share.
fn common_bytes(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
impl Leaf {
    /// Checks the order, the heads and the memory.
    pub fn check(&self) {
        assert!(self.entries.is_sorted_by(|one, other| one.key() < other.key()));
        assert!(self.entries.capacity() <= 2 * self.entries.len() + 2 * GROWTH);
        assert_eq!(self.heads.len(), self.entries.len());
        for (versions, head) in self.entries.iter().zip(&self.heads) {
            assert!(versions.key().starts_with(&self.entries[0].key()[..self.common]));
            assert_eq!(*head, head_of(versions.key(), self.common));
        }
    }
}

//! The digest: a 128-bit, order-independent sum over everything replicated.
//!
//! Each thing contributes the XXH3-128 hash of its key and its value; the digest is their sum
//! modulo 2^128. A change subtracts the old contribution and adds the new one, so the digest costs
//! the same whatever the size of the state, and does not depend on the order of slots, children or
//! tables. Members compare it at equal log index.

use xxhash_rust::xxh3::xxh3_128;

/// A sum of contributions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(pub u128);

impl Digest {
    /// Adds a contribution.
    pub fn add(&mut self, other: Digest) {
        self.0 = self.0.wrapping_add(other.0);
    }

    /// Takes a contribution out again.
    pub fn subtract(&mut self, other: Digest) {
        self.0 = self.0.wrapping_sub(other.0);
    }

    /// The contribution of arbitrary bytes, under a tag that keeps kinds apart.
    pub fn from_bytes(tag: u8, bytes: &[u8]) -> Digest {
        let mut tagged = Vec::with_capacity(bytes.len() + 1);
        tagged.push(tag);
        tagged.extend_from_slice(bytes);
        Digest::from_tagged(&tagged)
    }

    /// The contribution of bytes whose first is the tag.
    pub fn from_tagged(bytes: &[u8]) -> Digest {
        Digest(xxh3_128(bytes))
    }
}

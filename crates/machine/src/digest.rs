//! The digest: a 128-bit sum over all replicated state. Members compare digests at equal log index,
//! to detect that their states differ.
//!
//! Each item of the state (a znode, a session, a version of a key, ...) contributes the XXH3-128
//! hash of its key and its value; the digest is the sum of the contributions modulo 2^128. A change
//! of an item subtracts the item's old contribution and adds the new one. So an update costs the
//! same whatever the size of the state, and the digest does not depend on the order of slots,
//! children or tables.

use xxhash_rust::xxh3::xxh3_128;

/// A sum of contributions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest(pub u128);

impl Digest {
    /// Adds a contribution.
    pub fn add(&mut self, other: Digest) {
        self.0 = self.0.wrapping_add(other.0);
    }

    /// Removes a contribution that was added before.
    pub fn subtract(&mut self, other: Digest) {
        self.0 = self.0.wrapping_sub(other.0);
    }

    /// The contribution of an item that is encoded as `bytes`. The tag is different for each kind
    /// of item, so that equal bytes of two kinds hash differently.
    pub fn from_bytes(tag: u8, bytes: &[u8]) -> Digest {
        let mut tagged = Vec::with_capacity(bytes.len() + 1);
        tagged.push(tag);
        tagged.extend_from_slice(bytes);
        Digest::from_tagged(&tagged)
    }

    /// As [`Digest::from_bytes`], for bytes that begin with their tag.
    pub fn from_tagged(bytes: &[u8]) -> Digest {
        Digest(xxh3_128(bytes))
    }
}

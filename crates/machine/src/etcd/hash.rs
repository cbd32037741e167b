//! The hash of the keys at a revision, for comparing members (`mvcc.HashStorage`). It comes from
//! the digest: that of the present state, less the events above the revision. So it is the same on
//! all members that were compacted at the same revision, whatever they have pruned.

use crate::digest::Digest;
use crate::etcd::event::Place;
use crate::etcd::reply::Refusal;
use crate::etcd::store::Store;
use crate::etcd::tail::Sum;

/// A hash that is worked out in steps.
#[derive(Debug)]
pub struct HashRead {
    /// The revision of the hash.
    pub revision: i64,
    /// The compacted revision of the hash.
    pub compacted: i64,
    digest: Digest,
    /// The last event that was taken out.
    taken_out: Place,
    /// The last event that the digest had at the beginning.
    last: Option<Place>,
}

/// The hash of no keys, as in etcd (`mvcc.kvHasher`: the CRC-32C of the bucket's name `key`).
const HASH_OF_NOTHING: u32 = 1_084_519_789;

impl HashRead {
    /// The hash, once it is worked out. It is not 0, since JSON leaves 0 out: programs would find
    /// no hash of an empty store.
    pub fn hash(&self) -> u32 {
        let sum = self.digest.0;
        match (0..4).fold(0, |hash, part| hash ^ (sum >> (32 * part)) as u32) {
            0 => HASH_OF_NOTHING,
            hash => hash,
        }
    }
}

impl Store {
    /// Begins a hash at a revision; 0: the present one. Before all revisions, at a negative one,
    /// there are no keys, whatever was compacted.
    ///
    /// # Errors
    /// The revision is above the store's, or below the compacted one.
    pub fn begin_hash(&self, revision: i64) -> Result<HashRead, Refusal> {
        let at = if revision == 0 { self.revision } else { revision };
        if revision > 0 && at < self.compacted {
            return Err(Refusal::Compacted);
        }
        if at > self.revision {
            return Err(Refusal::FutureRevision);
        }
        let (compacted, taken_out) = (self.compacted, Place { revision: at, sub: u32::MAX });
        if at < 0 {
            let digest = Digest::default();
            return Ok(HashRead { revision: at, compacted, digest, taken_out, last: None });
        }
        let mut digest = self.base_sum.digest;
        digest.add(self.tail_sum.digest);
        Ok(HashRead {
            revision: at,
            compacted,
            digest,
            taken_out,
            last: self.tail.count().checked_sub(1).and_then(|at| self.tail.place(at)),
        })
    }

    /// Goes on with a hash, and takes the events that it looks at off `events_left`. True once it
    /// is worked out.
    ///
    /// # Errors
    /// The revision is compacted by now, or the keys were compacted above the revision that the
    /// hash is for.
    pub fn hash_step(&self, read: &mut HashRead, events_left: &mut u64) -> Result<bool, Refusal> {
        if (0..self.compacted).contains(&read.revision) {
            return Err(Refusal::Compacted);
        }
        let Some(last) = read.last else { return Ok(true) };
        for event in self.tail.behind(read.taken_out) {
            if event.place() > last {
                break;
            }
            if *events_left == 0 {
                return Ok(false);
            }
            *events_left -= 1;
            read.digest.subtract(Sum::of(event).digest);
            read.taken_out = event.place();
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests;

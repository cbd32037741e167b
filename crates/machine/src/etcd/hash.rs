//! The hash of all keys at a revision, for etcd's tools, which compare the hashes of members
//! (`mvcc.HashStorage`). It is computed from the digest: the present digest, minus the
//! contributions of the events above the revision. So all members with equal compacted revisions
//! get equal hashes, whatever they have pruned.

use crate::digest::Digest;
use crate::etcd::event::Place;
use crate::etcd::reply::Refusal;
use crate::etcd::store::Store;
use crate::etcd::tail::Sum;

/// A hash that is being computed, in steps.
#[derive(Debug)]
pub struct HashRead {
    /// The revision whose keys are hashed.
    pub revision: i64,
    /// The store's compacted revision when the computation began.
    pub compacted: i64,
    digest: Digest,
    /// The place of the last event that was subtracted from `digest`.
    taken_out: Place,
    /// The place of the last event in `digest` when the computation began; `None` if the tail was
    /// empty.
    last: Option<Place>,
}

/// The hash of an empty store, as in etcd (`mvcc.kvHasher`: the CRC-32C of the bucket's name
/// `key`).
const HASH_OF_NOTHING: u32 = 1_084_519_789;

impl HashRead {
    /// The hash, when the computation is done. Never 0 (an empty store has the hash
    /// `HASH_OF_NOTHING`): the JSON of an answer leaves out a field that is 0, so programs would
    /// find no hash of an empty store.
    pub fn hash(&self) -> u32 {
        let sum = self.digest.0;
        match (0..4).fold(0, |hash, part| hash ^ (sum >> (32 * part)) as u32) {
            0 => HASH_OF_NOTHING,
            hash => hash,
        }
    }
}

impl Store {
    /// Starts to compute the hash at a revision; 0 means the present one. At a negative revision
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

    /// Does a part of the computation: looks at up to `events_left` events, and subtracts their
    /// number from `events_left`. True when the hash is computed.
    ///
    /// # Errors
    /// The keys were compacted above the hash's revision since the computation began.
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

//! The hash of the keys at a revision, by which members are compared (`mvcc.HashStorage`). It comes
//! from the digest: that of the present state, less the events above the revision. So it is the
//! same on all members that were compacted at the same revision, whatever they have pruned.

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

impl HashRead {
    /// The hash, once it is worked out.
    pub fn hash(&self) -> u32 {
        let sum = self.digest.0;
        (0..4).fold(0, |hash, part| hash ^ (sum >> (32 * part)) as u32)
    }
}

impl Store {
    /// Begins a hash at a revision; 0: the present one.
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
        let mut digest = self.base_sum.digest;
        digest.add(self.tail_sum.digest);
        Ok(HashRead {
            revision: at,
            compacted: self.compacted,
            digest,
            taken_out: Place { revision: at, sub: u32::MAX },
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
        if read.revision < self.compacted {
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

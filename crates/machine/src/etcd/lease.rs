//! Leases. A lease lives until it is revoked or expires; its keys are deleted with it.
//!
//! A key belongs to the lease that its newest version names. A lease keeps that version of each of
//! its keys, sorted by key. The version's bytes are shared with the index, so a leased key costs
//! only one more reference. The keys of a lease follow from the index alone, so they have no part
//! in the digest and no records in an image.
//!
//! As in etcd 3.6 `lease.lessor`.

use core::borrow::Borrow;
use core::cmp::Ordering as Comparison;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::codec::{DecodeError, Reader, Write};
use crate::digest::Digest;
use crate::etcd::change::LeaseChange;
use crate::etcd::event::Event;
use crate::ids::{LeaseId, Ordinal};
use crate::limits::{ETCD_LEASE_BYTES, ETCD_LEASE_TTL_S_MAX};

/// The facts of a lease, without its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The time to live in seconds, at least 1: how long the lease lives without a keep-alive.
    pub ttl_s: i64,
    /// The ordinal of the command that granted it. It tells the lease from earlier ones with the
    /// same id.
    pub granted: Ordinal,
}

/// A lease: its time to live, and the keys that belong to it.
#[derive(Debug)]
pub struct Lease {
    grant: Grant,
    keys: BTreeSet<Attached>,
    /// The user last found to have write permission for all keys; see [`Lease::is_writable_by`].
    /// Not state.
    writer: AtomicU64,
}

/// A number that identifies a user at one revision of users and roles; 0 means no user.
pub(crate) type UserTag = u64;

impl Lease {
    /// The facts of the lease, without its keys.
    pub fn grant(&self) -> Grant {
        self.grant
    }

    /// The lease's keys, in order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.versions().map(Event::key)
    }

    /// The lease's keys above `after`, in order; all keys if it is `None`.
    pub(crate) fn keys_behind(&self, after: Option<&[u8]>) -> impl Iterator<Item = &[u8]> {
        self.versions_behind(after).map(Event::key)
    }

    /// The newest version of each of the lease's keys above `after`, in order of key; of all keys
    /// if it is `None`.
    pub(crate) fn versions_behind(&self, after: Option<&[u8]>) -> impl Iterator<Item = &Event> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.keys.range::<[u8], _>((from, Bound::Unbounded)).map(|attached| &attached.0)
    }

    /// The newest version of each of the lease's keys, in order of key.
    pub fn versions(&self) -> impl ExactSizeIterator<Item = &Event> {
        self.keys.iter().map(|attached| &attached.0)
    }

    /// Whether this user was found to have write permission for all keys of the lease, and nobody
    /// else has put a key there since. It saves looking at all keys for each put, since a lease may
    /// have any number of them.
    pub(crate) fn is_writable_by(&self, user: UserTag) -> bool {
        user != 0 && self.writer.load(Ordering::Relaxed) == user
    }

    /// Records a user that has this permission.
    pub(crate) fn set_writer(&self, user: UserTag) {
        self.writer.store(user, Ordering::Relaxed);
    }

    /// Removes the first key from the lease, and returns the key's newest version.
    pub(crate) fn take_key(&mut self) -> Option<Event> {
        self.keys.pop_first().map(|attached| attached.0)
    }
}

/// The newest version of a leased key. Compares by key.
#[derive(Debug)]
struct Attached(Event);

impl Ord for Attached {
    fn cmp(&self, other: &Attached) -> Comparison {
        self.0.key().cmp(other.0.key())
    }
}

impl PartialOrd for Attached {
    fn partial_cmp(&self, other: &Attached) -> Option<Comparison> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Attached {
    fn eq(&self, other: &Attached) -> bool {
        self.0.key() == other.0.key()
    }
}

impl Eq for Attached {}

impl Borrow<[u8]> for Attached {
    fn borrow(&self) -> &[u8] {
        self.0.key()
    }
}

/// All leases, by their ids.
#[derive(Default)]
pub struct Leases {
    leases: BTreeMap<LeaseId, Lease>,
    digest: Digest,
}

impl Leases {
    /// The lease with this id; `None` if there is none.
    pub fn get(&self, lease: LeaseId) -> Option<&Lease> {
        self.leases.get(&lease)
    }

    /// The number of leases.
    pub fn len(&self) -> usize {
        self.leases.len()
    }

    /// Whether there are no leases.
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// The leases whose ids are in the range that starts at `from`, by id.
    pub(crate) fn from(&self, from: Bound<LeaseId>) -> impl Iterator<Item = (LeaseId, &Lease)> {
        self.leases.range((from, Bound::Unbounded)).map(|(id, lease)| (*id, lease))
    }

    /// All leases, by id.
    pub fn iter(&self) -> impl Iterator<Item = (LeaseId, &Lease)> {
        self.leases.iter().map(|(id, lease)| (*id, lease))
    }

    /// Bytes that the leases count against the quota.
    pub(crate) fn bytes(&self) -> u64 {
        self.leases.len() as u64 * ETCD_LEASE_BYTES
    }

    /// The sum of the leases' contributions to the digest.
    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    /// The leases with ids above `after`, by id; all leases if it is `None`.
    pub(crate) fn behind(&self, after: Option<LeaseId>) -> impl Iterator<Item = (LeaseId, Grant)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.leases.range((from, Bound::Unbounded)).map(|(id, lease)| (*id, lease.grant))
    }

    /// An id for a new lease: above 0, and no lease has it. Depends only on the ordinal and the
    /// time of the command, so all members choose equal ids. It is a hash, so an ended lease hardly
    /// ever had the same one.
    pub(crate) fn choose(&self, ordinal: Ordinal, time_ms: i64) -> LeaseId {
        let mut seed = Vec::new();
        seed.put_u64(ordinal.0);
        seed.put_i64(time_ms);
        loop {
            let chosen = LeaseId((Digest::from_bytes(b'i', &seed).0 as u64 >> 1) as i64);
            if chosen != LeaseId(0) && !self.leases.contains_key(&chosen) {
                return chosen;
            }
            seed.put_u8(0);
        }
    }

    /// Adds a lease. False if its id is taken.
    pub(crate) fn add(&mut self, lease: LeaseId, grant: Grant) -> bool {
        if self.leases.contains_key(&lease) {
            return false;
        }
        self.digest.add(digest_of(lease, grant));
        self.leases
            .insert(lease, Lease { grant, keys: BTreeSet::new(), writer: AtomicU64::new(0) });
        true
    }

    /// Removes a lease. The caller must delete its keys.
    pub(crate) fn remove(&mut self, lease: LeaseId) -> Option<Lease> {
        let removed = self.leases.remove(&lease)?;
        self.digest.subtract(digest_of(lease, removed.grant));
        Some(removed)
    }

    /// Sets the grant of each lease to the command with this ordinal, which has installed the
    /// leases from an image.
    pub(crate) fn grant_all_anew(&mut self, granted: Ordinal) {
        self.digest = Digest::default();
        for (id, lease) in &mut self.leases {
            lease.grant.granted = granted;
            self.digest.add(digest_of(*id, lease.grant));
        }
    }

    /// All leases, each as a change. Loop takes these when this state replaces another one.
    pub fn deadlines(&self) -> Vec<LeaseChange> {
        let granted = self.leases.iter().map(|(lease, found)| {
            let Grant { granted, ttl_s } = found.grant;
            LeaseChange::Granted { lease: *lease, granted, ttl_s }
        });
        granted.collect()
    }

    /// Updates the leases after a put. `event` is the new version, and `before` the one before it:
    /// the key moves from the lease of `before` to the lease of `event`. `user` sent the put.
    pub(crate) fn on_put(&mut self, event: &Event, before: Option<&Event>, user: UserTag) {
        let lease = lease_of(event);
        if let Some(before) = before
            && lease_of(before) != lease
        {
            self.on_delete(before);
        }
        if let Some(lease) = lease.and_then(|lease| self.leases.get_mut(&lease)) {
            lease.keys.replace(Attached(event.clone()));
            if !lease.is_writable_by(user) {
                lease.set_writer(0);
            }
        }
    }

    /// Removes a deleted key, whose last version is `before`, from its lease.
    pub(crate) fn on_delete(&mut self, before: &Event) {
        if let Some(lease) = lease_of(before).and_then(|lease| self.leases.get_mut(&lease)) {
            lease.keys.remove(before.key());
        }
    }

    /// Whether a version names a lease that does not exist.
    pub(crate) fn is_astray(&self, event: &Event) -> bool {
        lease_of(event).is_some_and(|lease| !self.leases.contains_key(&lease))
    }
}

/// The lease that a version names; `None` if it names none.
fn lease_of(event: &Event) -> Option<LeaseId> {
    Some(LeaseId(event.numbers().lease)).filter(|lease| *lease != LeaseId(0))
}

/// Bytes of a lease in an image: id, time to live, ordinal of the grant.
const RECORD_BYTES: u64 = 24;
const _: () = assert!(RECORD_BYTES <= ETCD_LEASE_BYTES);

/// Appends an encoded lease, as an image and the digest need it.
pub(crate) fn encode(lease: LeaseId, grant: Grant, out: &mut Vec<u8>) {
    out.put_i64(lease.0);
    out.put_i64(grant.ttl_s);
    out.put_u64(grant.granted.0);
}

/// Reads what [`encode`] wrote.
pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<(LeaseId, Grant), DecodeError> {
    let (lease, ttl_s, granted) = (reader.i64()?, reader.i64()?, Ordinal(reader.u64()?));
    if lease == 0 {
        return Err(reader.bad("number of a lease", 0));
    }
    if !(1..=ETCD_LEASE_TTL_S_MAX).contains(&ttl_s) {
        return Err(reader.bad("time to live of a lease", ttl_s as u64));
    }
    Ok((LeaseId(lease), Grant { ttl_s, granted }))
}

fn digest_of(lease: LeaseId, grant: Grant) -> Digest {
    let mut bytes = Vec::new();
    encode(lease, grant, &mut bytes);
    Digest::from_bytes(b'G', &bytes)
}

#[cfg(test)]
mod tests;

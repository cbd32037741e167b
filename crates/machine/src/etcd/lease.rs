//! Leases: each lives until it is revoked or has expired, and its keys go with it.
//!
//! A key belongs to the lease that its newest version names. A lease keeps that version of each of
//! its keys, in the order of the keys, and shares its bytes with the index: so a key of a lease
//! costs a reference more. Which keys a lease has follows from the keys alone; it has no terms in
//! the digest and no records in an image.
//!
//! etcd 3.6 `lease.lessor`.

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

/// A lease without its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// How long it lives without a keep-alive, in seconds; from 1.
    pub ttl_s: i64,
    /// The ordinal of the command that granted it. It tells the lease from earlier ones with its
    /// number.
    pub granted: Ordinal,
}

/// A lease.
#[derive(Debug)]
pub struct Lease {
    grant: Grant,
    keys: BTreeSet<Attached>,
    /// The user that was found to have the right to write all its keys; see
    /// [`Lease::is_writable_by`]. It is not state.
    writer: AtomicU64,
}

/// A number that stands for a user at a revision of users and roles; 0 is no user.
pub(crate) type UserTag = u64;

impl Lease {
    /// The lease without its keys.
    pub fn grant(&self) -> Grant {
        self.grant
    }

    /// Its keys, in their order.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.versions().map(Event::key)
    }

    /// Its keys behind this one, in their order; all, if none is given.
    pub(crate) fn keys_behind(&self, after: Option<&[u8]>) -> impl Iterator<Item = &[u8]> {
        self.versions_behind(after).map(Event::key)
    }

    /// The newest version of each of its keys behind this one, in the order of the keys.
    pub(crate) fn versions_behind(&self, after: Option<&[u8]>) -> impl Iterator<Item = &Event> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.keys.range::<[u8], _>((from, Bound::Unbounded)).map(|attached| &attached.0)
    }

    /// The newest version of each of its keys, in the order of the keys.
    pub fn versions(&self) -> impl ExactSizeIterator<Item = &Event> {
        self.keys.iter().map(|attached| &attached.0)
    }

    /// Whether someone was found to have the right to write all its keys, since which nobody else
    /// has put a key there. A lease may have any number of keys, so they are not all looked at
    /// again for each put.
    pub(crate) fn is_writable_by(&self, user: UserTag) -> bool {
        user != 0 && self.writer.load(Ordering::Relaxed) == user
    }

    /// Notes the user that has that right.
    pub(crate) fn set_writer(&self, user: UserTag) {
        self.writer.store(user, Ordering::Relaxed);
    }

    /// Takes the newest version of its first key out.
    pub(crate) fn take_key(&mut self) -> Option<Event> {
        self.keys.pop_first().map(|attached| attached.0)
    }
}

/// The newest version of a key of a lease. The order is that of the keys.
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

/// All leases.
#[derive(Default)]
pub struct Leases {
    leases: BTreeMap<LeaseId, Lease>,
    digest: Digest,
}

impl Leases {
    /// The lease with that number.
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

    /// The leases from a number on, by their numbers.
    pub(crate) fn from(&self, from: Bound<LeaseId>) -> impl Iterator<Item = (LeaseId, &Lease)> {
        self.leases.range((from, Bound::Unbounded)).map(|(id, lease)| (*id, lease))
    }

    /// All leases, by their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (LeaseId, &Lease)> {
        self.leases.iter().map(|(id, lease)| (*id, lease))
    }

    /// Bytes that the leases count against the quota.
    pub(crate) fn bytes(&self) -> u64 {
        self.leases.len() as u64 * ETCD_LEASE_BYTES
    }

    /// The sum of the terms of the leases.
    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }

    /// The leases behind this one, by their numbers; all, if none is given.
    pub(crate) fn behind(&self, after: Option<LeaseId>) -> impl Iterator<Item = (LeaseId, Grant)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.leases.range((from, Bound::Unbounded)).map(|(id, lease)| (*id, lease.grant))
    }

    /// A number that no lease has, from 1. It follows from the ordinal and the time of the command
    /// alone, so it is the same on all members; and a lease that is over hardly ever had it.
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

    /// Adds a lease. False if its number is taken.
    pub(crate) fn add(&mut self, lease: LeaseId, grant: Grant) -> bool {
        if self.leases.contains_key(&lease) {
            return false;
        }
        self.digest.add(digest_of(lease, grant));
        self.leases
            .insert(lease, Lease { grant, keys: BTreeSet::new(), writer: AtomicU64::new(0) });
        true
    }

    /// Removes a lease. Its keys are the caller's to remove.
    pub(crate) fn remove(&mut self, lease: LeaseId) -> Option<Lease> {
        let removed = self.leases.remove(&lease)?;
        self.digest.subtract(digest_of(lease, removed.grant));
        Some(removed)
    }

    /// Gives all leases the ordinal of a command that installs them in the place of others.
    pub(crate) fn grant_all_anew(&mut self, granted: Ordinal) {
        self.digest = Digest::default();
        for (id, lease) in &mut self.leases {
            lease.grant.granted = granted;
            self.digest.add(digest_of(*id, lease.grant));
        }
    }

    /// The changes that tell of all leases, for Loop when this state takes the place of another.
    pub fn deadlines(&self) -> Vec<LeaseChange> {
        let granted = self.leases.iter().map(|(lease, found)| {
            let Grant { granted, ttl_s } = found.grant;
            LeaseChange::Granted { lease: *lease, granted, ttl_s }
        });
        granted.collect()
    }

    /// Takes the newest version of a key, and the version before it: the key leaves its lease for
    /// the one that the new version names. `user` has put it.
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

    /// Takes the last version of a key that is removed.
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

/// The lease that a version names.
fn lease_of(event: &Event) -> Option<LeaseId> {
    Some(LeaseId(event.numbers().lease)).filter(|lease| *lease != LeaseId(0))
}

/// Bytes of a lease in an image: number, time to live, ordinal.
const RECORD_BYTES: u64 = 24;
const _: () = assert!(RECORD_BYTES <= ETCD_LEASE_BYTES);

/// Appends a lease as it is in an image, and is hashed.
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

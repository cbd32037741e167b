//! Leases: when each session expires, unless it is heard from. Kept by Loop, not replicated.
//!
//! The leases have their own clock. It advances by the time that the driver says has passed, but at
//! most by the time that was planned: a process that was paused must first hear what waited at its
//! sockets before it expires sessions. Close to a deadline no more than [`LEASE_ADVANCE_MS_MAX`] is
//! planned.
//!
//! Sessions stand in buckets of one tick, as in ZooKeeper (`ExpiryQueue`): a session expires up to
//! a tick late and never early. Hearing from a session only moves its deadline; the session changes
//! buckets when its old bucket falls due. So a renewal costs one look-up.
//!
//! Every member keeps the leases, since any member may lead next. Each session stands in one bucket
//! at most, so a follower, which empties no bucket, holds no more than its sessions. A new leader
//! finds all buckets due; it looks at [`EXPIRY_LOOKS_MAX`] sessions in one call and goes on in the
//! next.

use std::collections::BTreeSet;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use machine::{Ordinal, Owner};

use crate::limits::{EXPIRY_LOOKS_MAX, HEARING_MS_MAX, LEASE_ADVANCE_MS_MAX, QUIET_TIMEOUT_MS_MIN};

/// All leases.
pub struct Leases {
    tick_ms: u64,
    now_ms: u64,
    /// When every session was last given a full timeout.
    renewed_all_ms: u64,
    leases: HashMap<Owner, Lease, FixedState>,
    /// Each session with the tick at whose end it is looked at next.
    buckets: BTreeSet<(u64, Owner)>,
    /// Sessions whose expiry is under way. They stand in no bucket.
    judged: BTreeSet<Owner>,
    /// Sessions with a timeout below [`QUIET_TIMEOUT_MS_MIN`].
    short_count: usize,
}

struct Lease {
    attached: Ordinal,
    timeout_ms: u32,
    /// When the client was last heard from, or attached.
    heard_ms: u64,
    /// The bucket that the session stands in; none while its expiry is under way.
    bucket: Option<u64>,
}

impl Lease {
    fn is_short(&self) -> bool {
        self.timeout_ms < QUIET_TIMEOUT_MS_MIN
    }

    fn deadline_ms(&self, renewed_all_ms: u64) -> u64 {
        self.heard_ms.max(renewed_all_ms) + u64::from(self.timeout_ms) + HEARING_MS_MAX
    }
}

impl Leases {
    /// No leases, at time 0.
    pub fn new(tick_ms: u64) -> Leases {
        assert!(tick_ms > 0);
        let leases = HashMap::with_hasher(FixedState::default());
        Leases {
            tick_ms,
            now_ms: 0,
            renewed_all_ms: 0,
            leases,
            buckets: BTreeSet::new(),
            judged: BTreeSet::new(),
            short_count: 0,
        }
    }

    /// The session was opened or attached. It gets a full timeout from now.
    pub fn attach(&mut self, owner: Owner, attached: Ordinal, timeout_ms: u32) {
        self.close(owner);
        let lease = Lease { attached, timeout_ms, heard_ms: self.now_ms, bucket: None };
        self.short_count += usize::from(lease.is_short());
        self.leases.insert(owner, lease);
        self.renew(owner);
    }

    /// Removes all leases.
    pub fn clear(&mut self) {
        self.leases.clear();
        self.buckets.clear();
        self.judged.clear();
        self.short_count = 0;
    }

    /// The session is gone.
    pub fn close(&mut self, owner: Owner) {
        let Some(lease) = self.leases.remove(&owner) else { return };
        self.short_count -= usize::from(lease.is_short());
        match lease.bucket {
            Some(bucket) => self.buckets.remove(&(bucket, owner)),
            None => self.judged.remove(&owner),
        };
    }

    /// The session's client was heard from within the last report interval.
    pub fn heard(&mut self, owner: Owner) {
        self.renew(owner);
    }

    /// Gives every session a full timeout, for a new leader. Sessions whose expiry was under way
    /// are judged again after that, since the command may be lost.
    pub fn renew_all(&mut self) {
        self.renewed_all_ms = self.now_ms;
        while let Some(owner) = self.judged.pop_first() {
            self.put_in_bucket(owner);
        }
    }

    /// Number of sessions.
    pub fn len(&self) -> usize {
        self.leases.len()
    }

    /// Whether there are no leases.
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// Places in buckets and among those judged: one for each session.
    pub fn place_count(&self) -> usize {
        self.buckets.len() + self.judged.len()
    }

    /// Whether any session has a timeout below [`QUIET_TIMEOUT_MS_MIN`].
    pub fn has_short(&self) -> bool {
        self.short_count > 0
    }

    /// Each session with the time it has left, in no particular order.
    pub fn remaining_ms(&self) -> impl Iterator<Item = (Owner, u64)> {
        let deadline_ms = |lease: &Lease| lease.deadline_ms(self.renewed_all_ms);
        let left = move |lease: &Lease| deadline_ms(lease).saturating_sub(self.now_ms);
        self.leases.iter().map(move |(owner, lease)| (*owner, left(lease)))
    }

    fn renew(&mut self, owner: Owner) {
        let Some(lease) = self.leases.get_mut(&owner) else { return };
        lease.heard_ms = self.now_ms;
        if lease.bucket.is_none() {
            self.judged.remove(&owner);
            self.put_in_bucket(owner);
        }
    }

    fn put_in_bucket(&mut self, owner: Owner) {
        let lease = self.leases.get_mut(&owner).expect("a closed owner is not judged");
        let bucket = lease.deadline_ms(self.renewed_all_ms) / self.tick_ms;
        lease.bucket = Some(bucket);
        self.buckets.insert((bucket, owner));
    }

    /// Advances the clock by `elapsed_ms`, but at most by `planned_ms` or [`LEASE_ADVANCE_MS_MAX`],
    /// whichever is more. A longer plan must end
    /// [`EXPIRY_MARGIN_MS`](crate::limits::EXPIRY_MARGIN_MS) before [`Leases::due_ms`].
    pub fn advance(&mut self, elapsed_ms: u64, planned_ms: u64) {
        self.now_ms += elapsed_ms.min(planned_ms.max(LEASE_ADVANCE_MS_MAX));
    }

    /// How long until the first bucket falls due, in ms; none without sessions.
    pub fn due_ms(&self) -> Option<u64> {
        let (bucket, _) = self.buckets.first()?;
        Some(((bucket + 1) * self.tick_ms).saturating_sub(self.now_ms))
    }

    /// Sessions whose timeout has passed, at most `max`, each with the attach that is judged. Each
    /// is returned once, until it is attached or heard from again. Looks at [`EXPIRY_LOOKS_MAX`]
    /// sessions at most.
    pub fn expired(&mut self, max: usize) -> Vec<(Owner, Ordinal)> {
        let mut expired = Vec::new();
        for _ in 0..EXPIRY_LOOKS_MAX {
            let Some(&(bucket, owner)) = self.buckets.first() else { break };
            if (bucket + 1) * self.tick_ms > self.now_ms || expired.len() >= max {
                break;
            }
            self.buckets.pop_first();
            let lease = self.leases.get_mut(&owner).expect("a closed owner left its bucket");
            assert!(lease.bucket == Some(bucket));
            let deadline_ms = lease.deadline_ms(self.renewed_all_ms);
            if deadline_ms > self.now_ms {
                let later = deadline_ms / self.tick_ms;
                assert!(later > bucket);
                lease.bucket = Some(later);
                self.buckets.insert((later, owner));
            } else {
                lease.bucket = None;
                self.judged.insert(owner);
                expired.push((owner, lease.attached));
            }
        }
        expired
    }
}

#[cfg(test)]
mod tests;

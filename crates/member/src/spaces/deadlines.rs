//! Deadlines: when each session and each lease of etcd expires, unless its client is heard from.
//! Kept by Loop, not replicated.
//!
//! They have their own clock. It advances by the time that the driver says has passed, but at most
//! by the time that was planned: a process that was paused must first hear what waited at its
//! sockets before it expires anybody. Close to a deadline no more than [`LEASE_ADVANCE_MS_MAX`] is
//! planned.
//!
//! Owners are in buckets of one tick, as sessions are in ZooKeeper (`ExpiryQueue`): an owner
//! expires up to a tick late and never early. Hearing from one only moves its deadline; the owner
//! changes buckets when its old bucket falls due. So a renewal costs one look-up.
//!
//! A renewal that has arrived and is not answered yet may protect its owner until a later time. The
//! end of that protection can bring a deadline forward; only then does an owner change buckets
//! before its bucket falls due.
//!
//! Every member keeps the deadlines, since any member may lead next. Each owner is in one bucket at
//! most, so a follower, which empties no bucket, holds no more than its owners. A new leader finds
//! all buckets due; it looks at [`EXPIRY_LOOKS_MAX`] owners in one call and goes on in the next.

use core::hash::Hash;
use std::collections::BTreeSet;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use machine::Ordinal;

use crate::limits::QUIET_TIMEOUT_MS_MIN;
use crate::spaces::limits::{EXPIRY_LOOKS_MAX, LEASE_ADVANCE_MS_MAX};

/// The deadlines of all owners of one kind.
pub struct Deadlines<O> {
    tick_ms: u64,
    grace_ms: u64,
    now_ms: u64,
    /// When every owner was last given a full timeout.
    renewed_all_ms: u64,
    owners: HashMap<O, Kept, FixedState>,
    /// Each owner with the tick at whose end it is looked at next.
    buckets: BTreeSet<(u64, O)>,
    /// Owners whose expiry is under way. They are in no bucket.
    judged: BTreeSet<O>,
    /// Owners with a timeout below [`QUIET_TIMEOUT_MS_MIN`].
    short_count: usize,
}

/// The times of an owner, and the attach that they follow from.
struct Kept {
    attached: Ordinal,
    timeout_ms: u64,
    /// When the client was last heard from, or attached.
    heard_ms: u64,
    /// The owner does not expire before, since a renewal waits for its answer.
    protected_until_ms: u64,
    /// The bucket that the owner is in; `None` while its expiry is under way.
    bucket: Option<u64>,
}

impl Kept {
    fn is_short(&self) -> bool {
        self.timeout_ms < u64::from(QUIET_TIMEOUT_MS_MIN)
    }

    /// When the timeout ends, without grace.
    fn end_ms(&self, renewed_all_ms: u64) -> u64 {
        self.heard_ms.max(renewed_all_ms) + self.timeout_ms
    }

    /// When the owner expires.
    fn deadline_ms(&self, renewed_all_ms: u64, grace_ms: u64) -> u64 {
        (self.end_ms(renewed_all_ms) + grace_ms).max(self.protected_until_ms)
    }
}

/// The time that an owner has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLeft {
    /// This much, of a timeout of so much.
    Some {
        /// The time that is left, in ms, without grace.
        left_ms: u64,
        /// The timeout, in ms.
        timeout_ms: u64,
    },
    /// Its expiry is under way.
    Judged,
}

impl<O: Copy + Ord + Hash> Deadlines<O> {
    /// No deadlines, at time 0. An owner expires up to `tick_ms` after its timeout and `grace_ms`.
    pub fn new(tick_ms: u64, grace_ms: u64) -> Deadlines<O> {
        assert!(tick_ms > 0);
        let owners = HashMap::with_hasher(FixedState::default());
        Deadlines {
            tick_ms,
            grace_ms,
            now_ms: 0,
            renewed_all_ms: 0,
            owners,
            buckets: BTreeSet::new(),
            judged: BTreeSet::new(),
            short_count: 0,
        }
    }

    /// The session was opened or attached, or the lease granted, by the command with this ordinal.
    /// It gets a full timeout from now.
    pub fn attach(&mut self, owner: O, attached: Ordinal, timeout_ms: u64) {
        self.close(owner);
        let kept = Kept {
            attached,
            timeout_ms,
            heard_ms: self.now_ms,
            protected_until_ms: 0,
            bucket: None,
        };
        self.short_count += usize::from(kept.is_short());
        self.owners.insert(owner, kept);
        self.renew(owner);
    }

    /// Removes all owners.
    pub fn clear(&mut self) {
        self.owners.clear();
        self.buckets.clear();
        self.judged.clear();
        self.short_count = 0;
    }

    /// The owner is gone.
    pub fn close(&mut self, owner: O) {
        let Some(kept) = self.owners.remove(&owner) else { return };
        self.short_count -= usize::from(kept.is_short());
        match kept.bucket {
            Some(bucket) => self.buckets.remove(&(bucket, owner)),
            None => self.judged.remove(&owner),
        };
    }

    /// The owner's client was heard from within the last report interval.
    pub fn heard(&mut self, owner: O) {
        self.renew(owner);
    }

    /// The time by the clock of the deadlines.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// The owner expires no earlier than at `until_ms`, which takes the place of an earlier such
    /// time; 0: its timeout alone decides. Changes nothing while its expiry is under way.
    pub fn protect(&mut self, owner: O, until_ms: u64) {
        let Some(kept) = self.owners.get_mut(&owner) else { return };
        kept.protected_until_ms = until_ms;
        let due = kept.deadline_ms(self.renewed_all_ms, self.grace_ms) / self.tick_ms;
        if let Some(bucket) = kept.bucket.filter(|bucket| due < *bucket) {
            self.buckets.remove(&(bucket, owner));
            self.put_in_bucket(owner);
        }
    }

    /// Gives every owner a full timeout, for a new leader. Owners whose expiry was under way
    /// are judged again after that, since the command may be lost.
    pub fn renew_all(&mut self) {
        self.renewed_all_ms = self.now_ms;
        while let Some(owner) = self.judged.pop_first() {
            self.put_in_bucket(owner);
        }
    }

    /// Number of owners.
    pub fn len(&self) -> usize {
        self.owners.len()
    }

    /// Whether there are no owners.
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty()
    }

    /// Places in buckets and among those judged: one for each owner.
    pub fn place_count(&self) -> usize {
        self.buckets.len() + self.judged.len()
    }

    /// Whether any owner has a timeout below [`QUIET_TIMEOUT_MS_MIN`].
    pub fn has_short(&self) -> bool {
        self.short_count > 0
    }

    /// Each owner with the time it has left, in no particular order.
    pub fn remaining_ms(&self) -> impl Iterator<Item = (O, u64)> {
        let deadline_ms = |kept: &Kept| kept.deadline_ms(self.renewed_all_ms, self.grace_ms);
        let left = move |kept: &Kept| deadline_ms(kept).saturating_sub(self.now_ms);
        self.owners.iter().map(move |(owner, kept)| (*owner, left(kept)))
    }

    /// The time that an owner has; `None` if it does not exist.
    pub fn left(&self, owner: O) -> Option<TimeLeft> {
        let kept = self.owners.get(&owner)?;
        if kept.bucket.is_none() {
            return Some(TimeLeft::Judged);
        }
        let left_ms = kept.end_ms(self.renewed_all_ms).saturating_sub(self.now_ms);
        Some(TimeLeft::Some { left_ms, timeout_ms: kept.timeout_ms })
    }

    fn renew(&mut self, owner: O) {
        let Some(kept) = self.owners.get_mut(&owner) else { return };
        kept.heard_ms = self.now_ms;
        if kept.bucket.is_none() {
            self.judged.remove(&owner);
            self.put_in_bucket(owner);
        }
    }

    fn put_in_bucket(&mut self, owner: O) {
        let kept = self.owners.get_mut(&owner).expect("a closed owner is not judged");
        let bucket = kept.deadline_ms(self.renewed_all_ms, self.grace_ms) / self.tick_ms;
        kept.bucket = Some(bucket);
        self.buckets.insert((bucket, owner));
    }

    /// Advances the clock by `elapsed_ms`, but at most by `planned_ms` or [`LEASE_ADVANCE_MS_MAX`],
    /// whichever is more. A longer plan must end
    /// [`EXPIRY_MARGIN_MS`](crate::order::limits::EXPIRY_MARGIN_MS) before [`Deadlines::due_ms`].
    pub fn advance(&mut self, elapsed_ms: u64, planned_ms: u64) {
        self.now_ms += elapsed_ms.min(planned_ms.max(LEASE_ADVANCE_MS_MAX));
    }

    /// How long until the first bucket falls due, in ms; none without owners.
    pub fn due_ms(&self) -> Option<u64> {
        let (bucket, _) = self.buckets.first()?;
        Some(((bucket + 1) * self.tick_ms).saturating_sub(self.now_ms))
    }

    /// Owners whose timeout has passed, at most `max`, each with the attach that is judged. Each
    /// is returned once, until it is attached or heard from again. Looks at [`EXPIRY_LOOKS_MAX`]
    /// owners at most.
    pub fn expired(&mut self, max: usize) -> Vec<(O, Ordinal)> {
        let mut expired = Vec::new();
        for _ in 0..EXPIRY_LOOKS_MAX {
            let Some(&(bucket, owner)) = self.buckets.first() else { break };
            if (bucket + 1) * self.tick_ms > self.now_ms || expired.len() >= max {
                break;
            }
            self.buckets.pop_first();
            let kept = self.owners.get_mut(&owner).expect("a closed owner left its bucket");
            assert!(kept.bucket == Some(bucket));
            let deadline_ms = kept.deadline_ms(self.renewed_all_ms, self.grace_ms);
            if deadline_ms > self.now_ms {
                let later = deadline_ms / self.tick_ms;
                assert!(later > bucket);
                kept.bucket = Some(later);
                self.buckets.insert((later, owner));
            } else {
                kept.bucket = None;
                self.judged.insert(owner);
                expired.push((owner, kept.attached));
            }
        }
        expired
    }
}

#[cfg(test)]
mod tests;

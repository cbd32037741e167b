//! Keeps the deadlines: when each session, each lease of etcd or each node of etcd v2 expires,
//! unless its client is heard from. A session, lease or node is called an *owner* here. The
//! deadlines are a part of Loop and are not replicated.
//!
//! The deadlines have their own clock. The driver says how long it planned to sleep, and how much
//! time has passed; the clock advances by the shorter of the two. (A plan of less than
//! [`LEASE_ADVANCE_MS_MAX`] counts as that much.) So a process that was paused first hears what
//! waits at its sockets before it expires anybody.
//!
//! Owners are in buckets of one tick, as sessions are in ZooKeeper (`ExpiryQueue`): an owner
//! expires up to a tick late and never early. To hear from an owner only moves its deadline; the
//! owner changes buckets when its old bucket falls due. So a renewal costs one look-up.
//!
//! A renewal that has arrived and is not answered yet may protect its owner until a later time. The
//! end of that protection can bring a deadline forward; only then does an owner change buckets
//! before its bucket falls due.
//!
//! An owner whose deadline has passed is *judged*: [`Deadlines::expired`] returns it once, so that
//! a command can end it. Every member keeps the deadlines, since any member may lead next. Each
//! owner is in at most one bucket, so a follower, which empties no bucket, keeps one place for each
//! owner. A new leader finds all buckets due; it looks at [`EXPIRY_LOOKS_MAX`] owners in one call
//! and goes on in the next.

use core::hash::Hash;
use std::collections::BTreeSet;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use machine::Ordinal;

use crate::limits::QUIET_TIMEOUT_MS_MIN;
use crate::spaces::limits::{EXPIRY_LOOKS_MAX, LEASE_ADVANCE_MS_MAX};

/// The deadlines of all owners of one kind: sessions, leases or nodes.
pub struct Deadlines<O> {
    tick_ms: u64,
    grace_ms: u64,
    now_ms: u64,
    /// When all owners were last given a full timeout.
    renewed_all_ms: u64,
    owners: HashMap<O, Kept, FixedState>,
    /// Each owner with the tick at whose end it is looked at next.
    buckets: BTreeSet<(u64, O)>,
    /// Owners whose expiry is under way: they were returned as expired. They are in no bucket.
    judged: BTreeSet<O>,
    /// How many owners have a timeout below [`QUIET_TIMEOUT_MS_MIN`].
    short_count: usize,
}

/// The times of one owner, and the ordinal of the command that attached it.
struct Kept {
    attached: Ordinal,
    timeout_ms: u64,
    /// When the client was last heard from, or the owner attached, by the clock of the deadlines.
    heard_ms: u64,
    /// The owner does not expire before this time, since a renewal waits for its answer; 0 if none
    /// does.
    protected_until_ms: u64,
    /// The tick of the bucket that the owner is in; `None` while its expiry is under way.
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

/// How long an owner still has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLeft {
    /// Its timeout has not passed, or its expiry is not under way yet.
    Some {
        /// The time until the timeout ends, in ms, without grace; 0 if it has ended.
        left_ms: u64,
        /// The whole timeout, in ms.
        timeout_ms: u64,
    },
    /// Its expiry is under way.
    Judged,
}

impl<O: Copy + Ord + Hash> Deadlines<O> {
    /// Deadlines without any owners, at time 0. An owner expires up to `tick_ms` after its timeout
    /// and `grace_ms` have passed.
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

    /// Notes that the command with the ordinal `attached` opened or attached the session, granted
    /// the lease, or gave the node its time to live. The owner gets a full timeout from now.
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

    /// Removes the owner, which has ended.
    pub fn close(&mut self, owner: O) {
        let Some(kept) = self.owners.remove(&owner) else { return };
        self.short_count -= usize::from(kept.is_short());
        match kept.bucket {
            Some(bucket) => self.buckets.remove(&(bucket, owner)),
            None => self.judged.remove(&owner),
        };
    }

    /// Notes that the owner's client was heard from within the last report interval.
    pub fn heard(&mut self, owner: O) {
        self.renew(owner);
    }

    /// The time by the clock of the deadlines, in ms.
    pub fn now_ms(&self) -> u64 {
        self.now_ms
    }

    /// Makes the owner expire no earlier than at `until_ms`. This replaces an earlier such time;
    /// with 0 the timeout alone decides. Changes nothing while the owner's expiry is under way.
    pub fn protect(&mut self, owner: O, until_ms: u64) {
        let Some(kept) = self.owners.get_mut(&owner) else { return };
        kept.protected_until_ms = until_ms;
        let due = kept.deadline_ms(self.renewed_all_ms, self.grace_ms) / self.tick_ms;
        if let Some(bucket) = kept.bucket.filter(|bucket| due < *bucket) {
            self.buckets.remove(&(bucket, owner));
            self.put_in_bucket(owner);
        }
    }

    /// Gives every owner a full timeout, for a new leader. Owners whose expiry is under way expire
    /// again after that, since the command that ends them may be lost.
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

    /// Places in buckets and among the judged owners. Each owner has one place.
    pub fn place_count(&self) -> usize {
        self.buckets.len() + self.judged.len()
    }

    /// Whether any owner has a timeout below [`QUIET_TIMEOUT_MS_MIN`].
    pub fn has_short(&self) -> bool {
        self.short_count > 0
    }

    /// Each owner with the time until it expires, in ms, in no particular order.
    pub fn remaining_ms(&self) -> impl Iterator<Item = (O, u64)> {
        let deadline_ms = |kept: &Kept| kept.deadline_ms(self.renewed_all_ms, self.grace_ms);
        let left = move |kept: &Kept| deadline_ms(kept).saturating_sub(self.now_ms);
        self.owners.iter().map(move |(owner, kept)| (*owner, left(kept)))
    }

    /// How long an owner still has; `None` if it does not exist.
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
    /// whichever is more. If more than that was planned, the plan must end
    /// [`EXPIRY_MARGIN_MS`](crate::order::limits::EXPIRY_MARGIN_MS) or more before
    /// [`Deadlines::due_ms`].
    pub fn advance(&mut self, elapsed_ms: u64, planned_ms: u64) {
        self.now_ms += elapsed_ms.min(planned_ms.max(LEASE_ADVANCE_MS_MAX));
    }

    /// How long until the first bucket falls due, in ms; `None` if no owner is in a bucket.
    pub fn due_ms(&self) -> Option<u64> {
        let (bucket, _) = self.buckets.first()?;
        Some(((bucket + 1) * self.tick_ms).saturating_sub(self.now_ms))
    }

    /// Returns owners whose timeout has passed, at most `max`, each with the ordinal of its attach.
    /// An owner is returned once, until it is attached or heard from again. Looks at no more than
    /// [`EXPIRY_LOOKS_MAX`] owners.
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

//! Leases: when each session expires, unless it is heard from. Kept by Loop, not replicated.
//!
//! Time here is the leases' own: it advances by what the driver says went by, but by
//! [`LEASE_ADVANCE_MS_MAX`] at most per round, so that a process that was paused does not expire
//! the world before it has heard what waited at its sockets meanwhile.
//!
//! Sessions sit in buckets of one tick, as in ZooKeeper (`ExpiryQueue`): one expires up to a tick
//! late and never early. Hearing from a session only moves its deadline; it changes buckets when
//! its old one falls due. So a renewal costs one look-up.

use std::collections::BTreeMap;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use machine::{Ordinal, SessionId};

use crate::limits::{HEARING_MS_MAX, LEASE_ADVANCE_MS_MAX};

/// All leases.
pub struct Leases {
    tick_ms: u64,
    now_ms: u64,
    leases: HashMap<SessionId, Lease, FixedState>,
    /// By the tick at whose end they fall due. A session may stand in an old bucket in vain.
    buckets: BTreeMap<u64, Vec<SessionId>>,
}

struct Lease {
    attached: Ordinal,
    timeout_ms: u32,
    deadline_ms: u64,
    /// The bucket it stands in; none while its expiry is under way.
    bucket: Option<u64>,
}

impl Leases {
    /// No leases, at time 0.
    pub fn new(tick_ms: u64) -> Leases {
        assert!(tick_ms > 0);
        let leases = HashMap::with_hasher(FixedState::default());
        Leases { tick_ms, now_ms: 0, leases, buckets: BTreeMap::new() }
    }

    /// The session was opened or attached: a full timeout from now.
    pub fn attach(&mut self, session: SessionId, attached: Ordinal, timeout_ms: u32) {
        let lease = Lease { attached, timeout_ms, deadline_ms: 0, bucket: None };
        self.leases.insert(session, lease);
        self.renew(session);
    }

    /// There is none any more.
    pub fn clear(&mut self) {
        self.leases.clear();
        self.buckets.clear();
    }

    /// The session is gone.
    pub fn close(&mut self, session: SessionId) {
        self.leases.remove(&session);
    }

    /// Its client was heard from within the last report interval.
    pub fn heard(&mut self, session: SessionId) {
        self.renew(session);
    }

    /// A new leader gives everyone a full timeout.
    pub fn renew_all(&mut self) {
        let sessions: Vec<SessionId> = self.leases.keys().copied().collect();
        for session in sessions {
            self.renew(session);
        }
    }

    /// Number of sessions.
    pub fn len(&self) -> usize {
        self.leases.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// Each session with the time it has left, in no particular order.
    pub fn remaining_ms(&self) -> impl Iterator<Item = (SessionId, u64)> {
        let left = |lease: &Lease| lease.deadline_ms.saturating_sub(self.now_ms);
        self.leases.iter().map(move |(session, lease)| (*session, left(lease)))
    }

    fn renew(&mut self, session: SessionId) {
        let Some(lease) = self.leases.get_mut(&session) else { return };
        lease.deadline_ms = self.now_ms + u64::from(lease.timeout_ms) + HEARING_MS_MAX;
        if lease.bucket.is_none() {
            let bucket = lease.deadline_ms / self.tick_ms;
            lease.bucket = Some(bucket);
            self.buckets.entry(bucket).or_default().push(session);
        }
    }

    /// Lets time go by.
    pub fn advance(&mut self, elapsed_ms: u64) {
        self.now_ms += elapsed_ms.min(LEASE_ADVANCE_MS_MAX);
    }

    /// Sessions whose time is up, at most `max`, each with the attach that is judged. Each is given
    /// once, until it is attached or heard from again.
    pub fn expired(&mut self, max: usize) -> Vec<(SessionId, Ordinal)> {
        let mut expired = Vec::new();
        while let Some(mut entry) = self.buckets.first_entry() {
            let bucket = *entry.key();
            if (bucket + 1) * self.tick_ms > self.now_ms || expired.len() >= max {
                break;
            }
            let Some(session) = entry.get_mut().pop() else {
                entry.remove();
                continue;
            };
            let Some(lease) = self.leases.get_mut(&session) else { continue };
            if lease.bucket != Some(bucket) {
                continue;
            }
            lease.bucket = None;
            if lease.deadline_ms > self.now_ms {
                let later = lease.deadline_ms / self.tick_ms;
                assert!(later > bucket);
                lease.bucket = Some(later);
                self.buckets.entry(later).or_default().push(session);
            } else {
                expired.push((session, lease.attached));
            }
        }
        expired
    }
}

#[cfg(test)]
mod tests;

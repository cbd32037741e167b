//! The times to live of etcd v2's nodes: when each ends, and the commands that remove the nodes.
//!
//! They end like leases, by the leader's own clock, but nobody keeps one alive: a refresh is a
//! write, which gives the node another time to live.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use machine::etcd_v2::change::DeadlineChange;
use machine::etcd_v2::command::{Command as EtcdV2Command, Judged};
use machine::etcd_v2::key::Key;
use machine::limits::EXPIRE_KEYS_MAX;
use machine::{Command, Ordinal};

use super::Loop;
use crate::leader::deadlines::Deadlines;
use crate::limits::{ETCD_V2_EXPIRED_MAX, LEASE_GRACE_MS, LEASE_TICK_MS};

/// The deadlines of etcd v2's nodes, by the index of the write that gave the time to live. No other
/// node has that index.
pub(super) struct EtcdV2Deadlines {
    deadlines: Deadlines<u64>,
    keys: HashMap<u64, Arc<str>, FixedState>,
}

impl Default for EtcdV2Deadlines {
    fn default() -> EtcdV2Deadlines {
        let keys = HashMap::with_hasher(FixedState::default());
        EtcdV2Deadlines { deadlines: Deadlines::new(LEASE_TICK_MS, LEASE_GRACE_MS), keys }
    }
}

impl EtcdV2Deadlines {
    /// Takes changes of the state.
    pub fn take(&mut self, changes: Vec<DeadlineChange>) {
        for change in changes {
            match change {
                DeadlineChange::Began { key, since, ttl_s } => {
                    self.deadlines.attach(since, Ordinal(0), ttl_s * 1_000);
                    self.keys.insert(since, key);
                }
                DeadlineChange::Ended { since } => {
                    self.deadlines.close(since);
                    self.keys.remove(&since);
                }
            }
        }
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.deadlines.clear();
        self.keys.clear();
    }

    /// Gives every node its full time, for a new leader.
    pub fn renew_all(&mut self) {
        self.deadlines.renew_all();
    }

    /// As [`Deadlines::advance`].
    pub fn advance(&mut self, elapsed_ms: u64, planned_ms: u64) {
        self.deadlines.advance(elapsed_ms, planned_ms);
    }

    /// As [`Deadlines::due_ms`].
    pub fn due_ms(&self) -> Option<u64> {
        self.deadlines.due_ms()
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.deadlines.len()
    }

    /// As [`Deadlines::place_count`].
    pub fn place_count(&self) -> usize {
        self.deadlines.place_count()
    }

    /// The nodes whose time is over, at most `max`, the first that ended first. Each is returned
    /// once.
    fn expired(&mut self, max: usize) -> Vec<(u64, Arc<str>)> {
        let expired = self.deadlines.expired(max).into_iter();
        expired.map(|(since, _)| (since, self.keys[&since].clone())).collect()
    }
}

impl Loop {
    /// Submits the commands that remove the nodes of etcd v2 whose time is over.
    pub(super) fn expire_etcd_v2(&mut self) {
        let expired = self.etcd_v2_deadlines.expired(ETCD_V2_EXPIRED_MAX);
        self.counts.etcd_v2_expired += expired.len() as u64;
        for part in expired.chunks(EXPIRE_KEYS_MAX) {
            let judged = part.iter().map(|(since, key)| Judged {
                key: Key::new(key).expect("the state has the key"),
                since: *since,
            });
            let keys = judged.collect();
            self.submit_own(&Command::EtcdV2(EtcdV2Command::Expire { keys }));
        }
    }
}

#[cfg(test)]
mod tests;

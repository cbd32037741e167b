//! The times to live of etcd v2's nodes: when each ends. Kept by Loop, not replicated.
//!
//! They end like leases, by the leader's own clock, but nobody keeps one alive: a refresh is a
//! write, which gives the node another time to live.

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use machine::Ordinal;
use machine::etcd_v2::change::DeadlineChange;

use super::deadlines::Deadlines;
use crate::limits::{LEASE_GRACE_MS, LEASE_TICK_MS};

/// Changes of the times to live of nodes, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdV2DeadlineChanges {
    /// Whether another state took the place of the one before: all times before it are gone.
    pub is_replaced: bool,
    /// The changes.
    pub changes: Vec<DeadlineChange>,
}

/// The deadlines of etcd v2's nodes, by the index of the write that gave the time to live. No other
/// node has that index.
pub struct EtcdV2Deadlines {
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
    /// The deadlines of a whole state's nodes.
    pub fn of_state(changes: Vec<DeadlineChange>) -> EtcdV2Deadlines {
        let mut deadlines = EtcdV2Deadlines::default();
        deadlines.take(EtcdV2DeadlineChanges { is_replaced: true, changes });
        deadlines
    }

    /// Takes changes of the state.
    pub fn take(&mut self, EtcdV2DeadlineChanges { is_replaced, changes }: EtcdV2DeadlineChanges) {
        if is_replaced {
            self.deadlines.clear();
            self.keys.clear();
        }
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

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.deadlines.is_empty()
    }

    /// As [`Deadlines::place_count`].
    pub fn place_count(&self) -> usize {
        self.deadlines.place_count()
    }

    /// The nodes whose time is over, at most `max`, the first that ended first, each by the index
    /// of the write that gave the time. Each is returned once.
    pub fn expired(&mut self, max: usize) -> Vec<(u64, Arc<str>)> {
        let expired = self.deadlines.expired(max).into_iter();
        expired.map(|(since, _)| (since, self.keys[&since].clone())).collect()
    }
}

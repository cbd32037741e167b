//! The work that a leader does for etcd v2's space as time passes: it removes nodes whose time to
//! live is over.
//!
//! A time to live ends like a lease, by the leader's own clock, but nobody keeps it alive: a
//! refresh is a write, which gives the node a new time to live.

pub(crate) mod counts;

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use machine::etcd_v2::Store;
use machine::etcd_v2::change::{Changes, DeadlineChange};
use machine::etcd_v2::command::Judged;
use machine::etcd_v2::key::Key;
use machine::limits::EXPIRE_KEYS_MAX;
use machine::{Command, EtcdV2Command, Ordinal};

use super::deadlines::Deadlines;
use super::look::{Held, Look};
use crate::spaces::limits::{ETCD_V2_EXPIRED_MAX, LEASE_GRACE_MS, LEASE_TICK_MS};

/// Changes of etcd v2's space that a leader must know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct News {
    /// Changes of times to live, in the order in which they were applied.
    pub deadlines: Vec<DeadlineChange>,
}

impl News {
    pub(super) fn from_changes(changes: &Changes) -> News {
        News { deadlines: changes.deadlines().to_vec() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.deadlines.is_empty()
    }
}

/// The room of etcd v2's space: the deadlines of nodes, each by the index of the write that gave
/// the node its time to live. No other node has that index.
pub(crate) struct EtcdV2 {
    deadlines: Deadlines<u64>,
    keys: HashMap<u64, Arc<str>, FixedState>,
    /// Nodes whose expiry this member has begun, since the start.
    pub(super) expired_count: u64,
}

impl EtcdV2 {
    pub(super) fn new(state: &Store) -> EtcdV2 {
        let mut room = EtcdV2 {
            deadlines: Deadlines::new(LEASE_TICK_MS, LEASE_GRACE_MS),
            keys: HashMap::with_hasher(FixedState::default()),
            expired_count: 0,
        };
        room.on_applied(false, News { deadlines: state.deadlines() });
        room
    }

    pub(super) fn on_applied(&mut self, is_replaced: bool, news: News) {
        if is_replaced {
            self.deadlines.clear();
            self.keys.clear();
        }
        for change in news.deadlines {
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

    pub(super) fn renew_all(&mut self) {
        self.deadlines.renew_all();
    }

    pub(super) fn advance(&mut self, elapsed_ms: u64, planned_ms: u64) {
        self.deadlines.advance(elapsed_ms, planned_ms);
    }

    pub(super) fn deadline_ms(&self) -> Option<u64> {
        self.deadlines.due_ms()
    }

    pub(super) fn due(&mut self, look: &Look, submit: &mut dyn FnMut(&Command<'_>)) {
        if !look.may_judge() {
            return;
        }
        let expired = self.deadlines.expired(ETCD_V2_EXPIRED_MAX);
        self.expired_count += expired.len() as u64;
        for part in expired.chunks(EXPIRE_KEYS_MAX) {
            let judged = part.iter().map(|&(since, _)| Judged {
                key: Key::new(&self.keys[&since]).expect("the state has the key"),
                since,
            });
            let keys = judged.collect();
            submit(&Command::EtcdV2(EtcdV2Command::Expire { keys }));
        }
    }

    pub(super) fn held(&self) -> Held {
        let (deadlines, deadline_places) = (self.deadlines.len(), self.deadlines.place_count());
        Held { deadlines, deadline_places, questions: 0 }
    }
}

//! etcd v2's store: the tree, the history of events, the index (a counter of the writes that took
//! effect), and users and roles.

use std::sync::Arc;

use crate::codec::Write;
use crate::digest::Digest;
use crate::etcd_v2::auth::Auth;
use crate::etcd_v2::change::DeadlineChange;
use crate::etcd_v2::garbage::Garbage;
use crate::etcd_v2::history::History;
use crate::etcd_v2::key::Key;
use crate::etcd_v2::removal::Paused;
use crate::etcd_v2::tree::{NodeStat, Tree, Ttl};
use crate::etcd_v2::walk::Walk;

/// The index of a store that was never written to. etcd itself registers its members in this store,
/// so a new etcd of a single member serves with this index (seen with 3.4.23). It must not be 0,
/// because clients treat that specially.
pub const FIRST_INDEX: u64 = 3;

/// The state of etcd v2's space: the tree, the history, the index, and users and roles.
pub struct Store {
    /// The index of the last write that took effect; [`FIRST_INDEX`] before the first.
    pub(crate) index: u64,
    pub(crate) tree: Tree,
    pub(crate) history: History,
    /// Shared with readers that look at it without the lock.
    pub(crate) auth: Arc<Auth>,
    /// Bytes that the tree may take in memory; `None` below level 4. Set before each command, from
    /// the state of other spaces.
    pub(crate) held_max: Option<u64>,
    /// The running walk that writes an image; `None` if there is none.
    pub(crate) walk: Option<Box<Walk>>,
    /// The command that is only partly applied.
    pub(crate) paused: Option<Box<Paused>>,
    /// Nodes that were removed from the tree, to be freed in steps.
    pub(crate) garbage: Garbage,
}

impl Default for Store {
    fn default() -> Store {
        Store {
            index: FIRST_INDEX,
            tree: Tree::default(),
            history: History::default(),
            auth: Arc::default(),
            held_max: None,
            walk: None,
            paused: None,
            garbage: Garbage::default(),
        }
    }
}

impl Store {
    /// The index of the last write that took effect: etcd's `X-Etcd-Index`.
    pub fn index(&self) -> u64 {
        self.index
    }

    /// The tree of nodes.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The latest events.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Users and roles.
    pub fn auth(&self) -> &Arc<Auth> {
        &self.auth
    }

    /// Whether the store was never written to, and there are no users and roles. Then it has no
    /// section in an image, and no terms in the digest.
    pub fn is_unused(&self) -> bool {
        self.index == FIRST_INDEX && self.auth.is_unused()
    }

    /// Whether a command is only partly applied. Reads are right nevertheless: each removal is
    /// visible whole or not at all.
    pub fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Whether [`Store::prune`] has anything to free.
    pub fn has_garbage(&self) -> bool {
        self.garbage.has_work()
    }

    /// Frees some nodes that were removed from the tree. The state does not change.
    pub fn prune(&mut self) {
        self.garbage.drop_some();
    }

    /// The digest's terms of the store: those of nodes, events, users and roles, and one of the two
    /// indexes.
    pub(crate) fn digest(&self) -> Digest {
        if self.is_unused() {
            return Digest::default();
        }
        let mut numbers = Vec::new();
        numbers.put_u64(self.index);
        numbers.put_u64(self.history.cleared());
        let mut digest = Digest::from_bytes(b'v', &numbers);
        digest.add(self.tree.sums().digest);
        digest.add(self.history.digest());
        digest.add(self.auth.digest());
        digest
    }

    /// Prepares the state of an image to replace a state that has this index. The store's index
    /// rises above both, so a client that has seen the old index finds none below it; waits for
    /// earlier events are refused. Every time to live starts anew, each with an index of its own,
    /// so that an expiry judged before the replacement removes nothing.
    pub(crate) fn take_place_of(&mut self, index: u64) {
        self.index = self.index.max(index) + 1;
        let mut keys: Vec<String> = Vec::new();
        self.tree.root().ttls(&mut String::new(), &mut |key, _| keys.push(key.to_string()));
        for key in &keys {
            self.index += 1;
            let key = Key::known(key);
            let node = self.tree.find(key).expect("its time to live was just listed");
            let (stat, value) = (node.stat, node.value().cloned());
            let ttl = stat.ttl.map(|ttl| Ttl { since: self.index, ..ttl });
            self.tree.change(key, NodeStat { ttl, ..stat }, value);
        }
        self.history = History::behind(self.index);
    }

    /// All times to live, each as a change. Loop takes these when this state replaces another one.
    pub fn deadlines(&self) -> Vec<DeadlineChange> {
        let mut changes = Vec::new();
        self.tree.root().ttls(&mut String::new(), &mut |key, ttl| {
            let (since, ttl_s) = (ttl.since, ttl.ttl_s);
            changes.push(DeadlineChange::Began { key: key.into(), since, ttl_s });
        });
        changes
    }
}

//! The store: the tree, the history, the index, and users and roles.

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

/// The index of a store that nobody has written to. etcd registers its members in the same store,
/// so a fresh one of a single member has this index when it serves (seen with 3.4.23), and clients
/// must not take it for 0.
pub const FIRST_INDEX: u64 = 3;

/// The state of etcd v2's space.
pub struct Store {
    /// The number of writes that took effect, from [`FIRST_INDEX`].
    pub(crate) index: u64,
    pub(crate) tree: Tree,
    pub(crate) history: History,
    /// Shared with those who look at it without the lock.
    pub(crate) auth: Arc<Auth>,
    /// Bytes that the tree may take in memory; none below level 4. Set before each command from
    /// what other spaces have.
    pub(crate) held_max: Option<u64>,
    /// A running walk for an image.
    pub(crate) walk: Option<Box<Walk>>,
    /// A command that is done in part.
    pub(crate) paused: Option<Box<Paused>>,
    /// Nodes that are not part of the tree any more.
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

    /// The nodes.
    pub fn tree(&self) -> &Tree {
        &self.tree
    }

    /// The last events.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Users and roles.
    pub fn auth(&self) -> &Arc<Auth> {
        &self.auth
    }

    /// Whether nobody ever wrote to the store, and there are no users and roles: then it has no
    /// section in an image and no terms in the digest.
    pub fn is_unused(&self) -> bool {
        self.index == FIRST_INDEX && self.auth.is_unused()
    }

    /// Whether a command is done in part. Reads are right nevertheless: no removal is done by
    /// halves.
    pub fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Whether [`Store::prune`] has something to do.
    pub fn has_garbage(&self) -> bool {
        self.garbage.has_work()
    }

    /// Frees some nodes that are not part of the tree any more. It affects memory only.
    pub fn prune(&mut self) {
        self.garbage.drop_some();
    }

    /// The terms of the store: of each node, each event and each record of users and roles, and one
    /// of the numbers.
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

    /// Makes the state ready to take the place of another one with this index, by a command.
    /// Clients that have seen that index find none below it, and waits for earlier events are
    /// refused. Every time to live counts as given now, each by an index of its own: an expiry that
    /// was judged before names none of them.
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

    /// The changes that tell of all times to live, for Loop when this state takes the place of
    /// another.
    pub fn deadlines(&self) -> Vec<DeadlineChange> {
        let mut changes = Vec::new();
        self.tree.root().ttls(&mut String::new(), &mut |key, ttl| {
            let (since, ttl_s) = (ttl.since, ttl.ttl_s);
            changes.push(DeadlineChange::Began { key: key.into(), since, ttl_s });
        });
        changes
    }
}

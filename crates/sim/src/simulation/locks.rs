//! Checks that, once the faults have stopped, each etcd client that waits for a lock or an election
//! soon gets it: when its key is first in the queue, and when the key before its own belongs to a
//! dead session.

use std::collections::BTreeMap;

use machine::etcd::command::{KeyRange, RangeOp};

use super::hosts::Hosts;
use crate::etcd_clients::{EtcdClients, recipe};
use crate::limits::{KEY_OUTLIVES_US_MAX, LOCK_PASSED_US_MAX};
use crate::server::Server;

/// The first key in the queue for a lock, as seen by a client that waits for the lock. The number
/// is the key's creation revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Front {
    /// The client's own key is first in the states of all members: the client must get the lock
    /// soon.
    Own(i64),
    /// The key of a session that no client keeps alive: it must expire soon.
    Orphan(i64),
    /// The key of another live client, which will release the lock.
    Other,
}

/// The first key that a member's state has below a lock's name. `token` and `lease` are 0 if it has
/// none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct First {
    /// The revision of the member's state.
    revision: i64,
    /// The revision at which the key was created.
    token: i64,
    lease: i64,
}

/// The first key that each waiting client last saw, and since when, by the client's number.
#[derive(Default)]
pub(super) struct Turns {
    fronts: BTreeMap<usize, (Front, u64)>,
}

impl Turns {
    /// Notes which key is first for a client, and since when. Forgets the client if it does not
    /// wait.
    pub fn note(&mut self, client: usize, etcd: &EtcdClients, hosts: &Hosts, now_us: u64) {
        let Some(front) = front(client, etcd, hosts, now_us) else {
            self.fronts.remove(&client);
            return;
        };
        let (known, since_us) = self.fronts.entry(client).or_insert((front, now_us));
        if *known != front {
            (*known, *since_us) = (front, now_us);
        }
    }

    /// Checks that a client gets its lock soon after its key comes first, and that the keys of dead
    /// sessions go. Faults stopped at `calm_us`, but a sync may hang longer.
    ///
    /// # Errors
    /// A client has waited too long.
    pub fn check_in_time(
        &self,
        etcd: &EtcdClients,
        hosts: &Hosts,
        calm_us: u64,
        now_us: u64,
    ) -> Result<(), String> {
        for (client, (known, since_us)) in &self.fronts {
            let (bound_us, what) = match known {
                Front::Own(_) => (LOCK_PASSED_US_MAX, "a lock is not passed on"),
                Front::Orphan(_) => (KEY_OUTLIVES_US_MAX, "a key outlives its session"),
                Front::Other => continue,
            };
            // A member whose sync still hangs may apply the end of a lease late.
            let since_us = *since_us.max(&calm_us).max(&hosts.held_until_us());
            let is_late = since_us + bound_us < now_us;
            if is_late && front(*client, etcd, hosts, now_us) == Some(*known) {
                let client = etcd.clients[*client].describe();
                return Err(format!("{what}: {known:?} since {since_us} us, {client}"));
            }
        }
        Ok(())
    }
}

/// The first key in the queue that a client waits in; `None` if it does not wait.
fn front(client: usize, etcd: &EtcdClients, hosts: &Hosts, now_us: u64) -> Option<Front> {
    let contender = etcd.clients[client].contender()?;
    let lease = contender.waits()?;
    let firsts: Vec<First> =
        hosts.servers().map(|server| first_of(server, contender.name())).collect();
    let is_first = firsts.iter().all(|first| first.lease == lease);
    let First { token, lease: first, .. } = firsts.into_iter().max()?;
    if contender.live_lease(now_us) == Some(lease) && is_first {
        return Some(Front::Own(token));
    }
    let mut live = etcd.contenders().filter_map(|contender| contender.live_lease(now_us));
    let is_orphan = token > 0 && !live.any(|live| live == first);
    Some(if is_orphan { Front::Orphan(token) } else { Front::Other })
}

fn first_of(server: &Server, name: &[u8]) -> First {
    let store = server.machine().etcd();
    let (key, end) = (recipe::prefix(name), recipe::prefix_end(name));
    let all = RangeOp::of(KeyRange { key: &key, end: &end });
    let found = store.range(&all).expect("the newest revision is there");
    let first = found.events.iter().map(|event| event.numbers());
    let first = first.min_by_key(|numbers| numbers.create_revision);
    let (token, lease) = first.map_or((0, 0), |it| (it.create_revision, it.lease));
    First { revision: store.revision(), token, lease }
}

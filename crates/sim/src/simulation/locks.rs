//! Whether locks and elections are passed on when nothing goes wrong any more.

use std::collections::BTreeMap;

use machine::etcd::command::{KeyRange, RangeOp};

use super::hosts::Hosts;
use crate::etcd_clients::{EtcdClients, recipe};
use crate::limits::{KEY_OUTLIVES_US_MAX, LOCK_PASSED_US_MAX};
use crate::server::Server;

/// The key that comes first of those who want what a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Front {
    /// The client's own one, in the states of all members. The client must come to hold.
    Own(i64),
    /// One of a session that no client keeps alive. It must go.
    Orphan(i64),
    /// One of another client, which will give it up.
    Other,
}

/// The key that a member has first below a name. All numbers are 0 where there is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct First {
    /// The revision of the member's state, also without a key.
    revision: i64,
    /// The revision at which the key was created.
    token: i64,
    lease: i64,
}

/// What each client of etcd that wants a lock waits for, and since when, by client.
#[derive(Default)]
pub(super) struct Turns {
    fronts: BTreeMap<usize, (Front, u64)>,
}

impl Turns {
    /// Looks at what a client waits for, and notes since when that is so.
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

    /// Checks that clients come to hold when their turn has come, and that the keys of sessions
    /// that are over go. Nothing goes wrong since `calm_us`, but a sync that hung then may hang for
    /// longer.
    ///
    /// # Errors
    /// A client has waited for too long.
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

/// The front of what a client waits for; `None` if it does not wait.
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

//! Whether locks and elections are passed on when nothing goes wrong any more.

use machine::etcd::command::{KeyRange, RangeOp};

use super::{Phase, Simulation};
use crate::etcd_clients::contender::{Contender, ContenderCounts};
use crate::etcd_clients::recipe;
use crate::limits::{KEY_OUTLIVES_US_MAX, LOCK_PASSED_US_MAX};
use crate::server::Server;

/// The key that comes first of those who want what a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Front {
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

impl Simulation {
    /// Looks at what a client waits for, and notes since when that is so.
    pub(super) fn note_front(&mut self, client: usize) {
        if self.phase != Phase::Calm {
            return;
        }
        let Some(front) = self.front(client) else {
            self.fronts.remove(&client);
            return;
        };
        let (known, since_us) = self.fronts.entry(client).or_insert((front, self.world.now_us));
        if *known != front {
            (*known, *since_us) = (front, self.world.now_us);
        }
    }

    /// What a client waits for; none if it does not wait.
    fn front(&self, client: usize) -> Option<Front> {
        let contender = self.etcd.clients[client].contender()?;
        let lease = contender.waits()?;
        let now_us = self.world.now_us;
        let firsts: Vec<First> =
            self.servers().map(|server| first_of(server, contender.name())).collect();
        let is_first = firsts.iter().all(|first| first.lease == lease);
        let First { token, lease: first, .. } = firsts.into_iter().max()?;
        if contender.live_lease(now_us) == Some(lease) && is_first {
            return Some(Front::Own(token));
        }
        let mut live = self.contenders().filter_map(|contender| contender.live_lease(now_us));
        let is_orphan = token > 0 && !live.any(|live| live == first);
        Some(if is_orphan { Front::Orphan(token) } else { Front::Other })
    }

    /// Checks that clients come to hold when their turn has come, and that the keys of sessions
    /// that are over go. Nothing goes wrong since `calm_us`, beside syncs that hang until
    /// `held_us`.
    pub(super) fn check_locks_in_time(&self, calm_us: u64, held_us: u64) -> Result<(), String> {
        for (client, (front, since_us)) in &self.fronts {
            let (bound_us, what) = match front {
                Front::Own(_) => (LOCK_PASSED_US_MAX, "a lock is not passed on"),
                Front::Orphan(_) => (KEY_OUTLIVES_US_MAX, "a key outlives its session"),
                Front::Other => continue,
            };
            let since_us = *since_us.max(&calm_us).max(&held_us);
            let is_late = since_us + bound_us < self.world.now_us;
            if is_late && self.front(*client) == Some(*front) {
                let client = self.etcd.clients[*client].describe();
                return Err(format!("{what}: {front:?} since {since_us} us, {client}"));
            }
        }
        Ok(())
    }

    /// What happened to all clients that want locks.
    pub(super) fn contender_counts(&self) -> ContenderCounts {
        let mut all = ContenderCounts::default();
        for one in self.contenders().map(|contender| contender.counts) {
            all.waits += one.waits;
            all.served += one.served;
            all.given_up += one.given_up;
            all.repeated += one.repeated;
            all.waits_compacted += one.waits_compacted;
            all.sessions_over += one.sessions_over;
            all.deaths += one.deaths;
            all.pauses += one.pauses;
        }
        all
    }

    fn contenders(&self) -> impl Iterator<Item = &Contender> {
        self.etcd.clients.iter().filter_map(|client| client.contender())
    }
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

//! The list of servers and the set of retired members, which may be replaced while the links run,
//! and the rule for when the links of a server that has left the list end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use machine::MemberId;
use machine::limits::LISTED_SERVERS_MAX;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use super::PeerServer;
use crate::peer_address::PeerAddress;

/// A server of the list. It is another value once the server's addresses change, or once the
/// server returns to the list.
pub(super) struct Listed {
    /// The server, with its addresses.
    pub server: PeerServer,
    /// The addresses that the server has said itself on its last link, once it had proved who it
    /// is. They are tried after the listed ones: the server may not know yet that it has others.
    told: Mutex<Vec<PeerAddress>>,
    /// By channel: notified when the server has just linked to this one, so that a dial is likely
    /// to succeed.
    pub seen: Arc<[Notify; 2]>,
}

impl Listed {
    fn new(server: PeerServer, seen: Arc<[Notify; 2]>) -> Arc<Listed> {
        Arc::new(Listed { server, told: Mutex::default(), seen })
    }

    /// The addresses at which the server is dialled, in turn.
    pub fn addresses(&self) -> Vec<PeerAddress> {
        let mut all = self.server.addresses.clone();
        all.extend(
            self.told.lock().iter().filter(|it| !self.server.addresses.contains(it)).cloned(),
        );
        all
    }

    /// Notes the addresses that the server has said itself.
    pub fn tell(&self, addresses: Vec<PeerAddress>) {
        *self.told.lock() = addresses;
    }
}

/// The listed servers by their numbers.
pub(super) type ListedServers = BTreeMap<u64, Arc<Listed>>;

/// The list of servers. All threads read it, and tasks of the links follow its changes.
pub(super) struct ServerList {
    /// This server's number. Links are made with all other servers.
    own: u64,
    present: watch::Sender<ListedServers>,
    /// The members that are gone for good.
    retired: Mutex<BTreeSet<MemberId>>,
    /// Whether this member knows no leader, so that the list may be old.
    is_lost: AtomicBool,
    /// Whether servers that are not on the list may come and get the log.
    takes_guests: AtomicBool,
}

impl ServerList {
    /// An empty list, of the server of that number.
    pub fn new(own: u64) -> ServerList {
        let (present, retired) = (watch::Sender::new(ListedServers::new()), Mutex::default());
        let (is_lost, takes_guests) = (AtomicBool::new(false), AtomicBool::new(false));
        ServerList { own, present, retired, is_lost, takes_guests }
    }

    /// Notes which servers that are not on the list may link.
    pub fn set_open(&self, is_lost: bool, takes_guests: bool) {
        self.is_lost.store(is_lost, Ordering::Relaxed);
        self.takes_guests.store(takes_guests, Ordering::Relaxed);
    }

    /// Whether servers that are not on the list may come and get the log.
    pub fn takes_guests(&self) -> bool {
        self.takes_guests.load(Ordering::Relaxed)
    }

    /// Whether this member knows no leader.
    pub fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }

    /// Replaces the list, unless the new one is equal. Calls `on_change` with the numbers of the
    /// other servers before another thread may read or replace the list.
    pub fn replace(&self, servers: Vec<PeerServer>, on_change: impl FnOnce(Vec<u64>)) {
        self.present.send_if_modified(|present| {
            let list = |server: PeerServer| match present.get(&server.number) {
                Some(kept) if kept.server == server => (server.number, kept.clone()),
                former => {
                    let seen = former.map(|it| it.seen.clone()).unwrap_or_default();
                    (server.number, Listed::new(server, seen))
                }
            };
            let next: ListedServers = servers.into_iter().map(list).collect();
            let is_kept = |(number, it): (&u64, &Arc<Listed>)| {
                present.get(number).is_some_and(|of| Arc::ptr_eq(of, it))
            };
            if next.len() == present.len() && next.iter().all(is_kept) {
                return false;
            }
            *present = next;
            on_change(self.others(present));
            true
        });
    }

    /// Adds a server until the list is replaced, unless it has as many servers as it may have.
    /// Calls `on_change` as [`ServerList::replace`] does.
    pub fn meet(&self, server: PeerServer, on_change: impl FnOnce(Vec<u64>)) {
        self.present.send_if_modified(|present| {
            if present.contains_key(&server.number) || present.len() >= LISTED_SERVERS_MAX {
                return false;
            }
            present.insert(server.number, Listed::new(server, Arc::default()));
            on_change(self.others(present));
            true
        });
    }

    /// The other server of that number, if it is listed.
    pub fn get(&self, number: u64) -> Option<Arc<Listed>> {
        self.present.borrow().get(&number).filter(|_| number != self.own).cloned()
    }

    /// Whether another server of that number is listed.
    pub fn has(&self, number: u64) -> bool {
        self.get(number).is_some()
    }

    /// The numbers of the other servers that are listed.
    pub fn numbers(&self) -> Vec<u64> {
        self.others(&self.present.borrow())
    }

    fn others(&self, present: &ListedServers) -> Vec<u64> {
        present.keys().copied().filter(|number| *number != self.own).collect()
    }

    /// All listed servers, with this one, and their peer URLs.
    pub fn peer_urls(&self) -> BTreeMap<u64, Vec<String>> {
        let present = self.present.borrow();
        let urls = |(number, it): (&u64, &Arc<Listed>)| (*number, it.server.peer_urls.clone());
        present.iter().map(urls).collect()
    }

    /// Replaces the set of members that are gone for good.
    pub fn set_retired(&self, retired: BTreeSet<MemberId>) {
        *self.retired.lock() = retired;
    }

    /// Whether a member is gone for good.
    pub fn is_retired(&self, member: MemberId) -> bool {
        self.retired.lock().contains(&member)
    }

    /// Follows the changes of the list from now on.
    pub fn subscribe(&self) -> watch::Receiver<ListedServers> {
        self.present.subscribe()
    }

    /// Waits until the server has other addresses, or has left the list.
    pub async fn wait_until_changed(&self, listed: &Arc<Listed>) {
        let number = listed.server.number;
        let is_other = |present: &ListedServers| {
            !present.get(&number).is_some_and(|it| Arc::ptr_eq(it, listed))
        };
        // The sender is a part of this list, so it cannot be gone.
        let _ = self.subscribe().wait_for(is_other).await;
    }
}

/// When the links of servers that have left the list are to end.
pub(super) struct Departures {
    stay: Duration,
    ends: BTreeMap<u64, Instant>,
}

impl Departures {
    /// The links of a server that has left the list stay for `stay`.
    pub fn new(stay: Duration) -> Departures {
        Departures { stay, ends: BTreeMap::new() }
    }

    /// The servers whose links are to end now. `unlisted` are the servers that have links and are
    /// not on the list.
    pub fn due(&mut self, unlisted: &BTreeSet<u64>, now: Instant) -> Vec<u64> {
        self.ends.retain(|number, _| unlisted.contains(number));
        for number in unlisted {
            self.ends.entry(*number).or_insert(now + self.stay);
        }
        self.ends.extract_if(.., |_, end| *end <= now).map(|(number, _)| number).collect()
    }

    /// When [`Departures::due`] has to be called again, even if the list does not change.
    pub fn next_end(&self) -> Option<Instant> {
        self.ends.values().min().copied()
    }
}

#[cfg(test)]
mod tests;

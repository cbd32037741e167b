//! Runs the waits of etcd v2. A wait is a request that waits for a change of one key, or also for
//! changes of the keys below it.
//!
//! ```text
//! new events:  delivery -> changes -> match_changes (by key, no lock) -> the wait -> driver
//! old events:  run (under the lock) -> the store's history, from the cursor -> the wait -> driver
//! ```
//!
//! A wait is a cursor: it holds the first index whose event it has not passed on. It begins
//! *behind*, and falls behind again if events come before its client has taken the last ones, or if
//! the state is replaced. While a wait is behind it ignores new events, and later reads them from
//! the history. If the history no longer has them, the wait ends. So a client that reads nothing
//! costs the memory of one set of events.
//!
//! A wait that is no stream ends with its first event. A stream that begins in the history goes on
//! to new events, unlike in etcd. Source: `v2store.watcherHub` of etcd 3.4.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use etcd::v2::{Request, WaitAsk};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use machine::change::SharedChanges;
use machine::etcd_v2::Store;
use machine::etcd_v2::auth::Who;
use machine::etcd_v2::change::KeyChange;
use machine::etcd_v2::event::Event;
use machine::etcd_v2::key::Key;
use machine::etcd_v2::reply::Refusal;

use crate::fronts::etcd::limits::{
    ETCD_V2_WAIT_BYTES, ETCD_V2_WAIT_EVENTS_MAX, ETCD_V2_WAIT_LOOKS_MAX,
};
use crate::message::{FrontId, Ticket};
use crate::spaces::CommandCounts;
use crate::watch_interest::{WatchInterest, Watching};

/// The steps of a wait. First the wait begins or is refused; then events come; at the end of a
/// stream, perhaps `Ended`.
#[derive(Clone, Debug)]
pub enum V2Waited {
    /// The wait has begun, at this index of the store.
    Begun {
        /// The index.
        index: u64,
    },
    /// The wait is refused and over.
    Refused(Refusal),
    /// Events. More come once the client has taken these. A wait that is no stream is over now.
    Events(Vec<Arc<Event>>),
    /// The wait is over, because the history no longer has events that the client has not had.
    Ended,
}

/// All waits of a Front.
pub(in crate::fronts::etcd) struct V2Waits {
    front: FrontId,
    interest: Arc<WatchInterest>,
    counts: Arc<CommandCounts>,
    /// Set while a wait takes new events: it tells Apply that this Front wants them.
    watching: Option<Watching>,
    waits: HashMap<Ticket, Wait, FixedState>,
    /// The waits that take new events, by key.
    by_key: BTreeMap<Arc<str>, BTreeSet<Ticket>>,
    /// Waits that are to look into the history.
    behind: VecDeque<Ticket>,
    /// Deliveries whose events were not matched yet.
    changes: Vec<SharedChanges>,
    /// The index of the last event that was matched with the waits.
    seen: u64,
    /// Waits that have events for the driver.
    filled: Vec<Ticket>,
    output: Vec<(Ticket, V2Waited)>,
}

struct Wait {
    key: Arc<str>,
    /// The user that sent the request; `None` if the client named no user. As in etcd, permissions
    /// are checked only when the wait begins.
    user: Option<Arc<str>>,
    is_recursive: bool,
    is_stream: bool,
    /// The first index whose event the wait has not passed on. Before the wait begins, 0 means the
    /// index of the next write.
    next: u64,
    has_begun: bool,
    /// Whether the wait ignores new events, and must look into the history.
    is_behind: bool,
    /// Whether the driver has events that the client has not taken.
    is_sent: bool,
    /// The events for the next output.
    events: Vec<Arc<Event>>,
    event_bytes: u64,
}

impl Wait {
    /// Whether the wait can take another event now.
    fn has_room(&self) -> bool {
        let is_full =
            self.events.len() >= ETCD_V2_WAIT_EVENTS_MAX || self.event_bytes >= ETCD_V2_WAIT_BYTES;
        !self.is_sent && !is_full
    }

    fn push(&mut self, event: Arc<Event>) {
        self.event_bytes += event.bytes();
        self.events.push(event);
    }
}

impl V2Waits {
    pub fn new(
        front: FrontId,
        interest: Arc<WatchInterest>,
        counts: Arc<CommandCounts>,
    ) -> V2Waits {
        V2Waits {
            front,
            interest,
            counts,
            watching: None,
            waits: HashMap::with_hasher(FixedState::default()),
            by_key: BTreeMap::new(),
            behind: VecDeque::new(),
            changes: Vec::new(),
            seen: 0,
            filled: Vec::new(),
            output: Vec::new(),
        }
    }

    /// The number of waits.
    pub fn count(&self) -> usize {
        self.waits.len()
    }

    /// Opens a wait for the key and the user of this request.
    pub fn open(&mut self, ticket: Ticket, request: &Request, ask: WaitAsk) {
        let WaitAsk { is_recursive, is_stream, from } = ask;
        let wait = Wait {
            key: request.key().text().into(),
            user: request.user.clone(),
            is_recursive,
            is_stream,
            next: from,
            has_begun: false,
            is_behind: true,
            is_sent: false,
            events: Vec::new(),
            event_bytes: 0,
        };
        self.waits.insert(ticket, wait);
        self.counts.etcd_v2.add_waits(1);
        self.behind.push_back(ticket);
    }

    /// Closes a wait. Returns false if the ticket names no wait.
    pub fn close(&mut self, ticket: Ticket) -> bool {
        let Some(wait) = self.waits.remove(&ticket) else { return false };
        self.counts.etcd_v2.add_waits(-1);
        self.forget_key(ticket, &wait.key);
        true
    }

    /// Stops matching new events with this wait.
    fn forget_key(&mut self, ticket: Ticket, key: &str) {
        if let Some(tickets) = self.by_key.get_mut(key) {
            tickets.remove(&ticket);
            if tickets.is_empty() {
                self.by_key.remove(key);
            }
        }
        if self.by_key.is_empty() {
            self.watching = None;
            self.changes.clear();
        }
    }

    /// Notes that the client of a stream has taken the last events. Returns whether there may be
    /// more.
    pub fn taken(&mut self, ticket: Ticket) -> bool {
        let Some(wait) = self.waits.get_mut(&ticket) else { return false };
        wait.is_sent = false;
        if wait.is_behind {
            self.behind.push_back(ticket);
        }
        wait.is_behind
    }

    /// Whether a wait must look into the history.
    pub fn is_runnable(&self) -> bool {
        !self.behind.is_empty()
    }

    /// Whether [`V2Waits::match_changes`] or [`V2Waits::take_output`] has work.
    pub fn has_unmatched(&self) -> bool {
        !self.changes.is_empty() || !self.filled.is_empty()
    }

    /// Takes new events.
    pub fn on_changes(&mut self, changes: &SharedChanges) {
        if !self.by_key.is_empty() && !changes.etcd_v2.keys().is_empty() {
            self.changes.push(changes.clone());
        }
    }

    /// Notes that another state has replaced the old one: all waits must look into its history.
    pub fn on_replaced(&mut self) {
        self.changes.clear();
        self.by_key.clear();
        self.watching = None;
        let mut going = Vec::new();
        for (ticket, wait) in &mut self.waits {
            if core::mem::replace(&mut wait.is_behind, true) {
                continue;
            }
            // The wait has had every event that concerns it, up to the last one that was matched.
            wait.next = wait.next.max(self.seen + 1);
            if !wait.is_sent {
                going.push(*ticket);
            }
        }
        going.sort_unstable();
        self.behind.extend(going);
    }

    /// Lets some waits look into the history. The caller holds the lock, and has handed over every
    /// delivery that Apply pushed earlier.
    pub fn run(&mut self, store: &Store) {
        for _ in 0..ETCD_V2_WAIT_LOOKS_MAX {
            let Some(ticket) = self.behind.pop_front() else { return };
            self.look_back(ticket, store);
        }
    }

    fn look_back(&mut self, ticket: Ticket, store: &Store) {
        let Some(wait) = self.waits.get_mut(&ticket).filter(|wait| wait.is_behind) else { return };
        let key = wait.key.clone();
        let key = Key::new(&key).expect("the key was checked");
        while wait.has_room() {
            let who = wait.user.as_deref().map_or(Who::Guest, Who::User);
            let checked = match wait.has_begun {
                true => Ok(()),
                false => store.check_read(who, key, wait.is_recursive),
            };
            let found = checked.and_then(|()| store.wait(key, wait.is_recursive, wait.next));
            let found = match found {
                Ok(found) => found,
                Err(refusal) => {
                    let over = match wait.has_begun {
                        true => V2Waited::Ended,
                        false => V2Waited::Refused(refusal),
                    };
                    // Events that the wait has collected come before its end.
                    self.send(ticket);
                    self.output.push((ticket, over));
                    self.close(ticket);
                    return;
                }
            };
            let is_first = !core::mem::replace(&mut wait.has_begun, true);
            if is_first {
                self.output.push((ticket, V2Waited::Begun { index: found.index }));
            }
            let Some(event) = found.event else {
                wait.next = found.first;
                wait.is_behind = false;
                self.by_key.entry(wait.key.clone()).or_default().insert(ticket);
                self.watching.get_or_insert_with(|| Watching::begin(&self.interest, self.front));
                break;
            };
            wait.next = event.index() + 1;
            // As in etcd, a wait sees a hidden key only if the history answers it at once.
            if is_first || !event.key().is_hidden_from(key) {
                wait.push(event);
            }
            if !wait.is_stream && !wait.events.is_empty() {
                break;
            }
        }
        if !self.waits[&ticket].events.is_empty() {
            self.filled.push(ticket);
        }
    }

    /// Gives the new events to the waits that they concern.
    pub fn match_changes(&mut self) {
        for changes in core::mem::take(&mut self.changes) {
            for change in changes.etcd_v2.keys() {
                self.match_change(change);
            }
        }
    }

    fn match_change(&mut self, change: &KeyChange) {
        self.seen = change.event.index();
        let mut concerned: Vec<Ticket> = Vec::new();
        let written = change.event.key();
        let above = core::iter::once(Key::ROOT).chain(written.steps().map(|(_, key)| key));
        for key in above {
            concerned.extend(self.by_key.get(key.text()).into_iter().flatten());
        }
        if change.removed.is_some() {
            let begin = format!("{}/", written.text());
            let from = (Bound::Included(begin.as_str()), Bound::Unbounded);
            let below = self.by_key.range::<str, _>(from);
            let below = below.take_while(|(key, _)| key.starts_with(&begin));
            concerned.extend(below.flat_map(|(_, tickets)| tickets));
        }
        for ticket in concerned {
            self.give(ticket, change);
        }
    }

    fn give(&mut self, ticket: Ticket, change: &KeyChange) {
        let Some(wait) = self.waits.get_mut(&ticket) else { return };
        let index = change.event.index();
        let key = Key::new(&wait.key).expect("the key was checked");
        if index < wait.next || !change.concerns(key, wait.is_recursive) {
            return;
        }
        if !wait.has_room() {
            (wait.is_behind, wait.next) = (true, index);
            let key = wait.key.clone();
            return self.forget_key(ticket, &key);
        }
        wait.next = index + 1;
        if wait.is_stream || wait.events.is_empty() {
            wait.push(change.event.clone());
            self.filled.push(ticket);
        }
    }

    /// Takes the steps of waits since the last call.
    pub fn take_output(&mut self) -> Vec<(Ticket, V2Waited)> {
        for ticket in core::mem::take(&mut self.filled) {
            self.send(ticket);
        }
        core::mem::take(&mut self.output)
    }

    /// Queues a wait's events for the driver, unless the client has not taken the last ones.
    fn send(&mut self, ticket: Ticket) {
        let Some(wait) = self.waits.get_mut(&ticket) else { return };
        if wait.is_sent || wait.events.is_empty() {
            return;
        }
        (wait.is_sent, wait.event_bytes) = (true, 0);
        self.output.push((ticket, V2Waited::Events(core::mem::take(&mut wait.events))));
        if !wait.is_stream {
            self.close(ticket);
        }
    }
}

#[cfg(test)]
mod tests;

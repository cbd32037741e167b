//! Serves the watch streams of etcd's clients on one Front: finds the watchers of each event, and
//! queues messages for them. A watcher is a cursor: it holds the first revision whose events it has
//! not passed on.
//!
//! ```text
//! new events:   delivery -> changes -> match_changes (groups, no lock) -> queue -> driver
//! old events:   run (under the lock) -> the store's history, from the cursor -> queue -> driver
//! ```
//!
//! A watcher is *behind* while it must read the history, because it begins in the past, its stream
//! had no room for an event, or the state was replaced. While a watcher is behind it ignores new
//! events, and later reads them from the history. So a client that reads nothing costs only its
//! cursors and one message. If the history that a cursor needs is compacted, the watch ends as
//! compacted. Sources:
//! `v3rpc/watch.go`, `mvcc/watchable_store.go` of etcd 3.6.

mod groups;
mod hits;
mod intervals;
mod message;
mod stream;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use etcd::Error;
use etcd::convert::{Header, NO_WATCH_ID};
use etcd::pb::etcdserverpb::watch_create_request::FilterType;
use etcd::pb::etcdserverpb::watch_request::RequestUnion;
use etcd::pb::etcdserverpb::{WatchCreateRequest, WatchRequest};
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use machine::change::SharedChanges;
use machine::etcd::Store;
use machine::etcd::change::KeyChange;
use machine::etcd::command::KeyRange;
use machine::etcd::event::{Event, Place};
use machine::etcd::token::Token;
use slab::Slab;

use super::credentials::{self, Credentials};
use crate::fronts::etcd::limits::{
    ETCD_WATCH_KEY_BYTES_MAX, ETCD_WATCH_QUEUES_BYTES_MAX, ETCD_WATCHERS_MAX,
};
use crate::fronts::etcd::token_times::TokenTimes;
use crate::message::{FrontId, Ticket};
use crate::watch_interest::{WatchInterest, Watching};
use groups::{Groups, WatcherNumber};
use message::{Item, Shown};
use stream::{Flags, Gather, WatchStream, Watcher};

pub use message::{WatchMessage, WatchMessages, WatchPieces};
pub use stream::WatchBounds;

/// The error text for a range that ends before it begins (`mvcc.ErrEmptyWatcherRange`).
const EMPTY_RANGE: &str = "mvcc: watcher range is empty";

/// The error text for a watch id that another watch of the stream has
/// (`mvcc.ErrWatcherDuplicateID`).
const DUPLICATE_ID: &str = "mvcc: duplicate watch ID provided on the WatchStream";

/// A hold of the lock serves a bounded number of events. The service of a stream, and of each of
/// its requests, counts as this many events.
const REQUEST_COST: usize = 8;

/// All watch streams of a Front.
pub(super) struct Watches {
    front: FrontId,
    interest: Arc<WatchInterest>,
    /// Set while there are watchers: it tells Apply that this Front wants events.
    watching: Option<Watching>,
    progress_ms: u64,
    bounds: WatchBounds,
    groups: Groups,
    queues: Queues,
    /// Deliveries whose events were not all matched yet, and how many events of the first delivery
    /// were matched.
    changes: VecDeque<SharedChanges>,
    matched_of_first: usize,
    /// Streams that asked for progress and wait until all new events are matched.
    unmatched: Vec<Ticket>,
    /// The last revision whose events were all matched with the watchers.
    matched: i64,
    /// When each stream's progress notices are due, in ms.
    progress_due: BTreeSet<(u64, Ticket)>,
    now_ms: u64,
}

/// The watchers, and the streams with their queued messages.
#[derive(Default)]
struct Queues {
    bounds: WatchBounds,
    watchers: Slab<Watcher>,
    streams: HashMap<Ticket, WatchStream, FixedState>,
    /// Bytes of the queued messages of all streams.
    bytes: usize,
    /// Streams that wait for the lock.
    ready: VecDeque<Ticket>,
    /// Streams that may have messages for the driver.
    filled: Vec<Ticket>,
    /// Streams that could not take a request, and perhaps can now.
    accepting: Vec<Ticket>,
}

impl Watches {
    pub fn new(
        front: FrontId,
        interest: Arc<WatchInterest>,
        progress_ms: u64,
        bounds: WatchBounds,
        seed: u64,
    ) -> Watches {
        Watches {
            front,
            interest,
            watching: None,
            progress_ms,
            bounds,
            groups: Groups::new(seed),
            queues: Queues { bounds, ..Queues::default() },
            changes: VecDeque::new(),
            matched_of_first: 0,
            unmatched: Vec::new(),
            matched: 0,
            progress_due: BTreeSet::new(),
            now_ms: 0,
        }
    }

    // Streams.

    pub fn open(&mut self, ticket: Ticket, requires_leader: bool, waits_for_sync: bool) {
        let stream = WatchStream::new(requires_leader, waits_for_sync, self.bounds);
        self.queues.streams.insert(ticket, stream);
    }

    /// Notes that this member has applied everything that a stream's client can know of, so the
    /// stream's requests may be served.
    pub fn on_synced(&mut self, ticket: Ticket) {
        if let Some(stream) = self.queues.streams.get_mut(&ticket)
            && core::mem::take(&mut stream.waits_for_sync)
        {
            self.queues.want_lock(ticket);
        }
    }

    /// The number of streams.
    pub fn stream_count(&self) -> usize {
        self.queues.streams.len()
    }

    /// Whether the client of a stream may send another request now.
    pub fn accepts(&self, ticket: Ticket) -> bool {
        self.queues.streams.get(&ticket).is_some_and(WatchStream::accepts)
    }

    pub fn request(&mut self, ticket: Ticket, request: WatchRequest, credentials: Credentials) {
        if let Some(stream) = self.queues.streams.get_mut(&ticket) {
            stream.requests.push_back((request, credentials));
            self.queues.want_lock(ticket);
        }
    }

    /// Ends a stream. Returns false if the ticket names no stream.
    pub fn close(&mut self, ticket: Ticket) -> bool {
        let Some(stream) = self.queues.streams.remove(&ticket) else { return false };
        self.queues.bytes -= stream.queue_bytes();
        if let Some(due_ms) = stream.progress_due_ms {
            self.progress_due.remove(&(due_ms, ticket));
        }
        for number in stream.watchers.into_values() {
            self.remove(number);
        }
        true
    }

    /// Notes that the client has taken the last messages. Returns whether there is more for it.
    pub fn taken(&mut self, ticket: Ticket) -> bool {
        let Some(stream) = self.queues.streams.get_mut(&ticket) else { return false };
        stream.is_sent = false;
        let has_messages = !stream.is_empty();
        let waits =
            !stream.behind.is_empty() || !stream.requests.is_empty() || stream.wants_progress;
        if has_messages {
            self.queues.filled.push(ticket);
        }
        if waits {
            self.queues.want_lock(ticket);
        }
        has_messages || waits
    }

    /// The streams that end if there is no leader.
    pub fn requiring_leader(&self) -> Vec<Ticket> {
        let requires = |(_, stream): &(&Ticket, &WatchStream)| stream.requires_leader;
        let mut tickets: Vec<Ticket> =
            self.queues.streams.iter().filter(requires).map(|(ticket, _)| *ticket).collect();
        tickets.sort_unstable();
        tickets
    }

    /// Takes messages for the driver, at most one batch for each stream.
    pub fn take_messages(&mut self, header: Header, out: &mut Vec<(Ticket, WatchMessages)>) {
        for ticket in core::mem::take(&mut self.queues.filled) {
            let Some(stream) = self.queues.streams.get_mut(&ticket) else { continue };
            if let Some((messages, bytes)) = stream.take(header) {
                self.queues.bytes -= bytes;
                out.push((ticket, messages));
            }
        }
    }

    /// Takes the streams that could not take a request, and perhaps can now.
    pub fn take_accepting(&mut self) -> Vec<Ticket> {
        core::mem::take(&mut self.queues.accepting)
    }

    // New events.

    /// Takes the changes of a delivery.
    pub fn on_changes(&mut self, changes: &SharedChanges) {
        if !changes.etcd.keys().is_empty() && self.watching.is_some() {
            self.changes.push_back(changes.clone());
        }
    }

    /// Whether new events are not matched yet.
    pub fn has_unmatched(&self) -> bool {
        !self.changes.is_empty()
    }

    /// Notes that another state has replaced the old one. If the new state has another history, the
    /// cursors mean nothing there, and all watches end.
    pub fn on_replaced(&mut self, is_same_history: bool) {
        self.changes.clear();
        self.matched_of_first = 0;
        let matched = self.matched;
        let Queues { watchers, streams, .. } = &mut self.queues;
        let mut tickets: Vec<Ticket> = streams.keys().copied().collect();
        tickets.sort_unstable();
        for stream in streams.values_mut() {
            stream.gather = None;
        }
        for (number, watcher) in watchers.iter_mut() {
            if !watcher.is_behind {
                watcher.is_behind = true;
                watcher.next = watcher.next.max(matched + 1);
                let stream = streams.get_mut(&watcher.stream).expect("its stream is there");
                stream.behind.push_back(number as WatcherNumber);
            }
            if !is_same_history {
                // Lower than every compacted revision, so the watch ends as compacted.
                watcher.next = i64::MIN;
            }
        }
        tickets.into_iter().for_each(|ticket| self.queues.want_lock(ticket));
    }

    /// Matches new events with the watchers of their keys, without the lock, until a bounded number
    /// of events and watchers was looked at.
    pub fn match_changes(&mut self) {
        let mut left = self.bounds.matched_events_max;
        while let Some(batch) = self.changes.front().filter(|_| left > 0).cloned() {
            let changes = &batch.etcd.keys()[self.matched_of_first..];
            let Some(first) = changes.first() else {
                self.changes.pop_front();
                self.matched_of_first = 0;
                continue;
            };
            let revision = first.event.revision();
            let is_same = |change: &&KeyChange| change.event.revision() == revision;
            let count = changes.iter().take_while(is_same).count();
            let watcher_count = self.publish(&changes[..count], revision);
            self.matched = revision;
            self.matched_of_first += count;
            left = left.saturating_sub(count + watcher_count);
        }
        if self.changes.is_empty() {
            for ticket in core::mem::take(&mut self.unmatched) {
                if self.queues.streams.contains_key(&ticket) {
                    self.queues.want_lock(ticket);
                }
            }
        }
    }

    /// Gives the events of one revision to the watchers of their keys. Returns how many watchers it
    /// looked at.
    fn publish(&mut self, changes: &[KeyChange], revision: i64) -> usize {
        let Watches { groups, queues, .. } = self;
        let mut watcher_count = 0;
        if let [change] = changes {
            let mut shown = None;
            groups.find(change.event.key(), |group| {
                let watchers = groups.watchers(group);
                watcher_count += watchers.len();
                for number in watchers {
                    let make = || Shown::new(vec![change.clone()]);
                    if queues.is_wanted(*number, revision, |flags| flags.admits(change)) {
                        queues.give(*number, revision, || shown.get_or_insert_with(make).clone());
                    }
                }
            });
            return watcher_count;
        }
        let (mut found, looks) = hits::find(changes, groups);
        watcher_count += looks;
        let mut wanting: Vec<(WatcherNumber, usize)> = Vec::new();
        for (place, hits) in found.iter().enumerate() {
            let watchers = groups.watchers(hits.group);
            watcher_count += watchers.len();
            let wants = |flags| hits.are_wanted(flags);
            let wanted = watchers.iter().filter(|it| queues.is_wanted(**it, revision, wants));
            wanting.extend(wanted.map(|number| (*number, place)));
        }
        wanting.sort_unstable();
        let mut all = None;
        for (number, place) in wanting {
            let flags = queues.watchers[number as usize].flags;
            queues.give(number, revision, || found[place].shown(flags, changes, &mut all));
        }
        watcher_count
    }

    // Under the lock.

    /// Whether a stream waits for the lock.
    pub fn is_runnable(&self) -> bool {
        !self.queues.ready.is_empty()
    }

    /// Serves the streams that wait for the lock, up to the bounds of one hold. The caller holds
    /// the lock, and has handed over every delivery that Apply pushed earlier.
    pub fn run(&mut self, store: &Store, now_ms: u64, tokens: &TokenTimes) {
        self.now_ms = now_ms;
        if self.changes.is_empty() {
            self.matched = store.revision();
        }
        let mut left = self.bounds.hold_events_max;
        while left > 0
            && let Some(ticket) = self.queues.ready.pop_front()
        {
            let Some(stream) = self.queues.streams.get_mut(&ticket) else { continue };
            stream.is_ready = false;
            self.serve(ticket, (store, tokens), &mut left);
            left = left.saturating_sub(REQUEST_COST);
        }
    }

    /// Serves a stream: its requests, then its watchers that are behind, then its request for
    /// progress.
    fn serve(&mut self, ticket: Ticket, (store, tokens): (&Store, &TokenTimes), left: &mut usize) {
        if !self.accepts(ticket) {
            self.queues.accepting.push(ticket);
        }
        while let Some(stream) = self.queues.streams.get_mut(&ticket)
            && !stream.is_full()
            && !stream.waits_for_sync
            && *left > 0
            && let Some((request, credentials)) = stream.requests.pop_front()
        {
            *left = left.saturating_sub(REQUEST_COST);
            match request.request_union {
                Some(RequestUnion::CreateRequest(request)) => {
                    let refusal = self.refusal(&request, store, &credentials, tokens);
                    match refusal {
                        Some(reason) => {
                            self.queues.push(ticket, Item::refused(store.revision(), reason));
                        }
                        None => self.create(ticket, &request, store),
                    }
                }
                Some(RequestUnion::CancelRequest(request)) => {
                    self.cancel(ticket, request.watch_id, store);
                }
                Some(RequestUnion::ProgressRequest(_)) => stream.wants_progress = true,
                None => {}
            }
        }
        while self.queues.may_read(ticket) && *left > 0 {
            self.read_history(ticket, store, left);
        }
        let stream = &self.queues.streams[&ticket];
        if self.queues.may_read(ticket) || (!stream.requests.is_empty() && !stream.is_full()) {
            if stream.waits_for_sync {
                return;
            }
            return self.queues.want_lock(ticket);
        }
        self.promise_progress(ticket);
    }

    /// The reason to refuse a watch to this client; `None` to create it. As in etcd, a revision
    /// below 0 is refused first.
    fn refusal(
        &self,
        request: &WatchCreateRequest,
        store: &Store,
        credentials: &Credentials,
        tokens: &TokenTimes,
    ) -> Option<&'static str> {
        if request.start_revision < 0 {
            return Some(Error::Compacted.text());
        }
        let is_used = |token: Token| tokens.use_now(token.made, self.now_ms);
        credentials::watch_refusal(store.auth(), credentials, range_of(request), is_used)
    }

    fn create(&mut self, ticket: Ticket, request: &WatchCreateRequest, store: &Store) {
        let revision = store.revision();
        let range = range_of(request);
        let stream = self.queues.streams.get_mut(&ticket).expect("the caller has it");
        let is_empty = !matches!(range.end, [] | [0]) && range.key >= range.end;
        let is_taken = request.watch_id != 0 && stream.watchers.contains_key(&request.watch_id);
        let key_bytes = self.groups.key_bytes() + range.key.len() + range.end.len();
        let has_no_room =
            self.queues.watchers.len() >= ETCD_WATCHERS_MAX || key_bytes > ETCD_WATCH_KEY_BYTES_MAX;
        let reason = match () {
            () if is_empty => Some(EMPTY_RANGE),
            () if is_taken => Some(DUPLICATE_ID),
            () if has_no_room => Some(Error::TooManyRequests.text()),
            () => None,
        };
        if let Some(reason) = reason {
            return self.queues.push(ticket, Item::refused(revision, reason));
        }
        let id = match request.watch_id {
            0 => {
                while stream.watchers.contains_key(&stream.next_id) {
                    stream.next_id += 1;
                }
                stream.next_id += 1;
                stream.next_id - 1
            }
            id => id,
        };
        if self.watching.is_none() {
            self.watching = Some(Watching::begin(&self.interest, self.front));
        }
        let next = if request.start_revision == 0 { revision + 1 } else { request.start_revision };
        let is_behind = next <= revision;
        let flags = flags_of(request);
        let entry = self.queues.watchers.vacant_entry();
        let number = entry.key() as WatcherNumber;
        let place = self.groups.add(range, number);
        let has_had_events = false;
        let stream = ticket;
        entry.insert(Watcher { stream, id, next, place, flags, is_behind, has_had_events });
        let stream = self.queues.streams.get_mut(&ticket).expect("the caller has it");
        stream.watchers.insert(id, number);
        if is_behind {
            stream.behind.push_back(number);
        }
        if flags.progress_notify && stream.progress_due_ms.is_none() {
            self.set_progress_due(ticket, self.now_ms);
        }
        self.queues.push(ticket, Item::created(id, revision));
    }

    fn cancel(&mut self, ticket: Ticket, id: i64, store: &Store) {
        let stream = self.queues.streams.get_mut(&ticket).expect("the caller has it");
        let Some(number) = stream.watchers.remove(&id) else { return };
        stream.behind.retain(|behind| *behind != number);
        stream.gather.take_if(|gather| gather.watcher == number);
        self.remove(number);
        self.queues.push(ticket, Item::cancelled(id, store.revision()));
    }

    /// Removes a watcher from the groups. Its stream no longer has it.
    fn remove(&mut self, number: WatcherNumber) {
        let watcher = self.queues.watchers.remove(number as usize);
        if let Some(moved) = self.groups.remove(watcher.place) {
            self.queues.watchers[moved as usize].place = watcher.place;
        }
        if self.queues.watchers.is_empty() {
            self.watching = None;
            self.changes.clear();
            self.matched_of_first = 0;
        }
    }

    /// Reads some history for the first watcher of a stream that is behind.
    fn read_history(&mut self, ticket: Ticket, store: &Store, events_left: &mut usize) {
        let stream = self.queues.streams.get_mut(&ticket).expect("the caller has it");
        let Some(number) = stream.behind.front().copied() else { return };
        let watcher = &self.queues.watchers[number as usize];
        let mut gather = stream.gather.take().unwrap_or_else(|| {
            let place = Place { revision: watcher.next.saturating_sub(1), sub: u32::MAX };
            let (changes, bytes, revisions, bounds) = (Vec::new(), 0, 0, self.bounds);
            Box::new(Gather { watcher: number, place, changes, bytes, revisions, bounds })
        });
        if first_needed(gather.place) < store.compacted() {
            return self.end_as_compacted(ticket, number, store.compacted());
        }
        let range = self.groups.range(watcher.place);
        match gather.read(range, watcher.flags, store, events_left) {
            Read::Paused => {
                stream.gather = Some(gather);
                return;
            }
            Read::All => {
                stream.behind.pop_front();
                let watcher = &mut self.queues.watchers[number as usize];
                watcher.is_behind = false;
                // A watcher may begin at a revision that does not exist yet.
                watcher.next = watcher.next.max(store.revision() + 1);
            }
            Read::Some => {
                // The watchers of a stream take turns.
                stream.behind.rotate_left(1);
                self.queues.watchers[number as usize].next = gather.place.revision + 1;
            }
        }
        if !gather.changes.is_empty() {
            self.queues.push_events(number, store.revision(), &Shown::new(gather.changes));
        }
    }

    fn end_as_compacted(&mut self, ticket: Ticket, number: WatcherNumber, compacted: i64) {
        // After a replacement of the state, the compacted revision may be 0. Clients take 0 as no
        // end, so send 1.
        let compacted = compacted.max(1);
        let id = self.queues.watchers[number as usize].id;
        let stream = self.queues.streams.get_mut(&ticket).expect("the caller has it");
        stream.watchers.remove(&id);
        stream.behind.pop_front();
        self.remove(number);
        self.queues.push(ticket, Item::compacted(id, compacted));
    }

    // Progress.

    /// Sends progress to a client that asked for it, once all its watchers have had all events of
    /// the present revision. As in etcd, a stream without watchers gets no answer.
    fn promise_progress(&mut self, ticket: Ticket) {
        let stream = self.queues.streams.get_mut(&ticket).expect("the caller has it");
        if !stream.wants_progress || !stream.behind.is_empty() {
            return;
        }
        if !self.changes.is_empty() {
            return self.unmatched.push(ticket);
        }
        stream.wants_progress = false;
        // As in etcd, a stream with a watch that begins in the future gets no answer.
        let begins_later =
            |number: &WatcherNumber| self.queues.watchers[*number as usize].next > self.matched + 1;
        if stream.watchers.is_empty() || stream.watchers.values().any(begins_later) {
            return;
        }
        self.queues.push(ticket, Item::progress(NO_WATCH_ID, self.matched));
    }

    /// Sends progress notices to watchers that asked for them and had no events for long.
    pub fn on_tick(&mut self, now_ms: u64) {
        while let Some((due_ms, ticket)) = self.progress_due.first().copied()
            && due_ms <= now_ms
        {
            self.progress_due.pop_first();
            self.notify_progress(ticket);
            self.set_progress_due(ticket, now_ms);
        }
    }

    fn set_progress_due(&mut self, ticket: Ticket, now_ms: u64) {
        let spread = ticket.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let due_ms = now_ms + self.progress_ms + spread % self.progress_ms.div_ceil(10);
        if let Some(stream) = self.queues.streams.get_mut(&ticket) {
            stream.progress_due_ms = Some(due_ms);
            self.progress_due.insert((due_ms, ticket));
        }
    }

    fn notify_progress(&mut self, ticket: Ticket) {
        let Some(stream) = self.queues.streams.get(&ticket) else { return };
        let mut numbers: Vec<WatcherNumber> = stream.watchers.values().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            let watcher = &mut self.queues.watchers[number as usize];
            let had_events = core::mem::take(&mut watcher.has_had_events);
            let is_told = watcher.flags.progress_notify
                && !had_events
                && !watcher.is_behind
                && watcher.next <= self.matched + 1
                && self.changes.is_empty();
            let id = watcher.id;
            if is_told && !self.queues.streams[&ticket].is_full() {
                self.queues.push(ticket, Item::progress(id, self.matched));
            }
        }
    }
}

impl Queues {
    /// Whether a watcher takes the events of this revision now: it is not behind, has not had them,
    /// and wants some of them.
    fn is_wanted(
        &self,
        number: WatcherNumber,
        revision: i64,
        wants: impl FnOnce(Flags) -> bool,
    ) -> bool {
        let watcher = &self.watchers[number as usize];
        !watcher.is_behind && revision >= watcher.next && wants(watcher.flags)
    }

    /// Gives a watcher the events of a new revision. If its stream has no room for them, the
    /// watcher falls behind.
    fn give(&mut self, number: WatcherNumber, revision: i64, shown: impl FnOnce() -> Arc<Shown>) {
        let Queues { watchers, streams, bytes, .. } = self;
        let watcher = &mut watchers[number as usize];
        let ticket = watcher.stream;
        let stream = streams.get_mut(&ticket).expect("its stream is there");
        if !stream.is_full() && (stream.is_empty() || *bytes < ETCD_WATCH_QUEUES_BYTES_MAX) {
            watcher.next = revision + 1;
            return self.push_events(number, revision, &shown());
        }
        watcher.next = revision;
        watcher.is_behind = true;
        stream.behind.push_back(number);
        // A full stream goes on when its client takes messages.
    }

    fn push_events(&mut self, number: WatcherNumber, revision: i64, shown: &Arc<Shown>) {
        let watcher = &mut self.watchers[number as usize];
        watcher.has_had_events = true;
        let (ticket, flags) = (watcher.stream, watcher.flags);
        let item = Item::events(watcher.id, revision, shown.clone(), flags.prev_kv);
        if !flags.fragment {
            return self.push(ticket, item);
        }
        for part in item.fragments(self.bounds.message_bytes) {
            self.push(ticket, part);
        }
    }

    fn push(&mut self, ticket: Ticket, item: Item) {
        let stream = self.streams.get_mut(&ticket).expect("its stream is there");
        self.bytes += stream.push(item);
        if !stream.is_sent {
            self.filled.push(ticket);
        }
    }

    /// Whether history may be read for a stream: one of its watchers is behind, and the queues have
    /// room.
    fn may_read(&self, ticket: Ticket) -> bool {
        let stream = &self.streams[&ticket];
        let has_room =
            stream.is_empty() || (!stream.is_full() && self.bytes < ETCD_WATCH_QUEUES_BYTES_MAX);
        !stream.behind.is_empty() && has_room
    }

    fn want_lock(&mut self, ticket: Ticket) {
        let stream = self.streams.get_mut(&ticket).expect("the caller has it");
        if !core::mem::replace(&mut stream.is_ready, true) {
            self.ready.push_back(ticket);
        }
    }
}

/// How a read of the history ended.
enum Read {
    /// The bounds of the hold were reached, perhaps within a revision.
    Paused,
    /// There are enough events for a message, and more to read.
    Some,
    /// The watcher has had everything up to the present revision.
    All,
}

impl Gather {
    /// Reads further events of the range into this gather.
    fn read(
        &mut self,
        range: KeyRange<'_>,
        flags: Flags,
        store: &Store,
        events_left: &mut usize,
    ) -> Read {
        let from = first_needed(self.place);
        if range.end.is_empty() && from > store.compacted() {
            let place = self.place;
            let events = store.events_of(range.key, from - 1);
            return self.take(
                events.filter(|it| it.place() > place),
                range,
                flags,
                store,
                events_left,
            );
        }
        self.take(store.events_behind(self.place), range, flags, store, events_left)
    }

    fn take<'s>(
        &mut self,
        events: impl Iterator<Item = &'s Event>,
        range: KeyRange<'_>,
        flags: Flags,
        store: &'s Store,
        events_left: &mut usize,
    ) -> Read {
        for event in events {
            let place = event.place();
            let is_new_revision = place.revision > self.place.revision;
            let WatchBounds { batch_bytes, revisions_max, .. } = self.bounds;
            let has_enough = self.bytes >= batch_bytes || self.revisions >= revisions_max;
            if is_new_revision && has_enough {
                return Read::Some;
            }
            if *events_left == 0 {
                if is_new_revision {
                    self.place.sub = u32::MAX;
                }
                return Read::Paused;
            }
            *events_left -= 1;
            self.place = place;
            let change = KeyChange { event: event.clone(), before: None };
            if range.contains(event.key()) && flags.admits(&change) {
                self.keep(change, flags, store);
            }
        }
        Read::All
    }

    fn keep(&mut self, mut change: KeyChange, flags: Flags, store: &Store) {
        if flags.prev_kv {
            change.before = store.before(&change.event).cloned();
        }
        let last = self.changes.last().map(|last| last.event.revision());
        self.revisions += usize::from(last != Some(change.event.revision()));
        self.bytes += change.event.key().len() + change.event.value().len();
        self.changes.push(change);
    }
}

/// The first revision behind `place` that may have events which were not looked at.
fn first_needed(place: Place) -> i64 {
    if place.sub == u32::MAX { place.revision.saturating_add(1) } else { place.revision }
}

/// The keys that a request asks to watch. Without a key, the range begins with the smallest key.
fn range_of(request: &WatchCreateRequest) -> KeyRange<'_> {
    let key = if request.key.is_empty() { &[0][..] } else { &request.key };
    KeyRange { key, end: &request.range_end }
}

fn flags_of(request: &WatchCreateRequest) -> Flags {
    let has = |filter: FilterType| request.filters.contains(&(filter as i32));
    Flags {
        no_put: has(FilterType::Noput),
        no_delete: has(FilterType::Nodelete),
        prev_kv: request.prev_kv,
        fragment: request.fragment,
        progress_notify: request.progress_notify,
    }
}

#[cfg(test)]
mod tests;

//! One watch stream: the requests that are not done, its watchers, and the messages that wait.

use std::collections::VecDeque;

use etcd::convert::Header;
use etcd::pb::etcdserverpb::WatchRequest;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use machine::etcd::change::KeyChange;
use machine::etcd::event::Place;

use super::super::credentials::Credentials;
use super::groups::{GroupPlace, WatcherNumber};
use super::message::{Item, WatchMessages};
use crate::fronts::etcd::limits::{
    ETCD_WATCH_BATCH_BYTES, ETCD_WATCH_HOLD_EVENTS_MAX, ETCD_WATCH_MATCHED_EVENTS_MAX,
    ETCD_WATCH_MESSAGE_BYTES, ETCD_WATCH_REQUESTS_MAX, ETCD_WATCH_REVISIONS_MAX,
};
use crate::message::Ticket;

/// The bounds of watch streams that a simulation makes small, so that it reaches them.
#[derive(Clone, Copy, Debug)]
pub struct WatchBounds {
    /// [`ETCD_WATCH_BATCH_BYTES`].
    pub batch_bytes: usize,
    /// [`ETCD_WATCH_MESSAGE_BYTES`].
    pub message_bytes: usize,
    /// [`ETCD_WATCH_REQUESTS_MAX`].
    pub requests_max: usize,
    /// [`ETCD_WATCH_REVISIONS_MAX`].
    pub revisions_max: usize,
    /// [`ETCD_WATCH_HOLD_EVENTS_MAX`].
    pub hold_events_max: usize,
    /// [`ETCD_WATCH_MATCHED_EVENTS_MAX`].
    pub matched_events_max: usize,
}

impl Default for WatchBounds {
    fn default() -> WatchBounds {
        WatchBounds {
            batch_bytes: ETCD_WATCH_BATCH_BYTES,
            message_bytes: ETCD_WATCH_MESSAGE_BYTES,
            requests_max: ETCD_WATCH_REQUESTS_MAX,
            revisions_max: ETCD_WATCH_REVISIONS_MAX,
            hold_events_max: ETCD_WATCH_HOLD_EVENTS_MAX,
            matched_events_max: ETCD_WATCH_MATCHED_EVENTS_MAX,
        }
    }
}

/// One watcher: a cursor.
pub(super) struct Watcher {
    pub stream: Ticket,
    pub id: i64,
    /// The first revision whose events it was not given.
    pub next: i64,
    pub place: GroupPlace,
    pub flags: Flags,
    /// Whether it must be given events from the history before new ones.
    pub is_behind: bool,
    /// Whether it was given events since the last time that progress was due.
    pub has_had_events: bool,
}

/// What its request asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    pub no_put: bool,
    pub no_delete: bool,
    pub prev_kv: bool,
    pub fragment: bool,
    pub progress_notify: bool,
}

impl Flags {
    /// Whether the watcher wants an event of its keys.
    pub fn admits(self, change: &KeyChange) -> bool {
        if change.event.is_delete() { !self.no_delete } else { !self.no_put }
    }
}

/// A read of the history for one watcher that is under way.
pub(super) struct Gather {
    pub watcher: WatcherNumber,
    /// The last event that was looked at.
    pub place: Place,
    pub changes: Vec<KeyChange>,
    pub bytes: usize,
    pub revisions: usize,
    pub bounds: WatchBounds,
}

/// One stream.
#[derive(Default)]
pub(super) struct WatchStream {
    /// The requests that are not done, with what the client said of itself then.
    pub requests: VecDeque<(WatchRequest, Credentials)>,
    pub watchers: HashMap<i64, WatcherNumber, FixedState>,
    /// The number that is tried first for a watcher without one.
    pub next_id: i64,
    queue: VecDeque<Item>,
    queue_bytes: usize,
    /// Watchers that are behind, in the order in which they are served.
    pub behind: VecDeque<WatcherNumber>,
    /// The read for the first of them.
    pub gather: Option<Box<Gather>>,
    /// Whether the driver has messages that the client has not taken.
    pub is_sent: bool,
    /// Whether it stands in the list of streams that wait for the lock.
    pub is_ready: bool,
    /// Whether the client waits for a promise of progress of all its watches.
    pub wants_progress: bool,
    /// When progress is due for watchers that asked for it, in ms.
    pub progress_due_ms: Option<u64>,
    pub requires_leader: bool,
    /// Whether its requests wait until this member has applied what its client can know of.
    pub waits_for_sync: bool,
    bounds: WatchBounds,
}

impl WatchStream {
    pub fn new(requires_leader: bool, waits_for_sync: bool, bounds: WatchBounds) -> WatchStream {
        WatchStream { requires_leader, waits_for_sync, bounds, ..WatchStream::default() }
    }

    /// Whether the client may send another request.
    pub fn accepts(&self) -> bool {
        self.requests.len() < self.bounds.requests_max && !self.is_full()
    }

    /// Whether no more messages may wait.
    pub fn is_full(&self) -> bool {
        self.queue_bytes >= self.bounds.batch_bytes
    }

    /// Whether no message waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes that the waiting messages count for.
    pub fn queue_bytes(&self) -> usize {
        self.queue_bytes
    }

    /// Adds a message. Returns the bytes that it counts for.
    pub fn push(&mut self, item: Item) -> usize {
        let cost = item.cost();
        self.queue_bytes += cost;
        self.queue.push_back(item);
        cost
    }

    /// Takes the next messages, unless the client has not taken those before. Returns also the
    /// bytes that they counted for.
    pub fn take(&mut self, header: Header) -> Option<(WatchMessages, usize)> {
        if self.is_sent || self.queue.is_empty() {
            return None;
        }
        let (mut items, mut bytes) = (Vec::new(), 0);
        while let Some(item) = self.queue.front()
            && (items.is_empty() || bytes + item.cost() <= self.bounds.batch_bytes)
        {
            bytes += item.cost();
            items.extend(self.queue.pop_front());
        }
        self.queue_bytes -= bytes;
        self.is_sent = true;
        Some((WatchMessages { header, items }, bytes))
    }
}

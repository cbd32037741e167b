//! Holds the state of one watch stream: its pending requests, its watchers, and its queued
//! messages.

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

/// The bounds of watch streams. They are configurable so that a simulation can make them small.
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

/// One watcher: a cursor in the history of its keys.
pub(super) struct Watcher {
    pub stream: Ticket,
    pub id: i64,
    /// The first revision whose events the watcher has not passed on.
    pub next: i64,
    pub place: GroupPlace,
    pub flags: Flags,
    /// Whether the watcher must read events from the history, and ignores new events meanwhile.
    pub is_behind: bool,
    /// Whether the watcher was given events since progress notices were last due.
    pub has_had_events: bool,
}

/// The options in the request that created a watcher.
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

/// A read of the history for one watcher, over several holds of the lock.
pub(super) struct Gather {
    pub watcher: WatcherNumber,
    /// The place of the last event that was looked at.
    pub place: Place,
    pub changes: Vec<KeyChange>,
    pub bytes: usize,
    pub revisions: usize,
    pub bounds: WatchBounds,
}

/// One watch stream.
#[derive(Default)]
pub(super) struct WatchStream {
    /// The pending requests, each with the credentials that the client had when it sent the
    /// request.
    pub requests: VecDeque<(WatchRequest, Credentials)>,
    pub watchers: HashMap<i64, WatcherNumber, FixedState>,
    /// The watch id that is tried first for a watcher whose client gives none.
    pub next_id: i64,
    queue: VecDeque<Item>,
    queue_bytes: usize,
    /// The watchers that are behind, in the order in which they read the history.
    pub behind: VecDeque<WatcherNumber>,
    /// The read of the history for the first watcher in `behind`.
    pub gather: Option<Box<Gather>>,
    /// Whether the driver has messages that the client has not taken.
    pub is_sent: bool,
    /// Whether the stream is in the list of streams that wait for the lock.
    pub is_ready: bool,
    /// Whether the client has asked for progress of all its watches and waits for it.
    pub wants_progress: bool,
    /// When progress notices are due for watchers that asked for them, in ms.
    pub progress_due_ms: Option<u64>,
    pub requires_leader: bool,
    /// Whether requests wait until this member has applied everything that the client can know of.
    pub waits_for_sync: bool,
    bounds: WatchBounds,
}

impl WatchStream {
    pub fn new(requires_leader: bool, waits_for_sync: bool, bounds: WatchBounds) -> WatchStream {
        WatchStream { requires_leader, waits_for_sync, bounds, ..WatchStream::default() }
    }

    /// Whether the client may send another request now.
    pub fn accepts(&self) -> bool {
        self.requests.len() < self.bounds.requests_max && !self.is_full()
    }

    /// Whether the queue has no room for another message.
    pub fn is_full(&self) -> bool {
        self.queue_bytes >= self.bounds.batch_bytes
    }

    /// Whether no message is queued.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes that the queued messages count for.
    pub fn queue_bytes(&self) -> usize {
        self.queue_bytes
    }

    /// Queues a message. Returns the bytes that it counts for.
    pub fn push(&mut self, item: Item) -> usize {
        let cost = item.cost();
        self.queue_bytes += cost;
        self.queue.push_back(item);
        cost
    }

    /// Takes the next batch of messages, with the bytes that they counted for. `None` if there are
    /// no messages, or the client has not taken the last batch.
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

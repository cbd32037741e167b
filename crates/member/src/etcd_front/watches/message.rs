//! Messages to the clients of watch streams, not encoded yet. They share the events that they show.

use std::sync::{Arc, OnceLock};

use etcd::convert::{Header, NO_WATCH_ID, WatchHead, watch_event_bytes, write_watch_event};
use machine::etcd::change::KeyChange;

use crate::limits::ETCD_WATCH_SHARED_BYTES_MAX;

/// Bytes that a message counts for beside its events, while it waits.
const MESSAGE_COST_BYTES: usize = 160;

/// Events that a response shows; one copy for all watchers that get the same.
#[derive(Debug)]
pub(super) struct Shown {
    changes: Vec<KeyChange>,
    /// The encoded events, without and with the versions before them, if several responses share
    /// them.
    encoded: [OnceLock<Box<[u8]>>; 2],
    /// The lengths of both.
    bytes: [usize; 2],
}

impl Shown {
    pub fn new(changes: Vec<KeyChange>) -> Arc<Shown> {
        let bytes = [false, true].map(|with_before| {
            changes.iter().map(|change| watch_event_bytes(change, with_before)).sum()
        });
        Arc::new(Shown { changes, encoded: Default::default(), bytes })
    }

    fn encode(&self, with_before: bool, out: &mut Vec<u8>) {
        for change in &self.changes {
            write_watch_event(change, with_before, out);
        }
    }

    fn write(self: &Arc<Shown>, with_before: bool, out: &mut Vec<u8>) {
        let encoded = &self.encoded[usize::from(with_before)];
        let bytes = self.bytes[usize::from(with_before)];
        let is_shared = Arc::strong_count(self) > 2 && bytes <= ETCD_WATCH_SHARED_BYTES_MAX;
        if !is_shared && encoded.get().is_none() {
            return self.encode(with_before, out);
        }
        out.extend_from_slice(encoded.get_or_init(|| {
            let mut copy = Vec::with_capacity(bytes);
            self.encode(with_before, &mut copy);
            copy.into()
        }));
    }
}

/// One message.
#[derive(Debug)]
pub(super) struct Item {
    head: WatchHead,
    /// The events, and whether the versions before them are shown.
    events: Option<(Arc<Shown>, bool)>,
}

impl Item {
    /// The answer to the creation of a watch.
    pub fn created(watch_id: i64, revision: i64) -> Item {
        Item::of(WatchHead { revision, watch_id, created: true, ..WatchHead::default() })
    }

    /// The answer to a request to create that is refused.
    pub fn refused(revision: i64, cancel_reason: &'static str) -> Item {
        let watch_id = NO_WATCH_ID;
        let (created, canceled) = (true, true);
        let head = WatchHead { revision, watch_id, created, canceled, ..WatchHead::default() };
        Item::of(WatchHead { cancel_reason, ..head })
    }

    /// The answer to the request to end a watch.
    pub fn cancelled(watch_id: i64, revision: i64) -> Item {
        Item::of(WatchHead { revision, watch_id, canceled: true, ..WatchHead::default() })
    }

    /// The end of a watch that needs history which is compacted. Its header has no revision, as in
    /// etcd.
    pub fn compacted(watch_id: i64, compact_revision: i64) -> Item {
        let canceled = true;
        Item::of(WatchHead { watch_id, canceled, compact_revision, ..WatchHead::default() })
    }

    /// The promise that all events up to the revision were sent: to one watch, or, with
    /// [`NO_WATCH_ID`], to all of the stream.
    pub fn progress(watch_id: i64, revision: i64) -> Item {
        Item::of(WatchHead { revision, watch_id, ..WatchHead::default() })
    }

    /// Events of a watch.
    pub fn events(watch_id: i64, revision: i64, shown: Arc<Shown>, with_before: bool) -> Item {
        let head = WatchHead { revision, watch_id, ..WatchHead::default() };
        Item { head, events: Some((shown, with_before)) }
    }

    /// Splits the message into messages of at most `bytes_max` bytes. One event is never split.
    pub fn fragments(self, bytes_max: usize) -> Vec<Item> {
        let Some((shown, with_before)) = &self.events else { return vec![self] };
        let whole_bytes =
            self.head.bytes(Header::default(), shown.bytes[usize::from(*with_before)]);
        if whole_bytes < bytes_max || shown.changes.len() < 2 {
            return vec![self];
        }
        let head_bytes = self.head.bytes(Header::default(), 0);
        let mut parts = vec![Vec::new()];
        let mut bytes = head_bytes;
        for change in &shown.changes {
            let event_bytes = watch_event_bytes(change, *with_before);
            let part = parts.last_mut().expect("there is one");
            if !part.is_empty() && bytes + event_bytes >= bytes_max {
                parts.push(vec![change.clone()]);
                bytes = head_bytes + event_bytes;
            } else {
                part.push(change.clone());
                bytes += event_bytes;
            }
        }
        let last = parts.len() - 1;
        let part = |(number, changes)| Item {
            head: WatchHead { fragment: number < last, ..self.head },
            events: Some((Shown::new(changes), *with_before)),
        };
        parts.into_iter().enumerate().map(part).collect()
    }

    fn of(head: WatchHead) -> Item {
        Item { head, events: None }
    }

    fn events_bytes(&self) -> usize {
        self.events.as_ref().map_or(0, |(shown, with)| shown.bytes[usize::from(*with)])
    }

    /// Bytes that it counts for while it waits.
    pub fn cost(&self) -> usize {
        MESSAGE_COST_BYTES + self.events_bytes()
    }
}

/// Messages for one stream, to be sent in this order.
#[derive(Debug)]
pub struct WatchMessages {
    pub(super) header: Header,
    pub(super) items: Vec<Item>,
}

/// One of them: a `WatchResponse`.
pub struct WatchMessage<'a> {
    header: Header,
    item: &'a Item,
}

impl WatchMessages {
    /// The messages in their order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = WatchMessage<'_>> {
        self.items.iter().map(|item| WatchMessage { header: self.header, item })
    }
}

impl WatchMessage<'_> {
    /// Bytes of the message.
    pub fn bytes(&self) -> usize {
        self.item.head.bytes(self.header, self.item.events_bytes())
    }

    /// Appends the message.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.item.head.write(self.header, out);
        if let Some((shown, with_before)) = &self.item.events {
            shown.write(*with_before, out);
        }
    }
}

//! Builds the messages to the clients of watch streams, and encodes them when they are sent.
//! Messages to many watchers share their events.

use std::sync::{Arc, OnceLock};

use etcd::Error;
use etcd::convert::{Header, NO_WATCH_ID, WatchHead, watch_event_bytes, write_watch_event};
use machine::etcd::change::KeyChange;

use crate::fronts::etcd::limits::{
    ETCD_ENCODED_BYTES, ETCD_ENCODED_ITEMS_MAX, ETCD_WATCH_BATCH_BYTES, ETCD_WATCH_SHARED_BYTES_MAX,
};

/// Bytes that a queued message counts for in addition to its events.
const MESSAGE_COST_BYTES: usize = 160;

/// The events of a message, shared by all watchers that get the same events.
#[derive(Debug)]
pub(super) struct Shown {
    changes: Vec<KeyChange>,
    /// The encoded events, without and with the previous versions of the keys. Set only if several
    /// messages share them.
    encoded: [OnceLock<Box<[u8]>>; 2],
    /// The size of the encoded events in bytes, without and with previous versions.
    bytes: [usize; 2],
}

impl Shown {
    pub fn new(changes: Vec<KeyChange>) -> Arc<Shown> {
        let bytes = [false, true].map(|with_before| {
            changes.iter().map(|change| watch_event_bytes(change, with_before)).sum()
        });
        Arc::new(Shown { changes, encoded: Default::default(), bytes })
    }

    #[cfg(test)]
    pub fn changes(&self) -> &[KeyChange] {
        &self.changes
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

/// One message of a watch stream.
#[derive(Debug)]
pub(super) struct Item {
    head: WatchHead,
    /// The events, and whether the message shows the previous versions of their keys.
    events: Option<(Arc<Shown>, bool)>,
}

impl Item {
    /// The response to the creation of a watch.
    pub fn created(watch_id: i64, revision: i64) -> Item {
        Item::of(WatchHead { revision, watch_id, created: true, ..WatchHead::default() })
    }

    /// The response to a request to create a watch that is refused.
    pub fn refused(revision: i64, cancel_reason: &'static str) -> Item {
        let watch_id = NO_WATCH_ID;
        let (created, canceled) = (true, true);
        let head = WatchHead { revision, watch_id, created, canceled, ..WatchHead::default() };
        Item::of(WatchHead { cancel_reason, ..head })
    }

    /// The response to a request to end a watch.
    pub fn cancelled(watch_id: i64, revision: i64) -> Item {
        Item::of(WatchHead { revision, watch_id, canceled: true, ..WatchHead::default() })
    }

    /// The end of a watch whose cursor needs compacted history. As in etcd, its header has no
    /// revision.
    pub fn compacted(watch_id: i64, compact_revision: i64) -> Item {
        let canceled = true;
        Item::of(WatchHead { watch_id, canceled, compact_revision, ..WatchHead::default() })
    }

    /// A progress notice: all events up to the revision were sent, to one watch or, with
    /// [`NO_WATCH_ID`], to all watches of the stream.
    pub fn progress(watch_id: i64, revision: i64) -> Item {
        Item::of(WatchHead { revision, watch_id, ..WatchHead::default() })
    }

    /// A message with events for a watch.
    pub fn events(watch_id: i64, revision: i64, shown: Arc<Shown>, with_before: bool) -> Item {
        let head = WatchHead { revision, watch_id, ..WatchHead::default() };
        Item { head, events: Some((shown, with_before)) }
    }

    /// Splits the message into messages of at most `bytes_max` bytes. A single event is never
    /// split.
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

    /// Bytes that the message counts for while it is queued.
    pub fn cost(&self) -> usize {
        MESSAGE_COST_BYTES + self.events_bytes()
    }
}

/// A batch of messages for one stream, in the order to send them.
#[derive(Debug)]
pub struct WatchMessages {
    pub(super) header: Header,
    pub(super) items: Vec<Item>,
}

/// One message of a batch: a `WatchResponse`.
pub struct WatchMessage<'a> {
    header: Header,
    item: &'a Item,
}

impl WatchMessages {
    /// The messages, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = WatchMessage<'_>> {
        self.items.iter().map(|item| WatchMessage { header: self.header, item })
    }

    /// Turns a batch that is one large message into pieces. A large message is always a batch of
    /// its own.
    ///
    /// # Errors
    /// The messages are small; the error returns them.
    pub fn into_pieces(mut self) -> Result<WatchPieces, WatchMessages> {
        match &mut self.items[..] {
            [only] if only.cost() > ETCD_WATCH_BATCH_BYTES => {}
            _ => return Err(self),
        }
        let header = self.header;
        let only = self.items.pop();
        only.map(|item| WatchPieces { header, item, is_begun: false, written: 0 }).ok_or(self)
    }
}

/// A large message that is written in pieces.
#[derive(Debug)]
pub struct WatchPieces {
    header: Header,
    item: Item,
    is_begun: bool,
    /// How many events were written.
    written: usize,
}

impl WatchPieces {
    /// The size of the encoded message in bytes.
    pub fn bytes(&self) -> usize {
        WatchMessage { header: self.header, item: &self.item }.bytes()
    }

    /// Appends the next piece. Returns whether more follows.
    pub fn write(&mut self, out: &mut Vec<u8>) -> bool {
        if !core::mem::replace(&mut self.is_begun, true) {
            self.item.head.write(self.header, out);
        }
        let Some((shown, with_before)) = &self.item.events else { return false };
        let (start, end) = (self.written, out.len().saturating_add(ETCD_ENCODED_BYTES));
        let piece = shown.changes.get(start..).unwrap_or_default();
        for change in piece.iter().take(ETCD_ENCODED_ITEMS_MAX) {
            if out.len() >= end {
                break;
            }
            write_watch_event(change, *with_before, out);
            self.written += 1;
        }
        self.written < shown.changes.len()
    }
}

impl WatchMessage<'_> {
    /// The reason why the watch has ended, for its client; `None` if this message is no end.
    pub(in crate::fronts::etcd) fn end(&self) -> Option<&'static str> {
        let reason = match self.item.head.cancel_reason {
            "" => Error::Compacted.text(),
            reason => reason,
        };
        self.item.head.canceled.then_some(reason)
    }

    /// Whether one of the message's events is a removal.
    pub(in crate::fronts::etcd) fn shows_removal(&self) -> bool {
        let mut shown = self.item.events.iter().flat_map(|(shown, _)| &shown.changes);
        shown.any(|change| change.event.is_delete())
    }

    /// The size of the encoded message in bytes.
    pub fn bytes(&self) -> usize {
        self.item.head.bytes(self.header, self.item.events_bytes())
    }

    /// Appends the encoded message.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.item.head.write(self.header, out);
        if let Some((shown, with_before)) = &self.item.events {
            shown.write(*with_before, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use machine::etcd::event::{Event, Place, Version};

    use super::*;

    const HEADER: Header = Header { cluster_id: 5, member_id: 6, raft_term: 7 };

    fn change(number: usize, value_bytes: usize) -> KeyChange {
        let numbers = Version { create_revision: 9, version: 1, lease: 0 };
        let place = Place { revision: 9, sub: number as u32 };
        let key = format!("key{number}");
        let event = Event::put(place, key.as_bytes(), numbers, &vec![7; value_bytes]);
        KeyChange { before: Some(event.clone()), event }
    }

    fn messages(changes: Vec<KeyChange>, with_before: bool) -> WatchMessages {
        let item = Item::events(3, 9, Shown::new(changes), with_before);
        WatchMessages { header: HEADER, items: vec![item] }
    }

    #[test]
    fn pieces_are_the_bytes_of_a_large_message() {
        let large = [(10_000, 1), (5, 30_000), (1, 100_000)];
        for ((count, value_bytes), with_before) in
            large.into_iter().flat_map(|large| [(large, false), (large, true)])
        {
            let changes: Vec<KeyChange> = (0..count).map(|it| change(it, value_bytes)).collect();
            let messages = messages(changes, with_before);
            let mut expected = Vec::new();
            messages.iter().for_each(|message| message.write(&mut expected));
            let mut pieces = messages.into_pieces().unwrap();
            assert_eq!(pieces.bytes(), expected.len());
            let (mut out, mut goes_on) = (Vec::new(), true);
            while goes_on {
                let start = out.len();
                goes_on = pieces.write(&mut out);
                let largest = 2 * value_bytes + 100;
                assert!(out.len() - start <= ETCD_ENCODED_BYTES + largest);
            }
            assert!(out == expected);
        }
    }

    #[test]
    fn small_messages_are_not_in_pieces() {
        assert!(messages(vec![change(1, 10)], true).into_pieces().is_err());
        let head_alone = WatchMessages { header: HEADER, items: vec![Item::created(1, 2)] };
        assert!(head_alone.into_pieces().is_err());
    }
}

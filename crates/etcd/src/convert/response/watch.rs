//! Encodes `WatchResponse`, the message that a server sends on a stream of watches.

use bytes::BufMut;
use machine::etcd::change::KeyChange;

use super::{
    HEADER, Header, blob_bytes, header_bytes, kv_bytes, message_bytes, number_bytes, start_message,
    write_blob, write_header, write_kv, write_number,
};

// Fields of `WatchResponse`.
const WATCH_ID: u32 = 2;
const CREATED: u32 = 3;
const CANCELED: u32 = 4;
const COMPACT_REVISION: u32 = 5;
const CANCEL_REASON: u32 = 6;
const FRAGMENT: u32 = 7;
const EVENTS: u32 = 11;
// Fields of `mvccpb.Event`.
const TYPE: u32 = 1;
const KV: u32 = 2;
const PREV_KV: u32 = 3;

const TYPE_DELETE: u64 = 1;

/// The `watch_id` of a message that concerns no single watch (`clientv3.InvalidWatchID`).
pub const NO_WATCH_ID: i64 = -1;

/// The fields of a `WatchResponse` except its events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchHead {
    /// The revision in the header.
    pub revision: i64,
    /// The id of the watch, or [`NO_WATCH_ID`].
    pub watch_id: i64,
    /// Whether the message answers the request to create the watch.
    pub created: bool,
    /// Whether the watch has ended.
    pub canceled: bool,
    /// If the watch ended because a compaction has removed a revision that it needs: the compacted
    /// revision. Else 0.
    pub compact_revision: i64,
    /// Why the watch ended or was not created; empty otherwise.
    pub cancel_reason: &'static str,
    /// Whether this response is split and the next message of the watch continues it.
    pub fragment: bool,
}

impl WatchHead {
    /// Bytes of the whole message, if its events take `events_bytes`.
    pub fn bytes(&self, header: Header, events_bytes: usize) -> usize {
        message_bytes(header_bytes(header, self.revision))
            + signed_bytes(self.watch_id)
            + number_bytes(u64::from(self.created))
            + number_bytes(u64::from(self.canceled))
            + signed_bytes(self.compact_revision)
            + blob_bytes(self.cancel_reason.as_bytes())
            + number_bytes(u64::from(self.fragment))
            + events_bytes
    }

    /// Writes the message up to its events. The caller appends the events.
    pub fn write(&self, header: Header, out: &mut impl BufMut) {
        start_message(HEADER, header_bytes(header, self.revision), out);
        write_header(header, self.revision, out);
        write_number(WATCH_ID, self.watch_id as u64, out);
        write_number(CREATED, u64::from(self.created), out);
        write_number(CANCELED, u64::from(self.canceled), out);
        write_number(COMPACT_REVISION, self.compact_revision as u64, out);
        write_blob(CANCEL_REASON, self.cancel_reason.as_bytes(), out);
        write_number(FRAGMENT, u64::from(self.fragment), out);
    }
}

fn signed_bytes(number: i64) -> usize {
    number_bytes(number as u64)
}

/// Bytes of an event in a message. `with_before`: the event carries the version that the change
/// replaced, if there is one.
pub fn watch_event_bytes(change: &KeyChange, with_before: bool) -> usize {
    message_bytes(event_bytes(change, with_before))
}

/// Writes one event of a message, for the same arguments as [`watch_event_bytes`].
pub fn write_watch_event(change: &KeyChange, with_before: bool, out: &mut impl BufMut) {
    start_message(EVENTS, event_bytes(change, with_before), out);
    if change.event.is_delete() {
        write_number(TYPE, TYPE_DELETE, out);
    }
    write_kv(KV, &change.event, false, out);
    if let Some(before) = change.before.as_ref().filter(|_| with_before) {
        write_kv(PREV_KV, before, false, out);
    }
}

fn event_bytes(change: &KeyChange, with_before: bool) -> usize {
    let before = change.before.as_ref().filter(|_| with_before);
    number_bytes(u64::from(change.event.is_delete()))
        + message_bytes(kv_bytes(&change.event, false))
        + before.map_or(0, |before| message_bytes(kv_bytes(before, false)))
}

const _: () = assert!(EVENTS < 16);

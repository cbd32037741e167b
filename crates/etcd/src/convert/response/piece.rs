//! Encodes one message of a streamed read: a `RangeStreamResponse` of etcd 3.7.

use bytes::BufMut;
use machine::etcd::event::Event;

use super::{
    COUNT, HEADER, Header, KVS, MORE, header_bytes, kv_bytes, message_bytes, number_bytes,
    start_message, write_header, write_kv, write_number,
};

// Fields of `RangeStreamResponse`.
const RANGE_RESPONSE: u32 = 1;

/// One message of a streamed read. The keys of all its messages in order, with the [`PieceEnd`] of
/// the last message, make up the `RangeResponse` (`api/etcdserverpb/rpc.proto` of etcd 3.7).
#[derive(Clone, Debug, Default)]
pub struct Piece {
    /// The versions in this message, by key.
    events: Vec<Event>,
    /// Bytes that the versions take in the message.
    kvs_bytes: usize,
    /// Whether the message leaves values out.
    keys_only: bool,
    /// `None` in all messages but the last.
    end: Option<PieceEnd>,
}

/// The fields that only the last message of a streamed read has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceEnd {
    /// The revision that the store had when the read began.
    pub revision: i64,
    /// Whether the read's limit left keys out.
    pub more: bool,
    /// How many keys the range has, whatever the limit.
    pub count: u64,
}

impl Piece {
    /// An empty piece.
    pub fn new(keys_only: bool) -> Piece {
        Piece { keys_only, ..Piece::default() }
    }

    /// Adds the next version, in the order of keys.
    pub fn push(&mut self, event: Event) {
        self.kvs_bytes += message_bytes(kv_bytes(&event, self.keys_only));
        self.events.push(event);
    }

    /// The versions in this message, by key.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// Bytes that the versions take in the message.
    pub fn kvs_bytes(&self) -> usize {
        self.kvs_bytes
    }

    /// Makes this the last piece.
    pub fn finish(&mut self, end: PieceEnd) {
        self.end = Some(end);
    }

    /// Bytes of the `RangeResponse` inside the message.
    fn inner_bytes(&self, header: Header) -> usize {
        let end_bytes = self.end.map_or(0, |end| {
            message_bytes(header_bytes(header, end.revision))
                + number_bytes(u64::from(end.more))
                + number_bytes(end.count)
        });
        end_bytes + self.kvs_bytes
    }

    /// Bytes of the message.
    pub fn bytes(&self, header: Header) -> usize {
        message_bytes(self.inner_bytes(header))
    }

    /// Writes the message. `out` gets exactly [`Piece::bytes`] bytes.
    pub fn write(&self, header: Header, out: &mut impl BufMut) {
        start_message(RANGE_RESPONSE, self.inner_bytes(header), out);
        if let Some(end) = self.end {
            start_message(HEADER, header_bytes(header, end.revision), out);
            write_header(header, end.revision, out);
        }
        for event in &self.events {
            write_kv(KVS, event, self.keys_only, out);
        }
        if let Some(end) = self.end {
            write_number(MORE, u64::from(end.more), out);
            write_number(COUNT, end.count, out);
        }
    }
}

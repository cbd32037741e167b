//! Encodes the outcomes of commands and reads as `etcdserverpb` messages, by hand.
//!
//! A response is measured once, then written into a buffer of exactly that length. Keys and values
//! are copied once, from the shared events to the bytes. The field numbers are repeated here,
//! because the generated messages would need owned copies of keys and values; a test compares these
//! bytes with those of the generated messages.

mod encoder;
mod lease;
mod piece;
mod watch;

use bytes::BufMut;
use machine::etcd::event::Event;
use machine::etcd::reply::{Branch, Found, OpDone, Outcome, PutDone, RangeDeleted, TxnDone};
use prost::encoding::{encode_varint, encoded_len_varint};

use crate::pb::etcdserverpb as pb;

pub use encoder::Encoder;
pub use lease::{LeaseResponse, TimeToLive};
pub use piece::{Piece, PieceEnd};
pub use watch::{NO_WATCH_ID, WatchHead, watch_event_bytes, write_watch_event};

/// The fields of a response's header that describe the server. The fourth field, the store's
/// revision, comes from the outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Id of the cluster.
    pub cluster_id: u64,
    /// Id of the member that answers.
    pub member_id: u64,
    /// The Raft term that the member is in.
    pub raft_term: u64,
}

impl Header {
    /// The header with this revision, as a message.
    pub(super) fn with_revision(self, revision: i64) -> pb::ResponseHeader {
        let Header { cluster_id, member_id, raft_term } = self;
        pb::ResponseHeader { cluster_id, member_id, revision, raft_term }
    }
}

/// A response, measured and ready to be written.
pub struct Response<'a> {
    header: Header,
    body: Body<'a>,
    /// The lengths of the responses inside a transaction, in the order in which they are written.
    /// They are kept because measuring them again would take long.
    lengths: Vec<usize>,
    len: usize,
}

/// The outcome that a response reports.
#[derive(Clone, Copy)]
enum Body<'a> {
    Range(&'a Found),
    Put(&'a PutDone),
    DeleteRange(&'a RangeDeleted),
    Txn(&'a TxnDone),
    /// A response that has only a header: `CompactionResponse`, and the responses to changes of
    /// users and roles.
    HeaderAlone {
        revision: i64,
    },
}

impl<'a> Response<'a> {
    /// The response to a command about keys, or to a change of users and roles: `PutResponse`,
    /// `DeleteRangeResponse`, `TxnResponse`, or a header alone. [`LeaseResponse::from_outcome`]
    /// makes the responses to commands about leases.
    pub fn from_outcome(header: Header, outcome: &'a Outcome) -> Response<'a> {
        Response::from_body(
            header,
            match outcome {
                Outcome::Put(done) => Body::Put(done),
                Outcome::DeleteRange(done) => Body::DeleteRange(done),
                Outcome::Txn(done) => Body::Txn(done),
                Outcome::Configured | Outcome::Expired => unreachable!("no client's commands"),
                Outcome::Granted(_) | Outcome::Revoked { .. } => unreachable!("commands of leases"),
                Outcome::Authenticated { .. } | Outcome::Alarmed { .. } | Outcome::TooLarge => {
                    unreachable!("they have responses of their own")
                }
                Outcome::Compacted { revision } | Outcome::AuthChanged { revision } => {
                    Body::HeaderAlone { revision: *revision }
                }
            },
        )
    }

    /// The response to a read: `RangeResponse`.
    pub fn from_range(header: Header, found: &'a Found) -> Response<'a> {
        Response::from_body(header, Body::Range(found))
    }

    /// The response to a transaction that only reads: `TxnResponse`.
    pub fn from_txn(header: Header, done: &'a TxnDone) -> Response<'a> {
        Response::from_body(header, Body::Txn(done))
    }

    fn from_body(header: Header, body: Body<'a>) -> Response<'a> {
        let mut lengths = Vec::new();
        let header_bytes = message_bytes(header_bytes(header, body.revision()));
        let len = header_bytes + body.measure(&mut lengths);
        Response { header, body, lengths, len }
    }

    /// Bytes of the message.
    pub fn bytes(&self) -> usize {
        self.len
    }

    /// Writes the message. `out` gets exactly [`Response::bytes`] bytes.
    pub fn write(&self, out: &mut impl BufMut) {
        let revision = self.body.revision();
        start_message(HEADER, header_bytes(self.header, revision), out);
        write_header(self.header, revision, out);
        self.body.write(&mut self.lengths.iter().copied(), out);
    }

    /// The encoded message.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len);
        self.write(&mut out);
        out
    }
}

// Fields of all responses.
const HEADER: u32 = 1;
// Fields of `ResponseHeader`.
const CLUSTER_ID: u32 = 1;
const MEMBER_ID: u32 = 2;
const REVISION: u32 = 3;
const RAFT_TERM: u32 = 4;
// Fields of `RangeResponse`.
const KVS: u32 = 2;
const MORE: u32 = 3;
const COUNT: u32 = 4;
// Fields of `PutResponse`.
const PREV_KV: u32 = 2;
// Fields of `DeleteRangeResponse`.
const DELETED: u32 = 2;
const PREV_KVS: u32 = 3;
// Fields of `TxnResponse`.
const SUCCEEDED: u32 = 2;
const RESPONSES: u32 = 3;
// Fields of `ResponseOp`.
const RESPONSE_RANGE: u32 = 1;
const RESPONSE_PUT: u32 = 2;
const RESPONSE_DELETE_RANGE: u32 = 3;
const RESPONSE_TXN: u32 = 4;
// Fields of `KeyValue`.
const KEY: u32 = 1;
const CREATE_REVISION: u32 = 2;
const MOD_REVISION: u32 = 3;
const VERSION: u32 = 4;
const VALUE: u32 = 5;
const LEASE: u32 = 6;

/// Bytes of a field's tag (number and wire type): one, because all numbers above are below 16.
const TAG_BYTES: usize = 1;
const _: () = assert!(MOD_REVISION < 16 && LEASE < 16 && RESPONSE_TXN < 16);

const WIRE_VARINT: u32 = 0;
const WIRE_BYTES: u32 = 2;

impl Body<'_> {
    fn revision(&self) -> i64 {
        match self {
            Body::Range(found) => found.revision,
            Body::Put(done) => done.revision,
            Body::DeleteRange(done) => done.revision,
            Body::Txn(done) => done.revision,
            Body::HeaderAlone { revision } => *revision,
        }
    }

    /// Bytes of everything behind the header. Appends the lengths inside a transaction to
    /// `lengths`.
    fn measure(&self, lengths: &mut Vec<usize>) -> usize {
        match self {
            Body::Range(found) => found_bytes(found),
            Body::Put(done) => put_bytes(done),
            Body::DeleteRange(done) => deleted_bytes(done),
            Body::Txn(done) => measure_branch(&done.branch, lengths),
            Body::HeaderAlone { .. } => 0,
        }
    }

    fn write(&self, lengths: &mut impl Iterator<Item = usize>, out: &mut impl BufMut) {
        match self {
            Body::Range(found) => write_found(found, out),
            Body::Put(done) => write_put(done, out),
            Body::DeleteRange(done) => write_deleted(done, out),
            Body::Txn(done) => write_branch(&done.branch, lengths, out),
            Body::HeaderAlone { .. } => {}
        }
    }
}

fn header_bytes(header: Header, revision: i64) -> usize {
    number_bytes(header.cluster_id)
        + number_bytes(header.member_id)
        + number_bytes(revision as u64)
        + number_bytes(header.raft_term)
}

fn write_header(header: Header, revision: i64, out: &mut impl BufMut) {
    write_number(CLUSTER_ID, header.cluster_id, out);
    write_number(MEMBER_ID, header.member_id, out);
    write_number(REVISION, revision as u64, out);
    write_number(RAFT_TERM, header.raft_term, out);
}

fn found_bytes(found: &Found) -> usize {
    let kvs = found.events.iter().map(|event| message_bytes(kv_bytes(event, found.keys_only)));
    kvs.sum::<usize>() + number_bytes(u64::from(found.more)) + number_bytes(found.count)
}

fn write_found(found: &Found, out: &mut impl BufMut) {
    for event in &found.events {
        write_kv(KVS, event, found.keys_only, out);
    }
    write_number(MORE, u64::from(found.more), out);
    write_number(COUNT, found.count, out);
}

fn put_bytes(done: &PutDone) -> usize {
    done.prev.as_ref().map_or(0, |event| message_bytes(kv_bytes(event, false)))
}

fn write_put(done: &PutDone, out: &mut impl BufMut) {
    if let Some(event) = &done.prev {
        write_kv(PREV_KV, event, false, out);
    }
}

fn deleted_bytes(done: &RangeDeleted) -> usize {
    let prev = done.prev.iter().map(|event| message_bytes(kv_bytes(event, false)));
    number_bytes(done.count) + prev.sum::<usize>()
}

fn write_deleted(done: &RangeDeleted, out: &mut impl BufMut) {
    write_number(DELETED, done.count, out);
    for event in &done.prev {
        write_kv(PREV_KVS, event, false, out);
    }
}

/// Bytes of the header of a response within a transaction, which has only the revision.
fn nested_header_bytes(revision: i64) -> usize {
    message_bytes(number_bytes(revision as u64))
}

fn write_nested_header(revision: i64, out: &mut impl BufMut) {
    start_message(HEADER, number_bytes(revision as u64), out);
    write_number(REVISION, revision as u64, out);
}

/// Bytes of a branch's responses. `lengths` gets the length of each operation's response, before
/// the lengths of those nested within it. Measuring again at each level would take time quadratic
/// in the depth.
fn measure_branch(branch: &Branch, lengths: &mut Vec<usize>) -> usize {
    let mut len = number_bytes(u64::from(branch.succeeded));
    for op in &branch.done {
        let at = lengths.len();
        lengths.push(0);
        let op_len = match op {
            OpDone::Range(found) => nested_header_bytes(found.revision) + found_bytes(found),
            OpDone::Put(done) => nested_header_bytes(done.revision) + put_bytes(done),
            OpDone::DeleteRange(done) => nested_header_bytes(done.revision) + deleted_bytes(done),
            OpDone::Txn(nested) => message_bytes(0) + measure_branch(nested, lengths),
        };
        lengths[at] = op_len;
        len += message_bytes(message_bytes(op_len));
    }
    len
}

fn write_branch(branch: &Branch, lengths: &mut impl Iterator<Item = usize>, out: &mut impl BufMut) {
    write_number(SUCCEEDED, u64::from(branch.succeeded), out);
    for op in &branch.done {
        let len = lengths.next().expect("every operation was measured");
        start_message(RESPONSES, message_bytes(len), out);
        match op {
            OpDone::Range(found) => {
                start_message(RESPONSE_RANGE, len, out);
                write_nested_header(found.revision, out);
                write_found(found, out);
            }
            OpDone::Put(done) => {
                start_message(RESPONSE_PUT, len, out);
                write_nested_header(done.revision, out);
                write_put(done, out);
            }
            OpDone::DeleteRange(done) => {
                start_message(RESPONSE_DELETE_RANGE, len, out);
                write_nested_header(done.revision, out);
                write_deleted(done, out);
            }
            OpDone::Txn(nested) => {
                start_message(RESPONSE_TXN, len, out);
                // The header of a nested transaction is written, and it is empty.
                start_message(HEADER, 0, out);
                write_branch(nested, lengths, out);
            }
        }
    }
}

/// Bytes of a version as a `KeyValue`, without its tag and length. A removal has only the key and
/// the revision.
pub fn key_value_bytes(event: &Event) -> usize {
    kv_bytes(event, false)
}

/// Writes a version as a `KeyValue`, in the field with this number, which must be below 16.
pub fn write_key_value(field: u32, event: &Event, out: &mut impl BufMut) {
    write_kv(field, event, false, out);
}

fn kv_value(event: &Event, keys_only: bool) -> &[u8] {
    if keys_only { &[] } else { event.value() }
}

fn kv_bytes(event: &Event, keys_only: bool) -> usize {
    let numbers = event.numbers();
    blob_bytes(event.key())
        + number_bytes(numbers.create_revision as u64)
        + number_bytes(event.revision() as u64)
        + number_bytes(numbers.version as u64)
        + blob_bytes(kv_value(event, keys_only))
        + number_bytes(numbers.lease as u64)
}

fn write_kv(field: u32, event: &Event, keys_only: bool, out: &mut impl BufMut) {
    let numbers = event.numbers();
    start_message(field, kv_bytes(event, keys_only), out);
    write_blob(KEY, event.key(), out);
    write_number(CREATE_REVISION, numbers.create_revision as u64, out);
    write_number(MOD_REVISION, event.revision() as u64, out);
    write_number(VERSION, numbers.version as u64, out);
    write_blob(VALUE, kv_value(event, keys_only), out);
    write_number(LEASE, numbers.lease as u64, out);
}

/// Bytes of a field that is a message. An empty message is written too, with length 0.
fn message_bytes(len: usize) -> usize {
    TAG_BYTES + encoded_len_varint(len as u64) + len
}

fn start_message(field: u32, len: usize, out: &mut impl BufMut) {
    encode_varint(u64::from(field << 3 | WIRE_BYTES), out);
    encode_varint(len as u64, out);
}

/// Bytes of a field that is a number; a zero is left out.
fn number_bytes(number: u64) -> usize {
    if number == 0 { 0 } else { TAG_BYTES + encoded_len_varint(number) }
}

fn write_number(field: u32, number: u64, out: &mut impl BufMut) {
    if number != 0 {
        encode_varint(u64::from(field << 3 | WIRE_VARINT), out);
        encode_varint(number, out);
    }
}

/// Bytes of a field that is a string of bytes; an empty one is left out.
fn blob_bytes(blob: &[u8]) -> usize {
    if blob.is_empty() { 0 } else { message_bytes(blob.len()) }
}

fn write_blob(field: u32, blob: &[u8], out: &mut impl BufMut) {
    if !blob.is_empty() {
        start_message(field, blob.len(), out);
        out.put_slice(blob);
    }
}

#[cfg(test)]
mod tests;

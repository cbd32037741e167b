//! Encodes a response that may be large: measures it in steps, then writes it in pieces. So each
//! call does a bounded amount of work, and only one piece is in memory as bytes.
//!
//! The bytes equal those that [`Response`](super::Response) and [`LeaseResponse`] write in one
//! call. Versions are freed once they are written.

use std::vec;

use machine::LeaseId;
use machine::etcd::event::Event;
use machine::etcd::reply::{Branch, Found, OpDone, PutDone, RangeDeleted, TxnDone};

use super::lease::{GRANTED_TTL, ID, KEYS, LEASES, STATUS_ID, TTL};
use super::{
    COUNT, DELETED, HEADER, Header, KVS, LeaseResponse, MORE, PREV_KV, PREV_KVS,
    RESPONSE_DELETE_RANGE, RESPONSE_PUT, RESPONSE_RANGE, RESPONSE_TXN, RESPONSES, SUCCEEDED,
    TimeToLive, header_bytes, kv_bytes, message_bytes, nested_header_bytes, number_bytes,
    start_message, write_blob, write_header, write_kv, write_nested_header, write_number,
};

/// A response that is being encoded. It owns the outcome that it reports.
#[derive(Debug)]
pub struct Encoder {
    header: Header,
    revision: i64,
    body: Body,
    /// The lengths of the responses inside a transaction, in the order in which they are written.
    lengths: Lengths,
    measuring: Measuring,
    /// Bytes of the response without its header; 0 until all is measured.
    body_bytes: usize,
    stage: Stage,
}

#[derive(Debug)]
enum Body {
    /// Every response that an [`Encoder`] encodes, but `TxnResponse`. It has one list.
    List(List),
    /// `TxnResponse`. `levels` has the operations not yet written of each open branch, the
    /// innermost last; `list` is what is left of the operation that is being written.
    Branch { succeeded: bool, levels: Vec<vec::IntoIter<OpDone>>, list: Option<List> },
}

/// How far the encoder has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Measuring,
    /// All is measured, and nothing is written.
    Measured,
    Writing,
    /// All is written.
    Done,
}

/// A queue of lengths: measuring appends to `all`, writing reads from it in the same order.
#[derive(Debug, Default)]
struct Lengths {
    all: Vec<usize>,
    read: usize,
}

/// How much of a response is measured.
#[derive(Debug, Default)]
struct Measuring {
    /// The branches that are not measured to their end, the innermost last. Empty for a response
    /// with one list.
    open: Vec<Open>,
    /// How many items of the present list are measured.
    items: usize,
    items_bytes: usize,
}

/// A branch that is not measured to its end.
#[derive(Debug)]
struct Open {
    /// Index of the operation that is measured next, or is being measured.
    op: usize,
    /// Index in `Lengths` of the place for the length of this branch, which is an operation of the
    /// branch around it; `None` for the outermost branch.
    place: Option<usize>,
    /// Bytes of the branch that are measured so far.
    bytes: usize,
}

/// A message of this shape: number fields, a list, number fields. Each response that an [`Encoder`]
/// encodes has it, but `TxnResponse`; there each operation has it, but a nested transaction.
#[derive(Debug)]
struct List {
    before: [(u32, u64); 3],
    items: Items,
    after: [(u32, u64); 2],
    /// Whether the fields before the items are written.
    is_begun: bool,
}

/// The items of a list that are not written yet.
#[derive(Debug)]
enum Items {
    Versions { field: u32, events: vec::IntoIter<Event>, keys_only: bool },
    Keys(vec::IntoIter<Event>),
    Leases(vec::IntoIter<LeaseId>),
}

/// Fills a place for a number field that the message does not have.
const NONE: (u32, u64) = (0, 0);

impl Encoder {
    /// Encodes a `RangeResponse`.
    pub fn from_range(header: Header, found: Found) -> Encoder {
        Encoder::from_list(header, found.revision, List::from_found(found))
    }

    /// Encodes a `PutResponse`.
    pub fn from_put(header: Header, done: PutDone) -> Encoder {
        Encoder::from_list(header, done.revision, List::from_put(done))
    }

    /// Encodes a `DeleteRangeResponse`.
    pub fn from_deleted(header: Header, done: RangeDeleted) -> Encoder {
        Encoder::from_list(header, done.revision, List::from_deleted(done))
    }

    /// Encodes a `TxnResponse`.
    pub fn from_txn(header: Header, done: TxnDone) -> Encoder {
        let Branch { succeeded, done: ops } = done.branch;
        let body = Body::Branch { succeeded, levels: vec![ops.into_iter()], list: None };
        Encoder::new(header, done.revision, body)
    }

    /// Encodes a `LeaseTimeToLiveResponse`.
    pub fn from_time_to_live(header: Header, found: TimeToLive) -> Encoder {
        let numbers = [(ID, found.lease.0), (TTL, found.ttl_s), (GRANTED_TTL, found.granted_ttl_s)];
        let list = List {
            before: numbers.map(|(field, number)| (field, number as u64)),
            items: Items::Keys(found.keys.into_iter()),
            after: [NONE; 2],
            is_begun: false,
        };
        Encoder::from_list(header, found.revision, list)
    }

    /// Encodes a `LeaseLeasesResponse`.
    pub fn from_leases(header: Header, revision: i64, leases: Vec<LeaseId>) -> Encoder {
        let items = Items::Leases(leases.into_iter());
        let list = List { before: [NONE; 3], items, after: [NONE; 2], is_begun: false };
        Encoder::from_list(header, revision, list)
    }

    /// Encodes a response about leases, if it has a list.
    ///
    /// # Errors
    /// The response has no list, so it needs no encoder. The error is the response itself.
    pub fn from_lease(header: Header, response: LeaseResponse) -> Result<Encoder, LeaseResponse> {
        match response {
            LeaseResponse::TimeToLive(found) => Ok(Encoder::from_time_to_live(header, found)),
            LeaseResponse::Leases { revision, leases } => {
                Ok(Encoder::from_leases(header, revision, leases))
            }
            small => Err(small),
        }
    }

    fn from_list(header: Header, revision: i64, list: List) -> Encoder {
        Encoder::new(header, revision, Body::List(list))
    }

    fn new(header: Header, revision: i64, body: Body) -> Encoder {
        Encoder {
            header,
            revision,
            body,
            lengths: Lengths::default(),
            measuring: Measuring::default(),
            body_bytes: 0,
            stage: Stage::Measuring,
        }
    }

    /// Measures at most this many more items (versions, keys, leases, operations), at least one.
    /// Returns the length of the message once all is measured, `None` before.
    pub fn measure(&mut self, items_max: usize) -> Option<usize> {
        if self.stage == Stage::Measuring {
            let bytes = match &self.body {
                Body::List(list) => {
                    let mut left = items_max.max(1);
                    let is_over = self.measuring.measure_items(&list.shown(), &mut left);
                    is_over.then(|| list.numbers_bytes() + self.measuring.take_items_bytes())
                }
                Body::Branch { succeeded, levels, .. } => {
                    let ops = levels.first().map_or(&[][..], |level| level.as_slice());
                    self.measuring.measure_ops((*succeeded, ops), items_max, &mut self.lengths)
                }
            };
            self.body_bytes = bytes?;
            self.stage = Stage::Measured;
        }
        Some(message_bytes(header_bytes(self.header, self.revision)) + self.body_bytes)
    }

    /// Appends the next piece to `out`. The piece ends with the item that reaches `bytes_max`
    /// bytes, or after `items_max` items; so it may exceed `bytes_max` by one item. Returns whether
    /// more follows.
    ///
    /// # Panics
    /// [`Encoder::measure`] has not returned the length yet.
    pub fn write(&mut self, items_max: usize, bytes_max: usize, out: &mut Vec<u8>) -> bool {
        assert!(self.stage != Stage::Measuring, "a message is measured before it is written");
        let end = out.len().saturating_add(bytes_max);
        if self.stage == Stage::Measured {
            start_message(HEADER, header_bytes(self.header, self.revision), out);
            write_header(self.header, self.revision, out);
            if let Body::Branch { succeeded, .. } = &self.body {
                write_number(SUCCEEDED, u64::from(*succeeded), out);
            }
            self.stage = Stage::Writing;
        }
        for _ in 0..items_max.max(1) {
            if self.stage == Stage::Done || out.len() >= end {
                break;
            }
            self.write_next(out);
        }
        self.stage != Stage::Done
    }

    /// Writes the next item, or the beginning or the end of a list or branch.
    fn write_next(&mut self, out: &mut Vec<u8>) {
        let (levels, list) = match &mut self.body {
            Body::List(list) => {
                if !list.write_next(out) {
                    self.stage = Stage::Done;
                }
                return;
            }
            Body::Branch { levels, list, .. } => (levels, list),
        };
        if let Some(present) = list {
            if !present.write_next(out) {
                *list = None;
            }
            return;
        }
        let Some(level) = levels.last_mut() else {
            self.stage = Stage::Done;
            return;
        };
        let Some(op) = level.next() else {
            levels.pop();
            return;
        };
        let len = self.lengths.next();
        start_message(RESPONSES, message_bytes(len), out);
        let (field, revision, of_op) = match op {
            OpDone::Txn(nested) => {
                start_message(RESPONSE_TXN, len, out);
                // The header of a nested transaction is written, and it is empty.
                start_message(HEADER, 0, out);
                write_number(SUCCEEDED, u64::from(nested.succeeded), out);
                return levels.push(nested.done.into_iter());
            }
            OpDone::Range(found) => (RESPONSE_RANGE, found.revision, List::from_found(found)),
            OpDone::Put(done) => (RESPONSE_PUT, done.revision, List::from_put(done)),
            OpDone::DeleteRange(done) => {
                (RESPONSE_DELETE_RANGE, done.revision, List::from_deleted(done))
            }
        };
        start_message(field, len, out);
        write_nested_header(revision, out);
        *list = Some(of_op);
    }
}

impl Lengths {
    fn next(&mut self) -> usize {
        let len = self.all.get(self.read).copied();
        self.read += 1;
        len.expect("every operation was measured, in the order in which it is written")
    }
}

impl Measuring {
    /// Measures up to `left` more items of a list, and counts `left` down. Returns whether the list
    /// is measured to its end.
    fn measure_items(&mut self, shown: &Shown<'_>, left: &mut usize) -> bool {
        let end = shown.len().min(self.items.saturating_add(*left));
        self.items_bytes += shown.bytes(self.items..end);
        *left -= end - self.items;
        self.items = end;
        end == shown.len()
    }

    /// Returns the bytes of the list that was measured, and resets the count for the next list.
    fn take_items_bytes(&mut self) -> usize {
        self.items = 0;
        core::mem::take(&mut self.items_bytes)
    }

    /// Measures at most `items_max` more items of a branch. Returns the branch's bytes once it is
    /// measured to its end. `lengths` gets the length of each operation, before the lengths of
    /// those within it.
    fn measure_ops<'a>(
        &mut self,
        (succeeded, ops): (bool, &'a [OpDone]),
        items_max: usize,
        lengths: &mut Lengths,
    ) -> Option<usize> {
        if self.open.is_empty() {
            self.open.push(Open::new(succeeded, None));
        }
        // Find the operations of each open branch again, by their indexes.
        let mut levels: Vec<&'a [OpDone]> = vec![ops];
        for open in self.open.iter().take(self.open.len() - 1) {
            let level = levels.last().and_then(|ops| ops.get(open.op));
            if let Some(OpDone::Txn(nested)) = level {
                levels.push(&nested.done);
            }
        }
        let mut left = items_max.max(1);
        while left > 0 {
            let (open, ops) = (self.open.last_mut()?, *levels.last()?);
            match ops.get(open.op) {
                Some(OpDone::Txn(nested)) => {
                    lengths.all.push(0);
                    let place = Some(lengths.all.len() - 1);
                    self.open.push(Open::new(nested.succeeded, place));
                    levels.push(&nested.done);
                }
                Some(op) => {
                    let (numbers_bytes, shown) = Shown::from_op(op);
                    if self.measure_items(&shown, &mut left) {
                        let len = numbers_bytes + self.take_items_bytes();
                        lengths.all.push(len);
                        self.close_op(len);
                    }
                }
                None => {
                    levels.pop();
                    let closed = self.open.pop()?;
                    let Some(place) = closed.place else { return Some(closed.bytes) };
                    let len = message_bytes(0) + closed.bytes;
                    lengths.all[place] = len;
                    self.close_op(len);
                }
            }
            left = left.saturating_sub(1);
        }
        None
    }

    /// Adds a measured operation to the innermost open branch.
    fn close_op(&mut self, len: usize) {
        if let Some(open) = self.open.last_mut() {
            open.bytes += message_bytes(message_bytes(len));
            open.op += 1;
        }
    }
}

impl Open {
    fn new(succeeded: bool, place: Option<usize>) -> Open {
        Open { op: 0, place, bytes: number_bytes(u64::from(succeeded)) }
    }
}

/// The items of a list that is being measured.
enum Shown<'a> {
    Versions { events: &'a [Event], keys_only: bool },
    Keys(&'a [Event]),
    Leases(&'a [LeaseId]),
}

impl<'a> Shown<'a> {
    /// The items of an operation, and the bytes of everything beside them. A nested transaction has
    /// no items.
    fn from_op(op: &'a OpDone) -> (usize, Shown<'a>) {
        let versions = |events: &'a [Event], keys_only| Shown::Versions { events, keys_only };
        match op {
            OpDone::Range(found) => {
                let numbers = number_bytes(u64::from(found.more)) + number_bytes(found.count);
                let shown = versions(&found.events, found.keys_only);
                (nested_header_bytes(found.revision) + numbers, shown)
            }
            OpDone::Put(done) => {
                (nested_header_bytes(done.revision), versions(done.prev.as_slice(), false))
            }
            OpDone::DeleteRange(done) => {
                let bytes = nested_header_bytes(done.revision) + number_bytes(done.count);
                (bytes, versions(&done.prev, false))
            }
            OpDone::Txn(_) => (0, versions(&[], false)),
        }
    }

    fn len(&self) -> usize {
        match self {
            Shown::Versions { events, .. } | Shown::Keys(events) => events.len(),
            Shown::Leases(leases) => leases.len(),
        }
    }

    fn bytes(&self, range: core::ops::Range<usize>) -> usize {
        match self {
            Shown::Versions { events, keys_only } => {
                let events = events.get(range).unwrap_or_default().iter();
                events.map(|event| message_bytes(kv_bytes(event, *keys_only))).sum()
            }
            Shown::Keys(events) => {
                let events = events.get(range).unwrap_or_default().iter();
                events.map(|event| message_bytes(event.key().len())).sum()
            }
            Shown::Leases(leases) => {
                let leases = leases.get(range).unwrap_or_default().iter();
                leases.map(|lease| message_bytes(number_bytes(lease.0 as u64))).sum()
            }
        }
    }
}

impl List {
    fn from_found(found: Found) -> List {
        List {
            before: [NONE; 3],
            items: Items::Versions {
                field: KVS,
                events: found.events.into_iter(),
                keys_only: found.keys_only,
            },
            after: [(MORE, u64::from(found.more)), (COUNT, found.count)],
            is_begun: false,
        }
    }

    fn from_put(done: PutDone) -> List {
        let events = Vec::from_iter(done.prev).into_iter();
        let items = Items::Versions { field: PREV_KV, events, keys_only: false };
        List { before: [NONE; 3], items, after: [NONE; 2], is_begun: false }
    }

    fn from_deleted(done: RangeDeleted) -> List {
        let events = done.prev.into_iter();
        let items = Items::Versions { field: PREV_KVS, events, keys_only: false };
        let before = [(DELETED, done.count), NONE, NONE];
        List { before, items, after: [NONE; 2], is_begun: false }
    }

    fn numbers_bytes(&self) -> usize {
        self.before.iter().chain(&self.after).map(|(_, number)| number_bytes(*number)).sum()
    }

    fn shown(&self) -> Shown<'_> {
        match &self.items {
            Items::Versions { events, keys_only, .. } => {
                Shown::Versions { events: events.as_slice(), keys_only: *keys_only }
            }
            Items::Keys(events) => Shown::Keys(events.as_slice()),
            Items::Leases(leases) => Shown::Leases(leases.as_slice()),
        }
    }

    /// Writes the next item; with the first, the fields before the list, and after the last, the
    /// fields behind it. Returns whether more follows.
    fn write_next(&mut self, out: &mut Vec<u8>) -> bool {
        if !core::mem::replace(&mut self.is_begun, true) {
            write_numbers(&self.before, out);
        }
        let has_item = self.items.write_next(out);
        if !has_item {
            write_numbers(&self.after, out);
        }
        has_item
    }
}

impl Items {
    /// Writes the next item. Returns false if there is none.
    fn write_next(&mut self, out: &mut Vec<u8>) -> bool {
        match self {
            Items::Versions { field, events, keys_only } => {
                let Some(event) = events.next() else { return false };
                write_kv(*field, &event, *keys_only, out);
            }
            Items::Keys(events) => {
                let Some(event) = events.next() else { return false };
                write_blob(KEYS, event.key(), out);
            }
            Items::Leases(leases) => {
                let Some(lease) = leases.next() else { return false };
                start_message(LEASES, number_bytes(lease.0 as u64), out);
                write_number(STATUS_ID, lease.0 as u64, out);
            }
        }
        true
    }
}

fn write_numbers(numbers: &[(u32, u64)], out: &mut Vec<u8>) {
    for (field, number) in numbers {
        write_number(*field, *number, out);
    }
}

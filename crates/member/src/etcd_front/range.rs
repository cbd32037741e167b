//! A read of a range whose response is one message. It is read in steps, so that no hold of the
//! state's lock is long: all at the revision that was the present one when it began, or the one
//! that was asked for. A read of the present state begins anew if that revision is compacted
//! meanwhile.

use std::sync::Arc;

use etcd::convert;
use etcd::pb::etcdserverpb as pb;
use machine::etcd::Store;
use machine::etcd::command::{KeyRange, Op, RangeOp, Txn};
use machine::etcd::range::{self, RangeRead};
use machine::etcd::reply::{Found, Refusal};

use crate::limits::{ETCD_REFERENCE_BYTES, SMALL_REPLY_BYTES};
use crate::reply_room::{HeldReply, ReplyRoom};

/// A read of a range. Its form was checked.
pub(super) struct Range {
    request: pb::RangeRequest,
    begun: Option<Begun>,
}

struct Begun {
    read: RangeRead,
    /// The room for the references to versions that it finds, if they may be many.
    held: Option<HeldReply>,
}

/// How a step of a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stepped {
    /// The read is done.
    Done,
    /// It goes on in another hold.
    More,
    /// It has not begun, since others hold the room for what it may find.
    NoRoom,
}

impl Range {
    pub fn new(request: pb::RangeRequest) -> Range {
        Range { request, begun: None }
    }

    /// The keys that it reads.
    pub fn range(&self) -> KeyRange<'_> {
        KeyRange { key: &self.request.key, end: &self.request.range_end }
    }

    /// Another state took the place of the one before: the read begins anew.
    pub fn on_installed(&mut self) {
        self.begun = None;
    }

    /// Reads on, and takes the keys that it looks at off `keys_left`.
    ///
    /// # Errors
    /// The revision is above the store's, or is compacted.
    pub fn step(
        &mut self,
        store: &Store,
        keys_left: &mut u64,
        room: &Arc<ReplyRoom>,
    ) -> Result<Stepped, Refusal> {
        let op = op(&self.request);
        if self.begun.is_none() {
            let Some(held) = hold(room, reference_count_max(store, &op)) else {
                return Ok(Stepped::NoRoom);
            };
            self.begun = Some(Begun { read: store.begin_range(&op)?, held });
        }
        let begun = self.begun.as_mut().expect("it was just begun");
        match store.range_step(&op, &mut begun.read, keys_left) {
            Err(Refusal::Compacted) if op.revision <= 0 => {
                self.begun = None;
                Ok(Stepped::More)
            }
            Err(refusal) => Err(refusal),
            Ok(true) => Ok(Stepped::Done),
            Ok(false) => Ok(Stepped::More),
        }
    }

    /// The result of a read that is done. Putting a long one in order takes its time, so the caller
    /// does not hold the state's lock.
    pub fn finish(self) -> (Found, Option<HeldReply>) {
        let Begun { read, held } = self.begun.expect("a read that is done was begun");
        (range::finish(&op(&self.request), read), held)
    }
}

fn op(request: &pb::RangeRequest) -> RangeOp<'_> {
    convert::range(request).expect("the request was checked when it came")
}

/// Holds room for this many references. None if there is no room for them now. Few of them hold
/// nothing.
pub(super) fn hold(room: &Arc<ReplyRoom>, count: u64) -> Option<Option<HeldReply>> {
    let bytes = count.saturating_mul(ETCD_REFERENCE_BYTES);
    match bytes {
        ..=SMALL_BYTES => Some(None),
        _ if room.takes(bytes) => {
            Some(Some(HeldReply::new(room, usize::try_from(bytes).unwrap_or(usize::MAX))))
        }
        _ => None,
    }
}

/// Bytes of references that no room is held for.
const SMALL_BYTES: u64 = SMALL_REPLY_BYTES as u64;

/// The most versions that a read can find now.
fn reference_count_max(store: &Store, op: &RangeOp<'_>) -> u64 {
    if op.count_only {
        return 0;
    }
    let all = store.key_count_of(op.range);
    match u64::try_from(op.limit) {
        Ok(limit @ 1..) if range::is_plain(op) => all.min(limit + 1),
        _ => all,
    }
}

/// The most versions that the reads of a transaction can find now, on both branches.
pub(super) fn reference_count_max_of(store: &Store, txn: &Txn<'_>) -> u64 {
    let ops = txn.success.iter().chain(&txn.failure);
    let counts = ops.map(|op| match op {
        Op::Range(range) => reference_count_max(store, range),
        Op::Txn(txn) => reference_count_max_of(store, txn),
        Op::Put(_) | Op::DeleteRange(_) => 0,
    });
    counts.fold(0, u64::saturating_add)
}

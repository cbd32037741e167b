//! A read of a range whose response is one message. It is read in steps, so that no hold of the
//! state's lock is long: all at the revision that was the present one when it began, or the one
//! that was asked for. A read of the present state begins anew if that revision is compacted
//! meanwhile.

use std::sync::Arc;

use bytes::Bytes;
use etcd::pb::etcdserverpb as pb;
use machine::etcd::Store;
use machine::etcd::command::{KeyRange, RangeOp};
use machine::etcd::range::RangeRead;
use machine::etcd::reply::{Found, Refusal};
use machine::limits::ETCD_ANSWER_WEIGHT_MAX;

use crate::fronts::etcd::limits::ETCD_REFERENCE_BYTES;
use crate::limits::SMALL_REPLY_BYTES;
use crate::reply_room::{HeldReply, ReplyRoom};

/// A request for a range, converted once. It owns its keys.
pub(super) struct AskedRange {
    key: Bytes,
    end: Bytes,
    /// The read, with these keys left out.
    form: RangeOp<'static>,
}

impl AskedRange {
    /// Converts a request by `convert`, which checks its form.
    ///
    /// # Errors
    /// The form is wrong.
    pub fn new<E>(
        request: pb::RangeRequest,
        convert: impl FnOnce(&pb::RangeRequest) -> Result<RangeOp<'_>, E>,
    ) -> Result<AskedRange, E> {
        let op = convert(&request)?;
        let form = RangeOp { range: KeyRange { key: &[], end: &[] }, ..op };
        Ok(AskedRange { key: request.key, end: request.range_end, form })
    }

    /// The first key.
    pub fn key(&self) -> &Bytes {
        &self.key
    }

    /// The read.
    pub fn op(&self) -> RangeOp<'_> {
        RangeOp { range: KeyRange { key: &self.key, end: &self.end }, ..self.form }
    }
}

/// A read of a range.
pub(super) struct Range {
    asked: AskedRange,
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
    pub fn new(asked: AskedRange) -> Range {
        Range { asked, begun: None }
    }

    /// The keys that it reads.
    pub fn range(&self) -> KeyRange<'_> {
        self.asked.op().range
    }

    /// Another state took the place of the one before: the read begins anew.
    pub fn on_replaced(&mut self) {
        self.begun = None;
    }

    /// Reads on, and takes the keys that it looks at off `keys_left`.
    ///
    /// # Errors
    /// The revision is above the store's, or is compacted, or what it finds is larger than an
    /// answer may be.
    pub fn step(
        &mut self,
        store: &Store,
        keys_left: &mut u64,
        room: &Arc<ReplyRoom>,
    ) -> Result<Stepped, Refusal> {
        let op = self.asked.op();
        if self.begun.is_none() {
            let Some(held) = hold(room, reference_count_max(store, &op)) else {
                return Ok(Stepped::NoRoom);
            };
            self.begun = Some(Begun { read: store.begin_range(&op)?, held });
        }
        let begun = self.begun.as_mut().expect("it was just begun");
        let stepped = store.range_step(&op, &mut begun.read, keys_left);
        if begun.read.held_weight() > ETCD_ANSWER_WEIGHT_MAX {
            return Err(Refusal::AnswerTooLarge);
        }
        match stepped {
            Err(Refusal::Compacted) if op.revision <= 0 => {
                self.begun = None;
                Ok(Stepped::More)
            }
            Err(refusal) => Err(refusal),
            Ok(true) => Ok(Stepped::Done),
            Ok(false) => Ok(Stepped::More),
        }
    }

    /// Goes on putting the result in order, of a read whose keys were all looked at. That takes its
    /// time, so the caller does not hold the state's lock. Whether it is done.
    pub fn sort_step(&mut self, count_left: &mut u64) -> bool {
        let op = self.asked.op();
        self.begun.as_mut().is_none_or(|begun| begun.read.sort_step(&op, count_left))
    }

    /// The result, once it is in order.
    pub fn finish(self) -> (Found, Option<HeldReply>) {
        let Begun { read, held } = self.begun.expect("a read that is done was begun");
        (read.finish(&self.asked.op()), held)
    }
}

/// Holds room for this many references. `None` if there is no room for them now. Few of them hold
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
        Ok(limit @ 1..) => all.min(limit.saturating_add(1)),
        _ => all,
    }
}

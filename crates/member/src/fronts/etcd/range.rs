//! Reads a range for a call that is answered with one message. The read goes in steps, so that no
//! hold of the state's lock is long. All steps read at one revision: the revision that the client
//! asked for, or the present one when the read began. If the client asked for no revision, and the
//! revision of the read is compacted before the last step, the read begins anew.

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

/// A request for a range, decoded and checked. It owns its keys.
pub(super) struct AskedRange {
    key: Bytes,
    end: Bytes,
    /// The read, without its keys, which are above.
    form: RangeOp<'static>,
}

impl AskedRange {
    /// Converts a request with `convert`, which also checks its form.
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

    /// The first key of the range.
    pub fn key(&self) -> &Bytes {
        &self.key
    }

    /// The read, with its keys.
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
    /// The room that the references to key versions take while the response is not encoded; `None`
    /// if there can be only few references.
    held: Option<HeldReply>,
}

/// How one step of a read ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stepped {
    /// All keys were read.
    Done,
    /// The read goes on in another hold of the lock.
    More,
    /// The read has not begun: the references that it may find have no room now.
    NoRoom,
}

impl Range {
    pub fn new(asked: AskedRange) -> Range {
        Range { asked, begun: None }
    }

    /// The key range that the client asked for.
    pub fn range(&self) -> KeyRange<'_> {
        self.asked.op().range
    }

    /// Begins anew, because another state has replaced the old one.
    pub fn on_replaced(&mut self) {
        self.begun = None;
    }

    /// Reads further, and subtracts the number of keys that it looks at from `keys_left`.
    ///
    /// # Errors
    /// The revision is above the store's or compacted, or the result is larger than an answer may
    /// be.
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

    /// Sorts the result further, once all keys were read. Sorting may take long, so the caller does
    /// not hold the state's lock. Returns whether the result is sorted.
    pub fn sort_step(&mut self, count_left: &mut u64) -> bool {
        let op = self.asked.op();
        self.begun.as_mut().is_none_or(|begun| begun.read.sort_step(&op, count_left))
    }

    /// The sorted result, and the room that it holds.
    pub fn finish(self) -> (Found, Option<HeldReply>) {
        let Begun { read, held } = self.begun.expect("a read that is done was begun");
        (read.finish(&self.asked.op()), held)
    }
}

/// Takes room for this many references. Returns `None` if there is no room now, and `Some(None)`
/// for so few references that they need none.
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

/// References of fewer bytes than this need no room.
const SMALL_BYTES: u64 = SMALL_REPLY_BYTES as u64;

/// The most versions that a read can find in the present state.
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

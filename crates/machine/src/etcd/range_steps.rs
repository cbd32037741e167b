//! The steps of a read of a range that look at the store, and so need the state's lock: the walk
//! and the count. ([`RangeRead::sort_step`] needs no lock.)

use crate::etcd::command::{KeyRange, RangeOp};
use crate::etcd::event::Place;
use crate::etcd::range::{Counting, RangeRead};
use crate::etcd::reply::{Found, Refusal};
use crate::etcd::store::Store;
use crate::limits::ETCD_CHANGE_COST;

impl Store {
    /// Reads a range at once, at the present revision or at an older one.
    ///
    /// etcd 3.6 `txn.executeRange`, `mvcc.storeTxnCommon.rangeKeys`.
    ///
    /// # Errors
    /// The revision is compacted, or above the store's.
    pub fn range(&self, op: &RangeOp<'_>) -> Result<Found, Refusal> {
        let mut read = self.begin_range(op)?;
        let is_walked = self.range_step(op, &mut read, &mut u64::MAX.clone())?;
        assert!(is_walked, "a step without a bound is whole");
        Ok(read.finish(op))
    }

    /// Starts to read a range. [`Store::range_step`] continues it.
    ///
    /// # Errors
    /// The revision is above the store's.
    pub fn begin_range(&self, op: &RangeOp<'_>) -> Result<RangeRead, Refusal> {
        RangeRead::begin(op, self.revision)
    }

    /// Does one step of a read: looks at up to `keys_left` keys, and subtracts their number from
    /// `keys_left`. True when all keys were looked at; then [`RangeRead::sort_step`] sorts them.
    ///
    /// # Errors
    /// The read's revision was compacted.
    pub fn range_step(
        &self,
        op: &RangeOp<'_>,
        read: &mut RangeRead,
        keys_left: &mut u64,
    ) -> Result<bool, Refusal> {
        self.range_step_within(op, read, keys_left, self.revision)
    }

    /// As [`Store::range_step`], with `current` as the present revision: the store's revision, or
    /// one above it within a transaction that has made a change.
    pub(crate) fn range_step_within(
        &self,
        op: &RangeOp<'_>,
        read: &mut RangeRead,
        keys_left: &mut u64,
        current: i64,
    ) -> Result<bool, Refusal> {
        let at = read.at;
        if read.is_walked {
            return Ok(true);
        }
        if at < self.compacted {
            return Err(Refusal::Compacted);
        }
        if !op.count_only
            && read.counting.is_none()
            && let Some(first) = self.first_created(op, at, current)
        {
            *keys_left = keys_left.saturating_sub(first.len() as u64);
            read.kept.set_first(first, self.index.live_count_of(op.range));
            read.is_walked = true;
            return Ok(true);
        }
        if !op.count_only && read.counting.is_none() {
            let key = read.next.as_deref().unwrap_or(op.range.key);
            let range = KeyRange { key, end: op.range.end };
            let (mut is_enough, mut seen) = (false, 0);
            let next = self.index.visit(range, at, keys_left, |event| {
                seen += 1;
                is_enough = read.kept.take(op, event);
                !is_enough
            });
            read.kept.found.count += seen;
            if !is_enough {
                read.is_walked = next.is_none();
                read.next = next;
                return Ok(read.is_walked);
            }
        }
        let counted = self.count_step(op.range, (at, current), &mut read.counting, keys_left);
        read.kept.found.count = counted.unwrap_or(read.kept.found.count);
        read.is_walked = counted.is_some();
        Ok(read.is_walked)
    }

    /// Does a part of the count of the keys in a range that exist at revision `at`. Returns the
    /// count when it is done; `None` if the step may look at no more keys. `current` is the present
    /// revision, as in [`Store::range_step_within`].
    fn count_step(
        &self,
        range: KeyRange<'_>,
        (at, current): (i64, i64),
        counting: &mut Option<Counting>,
        keys_left: &mut u64,
    ) -> Option<u64> {
        if counting.is_none() && at == current && !self.is_paused() {
            return Some(self.index.live_count_of(range));
        }
        match counting.get_or_insert_with(|| self.begin_count(range, at)) {
            Counting::Walk { next, count } => {
                let key = next.as_deref().unwrap_or(range.key);
                let rest = KeyRange { key, end: range.end };
                *next = self.index.visit(rest, at, keys_left, |_| {
                    *count += 1;
                    true
                });
                next.is_none().then_some(*count)
            }
            Counting::Back { behind, more } => {
                for event in self.tail.behind(*behind) {
                    if *keys_left == 0 {
                        return None;
                    }
                    *keys_left -= 1;
                    *behind = event.place();
                    if range.contains(event.key()) {
                        *more += event.key_count_change();
                    }
                }
                // Both numbers include the events of a paused command, so these events cancel out.
                Some(self.index.live_count_of(range).saturating_add_signed(-*more))
            }
        }
    }

    /// Chooses the cheaper way to count: a walk through the keys, or back through the later events.
    fn begin_count(&self, range: KeyRange<'_>, at: i64) -> Counting {
        let behind = Place { revision: at, sub: u32::MAX };
        let changes = self.tail.count_behind(behind);
        match changes.saturating_mul(ETCD_CHANGE_COST) > self.index.key_count_of(range) {
            true => Counting::Walk { next: None, count: 0 },
            false => Counting::Back { behind, more: 0 },
        }
    }
}

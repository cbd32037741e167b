//! Reading a range at one revision, at once or in steps.
//!
//! A read looks at the keys of its range, counts the others if it has enough before the end, and
//! puts what it has found in order. Each of the three goes in steps, all at one revision. A read
//! that has an order and a limit never holds more than the limit.

use core::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::etcd::command::{KeyRange, RangeOp, SortOrder, SortTarget};
use crate::etcd::event::{Event, Place};
use crate::etcd::reply::{Found, Refusal};
use crate::etcd::run::weight_of;
use crate::etcd::sorting::Sorting;
use crate::etcd::store::Store;
use crate::limits::ETCD_CHANGE_COST;

/// A read of a range that is not done. All steps read at one revision.
#[derive(Debug)]
pub struct RangeRead {
    /// The revision.
    at: i64,
    /// The first key that was not looked at; none before the first step.
    next: Option<Box<[u8]>>,
    /// Whether all keys were looked at, or counted.
    is_walked: bool,
    kept: Kept,
    /// The count of the keys, where it goes on.
    counting: Option<Counting>,
    /// The work of putting the versions in order, once it has begun.
    sorting: Option<Sorting>,
}

/// What a read keeps of the keys that it has looked at.
#[derive(Debug)]
struct Kept {
    found: Found,
    /// The first of the versions that were admitted, where there are an order and a limit.
    best: BinaryHeap<Ranked>,
    /// The number of versions that were admitted.
    admitted: u64,
    /// The weight of the versions that are kept.
    weight: u64,
}

/// A count of the keys of a range that is not done.
#[derive(Debug)]
enum Counting {
    /// By a walk through the keys, from this one on.
    Walk { next: Option<Box<[u8]>>, count: u64 },
    /// Back from the number of the present: how many more keys were made than removed between the
    /// revision and this event.
    Back { behind: Place, more: i64 },
}

/// The order of a read's result. Versions that are equal in the field stand in the order of their
/// keys; etcd promises none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    target: SortTarget,
    is_descending: bool,
}

impl Order {
    /// The order that a read asks for, if that is not the order of the keys.
    pub fn of(op: &RangeOp<'_>) -> Option<Order> {
        let is_descending = op.order == SortOrder::Descend;
        let is_of_keys = op.target == SortTarget::Key && !is_descending;
        (!is_of_keys).then_some(Order { target: op.target, is_descending })
    }

    /// Compares two versions of different keys.
    pub fn compare(self, one: &Event, other: &Event) -> Ordering {
        let by_field = match self.target {
            SortTarget::Key => one.key().cmp(other.key()),
            SortTarget::Version => one.numbers().version.cmp(&other.numbers().version),
            SortTarget::Create => {
                one.numbers().create_revision.cmp(&other.numbers().create_revision)
            }
            SortTarget::Mod => one.revision().cmp(&other.revision()),
            SortTarget::Value => one.value().cmp(other.value()),
        };
        let by_field = if self.is_descending { by_field.reverse() } else { by_field };
        by_field.then_with(|| one.key().cmp(other.key()))
    }
}

/// A version in the order of its read: the last one is the greatest.
#[derive(Debug)]
pub(crate) struct Ranked {
    pub event: Event,
    order: Order,
}

impl Ord for Ranked {
    fn cmp(&self, other: &Ranked) -> Ordering {
        self.order.compare(&self.event, &other.event)
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Ranked) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Ranked) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ranked {}

impl Store {
    /// Reads a range at the present revision, or at an older one.
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

    /// Begins to read a range. The steps follow.
    ///
    /// # Errors
    /// The revision is above the store's.
    pub fn begin_range(&self, op: &RangeOp<'_>) -> Result<RangeRead, Refusal> {
        RangeRead::begin(op, self.revision)
    }

    /// Goes on with a read of a range, looks at up to `keys_left` keys, and takes them off it.
    /// Whether all keys were looked at; then [`RangeRead::sort_step`] follows.
    ///
    /// # Errors
    /// The revision is compacted by now.
    pub fn range_step(
        &self,
        op: &RangeOp<'_>,
        read: &mut RangeRead,
        keys_left: &mut u64,
    ) -> Result<bool, Refusal> {
        self.range_step_within(op, read, keys_left, self.revision)
    }

    /// As [`Store::range_step`], where `current` is the present revision: within a transaction that
    /// is the one of its changes, once it has any.
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

    /// Goes on counting the keys of a range that exist at the revision `at`. None if the step may
    /// do no more. `current` is the present revision, which within a transaction is above the
    /// store's, once there is a change.
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
                // Events of a command that is paused count on both sides.
                Some(self.index.live_count_of(range).saturating_add_signed(-*more))
            }
        }
    }

    /// Chooses the shorter way to count.
    fn begin_count(&self, range: KeyRange<'_>, at: i64) -> Counting {
        let behind = Place { revision: at, sub: u32::MAX };
        let changes = self.tail.count_behind(behind);
        match changes.saturating_mul(ETCD_CHANGE_COST) > self.index.key_count_of(range) {
            true => Counting::Walk { next: None, count: 0 },
            false => Counting::Back { behind, more: 0 },
        }
    }
}

impl Kept {
    /// Takes the next version, by key, if the read admits it. Whether the read has enough.
    fn take(&mut self, op: &RangeOp<'_>, event: &Event) -> bool {
        if !is_admitted(op, event) {
            return false;
        }
        self.admitted += 1;
        let limit = limit(op);
        if is_plain(op) {
            self.push(op, event);
            return self.found.events.len() > limit;
        }
        match Order::of(op) {
            Some(order) if limit < usize::MAX => self.push_ranked(op, limit, order, event),
            _ if self.found.events.len() < limit => self.push(op, event),
            _ => {}
        }
        false
    }

    /// Takes the versions that an order of creation has given in the place of a walk: the first,
    /// and another one if there is one.
    fn set_first(&mut self, first: Vec<Event>, count: u64) {
        self.best.clear();
        self.admitted = first.len() as u64;
        (self.found.events, self.found.count) = (first, count);
    }

    fn push(&mut self, op: &RangeOp<'_>, event: &Event) {
        self.weight += weight_of(event, op.keys_only);
        self.found.events.push(event.clone());
    }

    /// Takes a version in the place of the last one, if it is before that in the order.
    fn push_ranked(&mut self, op: &RangeOp<'_>, limit: usize, order: Order, event: &Event) {
        if self.best.len() == limit {
            let is_before = |last: &Ranked| order.compare(event, &last.event) == Ordering::Less;
            if !self.best.peek().is_some_and(is_before) {
                return;
            }
            let last = self.best.pop();
            self.weight -= last.map_or(0, |last| weight_of(&last.event, op.keys_only));
        }
        self.weight += weight_of(event, op.keys_only);
        self.best.push(Ranked { event: event.clone(), order });
    }
}

impl RangeRead {
    /// Begins a read where `current` is the present revision.
    pub(crate) fn begin(op: &RangeOp<'_>, current: i64) -> Result<RangeRead, Refusal> {
        let at = match op.revision {
            revision if revision > current => return Err(Refusal::FutureRevision),
            ..=0 => current,
            revision => revision,
        };
        let (events, keys_only) = (Vec::new(), op.keys_only);
        let found = Found { revision: current, events, keys_only, count: 0, more: false };
        let kept = Kept { found, best: BinaryHeap::new(), admitted: 0, weight: 0 };
        let (next, counting, sorting) = (None, None, None);
        Ok(RangeRead { at, next, is_walked: false, kept, counting, sorting })
    }

    /// The weight of the versions that it holds, in bytes: that of an answer with them, or of the
    /// references to them if that is more.
    pub fn held_weight(&self) -> u64 {
        self.kept.weight
    }

    /// The versions that it holds, in no order.
    pub(crate) fn into_events(mut self) -> Vec<Event> {
        let ranked = self.kept.best.into_iter().map(|ranked| ranked.event);
        self.kept.found.events.extend(ranked);
        self.kept.found.events
    }

    /// Goes on putting the versions of a read in order, all keys of which were looked at, and takes
    /// each that it moves off `count_left`. Whether it is done. It needs no lock.
    pub fn sort_step(&mut self, op: &RangeOp<'_>, count_left: &mut u64) -> bool {
        let Some(order) = Order::of(op) else { return true };
        let sorting = self.sorting.get_or_insert_with(|| {
            let events = core::mem::take(&mut self.kept.found.events);
            Sorting::new(order, events, core::mem::take(&mut self.kept.best).into_vec())
        });
        sorting.step(count_left)
    }

    /// The result, once [`RangeRead::sort_step`] has said that it is done, or at once.
    pub fn finish(mut self, op: &RangeOp<'_>) -> Found {
        let is_sorted = self.sort_step(op, &mut u64::MAX.clone());
        assert!(is_sorted, "a step without a bound is whole");
        let Kept { mut found, admitted, .. } = self.kept;
        if let Some(sorting) = self.sorting {
            found.events = sorting.finish();
        }
        let limit = limit(op);
        found.more = admitted > limit as u64;
        found.events.truncate(limit);
        found
    }
}

fn limit(op: &RangeOp<'_>) -> usize {
    usize::try_from(op.limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX)
}

/// Whether a read takes keys in their order until it has enough. A selection or an order takes all
/// keys first.
pub fn is_plain(op: &RangeOp<'_>) -> bool {
    let selects = op.mod_revision != Default::default() || op.create_revision != Default::default();
    !selects && (op.order == SortOrder::None || Order::of(op).is_none())
}

/// Whether the bounds of revisions of a read admit a version.
fn is_admitted(op: &RangeOp<'_>, event: &Event) -> bool {
    let (by_mod, by_create) = (op.mod_revision, op.create_revision);
    let admits = |min: i64, max: i64, revision: i64| {
        (min == 0 || revision >= min) && (max == 0 || revision <= max)
    };
    if by_create != Default::default() {
        let created = event.numbers().create_revision;
        if !admits(by_create.min, by_create.max, created) {
            return false;
        }
    }
    admits(by_mod.min, by_mod.max, event.revision())
}

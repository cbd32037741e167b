//! Reads a range of keys at one revision, at once or in steps.
//!
//! A read walks through the keys of its range, unless an order that the store keeps for this range
//! (`created.rs`) already has the answer. If the read has enough keys before the end of the range,
//! it stops the walk and counts all keys of the range. Then it sorts what it found. The walk, the
//! count and the sorting are each done in steps, all at one revision. A read with an order and a
//! limit never holds more versions than the limit.

use core::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::etcd::command::{RangeOp, SortOrder, SortTarget};
use crate::etcd::event::{Event, Place};
use crate::etcd::reply::{Found, Refusal};
use crate::etcd::shown::weight_of;
use crate::etcd::sorting::Sorting;

/// The progress of a read of a range. All steps read at one revision.
#[derive(Debug)]
pub struct RangeRead {
    /// The revision at which the read looks.
    pub(super) at: i64,
    /// The first key that was not looked at; `None` before the first step.
    pub(super) next: Option<Box<[u8]>>,
    /// Whether all keys of the range were looked at or counted: only sorting is left.
    pub(super) is_walked: bool,
    pub(super) kept: Kept,
    /// The count of the range's keys, once the read has enough keys.
    pub(super) counting: Option<Counting>,
    /// The progress of sorting, once that has begun.
    pub(super) sorting: Option<Sorting>,
}

/// The versions that a read has found so far.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) found: Found,
    /// If the read has an order and a limit: the best versions so far, at most as many as the
    /// limit.
    pub(super) best: BinaryHeap<Ranked>,
    /// How many versions were within the read's bounds on revisions.
    pub(super) admitted: u64,
    /// The weight of the versions that are held, in bytes; see [`weight_of`].
    pub(super) weight: u64,
}

/// The progress of a count of the keys in a range.
#[derive(Debug)]
pub(super) enum Counting {
    /// By a walk through the keys, from `next` on.
    Walk { next: Option<Box<[u8]>>, count: u64 },
    /// Backwards from the present number of keys. `more` is how many keys were created, less those
    /// deleted, from the read's revision up to the event at `behind`.
    Back { behind: Place, more: i64 },
}

/// The order of a read's result, other than by ascending key. Versions whose fields are equal are
/// sorted by key; etcd promises no order for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    target: SortTarget,
    is_descending: bool,
}

impl Order {
    /// The order that a read asks for; `None` if that is by ascending key.
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

/// A version, compared with others by the order that its read asks for; the greatest is the last in
/// the result.
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

impl Kept {
    /// Takes the next version of the walk if it is within the read's bounds. True if the read needs
    /// no further version.
    pub(super) fn take(&mut self, op: &RangeOp<'_>, event: &Event) -> bool {
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

    /// Sets the result from a creation order, without a walk: `first` is the first version, and one
    /// more if there is any; `count` is the number of keys in the range.
    pub(super) fn set_first(&mut self, first: Vec<Event>, count: u64) {
        self.best.clear();
        self.admitted = first.len() as u64;
        (self.found.events, self.found.count) = (first, count);
    }

    fn push(&mut self, op: &RangeOp<'_>, event: &Event) {
        self.weight += weight_of(event, op.keys_only);
        self.found.events.push(event.clone());
    }

    /// Takes the version `event` if fewer than `limit` versions are held. Else, if `event` comes
    /// before the last of the held versions, it takes that version's place.
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
    /// Starts a read; `current` is the present revision. Refuses a revision above it.
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

    /// The weight of the versions that the read holds, in bytes: for each, its bytes in an answer,
    /// or its memory as a reference if that is more.
    pub fn held_weight(&self) -> u64 {
        self.kept.weight
    }

    /// The versions that the read holds, in no particular order.
    pub(crate) fn into_events(mut self) -> Vec<Event> {
        let ranked = self.kept.best.into_iter().map(|ranked| ranked.event);
        self.kept.found.events.extend(ranked);
        self.kept.found.events
    }

    /// Does a part of the sorting, once all keys were looked at. Moves up to about `count_left`
    /// versions, and subtracts their number from `count_left`. True when the result is sorted.
    /// Needs no lock.
    pub fn sort_step(&mut self, op: &RangeOp<'_>, count_left: &mut u64) -> bool {
        let Some(order) = Order::of(op) else { return true };
        let sorting = self.sorting.get_or_insert_with(|| {
            let events = core::mem::take(&mut self.kept.found.events);
            Sorting::new(order, events, core::mem::take(&mut self.kept.best).into_vec())
        });
        sorting.step(count_left)
    }

    /// The result. Sorts what [`RangeRead::sort_step`] has not sorted yet.
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

/// Whether a read takes keys in ascending order until it has enough. A read with another order, or
/// with bounds on revisions, must look at all keys first.
pub fn is_plain(op: &RangeOp<'_>) -> bool {
    let selects = op.mod_revision != Default::default() || op.create_revision != Default::default();
    !selects && (op.order == SortOrder::None || Order::of(op).is_none())
}

/// Whether a version is within the read's bounds on revisions.
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

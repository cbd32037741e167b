//! Reading a range at one revision, at once or in steps.

use crate::etcd::command::{KeyRange, RangeOp, SortOrder, SortTarget};
use crate::etcd::event::{Event, Place};
use crate::etcd::reply::{Found, Refusal};
use crate::etcd::store::Store;
use crate::limits::ETCD_CHANGE_COST;

/// A read of a range that is not done. All steps read at one revision.
#[derive(Debug)]
pub struct RangeRead {
    /// The revision.
    at: i64,
    /// The first key that was not looked at; none before the first step.
    next: Option<Box<[u8]>>,
    found: Found,
}

impl Store {
    /// Reads a range at the present revision, or at an older one.
    ///
    /// etcd 3.6 `txn.executeRange`, `mvcc.storeTxnCommon.rangeKeys`.
    ///
    /// # Errors
    /// The revision is compacted, or above the store's.
    pub fn range(&self, op: &RangeOp<'_>) -> Result<Found, Refusal> {
        self.range_from(op, self.revision)
    }

    /// As [`Store::range`], where `current` is the present revision: within a transaction that is
    /// the one of its changes, once it has any.
    pub(crate) fn range_from(&self, op: &RangeOp<'_>, current: i64) -> Result<Found, Refusal> {
        let mut read = begin(op, current)?;
        let is_done = self.go_on(op, &mut read, &mut u64::MAX.clone(), current)?;
        assert!(is_done, "a step without a bound is whole");
        Ok(finish(op, read))
    }

    /// Begins to read a range. The steps follow.
    ///
    /// # Errors
    /// The revision is above the store's.
    pub fn begin_range(&self, op: &RangeOp<'_>) -> Result<RangeRead, Refusal> {
        begin(op, self.revision)
    }

    /// Goes on with a read of a range, looks at up to `keys_left` keys, and takes them off it.
    /// Whether the read is done; [`finish`] makes its result.
    ///
    /// # Errors
    /// The revision is compacted by now.
    pub fn range_step(
        &self,
        op: &RangeOp<'_>,
        read: &mut RangeRead,
        keys_left: &mut u64,
    ) -> Result<bool, Refusal> {
        self.go_on(op, read, keys_left, self.revision)
    }

    fn go_on(
        &self,
        op: &RangeOp<'_>,
        read: &mut RangeRead,
        keys_left: &mut u64,
        current: i64,
    ) -> Result<bool, Refusal> {
        let at = read.at;
        if at < self.compacted {
            return Err(Refusal::Compacted);
        }
        if op.count_only {
            read.found.count = self.count(op.range, at, current);
            return Ok(true);
        }
        let kept_max = kept_max(op);
        let key = read.next.as_deref().unwrap_or(op.range.key);
        let range = KeyRange { key, end: op.range.end };
        let found = &mut read.found;
        let mut is_enough = false;
        let next = self.index.visit(range, at, keys_left, |event| {
            found.count += 1;
            if is_selected(op, event) {
                found.events.push(event.clone());
            }
            is_enough = found.events.len() == kept_max;
            !is_enough
        });
        if is_enough {
            found.count = self.count(op.range, at, current);
            return Ok(true);
        }
        let is_done = next.is_none();
        read.next = next;
        Ok(is_done)
    }

    /// The number of keys of a range that exist at a revision. `current` is the present one, which
    /// within a transaction is above the store's, once there is a change.
    fn count(&self, range: KeyRange<'_>, at: i64, current: i64) -> u64 {
        if at == current && !self.is_paused() {
            return self.index.live_count_of(range);
        }
        let behind = Place { revision: at, sub: u32::MAX };
        let changes = self.tail.count_behind(behind);
        if changes.saturating_mul(ETCD_CHANGE_COST) > self.index.key_count_of(range) {
            return self.index.walk_count(range, at);
        }
        let mut count = self.index.live_count_of(range);
        let changed = self.tail.behind(behind).filter(|event| range.contains(event.key()));
        for (existed, exists) in changed.filter_map(|event| self.index.change_since(at, event)) {
            count = count + u64::from(existed) - u64::from(exists);
        }
        count
    }
}

fn begin(op: &RangeOp<'_>, current: i64) -> Result<RangeRead, Refusal> {
    let at = match op.revision {
        revision if revision > current => return Err(Refusal::FutureRevision),
        ..=0 => current,
        revision => revision,
    };
    let (events, keys_only) = (Vec::new(), op.keys_only);
    let found = Found { revision: current, events, keys_only, count: 0, more: false };
    Ok(RangeRead { at, next: None, found })
}

/// The result of a read whose steps are done: orders the versions, and keeps as many as were asked
/// for. It needs no lock.
pub fn finish(op: &RangeOp<'_>, read: RangeRead) -> Found {
    let mut found = read.found;
    let limit = limit(op);
    sort(op, &mut found.events);
    found.more = found.events.len() > limit;
    found.events.truncate(limit);
    found
}

fn limit(op: &RangeOp<'_>) -> usize {
    usize::try_from(op.limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX)
}

/// Whether a read takes keys in their order until it has enough. A selection or an order takes all
/// keys first.
pub fn is_plain(op: &RangeOp<'_>) -> bool {
    let selects = op.mod_revision != Default::default() || op.create_revision != Default::default();
    !selects && op.order == SortOrder::None
}

/// The most versions that a read keeps.
fn kept_max(op: &RangeOp<'_>) -> usize {
    if is_plain(op) { limit(op).saturating_add(1) } else { usize::MAX }
}

/// Whether the bounds of revisions of a read admit a version.
fn is_selected(op: &RangeOp<'_>, event: &Event) -> bool {
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

/// Orders versions, which come by key. Versions that are equal in the field stay in the order of
/// their keys; etcd promises none.
fn sort(op: &RangeOp<'_>, events: &mut [Event]) {
    let is_descending = op.order == SortOrder::Descend;
    let compare = |one: &Event, other: &Event| match op.target {
        SortTarget::Key => one.key().cmp(other.key()),
        SortTarget::Version => one.numbers().version.cmp(&other.numbers().version),
        SortTarget::Create => one.numbers().create_revision.cmp(&other.numbers().create_revision),
        SortTarget::Mod => one.revision().cmp(&other.revision()),
        SortTarget::Value => one.value().cmp(other.value()),
    };
    if is_descending {
        events.sort_by(|one, other| compare(other, one));
    } else if op.target != SortTarget::Key {
        events.sort_by(compare);
    }
}

//! Creation orders: for some ranges, the existing keys sorted by the revision that created each.
//!
//! A client that waits for a lock asks for the key of a range that was created first, or for the
//! last one created before its own (`client/v3/concurrency` of etcd 3.6). Without an order, each
//! such read walks through all waiters; with an order, it finds the answer at once.
//!
//! Orders are not state: they follow from the index, and change no answer. A store begins without
//! any. A read asks for an order, Apply builds it in steps, and from then on each create and each
//! deletion of a key updates it. Invariants:
//!
//! - An order has exactly the keys of its range that exist. The changes that a partly applied
//!   command has made so far count. An order that is being built has only the keys below its `next`
//!   key. Keys that are too long are only counted, and while there are any, the order answers no
//!   read.
//! - A key is in the range of at most one order, so a write updates at most one.
//! - At most one order is being built, and none is started while a dropped one is being freed.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::OnceLock;

use crate::etcd::command::{Bounds, KeyRange, RangeOp, SortOrder, SortTarget};
use crate::etcd::event::Event;
use crate::etcd::index::Index;
use crate::limits::{
    ETCD_ORDER_IDLE_READS, ETCD_ORDER_IDLE_WRITES, ETCD_ORDER_KEY_BYTES_MAX, ETCD_ORDER_KEYS_MIN,
    ETCD_ORDER_STEP_KEYS, ETCD_ORDERED_KEYS_MAX, ETCD_ORDERS_MAX,
};

/// All creation orders of a store.
#[derive(Default)]
pub(crate) struct CreationOrders {
    /// The orders that are complete, sorted by the first key of their ranges.
    whole: Vec<Order>,
    build: Option<Build>,
    /// The number of keys in all these orders, the one being built included.
    key_count: usize,
    /// The keys of dropped orders, which are freed in steps.
    dropped: Vec<BTreeSet<CreatedKey>>,
    /// The range of a read that found no order. Apply takes it and starts to build one.
    wanted: OnceLock<OwnedRange>,
    /// How many reads so far could have used an order, whether they found one or not.
    read_count: AtomicU64,
    limits: OrderLimits,
}

/// Bounds of the orders, for which tests set lower values.
struct OrderLimits {
    /// The fewest keys in a range that may have an order.
    keys_min: u64,
    /// The most keys in all orders together.
    keys_max: usize,
    orders_max: usize,
    /// After this many reads of other ranges, an order counts as out of use.
    idle_reads: u64,
    /// An order is dropped if more keys than this were created and deleted in its range since its
    /// last read.
    idle_writes: u64,
    /// The most keys that one step of Apply adds or frees.
    step_keys: u64,
}

impl Default for OrderLimits {
    fn default() -> Self {
        OrderLimits {
            keys_min: ETCD_ORDER_KEYS_MIN,
            keys_max: ETCD_ORDERED_KEYS_MAX,
            orders_max: ETCD_ORDERS_MAX,
            idle_reads: ETCD_ORDER_IDLE_READS,
            idle_writes: ETCD_ORDER_IDLE_WRITES,
            step_keys: ETCD_ORDER_STEP_KEYS,
        }
    }
}

/// The creation order of one range.
struct Order {
    range: OwnedRange,
    keys: CreatedKeys,
    /// The value of `read_count` at the last read of this order, or at the end of its build.
    last_read: AtomicU64,
    /// The number of keys created and deleted in the range since that read.
    writes_since: AtomicU64,
}

#[derive(Default)]
struct CreatedKeys {
    in_order: BTreeSet<CreatedKey>,
    /// The number of keys that are too long to be in `in_order`. Unless it is 0, the order answers
    /// no read.
    long_count: u64,
}

/// An order that is being built.
struct Build {
    order: Order,
    /// The first key that the build has not looked at.
    next: Box<[u8]>,
}

/// An existing key, sorted by the revision that created it. Keys that one transaction created are
/// sorted by key.
///
/// It copies the key: sharing the version that created the key would keep that version's value in
/// memory.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct CreatedKey {
    revision: i64,
    key: Box<[u8]>,
}

/// An owned [`KeyRange`].
struct OwnedRange {
    key: Box<[u8]>,
    end: Box<[u8]>,
}

/// Whether a read asks for the one version with the lowest or the highest creation revision.
fn is_for_first_created(op: &RangeOp<'_>) -> bool {
    let is_first = op.target == SortTarget::Create && op.limit == 1 && !op.count_only;
    // Otherwise the limit applies to a walk by key, so the read asks for the lowest key.
    let is_sorted = op.order != SortOrder::None || op.create_revision != Bounds::default();
    is_first && is_sorted && op.mod_revision == Bounds::default()
}

impl CreationOrders {
    /// Answers a read that asks for the version with the lowest or highest creation revision:
    /// returns that version, and one more that is within the read's bounds if there is any, which
    /// shows that the limit left something out. `None` if no order can answer: then the read must
    /// walk through the range.
    pub fn first_created(&self, op: &RangeOp<'_>, index: &Index) -> Option<Vec<Event>> {
        if !is_for_first_created(op) {
            return None;
        }
        let newest = |key: &[u8]| index.newest(key).expect("an order has keys that exist").clone();
        Some(self.read(op, index)?.into_iter().map(newest).collect())
    }

    /// Builds the creation order of the range of a read at the present revision, if that range may
    /// have an order. Looks at up to `keys_left` keys, and subtracts their number from `keys_left`.
    /// False if the build is not done.
    pub fn step(&mut self, op: &RangeOp<'_>, index: &Index, keys_left: &mut u64) -> bool {
        if !is_for_first_created(op) || !self.may_begin(op.range, index) {
            return true;
        }
        // Only one order is built at a time, so finish the present one first.
        if !self.build_step(index, keys_left) {
            return false;
        }
        self.begin(op.range, index);
        self.build_step(index, keys_left)
    }

    /// Notes that a command has created a key at this revision.
    pub fn on_create(&mut self, key: &[u8], revision: i64) {
        if !self.is_empty() {
            self.on_write(key, |keys| keys.insert(revision, key));
        }
    }

    /// Notes that a command deletes a key; `before` is the key's last version.
    pub fn on_delete(&mut self, before: &Event) {
        if !self.is_empty() {
            let (revision, key) = (before.numbers().create_revision, before.key());
            self.on_write(key, |keys| keys.remove(revision, key));
        }
    }

    fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.build.is_none()
    }

    /// Updates the order that has this key. Drops the order if there are too many keys in all
    /// orders, if the order has no key left, or if nobody has read the order for many writes.
    fn on_write(&mut self, key: &[u8], change: impl FnOnce(&mut CreatedKeys)) {
        let OrderLimits { keys_max, idle_writes, .. } = self.limits;
        let Some(order) = self.order_of(key) else { return };
        let count_before = order.keys.in_order.len();
        change(&mut order.keys);
        let count = order.keys.in_order.len();
        let writes = order.writes_since.get_mut();
        *writes += 1;
        let is_over = *writes > idle_writes || order.keys.is_empty();
        self.key_count = self.key_count - count_before + count;
        if is_over || self.key_count > keys_max {
            self.drop_order_of(key);
        }
    }

    /// Whether [`CreationOrders::tend`] has anything to do.
    pub fn has_work(&self) -> bool {
        self.build.is_some() || !self.dropped.is_empty() || self.wanted.get().is_some()
    }

    /// One step of the upkeep: frees some keys of dropped orders, and builds a part of an order
    /// that a read has asked for.
    pub fn tend(&mut self, index: &Index) {
        let mut keys_left = self.limits.step_keys;
        self.free(&mut keys_left);
        if self.dropped.is_empty()
            && self.build.is_none()
            && let Some(wanted) = self.wanted.take()
        {
            self.begin(wanted.range(), index);
        }
        self.build_step(index, &mut keys_left);
    }

    /// Frees up to `keys_left` keys of dropped orders, and subtracts their number from `keys_left`.
    fn free(&mut self, keys_left: &mut u64) {
        while *keys_left > 0
            && let Some(keys) = self.dropped.last_mut()
        {
            match keys.pop_first() {
                Some(_) => *keys_left -= 1,
                None => drop(self.dropped.pop()),
            }
        }
    }

    /// The key that a read asks for, and one more that is within the read's bounds if there is any.
    /// If the range has no order, returns `None`, and asks Apply to build the order.
    fn read(&self, op: &RangeOp<'_>, index: &Index) -> Option<Vec<&[u8]>> {
        let Some(order) = self.whole_order(op.range) else {
            if self.is_worth_an_order(op.range, index) {
                self.read_count.fetch_add(1, Ordering::Relaxed);
                if self.wanted.get().is_none() && !self.is_being_built(op.range) {
                    // It fails if another reader has left a request first, which is fine.
                    let _ = self.wanted.set(OwnedRange::of(op.range));
                }
            }
            return None;
        };
        let read_count = self.read_count.fetch_add(1, Ordering::Relaxed) + 1;
        order.last_read.store(read_count, Ordering::Relaxed);
        order.writes_since.store(0, Ordering::Relaxed);
        (order.keys.long_count == 0).then(|| order.keys.first(op))
    }

    fn is_being_built(&self, range: KeyRange<'_>) -> bool {
        self.build.as_ref().is_some_and(|build| build.order.range.range() == range)
    }

    /// The complete order of exactly this range; `None` if there is none.
    fn whole_order(&self, range: KeyRange<'_>) -> Option<&Order> {
        let at = self.whole.binary_search_by(|order| (*order.range.key).cmp(range.key)).ok()?;
        Some(&self.whole[at]).filter(|order| order.range.range() == range)
    }

    /// The order to update when this key changes. `None` if no order covers the key, or if the
    /// order is being built and the build has not reached the key.
    fn order_of(&mut self, key: &[u8]) -> Option<&mut Order> {
        if let Some(build) = &mut self.build
            && build.order.range.range().contains(key)
        {
            return (key < &*build.next).then_some(&mut build.order);
        }
        let behind = self.whole.partition_point(|order| *order.range.key <= *key);
        let order = &mut self.whole[behind.checked_sub(1)?];
        order.range.range().contains(key).then_some(order)
    }

    /// Whether an order for this range may be started, provided that no other one is being built.
    fn may_begin(&self, range: KeyRange<'_>, index: &Index) -> bool {
        let read_count = self.read_count.load(Ordering::Relaxed);
        let is_in_use = |order: &Order| read_count - order.last_read() < self.limits.idle_reads;
        let mut overlapping = self.whole.iter().filter(|order| order.range.overlaps(range));
        self.whole_order(range).is_none()
            && self.dropped.is_empty()
            && self.is_worth_an_order(range, index)
            && !overlapping.any(is_in_use)
    }

    /// Starts to build the order of a range, if the range may have one. First drops the orders that
    /// overlap it, and others as far as the limits on all orders demand.
    fn begin(&mut self, range: KeyRange<'_>, index: &Index) {
        if self.build.is_some() || !self.may_begin(range, index) {
            return;
        }
        while let Some(at) = self.whole.iter().position(|order| order.range.overlaps(range)) {
            self.drop_whole(at);
        }
        let key_count = index.key_count_of(range) as usize;
        while self.whole.len() >= self.limits.orders_max
            || self.key_count + key_count > self.limits.keys_max
        {
            let by_last_read = |at: &usize| self.whole[*at].last_read();
            let Some(at) = (0..self.whole.len()).min_by_key(by_last_read) else { return };
            self.drop_whole(at);
        }
        let (range, next) = (OwnedRange::of(range), range.key.into());
        let (keys, last_read, writes_since) = Default::default();
        let order = Order { range, keys, last_read, writes_since };
        self.build = Some(Build { order, next });
    }

    /// Continues the present build: looks at up to `keys_left` keys, and subtracts their number
    /// from `keys_left`. True if no build is left.
    fn build_step(&mut self, index: &Index, keys_left: &mut u64) -> bool {
        let Some(Build { mut order, next }) = self.build.take() else { return true };
        let left = KeyRange { key: &next, end: &order.range.end };
        let keys = &mut order.keys;
        let in_others = self.key_count - keys.in_order.len();
        let room = self.limits.keys_max - in_others;
        let next = index.visit(left, i64::MAX, keys_left, |event| {
            keys.insert(event.numbers().create_revision, event.key());
            keys.in_order.len() <= room
        });
        self.key_count = in_others + keys.in_order.len();
        if self.key_count > self.limits.keys_max {
            self.drop_order(order);
            return true;
        }
        if let Some(next) = next {
            self.build = Some(Build { order, next });
            return false;
        }
        order.last_read = AtomicU64::new(*self.read_count.get_mut());
        let at = self.whole.partition_point(|other| other.range.key < order.range.key);
        self.whole.insert(at, order);
        true
    }

    /// Drops the order whose range has this key.
    fn drop_order_of(&mut self, key: &[u8]) {
        let has_key = |order: &Order| order.range.range().contains(key);
        if let Some(build) = self.build.take_if(|build| has_key(&build.order)) {
            self.drop_order(build.order);
        } else if let Some(at) = self.whole.iter().position(has_key) {
            self.drop_whole(at);
        }
    }

    fn drop_whole(&mut self, at: usize) {
        let order = self.whole.remove(at);
        self.drop_order(order);
    }

    fn drop_order(&mut self, order: Order) {
        self.key_count -= order.keys.in_order.len();
        self.dropped.push(order.keys.in_order);
    }

    /// Whether the number of keys in a range makes an order worthwhile. Deleted keys that are not
    /// pruned yet count too, since a walk looks at them.
    fn is_worth_an_order(&self, range: KeyRange<'_>, index: &Index) -> bool {
        let OrderLimits { keys_min, keys_max, .. } = self.limits;
        (keys_min..=keys_max as u64).contains(&index.key_count_of(range))
    }
}

impl Order {
    fn last_read(&self) -> u64 {
        self.last_read.load(Ordering::Relaxed)
    }
}

impl CreatedKeys {
    fn is_empty(&self) -> bool {
        self.in_order.is_empty() && self.long_count == 0
    }

    /// Adds a key.
    fn insert(&mut self, revision: i64, key: &[u8]) {
        if key.len() > ETCD_ORDER_KEY_BYTES_MAX {
            self.long_count += 1;
            return;
        }
        let is_new = self.in_order.insert(CreatedKey { revision, key: key.into() });
        assert!(is_new, "a key is created once before it is removed");
    }

    /// Removes a key.
    fn remove(&mut self, revision: i64, key: &[u8]) {
        if key.len() > ETCD_ORDER_KEY_BYTES_MAX {
            self.long_count -= 1;
            return;
        }
        let was_there = self.in_order.remove(&CreatedKey { revision, key: key.into() });
        assert!(was_there, "an order has each key that exists");
    }

    /// The key that is first in the order that a read asks for, and one more within its bounds if
    /// there is any. Keys with equal revisions are in ascending order of key, in both directions.
    fn first(&self, op: &RangeOp<'_>) -> Vec<&[u8]> {
        let Bounds { min, max } = op.create_revision;
        let lowest = if min == 0 { i64::MIN } else { min };
        let highest = if max == 0 { i64::MAX } else { max };
        if lowest > highest {
            return Vec::new();
        }
        let end = highest.checked_add(1).map(CreatedKey::before_all);
        let end = end.map_or(Bound::Unbounded, Bound::Excluded);
        let mut admitted =
            self.in_order.range((Bound::Included(CreatedKey::before_all(lowest)), end));
        if op.order != SortOrder::Descend {
            return admitted.take(2).map(CreatedKey::key).collect();
        }
        let Some(last) = admitted.next_back() else { return Vec::new() };
        let mut from = self.in_order.range(CreatedKey::before_all(last.revision)..);
        let first = from.next().expect("the last one has this revision");
        let other = if first == last { admitted.next_back() } else { Some(last) };
        [Some(first), other].into_iter().flatten().map(CreatedKey::key).collect()
    }
}

impl CreatedKey {
    /// Sorts before each key of this revision, since no key is empty. It allocates no memory.
    fn before_all(revision: i64) -> CreatedKey {
        CreatedKey { revision, key: Box::default() }
    }

    fn key(&self) -> &[u8] {
        &self.key
    }
}

impl OwnedRange {
    fn of(range: KeyRange<'_>) -> OwnedRange {
        OwnedRange { key: range.key.into(), end: range.end.into() }
    }

    fn range(&self) -> KeyRange<'_> {
        KeyRange { key: &self.key, end: &self.end }
    }

    /// Whether two ranges may have a key in common. Neither may be the range of a single key, whose
    /// empty end means something else.
    fn overlaps(&self, other: KeyRange<'_>) -> bool {
        let begins_before_end = |key: &[u8], end: &[u8]| end == [0] || key < end;
        begins_before_end(&self.key, other.end) && begins_before_end(other.key, &self.end)
    }
}

#[cfg(test)]
mod tests;

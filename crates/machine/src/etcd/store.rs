//! etcd's store: the keys with their history above the compacted revision, and of older history
//! only the version that each key had at the compacted revision.
//!
//! The versions at the compacted revision are the *base*; the events above it are the *tail*. A
//! watch may start at the compacted revision, so the deletions at it count to the base too. The
//! bytes and the digest of base and tail are kept as sums, equal on all members, however much each
//! member has pruned from its memory. A compaction changes the sums at once; pruning follows in
//! steps.

use std::sync::Arc;

use crate::codec::Write;
use crate::digest::Digest;
use crate::etcd::alarm::Alarms;
use crate::etcd::auth::Auth;
use crate::etcd::budget::Budget;
use crate::etcd::change::Changes;
use crate::etcd::command::{KeyRange, RangeOp};
use crate::etcd::created::CreationOrders;
use crate::etcd::edge::{CompactSoFar, Edge};
use crate::etcd::event::{Event, Place, Version};
use crate::etcd::garbage::Garbage;
use crate::etcd::index::{Index, LookedAt};
use crate::etcd::lease::{Lease, Leases, UserTag};
use crate::etcd::paused::Paused;
use crate::etcd::reply::Refusal;
use crate::etcd::settings::Settings;
use crate::etcd::tail::{Sum, Tail};
use crate::etcd::walk::Walk;
use crate::held::{ETCD_LEASE_HELD_BYTES, ETCD_VERSION_HELD_BYTES, HeldBounds};
use crate::ids::LeaseId;
use crate::limits::ETCD_PRUNED_EVENTS_MAX;

/// The revision of a store that was never written to.
pub const FIRST_REVISION: i64 = 1;

/// The compacted revision of a store that was never compacted, as in etcd (`mvcc.NewStore`,
/// `compactMainRev`).
const NEVER_COMPACTED: i64 = -1;

/// etcd's keys with their history, leases, users and roles, alarms and settings.
pub struct Store {
    pub(crate) settings: Settings,
    /// A copy of control's bounds on memory; `None` below level 4.
    pub(crate) bounds: Option<HeldBounds>,
    pub(crate) revision: i64,
    pub(crate) compacted: i64,
    pub(crate) index: Index,
    /// For some ranges, the keys by their creation revisions. Not state.
    pub(crate) orders: CreationOrders,
    pub(crate) tail: Tail,
    pub(crate) base_sum: Sum,
    pub(crate) tail_sum: Sum,
    /// The events at the compacted revision.
    pub(crate) edge: Edge,
    pub(crate) leases: Leases,
    pub(crate) auth: Arc<Auth>,
    pub(crate) alarms: Alarms,
    /// The user of the command that is being applied. Not state.
    pub(crate) user_tag: UserTag,
    /// The command that is only partly applied. Its events are above the store's revision.
    pub(crate) paused: Option<Box<Paused>>,
    /// The running walk that writes an image; `None` if there is none. Nothing is pruned during a
    /// walk.
    pub(crate) walk: Option<Box<Walk>>,
    /// Events that nobody needs any more, to be freed in steps.
    pub(crate) garbage: Garbage,
}

impl Default for Store {
    fn default() -> Self {
        Store {
            settings: Settings::default(),
            bounds: None,
            revision: FIRST_REVISION,
            compacted: NEVER_COMPACTED,
            index: Index::default(),
            orders: CreationOrders::default(),
            tail: Tail::default(),
            base_sum: Sum::default(),
            tail_sum: Sum::default(),
            edge: Edge::default(),
            leases: Leases::default(),
            auth: Arc::default(),
            alarms: Alarms::default(),
            user_tag: 0,
            paused: None,
            walk: None,
            garbage: Garbage::default(),
        }
    }
}

impl Store {
    /// The revision of the last transaction that changed a key.
    pub fn revision(&self) -> i64 {
        self.revision
    }

    /// The compacted revision: the oldest that can be read. -1 before the first compaction.
    pub fn compacted(&self) -> i64 {
        self.compacted
    }

    /// The replicated settings.
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// The number of keys that exist now.
    pub fn key_count(&self) -> u64 {
        self.index.live_count()
    }

    /// The number of keys of a range in the index, including deleted ones that are not pruned yet.
    pub fn key_count_of(&self, range: KeyRange<'_>) -> u64 {
        self.index.key_count_of(range)
    }

    /// The leases.
    pub fn leases(&self) -> &Leases {
        &self.leases
    }

    /// The users and roles, and whether permissions are enforced.
    pub fn auth(&self) -> &Auth {
        &self.auth
    }

    /// The alarms.
    pub fn alarms(&self) -> &Alarms {
        &self.alarms
    }

    /// Bytes of all versions that can be read and of the leases, which the quota bounds. Equal on
    /// all members.
    pub fn bytes(&self) -> u64 {
        self.base_sum.bytes + self.tail_sum.bytes + self.leases.bytes()
    }

    /// An estimate of the memory that [`Store::bytes`] takes, in bytes. Equal on all members.
    pub fn held(&self) -> u64 {
        let versions = self.base_sum.count + self.tail_sum.count;
        self.bytes()
            + versions * ETCD_VERSION_HELD_BYTES
            + self.leases.len() as u64 * ETCD_LEASE_HELD_BYTES
    }

    /// Whether the store is as in a new ensemble. Then it has no section in an image, and no terms
    /// in the digest.
    pub fn is_unused(&self) -> bool {
        let was_written = self.revision != FIRST_REVISION || self.compacted != NEVER_COMPACTED;
        let has_users = !self.auth.is_unused();
        !(was_written || has_users)
            && self.alarms.is_empty()
            && self.leases.is_empty()
            && self.settings == Settings::default()
    }

    /// The digest's terms of the store: those of versions, leases, alarms, users and roles, and one
    /// of the two revisions and the settings.
    pub(crate) fn digest(&self) -> Digest {
        if self.is_unused() {
            return Digest::default();
        }
        let mut scalars = Vec::new();
        scalars.put_i64(self.revision);
        scalars.put_i64(self.compacted);
        self.settings.encode(&mut scalars);
        let mut digest = Digest::from_bytes(b'R', &scalars);
        digest.add(self.base_sum.digest);
        digest.add(self.tail_sum.digest);
        digest.add(self.leases.digest());
        digest.add(self.alarms.digest());
        if !self.auth.is_unused() {
            digest.add(self.auth.digest());
        }
        digest
    }

    /// Passes the versions at a revision of the keys in a range to `visit`, in order of key, until
    /// `visit` returns false.
    ///
    /// # Errors
    /// The revision is compacted, or above the store's.
    pub fn walk_range<'s>(
        &'s self,
        range: KeyRange<'_>,
        revision: i64,
        visit: impl FnMut(&'s Event) -> bool,
    ) -> Result<(), Refusal> {
        self.walk_range_step(range, revision, &mut u64::MAX.clone(), visit).map(|_| ())
    }

    /// Like [`Store::walk_range`], but looks at up to `keys_left` keys, and subtracts their number
    /// from `keys_left`. Returns the first key that it did not look at; `None` if it looked at all,
    /// or `visit` stopped it.
    ///
    /// # Errors
    /// The revision is compacted, or above the store's.
    pub fn walk_range_step<'s>(
        &'s self,
        range: KeyRange<'_>,
        revision: i64,
        keys_left: &mut u64,
        visit: impl FnMut(&'s Event) -> bool,
    ) -> Result<Option<Box<[u8]>>, Refusal> {
        if revision > self.revision {
            return Err(Refusal::FutureRevision);
        }
        if revision < self.compacted {
            return Err(Refusal::Compacted);
        }
        Ok(self.index.visit(range, revision, keys_left, visit))
    }

    /// The events after a place up to the store's revision, in order. It starts at the compacted
    /// revision at the earliest; of that revision, it has the deletions and the versions that a
    /// read at it shows.
    pub fn events_behind(&self, place: Place) -> impl Iterator<Item = &Event> {
        let above = Place { revision: self.compacted, sub: u32::MAX };
        let edge = &self.edge.events;
        let at_compacted = edge.partition_point(|event| event.place() <= place);
        let behind = self.tail.behind(place.max(above));
        edge[at_compacted..].iter().chain(self.shown(behind))
    }

    /// The events of a key above a revision, up to the store's revision, oldest first.
    pub fn events_of(&self, key: &[u8], above: i64) -> impl Iterator<Item = &Event> {
        self.shown(self.index.events_of(key, above).iter())
    }

    /// Drops the events of a paused command from the end of a list of events.
    fn shown<'s>(
        &'s self,
        events: impl Iterator<Item = &'s Event>,
    ) -> impl Iterator<Item = &'s Event> {
        let is_paused = self.is_paused();
        events.take_while(move |event| !is_paused || event.revision() <= self.revision)
    }

    /// The earlier version that a watch shows with an event: the key's version at the revision
    /// before. `None` if the key did not exist then, the event creates the key, or the version is
    /// compacted (`v3rpc.serverWatchStream.sendLoop`).
    pub fn before(&self, event: &Event) -> Option<&Event> {
        let is_kept = event.revision() > self.compacted;
        self.index.before_revision(event).filter(|_| is_kept)
    }

    /// Adds a version of a key, as the event at this place. The caller moves the store's revision
    /// at the end of the transaction.
    pub(crate) fn put(
        &mut self,
        place: Place,
        (key, value): (&[u8], &[u8]),
        lease: i64,
        changes: &mut Changes,
    ) {
        let numbers = match self.index.newest(key).map(Event::numbers) {
            Some(before) => Version { version: before.version + 1, lease, ..before },
            None => Version { create_revision: place.revision, version: 1, lease },
        };
        let event = Event::put(place, key, numbers, value);
        let before = self.push(event.clone());
        if before.is_none() {
            self.orders.on_create(key, place.revision);
        }
        self.leases.on_put(&event, before.as_ref(), self.user_tag);
        changes.push_event(event, before);
    }

    /// Deletes the existing keys of a range, as events from the place `first` on, and passes the
    /// last version of each to `show`. Looks at up to `keys_max` keys.
    pub(crate) fn delete_range(
        &mut self,
        first: Place,
        range: KeyRange<'_>,
        keys_max: u64,
        changes: &mut Changes,
        mut show: impl FnMut(&Event),
    ) -> LookedAt {
        let mut place = first;
        let Store { index, tail, tail_sum, leases, orders, .. } = self;
        index.remove_range(range, first.revision, keys_max, |before, shown| {
            let event = Event::delete(place, before.key());
            tail_sum.add(tail.push(event.clone(), Some(before)));
            leases.on_delete(before);
            orders.on_delete(before);
            changes.push_event_after(&event, shown);
            place.sub += 1;
            show(before);
            event
        })
    }

    /// Adds the newest event. Returns the key's version before it; `None` if the key did not exist.
    pub(crate) fn push(&mut self, event: Event) -> Option<Event> {
        let before = self.index.push(event.clone());
        self.tail_sum.add(self.tail.push(event, before.as_ref()));
        before
    }

    /// Answers a read at revision `at` from a creation order; see
    /// [`CreationOrders::first_created`]. `None` if the read must walk. `current` is the present
    /// revision.
    pub(crate) fn first_created(
        &self,
        op: &RangeOp<'_>,
        at: i64,
        current: i64,
    ) -> Option<Vec<Event>> {
        let is_present = at == current && !self.is_paused();
        is_present.then(|| self.orders.first_created(op, &self.index)).flatten()
    }

    /// Builds a creation order for a read within a transaction, if the read can use one. Looks at
    /// up to `keys_left` keys, and subtracts their number from `keys_left`. False if the order is
    /// not done: the caller must call again, before any other command.
    pub(crate) fn order_step(
        &mut self,
        op: &RangeOp<'_>,
        current: i64,
        keys_left: &mut u64,
    ) -> bool {
        let is_present = op.revision <= 0 || op.revision == current;
        !is_present || self.orders.step(op, &self.index, keys_left)
    }

    /// Removes a lease, and returns it with its keys. If a running walk has not reached the lease,
    /// the walk keeps its record.
    pub(crate) fn take_lease(&mut self, lease: LeaseId) -> Option<Lease> {
        let taken = self.leases.remove(lease)?;
        if let Some(walk) = &mut self.walk {
            walk.on_lease_taken(lease, taken.grant());
        }
        Some(taken)
    }

    /// Compacts in one step.
    ///
    /// # Errors
    /// As for [`Store::compact_step`].
    pub(crate) fn compact(&mut self, revision: i64) -> Result<(), Refusal> {
        let (mut so_far, mut budget) = (CompactSoFar::default(), Budget::new(u64::MAX));
        let is_done = self.compact_step(revision, &mut so_far, &mut budget)?;
        assert!(is_done, "a step without a bound is whole");
        Ok(())
    }

    /// Does a part of a compaction. True when the compaction is done: then reads cannot see the
    /// state at any revision below this one. The steps before the last one change nothing.
    ///
    /// etcd 3.6 `mvcc.store.updateCompactRev`.
    ///
    /// # Errors
    /// The revision is compacted already, or above the store's.
    pub(crate) fn compact_step(
        &mut self,
        revision: i64,
        so_far: &mut CompactSoFar,
        budget: &mut Budget,
    ) -> Result<bool, Refusal> {
        if revision <= self.compacted {
            return Err(Refusal::Compacted);
        }
        if revision > self.revision {
            return Err(Refusal::FutureRevision);
        }
        let before_revision = Place { revision: revision - 1, sub: u32::MAX };
        for event in self.tail.behind(so_far.last.unwrap_or(before_revision)) {
            if event.revision() != revision {
                break;
            }
            if !budget.spend_key() {
                return Ok(false);
            }
            so_far.last = Some(event.place());
            if event.is_delete() || self.shows(event) {
                so_far.edge.push(event);
            }
        }
        self.compacted = revision;
        let index = &self.index;
        let passed = self.tail.pass(revision, |event| index.before(event));
        self.tail_sum.subtract(passed.events);
        self.base_sum.add(passed.base);
        self.set_edge(core::mem::take(&mut so_far.edge));
        Ok(true)
    }

    /// Whether a read at the event's revision shows the event.
    fn shows(&self, event: &Event) -> bool {
        let shown = self.index.at(event.key(), event.revision());
        shown.is_some_and(|shown| shown.place() == event.place())
    }

    /// Replaces the events at the compacted revision, and corrects the base's sum, which includes
    /// the deletions among them.
    pub(crate) fn set_edge(&mut self, edge: Edge) {
        self.base_sum.subtract(self.edge.removals);
        self.base_sum.add(edge.removals);
        let before = core::mem::replace(&mut self.edge, edge);
        // A running walk may share the events, and keeps them then.
        if let Some(events) = Arc::into_inner(before.events) {
            self.garbage.add(events);
        }
    }

    /// Whether [`Store::prune`] has anything to free.
    pub fn has_garbage(&self) -> bool {
        let is_unpruned = self.walk.is_none() && !self.is_pruned();
        is_unpruned || !self.garbage.is_empty() || self.orders.has_work()
    }

    /// Whether all versions are freed that no read can see any more. A running walk delays that.
    pub fn is_pruned(&self) -> bool {
        !self.tail.has_garbage()
    }

    /// One step that frees versions which no read can see any more. The state does not change; some
    /// reads become faster.
    pub fn prune(&mut self) {
        self.garbage.drop_some();
        self.orders.tend(&self.index);
        if self.walk.is_some() {
            return;
        }
        for _ in 0..ETCD_PRUNED_EVENTS_MAX {
            let Some(event) = self.tail.take_passed() else { return };
            self.index.prune(&event);
        }
    }
}

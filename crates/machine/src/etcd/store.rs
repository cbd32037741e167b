//! The store: every version of every key above the compacted revision, and of each key that existed
//! at it the version that it had then.
//!
//! Those versions are the *base*; the events above are the *tail*. A watch may begin at the
//! compacted revision, so the removals at it belong to the base, too. Bytes and digest of both are
//! kept as sums, which say the same on every member, whatever is pruned from memory so far. A
//! compaction changes the sums at once.

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

/// The revision of a store that nobody has written to.
pub const FIRST_REVISION: i64 = 1;

/// The compacted revision of a store that was never compacted, as etcd has it
/// (`mvcc.NewStore`, `compactMainRev`).
const NEVER_COMPACTED: i64 = -1;

/// etcd's keys and their history.
pub struct Store {
    pub(crate) settings: Settings,
    /// Bounds on what is held; none below level 4. They are control's state.
    pub(crate) bounds: Option<HeldBounds>,
    pub(crate) revision: i64,
    pub(crate) compacted: i64,
    pub(crate) index: Index,
    /// Keys of some ranges by their revisions of creation. They are not state.
    pub(crate) orders: CreationOrders,
    pub(crate) tail: Tail,
    pub(crate) base_sum: Sum,
    pub(crate) tail_sum: Sum,
    /// The events at the compacted revision.
    pub(crate) edge: Edge,
    pub(crate) leases: Leases,
    pub(crate) auth: Arc<Auth>,
    pub(crate) alarms: Alarms,
    /// The user of the command at hand. It is not state.
    pub(crate) user_tag: UserTag,
    /// The command that is paused. Its events are above the store's revision.
    pub(crate) paused: Option<Box<Paused>>,
    /// A running walk for an image. Nothing is pruned meanwhile.
    pub(crate) walk: Option<Box<Walk>>,
    /// References that nobody takes.
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

    /// The compacted revision, the oldest that can be read; -1 before the first compaction.
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

    /// The number of keys of a range with a version that is kept, removed ones included.
    pub fn key_count_of(&self, range: KeyRange<'_>) -> u64 {
        self.index.key_count_of(range)
    }

    /// The leases.
    pub fn leases(&self) -> &Leases {
        &self.leases
    }

    /// Users, roles and permissions.
    pub fn auth(&self) -> &Auth {
        &self.auth
    }

    /// The alarms.
    pub fn alarms(&self) -> &Alarms {
        &self.alarms
    }

    /// Bytes of all versions that can be read, and of the leases, equal on all members.
    pub fn bytes(&self) -> u64 {
        self.base_sum.bytes + self.tail_sum.bytes + self.leases.bytes()
    }

    /// Bytes that they take in memory, about, and equal on all members.
    pub fn held(&self) -> u64 {
        let versions = self.base_sum.count + self.tail_sum.count;
        self.bytes()
            + versions * ETCD_VERSION_HELD_BYTES
            + self.leases.len() as u64 * ETCD_LEASE_HELD_BYTES
    }

    /// Whether nobody ever used the store: then it has no section in an image and no terms in the
    /// digest.
    pub fn is_unused(&self) -> bool {
        let was_written = self.revision != FIRST_REVISION || self.compacted != NEVER_COMPACTED;
        let has_users = !self.auth.is_unused();
        !(was_written || has_users)
            && self.alarms.is_empty()
            && self.leases.is_empty()
            && self.settings == Settings::default()
    }

    /// The terms of the store: of each version and each lease, and one of the two revisions and the
    /// settings.
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

    /// Shows the versions of the keys of a range that exist at a revision, by key, to `visit`,
    /// until that wants no more.
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

    /// Like [`Store::walk_range`], but looks at up to `keys_left` keys, and takes them off it.
    /// Returns where the keys begin that it did not look at, unless `visit` wanted no more.
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

    /// The events behind a place up to the store's revision, in their order. None of them is before
    /// the compacted revision; of that revision they show each removal, and each version that it
    /// left.
    pub fn events_behind(&self, place: Place) -> impl Iterator<Item = &Event> {
        let above = Place { revision: self.compacted, sub: u32::MAX };
        let edge = &self.edge.events;
        let at_compacted = edge.partition_point(|event| event.place() <= place);
        let behind = self.tail.behind(place.max(above));
        edge[at_compacted..].iter().chain(self.shown(behind))
    }

    /// The events of a key above a revision up to the store's, oldest first.
    pub fn events_of(&self, key: &[u8], above: i64) -> impl Iterator<Item = &Event> {
        self.shown(self.index.events_of(key, above).iter())
    }

    /// Events in their order, without those of a paused command.
    fn shown<'s>(
        &'s self,
        events: impl Iterator<Item = &'s Event>,
    ) -> impl Iterator<Item = &'s Event> {
        let is_paused = self.is_paused();
        events.take_while(move |event| !is_paused || event.revision() <= self.revision)
    }

    /// The version that a watch shows beside an event: the one at the revision before it, if the
    /// key existed, unless it is compacted, or the event creates the key
    /// (`v3rpc.serverWatchStream.sendLoop`).
    pub fn before(&self, event: &Event) -> Option<&Event> {
        let is_kept = event.revision() > self.compacted;
        self.index.before_revision(event).filter(|_| is_kept)
    }

    /// Adds a version of a key to the transaction at this place. The caller moves the revision at
    /// the end of the transaction.
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

    /// Removes the keys of a range that exist, in the transaction from this place on, and shows
    /// each version that goes. Looks at up to `keys_max` keys.
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

    /// Adds the newest event. Returns the version before it.
    pub(crate) fn push(&mut self, event: Event) -> Option<Event> {
        let before = self.index.push(event.clone());
        self.tail_sum.add(self.tail.push(event, before.as_ref()));
        before
    }

    /// The versions that a read at a revision keeps, if it needs no walk; see
    /// [`CreationOrders::first_created`]. `current` is the present revision.
    pub(crate) fn first_created(
        &self,
        op: &RangeOp<'_>,
        at: i64,
        current: i64,
    ) -> Option<Vec<Event>> {
        let is_present = at == current && !self.is_paused();
        is_present.then(|| self.orders.first_created(op, &self.index)).flatten()
    }

    /// Prepares a read within a transaction, so that it may need no walk: looks at up to
    /// `keys_left` keys, and takes them off it. False if it is not done. Then the caller comes
    /// again before any other command.
    pub(crate) fn order_step(
        &mut self,
        op: &RangeOp<'_>,
        current: i64,
        keys_left: &mut u64,
    ) -> bool {
        let is_present = op.revision <= 0 || op.revision == current;
        !is_present || self.orders.step(op, &self.index, keys_left)
    }

    /// Takes a lease out. A running walk that has not reached it keeps it.
    pub(crate) fn take_lease(&mut self, lease: LeaseId) -> Option<Lease> {
        let taken = self.leases.remove(lease)?;
        if let Some(walk) = &mut self.walk {
            walk.on_lease_taken(lease, taken.grant());
        }
        Some(taken)
    }

    /// Compacts at once.
    ///
    /// # Errors
    /// As of [`Store::compact_step`].
    pub(crate) fn compact(&mut self, revision: i64) -> Result<(), Refusal> {
        let (mut so_far, mut budget) = (CompactSoFar::default(), Budget::new(u64::MAX));
        let is_done = self.compact_step(revision, &mut so_far, &mut budget)?;
        assert!(is_done, "a step without a bound is whole");
        Ok(())
    }

    /// Goes on with a compaction: forgets, for reads, what is older than this revision. Whether it
    /// is done; nothing has changed until then.
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

    /// Whether a read at the revision of an event shows it.
    fn shows(&self, event: &Event) -> bool {
        let shown = self.index.at(event.key(), event.revision());
        shown.is_some_and(|shown| shown.place() == event.place())
    }

    /// Replaces the events at the compacted revision. Removals among them are in the base.
    pub(crate) fn set_edge(&mut self, edge: Edge) {
        self.base_sum.subtract(self.edge.removals);
        self.base_sum.add(edge.removals);
        let before = core::mem::replace(&mut self.edge, edge);
        // A running walk may have the events, too.
        if let Some(events) = Arc::into_inner(before.events) {
            self.garbage.add(events);
        }
    }

    /// Whether [`Store::prune`] has something to do.
    pub fn has_garbage(&self) -> bool {
        let is_unpruned = self.walk.is_none() && !self.is_pruned();
        is_unpruned || !self.garbage.is_empty() || self.orders.has_work()
    }

    /// Whether all versions are freed that no read shows any more. A running walk holds them.
    pub fn is_pruned(&self) -> bool {
        !self.tail.has_garbage()
    }

    /// Frees some versions that no read shows any more. It affects memory only, and the time that
    /// some reads take.
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

//! The watches of one Front's connections: not replicated, no lock.
//!
//! A watch stores the ordinal of the read that set it, and fires only for later changes. A change
//! that the read has already shown comes from the feed afterwards, and must not fire it.
//!
//! One table holds data and child watches; a watch for a znode that does not exist is a data watch,
//! as in ZooKeeper (`DataTree`). Both kinds fire once. Persistent and persistent recursive watches,
//! in the same table, stay when they fire. While there are none, a change does not look for them.
//!
//! There may be millions, so a watch is small. It takes 12 bytes in the list of its *spot*, a path
//! and a kind, and 8 bytes in a table of its connection that says where in that list it stands: so
//! a closed connection removes its watches without a walk through the lists. Spots and watchers
//! have numbers of 4 bytes for this; the path of a spot is stored once.

use core::hash::BuildHasher;
use core::ops::{Index, IndexMut};

use foldhash::fast::FixedState;
use hashbrown::hash_table::Entry;
use hashbrown::{HashMap, HashSet, HashTable};
use machine::zk::path::parent_path;
use machine::{ConnectionId, Ordinal};
use zk::request::{AddWatchMode, WatcherType};

use crate::limits::{WATCH_BYTES, WATCH_PAGE_BYTES, WATCH_PAGE_COUNT};

/// The changes that a watch waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatchKind {
    /// Creation, deletion, change of data.
    Data,
    /// Deletion, change of the children.
    Child,
    /// The changes of `Data` and `Child`; the watch stays.
    Persistent,
    /// The changes of `Data`, of the znode and all below it; the watch stays.
    PersistentRecursive,
}

impl WatchKind {
    /// The kind that an addWatch of this mode sets.
    pub fn of(mode: AddWatchMode) -> WatchKind {
        match mode {
            AddWatchMode::Persistent => WatchKind::Persistent,
            AddWatchMode::PersistentRecursive => WatchKind::PersistentRecursive,
        }
    }

    /// The kinds that a watcher type means (`DataTree.removeWatch`).
    pub fn of_type(watcher_type: WatcherType) -> &'static [WatchKind] {
        match watcher_type {
            WatcherType::Children => &[WatchKind::Child],
            WatcherType::Data => &[WatchKind::Data],
            WatcherType::Persistent => &[WatchKind::Persistent],
            WatcherType::PersistentRecursive => &[WatchKind::PersistentRecursive],
            WatcherType::Any => &[
                WatchKind::Data,
                WatchKind::Child,
                WatchKind::Persistent,
                WatchKind::PersistentRecursive,
            ],
        }
    }
}

/// One watch, as its spot lists it. Packed: its alignment would cost 4 bytes.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
struct Watch {
    set_at: Ordinal,
    watcher: u32,
}

const _: () = assert!(size_of::<Watch>() == 12);

/// A path and a kind, with the watches on it. A spot without watches is removed.
struct Spot {
    path: Box<str>,
    kind: WatchKind,
    watches: Vec<Watch>,
}

/// The position of a watch in the list of its spot.
#[derive(Clone, Copy, Debug)]
struct Place {
    spot: u32,
    position: u32,
}

/// The start of the next page of a list of watches. Watches that change meanwhile may be missed or
/// listed twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchCursor {
    spot: u32,
    position: u32,
}

/// A connection that watches something.
struct Watcher {
    connection: ConnectionId,
    places: Places,
    /// About how many bytes its watches take.
    bytes: usize,
}

/// The watches of one Front.
#[derive(Default)]
pub struct Watches {
    spots: Slab<Spot>,
    /// The spots by path and kind.
    spot_index: HashTable<u32>,
    watchers: Slab<Watcher>,
    watcher_index: HashMap<ConnectionId, u32, FixedState>,
    /// Number of watches of each kind.
    counts: [usize; 4],
}

impl Watches {
    /// Number of watches as ZooKeeper counts them: a persistent one is a data watch and a child
    /// watch (`DataTree.addWatch`).
    pub fn len(&self) -> usize {
        self.counts.iter().sum::<usize>() + self.count_of(WatchKind::Persistent)
    }

    /// Number of watches but for one-shot child watches.
    pub fn data_watch_count(&self) -> usize {
        self.counts.iter().sum::<usize>() - self.count_of(WatchKind::Child)
    }

    fn count_of(&self, kind: WatchKind) -> usize {
        self.counts[kind as usize]
    }

    /// About how many bytes the watches of a connection take. Each counts with its path, even if
    /// others watch the same path.
    pub fn bytes_of(&self, connection: ConnectionId) -> usize {
        self.watcher_index.get(&connection).map_or(0, |watcher| self.watchers[*watcher].bytes)
    }

    /// A page of the watches without one-shot child watches, which ZooKeeper's lists leave out as
    /// well (`DataTree.dumpWatches`): paths with the connections that watch them, and the start of
    /// the next page. A path may come more than once.
    pub fn page(&self, from: WatchCursor) -> (Vec<(&str, Vec<ConnectionId>)>, Option<WatchCursor>) {
        let WatchCursor { mut spot, mut position } = from;
        let (mut page, mut count, mut bytes) = (Vec::new(), 0, 0);
        while (spot as usize) < self.spots.slots.len() {
            if count >= WATCH_PAGE_COUNT || bytes >= WATCH_PAGE_BYTES {
                return (page, Some(WatchCursor { spot, position }));
            }
            // An empty slot is looked at, too.
            count += 1;
            let found = self.spots.slots[spot as usize].as_ref();
            if let Some(found) = found.filter(|found| found.kind != WatchKind::Child) {
                let watches = found.watches.get(position as usize..).unwrap_or_default();
                let taken = &watches[..watches.len().min(WATCH_PAGE_COUNT)];
                let connection = |watch: &Watch| self.watchers[watch.watcher].connection;
                page.push((&*found.path, taken.iter().map(connection).collect()));
                count += taken.len();
                bytes += found.path.len();
                if taken.len() < watches.len() {
                    position += number_of(taken.len());
                    continue;
                }
            }
            (spot, position) = (spot + 1, 0);
        }
        (page, None)
    }

    /// Sets a watch as of the ordinal `at`. An existing watch stays as it is.
    pub fn set(&mut self, connection: ConnectionId, kind: WatchKind, path: &str, at: Ordinal) {
        let spot = self.spot(kind, path);
        let watcher = self.watcher(connection);
        let list = &mut self.spots[spot].watches;
        let own = &mut self.watchers[watcher];
        if !own.places.insert(Place { spot, position: number_of(list.len()) }) {
            return;
        }
        own.bytes += path.len() + WATCH_BYTES;
        push(list, Watch { set_at: at, watcher });
        self.counts[kind as usize] += 1;
    }

    /// Whether a connection has a watch.
    pub fn contains(&self, connection: ConnectionId, kind: WatchKind, path: &str) -> bool {
        self.find(connection, kind, path).is_some()
    }

    /// Removes a watch; false if there is none.
    pub fn remove(&mut self, connection: ConnectionId, kind: WatchKind, path: &str) -> bool {
        let Some((watcher, place)) = self.find(connection, kind, path) else { return false };
        self.forget(watcher, place.spot, path);
        self.unlist(watcher, place);
        true
    }

    fn find(&self, connection: ConnectionId, kind: WatchKind, path: &str) -> Option<(u32, Place)> {
        let watcher = *self.watcher_index.get(&connection)?;
        let spot = self.find_spot(kind, path)?;
        Some((watcher, self.watchers[watcher].places.find(spot)?))
    }

    /// Fires the watches for a change of `kind`, data or child, at `path`, and returns their
    /// connections, each once (`WatchManager.triggerWatch`). Only watches set before `ordinal`
    /// fire. Watches of that kind are removed; persistent ones stay. Recursive ones stay, too; they
    /// fire for `path` and all above it, and only for data.
    pub fn fire(&mut self, kind: WatchKind, path: &str, ordinal: Ordinal) -> Vec<ConnectionId> {
        assert!(matches!(kind, WatchKind::Data | WatchKind::Child));
        let mut fired = self.take_fired(kind, path, ordinal);
        let once_count = fired.len();
        if self.count_of(WatchKind::Persistent) > 0 {
            self.add_fired(WatchKind::Persistent, path, ordinal, &mut fired);
        }
        if kind == WatchKind::Data && self.count_of(WatchKind::PersistentRecursive) > 0 {
            let mut above = path;
            self.add_fired(WatchKind::PersistentRecursive, above, ordinal, &mut fired);
            while above != "/" {
                above = parent_path(above);
                self.add_fired(WatchKind::PersistentRecursive, above, ordinal, &mut fired);
            }
        }
        if fired.len() > once_count {
            let mut told = HashSet::with_hasher(FixedState::default());
            fired.retain(|connection| told.insert(*connection));
        }
        fired
    }

    /// Adds the connections with a watch of `kind` on `path` that was set before `ordinal`.
    fn add_fired(&self, kind: WatchKind, path: &str, at: Ordinal, fired: &mut Vec<ConnectionId>) {
        let Some(spot) = self.find_spot(kind, path) else { return };
        let watches = self.spots[spot].watches.iter().filter(|watch| { watch.set_at } < at);
        fired.extend(watches.map(|watch| self.watchers[watch.watcher].connection));
    }

    /// Removes the watches of `kind` on `path` that were set before `ordinal`, and returns their
    /// connections.
    fn take_fired(&mut self, kind: WatchKind, path: &str, ordinal: Ordinal) -> Vec<ConnectionId> {
        let Some(spot) = self.find_spot(kind, path) else { return Vec::new() };
        let mut list = core::mem::take(&mut self.spots[spot].watches);
        let mut fired = Vec::new();
        let mut kept = 0;
        for position in 0..list.len() {
            let Watch { set_at, watcher } = list[position];
            if set_at < ordinal {
                fired.push(self.forget(watcher, spot, path));
                continue;
            }
            if kept != position {
                list[kept] = Watch { set_at, watcher };
                let places = &mut self.watchers[watcher].places;
                places.replace(Place { spot, position: number_of(kept) });
            }
            kept += 1;
        }
        list.truncate(kept);
        self.counts[kind as usize] -= fired.len();
        self.spots[spot].watches = list;
        self.trim_spot(spot);
        fired
    }

    /// Removes a watch from the table of its watcher, because it fired or was removed.
    fn forget(&mut self, watcher: u32, spot: u32, path: &str) -> ConnectionId {
        let own = &mut self.watchers[watcher];
        let connection = own.connection;
        own.places.remove(spot);
        own.bytes -= path.len() + WATCH_BYTES;
        if own.places.is_empty() {
            self.watchers.remove(watcher);
            self.watcher_index.remove(&connection);
        }
        connection
    }

    /// Forgets all watches of a connection that is gone.
    pub fn close(&mut self, connection: ConnectionId) {
        let Some(watcher) = self.watcher_index.remove(&connection) else { return };
        for place in self.watchers.remove(watcher).places.0 {
            self.unlist(watcher, place);
        }
    }

    /// Removes a watch from the list of its spot. Its watcher has forgotten it already.
    fn unlist(&mut self, watcher: u32, place: Place) {
        let Spot { kind, watches: list, .. } = &mut self.spots[place.spot];
        let removed = list.swap_remove(place.position as usize);
        assert!({ removed.watcher } == watcher);
        if let Some(moved) = list.get(place.position as usize) {
            self.watchers[moved.watcher].places.replace(place);
        }
        self.counts[*kind as usize] -= 1;
        self.trim_spot(place.spot);
    }

    fn find_spot(&self, kind: WatchKind, path: &str) -> Option<u32> {
        let spots = &self.spots;
        let found = self.spot_index.find(hash(&(kind, path)), |spot| spots[*spot].is(kind, path));
        found.copied()
    }

    /// The spot of this kind and path. A new spot must get a watch.
    fn spot(&mut self, kind: WatchKind, path: &str) -> u32 {
        if let Some(spot) = self.find_spot(kind, path) {
            return spot;
        }
        let spot = self.spots.insert(Spot { path: path.into(), kind, watches: Vec::new() });
        let spots = &self.spots;
        self.spot_index.insert_unique(hash(&(kind, path)), spot, |spot| spots[*spot].hash());
        spot
    }

    /// The watcher of a connection. A new watcher must get a watch.
    fn watcher(&mut self, connection: ConnectionId) -> u32 {
        let watchers = &mut self.watchers;
        *self.watcher_index.entry(connection).or_insert_with(|| {
            watchers.insert(Watcher { connection, places: Places::default(), bytes: 0 })
        })
    }

    /// Shrinks a spot's list, or removes a spot without watches.
    fn trim_spot(&mut self, spot: u32) {
        let found = &mut self.spots[spot];
        if !found.watches.is_empty() {
            if is_roomy(found.watches.len(), found.watches.capacity()) {
                found.watches.shrink_to(2 * found.watches.len());
            }
            return;
        }
        let entry = self.spot_index.find_entry(found.hash(), |other| *other == spot);
        entry.expect("each spot is in the index").remove();
        self.spots.remove(spot);
        let (len, capacity) = (self.spot_index.len(), self.spot_index.capacity());
        if is_roomy(len, capacity) {
            let spots = &self.spots;
            self.spot_index.shrink_to(2 * len, |spot| spots[*spot].hash());
        }
    }
}

impl Spot {
    fn is(&self, kind: WatchKind, path: &str) -> bool {
        self.kind == kind && *self.path == *path
    }

    fn hash(&self) -> u64 {
        hash(&(self.kind, &*self.path))
    }
}

/// The places of one connection's watches: at most one for each spot.
#[derive(Default)]
struct Places(HashTable<Place>);

impl Places {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a place, unless there is one for its spot.
    fn insert(&mut self, place: Place) -> bool {
        let is_it = |other: &Place| other.spot == place.spot;
        match self.0.entry(hash(&place.spot), is_it, |other| hash(&other.spot)) {
            Entry::Occupied(_) => false,
            Entry::Vacant(vacant) => {
                vacant.insert(place);
                true
            }
        }
    }

    fn find(&self, spot: u32) -> Option<Place> {
        self.0.find(hash(&spot), |other| other.spot == spot).copied()
    }

    /// Updates the place of a watch that moved within the list of its spot.
    fn replace(&mut self, place: Place) {
        let found = self.0.find_mut(hash(&place.spot), |other| other.spot == place.spot);
        *found.expect("each listed watch has its place") = place;
    }

    fn remove(&mut self, spot: u32) {
        let found = self.0.find_entry(hash(&spot), |other| other.spot == spot);
        found.expect("each listed watch has its place").remove();
        if is_roomy(self.0.len(), self.0.capacity()) {
            self.0.shrink_to(2 * self.0.len(), |other| hash(&other.spot));
        }
    }
}

/// Values by number. A value keeps its number until it is removed; then the number is used again.
/// The memory is freed when all values are gone.
struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Slab<T> {
    fn insert(&mut self, value: T) -> u32 {
        if let Some(number) = self.free.pop() {
            self.slots[number as usize] = Some(value);
            return number;
        }
        self.slots.push(Some(value));
        number_of(self.slots.len() - 1)
    }

    fn remove(&mut self, number: u32) -> T {
        let value = self.slots[number as usize].take().expect(IS_THERE);
        self.free.push(number);
        if self.free.len() == self.slots.len() {
            *self = Slab::default();
        }
        value
    }
}

const IS_THERE: &str = "a number is forgotten with what it is of";

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        self.slots[number as usize].as_ref().expect(IS_THERE)
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        self.slots[number as usize].as_mut().expect(IS_THERE)
    }
}

fn hash(value: &impl core::hash::Hash) -> u64 {
    FixedState::default().hash_one(value)
}

fn number_of(index: usize) -> u32 {
    u32::try_from(index).expect("memory ends before 2^32 of anything here")
}

/// Appends a watch; the list grows by a quarter, since doubling would leave up to half of it empty.
fn push(list: &mut Vec<Watch>, watch: Watch) {
    if list.len() == list.capacity() {
        list.reserve_exact(list.len() / 4 + 1);
    }
    list.push(watch);
}

/// Whether a container is so empty that it should shrink, to twice what is used: then it neither
/// shrinks nor grows again soon.
fn is_roomy(len: usize, capacity: usize) -> bool {
    len < capacity / 4
}

#[cfg(test)]
mod tests;

//! Keeps the watches of ZooKeeper's clients on one Front, and finds the watches that a change
//! fires. Watches are not replicated, and need no lock.
//!
//! A watch keeps the ordinal of the read that set it, and fires only for later changes. A change
//! that the read has already shown may arrive in a delivery afterwards, and must not fire the
//! watch.
//!
//! One table has data and child watches. A watch for a znode that does not exist is a data watch,
//! as in ZooKeeper (`DataTree`). Both kinds fire once. Persistent and persistent recursive watches
//! are in the same table and stay when they fire. While there are none, a change does not look for
//! them.
//!
//! There may be millions of watches, so a watch is small. A *spot* is a path and a kind, with the
//! list of its watches; a watch takes 12 bytes there. It takes 8 more bytes in a table of its
//! connection, which has the watch's position in that list: so a closed connection removes its
//! watches without a search through the lists. Spots and watchers have numbers of 4 bytes for this,
//! and a spot stores its path once.
//!
//! A connection may have half a million watches. When it closes they stop firing at once, and are
//! removed in pieces ([`Watches::forget_closed`]).

use core::hash::{BuildHasher, Hash, Hasher};
use core::ops::{Index, IndexMut};
use std::collections::VecDeque;

use foldhash::fast::FixedState;
use hashbrown::hash_table::Entry;
use hashbrown::{HashMap, HashSet, HashTable};
use machine::{ConnectionId, Ordinal};
use zk::request::{AddWatchMode, WatcherType};

use crate::fronts::zk::limits::{WATCH_BYTES, WATCH_PAGE_BYTES, WATCH_PAGE_COUNT};

/// The changes that fire a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WatchKind {
    /// Creation, deletion and change of data; the watch fires once.
    Data,
    /// Deletion and change of the list of children; the watch fires once.
    Child,
    /// The changes of `Data` and of `Child`; the watch stays.
    Persistent,
    /// The changes of `Data`, for the znode and all below it; the watch stays.
    PersistentRecursive,
}

impl WatchKind {
    /// The kind of watch that an addWatch with this mode sets.
    pub fn of(mode: AddWatchMode) -> WatchKind {
        match mode {
            AddWatchMode::Persistent => WatchKind::Persistent,
            AddWatchMode::PersistentRecursive => WatchKind::PersistentRecursive,
        }
    }

    /// The kinds that a watcher type stands for (`DataTree.removeWatch`).
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

/// One watch in the list of its spot: when it was set, and the number of its watcher. Packed,
/// because alignment would cost 4 bytes.
#[derive(Clone, Copy)]
#[repr(C, packed(4))]
struct Watch {
    set_at: Ordinal,
    watcher: u32,
}

const _: () = assert!(size_of::<Watch>() == 12);

/// A path and a kind, with the watches on it. It is removed when it has no watches.
struct Spot {
    path: Box<str>,
    kind: WatchKind,
    watches: Vec<Watch>,
}

/// The position of a watch in the list of a spot.
#[derive(Clone, Copy, Debug)]
struct Place {
    spot: u32,
    position: u32,
}

/// Where the next page of a list of watches begins. Watches that change between two pages may be
/// missed or listed twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchCursor {
    spot: u32,
    position: u32,
}

/// A connection that has watches, or had some when it closed.
struct Watcher {
    connection: ConnectionId,
    places: Places,
    /// About how many bytes its watches take.
    bytes: usize,
    /// How many watches of each kind it has.
    counts: [u32; 4],
    /// Whether the connection is closed: its watches do not count and do not fire.
    is_closed: bool,
}

/// A closed connection whose watches are being removed.
struct Closed {
    watcher: u32,
    /// The next bucket to look at in the table of its watches' places.
    bucket: usize,
}

/// The watches of one Front.
#[derive(Default)]
pub struct Watches {
    spots: Slab<Spot>,
    /// The number of each spot, by path and kind.
    spot_index: HashTable<u32>,
    watchers: Slab<Watcher>,
    watcher_index: HashMap<ConnectionId, u32, FixedState>,
    /// How many watches of each kind there are on open connections.
    counts: [usize; 4],
    /// Closed connections whose watches are not all removed, oldest first.
    closed: VecDeque<Closed>,
}

impl Watches {
    /// How many watches there are, as ZooKeeper counts them: a persistent watch counts as a data
    /// watch and a child watch (`DataTree.addWatch`).
    pub fn len(&self) -> usize {
        self.counts.iter().sum::<usize>() + self.count_of(WatchKind::Persistent)
    }

    /// How many watches there are except one-shot child watches.
    pub fn data_watch_count(&self) -> usize {
        self.counts.iter().sum::<usize>() - self.count_of(WatchKind::Child)
    }

    fn count_of(&self, kind: WatchKind) -> usize {
        self.counts[kind as usize]
    }

    /// About how many bytes the watches of a connection take. Each counts with its path, even if
    /// other connections watch the same path.
    pub fn bytes_of(&self, connection: ConnectionId) -> usize {
        self.watcher_index.get(&connection).map_or(0, |watcher| self.watchers[*watcher].bytes)
    }

    /// A page of the list of watches: paths, each with the connections that watch it; and where the
    /// next page begins. As in ZooKeeper's lists, one-shot child watches are left out
    /// (`DataTree.dumpWatches`). A path may come more than once.
    pub fn page(&self, from: WatchCursor) -> (Vec<(&str, Vec<ConnectionId>)>, Option<WatchCursor>) {
        let WatchCursor { mut spot, mut position } = from;
        let (mut page, mut count, mut bytes) = (Vec::new(), 0, 0);
        while (spot as usize) < self.spots.slots.len() {
            if count >= WATCH_PAGE_COUNT || bytes >= WATCH_PAGE_BYTES {
                return (page, Some(WatchCursor { spot, position }));
            }
            // An empty slot counts as looked at.
            count += 1;
            let found = self.spots.slots[spot as usize].as_ref();
            if let Some(found) = found.filter(|found| found.kind != WatchKind::Child) {
                let watches = found.watches.get(position as usize..).unwrap_or_default();
                let taken = &watches[..watches.len().min(WATCH_PAGE_COUNT)];
                let open = taken.iter().map(|watch| &self.watchers[watch.watcher]);
                let open = open.filter(|watcher| !watcher.is_closed);
                let connections: Vec<_> = open.map(|watcher| watcher.connection).collect();
                if !connections.is_empty() {
                    page.push((&*found.path, connections));
                }
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

    /// Sets a watch as of the ordinal `at`. A watch that exists already keeps its ordinal.
    pub fn set(&mut self, connection: ConnectionId, kind: WatchKind, path: &str, at: Ordinal) {
        let spot = self.spot(kind, path);
        let watcher = self.watcher(connection);
        let list = &mut self.spots[spot].watches;
        let own = &mut self.watchers[watcher];
        if !own.places.insert(Place { spot, position: number_of(list.len()) }) {
            return;
        }
        own.bytes += path.len() + WATCH_BYTES;
        own.counts[kind as usize] += 1;
        push(list, Watch { set_at: at, watcher });
        self.counts[kind as usize] += 1;
    }

    /// Whether a connection has this watch.
    pub fn contains(&self, connection: ConnectionId, kind: WatchKind, path: &str) -> bool {
        self.find(connection, kind, path).is_some()
    }

    /// Removes a watch. Returns false if there is none.
    pub fn remove(&mut self, connection: ConnectionId, kind: WatchKind, path: &str) -> bool {
        let Some((watcher, place)) = self.find(connection, kind, path) else { return false };
        self.forget(watcher, place.spot, (kind, path));
        self.unlist(watcher, place);
        true
    }

    fn find(&self, connection: ConnectionId, kind: WatchKind, path: &str) -> Option<(u32, Place)> {
        let watcher = *self.watcher_index.get(&connection)?;
        let spot = self.find_spot(kind, path)?;
        Some((watcher, self.watchers[watcher].places.find(spot)?))
    }

    /// Fires the watches for a change at `path`, of the data (`kind` is data) or of the children,
    /// and returns their connections, each once (`WatchManager.triggerWatch`). Only watches set
    /// before `ordinal` fire. Watches of `kind` are removed. Persistent and recursive watches stay;
    /// recursive watches fire only for data, and those on all paths above fire too.
    pub fn fire(&mut self, kind: WatchKind, path: &str, ordinal: Ordinal) -> Vec<ConnectionId> {
        assert!(matches!(kind, WatchKind::Data | WatchKind::Child));
        let mut fired = self.take_fired(kind, path, ordinal);
        let once_count = fired.len();
        if self.count_of(WatchKind::Persistent) > 0 {
            self.add_fired(WatchKind::Persistent, path, ordinal, &mut fired);
        }
        if kind == WatchKind::Data && self.count_of(WatchKind::PersistentRecursive) > 0 {
            for spot in self.recursive_spots(path) {
                self.add_fired_at(spot, ordinal, &mut fired);
            }
        }
        if fired.len() > once_count {
            let mut told = HashSet::with_hasher(FixedState::default());
            fired.retain(|connection| told.insert(*connection));
        }
        fired
    }

    /// Adds the connections of the watches of `kind` on `path` that were set before `ordinal`.
    fn add_fired(&self, kind: WatchKind, path: &str, at: Ordinal, fired: &mut Vec<ConnectionId>) {
        if let Some(spot) = self.find_spot(kind, path) {
            self.add_fired_at(spot, at, fired);
        }
    }

    fn add_fired_at(&self, spot: u32, at: Ordinal, fired: &mut Vec<ConnectionId>) {
        let watches = self.spots[spot].watches.iter().filter(|watch| { watch.set_at } < at);
        let watchers = watches.map(|watch| &self.watchers[watch.watcher]);
        let open = watchers.filter(|watcher| !watcher.is_closed);
        fired.extend(open.map(|watcher| watcher.connection));
    }

    /// The spots of recursive watches on `path` and on all paths above it, from `path` upwards. The
    /// hash of each prefix continues the hash of the shorter one, because a path may have half a
    /// million levels.
    fn recursive_spots(&self, path: &str) -> Vec<u32> {
        let kind = WatchKind::PersistentRecursive;
        let mut hasher = RecursiveHasher::new();
        let mut found = Vec::new();
        let mut look = |hash, path| found.extend(self.find_spot_by(hash, kind, path));
        look(hasher.hash(), "/");
        let mut end = 0;
        for name in path.split('/').skip(1).filter(|_| path != "/") {
            hasher.add(name);
            end += 1 + name.len();
            look(hasher.hash(), &path[..end]);
        }
        found.reverse();
        found
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
                fired.extend(self.forget(watcher, spot, (kind, path)));
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
        self.spots[spot].watches = list;
        self.trim_spot(spot);
        fired
    }

    /// Removes a watch that fired or was removed from the table of its watcher. Returns its
    /// connection; `None` if the connection is closed.
    fn forget(
        &mut self,
        watcher: u32,
        spot: u32,
        (kind, path): (WatchKind, &str),
    ) -> Option<ConnectionId> {
        let own = &mut self.watchers[watcher];
        if own.is_closed {
            // The other entries keep their buckets, because `forget_closed` is going through them.
            own.places.remove_in_place(spot);
            return None;
        }
        let connection = own.connection;
        own.places.remove(spot);
        own.bytes -= path.len() + WATCH_BYTES;
        own.counts[kind as usize] -= 1;
        self.counts[kind as usize] -= 1;
        if own.places.is_empty() {
            self.watchers.remove(watcher);
            self.watcher_index.remove(&connection);
        }
        Some(connection)
    }

    /// Ends all watches of a connection that has ended. They are removed later.
    pub fn close(&mut self, connection: ConnectionId) {
        let Some(watcher) = self.watcher_index.remove(&connection) else { return };
        let own = &mut self.watchers[watcher];
        own.is_closed = true;
        for (all, own) in self.counts.iter_mut().zip(own.counts) {
            *all -= own as usize;
        }
        self.closed.push_back(Closed { watcher, bucket: 0 });
    }

    /// Whether watches of closed connections still have to be removed.
    pub fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// Removes some watches of closed connections. Looks at no more than `count_max` buckets.
    pub fn forget_closed(&mut self, count_max: usize) {
        let mut looked_at = 0;
        while looked_at < count_max
            && let Some(Closed { watcher, bucket }) = self.closed.front_mut()
        {
            let (watcher, places) = (*watcher, &mut self.watchers[*watcher].places.0);
            looked_at += 1;
            if *bucket == places.num_buckets() {
                assert!(places.is_empty(), "each of its places was looked at");
                self.watchers.remove(watcher);
                self.closed.pop_front();
                continue;
            }
            let place = places.get_bucket_entry(*bucket).ok().map(|entry| entry.remove().0);
            *bucket += 1;
            if let Some(place) = place {
                self.unlist(watcher, place);
            }
        }
        assert!(looked_at <= count_max, "a piece is bounded");
    }

    /// Removes a watch from the list of its spot. It is no longer in the table of its watcher.
    fn unlist(&mut self, watcher: u32, place: Place) {
        let list = &mut self.spots[place.spot].watches;
        let removed = list.swap_remove(place.position as usize);
        assert!({ removed.watcher } == watcher);
        if let Some(moved) = list.get(place.position as usize) {
            self.watchers[moved.watcher].places.replace(place);
        }
        self.trim_spot(place.spot);
    }

    fn find_spot(&self, kind: WatchKind, path: &str) -> Option<u32> {
        self.find_spot_by(hash_of_spot(kind, path), kind, path)
    }

    /// Like [`Watches::find_spot`], with the hash already computed.
    fn find_spot_by(&self, hash: u64, kind: WatchKind, path: &str) -> Option<u32> {
        let spots = &self.spots;
        self.spot_index.find(hash, |spot| spots[*spot].is(kind, path)).copied()
    }

    /// Finds or makes the spot of this kind and path. The caller adds a watch to a new spot.
    fn spot(&mut self, kind: WatchKind, path: &str) -> u32 {
        if let Some(spot) = self.find_spot(kind, path) {
            return spot;
        }
        let spot = self.spots.insert(Spot { path: path.into(), kind, watches: Vec::new() });
        let spots = &self.spots;
        let hash = hash_of_spot(kind, path);
        self.spot_index.insert_unique(hash, spot, |spot| spots[*spot].hash());
        spot
    }

    /// Finds or makes the watcher of a connection. The caller adds a watch to a new watcher.
    fn watcher(&mut self, connection: ConnectionId) -> u32 {
        let watchers = &mut self.watchers;
        *self.watcher_index.entry(connection).or_insert_with(|| {
            let (places, counts) = (Places::default(), [0; 4]);
            watchers.insert(Watcher { connection, places, bytes: 0, counts, is_closed: false })
        })
    }

    /// Shrinks the list of a spot, or removes the spot if it has no watches.
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
        hash_of_spot(self.kind, &self.path)
    }
}

/// Hashes the path of a recursive watch name by name, so that the hashes of all paths above come on
/// the way.
struct RecursiveHasher(<FixedState as BuildHasher>::Hasher);

impl RecursiveHasher {
    /// Begins with the hash of the root.
    fn new() -> RecursiveHasher {
        let mut hasher = FixedState::default().build_hasher();
        WatchKind::PersistentRecursive.hash(&mut hasher);
        RecursiveHasher(hasher)
    }

    /// Continues with the child of this name.
    fn add(&mut self, name: &str) {
        name.hash(&mut self.0);
    }

    fn hash(&self) -> u64 {
        self.0.finish()
    }
}

fn hash_of_spot(kind: WatchKind, path: &str) -> u64 {
    if kind != WatchKind::PersistentRecursive {
        return hash(&(kind, path));
    }
    let mut hasher = RecursiveHasher::new();
    path.split('/').skip(1).filter(|_| path != "/").for_each(|name| hasher.add(name));
    hasher.hash()
}

/// The places of one connection's watches: at most one for each spot.
#[derive(Default)]
struct Places(HashTable<Place>);

impl Places {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a place. Returns false, and adds nothing, if the spot has a place already.
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

    /// Updates the place of a watch that has moved within the list of its spot.
    fn replace(&mut self, place: Place) {
        let found = self.0.find_mut(hash(&place.spot), |other| other.spot == place.spot);
        *found.expect("each listed watch has its place") = place;
    }

    /// Removes a place. The other places keep their buckets.
    fn remove_in_place(&mut self, spot: u32) {
        let found = self.0.find_entry(hash(&spot), |other| other.spot == spot);
        found.expect("each listed watch has its place").remove();
    }

    fn remove(&mut self, spot: u32) {
        self.remove_in_place(spot);
        if is_roomy(self.0.len(), self.0.capacity()) {
            self.0.shrink_to(2 * self.0.len(), |other| hash(&other.spot));
        }
    }
}

/// Values by number. A value keeps its number until it is removed; then the number is reused. The
/// memory is freed when all values are removed.
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

/// Appends a watch. The list grows by a quarter, because doubling would leave up to half of it
/// empty.
fn push(list: &mut Vec<Watch>, watch: Watch) {
    if list.len() == list.capacity() {
        list.reserve_exact(list.len() / 4 + 1);
    }
    list.push(watch);
}

/// Whether a container is so empty that it should shrink, to twice what it uses: so it neither
/// shrinks nor grows again soon.
fn is_roomy(len: usize, capacity: usize) -> bool {
    len < capacity / 4
}

#[cfg(test)]
mod tests;

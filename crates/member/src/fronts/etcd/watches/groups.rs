//! Finds the watchers of a key that was changed: watchers of one key by a hash table, watchers of
//! ranges by an interval tree. Watchers of the same keys form a *group*, so a thousand watchers of
//! one prefix cost one search.

use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use machine::etcd::command::KeyRange;
use slab::Slab;

use super::intervals::{End, Intervals};

/// The number of a watcher in the Front.
pub(super) type WatcherNumber = u32;

/// The number of a group in the Front.
pub(super) type GroupNumber = u32;

/// A watcher's group, and its position there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupPlace {
    group: u32,
    at: u32,
}

/// All watchers by their keys.
pub(super) struct Groups {
    groups: Slab<Group>,
    /// The groups of one key each, by the hash of the key.
    alone: HashTable<u32>,
    ranges: Intervals,
    hasher: FixedState,
    /// Bytes that the keys of all groups take ([`Group::key_bytes`]).
    key_bytes: usize,
}

struct Group {
    /// The key, or the start of the range.
    key: Box<[u8]>,
    /// The end of the range; `None` for a single key.
    end: Option<End>,
    watchers: Vec<WatcherNumber>,
}

impl Group {
    fn key_bytes(&self) -> usize {
        let end_bytes = match &self.end {
            Some(End::At(end)) => 2 * end.len() + self.key.len(),
            Some(End::Never) => self.key.len(),
            None => 0,
        };
        self.key.len() + end_bytes
    }
}

/// The end of a request's range; `None` for a single key.
fn end_of(range: KeyRange<'_>) -> Option<End> {
    match range.end {
        [] => None,
        [0] => Some(End::Never),
        end => Some(End::At(end.into())),
    }
}

impl Groups {
    /// No watchers. The seed must be secret ([`Intervals::new`]).
    pub fn new(seed: u64) -> Groups {
        Groups {
            groups: Slab::new(),
            alone: HashTable::new(),
            ranges: Intervals::new(seed),
            hasher: FixedState::default(),
            key_bytes: 0,
        }
    }

    /// Bytes that the keys of all watchers take. Watchers of the same keys share them.
    pub fn key_bytes(&self) -> usize {
        self.key_bytes
    }

    /// Adds a watcher of these keys.
    pub fn add(&mut self, range: KeyRange<'_>, watcher: WatcherNumber) -> GroupPlace {
        let end = end_of(range);
        let found = match &end {
            None => self.find_alone(range.key),
            Some(end) => self.ranges.get(range.key, end),
        };
        let group = found.unwrap_or_else(|| self.add_group(range.key, end));
        let watchers = &mut self.groups[group as usize].watchers;
        watchers.push(watcher);
        GroupPlace { group, at: (watchers.len() - 1) as u32 }
    }

    /// Removes a watcher. If another watcher of the group has moved to its position, returns that
    /// watcher.
    pub fn remove(&mut self, place: GroupPlace) -> Option<WatcherNumber> {
        let group = &mut self.groups[place.group as usize];
        group.watchers.swap_remove(place.at as usize);
        let moved = group.watchers.get(place.at as usize).copied();
        if group.watchers.is_empty() {
            self.remove_group(place.group);
        } else if group.watchers.capacity() > 4 * group.watchers.len() {
            group.watchers.shrink_to(2 * group.watchers.len());
        }
        moved
    }

    /// The key range of the group at this place.
    pub fn range(&self, place: GroupPlace) -> KeyRange<'_> {
        let group = &self.groups[place.group as usize];
        let end: &[u8] = match &group.end {
            None => &[],
            Some(End::Never) => &[0],
            Some(End::At(end)) => end,
        };
        KeyRange { key: &group.key, end }
    }

    /// Calls `visit` for each group whose keys include `key`.
    pub fn find(&self, key: &[u8], mut visit: impl FnMut(GroupNumber)) {
        if let Some(group) = self.find_alone(key) {
            visit(group);
        }
        self.ranges.find(key, &mut visit);
    }

    /// The watchers of a group.
    pub fn watchers(&self, group: GroupNumber) -> &[WatcherNumber] {
        &self.groups[group as usize].watchers
    }

    fn find_alone(&self, key: &[u8]) -> Option<u32> {
        let hash = self.hasher.hash_one(key);
        self.alone.find(hash, |group| *self.groups[*group as usize].key == *key).copied()
    }

    fn add_group(&mut self, key: &[u8], end: Option<End>) -> u32 {
        let group = Group { key: key.into(), end: end.clone(), watchers: Vec::new() };
        self.key_bytes += group.key_bytes();
        let number = self.groups.insert(group) as u32;
        match end {
            Some(end) => self.ranges.insert(key, end, number),
            None => {
                let Groups { groups, alone, hasher, .. } = self;
                let hash_of = |group: &u32| hasher.hash_one(&*groups[*group as usize].key);
                alone.insert_unique(hasher.hash_one(key), number, hash_of);
            }
        }
        number
    }

    fn remove_group(&mut self, number: u32) {
        let group = self.groups.remove(number as usize);
        self.key_bytes -= group.key_bytes();
        match &group.end {
            Some(end) => self.ranges.remove(&group.key, end),
            None => {
                let hash = self.hasher.hash_one(&*group.key);
                let entry = self.alone.find_entry(hash, |other| *other == number);
                entry.expect("each group of a key is in the table").remove();
            }
        }
    }
}

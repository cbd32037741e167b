//! The index: all keys in order, each with its versions. Commands add versions, reads look up the
//! version of a key at a revision, and pruning removes versions that no read can see any more.

mod items;
mod leaf;
mod tree;
mod versions;

use crate::etcd::command::KeyRange;
use crate::etcd::event::Event;
use crate::etcd::index::tree::{Counts, Tree};
use crate::etcd::index::versions::Versions;

/// How far a step has come in a range of keys.
pub(crate) struct LookedAt {
    /// How many keys the step looked at.
    pub count: u64,
    /// The first key that the step did not look at; `None` if it looked at all.
    pub next: Option<Box<[u8]>>,
}

/// All keys in order. Each has at least one version; a deleted key stays until its deletion is
/// pruned.
#[derive(Default)]
pub(crate) struct Index {
    keys: Tree,
    looks: LookCount,
}

/// Counts the keys that walks look at, in builds with debug assertions. The steps of commands are
/// checked against this count, whatever a command says of its own cost.
#[derive(Default)]
pub(crate) struct LookCount {
    #[cfg(debug_assertions)]
    keys: core::sync::atomic::AtomicU64,
}

impl LookCount {
    fn add(&self, keys: u64) {
        #[cfg(debug_assertions)]
        self.keys.fetch_add(keys, core::sync::atomic::Ordering::Relaxed);
        let _ = keys;
    }

    /// The number of keys since the last call; always 0 without debug assertions.
    pub fn take(&mut self) -> u64 {
        #[cfg(debug_assertions)]
        return core::mem::take(self.keys.get_mut());
        #[cfg(not(debug_assertions))]
        return 0;
    }
}

impl Index {
    /// The number of keys that exist: those whose newest version is not a deletion.
    pub fn live_count(&self) -> u64 {
        self.keys.counts().live
    }

    /// The number of keys in a range that exist.
    pub fn live_count_of(&self, range: KeyRange<'_>) -> u64 {
        self.counts_of(range).live
    }

    /// The number of keys in the index, including deleted ones.
    pub fn key_count(&self) -> u64 {
        self.keys.counts().keys
    }

    /// The number of keys of a range in the index, including deleted ones.
    pub fn key_count_of(&self, range: KeyRange<'_>) -> u64 {
        self.counts_of(range).keys
    }

    fn counts_of(&self, range: KeyRange<'_>) -> Counts {
        match range.end {
            [] => self.keys.get(range.key).map(Counts::of).unwrap_or_default(),
            [0] if range.is_everything() => self.keys.counts(),
            [0] => self.keys.counts() - self.keys.before(range.key),
            end if end <= range.key => Counts::default(),
            end => self.keys.before(end) - self.keys.before(range.key),
        }
    }

    /// Adds the newest version of a key. Returns the version before it; `None` if the key did not
    /// exist.
    pub fn push(&mut self, event: Event) -> Option<Event> {
        self.keys.push(event)
    }

    /// Deletes the existing keys of a range, in order of key, at this revision. Looks at up to
    /// `keys_max` keys. For each existing key it calls `remove`, which gets the newest version and
    /// the version at the revision before, and returns the deletion.
    pub fn remove_range(
        &mut self,
        range: KeyRange<'_>,
        revision: i64,
        keys_max: u64,
        mut remove: impl FnMut(&Event, Option<&Event>) -> Event,
    ) -> LookedAt {
        let all = self.counts_of(range).keys;
        let count = all.min(keys_max);
        self.looks.add(count);
        let mut next = (count == 0 && all > 0).then(|| range.key.into());
        let mut left = count;
        self.keys.change_from(range.key, count, |versions| {
            left -= 1;
            if left == 0 && count < all {
                next = Some([versions.key(), &[0]].concat().into());
            }
            if versions.is_live() {
                let last = versions.last();
                let is_older = last.revision() < revision;
                let shown = if is_older { Some(last) } else { versions.at(revision - 1) };
                let event = remove(last, shown);
                versions.push(event);
            }
        });
        LookedAt { count, next }
    }

    /// The newest version of a key; `None` if the key does not exist.
    pub fn newest(&self, key: &[u8]) -> Option<&Event> {
        let versions = self.keys.get(key)?;
        versions.is_live().then(|| versions.last())
    }

    /// The version of the event's key just before the event; `None` if the key did not exist then.
    pub fn before(&self, event: &Event) -> Option<&Event> {
        let events = self.keys.get(event.key())?.as_slice();
        let end = events.partition_point(|other| other.place() < event.place());
        events[..end].last().filter(|event| !event.is_delete())
    }

    /// The version of the event's key at the revision before the event. `None` if the key did not
    /// exist then, or if the event creates the key (perhaps again, after a deletion in the same
    /// transaction).
    pub fn before_revision(&self, event: &Event) -> Option<&Event> {
        let before = self.before(event)?;
        let revision = event.revision();
        match before.revision() < revision {
            true => Some(before),
            false => self.keys.get(event.key())?.at(revision - 1),
        }
    }

    /// The versions of a key above this revision, deletions included, oldest first.
    pub fn events_of(&self, key: &[u8], above: i64) -> &[Event] {
        self.keys.get(key).map_or(&[], |versions| versions.above(above))
    }

    /// The version of a key at this revision; `None` if the key did not exist then.
    pub fn at(&self, key: &[u8], revision: i64) -> Option<&Event> {
        self.keys.get(key)?.at(revision)
    }

    /// The count of the keys that walks have looked at.
    pub fn looks(&mut self) -> &mut LookCount {
        &mut self.looks
    }

    /// The versions at this revision of the keys in a range, in order of key. The walk has no bound
    /// on the keys that it looks at, so commands and reads of clients must not use it.
    pub fn range(&self, range: KeyRange<'_>, revision: i64) -> impl Iterator<Item = &Event> {
        self.keys_of(range).filter_map(move |versions| versions.at(revision))
    }

    /// Passes the versions that [`Index::range`] would return to `visit`, until `visit` returns
    /// false. Looks at up to `keys_left` keys, and subtracts their number from `keys_left`. Returns
    /// the first key that it did not look at; `None` if it looked at all, or `visit` stopped it.
    pub fn visit<'i>(
        &'i self,
        range: KeyRange<'_>,
        revision: i64,
        keys_left: &mut u64,
        mut visit: impl FnMut(&'i Event) -> bool,
    ) -> Option<Box<[u8]>> {
        for versions in self.keys_of(range) {
            if *keys_left == 0 {
                return Some(versions.key().into());
            }
            *keys_left -= 1;
            self.looks.add(1);
            if let Some(event) = versions.at(revision)
                && !visit(event)
            {
                break;
            }
        }
        None
    }

    fn keys_of(&self, range: KeyRange<'_>) -> impl Iterator<Item = &Versions> {
        let (alone, several) = match range.end {
            [] => (self.keys.get(range.key), None),
            _ => {
                let count = self.counts_of(range).keys as usize;
                (None, Some(self.keys.from(range.key).take(count)))
            }
        };
        alone.into_iter().chain(several.into_iter().flatten())
    }

    /// For each key from this one on, in order, all its versions.
    pub fn versions_from(&self, key: &[u8]) -> impl Iterator<Item = &[Event]> {
        self.keys.from(key).map(Versions::as_slice)
    }

    /// Removes the versions of the event's key before the event, and the event too if it is a
    /// deletion. No read may need these versions any more.
    pub fn prune(&mut self, event: &Event) {
        self.keys.prune(event);
    }

    /// Adds a key that follows all others, with its versions, oldest first.
    pub fn push_behind(&mut self, events: Vec<Event>) {
        self.keys.push_behind(Versions::of(events));
    }
}

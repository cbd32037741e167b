//! The index: the keys in their order, each with its versions.

mod items;
mod leaf;
mod tree;
mod versions;

use crate::etcd::command::KeyRange;
use crate::etcd::event::Event;
use crate::etcd::index::tree::{Counts, Tree};
use crate::etcd::index::versions::Versions;

/// How far a step has come in a range.
pub(crate) struct LookedAt {
    /// The number of keys that it looked at.
    pub count: u64,
    /// The start of the keys that it did not look at; `None` if it looked at all.
    pub next: Option<Box<[u8]>>,
}

/// The keys in their order. Each has at least one version.
#[derive(Default)]
pub(crate) struct Index {
    keys: Tree,
    looks: LookCount,
}

/// Counts the keys that walks look at, where assertions for debugging are on: whatever a command
/// says of its own cost, its steps are judged by this.
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

    /// The keys since the last call.
    pub fn take(&mut self) -> u64 {
        #[cfg(debug_assertions)]
        return core::mem::take(self.keys.get_mut());
        #[cfg(not(debug_assertions))]
        return 0;
    }
}

impl Index {
    /// The number of keys that exist now.
    pub fn live_count(&self) -> u64 {
        self.keys.counts().live
    }

    /// The number of keys of a range that exist now.
    pub fn live_count_of(&self, range: KeyRange<'_>) -> u64 {
        self.counts_of(range).live
    }

    /// The number of keys with a version, removed ones included.
    pub fn key_count(&self) -> u64 {
        self.keys.counts().keys
    }

    /// The number of keys of a range with a version, removed ones included.
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

    /// Adds the newest version of a key. Returns the version that it follows, if the key existed.
    pub fn push(&mut self, event: Event) -> Option<Event> {
        self.keys.push(event)
    }

    /// Adds a removal of this revision to each key of a range that exists, by key, and looks at up
    /// to `keys_max` keys. `remove` makes it from the version before, and is shown the one at the
    /// revision before.
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

    /// The newest version of a key, unless that is a removal.
    pub fn newest(&self, key: &[u8]) -> Option<&Event> {
        let versions = self.keys.get(key)?;
        versions.is_live().then(|| versions.last())
    }

    /// The version before the one with that place, unless that is a removal.
    pub fn before(&self, event: &Event) -> Option<&Event> {
        let events = self.keys.get(event.key())?.as_slice();
        let end = events.partition_point(|other| other.place() < event.place());
        events[..end].last().filter(|event| !event.is_delete())
    }

    /// The version at the revision before an event, unless that is a removal, or the event creates
    /// the key.
    pub fn before_revision(&self, event: &Event) -> Option<&Event> {
        let before = self.before(event)?;
        let revision = event.revision();
        match before.revision() < revision {
            true => Some(before),
            false => self.keys.get(event.key())?.at(revision - 1),
        }
    }

    /// The versions of a key above this revision, oldest first.
    pub fn events_of(&self, key: &[u8], above: i64) -> &[Event] {
        self.keys.get(key).map_or(&[], |versions| versions.above(above))
    }

    /// The version of a key that exists at this revision.
    pub fn at(&self, key: &[u8], revision: i64) -> Option<&Event> {
        self.keys.get(key)?.at(revision)
    }

    /// Keys that walks have looked at.
    pub fn looks(&mut self) -> &mut LookCount {
        &mut self.looks
    }

    /// The versions of the keys of a range that exist at this revision, by key. It has no bound, so
    /// it is not for commands and reads of clients.
    pub fn range(&self, range: KeyRange<'_>, revision: i64) -> impl Iterator<Item = &Event> {
        self.keys_of(range).filter_map(move |versions| versions.at(revision))
    }

    /// Shows those versions to `visit` until that wants no more, but looks at no more than
    /// `keys_left` keys, and takes them off it. Returns where the keys begin that it did not look
    /// at.
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

    /// The versions of each key from this one on, by key.
    pub fn versions_from(&self, key: &[u8]) -> impl Iterator<Item = &[Event]> {
        self.keys.from(key).map(Versions::as_slice)
    }

    /// Forgets the versions of a key before this one, and this one too if it is a removal. No read
    /// shows these versions any more.
    pub fn prune(&mut self, event: &Event) {
        self.keys.prune(event);
    }

    /// Adds a key behind all others, with its versions in their order.
    pub fn push_behind(&mut self, events: Vec<Event>) {
        self.keys.push_behind(Versions::of(events));
    }
}

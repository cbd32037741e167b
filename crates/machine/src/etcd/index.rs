//! The index: the keys in their order, each with its versions.

use core::ops::Bound;
use std::collections::BTreeMap;

use crate::etcd::command::KeyRange;
use crate::etcd::event::Event;

/// The keys in their order. Each has at least one version.
#[derive(Default)]
pub(crate) struct Index {
    keys: BTreeMap<Box<[u8]>, Versions>,
    /// The number of keys that exist, that is, whose newest version is no removal.
    live_count: u64,
}

/// The versions of one key, oldest first, each with a place of its own. What a count needs stands
/// here, so that it looks at no version.
struct Versions {
    newest: Newest,
    events: Events,
}

/// The revision of the newest version, and in the lowest bit whether that is no removal.
#[derive(Clone, Copy)]
struct Newest(u64);

impl Newest {
    fn of(event: &Event) -> Newest {
        Newest((event.revision() as u64) << 1 | u64::from(!event.is_delete()))
    }

    fn revision(self) -> i64 {
        (self.0 >> 1) as i64
    }

    fn is_live(self) -> bool {
        self.0 & 1 == 1
    }
}

/// Most keys have one version, so several are boxed.
#[expect(clippy::box_collection, reason = "an entry of the index is as small as it can be")]
enum Events {
    One(Event),
    Many(Box<Vec<Event>>),
}

const _: () = assert!(core::mem::size_of::<Versions>() == 24);

impl Versions {
    fn new(event: Event) -> Versions {
        Versions { newest: Newest::of(&event), events: Events::One(event) }
    }

    fn as_slice(&self) -> &[Event] {
        match &self.events {
            Events::One(event) => core::slice::from_ref(event),
            Events::Many(events) => events,
        }
    }

    fn last(&self) -> &Event {
        self.as_slice().last().expect("a key has a version")
    }

    fn push(&mut self, event: Event) {
        self.newest = Newest::of(&event);
        match &mut self.events {
            Events::Many(events) => events.push(event),
            Events::One(first) => self.events = Events::Many(Box::new(vec![first.clone(), event])),
        }
    }

    /// Removes the first `count` versions, which must not be all.
    fn remove_first(&mut self, count: usize) {
        if let Events::Many(events) = &mut self.events {
            events.drain(..count);
            match events.as_slice() {
                [only] => self.events = Events::One(only.clone()),
                _ if events.capacity() > 4 * events.len() => events.shrink_to(2 * events.len()),
                _ => {}
            }
        }
    }

    /// The version that a read at this revision shows.
    fn at(&self, revision: i64) -> Option<&Event> {
        if self.newest.revision() <= revision {
            return self.newest.is_live().then(|| self.last());
        }
        let events = self.as_slice();
        let end = events.partition_point(|event| event.revision() <= revision);
        events[..end].last().filter(|event| !event.is_delete())
    }

    /// Whether a read at this revision shows the key.
    fn exists_at(&self, revision: i64) -> bool {
        match self.newest.revision() <= revision {
            true => self.newest.is_live(),
            false => self.at(revision).is_some(),
        }
    }
}

impl Index {
    /// The number of keys that exist now.
    pub fn live_count(&self) -> u64 {
        self.live_count
    }

    /// Adds the newest version of a key. Returns the version that it follows, if the key existed.
    pub fn push(&mut self, event: Event) -> Option<Event> {
        let is_delete = event.is_delete();
        let before = match self.keys.get_mut(event.key()) {
            Some(versions) => {
                let last = versions.last().clone();
                assert!(last.place() < event.place(), "versions come in their order");
                versions.push(event);
                Some(last).filter(|last| !last.is_delete())
            }
            None => {
                self.keys.insert(event.key().into(), Versions::new(event));
                None
            }
        };
        self.live_count += u64::from(!is_delete);
        self.live_count -= u64::from(before.is_some());
        before
    }

    /// The newest version of a key, unless that is a removal.
    pub fn newest(&self, key: &[u8]) -> Option<&Event> {
        let versions = self.keys.get(key)?;
        versions.newest.is_live().then(|| versions.last())
    }

    /// The version before the one with that place, unless that is a removal.
    pub fn before(&self, event: &Event) -> Option<&Event> {
        let events = self.keys.get(event.key())?.as_slice();
        let end = events.partition_point(|other| other.place() < event.place());
        events[..end].last().filter(|event| !event.is_delete())
    }

    /// The versions of the keys of a range that exist at this revision, by key.
    pub fn range(&self, range: KeyRange<'_>, revision: i64) -> impl Iterator<Item = &Event> {
        self.keys_of(range).filter_map(move |versions| versions.at(revision))
    }

    /// Shows the versions of the keys of a range that exist at this revision, by key, to `visit`,
    /// until that wants no more. Returns how many keys exist.
    pub fn visit<'s>(
        &'s self,
        range: KeyRange<'_>,
        revision: i64,
        mut visit: impl FnMut(&'s Event) -> bool,
    ) -> u64 {
        let mut count = 0;
        let mut keys = self.keys_of(range);
        for versions in keys.by_ref() {
            if let Some(event) = versions.at(revision) {
                count += 1;
                if !visit(event) {
                    break;
                }
            }
        }
        count + keys.filter(|versions| versions.exists_at(revision)).count() as u64
    }

    fn keys_of(&self, range: KeyRange<'_>) -> impl Iterator<Item = &Versions> {
        let alone = if range.end.is_empty() { self.keys.get(range.key) } else { None };
        let several =
            bounds(range).into_iter().flat_map(|bounds| self.keys.range::<[u8], _>(bounds));
        alone.into_iter().chain(several.map(|(_, versions)| versions))
    }

    /// The versions of the keys behind `after` that exist at this revision, by key.
    pub fn after(
        &self,
        after: &[u8],
        revision: i64,
    ) -> impl Iterator<Item = (&[u8], Option<&Event>)> {
        let bounds = (Bound::Excluded(after), Bound::Unbounded);
        self.keys
            .range::<[u8], _>(bounds)
            .map(move |(key, versions)| (&key[..], versions.at(revision)))
    }

    /// Forgets the versions of a key before this one, and this one too if it is a removal. No read
    /// shows these versions any more.
    pub fn prune(&mut self, event: &Event) {
        let versions =
            self.keys.get_mut(event.key()).expect("a version that is not pruned is here");
        let events = versions.as_slice();
        let mut count = events.partition_point(|other| other.place() < event.place());
        count += usize::from(event.is_delete());
        if count == events.len() {
            self.keys.remove(event.key());
        } else {
            versions.remove_first(count);
        }
    }

    /// Adds the only version so far of a key behind all others. False if it is not behind them.
    pub fn push_behind(&mut self, event: Event) -> bool {
        let is_behind = self.keys.last_key_value().is_none_or(|(last, _)| **last < *event.key());
        if is_behind {
            self.keys.insert(event.key().into(), Versions::new(event));
            self.live_count += 1;
        }
        is_behind
    }

    /// The number of keys with a version, removed ones included.
    pub fn key_count(&self) -> u64 {
        self.keys.len() as u64
    }
}

/// The bounds of a range of keys.
type Bounds<'a> = (Bound<&'a [u8]>, Bound<&'a [u8]>);

/// The bounds of a range of several keys in the map; none if it is empty, or a key alone.
fn bounds<'a>(range: KeyRange<'a>) -> Option<Bounds<'a>> {
    let KeyRange { key, end } = range;
    let end = match end {
        [] => return None,
        [0] => Bound::Unbounded,
        _ if end <= key => return None,
        _ => Bound::Excluded(end),
    };
    Some((Bound::Included(key), end))
}

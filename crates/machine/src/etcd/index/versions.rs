//! The versions of one key, in little memory: most keys have one version, so only a list of several
//! has an allocation of its own.

use crate::etcd::event::Event;

/// The versions of one key, oldest first. `newest` repeats the revision of the newest version and
/// whether the key exists, so that counting keys reads no version.
pub(super) struct Versions {
    newest: Newest,
    events: Events,
}

/// The revision of the newest version, shifted left by one; the lowest bit is set unless that
/// version is a deletion.
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

/// Most keys have one version, so a list of several is behind a box.
#[expect(clippy::box_collection, reason = "an entry of the index is as small as it can be")]
enum Events {
    One(Event),
    Many(Box<Vec<Event>>),
}

const _: () = assert!(core::mem::size_of::<Versions>() == 24);

impl Versions {
    pub fn new(event: Event) -> Versions {
        Versions { newest: Newest::of(&event), events: Events::One(event) }
    }

    /// The versions of a key, given oldest first. Panics if there are none.
    pub fn of(events: Vec<Event>) -> Versions {
        let newest = Newest::of(events.last().expect("a key has a version"));
        let events = match <[Event; 1]>::try_from(events) {
            Ok([only]) => Events::One(only),
            Err(several) => Events::Many(Box::new(several)),
        };
        Versions { newest, events }
    }

    pub fn key(&self) -> &[u8] {
        self.as_slice()[0].key()
    }

    pub fn as_slice(&self) -> &[Event] {
        match &self.events {
            Events::One(event) => core::slice::from_ref(event),
            Events::Many(events) => events,
        }
    }

    pub fn last(&self) -> &Event {
        self.as_slice().last().expect("a key has a version")
    }

    /// Reads one byte of each of the first cache lines of the newest version, to load them into the
    /// cache.
    pub fn touch(&self) -> u8 {
        self.last().bytes().iter().step_by(64).take(8).fold(0, |sum, byte| sum.wrapping_add(*byte))
    }

    /// Whether the key exists: its newest version is not a deletion.
    pub fn is_live(&self) -> bool {
        self.newest.is_live()
    }

    /// Adds the newest version. Panics if its place is not above those before.
    pub fn push(&mut self, event: Event) {
        assert!(self.last().place() < event.place(), "versions come in their order");
        self.newest = Newest::of(&event);
        match &mut self.events {
            Events::Many(events) => events.push(event),
            Events::One(first) => self.events = Events::Many(Box::new(vec![first.clone(), event])),
        }
    }

    /// Removes the oldest `count` versions; at least one must be left.
    pub fn remove_first(&mut self, count: usize) {
        if let Events::Many(events) = &mut self.events {
            events.drain(..count);
            match events.as_slice() {
                [only] => self.events = Events::One(only.clone()),
                _ if events.capacity() > 4 * events.len() => events.shrink_to(2 * events.len()),
                _ => {}
            }
        }
    }

    /// The version at this revision; `None` if the key did not exist then.
    pub fn at(&self, revision: i64) -> Option<&Event> {
        if self.newest.revision() <= revision {
            return self.newest.is_live().then(|| self.last());
        }
        let events = self.as_slice();
        let end = events.partition_point(|event| event.revision() <= revision);
        events[..end].last().filter(|event| !event.is_delete())
    }

    /// The versions above this revision, oldest first.
    pub fn above(&self, revision: i64) -> &[Event] {
        let events = self.as_slice();
        &events[events.partition_point(|event| event.revision() <= revision)..]
    }
}

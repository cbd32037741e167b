//! The objects of a run as its writers know them, and what was acknowledged of each.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use etcd::pb::mvccpb::KeyValue;

use super::cluster::{Kind, Registry};
use super::value::Head;
use crate::random::Random;

/// An object.
pub struct Object {
    /// Its kind.
    pub kind: Kind,
    /// Its key.
    pub key: Bytes,
    /// Bytes of its values.
    pub bytes: usize,
    /// Held by the only writer of a lease or a node, which waits for each answer.
    pub turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

/// What the writers know of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The newest revision of the object that is known.
    pub revision: i64,
    /// The updates that the value of that revision counts.
    pub updates: u64,
    /// Updates that were acknowledged.
    pub acknowledged: u64,
    /// Updates without an answer, which may have happened.
    pub unknown: u64,
}

impl Object {
    /// An object of a revision, which has had no update.
    pub fn new(kind: Kind, key: Bytes, bytes: usize, revision: i64) -> Object {
        let state = Mutex::new(State { revision, ..State::default() });
        Object { kind, key, bytes, turn: tokio::sync::Mutex::new(()), state }
    }

    /// The object as the last answer showed it.
    pub fn state(&self) -> State {
        *lock(&self.state)
    }

    /// Notes an update that was acknowledged at a revision.
    pub fn on_update(&self, revision: i64, updates: u64) {
        let mut state = lock(&self.state);
        state.acknowledged += 1;
        state.learn(revision, updates);
    }

    /// Notes an update without an answer.
    pub fn on_silence(&self) {
        lock(&self.state).unknown += 1;
    }

    /// Notes what the server says of the object; returns what is known now.
    pub fn on_read(&self, kv: &KeyValue) -> State {
        let mut state = lock(&self.state);
        state.learn(kv.mod_revision, Head::of(&kv.value).map_or(0, |head| head.updates));
        *state
    }
}

impl State {
    fn learn(&mut self, revision: i64, updates: u64) {
        // Answers may overtake each other.
        if revision > self.revision {
            (self.revision, self.updates) = (revision, updates);
        }
    }

    /// How many acknowledged updates a value lacks that counts so many, and how many updates it
    /// counts that were never sent.
    pub fn judge(&self, updates: u64) -> (u64, u64) {
        let most = self.acknowledged + self.unknown;
        (self.acknowledged.saturating_sub(updates), updates.saturating_sub(most))
    }
}

/// The puts of one kind that were acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Puts {
    /// How many.
    pub count: u64,
    /// The sum of their revisions.
    pub revision_sum: i64,
    /// Puts without an answer, which may have happened.
    pub unknown: u64,
}

impl Puts {
    /// Whether a watch has seen so many puts with that sum of revisions, and no others.
    pub fn agree(&self, count: u64, revision_sum: i64) -> bool {
        match self.unknown {
            0 => (count, revision_sum) == (self.count, self.revision_sum),
            more => (self.count..=self.count + more).contains(&count),
        }
    }
}

/// All objects that are there.
pub struct Objects {
    live: [Mutex<Vec<Arc<Object>>>; Kind::ALL.len()],
    puts: [Mutex<Puts>; Kind::ALL.len()],
    next: [Mutex<u64>; Kind::ALL.len()],
    registry: Registry,
    /// Deletes that may have happened or not.
    doubts: AtomicU64,
}

impl Objects {
    /// No object.
    pub fn new(registry: Registry) -> Objects {
        Objects {
            live: Default::default(),
            puts: Default::default(),
            next: Default::default(),
            registry,
            doubts: AtomicU64::new(0),
        }
    }

    /// A key of a kind that was not used.
    pub fn new_key(&self, kind: Kind) -> Bytes {
        let mut next = lock(&self.next[kind.place()]);
        *next += 1;
        self.registry.key(kind, *next)
    }

    /// Adds an object that was made.
    pub fn add(&self, object: Object) {
        lock(&self.live[object.kind.place()]).push(Arc::new(object));
    }

    /// A random object of a kind.
    pub fn pick(&self, kind: Kind, random: &mut Random) -> Option<Arc<Object>> {
        let live = lock(&self.live[kind.place()]);
        (!live.is_empty()).then(|| Arc::clone(random.pick(&live)))
    }

    /// Takes a random object of a kind out, which is to be deleted.
    pub fn take(&self, kind: Kind, random: &mut Random) -> Option<Arc<Object>> {
        let mut live = lock(&self.live[kind.place()]);
        let place = (!live.is_empty()).then(|| random.below(live.len() as u64) as usize)?;
        Some(live.swap_remove(place))
    }

    /// Notes that an object which was taken out may be there or not.
    pub fn on_doubt(&self) {
        self.doubts.fetch_add(1, Ordering::Relaxed);
    }

    /// How many keys of a kind the server may have beside those of the objects.
    pub fn spare(&self, kind: Kind) -> u64 {
        self.puts(kind).unknown + self.doubts.load(Ordering::Relaxed)
    }

    /// The objects of a kind.
    pub fn all(&self, kind: Kind) -> Vec<Arc<Object>> {
        lock(&self.live[kind.place()]).clone()
    }

    /// Counts a put that was acknowledged at a revision, or without one a put without an answer.
    pub fn count_put(&self, kind: Kind, revision: Option<i64>) {
        let mut puts = lock(&self.puts[kind.place()]);
        match revision {
            Some(revision) => {
                puts.count += 1;
                puts.revision_sum = puts.revision_sum.wrapping_add(revision);
            }
            None => puts.unknown += 1,
        }
    }

    /// The puts of a kind so far.
    pub fn puts(&self, kind: Kind) -> Puts {
        *lock(&self.puts[kind.place()])
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_update_that_another_one_overwrote_is_lost() {
        let object = Object::new(Kind::Pods, Bytes::from_static(b"a"), 300, 5);
        object.on_update(6, 1);
        // Two updates of one revision were both acknowledged: the value counts only one of them.
        object.on_update(8, 2);
        object.on_update(7, 2);
        let state = object.state();
        assert_eq!((state.revision, state.updates, state.acknowledged), (8, 2, 3));
        assert_eq!(state.judge(2), (1, 0));
        assert_eq!(state.judge(3), (0, 0));
        assert_eq!(state.judge(5), (0, 2));
        object.on_silence();
        assert_eq!(object.state().judge(4), (0, 0));
    }

    #[test]
    fn a_watch_agrees_only_with_all_puts() {
        let objects = Objects::new(Registry::new("t"));
        for revision in [3, 4] {
            objects.count_put(Kind::Nodes, Some(revision));
        }
        let puts = objects.puts(Kind::Nodes);
        assert!(puts.agree(2, 7));
        assert!(!puts.agree(1, 7));
        assert!(!puts.agree(2, 8));
        objects.count_put(Kind::Nodes, None);
        let puts = objects.puts(Kind::Nodes);
        assert_eq!([1, 2, 3, 4].map(|count| puts.agree(count, 0)), [false, true, true, false]);
        assert!(!objects.puts(Kind::Pods).agree(2, 7));
    }

    #[test]
    fn objects_that_are_taken_are_not_there() {
        let (objects, mut random) = (Objects::new(Registry::new("t")), Random::new(1));
        assert!(objects.take(Kind::Pods, &mut random).is_none());
        let key = objects.new_key(Kind::Pods);
        assert_ne!(key, objects.new_key(Kind::Pods));
        objects.add(Object::new(Kind::Pods, key.clone(), 300, 1));
        assert!(objects.pick(Kind::Pods, &mut random).is_some());
        assert_eq!(objects.take(Kind::Pods, &mut random).unwrap().key, key);
        assert!(objects.pick(Kind::Pods, &mut random).is_none());
        assert!(objects.all(Kind::Pods).is_empty());
    }
}

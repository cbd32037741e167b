//! The objects of a run as its writers know them, and the writes to each that were acknowledged.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use etcd::pb::mvccpb::KeyValue;

use super::cluster::{Kind, Registry};
use super::value::Head;
use crate::random::Random;

/// An object of the cluster.
pub struct Object {
    /// The kind of the object.
    pub kind: Kind,
    /// The key of the object.
    pub key: Bytes,
    /// Bytes of each of its values.
    pub bytes: usize,
    /// Locked by the writer of a lease or node object until its update is answered: these objects
    /// have only one writer at a time.
    pub turn: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

/// The writers' knowledge about one object, from the answers so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// The newest known revision of the object.
    pub revision: i64,
    /// The number of updates that the value at that revision contains.
    pub updates: u64,
    /// The number of acknowledged updates.
    pub acknowledged: u64,
    /// The number of updates without an answer. Each may have been executed.
    pub unknown: u64,
}

impl Object {
    /// An object that was created at `revision` and has had no update.
    pub fn new(kind: Kind, key: Bytes, bytes: usize, revision: i64) -> Object {
        let state = Mutex::new(State { revision, ..State::default() });
        Object { kind, key, bytes, turn: tokio::sync::Mutex::new(()), state }
    }

    /// The knowledge about the object now.
    pub fn state(&self) -> State {
        *lock(&self.state)
    }

    /// Notes an update that was acknowledged at `revision`; the new value contains `updates`
    /// updates.
    pub fn on_update(&self, revision: i64, updates: u64) {
        let mut state = lock(&self.state);
        state.acknowledged += 1;
        state.learn(revision, updates);
    }

    /// Notes an update without an answer.
    pub fn on_silence(&self) {
        lock(&self.state).unknown += 1;
    }

    /// Notes what the server has returned for the object. Returns what is known then.
    pub fn on_read(&self, kv: &KeyValue) -> State {
        let mut state = lock(&self.state);
        state.learn(kv.mod_revision, Head::of(&kv.value).map_or(0, |head| head.updates));
        *state
    }
}

impl State {
    fn learn(&mut self, revision: i64, updates: u64) {
        // Answers may arrive out of order.
        if revision > self.revision {
            (self.revision, self.updates) = (revision, updates);
        }
    }

    /// Judges a value that contains `updates` updates. Returns how many acknowledged updates it
    /// lacks, and how many it contains that were never sent.
    pub fn judge(&self, updates: u64) -> (u64, u64) {
        let most = self.acknowledged + self.unknown;
        (self.acknowledged.saturating_sub(updates), updates.saturating_sub(most))
    }
}

/// The puts of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Puts {
    /// How many were acknowledged.
    pub count: u64,
    /// The sum of the revisions of the acknowledged puts.
    pub revision_sum: i64,
    /// How many had no answer. Each may have been executed.
    pub unknown: u64,
}

impl Puts {
    /// Whether a watch that has seen `count` puts with this sum of revisions has seen exactly the
    /// acknowledged ones. Puts without an answer may be among them; then only the count is checked.
    pub fn agree(&self, count: u64, revision_sum: i64) -> bool {
        match self.unknown {
            0 => (count, revision_sum) == (self.count, self.revision_sum),
            more => (self.count..=self.count + more).contains(&count),
        }
    }
}

/// All objects that exist, and the puts of each kind.
pub struct Objects {
    live: [Mutex<Vec<Arc<Object>>>; Kind::ALL.len()],
    puts: [Mutex<Puts>; Kind::ALL.len()],
    next: [Mutex<u64>; Kind::ALL.len()],
    registry: Registry,
    /// Deletes that may have been executed or not.
    doubts: AtomicU64,
}

impl Objects {
    /// No objects yet.
    pub fn new(registry: Registry) -> Objects {
        Objects {
            live: Default::default(),
            puts: Default::default(),
            next: Default::default(),
            registry,
            doubts: AtomicU64::new(0),
        }
    }

    /// A key of a kind that was never used.
    pub fn new_key(&self, kind: Kind) -> Bytes {
        let mut next = lock(&self.next[kind.place()]);
        *next += 1;
        self.registry.key(kind, *next)
    }

    /// Adds an object that was created.
    pub fn add(&self, object: Object) {
        lock(&self.live[object.kind.place()]).push(Arc::new(object));
    }

    /// A random object of a kind; `None` if there is none.
    pub fn pick(&self, kind: Kind, random: &mut Random) -> Option<Arc<Object>> {
        let live = lock(&self.live[kind.place()]);
        (!live.is_empty()).then(|| Arc::clone(random.pick(&live)))
    }

    /// Takes out a random object of a kind, which the caller then deletes. `None` if there is none.
    pub fn take(&self, kind: Kind, random: &mut Random) -> Option<Arc<Object>> {
        let mut live = lock(&self.live[kind.place()]);
        let place = (!live.is_empty()).then(|| random.below(live.len() as u64) as usize)?;
        Some(live.swap_remove(place))
    }

    /// Notes that a deleted object may still exist.
    pub fn on_doubt(&self) {
        self.doubts.fetch_add(1, Ordering::Relaxed);
    }

    /// How many keys of a kind the server may have that belong to no known object.
    pub fn spare(&self, kind: Kind) -> u64 {
        self.puts(kind).unknown + self.doubts.load(Ordering::Relaxed)
    }

    /// The objects of a kind.
    pub fn all(&self, kind: Kind) -> Vec<Arc<Object>> {
        lock(&self.live[kind.place()]).clone()
    }

    /// Counts a put that was acknowledged at `revision`; `None` means that it had no answer.
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
        // Two updates from the same revision were both acknowledged, but the value contains only
        // one.
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

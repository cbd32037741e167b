//! A walk through the store for an image, while commands change it.
//!
//! The section of an image, version 1, is a stream of records:
//!
//! ```text
//! start = 'T' | index u64 | highest index whose event is gone u64
//! auth  = 'a' | ..., user = 'u' | ..., role = 'r' | ...    (`auth.rs`)
//! node  = 'n' | node (`tree.rs`)      a directory before what is in it, and names in their order
//! event = 'h' | event (`event.rs`)    of each index above the one that is gone, in order
//! ```
//!
//! Nodes and events never change while they are shared. The walk shares those of the state that it
//! began at, so it needs no old values. What commands replace meanwhile stays in memory until the
//! walk is over, and is freed in steps then.

use std::sync::Arc;

use crate::codec::Write;
use crate::etcd_v2::auth::{Auth, RecordAt};
use crate::etcd_v2::event::Event;
use crate::etcd_v2::history::TAG_EVENT;
use crate::etcd_v2::key::Key;
use crate::etcd_v2::store::Store;
use crate::etcd_v2::tree::{self, Node};
use crate::image::step::WalkStep;

pub(crate) const TAG_START: u8 = b'T';

/// Bytes of the start record.
const START_BYTES: u64 = 1 + 8 + 8;

/// A running walk.
pub(crate) struct Walk {
    /// The start record, until it is written.
    start: Option<Vec<u8>>,
    /// Users and roles, until all are written, and the record of them that was written last.
    auth: Option<(Arc<Auth>, Option<RecordAt>)>,
    /// The root of the state that it began at: it is the last to go.
    root: Arc<Node>,
    /// The directories that the walk is in, the root first.
    path: Vec<Place>,
    /// The key of the last node.
    key: String,
    /// The events that are not written yet, newest first.
    events: Vec<Arc<Event>>,
    /// Whether the state that it walks was replaced.
    is_aborted: bool,
}

/// A place in a directory.
struct Place {
    dir: Arc<Node>,
    /// Bytes of the directory's key.
    key_bytes: usize,
    /// The name of the last node that was written.
    after: Option<Arc<str>>,
}

impl Store {
    /// Begins a walk through the present state.
    pub(crate) fn freeze(&mut self) {
        let mut start = vec![TAG_START];
        start.put_u64(self.index);
        start.put_u64(self.history.cleared());
        let mut events: Vec<_> = self.history.events().cloned().collect();
        events.reverse();
        let root = self.tree.root().clone();
        let path = vec![Place { dir: root.clone(), key_bytes: 0, after: None }];
        self.walk = Some(Box::new(Walk {
            start: Some(start),
            auth: Some((self.auth.clone(), None)),
            root,
            path,
            key: String::new(),
            events,
            is_aborted: false,
        }));
    }

    /// Gives up a running walk.
    pub(crate) fn thaw(&mut self) {
        self.end_walk();
    }

    /// Forgets the walk. What commands have replaced meanwhile is freed later.
    fn end_walk(&mut self) {
        let Some(walk) = self.walk.take() else { return };
        let Walk { root, path, .. } = *walk;
        drop(path);
        if !Arc::ptr_eq(&root, self.tree.root()) {
            self.garbage.add(root);
        }
    }

    /// Marks a running walk as worthless: another state takes the place of this one.
    pub(crate) fn abort_walk(&mut self) {
        if let Some(walk) = &mut self.walk {
            walk.is_aborted = true;
        }
    }

    /// Appends records of `bytes` or a little more to `piece`, at most `count_max` or one. A walk
    /// that ended or was aborted is forgotten. Panics if none is running.
    pub(crate) fn freeze_step(
        &mut self,
        piece: &mut Vec<u8>,
        bytes: usize,
        count_max: u32,
    ) -> WalkStep {
        let walk = self.walk.as_mut().expect("the machine has started the walk");
        if walk.is_aborted {
            self.end_walk();
            return WalkStep::Aborted;
        }
        let end = piece.len().saturating_add(bytes);
        if let Some(start) = walk.start.take() {
            piece.extend_from_slice(&start);
        }
        for _ in 0..count_max.max(1) {
            if !walk.put_record(piece) {
                self.end_walk();
                return WalkStep::Ended;
            }
            if piece.len() >= end {
                break;
            }
        }
        WalkStep::Going
    }

    /// Records that an image of the present state has; 0 if nobody ever used it.
    pub(crate) fn record_count(&self) -> u64 {
        if self.is_unused() {
            return 0;
        }
        1 + self.auth.record_count() + self.tree.sums().node_count + self.history.len() as u64
    }

    /// Bytes of the records of the present state; 0 if nobody ever used it.
    pub(crate) fn section_bytes(&self) -> u64 {
        if self.is_unused() {
            return 0;
        }
        START_BYTES + self.auth.bytes() + self.tree.sums().bytes + self.history.bytes()
    }
}

impl Walk {
    /// Appends the next record. False if there is none.
    fn put_record(&mut self, piece: &mut Vec<u8>) -> bool {
        if let Some((auth, last)) = &mut self.auth {
            if let Some(next) = auth.put_record(last.take(), piece) {
                *last = Some(next);
                return true;
            }
            self.auth = None;
        }
        while let Some(place) = self.path.last_mut() {
            self.key.truncate(place.key_bytes);
            let Some((name, child)) = place.dir.children_behind(place.after.as_deref()).next()
            else {
                self.path.pop();
                continue;
            };
            self.key.push('/');
            self.key.push_str(name);
            let value = child.value().map(Arc::as_ref);
            tree::encode(Key::known(&self.key), &child.stat, value, piece);
            let below = child.is_dir().then(|| child.clone());
            place.after = Some(name.clone());
            if let Some(dir) = below {
                self.path.push(Place { dir, key_bytes: self.key.len(), after: None });
            }
            return true;
        }
        let Some(event) = self.events.pop() else { return false };
        piece.put_u8(TAG_EVENT);
        event.encode(piece);
        true
    }
}

#[cfg(test)]
mod tests;

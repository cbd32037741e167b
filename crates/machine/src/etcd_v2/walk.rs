//! The walk that writes etcd v2's section of an image (the bytes of a snapshot) while commands go
//! on.
//!
//! etcd v2's section of an image, version 1, is a stream of records:
//!
//! ```text
//! start = 'T' | index u64 | highest index whose event is gone u64
//! auth  = 'a' | ..., user = 'u' | ..., role = 'r' | ...    (`auth.rs`)
//! node  = 'n' | node (`tree.rs`)      a directory before what is in it, and names in their order
//! event = 'h' | event (`event.rs`)    of each index above the one that is gone, in order
//! ```
//!
//! A node or event that somebody shares never changes. The walk shares all nodes and events that
//! the state has when the walk begins, so it needs no copies of old values. Nodes that commands
//! remove or replace meanwhile stay in memory until the walk ends, and are then freed in steps.

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

/// A running walk, which writes an image of the state at its beginning.
pub(crate) struct Walk {
    /// The start record; `None` once it is written.
    start: Option<Vec<u8>>,
    /// The users and roles, and the name of their record that was written last. `None` once all are
    /// written.
    auth: Option<(Arc<Auth>, Option<RecordAt>)>,
    /// The root at the beginning of the walk. Its reference is dropped last, so that the garbage
    /// can free the nodes in steps.
    root: Arc<Node>,
    /// The directories that the walk has entered, the root first.
    path: Vec<Place>,
    /// The key of the node that was written last.
    key: String,
    /// The events that are not written yet, newest first.
    events: Vec<Arc<Event>>,
    /// Whether another state has replaced the walked one, so that the image is worthless.
    is_aborted: bool,
}

/// The place of a walk in one directory.
struct Place {
    dir: Arc<Node>,
    /// Bytes of the directory's key.
    key_bytes: usize,
    /// The name of the last child that was written; `None` before the first.
    after: Option<Arc<str>>,
}

impl Store {
    /// Starts a walk over the present state.
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

    /// Drops the running walk, if there is one.
    pub(crate) fn thaw(&mut self) {
        self.end_walk();
    }

    /// Drops the running walk, and lets the garbage free what commands have replaced since its
    /// beginning.
    fn end_walk(&mut self) {
        let Some(walk) = self.walk.take() else { return };
        let Walk { root, path, .. } = *walk;
        drop(path);
        if !Arc::ptr_eq(&root, self.tree.root()) {
            self.garbage.add(root);
        }
    }

    /// Marks the running walk as worthless, because another state replaces this one.
    pub(crate) fn abort_walk(&mut self) {
        if let Some(walk) = &mut self.walk {
            walk.is_aborted = true;
        }
    }

    /// Appends about `bytes` bytes of records to `piece`, at most `count_max` records but at least
    /// one. When the walk has ended or was aborted, it is dropped. Panics if no walk is running.
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

    /// The number of records in an image of the present state; 0 if the store was never used.
    pub(crate) fn record_count(&self) -> u64 {
        if self.is_unused() {
            return 0;
        }
        1 + self.auth.record_count() + self.tree.sums().node_count + self.history.len() as u64
    }

    /// Bytes of the records in an image of the present state; 0 if the store was never used.
    pub(crate) fn section_bytes(&self) -> u64 {
        if self.is_unused() {
            return 0;
        }
        START_BYTES + self.auth.bytes() + self.tree.sums().bytes + self.history.bytes()
    }
}

impl Walk {
    /// Appends the next record. False if there is none left.
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

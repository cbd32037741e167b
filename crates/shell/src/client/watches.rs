//! Remembers the watches that a session has set, so that the next connection can set them again
//! (`ZKWatchManager` and `ClientCnxn.SendThread.primeConnection`, 3.9.5). Pure.

use std::collections::BTreeSet;

use zk::Request;
use zk::request::{SetWatches2Request, SetWatchesRequest, WatcherType, XID_SET_WATCHES};

use super::limits::{SET_WATCHES_BYTES_MAX, WATCHES_MAX};

/// The changes that a watch waits for, and whether it stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchKind {
    /// A change of a znode's data, or its deletion. Fires once.
    Data,
    /// The creation of a znode. Fires once.
    Exist,
    /// A change of a znode's list of children. Fires once.
    Child,
    /// Any change of a znode or of its list of children. Stays.
    Persistent,
    /// Any change of a znode or of a znode below it. Stays.
    PersistentRecursive,
}

const KINDS: [WatchKind; 5] = [
    WatchKind::Data,
    WatchKind::Exist,
    WatchKind::Child,
    WatchKind::Persistent,
    WatchKind::PersistentRecursive,
];

/// Types of the events that a client itself makes when it removes a watch
/// (`Watcher.Event.EventType`).
const DATA_WATCH_REMOVED: i32 = 5;
const CHILD_WATCH_REMOVED: i32 = 6;
const PERSISTENT_WATCH_REMOVED: i32 = 7;

/// For each kind of watch, the paths that have one. Paths include the chroot.
#[derive(Debug, Default)]
pub struct Watches {
    paths: [BTreeSet<String>; KINDS.len()],
}

impl Watches {
    /// How many watches there are.
    pub fn count(&self) -> usize {
        self.paths.iter().map(BTreeSet::len).sum()
    }

    /// Remembers a watch that the server has set, unless there are too many.
    pub fn add(&mut self, kind: WatchKind, path: &str) {
        if self.count() < WATCHES_MAX {
            self.paths[kind as usize].insert(path.to_string());
        }
    }

    /// Forgets the watches that fire once and have fired with this event.
    pub fn on_event(&mut self, event_type: i32, path: &str) {
        let fired: &[WatchKind] = match event_type {
            1 | 3 => &[WatchKind::Data, WatchKind::Exist],
            2 => &[WatchKind::Data, WatchKind::Exist, WatchKind::Child],
            4 => &[WatchKind::Child],
            _ => &[],
        };
        for kind in fired {
            self.paths[*kind as usize].remove(path);
        }
    }

    /// Whether the path has a watch of this type.
    pub fn has(&self, path: &str, watcher_type: WatcherType) -> bool {
        kinds_of(watcher_type).iter().any(|kind| self.paths[*kind as usize].contains(path))
    }

    /// Forgets the path's watches of this type. Returns the types of the events that report this.
    pub fn remove(&mut self, path: &str, watcher_type: WatcherType) -> Vec<i32> {
        let mut events = Vec::new();
        for kind in kinds_of(watcher_type) {
            let event = match kind {
                WatchKind::Data | WatchKind::Exist => DATA_WATCH_REMOVED,
                WatchKind::Child => CHILD_WATCH_REMOVED,
                WatchKind::Persistent | WatchKind::PersistentRecursive => PERSISTENT_WATCH_REMOVED,
            };
            if self.paths[*kind as usize].remove(path) && !events.contains(&event) {
                events.push(event);
            }
        }
        events
    }

    /// The requests that set all watches again. For changes after `last_zxid` that a watch has
    /// missed, the server sends events at once. If there is no persistent watch, servers before 3.6
    /// understand the requests too.
    pub fn restoring(&self, last_zxid: i64) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let mut batch = batch_since(last_zxid);
        let mut bytes = 0;
        for kind in KINDS {
            for path in &self.paths[kind as usize] {
                match kind {
                    WatchKind::Data => batch.watches.data.push(path),
                    WatchKind::Exist => batch.watches.exist.push(path),
                    WatchKind::Child => batch.watches.child.push(path),
                    WatchKind::Persistent => batch.persistent.push(path),
                    WatchKind::PersistentRecursive => batch.persistent_recursive.push(path),
                }
                bytes += path.len();
                if bytes >= SET_WATCHES_BYTES_MAX {
                    frames.push(encode(std::mem::replace(&mut batch, batch_since(last_zxid))));
                    bytes = 0;
                }
            }
        }
        if bytes > 0 {
            frames.push(encode(batch));
        }
        frames
    }
}

fn batch_since<'a>(relative_zxid: i64) -> SetWatches2Request<'a> {
    let watches = SetWatchesRequest { relative_zxid, ..SetWatchesRequest::default() };
    SetWatches2Request { watches, ..SetWatches2Request::default() }
}

fn encode(batch: SetWatches2Request<'_>) -> Vec<u8> {
    let lasting = !batch.persistent.is_empty() || !batch.persistent_recursive.is_empty();
    let request = match lasting {
        true => Request::SetWatches2(batch),
        false => Request::SetWatches(batch.watches),
    };
    let mut frame = Vec::new();
    request.encode(XID_SET_WATCHES, &mut frame);
    frame
}

/// The kinds of watches that a type covers (`ZKWatchManager.removeWatcher`).
fn kinds_of(watcher_type: WatcherType) -> &'static [WatchKind] {
    match watcher_type {
        WatcherType::Children => &[WatchKind::Child],
        WatcherType::Data => &[WatchKind::Data, WatchKind::Exist],
        WatcherType::Persistent => &[WatchKind::Persistent],
        WatcherType::PersistentRecursive => &[WatchKind::PersistentRecursive],
        WatcherType::Any => &KINDS,
    }
}

#[cfg(test)]
mod tests;

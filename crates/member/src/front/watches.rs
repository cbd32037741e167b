//! The watches of one Front's connections: not replicated, no lock.
//!
//! A watch stores the ordinal of the read that set it and fires only for later changes: a change
//! that the read has already shown is drained from the feed afterwards, and must not fire it.
//!
//! Data and child watches are two tables in one; a watch for a znode that does not exist is a data
//! watch, as in ZooKeeper (`DataTree`).

use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use machine::{ConnectionId, Ordinal};

use crate::limits::WATCH_BYTES;

/// What a watch waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchKind {
    /// Creation, deletion, change of data.
    Data,
    /// Deletion, change of the children.
    Child,
}

const DATA: u8 = 1;
const CHILD: u8 = 2;

impl WatchKind {
    fn bit(self) -> u8 {
        match self {
            WatchKind::Data => DATA,
            WatchKind::Child => CHILD,
        }
    }
}

#[derive(Clone, Copy)]
struct Watch {
    connection: ConnectionId,
    set_at: Ordinal,
}

#[derive(Default)]
struct PathWatches {
    data: Vec<Watch>,
    child: Vec<Watch>,
}

impl PathWatches {
    fn list(&mut self, kind: WatchKind) -> &mut Vec<Watch> {
        match kind {
            WatchKind::Data => &mut self.data,
            WatchKind::Child => &mut self.child,
        }
    }
}

/// The watches of one connection.
#[derive(Default)]
struct OwnWatches {
    kinds: HashMap<Arc<str>, u8, FixedState>,
    /// What they take, each path counted once.
    bytes: usize,
}

/// The watches of one Front.
#[derive(Default)]
pub struct Watches {
    by_path: HashMap<Arc<str>, PathWatches, FixedState>,
    /// Which kinds each connection has on which path: a second one of a kind is the first.
    by_connection: HashMap<ConnectionId, OwnWatches, FixedState>,
    count: usize,
}

impl Watches {
    /// Number of watches.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Bytes that the watches of a connection take, about.
    pub fn bytes_of(&self, connection: ConnectionId) -> usize {
        self.by_connection.get(&connection).map_or(0, |own| own.bytes)
    }

    /// Sets a watch as of `ordinal`; one that is there already stays as it is.
    pub fn set(&mut self, connection: ConnectionId, kind: WatchKind, path: &str, at: Ordinal) {
        let own = self.by_connection.entry(connection).or_default();
        let kinds = own.kinds.get(path).copied().unwrap_or(0);
        if kinds & kind.bit() != 0 {
            return;
        }
        let path = match self.by_path.get_key_value(path) {
            Some((path, _)) => path.clone(),
            None => Arc::from(path),
        };
        own.bytes += if kinds == 0 { path.len() + WATCH_BYTES } else { 0 };
        own.kinds.insert(path.clone(), kinds | kind.bit());
        let watch = Watch { connection, set_at: at };
        self.by_path.entry(path).or_default().list(kind).push(watch);
        self.count += 1;
    }

    /// Takes the watches of `kind` on `path` that were set before `ordinal` out and gives their
    /// connections.
    pub fn fire(&mut self, kind: WatchKind, path: &str, ordinal: Ordinal) -> Vec<ConnectionId> {
        let Some(watches) = self.by_path.get_mut(path) else { return Vec::new() };
        let list = watches.list(kind);
        let mut fired = Vec::new();
        list.retain(|watch| {
            let fires = watch.set_at < ordinal;
            if fires {
                fired.push(watch.connection);
            }
            !fires
        });
        if watches.data.is_empty() && watches.child.is_empty() {
            self.by_path.remove(path);
        }
        for connection in &fired {
            self.forget(*connection, kind, path);
        }
        self.count -= fired.len();
        fired
    }

    fn forget(&mut self, connection: ConnectionId, kind: WatchKind, path: &str) {
        let own = self.by_connection.get_mut(&connection).expect("both tables hold each watch");
        let kinds = own.kinds.get_mut(path).expect("both tables hold each watch");
        *kinds &= !kind.bit();
        if *kinds == 0 {
            own.kinds.remove(path);
            own.bytes -= path.len() + WATCH_BYTES;
        }
        if own.kinds.is_empty() {
            self.by_connection.remove(&connection);
        }
    }

    /// Forgets all watches of a connection that is gone.
    pub fn close(&mut self, connection: ConnectionId) {
        let Some(own) = self.by_connection.remove(&connection) else { return };
        for (path, kinds) in own.kinds {
            let watches = self.by_path.get_mut(&path).expect("both tables hold each watch");
            for kind in [WatchKind::Data, WatchKind::Child] {
                if kinds & kind.bit() != 0 {
                    watches.list(kind).retain(|watch| watch.connection != connection);
                    self.count -= 1;
                }
            }
            if watches.data.is_empty() && watches.child.is_empty() {
                self.by_path.remove(&path);
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! A transaction that is being applied: it collects its changes for watchers and, if it is a multi,
//! how to undo each change.

use crate::ids::Ordinal;
use crate::mark::Mark;
use crate::stamp::Stamp;
use crate::zk::change::{Change, Changes};
use crate::zk::tree::{Created, OldAcl, OldData, Removed};

/// The context of a command, and its ordinal.
#[derive(Clone, Copy)]
pub(crate) struct Call<'c> {
    pub(crate) stamp: &'c Stamp<'c>,
    pub(crate) ordinal: Ordinal,
}

/// How to undo one change that a multi has made.
pub(crate) enum Undo {
    Create { path: Box<str>, created: Created },
    Remove { path: Box<str>, removed: Removed, owner: i64 },
    SetData { path: Box<str>, old: OldData },
    SetAcl { path: Box<str>, old: OldAcl },
}

/// A transaction that is being applied: its ordinal and zxid, and the changes that it makes.
pub(crate) struct Txn<'t> {
    pub(crate) mark: Mark,
    pub(crate) changes: &'t mut Changes,
    /// How to undo each change so far, in order. `None` except in a multi: other commands check
    /// everything before they change anything.
    pub(crate) undo: Option<Vec<Undo>>,
}

impl<'t> Txn<'t> {
    /// A transaction that cannot be undone.
    pub(crate) fn new(mark: Mark, changes: &'t mut Changes) -> Txn<'t> {
        Txn { mark, changes, undo: None }
    }

    /// Appends a change that clients may watch.
    pub(crate) fn tell(&mut self, change: Change, path: &str) {
        self.changes.push(self.mark, change, path);
    }

    /// Records how to undo a change that was just made.
    pub(crate) fn did(&mut self, undo: impl FnOnce() -> Undo) {
        if let Some(steps) = &mut self.undo {
            steps.push(undo());
        }
    }
}

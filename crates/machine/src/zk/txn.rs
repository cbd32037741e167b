//! A command under way, and the steps to undo it.

use crate::ids::Ordinal;
use crate::mark::Mark;
use crate::stamp::Stamp;
use crate::zk::change::{Change, Changes};
use crate::zk::tree::{Created, OldAcl, OldData, Removed};

/// A command to apply: its context, and its place in the order.
#[derive(Clone, Copy)]
pub(crate) struct Call<'c> {
    pub(crate) stamp: &'c Stamp<'c>,
    pub(crate) ordinal: Ordinal,
}

/// The inverse of one step of a multi.
pub(crate) enum Undo {
    Create { path: Box<str>, created: Created },
    Remove { path: Box<str>, removed: Removed, owner: i64 },
    SetData { path: Box<str>, old: OldData },
    SetAcl { path: Box<str>, old: OldAcl },
}

/// A transaction under way: its numbers, and the changes it makes.
pub(crate) struct Txn<'t> {
    pub(crate) mark: Mark,
    pub(crate) changes: &'t mut Changes,
    /// The inverses of the steps that a multi has done; none for another command, which is never
    /// undone.
    pub(crate) undo: Option<Vec<Undo>>,
}

impl<'t> Txn<'t> {
    /// A transaction that is never undone.
    pub(crate) fn new(mark: Mark, changes: &'t mut Changes) -> Txn<'t> {
        Txn { mark, changes, undo: None }
    }

    /// Appends a change for watchers.
    pub(crate) fn tell(&mut self, change: Change, path: &str) {
        self.changes.push(self.mark, change, path);
    }

    /// Notes the inverse of a step that was done.
    pub(crate) fn did(&mut self, undo: impl FnOnce() -> Undo) {
        if let Some(steps) = &mut self.undo {
            steps.push(undo());
        }
    }
}

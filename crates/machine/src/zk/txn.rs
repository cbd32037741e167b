//! A command under way, and what it takes to take its steps back.

use crate::change::ChangeBatch;
use crate::ids::Ordinal;
use crate::mark::Mark;
use crate::stamp::Stamp;
use crate::zk::change::Change;
use crate::zk::tree::{Created, OldAcl, OldData, Removed};

/// A command to apply: what is known of it, and its place in the order.
#[derive(Clone, Copy)]
pub(crate) struct Call<'c> {
    pub(crate) stamp: &'c Stamp<'c>,
    pub(crate) ordinal: Ordinal,
}

/// How to take one step of a multi back.
pub(crate) enum Undo {
    Create { path: Box<str>, created: Created },
    Remove { path: Box<str>, removed: Removed, owner: i64 },
    SetData { path: Box<str>, old: OldData },
    SetAcl { path: Box<str>, old: OldAcl },
}

/// A transaction under way: for whom, and what comes of it.
pub(crate) struct Txn<'t> {
    pub(crate) mark: Mark,
    pub(crate) changes: &'t mut ChangeBatch,
    /// The steps that were done, of a multi: nothing else is ever taken back.
    pub(crate) undo: Option<Vec<Undo>>,
}

impl<'t> Txn<'t> {
    /// One that is not taken back.
    pub(crate) fn new(mark: Mark, changes: &'t mut ChangeBatch) -> Txn<'t> {
        Txn { mark, changes, undo: None }
    }

    /// Tells those who watch.
    pub(crate) fn tell(&mut self, change: Change, path: &str) {
        self.changes.push(self.mark, change, path);
    }

    /// Notes a step that was done.
    pub(crate) fn did(&mut self, undo: impl FnOnce() -> Undo) {
        if let Some(steps) = &mut self.undo {
            steps.push(undo());
        }
    }
}

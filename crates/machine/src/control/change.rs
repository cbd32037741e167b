//! Changes that the ensemble's own commands make: to its servers, its level, or the whole state.
//! Loop and the Fronts of every protocol read them.

use std::sync::Arc;

use crate::control::list_change::{ChangeId, LeaderRefused};
use crate::control::servers::Servers;
use crate::level::StatedLevel;
use crate::mark::Mark;

/// A change that a command of the ensemble made.
#[derive(Clone, Debug)]
pub enum Change {
    /// The list of servers changed, or which member a server is, or a change of the list was
    /// opened, accepted or dropped.
    Servers(Arc<Servers>),
    /// The level rose.
    Raised(StatedLevel),
    /// A change of the list of servers has ended: with the version of the new list, or with the
    /// reason why the list stays.
    ListChangeEnded { id: ChangeId, result: Result<u64, LeaderRefused> },
    /// Another state replaced the whole state. What clients saw of the old state does not lead up
    /// to the new one: there are no changes between the two.
    Replaced {
        /// The mark of the last command of the new state.
        mark: Mark,
        /// Where the new state comes from.
        by: Replacement,
    },
}

/// Why one state replaced another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// A command installed an image, whose history is another one than that of the old state.
    Image,
    /// The member received a snapshot of the same ensemble, from a later index of the log.
    Snapshot,
}

/// The changes of consecutive commands, in order.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    list: Vec<Change>,
    /// Whether `push` drops its argument: nobody will read this batch.
    is_for_nobody: bool,
}

impl Changes {
    /// A batch that drops every change.
    pub(crate) fn for_nobody() -> Changes {
        Changes { is_for_nobody: true, ..Changes::default() }
    }

    /// Adds a change.
    pub fn push(&mut self, change: Change) {
        if !self.is_for_nobody {
            self.list.push(change);
        }
    }

    /// The changes, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Change> {
        self.list.iter()
    }

    /// The last replacement of the state, with the mark of the new one; `None` if the state was
    /// not replaced.
    pub fn replaced(&self) -> Option<(Mark, Replacement)> {
        self.list.iter().rev().find_map(|change| match change {
            Change::Replaced { mark, by } => Some((*mark, *by)),
            Change::Servers(_) | Change::Raised(_) | Change::ListChangeEnded { .. } => None,
        })
    }

    /// Whether there are no changes.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

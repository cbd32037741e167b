//! Changes of the ensemble, for Loop and for the Fronts of every protocol.

use std::sync::Arc;

use crate::control::servers::Servers;
use crate::level::StatedLevel;
use crate::mark::Mark;

/// A change that a command of the ensemble made.
#[derive(Clone, Debug)]
pub enum Change {
    /// The servers changed, or which of them a member is.
    Servers(Arc<Servers>),
    /// The level rose.
    Raised(StatedLevel),
    /// Another state took the place of the one before: what clients were shown of the old one does
    /// not lead to the new one.
    Replaced {
        /// The mark of the last command of the new state.
        mark: Mark,
        /// Where the new state comes from.
        by: Replacement,
    },
}

/// Where a state comes from that took the place of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replacement {
    /// A command installed an image: its history is not that of the old state.
    Image,
    /// A snapshot of the same ensemble, from a later place in the log.
    Snapshot,
}

/// The changes of consecutive commands, in order.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    list: Vec<Change>,
    /// Whether the batch keeps nothing.
    is_for_nobody: bool,
}

impl Changes {
    /// Changes that keep nothing.
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
            Change::Servers(_) | Change::Raised(_) => None,
        })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

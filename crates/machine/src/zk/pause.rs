//! Commands that are done in several steps.
//!
//! A step looks at a bounded number of znodes. A command that needs more is *paused*, and goes on
//! where it stopped: the same command comes again before anything else is applied, so the result
//! does not depend on the steps. A paused command that has changed something leaves a state that is
//! neither the one before nor the one behind it. No reader may see that state
//! ([`Zk::is_amid_change`]): each reply shows the state at the zxid in its header. ZooKeeper's own
//! servers are less strict where a session ends: they remove its ephemerals one by one, and show
//! what is left under the zxid before (`DataTree.killSession`, 3.9).
//!
//! Watchers get the changes of a session's end as they are made. They get those of a multi
//! together, since it may be refused at its last operation.

use crate::change::{ChangeBatch, OpenTransaction};
use crate::ids::{SessionId, Zxid};
use crate::zk::Zk;
use crate::zk::ending::{Ending, Expiry};
use crate::zk::multi::Multi;
use crate::zk::quota::Counting;
use crate::zk::reply::{Outcome, Refusal};
use crate::zk::steps::Steps;

/// What a step of a command has to work with.
pub(crate) struct Step<'c> {
    /// What it may still look at.
    pub steps: Steps,
    /// The changes so far.
    pub changes: &'c mut ChangeBatch,
}

/// A command between two of its steps.
pub(crate) struct Paused {
    /// The last zxid that was consumed before the command.
    pub zxid_before: Zxid,
    pub at: PausedAt,
}

/// Where a command goes on.
pub(crate) enum PausedAt {
    /// A create behind its znode, in the count of a subtree.
    Create(Box<Counting>),
    Multi(Box<Multi>),
    Close(Box<Ending>),
    Expire(Box<Expiry>),
    /// In the list of paths, behind so many, of which some were removed.
    Containers {
        passed: usize,
        removed: usize,
    },
}

/// The result of a step: the outcome of the command, or where it goes on.
pub(crate) type Stepped = Result<Result<Outcome, Refusal>, PausedAt>;

impl PausedAt {
    /// The transaction that is not whole although some of its changes were given.
    pub fn open_transaction(&self) -> Option<OpenTransaction> {
        let of_ending = |ending: &Ending| {
            let ends = |session: SessionId| OpenTransaction { session: Some(session) };
            ending.has_removed().then(|| ends(ending.session()))
        };
        match self {
            PausedAt::Create(_) => Some(OpenTransaction { session: None }),
            PausedAt::Close(ending) => of_ending(ending),
            PausedAt::Expire(expiry) => expiry.ending.as_ref().and_then(of_ending),
            PausedAt::Multi(_) | PausedAt::Containers { .. } => None,
        }
    }
}

impl Zk {
    /// Whether a command is paused.
    pub fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Whether a command has done a part of its changes. Then the tree must not be read: readers
    /// wait until it has done all.
    pub fn is_amid_change(&self) -> bool {
        // Each transaction consumes its zxid before its first change.
        self.paused.as_ref().is_some_and(|paused| paused.zxid_before != self.zxid)
    }
}

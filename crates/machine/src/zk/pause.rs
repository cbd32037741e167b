//! Commands that are done in several steps.
//!
//! A step looks at a bounded number of znodes. A command that needs more is *paused*, and goes on
//! where it stopped: the same command comes again before anything else is applied, so the result
//! does not depend on the steps. A paused command that has changed something leaves a state that is
//! neither the one before nor the one behind it. No reader may see that state
//! ([`crate::Zk::is_amid_change`]): each reply shows the state at the zxid in its header.
//! ZooKeeper's own servers are less strict where a session ends: they remove its ephemerals one by
//! one, and show what is left under the zxid before (`DataTree.killSession`, 3.9).
//!
//! Watchers get the changes of a session's end as they are made. They get those of a multi
//! together, since it may be refused at its last operation.

use crate::ids::{SessionId, Zxid};
use crate::zk::change::{Changes, OpenTransaction};
use crate::zk::path_sort::PathSort;
use crate::zk::reply::{Outcome, Refusal};
use crate::zk::steps::Steps;
use crate::zk::tree::ZnodeId;
use crate::zk::txn::Undo;
use crate::zk::usage::{Usage, UsageCount};

/// What a step of a command has to work with.
pub(crate) struct Step<'c> {
    /// What it may still look at.
    pub steps: Steps,
    /// The changes so far.
    pub changes: &'c mut Changes,
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
    /// In the list of paths, behind `passed` paths, some of them removed.
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
            ending.has_removed().then(|| ends(ending.session))
        };
        match self {
            PausedAt::Create(_) => Some(OpenTransaction { session: None }),
            PausedAt::Close(ending) => of_ending(ending),
            PausedAt::Expire(expiry) => expiry.ending.as_ref().and_then(of_ending),
            PausedAt::Multi(_) | PausedAt::Containers { .. } => None,
        }
    }
}

/// A create that has made its znode, and counts the subtree whose usage that is to hold.
pub(crate) struct Counting {
    pub path: Box<str>,
    /// What the create adds to the quota that it is under.
    pub more: Usage,
    pub count: UsageCount,
    pub outcome: Outcome,
}

/// A multi between two of its steps.
pub(crate) struct Multi {
    /// The outcomes of the operations that are done.
    pub outcomes: Vec<Outcome>,
    /// The inverses of what those have changed.
    pub undo: Vec<Undo>,
    /// The changes for watchers, if the multi was paused.
    pub changes: Changes,
    /// The create that is under way: it counts a subtree.
    pub counting: Option<Box<Counting>>,
    /// The operation that was refused: what was done before is being undone.
    pub refused: Option<(usize, Refusal)>,
}

impl Multi {
    pub fn new(count: usize) -> Multi {
        Multi {
            outcomes: Vec::with_capacity(count),
            undo: Vec::with_capacity(count),
            changes: Changes::default(),
            counting: None,
            refused: None,
        }
    }
}

/// The end of a session between two steps.
pub(crate) struct Ending {
    pub session: SessionId,
    /// Its ephemerals, as far as they are collected and sorted.
    pub ephemerals: PathSort,
    pub stage: EndingAt,
}

/// Where the end of a session goes on.
pub(crate) enum EndingAt {
    /// The paths of the ephemerals behind this one are to be looked at.
    Looking(Option<ZnodeId>),
    /// The ephemerals behind this one are to be collected.
    Collecting(Option<ZnodeId>),
    /// All are collected.
    Sorting,
    /// So many are removed.
    Removing(usize),
}

/// The end of several sessions between two steps.
#[derive(Default)]
pub(crate) struct Expiry {
    /// How many sessions of the list were looked at.
    pub passed: usize,
    /// How many of them have ended.
    pub count: usize,
    /// The end of the last that was looked at, if that is not done.
    pub ending: Option<Ending>,
}

impl Ending {
    pub fn new(session: SessionId) -> Ending {
        Ending { session, ephemerals: PathSort::default(), stage: EndingAt::Looking(None) }
    }

    /// Whether some of the ephemerals are removed.
    pub fn has_removed(&self) -> bool {
        matches!(self.stage, EndingAt::Removing(1..))
    }
}

//! Commands that are done in several steps.
//!
//! A step looks at a bounded number of znodes. A command that needs more znodes is *paused* after a
//! step. Apply then runs the same command again before any other command, and the command continues
//! where it stopped. So the result does not depend on the size of the steps.
//!
//! While a command is paused, the tree may have some of the command's changes, but not all. No
//! reader may see such a tree ([`crate::Zk::is_amid_change`]), because each reply shows the state
//! at the zxid in its header. ZooKeeper's own servers are less strict when a session ends: they
//! remove the session's ephemerals one by one, and meanwhile show the remaining ephemerals under
//! the previous zxid (`DataTree.killSession`, 3.9).
//!
//! Watch events may be sent before the command is done. For example, the end of a session publishes
//! its changes after each step; a client that gets such an event and then reads must wait. A multi
//! is the exception: it publishes its changes only when it is done, because its last operation may
//! still be refused.

use crate::ids::{SessionId, Zxid};
use crate::zk::change::{Changes, OpenTransaction};
use crate::zk::path_sort::PathSort;
use crate::zk::reply::{Outcome, Refusal};
use crate::zk::steps::Steps;
use crate::zk::tree::ZnodeId;
use crate::zk::txn::Undo;
use crate::zk::usage::{Usage, UsageCount};

/// The budget and the output of one step of a command.
pub(crate) struct Step<'c> {
    /// How much the step may still look at.
    pub steps: Steps,
    /// Receives the changes that the step makes.
    pub changes: &'c mut Changes,
}

/// A command that is paused between two of its steps.
pub(crate) struct Paused {
    /// The last zxid consumed before the command started.
    pub zxid_before: Zxid,
    pub at: PausedAt,
}

/// Where a paused command continues.
pub(crate) enum PausedAt {
    /// In a create that has made its znode, and now counts a subtree.
    Create(Box<Counting>),
    Multi(Box<Multi>),
    Close(Box<Ending>),
    Expire(Box<Expiry>),
    /// In the list of paths: `passed` paths were looked at, and `removed` of their znodes removed.
    Containers {
        passed: usize,
        removed: usize,
    },
}

/// The result of a step: `Ok` holds the outcome of the command, `Err` where the next step
/// continues.
pub(crate) type Stepped = Result<Result<Outcome, Refusal>, PausedAt>;

impl PausedAt {
    /// The transaction that has published only some of its changes; `None` if there is none.
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

/// A create that has made a znode for the usage of a subtree (see [`crate::zk::quota`]), and now
/// counts that subtree.
pub(crate) struct Counting {
    pub path: Box<str>,
    /// The usage that the create adds to the quota that its own path is under.
    pub more: Usage,
    pub count: UsageCount,
    pub outcome: Outcome,
}

/// A multi that is paused between two of its steps.
pub(crate) struct Multi {
    /// The outcomes of the operations done so far.
    pub outcomes: Vec<Outcome>,
    /// How to undo those operations, in their order.
    pub undo: Vec<Undo>,
    /// The changes for watchers so far, kept back until the multi is done.
    pub changes: Changes,
    /// The operation under way, if it is a create that counts a subtree.
    pub counting: Option<Box<Counting>>,
    /// The position of the refused operation and the reason, while the operations before it are
    /// being undone.
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

/// The end of a session that is paused between two of its steps.
pub(crate) struct Ending {
    pub session: SessionId,
    /// The session's ephemerals, as far as they are collected and sorted.
    pub ephemerals: PathSort,
    pub stage: EndingAt,
}

/// Where the end of a session continues.
pub(crate) enum EndingAt {
    /// Look at the paths of the ephemerals behind this one (`None`: of all).
    Looking(Option<ZnodeId>),
    /// Collect the ephemerals behind this one (`None`: all).
    Collecting(Option<ZnodeId>),
    /// Sort the ephemerals: all are collected.
    Sorting,
    /// Remove the ephemerals. This many are removed already.
    Removing(usize),
}

/// The expiry of several sessions, paused between two of its steps.
#[derive(Default)]
pub(crate) struct Expiry {
    /// How many sessions of the command's list were looked at.
    pub passed: usize,
    /// How many of them were expired.
    pub count: usize,
    /// The end of the session looked at last, if it is not done.
    pub ending: Option<Ending>,
}

impl Ending {
    pub fn new(session: SessionId) -> Ending {
        Ending { session, ephemerals: PathSort::default(), stage: EndingAt::Looking(None) }
    }

    /// Whether some of the ephemerals were removed already.
    pub fn has_removed(&self) -> bool {
        matches!(self.stage, EndingAt::Removing(1..))
    }
}

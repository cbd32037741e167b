//! Removals in steps.
//!
//! The removal of a directory takes one child out, whatever is below it. But it ends all times to
//! live below it, and those are found by a walk. So a step of a command looks at a bounded number
//! of nodes, and a command that needs more is *paused*: the same command comes again before
//! anything else is applied, and goes on where it stopped. The walk comes before the removal, so
//! reads between two steps see the directory with all that is in it, and the result does not depend
//! on the steps. Each key of an expiry has an index of its own, so reads may see some of them
//! expired and others not.
//!
//! The memory of what was removed is freed later, in steps as well ([`super::garbage`]).

use std::sync::Arc;

use crate::etcd_v2::change::{Changes, DeadlineChange};
use crate::etcd_v2::reply::Reason;
use crate::etcd_v2::tree::{Missing, Node};

/// The nodes that a step of a command may look at.
pub(crate) struct Budget {
    left: u64,
    looked_at: u64,
}

impl Budget {
    /// A budget of this many nodes, from 1.
    pub fn new(nodes_max: u64) -> Budget {
        assert!(nodes_max > 0, "a step does something");
        Budget { left: nodes_max, looked_at: 0 }
    }

    /// Takes a node. False if none is left.
    pub fn take(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        self.looked_at += 1;
        true
    }

    /// How many nodes were taken.
    pub fn looked_at(&self) -> u64 {
        self.looked_at
    }
}

/// A command between two of its steps.
#[derive(Default)]
pub(crate) struct Paused {
    /// How many keys of an expiry were looked at.
    pub passed: usize,
    /// How many of them have expired.
    pub count: u64,
    /// The walk below the node that is to be removed next. `None` if it is not begun.
    pub walk: Option<Walk>,
}

/// Why a step of a command gives no outcome.
pub(crate) enum Stop {
    /// The command is refused, and nothing has changed.
    Refused(Reason),
    /// Its work is not done.
    Paused(Paused),
}

impl From<Reason> for Stop {
    fn from(reason: Reason) -> Stop {
        Stop::Refused(reason)
    }
}

impl From<Missing<'_>> for Stop {
    fn from(missing: Missing<'_>) -> Stop {
        Stop::Refused(missing.into())
    }
}

/// A walk over the times to live of a node that is to be removed, and of all nodes below it.
/// Directories without any are passed by. The node does not change meanwhile.
pub(crate) struct Walk {
    /// The node, until its own time to live is reported.
    node: Option<Arc<Node>>,
    /// The directories that the walk is in, the outermost first.
    path: Vec<Place>,
}

/// A place in a directory.
struct Place {
    dir: Arc<Node>,
    /// The name of the last child that was looked at.
    after: Option<Arc<str>>,
}

/// What comes next in a directory.
enum Next {
    /// A directory with times to live below it.
    Into(Arc<Node>),
    /// Nothing.
    Done,
    /// Another step.
    Over,
}

impl Walk {
    /// A walk that is to begin at a node. The caller has looked at that one.
    pub fn of(node: Arc<Node>) -> Walk {
        Walk { node: Some(node), path: Vec::new() }
    }

    /// Goes on, and tells of each time to live that ends. False if it is not done, since the step
    /// is over.
    pub fn go_on(&mut self, budget: &mut Budget, changes: &mut Changes) -> bool {
        if let Some(node) = self.node.take() {
            tell(&node, changes);
            if node.below().ttl_count > 0 {
                self.path.push(Place { dir: node, after: None });
            }
        }
        while let Some(place) = self.path.last_mut() {
            match place.go_on(budget, changes) {
                Next::Into(dir) => self.path.push(Place { dir, after: None }),
                Next::Done => drop(self.path.pop()),
                Next::Over => return false,
            }
        }
        true
    }
}

impl Place {
    fn go_on(&mut self, budget: &mut Budget, changes: &mut Changes) -> Next {
        let (mut last, mut next) = (None, Next::Done);
        for (name, child) in self.dir.children_behind(self.after.as_deref()) {
            if !budget.take() {
                next = Next::Over;
                break;
            }
            last = Some(name);
            tell(child, changes);
            if child.below().ttl_count > 0 {
                next = Next::Into(child.clone());
                break;
            }
        }
        if let Some(last) = last.cloned() {
            self.after = Some(last);
        }
        next
    }
}

/// Tells that the time to live of a node ends, if it has one.
pub(crate) fn tell(node: &Node, changes: &mut Changes) {
    if let Some(ttl) = &node.stat.ttl {
        changes.push_deadline(DeadlineChange::Ended { since: ttl.since });
    }
}

#[cfg(test)]
mod tests;

//! Removes directories in steps.
//!
//! Taking a directory out of the tree is one change of its parent, however much is below it. But
//! the times to live of the nodes below it end as well, and finding these nodes needs a walk. So a
//! step of a command looks at a bounded number of nodes, and a command that needs more is *paused*
//! after a step: the caller passes the same command again before any other, and the command
//! continues where it stopped. The directory is taken out only after the walk. So reads between two
//! steps see the whole directory, and the result does not depend on the size of the steps. A
//! command that expires several keys removes each at an index of its own; reads between two steps
//! may see only some of them expired.
//!
//! The memory of removed nodes is freed later, also in steps ([`super::garbage`]).

use std::sync::Arc;

use crate::etcd_v2::change::{Changes, DeadlineChange};
use crate::etcd_v2::reply::Reason;
use crate::etcd_v2::tree::{Missing, Node};

/// The budget of one step of a command: how many nodes it may look at.
pub(crate) struct Budget {
    left: u64,
    looked_at: u64,
}

impl Budget {
    /// A budget of this many nodes, at least 1.
    pub fn new(nodes_max: u64) -> Budget {
        assert!(nodes_max > 0, "a step does something");
        Budget { left: nodes_max, looked_at: 0 }
    }

    /// Takes one node from the budget. False if none was left.
    pub fn take(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        self.looked_at += 1;
        true
    }

    /// How many nodes the step has taken.
    pub fn looked_at(&self) -> u64 {
        self.looked_at
    }
}

/// The progress of a command that is paused between two of its steps.
#[derive(Default)]
pub(crate) struct Paused {
    /// How many keys of an expiry are done.
    pub passed: usize,
    /// How many keys of an expiry were removed.
    pub count: u64,
    /// The walk through the node to remove next; `None` if that has not begun.
    pub walk: Option<Walk>,
}

/// Why a step of a command returns no outcome.
pub(crate) enum Stop {
    /// The command is refused, and nothing has changed.
    Refused(Reason),
    /// The command is not done: it is paused.
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

/// A walk that reports the end of each time to live in a node that will be removed: the node's own,
/// and those below it. It skips directories without any. The node must not change meanwhile.
pub(crate) struct Walk {
    /// The node, until the walk has reported its own time to live.
    node: Option<Arc<Node>>,
    /// The directories that the walk has entered, the outermost first.
    path: Vec<Place>,
}

/// The place of a walk in one directory.
struct Place {
    dir: Arc<Node>,
    /// The name of the last child that was looked at; `None` before the first.
    after: Option<Arc<str>>,
}

/// How a walk continues after a part of a directory.
enum Next {
    /// Enter this child, a directory with times to live below it.
    Into(Arc<Node>),
    /// Leave the directory: all its children were looked at.
    Done,
    /// Stop: the step's budget ran out.
    Over,
}

impl Walk {
    /// A walk that starts at a node. The caller has taken that node from the budget.
    pub fn of(node: Arc<Node>) -> Walk {
        Walk { node: Some(node), path: Vec::new() }
    }

    /// Continues the walk, and reports the times to live that it finds. False if the step's budget
    /// ran out before the end of the walk.
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

/// Reports the end of a node's time to live, if it has one.
pub(crate) fn tell(node: &Node, changes: &mut Changes) {
    if let Some(ttl) = &node.stat.ttl {
        changes.push_deadline(DeadlineChange::Ended { since: ttl.since });
    }
}

#[cfg(test)]
mod tests;

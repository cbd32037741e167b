//! Znodes that are removed by themselves: containers that have lost their last child, and znodes
//! whose time to live has passed.
//!
//! The leader looks for them in bounded steps and proposes their removal. Whether each may go is
//! decided when the command is applied, from the state and the stamp alone: it may have got a child
//! or new data since it was found, or be another znode of that name. So the command need not hold
//! anything that the search saw, and members that look at other times decide alike.
//!
//! Source: `ContainerManager.getCandidates` and `PrepRequestProcessor` (`deleteContainer`),
//! ZooKeeper 3.9.5. There, a found znode is removed if it still has no children, whatever else
//! happened to it.

use crate::limits::{
    BATCH_BYTES_MAX, CONTAINER_ZNODES_DELETED_MAX, CONTAINER_ZNODES_LOOKED_AT_MAX,
};
use crate::zk::Zk;
use crate::zk::pause::Step;
use crate::zk::reply::Outcome;
use crate::zk::tree::{CONTAINER_OWNER, Znode, ZnodeId, ttl_ms};
use crate::zk::txn::{Call, Txn};

/// A step of the search: the criteria, and where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerSearch {
    /// The znode at which the step before ended; the root at first.
    pub from: ZnodeId,
    /// The most znodes to find.
    pub count_max: usize,
    /// The wall clock, ms since 1970: a znode that may live longer is not worth a command.
    pub time_ms: i64,
    /// The age in ms at which a container that never had a child is removed; 0: never.
    pub never_used_ms_max: u64,
}

/// The result of a step of the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainersFound {
    /// The paths of the znodes that are due for removal.
    pub paths: Vec<String>,
    /// The znode at which the next step begins; `None` if all were looked at.
    pub next: Option<ZnodeId>,
}

impl Zk {
    /// Looks at some of the containers and TTL znodes, and returns the ones due for removal: at
    /// most `count_max`, and no more bytes of paths than a batch may have, or one path if longer.
    pub fn find_container_znodes(&self, search: &ContainerSearch) -> ContainersFound {
        let count_max = search.count_max.min(CONTAINER_ZNODES_DELETED_MAX);
        let mut paths = Vec::new();
        let mut path_bytes = 0;
        for (looked_at, id) in self.tree().container_znodes(search.from).enumerate() {
            let is_full = paths.len() >= count_max || path_bytes >= BATCH_BYTES_MAX;
            if is_full || looked_at == CONTAINER_ZNODES_LOOKED_AT_MAX {
                return ContainersFound { paths, next: Some(id) };
            }
            if is_due(self.tree().znode(id), search.time_ms, search.never_used_ms_max) {
                let path = self.tree().path(id);
                path_bytes += path.len();
                paths.push(path);
            }
        }
        ContainersFound { paths, next: None }
    }

    /// Begins to remove the znodes that are due, each in a transaction of its own, or goes on
    /// behind the paths that it has passed. No permission is needed. The error says where it goes
    /// on, with the number of removed ones.
    pub(crate) fn delete_container_znodes(
        &mut self,
        call: Call<'_>,
        (paths, never_used_ms_max): (&[&str], u64),
        (mut passed, mut removed): (usize, usize),
        step: &mut Step<'_>,
    ) -> Result<Outcome, (usize, usize)> {
        while let Some(path) = paths.get(passed) {
            if !step.steps.take() {
                return Err((passed, removed));
            }
            step.steps.handle_path(path);
            passed += 1;
            let Some(znode) = self.tree().find(path) else { continue };
            if is_due(znode, call.stamp.time_ms, never_used_ms_max) {
                let id = znode.id();
                let mark = self.consume_zxid(call.ordinal);
                self.remove_znode(id, path, &mut Txn::new(mark, step.changes));
                removed += 1;
            }
        }
        Ok(Outcome::ContainersDeleted(removed))
    }
}

/// Whether a znode is due for removal. A container that never had a child stays for
/// `never_used_ms_max`, or for ever if that is 0: it may have been made a moment ago, with its
/// first child on the way.
fn is_due(znode: Znode<'_>, time_ms: i64, never_used_ms_max: u64) -> bool {
    if znode.child_count() > 0 {
        return false;
    }
    let is_older_than = |age_ms: u64| {
        let elapsed_ms = u64::try_from(time_ms.saturating_sub(znode.mtime()));
        elapsed_ms.is_ok_and(|elapsed_ms| elapsed_ms > age_ms)
    };
    match znode.owner() {
        CONTAINER_OWNER if znode.sequence() > 0 => true,
        CONTAINER_OWNER => never_used_ms_max != 0 && is_older_than(never_used_ms_max),
        owner => ttl_ms(owner).is_some_and(is_older_than),
    }
}

#[cfg(test)]
mod tests;

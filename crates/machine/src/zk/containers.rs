//! Znodes that the servers remove on their own: containers that have no children, and znodes
//! without children whose time to live has passed. A container that never had a child is removed
//! only at a certain age, or never.
//!
//! The leader searches for such znodes in bounded steps, and proposes a command with their paths.
//! Apply then decides whether each znode is removed, from the state and the stamp alone: since the
//! search, the znode may have got a child or new data, or a new znode may have its name. So the
//! command names the znodes only by path, and all members decide alike.
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

/// The parameters of one step of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerSearch {
    /// The znode to look at first: `next` of the step before, or the root.
    pub from: ZnodeId,
    /// The most znodes to find.
    pub count_max: usize,
    /// The wall clock, ms since 1970. The search returns only znodes that are due for removal at
    /// this time.
    pub time_ms: i64,
    /// The age in ms at which a container that never had a child is removed; 0 means never.
    pub never_used_ms_max: u64,
}

/// The result of a step of the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainersFound {
    /// The paths of the znodes that are due for removal.
    pub paths: Vec<String>,
    /// The znode at which the next step starts; `None` if the search has looked at all.
    pub next: Option<ZnodeId>,
}

impl Zk {
    /// Does one step of the search: looks at up to [`CONTAINER_ZNODES_LOOKED_AT_MAX`] containers
    /// and TTL znodes, and returns the paths of those that are due for removal. Stops at
    /// `count_max` paths, or when the paths fill a batch ([`BATCH_BYTES_MAX`], exceeded by at most
    /// one path).
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

    /// Removes the znodes that are due, each in its own transaction. `passed` and `removed` say how
    /// many paths an earlier step has looked at, and how many znodes it has removed; both 0 at
    /// first. Needs no permission. `Err` holds the two numbers for the next step.
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
/// `never_used_ms_max` ms, or forever if that is 0: perhaps it was made a moment ago, and its first
/// child is on the way.
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

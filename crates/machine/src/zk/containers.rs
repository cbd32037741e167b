//! Znodes that go by themselves: containers that have lost their last child, and znodes whose time
//! to live has passed.
//!
//! The leader looks for them in bounded steps and proposes their removal. Whether each goes is
//! decided when the command is applied, from the state and the stamp alone: it may have got a child
//! or new data since it was found, or be another znode of that name. So nothing of what was seen
//! when it was found need be in the command, and members that look at other times decide alike.
//!
//! Source: `ContainerManager.getCandidates` and `PrepRequestProcessor` (`deleteContainer`),
//! ZooKeeper 3.9.5. There, what was found is removed if it still has no children, whatever else
//! happened to it.

use crate::change::ChangeBatch;
use crate::limits::{
    BATCH_BYTES_MAX, CONTAINER_ZNODES_DELETED_MAX, CONTAINER_ZNODES_LOOKED_AT_MAX,
};
use crate::zk::Zk;
use crate::zk::reply::Outcome;
use crate::zk::tree::{CONTAINER_OWNER, Znode, ZnodeId, ttl_ms};
use crate::zk::txn::{Call, Txn};

/// What to look for, and where to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerSearch {
    /// Where the step before ended; the root at first.
    pub from: ZnodeId,
    /// At most so many are found.
    pub count_max: usize,
    /// The wall clock, ms since 1970: a znode that lives longer by it is not worth a command.
    pub time_ms: i64,
    /// A container that never had a child goes after this, in ms; 0: never.
    pub never_used_ms_max: u64,
}

/// What a step found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainersFound {
    /// Of those that can go.
    pub paths: Vec<String>,
    /// Where the next step begins; none: all were looked at.
    pub next: Option<ZnodeId>,
}

impl Zk {
    /// Looks at some of the znodes that go by themselves, and gives those whose time has come.
    /// `count_max` of them at most, and no more bytes of paths than a batch may have, but one.
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

    /// Removes those whose time has come, each in a transaction of its own. No permission is
    /// needed.
    pub(crate) fn delete_container_znodes(
        &mut self,
        call: Call<'_>,
        paths: &[&str],
        never_used_ms_max: u64,
        changes: &mut ChangeBatch,
    ) -> Outcome {
        let mut count = 0;
        for path in paths {
            let Some(znode) = self.tree().find(path) else { continue };
            if is_due(znode, call.stamp.time_ms, never_used_ms_max) {
                let id = znode.id();
                let mark = self.consume_zxid(call.ordinal);
                self.remove_znode(id, path, &mut Txn::new(mark, changes));
                count += 1;
            }
        }
        Outcome::ContainersDeleted(count)
    }
}

/// Whether a znode goes now. A container without a child stays if it never had one: it was made a
/// moment ago, and its first child is on its way.
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

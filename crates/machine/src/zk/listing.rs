//! Lists of children, made in steps; the state's lock is released between them.
//!
//! A child that is made between two steps is the last of its parent's, so the list comes to it. One
//! that is removed may have been listed: then the list begins anew.

use crate::zk::Zk;
use crate::zk::acl::{self, Identity, perms};
use crate::zk::reply::Refusal;
use crate::zk::stat::Stat;
use crate::zk::tree::{TreeIdentity, ZnodeId};

/// The position between two steps of a list.
#[derive(Default)]
pub struct ListPlace(Option<(List, ZnodeId)>);

/// The list that a step goes on with.
#[derive(PartialEq)]
struct List {
    tree: TreeIdentity,
    znode: ZnodeId,
    /// Together with the id it identifies the znode: ids are used again.
    czxid: i64,
    /// The last removal of a child, see [`Znode::last_removal`].
    removal: u64,
}

/// The end of a step of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListStep {
    /// A listed child may have been removed. The caller drops all names, and the next step begins
    /// anew.
    Outdated,
    /// There are more.
    Part,
    /// These are all, and this is the stat of their parent.
    Whole(Stat),
}

impl Zk {
    /// Lists the next children of the znode at `path`, in no promised order: at most `names_max`,
    /// at least 1, and none behind the one that brings their names to `bytes_max` bytes. The whole
    /// list is that of the state at the last step. The znode must be readable at each step, as for
    /// [`QueryKind::Children`](crate::QueryKind::Children).
    pub fn list_children(
        &self,
        path: &str,
        identities: &[Identity<'_>],
        (names_max, bytes_max): (usize, usize),
        place: &mut ListPlace,
        mut each: impl FnMut(&str),
    ) -> Result<ListStep, Refusal> {
        let znode = self.tree().find(path).ok_or(Refusal::NoNode)?;
        if !acl::allows(self.settings(), znode.acl(), perms::READ, identities) {
            return Err(Refusal::NoAuth);
        }
        let list = List {
            tree: self.tree().identity().clone(),
            znode: znode.id(),
            czxid: znode.stat().czxid,
            removal: znode.last_removal(),
        };
        let mut next = match place.0.take() {
            None => znode.first_child(),
            Some((begun, last)) if begun == list => self.tree().znode(last).next_sibling(),
            Some(_) => return Ok(ListStep::Outdated),
        };
        let (mut last, mut bytes) = (None, 0);
        for _ in 0..names_max {
            let Some(child) = next.filter(|_| bytes < bytes_max) else { break };
            each(child.name());
            bytes += child.name().len();
            (last, next) = (Some(child.id()), child.next_sibling());
        }
        place.0 = last.map(|last| (list, last));
        Ok(match next {
            Some(_) => ListStep::Part,
            None => ListStep::Whole(znode.stat()),
        })
    }
}

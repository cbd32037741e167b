//! Lists the children of a znode in steps, between which the state's lock is released.
//!
//! A child that is made between two steps becomes the last child, so a later step lists it. A child
//! that is removed between two steps may have been listed already. So after every removal of a
//! child the list starts again ([`ListStep::Outdated`]).

use crate::zk::Zk;
use crate::zk::acl::{self, Identity, perms};
use crate::zk::reply::Refusal;
use crate::zk::stat::Stat;
use crate::zk::tree::{TreeIdentity, ZnodeId};

/// How far a list has come; the default is the start.
#[derive(Default)]
pub struct ListPlace(Option<(List, ZnodeId)>);

/// The facts that must not have changed since the step before, for the list to continue.
#[derive(PartialEq)]
struct List {
    tree: TreeIdentity,
    znode: ZnodeId,
    /// zxid of the znode's creation. With the id it identifies the znode, since ids are reused.
    czxid: i64,
    /// The value of [`super::tree::Znode::last_removal`]: changes with every removal of a child.
    removal: u64,
}

/// The result of one step of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListStep {
    /// A child that is listed already may have been removed. The caller must drop all names; the
    /// next step starts again.
    Outdated,
    /// More children are left for the next step.
    Part,
    /// All children are listed; this is the stat of their parent.
    Whole(Stat),
}

impl Zk {
    /// Lists the next children of the znode at `path`, in no particular order. A step lists at most
    /// `names_max` children (at least 1), and stops once their names have `bytes_max` bytes. The
    /// names of all steps together are the children at the time of the last step. Each step checks
    /// that the client may read the znode, as for
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

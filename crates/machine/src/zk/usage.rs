//! Counts the znodes and bytes of a subtree, in steps.

use crate::zk::steps::Steps;
use crate::zk::tree::{Tree, Znode, ZnodeId};

/// A number of znodes and of bytes: of a subtree, or what a write adds to it (negative if the write
/// takes away).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    pub znodes: i64,
    pub bytes: i64,
}

/// Bytes of data as quotas count them: 0 for null.
pub(crate) fn data_bytes(data: Option<&[u8]>) -> i64 {
    data.map_or(0, |data| data.len() as i64)
}

/// A count of a subtree that is under way. The tree must not change before it is done. It follows
/// the links between znodes, so it needs no list of them.
pub(crate) struct UsageCount {
    usage: Usage,
    /// The root of the subtree; `None` if no such znode exists.
    counted: Option<ZnodeId>,
    next: Option<Next>,
}

#[derive(Clone, Copy)]
enum Next {
    /// Count this znode, then go on to its first child, if there is one.
    Down(ZnodeId),
    /// This znode and all below it are counted; go on to its next sibling, or up.
    Up(ZnodeId),
}

impl UsageCount {
    pub fn new(top: Option<ZnodeId>) -> UsageCount {
        let usage = Usage { znodes: 0, bytes: 0 };
        UsageCount { usage, counted: top, next: top.map(Next::Down) }
    }

    /// The count so far: the result once [`UsageCount::go_on`] has returned true.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Continues to count. False if the step's budget ran out before all znodes are counted.
    pub fn go_on(&mut self, tree: &Tree, steps: &mut Steps) -> bool {
        while let Some(next) = self.next {
            if !steps.take() {
                return false;
            }
            self.next = match next {
                Next::Down(id) => {
                    let znode = tree.znode(id);
                    self.usage.znodes += 1;
                    self.usage.bytes += data_bytes(znode.data());
                    let child = znode.first_child().map(Znode::id);
                    Some(child.map_or(Next::Up(id), Next::Down))
                }
                Next::Up(id) if Some(id) == self.counted => None,
                Next::Up(id) => {
                    let sibling = tree.znode(id).next_sibling().map(Znode::id);
                    Some(sibling.map_or_else(|| Next::Up(tree.parent(id)), Next::Down))
                }
            };
        }
        true
    }
}

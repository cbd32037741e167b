//! The znodes and bytes of a subtree, counted in steps.

use crate::zk::steps::Steps;
use crate::zk::tree::{Tree, Znode, ZnodeId};

/// The znodes and bytes that a write adds to its subtree, or takes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Usage {
    pub znodes: i64,
    pub bytes: i64,
}

/// Bytes of data as quotas count them: null has none.
pub(crate) fn data_bytes(data: Option<&[u8]>) -> i64 {
    data.map_or(0, |data| data.len() as i64)
}

/// A count of a subtree, which nothing changes meanwhile. It follows the links between znodes, so
/// it holds none of them.
pub(crate) struct UsageCount {
    usage: Usage,
    /// The top of the subtree; `None` if there is no such znode.
    counted: Option<ZnodeId>,
    next: Option<Next>,
}

#[derive(Clone, Copy)]
enum Next {
    /// A znode that is not counted.
    Down(ZnodeId),
    /// A znode whose subtree is counted already.
    Up(ZnodeId),
}

impl UsageCount {
    pub fn new(top: Option<ZnodeId>) -> UsageCount {
        let usage = Usage { znodes: 0, bytes: 0 };
        UsageCount { usage, counted: top, next: top.map(Next::Down) }
    }

    /// The count so far.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Goes on counting. False if the step is over before all are counted.
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

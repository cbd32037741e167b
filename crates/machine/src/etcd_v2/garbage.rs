//! Frees nodes that are no longer in the tree, in steps: one removed directory may have millions.
//!
//! Readers, watchers and images may share such a node. The thread that drops the last reference
//! would free the node and everything below it at once. To avoid that, this module keeps a
//! reference of its own. A step looks at each kept node again, and takes it apart if nobody else
//! shares it. If more than `ETCD_V2_HELD_NODES_MAX` nodes are kept, the oldest is let go, shared or
//! not.

use std::collections::VecDeque;
use std::sync::Arc;
use std::vec;

use crate::etcd_v2::children::Chunk;
use crate::etcd_v2::tree::Node;
use crate::limits::{ETCD_V2_DROPPED_NODES_MAX, ETCD_V2_HELD_LOOKS_MAX, ETCD_V2_HELD_NODES_MAX};

/// Nodes to be freed.
#[derive(Default)]
pub(crate) struct Garbage {
    /// Nodes that others still shared at the last look, or that were not looked at yet.
    held: VecDeque<Arc<Node>>,
    /// How many looks at `held` nodes are still worth a step of their own.
    looks_wanted: usize,
    /// The parts that are left of the nodes being taken apart, the outermost first.
    parts: Vec<Part>,
}

/// A part of a directory that nobody else shares.
enum Part {
    Chunks(vec::IntoIter<Arc<Chunk<Node>>>),
    Nodes(vec::IntoIter<(Arc<str>, Arc<Node>)>),
}

impl Garbage {
    /// Adds a node that was removed from the tree, with everything below it.
    pub fn add(&mut self, node: Arc<Node>) {
        if node.below().node_count == 0 {
            return;
        }
        self.held.push_back(node);
        // The first look comes in the present step already, while a change for watchers still
        // shares the node. So count two looks.
        self.looks_wanted = 2 * self.held.len();
        if self.held.len() > ETCD_V2_HELD_NODES_MAX
            && let Some(first) = self.held.pop_front()
            && let Some(first) = Arc::into_inner(first)
        {
            self.take_apart(first);
        }
    }

    /// Whether [`Garbage::drop_some`] is worth calling now. Nodes that others share wait for the
    /// next step that comes anyway.
    pub fn has_work(&self) -> bool {
        !self.parts.is_empty() || self.looks_wanted > 0
    }

    /// Frees up to [`ETCD_V2_DROPPED_NODES_MAX`] nodes and chunks. Returns how many nodes and
    /// chunks the step has looked at, including those that others share.
    pub fn drop_some(&mut self) -> usize {
        let mut left = ETCD_V2_DROPPED_NODES_MAX;
        let looks = self.held.len().min(ETCD_V2_HELD_LOOKS_MAX);
        for _ in 0..looks {
            self.looks_wanted = self.looks_wanted.saturating_sub(1);
            let Some(node) = self.held.pop_front() else { break };
            match Arc::try_unwrap(node) {
                Ok(node) => self.take_apart(node),
                Err(node) => self.held.push_back(node),
            }
        }
        while left > 0 && self.drop_one() {
            left -= 1;
        }
        self.looks_wanted = self.looks_wanted.min(2 * self.held.len());
        looks + ETCD_V2_DROPPED_NODES_MAX - left
    }

    /// Frees everything that nobody else shares.
    pub fn drop_all(&mut self) {
        while self.has_work() {
            self.drop_some();
        }
    }

    /// Frees one node or chunk. False if none is being taken apart.
    fn drop_one(&mut self) -> bool {
        let Some(part) = self.parts.last_mut() else { return false };
        match part {
            Part::Chunks(chunks) => match chunks.next() {
                Some(chunk) => {
                    if let Some(nodes) = Arc::into_inner(chunk) {
                        self.parts.push(Part::Nodes(nodes.into_iter()));
                    }
                }
                None => self.end_part(),
            },
            Part::Nodes(nodes) => match nodes.next() {
                Some((_, node)) => {
                    if let Some(node) = Arc::into_inner(node) {
                        self.take_apart(node);
                    }
                }
                None => self.end_part(),
            },
        }
        true
    }

    fn take_apart(&mut self, node: Node) {
        let chunks = node.into_chunks();
        if !chunks.is_empty() {
            self.parts.push(Part::Chunks(chunks.into_iter()));
        }
    }

    fn end_part(&mut self) {
        self.parts.pop();
        if self.parts.is_empty() {
            // The directory just freed may have been the last that shared one of the `held` nodes.
            self.looks_wanted = self.looks_wanted.max(self.held.len());
        }
    }
}

#[cfg(test)]
mod tests;

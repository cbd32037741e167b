//! Nodes that are not part of the tree any more. There may be millions in one directory that was
//! removed, so they are dropped in steps.
//!
//! Readers, watchers and images may hold them, too. Who is the last to hold a node drops it; a
//! change for watchers is as a rule gone soon, so a node that somebody else holds is kept for a
//! while here, and looked at again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::vec;

use crate::etcd_v2::children::Chunk;
use crate::etcd_v2::tree::Node;
use crate::limits::{ETCD_V2_DROPPED_NODES_MAX, ETCD_V2_HELD_LOOKS_MAX, ETCD_V2_HELD_NODES_MAX};

/// Nodes to drop.
#[derive(Default)]
pub(crate) struct Garbage {
    /// Nodes that others held when they were looked at last, or were not looked at yet.
    held: VecDeque<Arc<Node>>,
    /// How many looks at them are worth a step of their own.
    looks_wanted: usize,
    /// The directories that are being dropped, the outermost first.
    parts: Vec<Part>,
}

/// A part of a directory that nobody else holds.
enum Part {
    Chunks(vec::IntoIter<Arc<Chunk<Node>>>),
    Nodes(vec::IntoIter<(Arc<str>, Arc<Node>)>),
}

impl Garbage {
    /// Adds a node, with all that is below it.
    pub fn add(&mut self, node: Arc<Node>) {
        if node.below().node_count == 0 {
            return;
        }
        self.held.push_back(node);
        // One look comes in the step that has added it, while its change is on its way.
        self.looks_wanted = 2 * self.held.len();
        if self.held.len() > ETCD_V2_HELD_NODES_MAX
            && let Some(first) = self.held.pop_front()
            && let Some(first) = Arc::into_inner(first)
        {
            self.take_apart(first);
        }
    }

    /// Whether another step is worth its while now. What others hold waits for the next step that
    /// comes anyway.
    pub fn has_work(&self) -> bool {
        !self.parts.is_empty() || self.looks_wanted > 0
    }

    /// Drops as many nodes as one step may. Returns how many it has looked at.
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

    /// Drops all that nobody else holds.
    pub fn drop_all(&mut self) {
        while self.has_work() {
            self.drop_some();
        }
    }

    /// Drops one node or chunk. False if there is none.
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
            // It may have been the last that held one of the others.
            self.looks_wanted = self.looks_wanted.max(self.held.len());
        }
    }
}

#[cfg(test)]
mod tests;

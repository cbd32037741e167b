//! Sorting znodes by their paths, in steps.
//!
//! The paths of a session's ephemerals may together be far larger than the tree: a long one may
//! have a million children. So the ids are sorted, and two paths are compared in the tree. It is a
//! merge sort of the runs that are there already: ids of znodes that were made in the order of
//! their names come in that order, and are one run.

use crate::zk::steps::Steps;
use crate::zk::tree::{Tree, ZnodeId};

/// Znodes that are being sorted by their paths. They must stay in the tree until that is done.
pub(crate) struct PathSort {
    /// Sorted runs, one behind the other.
    ids: Vec<ZnodeId>,
    /// The ends of the runs.
    ends: Vec<usize>,
    /// The runs that this pass has made out of pairs of those, and the run that it makes.
    merged: Vec<ZnodeId>,
    merged_ends: Vec<usize>,
    /// The number of the first run of the pair that is being merged.
    pair: usize,
    /// The next id of that run, and of the other one.
    left: usize,
    right: usize,
}

impl PathSort {
    /// Room for so many znodes.
    pub fn with_capacity(count: usize) -> PathSort {
        PathSort {
            ids: Vec::with_capacity(count),
            ends: Vec::new(),
            merged: Vec::new(),
            merged_ends: Vec::new(),
            pair: 0,
            left: 0,
            right: 0,
        }
    }

    /// Adds a znode, before the first call of [`PathSort::sort`].
    pub fn push(&mut self, tree: &Tree, id: ZnodeId, steps: &mut Steps) {
        let goes_on = self.ids.last().is_some_and(|&last| is_before(tree, last, id, steps));
        self.ids.push(id);
        match self.ends.last_mut().filter(|_| goes_on) {
            Some(end) => *end += 1,
            None => self.ends.push(self.ids.len()),
        }
    }

    /// Goes on sorting. False if the step is over before that is done.
    pub fn sort(&mut self, tree: &Tree, steps: &mut Steps) -> bool {
        while self.ends.len() > 1 {
            if self.pair == 0 && self.merged.is_empty() {
                self.merged.reserve_exact(self.ids.len());
                (self.left, self.right) = (0, self.ends[0]);
            }
            while self.pair < self.ends.len() {
                if !self.merge_pair(tree, steps) {
                    return false;
                }
            }
            core::mem::swap(&mut self.ids, &mut self.merged);
            core::mem::swap(&mut self.ends, &mut self.merged_ends);
            self.merged.clear();
            self.merged_ends.clear();
            self.pair = 0;
        }
        true
    }

    /// Merges two runs, or copies the last one if it is alone. False if the step is over before.
    fn merge_pair(&mut self, tree: &Tree, steps: &mut Steps) -> bool {
        let left_end = self.ends[self.pair];
        let right_end = self.ends.get(self.pair + 1).copied().unwrap_or(left_end);
        while self.left < left_end || self.right < right_end {
            if !steps.take() {
                return false;
            }
            let takes_left = self.right == right_end
                || (self.left < left_end
                    && is_before(tree, self.ids[self.left], self.ids[self.right], steps));
            let next = if takes_left { &mut self.left } else { &mut self.right };
            self.merged.push(self.ids[*next]);
            *next += 1;
        }
        self.merged_ends.push(self.merged.len());
        self.pair += 2;
        self.left = right_end;
        self.right = self.ends.get(self.pair).copied().unwrap_or(right_end);
        true
    }

    /// The znodes, in the order of their paths once they are sorted.
    pub fn ids(&self) -> &[ZnodeId] {
        &self.ids
    }
}

fn is_before(tree: &Tree, one: ZnodeId, other: ZnodeId, steps: &mut Steps) -> bool {
    let (order, levels) = tree.compare_paths(one, other);
    steps.handle_levels(levels);
    order.is_lt()
}

#[cfg(test)]
mod tests;

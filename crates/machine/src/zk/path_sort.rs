//! Sorts znodes by their paths, in steps.
//!
//! All paths of a session's ephemerals together may be far larger than the tree: a million children
//! of one znode with a long path each have that long path. So the sort does not hold the paths. It
//! holds a short key for each znode: some bytes of its path, behind the prefix that all paths
//! share. Where two keys are equal, the full paths are compared in the tree. It is a merge sort,
//! which goes through memory in order. It starts from the sorted runs that the input already has:
//! znodes made in the order of their names are one run.

use core::cmp::Ordering;

use crate::zk::steps::Steps;
use crate::zk::tree::{Tree, ZnodeId};

/// Bytes of a key: enough to tell apart the names of sequential znodes of one parent.
const KEY_BYTES: usize = 40;

#[derive(Clone, Copy)]
struct Keyed {
    /// The path behind the shared prefix, cut to this length or padded with zeros.
    key: [u8; KEY_BYTES],
    id: ZnodeId,
}

/// Znodes that are being sorted by their paths. They must stay in the tree until the sort is done.
#[derive(Default)]
pub(crate) struct PathSort {
    /// The longest prefix that all paths seen so far share; `None` before the first path.
    common: Option<Vec<u8>>,
    /// How many paths were passed to `see`.
    seen: usize,
    /// The znodes in sorted runs, one run behind the other.
    ids: Vec<Keyed>,
    /// The end of each run in `ids`.
    ends: Vec<usize>,
    /// The result of the running merge pass: merged runs, one behind the other, the last perhaps
    /// unfinished.
    merged: Vec<Keyed>,
    merged_ends: Vec<usize>,
    /// Index of the first of the two runs that are being merged.
    pair: usize,
    /// Index in `ids` of the next znode to merge: `left` in the first of the two runs, `right` in
    /// the second.
    left: usize,
    right: usize,
}

impl PathSort {
    /// Notes the path of a znode, to find the shared prefix. Call it for all znodes before the
    /// first call of [`PathSort::push`].
    pub fn see(&mut self, path: &str) {
        self.seen += 1;
        let Some(common) = &mut self.common else {
            self.common = Some(path.as_bytes().to_vec());
            return;
        };
        let pairs = common.iter().zip(path.as_bytes());
        let count = pairs.take_while(|(one, other)| one == other).count();
        common.truncate(count);
    }

    /// Adds a znode whose path was noted. Call it for all znodes before the first call of
    /// [`PathSort::sort`].
    pub fn push(&mut self, tree: &Tree, id: ZnodeId, path: &str, steps: &mut Steps) {
        let common = self.common.as_ref().expect("each path was seen").len();
        let mut key = [0; KEY_BYTES];
        key.iter_mut().zip(&path.as_bytes()[common..]).for_each(|(key, byte)| *key = *byte);
        let next = Keyed { key, id };
        if self.ids.is_empty() {
            self.ids.reserve_exact(self.seen);
        }
        let goes_on = self.ids.last().is_some_and(|last| is_before(tree, last, &next, steps));
        self.ids.push(next);
        match self.ends.last_mut().filter(|_| goes_on) {
            Some(end) => *end += 1,
            None => self.ends.push(self.ids.len()),
        }
    }

    /// Continues to sort. False if the step's budget ran out before the sort is done.
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

    /// Merges two runs, or copies a last run that has no partner. False if the step's budget ran
    /// out.
    fn merge_pair(&mut self, tree: &Tree, steps: &mut Steps) -> bool {
        let left_end = self.ends[self.pair];
        let right_end = self.ends.get(self.pair + 1).copied().unwrap_or(left_end);
        while self.left < left_end || self.right < right_end {
            if !steps.take() {
                return false;
            }
            let takes_left = self.right == right_end
                || (self.left < left_end
                    && is_before(tree, &self.ids[self.left], &self.ids[self.right], steps));
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

    /// The znode at this place in the sorted order; `None` behind the last. Call it when the sort
    /// is done.
    pub fn get(&self, index: usize) -> Option<ZnodeId> {
        self.ids.get(index).map(|keyed| keyed.id)
    }
}

fn is_before(tree: &Tree, one: &Keyed, other: &Keyed, steps: &mut Steps) -> bool {
    match one.key.cmp(&other.key) {
        Ordering::Less => true,
        Ordering::Greater => false,
        Ordering::Equal => {
            let (order, levels) = tree.compare_paths(one.id, other.id);
            steps.handle_levels(levels);
            order.is_lt()
        }
    }
}

#[cfg(test)]
mod tests;

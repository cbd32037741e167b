//! Sorting znodes by their paths, in steps.
//!
//! The paths of a session's ephemerals may together be far larger than the tree: a long one may
//! have a million children. So each znode has a short key, made of the bytes behind those that all
//! paths begin with; where two keys are equal, the paths are compared in the tree. It is a merge
//! sort, which goes through memory in order, of the runs that are there already: znodes that were
//! made in the order of their names come in that order, and are one run.

use core::cmp::Ordering;

use crate::zk::steps::Steps;
use crate::zk::tree::{Tree, ZnodeId};

/// Bytes of a key. Names of sequential znodes differ within these.
const KEY_BYTES: usize = 40;

#[derive(Clone, Copy)]
struct Keyed {
    /// The beginning of the path behind what all have in common, filled up with zeros.
    key: [u8; KEY_BYTES],
    id: ZnodeId,
}

/// Znodes that are being sorted by their paths. They must stay in the tree until that is done.
#[derive(Default)]
pub(crate) struct PathSort {
    /// The bytes that all paths begin with. None before the first is seen.
    common: Option<Vec<u8>>,
    /// How many paths were seen.
    seen: usize,
    /// Sorted runs, one behind the other.
    ids: Vec<Keyed>,
    /// The ends of the runs.
    ends: Vec<usize>,
    /// The runs that this pass has made out of pairs of those, and the run that it makes.
    merged: Vec<Keyed>,
    merged_ends: Vec<usize>,
    /// The number of the first run of the pair that is being merged.
    pair: usize,
    /// The next id of that run, and of the other one.
    left: usize,
    right: usize,
}

impl PathSort {
    /// Looks at the path of each znode, before the first call of [`PathSort::push`].
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

    /// Adds a znode whose path was seen, before the first call of [`PathSort::sort`].
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

    /// A znode by its place in the order of the paths, once they are sorted.
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

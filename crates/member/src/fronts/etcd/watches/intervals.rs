//! A set of key ranges that finds all ranges which contain a key: an interval tree.
//!
//! The tree is a treap: a search tree by the start of a range, and a heap by random priorities, so
//! it stays flat for any order of inserts. The seed is secret: a client that knew it could make the
//! tree degenerate into a list, and the recursion deep. Each node knows the greatest end in its
//! subtree, so a search skips subtrees that end before the key.

use std::cmp::Ordering;

use slab::Slab;

/// The exclusive end of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The range goes up to this key.
    At(Box<[u8]>),
    /// The range has no end.
    Never,
}

impl End {
    fn is_behind(&self, key: &[u8]) -> bool {
        match self {
            End::At(end) => key < &end[..],
            End::Never => true,
        }
    }

    fn order(&self, other: &End) -> Ordering {
        match (self, other) {
            (End::At(one), End::At(other)) => one.cmp(other),
            (End::At(_), End::Never) => Ordering::Less,
            (End::Never, End::At(_)) => Ordering::Greater,
            (End::Never, End::Never) => Ordering::Equal,
        }
    }
}

/// A set of ranges, each with a number as its value.
pub(super) struct Intervals {
    nodes: Slab<Node>,
    root: Option<u32>,
    random: u64,
}

struct Node {
    start: Box<[u8]>,
    end: End,
    value: u32,
    priority: u64,
    left: Option<u32>,
    right: Option<u32>,
    /// The node of this subtree whose end is greatest.
    last_to_end: u32,
}

impl Intervals {
    /// An empty set. The priorities come from this seed, which must be secret.
    pub fn new(seed: u64) -> Intervals {
        Intervals { nodes: Slab::new(), root: None, random: seed }
    }

    /// The number of ranges.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The value of a range; `None` if the set lacks it.
    pub fn get(&self, start: &[u8], end: &End) -> Option<u32> {
        let mut at = self.root;
        while let Some(number) = at {
            let node = self.node(number);
            at = match order((start, end), node) {
                Ordering::Less => node.left,
                Ordering::Greater => node.right,
                Ordering::Equal => return Some(node.value),
            };
        }
        None
    }

    /// Adds a range. The set must not have it yet.
    pub fn insert(&mut self, start: &[u8], end: End, value: u32) {
        let priority = self.next_priority();
        let (before, behind) = self.split(self.root, (start, &end));
        let node = Node {
            start: start.into(),
            end,
            value,
            priority,
            left: None,
            right: None,
            last_to_end: 0,
        };
        let number = self.nodes.insert(node) as u32;
        self.update(number);
        let left = self.merge(before, Some(number));
        self.root = self.merge(left, behind);
    }

    /// Removes a range. The set must have it.
    pub fn remove(&mut self, start: &[u8], end: &End) {
        self.root = self.remove_from(self.root, (start, end));
    }

    /// Calls `visit` with the value of each range that contains the key.
    pub fn find(&self, key: &[u8], visit: &mut impl FnMut(u32)) {
        self.find_in(self.root, key, visit);
    }

    fn find_in(&self, at: Option<u32>, key: &[u8], visit: &mut impl FnMut(u32)) {
        let Some(number) = at else { return };
        let node = self.node(number);
        if !self.node(node.last_to_end).end.is_behind(key) {
            return;
        }
        self.find_in(node.left, key, visit);
        if &node.start[..] <= key {
            if node.end.is_behind(key) {
                visit(node.value);
            }
            self.find_in(node.right, key, visit);
        }
    }

    fn node(&self, number: u32) -> &Node {
        &self.nodes[number as usize]
    }

    fn node_mut(&mut self, number: u32) -> &mut Node {
        &mut self.nodes[number as usize]
    }

    /// The next number of a splitmix64 generator.
    fn next_priority(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.random;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Recomputes the node with the greatest end in a node's subtree.
    fn update(&mut self, number: u32) {
        let node = self.node(number);
        let mut last = number;
        for child in [node.left, node.right].into_iter().flatten() {
            let candidate = self.node(child).last_to_end;
            if self.node(candidate).end.order(&self.node(last).end) == Ordering::Greater {
                last = candidate;
            }
        }
        self.node_mut(number).last_to_end = last;
    }

    /// Splits a subtree into the ranges before this range and those after it.
    fn split(&mut self, at: Option<u32>, range: (&[u8], &End)) -> (Option<u32>, Option<u32>) {
        let Some(number) = at else { return (None, None) };
        let node = self.node(number);
        let (left, right) = (node.left, node.right);
        let halves = match order(range, node) {
            Ordering::Greater => {
                let (before, behind) = self.split(right, range);
                self.node_mut(number).right = before;
                (Some(number), behind)
            }
            Ordering::Less | Ordering::Equal => {
                let (before, behind) = self.split(left, range);
                self.node_mut(number).left = behind;
                (before, Some(number))
            }
        };
        self.update(number);
        halves
    }

    /// Joins two subtrees. All ranges of the first are before those of the second.
    fn merge(&mut self, before: Option<u32>, behind: Option<u32>) -> Option<u32> {
        let (Some(one), Some(other)) = (before, behind) else { return before.or(behind) };
        let top = if self.node(one).priority >= self.node(other).priority {
            let right = self.node(one).right;
            self.node_mut(one).right = self.merge(right, behind);
            one
        } else {
            let left = self.node(other).left;
            self.node_mut(other).left = self.merge(before, left);
            other
        };
        self.update(top);
        Some(top)
    }

    fn remove_from(&mut self, at: Option<u32>, range: (&[u8], &End)) -> Option<u32> {
        let number = at.expect("the range is there");
        let node = self.node(number);
        let (left, right) = (node.left, node.right);
        match order(range, node) {
            Ordering::Less => self.node_mut(number).left = self.remove_from(left, range),
            Ordering::Greater => self.node_mut(number).right = self.remove_from(right, range),
            Ordering::Equal => {
                self.nodes.remove(number as usize);
                return self.merge(left, right);
            }
        }
        self.update(number);
        Some(number)
    }
}

fn order((start, end): (&[u8], &End), node: &Node) -> Ordering {
    start.cmp(&node.start).then_with(|| end.order(&node.end))
}

#[cfg(test)]
mod tests;

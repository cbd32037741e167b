use std::collections::BTreeMap;

use super::*;
use crate::etcd::event::{Place, Version};
use crate::machine::tests::rig::Random;

/// A tree, and a plain map from each key to its events that must say the same.
#[derive(Default)]
struct Pair {
    tree: Tree,
    plain: BTreeMap<Vec<u8>, Vec<Event>>,
    revision: i64,
}

impl Pair {
    fn push(&mut self, key: &str, is_put: bool) {
        self.revision += 1;
        let place = Place { revision: self.revision, sub: 0 };
        let numbers = Version { create_revision: self.revision, version: 1, lease: 0 };
        let event = match is_put {
            true => Event::put(place, key.as_bytes(), numbers, b"v"),
            false => Event::delete(place, key.as_bytes()),
        };
        let events = self.plain.entry(key.as_bytes().to_vec()).or_default();
        let before = events.last().filter(|last| !last.is_delete()).cloned();
        events.push(event.clone());
        assert_eq!(self.tree.push(event), before);
    }

    /// Deletes up to `count` existing keys, from this one on.
    fn remove_from(&mut self, key: &str, count: u64) {
        self.revision += 1;
        let mut place = Place { revision: self.revision, sub: 0 };
        let mut removal = |key: &[u8]| {
            place.sub += 1;
            Event::delete(place, key)
        };
        let mut removed = Vec::new();
        self.tree.change_from(key.as_bytes(), count, |versions| {
            if versions.is_live() {
                removed.push(removal(versions.key()));
                versions.push(removed[removed.len() - 1].clone());
            }
        });
        let mut removed = removed.into_iter();
        for (_, events) in self.plain.range_mut(key.as_bytes().to_vec()..).take(count as usize) {
            if events.last().is_some_and(|last| !last.is_delete()) {
                events.push(removed.next().expect("the tree has removed it"));
            }
        }
        assert_eq!(removed.next(), None);
    }

    /// Prunes the events of a key up to the event at index `number`.
    fn prune(&mut self, key: &[u8], number: usize) {
        let events = self.plain.get_mut(key).expect("the caller knows the key");
        let event = events[number].clone();
        events.drain(..number + usize::from(event.is_delete()));
        if events.is_empty() {
            self.plain.remove(key);
        }
        self.tree.prune(&event);
    }

    fn counts_before(&self, key: &[u8]) -> Counts {
        sum(self.plain.range(..key.to_vec()).map(|(_, events)| counts_of(events)))
    }

    /// Compares everything that the tree returns with the map.
    fn check(&self, random: &mut Random) {
        check_node(&self.tree.root, self.tree.counts);
        assert_eq!(self.tree.counts, sum(self.plain.values().map(|events| counts_of(events))));
        for _ in 0..20 {
            let key = format!("{}", random.below(3_000));
            let key = key.as_bytes();
            assert_eq!(self.tree.before(key), self.counts_before(key));
            let found = self.tree.get(key).map(Versions::as_slice);
            assert_eq!(found, self.plain.get(key).map(Vec::as_slice));
            let shown = self.tree.from(key).map(Versions::as_slice);
            assert!(shown.eq(self.plain.range(key.to_vec()..).map(|(_, events)| &events[..])));
        }
        let mut copy = Tree::default();
        for events in self.plain.values() {
            copy.push_behind(Versions::of(events.clone()));
        }
        check_node(&copy.root, self.tree.counts);
        assert_eq!(copy.counts, self.tree.counts);
        let shown = copy.from(&[]).map(Versions::as_slice);
        assert!(shown.eq(self.plain.values().map(Vec::as_slice)));
    }
}

fn counts_of(events: &[Event]) -> Counts {
    let is_live = events.last().is_some_and(|last| !last.is_delete());
    Counts { keys: 1, live: u64::from(is_live) }
}

/// Checks the counts, the sizes and the bounds in a node and everything below it. Returns its
/// height.
fn check_node(node: &Node, counts: Counts) -> usize {
    assert_eq!(node.counts(), counts);
    assert!(node.len() <= NODE_MAX);
    match node {
        Node::Leaf(leaf) => {
            leaf.check();
            0
        }
        Node::Inner(children) => {
            assert!(!children.is_empty());
            for pair in children.windows(2) {
                assert!(*pair[1].from <= *first_key(&pair[1].node));
                assert!(last_key(&pair[0].node) < &*pair[1].from);
            }
            let heights = children.iter().map(|child| check_node(&child.node, child.counts));
            let heights: Vec<usize> = heights.collect();
            assert!(heights.iter().all(|height| *height == heights[0]));
            heights[0] + 1
        }
    }
}

fn first_key(node: &Node) -> &[u8] {
    match node {
        Node::Leaf(leaf) => leaf.entries()[0].key(),
        Node::Inner(children) => first_key(&children[0].node),
    }
}

fn last_key(node: &Node) -> &[u8] {
    match node {
        Node::Leaf(leaf) => leaf.entries().last().expect("no node is empty").key(),
        Node::Inner(children) => last_key(&children.last().expect("no node is empty").node),
    }
}

#[test]
fn a_tree_that_grows_and_shrinks_says_what_a_plain_map_says() {
    for seed in 0..12 {
        let mut random = Random(seed);
        let mut pair = Pair::default();
        for round in 0..12 {
            // First the tree grows for a while, then most keys are deleted and pruned.
            let puts_of_ten = if round % 4 < 2 { 9 } else { 2 };
            for _ in 0..random.below(2_500) {
                let key = format!("{}", random.below(3_000));
                pair.push(&key, random.below(10) < puts_of_ten);
            }
            for _ in 0..3 {
                let key = format!("{}", random.below(3_000));
                let count = [0, 1, 70, 5_000][random.below(4)];
                pair.remove_from(&key, count.min(random.below(1_000) as u64));
                pair.check(&mut random);
            }
            let keys: Vec<Vec<u8>> = pair.plain.keys().cloned().collect();
            for key in keys {
                let count = pair.plain[&key].len();
                if random.below(3) > 0 {
                    pair.prune(&key, random.below(count));
                }
            }
            pair.check(&mut random);
        }
    }
}

#[test]
fn keys_in_their_order_fill_the_nodes_and_all_may_go() {
    let mut pair = Pair::default();
    for number in 0..10_000 {
        pair.push(&format!("{number:06}"), true);
    }
    assert_eq!(check_node(&pair.tree.root, pair.tree.counts), 2);
    let Node::Inner(children) = &pair.tree.root else { panic!("it has a height") };
    assert_eq!(children.len(), 10_000_usize.div_ceil(NODE_MAX * NODE_MAX));
    for number in 0..10_000 {
        let key = format!("{:06}", number * 7 % 10_000);
        pair.push(&key, false);
        pair.prune(key.as_bytes(), 1);
    }
    pair.check(&mut Random(1));
    assert!(matches!(&pair.tree.root, Node::Leaf(leaf) if leaf.len() == 0));
}

/// Some keys are prefixes of others, or end in zero bytes: their heads are equal.
#[test]
fn keys_with_the_same_heads_are_told_apart() {
    let mut random = Random(9);
    let mut pair = Pair::default();
    let letters = ["\0", "a", "b", "\u{7f}", "aaaa", "\0\0\0\0"];
    for _ in 0..6_000 {
        let count = 1 + random.below(6);
        let key: String = (0..count).map(|_| letters[random.below(letters.len())]).collect();
        pair.push(&key, random.below(10) < 8);
        if random.below(4) == 0
            && let Some(last) = pair.plain.get(key.as_bytes()).map(Vec::len)
        {
            pair.prune(key.as_bytes(), last - 1);
        }
        let place = pair.tree.get(key.as_bytes()).map(Versions::as_slice);
        assert_eq!(place, pair.plain.get(key.as_bytes()).map(Vec::as_slice));
    }
    pair.check(&mut random);
    let keys = pair.plain.keys().cloned().collect::<Vec<_>>();
    for key in keys {
        assert_eq!(pair.tree.before(&key), pair.counts_before(&key));
    }
}

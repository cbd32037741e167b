use std::collections::BTreeMap;

use super::*;
use crate::machine::tests::rig::Random;

const MAX: usize = ETCD_V2_CHUNK_NODES_MAX;

impl<T> Children<T> {
    /// Checks the sizes of the chunks and the order of the names.
    fn check(&self) {
        for chunk in &self.chunks {
            assert!((1..=MAX).contains(&chunk.len()));
        }
        let names: Vec<&str> = self.behind(None).map(|(name, _)| &**name).collect();
        assert!(names.is_sorted_by(|one, next| one < next));
    }
}

/// Children named after these numbers, each with its number as node.
fn children_of(numbers: impl Iterator<Item = usize>) -> Children<usize> {
    let mut children = Children::default();
    for number in numbers {
        assert_eq!(children.insert(&text(number), number.into()), None);
    }
    children.check();
    children
}

fn text(number: usize) -> String {
    format!("{number:06}")
}

#[test]
fn names_in_order_fill_their_chunks() {
    let check = |count: usize, chunks: usize| {
        assert_eq!(children_of(0..count).chunks.len(), chunks, "{count}");
    };
    check(0, 0);
    check(1, 1);
    check(MAX, 1);
    check(MAX + 1, 2);
    check(2 * MAX, 2);
    check(2 * MAX + 1, 3);
    assert_eq!(children_of((0..MAX + 1).rev()).chunks.len(), 2);
    assert_eq!(children_of(0..1_000), children_of((0..1_000).rev()), "whatever the chunks are");
    assert_ne!(children_of(0..1_000), children_of(0..999));
}

#[test]
fn a_chunk_without_nodes_is_dropped_and_small_ones_are_joined() {
    let mut children = children_of(0..4 * MAX);
    for number in 0..4 * MAX {
        if number % 16 != 0 {
            assert_eq!(children.remove(&text(number)), Some(number.into()));
            children.check();
        }
    }
    assert_eq!(children.chunks.len(), 1);
    for number in (0..4 * MAX).step_by(16) {
        children.remove(&text(number));
        children.check();
    }
    assert_eq!(children, Children::default());
    assert_eq!(children.remove("a"), None);
    assert_eq!(children.get("a"), None);
    assert_eq!(children.get_mut("a"), None);
}

#[test]
fn the_nodes_behind_a_name_begin_at_the_next() {
    let children = children_of((0..3 * MAX).map(|number| 2 * number));
    let next = |after: &str| children.behind(Some(after)).next().map(|(_, number)| **number);
    for number in 0..6 * MAX {
        let expected = (number / 2 + 1) * 2;
        assert_eq!(next(&text(number)), (expected < 6 * MAX).then_some(expected), "{number}");
    }
    assert_eq!(next(""), Some(0));
    assert_eq!(next("a"), None);
    assert_eq!(children.behind(Some(&text(0))).count(), 3 * MAX - 1);
    assert_eq!(Children::<u8>::default().behind(Some("a")).count(), 0);
}

#[test]
fn a_write_copies_the_chunk_that_is_held_and_no_other() {
    let mut children = children_of(0..4 * MAX);
    let held = children.clone();
    *children.get_mut(&text(MAX)).unwrap() = 7.into();
    assert_eq!(held.get(&text(MAX)), Some(&MAX.into()));
    assert_eq!(children.get(&text(MAX)), Some(&7.into()));
    let shared =
        children.chunks.iter().zip(&held.chunks).map(|(one, other)| Arc::ptr_eq(one, other));
    assert_eq!(shared.collect::<Vec<_>>(), [true, false, true, true]);
    // A search without a result copies no chunk.
    let before = children.clone();
    assert_eq!(children.get_mut("000000a"), None);
    assert_eq!(children.remove("000000a"), None);
    assert!(Arc::ptr_eq(&children.chunks[0], &before.chunks[0]));
}

#[test]
fn the_children_are_those_of_a_map() {
    let mut random = Random(1);
    let (mut children, mut map) = (Children::default(), BTreeMap::new());
    for step in 0..20_000 {
        // First many names, then few.
        let number = random.below(if step < 10_000 { 2_000 } else { 300 });
        let is_insert = random.percent(if step < 10_000 { 70 } else { 30 });
        let name = text(number);
        if is_insert {
            let before = map.insert(name.clone(), step);
            assert_eq!(children.insert(&name, step.into()).map(|step| *step), before);
        } else {
            assert_eq!(children.remove(&name).map(|step| *step), map.remove(&name));
        }
        assert_eq!(children.get(&name).map(|step| **step), map.get(&name).copied());
    }
    children.check();
    let all = children.behind(None).map(|(name, step)| (name.to_string(), **step));
    assert!(all.eq(map));
}

//! The list inside a tree node (the entries of a leaf, or the children of an inner node), which
//! grows by a few items at a time and splits when it is full.

/// The most entries or children of a node.
pub(super) const NODE_MAX: usize = 64;

/// How many entries a node's memory grows by at a time.
pub(super) const GROWTH: usize = 8;

/// Inserts an item. If the node is full, splits it, and returns the items for a new node to its
/// right.
pub(super) fn insert<T>(items: &mut Vec<T>, at: usize, item: T) -> Option<Vec<T>> {
    if items.len() < NODE_MAX {
        if items.len() == items.capacity() {
            items.reserve_exact(GROWTH);
        }
        items.insert(at, item);
        return None;
    }
    if at == items.len() {
        return Some(vec![item]);
    }
    let mut right = items.split_off(NODE_MAX / 2);
    items.shrink_to(NODE_MAX / 2 + GROWTH);
    right.reserve_exact(GROWTH);
    match at <= items.len() {
        true => items.insert(at, item),
        false => right.insert(at - items.len(), item),
    }
    Some(right)
}

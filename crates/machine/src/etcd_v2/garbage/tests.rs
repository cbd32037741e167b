use super::*;
use crate::etcd_v2::key::Key;
use crate::etcd_v2::tests::Rig;
use crate::etcd_v2::tree::{NodeStat, Tree};

/// The most nodes and chunks that one step may look at.
const STEP_MAX: usize = ETCD_V2_DROPPED_NODES_MAX + ETCD_V2_HELD_LOOKS_MAX;

fn key(text: &str) -> Key<'_> {
    Key::new(text).unwrap()
}

/// A tree with a directory `/d` of `dirs` directories with `files` files each. All files share one
/// value.
fn a_tree(value: &Arc<[u8]>, dirs: usize, files: usize) -> Tree {
    let mut tree = Tree::default();
    for (dir, file) in (0..dirs).flat_map(|dir| (0..files).map(move |file| (dir, file))) {
        let stat = NodeStat { created: 1, modified: 1, ttl: None };
        tree.insert(key(&format!("/d/{dir}/{file}")), Node::file(stat, value.clone()), 1);
    }
    tree
}

/// Frees everything in steps. Returns the number of steps.
fn drop_in_steps(garbage: &mut Garbage, value: &Arc<[u8]>) -> usize {
    let mut steps = 0;
    while garbage.has_work() {
        let before = Arc::strong_count(value);
        assert!(garbage.drop_some() <= STEP_MAX);
        assert!(before - Arc::strong_count(value) <= ETCD_V2_DROPPED_NODES_MAX);
        steps += 1;
    }
    steps
}

#[test]
fn a_directory_that_nobody_holds_is_dropped_in_steps() {
    let value: Arc<[u8]> = b"v"[..].into();
    let mut tree = a_tree(&value, 3, 2_000);
    let mut garbage = Garbage::default();
    let removed = tree.remove(key("/d"));
    garbage.add(removed);
    assert_eq!(Arc::strong_count(&value), 6_001);
    assert!(drop_in_steps(&mut garbage, &value) >= 6_000 / ETCD_V2_DROPPED_NODES_MAX);
    assert_eq!(Arc::strong_count(&value), 1);
    assert!(garbage.held.is_empty());
}

#[test]
fn a_directory_that_somebody_holds_waits() {
    let value: Arc<[u8]> = b"v"[..].into();
    let mut tree = a_tree(&value, 3, 2_000);
    let mut garbage = Garbage::default();
    let removed = tree.remove(key("/d"));
    let inner = tree_at(&removed, "/1");
    garbage.add(removed.clone());
    assert!(drop_in_steps(&mut garbage, &value) > 0, "it does not look for ever");
    assert_eq!(Arc::strong_count(&value), 6_001);
    drop(removed);
    assert!(!garbage.has_work());
    // The next step that comes anyway looks at the held nodes again.
    garbage.drop_some();
    drop_in_steps(&mut garbage, &value);
    assert_eq!(Arc::strong_count(&value), 2_001, "a reader has the rest");
    assert_eq!(inner.below().node_count, 2_000);
    drop(inner);
    assert_eq!(Arc::strong_count(&value), 1);
}

fn tree_at(node: &Arc<Node>, below: &str) -> Arc<Node> {
    let name = below.trim_start_matches('/');
    node.children().find(|(found, _)| &***found == name).unwrap().1.clone()
}

#[test]
fn not_more_than_some_directories_wait() {
    let value: Arc<[u8]> = b"v"[..].into();
    let mut tree = a_tree(&value, ETCD_V2_HELD_NODES_MAX + 5, 2);
    let mut garbage = Garbage::default();
    let mut readers = Vec::new();
    for dir in 0..ETCD_V2_HELD_NODES_MAX + 5 {
        let removed = tree.remove(key(&format!("/d/{dir}")));
        readers.push(removed.clone());
        garbage.add(removed);
        garbage.drop_some();
    }
    assert_eq!(garbage.held.len(), ETCD_V2_HELD_NODES_MAX);
    let own = readers.iter().filter(|node| Arc::strong_count(node) == 1);
    assert_eq!(own.count(), 5, "theirs to drop");
    readers.clear();
    garbage.looks_wanted = garbage.held.len();
    drop_in_steps(&mut garbage, &value);
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn files_and_empty_directories_are_no_garbage() {
    let mut rig = Rig::default();
    rig.script("PUT /f value=1\nPUT /d dir=true\nDELETE /f\nDELETE /d dir=true");
    assert!(!rig.store.has_garbage());
    rig.script("PUT /d/f value=1\nDELETE /d recursive=true");
    assert!(rig.store.has_garbage());
}

#[test]
fn what_an_image_has_held_is_dropped_in_steps() {
    let value: Arc<[u8]> = b"v"[..].into();
    let ends: [fn(&mut Rig); 3] = [
        |rig| rig.store.thaw(),
        |rig| {
            rig.store.freeze_step(&mut Vec::new(), usize::MAX, u32::MAX);
        },
        |rig| {
            rig.store.abort_walk();
            rig.store.freeze_step(&mut Vec::new(), usize::MAX, u32::MAX);
        },
    ];
    for end in ends {
        let mut rig = Rig::default();
        rig.store.tree = a_tree(&value, 3, 2_000);
        rig.store.freeze();
        rig.store.freeze_step(&mut Vec::new(), 0, 2_500);
        rig.run("DELETE", "/d", "recursive=true");
        rig.changes.take_keys();
        while rig.store.has_garbage() {
            rig.store.prune();
        }
        assert_eq!(Arc::strong_count(&value), 6_001, "the image holds it");
        end(&mut rig);
        assert_eq!(Arc::strong_count(&value), 6_001, "nothing goes at once");
        assert!(drop_in_steps(&mut rig.store.garbage, &value) > 3);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}

#[test]
fn an_image_of_a_tree_that_did_not_change_leaves_no_garbage() {
    let mut rig = Rig::default();
    rig.script("PUT /d/f value=1");
    rig.store.freeze();
    rig.store.freeze_step(&mut Vec::new(), usize::MAX, u32::MAX);
    assert!(!rig.store.has_garbage());
    assert_eq!(Arc::strong_count(rig.store.tree().root()), 1);
}

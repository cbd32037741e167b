//! Runs the steps against the null server.

use super::*;
use crate::servers::null_server::NullServer;

const ARGS: TreeArgs = TreeArgs { parents: 7, children: 30, size: 20, clients: 4, keep: false };

fn connect(target: &Target) -> Driver {
    Driver::connect(&target.addresses, ARGS.clients, 10_000).unwrap()
}

#[test]
fn each_child_is_made_counted_and_removed_once() {
    let null = NullServer::with_children(ARGS.size, ARGS.children);
    let target = null.unwrap();
    let target = target.target();
    let mut driver = connect(&target);
    let mut tree = Tree::new(&ARGS, "t");
    let made = tree.make(&mut driver, &target).unwrap();
    assert_eq!((made.operations, made.errors, made.lost), (210, 0, 0));
    assert_eq!(tree.acknowledged, [30; 7]);
    let (phase, count) = tree.count(&mut driver, &target).unwrap();
    assert_eq!((phase.operations, phase.errors), (7, 0));
    assert_eq!(count, Count { found: 210, missing: 0, surplus: 0 });
    let removed = tree.remove(&mut driver, &target).unwrap();
    assert_eq!((removed.operations, removed.errors), (210, 0));
    assert!(tree.last_child().starts_with("/bench-t/p"), "{}", tree.last_child());
}

/// Two servers have lost znodes, and one has znodes that were never created.
#[test]
fn what_is_missing_and_what_is_too_much_is_counted() {
    for (has, missing, surplus) in [(29, 7, 0), (0, 210, 0), (32, 0, 14)] {
        let null = NullServer::with_children(ARGS.size, has).unwrap();
        let target = null.target();
        let mut driver = connect(&target);
        let mut tree = Tree::new(&ARGS, "t");
        tree.make(&mut driver, &target).unwrap();
        let (phase, count) = tree.count(&mut driver, &target).unwrap();
        assert_eq!((count.missing, count.surplus, phase.errors), (missing, surplus, 7));
    }
}

#[test]
fn paths_number_parents_and_children() {
    let tree = Tree::new(&ARGS, "t");
    let mut path = String::new();
    for (index, expected) in
        [(0, "/bench-t/p0/c0"), (30, "/bench-t/p1/c0"), (209, "/bench-t/p6/c29")]
    {
        tree.child(&mut path, index);
        assert_eq!(path, expected);
    }
}

#[test]
fn impossible_shapes_are_named() {
    assert!(ARGS.check().is_ok());
    for (args, named) in [
        (TreeArgs { parents: 0, ..ARGS }, "--parents: 0"),
        (TreeArgs { children: 0, ..ARGS }, "--children: 0"),
        (TreeArgs { parents: 100_000, children: 100_000, ..ARGS }, "--parents times --children"),
        (TreeArgs { size: DATA_BYTES_MAX + 1, ..ARGS }, "--size"),
        (TreeArgs { clients: 0, ..ARGS }, "--clients: 0"),
    ] {
        let error = args.check().unwrap_err().to_string();
        assert!(error.starts_with(named), "{error}");
    }
}

//! Tests of `check_held`: at each limit and one above it.

use super::*;

#[test]
fn a_thing_too_many_of_any_kind_is_rejected() {
    let held = |batches, syncs| [("batches", batches, 4), ("syncs", syncs, 0)];
    assert_eq!(check_held(2, held(4, 0)), Ok(()));
    let check = |batches, syncs, expected: &str| {
        assert_eq!(check_held(2, held(batches, syncs)), Err(expected.to_string()));
    };
    check(5, 0, "member 2 keeps 5 batches, at most 4");
    check(4, 1, "member 2 keeps 1 syncs, at most 0");
}

//! Tests of the order of a walk.

use super::*;

/// Walks a tree, given as paths, and checks the steps.
fn check(root: &str, tree: &[&str], expected: &str) {
    let mut walk = Walk::new(root);
    let mut log = Vec::new();
    while let Some(step) = walk.next() {
        match step {
            Step::Enter { path, depth } => {
                let lasts: String = walk.lasts().map(|last| if last { '1' } else { '0' }).collect();
                log.push(format!("{depth}{path}:{lasts}"));
                let below = format!("{}/", path.trim_end_matches('/'));
                let names = tree.iter().filter_map(|other| other.strip_prefix(&below));
                let names = names.filter(|name| !name.is_empty() && !name.contains('/'));
                walk.listed(names.map(str::to_string).collect());
            }
            Step::Leave(path) => log.push(format!("-{path}")),
        }
    }
    assert_eq!(log.join(" "), expected);
}

#[test]
fn parents_are_entered_before_and_left_after_what_is_below() {
    check("/a", &[], "0/a: -/a");
    check("/", &["/a", "/b"], "0/: 1/a:0 -/a 1/b:1 -/b -/");
    check(
        "/a",
        &["/a/b", "/a/b/c", "/a/d", "/e"],
        "0/a: 1/a/b:0 2/a/b/c:01 -/a/b/c -/a/b 1/a/d:1 -/a/d -/a",
    );
}

#[test]
fn siblings_are_those_not_yet_entered() {
    let mut walk = Walk::new("/");
    walk.next();
    assert_eq!(walk.siblings(9), Vec::<String>::new());
    walk.listed(["a", "b", "c", "d"].map(str::to_string).to_vec());
    walk.next();
    assert_eq!(walk.siblings(2), ["/b", "/c"]);
    walk.listed(vec!["x".to_string()]);
    walk.next();
    assert_eq!(walk.siblings(2), Vec::<String>::new());
}

//! Tests of the error texts about paths, which are those of ZooKeeper's own shell.

use super::*;

#[test]
fn good_paths_have_no_fault() {
    for path in ["/", "/a", "/a/b c", "/a/...", "/a.b/.c", "/\u{fc}"] {
        assert_eq!(path_fault(path), None, "{path}");
    }
}

/// The expected texts are from the real `zkCli.sh`.
#[test]
fn faults_are_said_in_the_words_of_zkcli() {
    let check = |path: &str, expected: &str| {
        assert_eq!(path_fault(path).as_deref(), Some(expected), "{path:?}");
    };
    let invalid = |path: &str, why: &str| {
        check(path, &format!("Invalid path string \"{}\" caused by {why}", path.escape_debug()));
    };
    check("", "Path length must be > 0");
    check("a", "Path must start with / character");
    check("/a/", "Path must not end with / character");
    invalid("/a//b", "empty node name specified @3");
    invalid("/a/../b", "relative paths not allowed @4");
    invalid("/a/./b", "relative paths not allowed @3");
    invalid("/a\0", "null character not allowed @2");
    invalid("/ab/c\u{7}", "invalid character @5");
    invalid("/\u{1f600}", "invalid character @1");
}

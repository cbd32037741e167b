//! Tests of what may complete the end of a line.

use super::*;

fn one_of(line: &str, start: usize, expected: &[&str]) {
    let (word, wanted) = wanted(line);
    let expected = expected.iter().map(ToString::to_string).collect();
    assert_eq!((word.start, wanted), (start, Wanted::OneOf(expected)), "{line}");
}

fn child(line: &str, start: usize, parent: &str, name: &str) {
    let (word, wanted) = wanted(line);
    assert_eq!((word.start, wanted), (start, Wanted::Child(parent.into(), name.into())), "{line}");
}

#[test]
fn the_first_word_is_a_command() {
    one_of("getA", 0, &["getAcl", "getAllChildrenNumber"]);
    one_of("  GETAC", 2, &["getAcl"]);
    one_of("help wh", 5, &["whoami"]);
    one_of("nothing", 0, &[]);
    let (word, all) = wanted("");
    assert_eq!(word.start, 0);
    assert!(matches!(all, Wanted::OneOf(names) if names.len() == USAGES.len()));
}

#[test]
fn options_are_those_of_the_command() {
    one_of("ls -", 3, &["-s", "-w", "-R"]);
    one_of("ls /a -R", 6, &["-R"]);
    one_of("reconfig -m", 9, &["-members"]);
    one_of("addWatch -m PERSISTENT_", 12, &["PERSISTENT_RECURSIVE"]);
    one_of("printwatches o", 13, &["on", "off"]);
}

#[test]
fn a_path_is_a_child_of_its_parent() {
    child("ls /", 3, "/", "");
    child("ls /a", 3, "/", "a");
    child("get -s /a/b", 7, "/a", "b");
    child("get \"/a b/c d", 4, "/a b", "c d");
    assert_eq!(wanted("ls a").1, Wanted::Unknown);
    assert_eq!(wanted("ls ").1, Wanted::Unknown);
    assert_eq!(wanted("nothing /a").1, Wanted::Unknown);
}

#[test]
fn what_holds_spaces_is_quoted() {
    let check = |line: &str, text: &str, expected: &str| {
        assert_eq!(quoted(&wanted(line).0, text), expected, "{line}");
    };
    check("ls /a", "/ab", "/ab");
    check("ls /a", "/a b", "\"/a b\"");
    check("ls /a", "/a \"b", "'/a \"b'");
    check("ls '/a", "/a b", "'/a b");
}

//! Finds functions that are too long to take in at a glance.

use std::fs;

use super::code::{code_only, item_end, places_of, without_tests, word_at};
use super::{assert_none, crates, is_test_file, rust_files, shown};

/// Maximum number of lines of a function, from its `fn` to its closing brace.
const LINES_MAX: usize = 70;

/// The name and number of lines of every function that has a body.
fn functions(code: &str) -> Vec<(&str, usize)> {
    let functions = places_of(code, "fn").into_iter().filter_map(|at| {
        // A type such as `fn(u8)` has no name.
        let name = word_at(code[at + "fn".len()..].trim_start());
        let (end, body) = item_end(code, at);
        let is_function = !name.is_empty() && body.is_some();
        is_function.then(|| (name, code[at..end].lines().count()))
    });
    functions.collect()
}

#[test]
fn no_function_is_too_long() {
    let mut complaints = Vec::new();
    let crates = crates();
    let files = crates.values().flat_map(|(folder, _)| rust_files(&folder.join("src")));
    for file in files.filter(|file| !is_test_file(file)) {
        let source = fs::read_to_string(&file).expect("a source file is text");
        let code = without_tests(&code_only(&source));
        for (name, lines) in functions(&code).into_iter().filter(|(_, lines)| *lines > LINES_MAX) {
            complaints.push(format!("{}::{name} has {lines} lines", shown(&file)));
        }
    }
    assert_none(complaints);
}

#[test]
fn functions_are_measured() {
    let check = |source: &str, expected: &[(&str, usize)]| {
        assert_eq!(functions(&code_only(source)), expected, "{source}");
    };
    check("fn f() {}", &[("f", 1)]);
    check("fn f(\n  a: [u8; 2],\n) {\n}\n", &[("f", 4)]);
    check("trait A { fn f(); fn g() {\n} }", &[("g", 2)]);
    check("struct A { f: fn(u8) -> u8 }", &[]);
    check("fn f() { fn g() {\n}\n}", &[("f", 3), ("g", 2)]);
    check("fn f() {\n\"}\"; '}'; r#\"\n}\"#; // }\n/* } */ }", &[("f", 4)]);
    check("fn f<'a>(a: &'a u8) where u8: 'a {\n'{'\n}", &[("f", 3)]);
    check("const fn f() -> [u8; 2] {\n[0; 2] }", &[("f", 2)]);
    check("// fn f() {\n\n}", &[]);
}

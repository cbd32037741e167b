//! Finds types that are too large to remember: by the number of their fields, and by the number of
//! files that hold their code. Short functions do not help the reader of a type that all of them
//! can change.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::code::{code_only, item_end, places_of, without_tests, word_at};
use super::{assert_none, crates, is_test_file, rust_files, shown};

/// Maximum number of fields of a struct. `WIDE_FIELDS_MAX` is for structs in `WIDE` only.
const FIELDS_MAX: usize = 20;
const WIDE_FIELDS_MAX: usize = 30;
/// Maximum number of files that hold code of one type.
const FILES_MAX: usize = 3;

/// Structs with more than `FIELDS_MAX` fields: the crate, the name and the present number of
/// fields. The list may only shrink.
const WIDE: [(&str, &str, usize); 5] = [
    ("chunk", "Store", 21),
    // These have the fields of Ozone's messages.
    ("chunk", "ContainerCommandRequestProto", 23),
    ("chunk", "ContainerCommandResponseProto", 23),
    ("member", "ZkFrontMetrics", 25),
    ("node", "Shared", 25),
];

/// Types with code in more than `FILES_MAX` files: the crate, the name and the present number of
/// files. The list may only shrink.
const SPREAD: [(&str, &str, usize); 9] = [
    ("bench", "Session", 6),
    ("chunk", "Store", 9),
    ("machine", "Machine", 4),
    // The first is etcd's, the second etcd v2's.
    ("machine", "Store", 12),
    ("machine", "Store", 4),
    ("machine", "Zk", 9),
    ("member", "EtcdFront", 6),
    ("member", "Loop", 6),
    ("member", "ZkFront", 12),
];

/// A source file of a crate: its full path, its path inside `src` (`inner`), and its code without
/// tests.
struct Source {
    path: PathBuf,
    inner: PathBuf,
    code: String,
}

impl Source {
    /// The path of the file's module: `a/b` for `a/b.rs` and `a/b/mod.rs`, and empty for `lib.rs`
    /// and `main.rs`.
    fn module(&self) -> PathBuf {
        let path = self.inner.with_extension("");
        match path.file_name().and_then(|name| name.to_str()) {
            Some("lib" | "main" | "mod") => path.parent().unwrap_or(Path::new("")).to_path_buf(),
            _ => path,
        }
    }
}

/// The source files of each crate, by the crate's name.
fn sources() -> BTreeMap<String, Vec<Source>> {
    let read = |folder: &Path, path: PathBuf| {
        let text = fs::read_to_string(&path).expect("a source file is text");
        let inner = path.strip_prefix(folder).expect("the file is below").to_path_buf();
        Source { code: without_tests(&code_only(&text)), inner, path }
    };
    let of_crate = |folder: PathBuf| {
        let folder = folder.join("src");
        let files = rust_files(&folder).into_iter().filter(|file| !is_test_file(file));
        files.map(|path| read(&folder, path)).collect()
    };
    crates().into_iter().map(|(name, (folder, _))| (name, of_crate(folder))).collect()
}

/// A definition of a struct or enum.
#[derive(Debug, PartialEq)]
struct Type<'a> {
    name: &'a str,
    /// The number of its fields.
    fields: usize,
    /// Whether a field is visible to other modules of the crate, but not to other crates.
    is_open: bool,
}

/// The parts between the commas of a list, without the empty one after a last comma.
fn parts(list: &str) -> Vec<&str> {
    let mut depth = 0_usize;
    let mut begin = 0;
    let mut parts = Vec::new();
    let bytes = list.as_bytes();
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' | b'<' => depth += 1,
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b')' | b']' | b'}' | b'>' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(&list[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&list[begin..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// The structs and enums of a file. The number of fields is 0 for an enum, and for a struct whose
/// fields have no names.
fn types(code: &str) -> Vec<Type<'_>> {
    let mut found = Vec::new();
    for keyword in ["struct", "enum"] {
        for at in places_of(code, keyword) {
            let name = word_at(code[at + keyword.len()..].trim_start());
            let (end, body) = item_end(code, at);
            let fields = match body {
                Some(body) if keyword == "struct" => parts(&code[body + 1..end - 1]),
                _ => Vec::new(),
            };
            let is_open = fields.iter().any(|field| field.contains("pub("));
            found.push(Type { name, fields: fields.len(), is_open });
        }
    }
    found
}

/// The name of the type that `rest` begins with: the last part of its path, without generic
/// arguments. `None` for a reference, a tuple and the like.
fn type_name(rest: &str) -> Option<&str> {
    let mut rest = rest.trim_start();
    loop {
        let word = word_at(rest);
        match rest[word.len()..].strip_prefix("::") {
            Some(inner) => rest = inner,
            None => return Some(word).filter(|word| !word.is_empty()),
        }
    }
}

/// The text after the angle brackets at the beginning of `rest`; `rest` itself if it does not begin
/// with any.
fn without_generics(rest: &str) -> &str {
    let rest = rest.trim_start();
    if !rest.starts_with('<') {
        return rest;
    }
    let mut depth = 0;
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' if rest.as_bytes()[at - 1] != b'-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return &rest[at + 1..];
        }
    }
    rest
}

/// The range of each `impl` and `trait` block, with the type's name if the block is an `impl`
/// without a trait.
fn blocks(code: &str) -> Vec<(Range<usize>, Option<&str>)> {
    let mut found = Vec::new();
    for keyword in ["impl", "trait"] {
        for at in places_of(code, keyword) {
            // A parameter such as `impl Fn()` ends before any body.
            let (end, Some(body)) = item_end(code, at) else { continue };
            let head = &code[at + keyword.len()..body];
            let begins_item = code[..at].trim_end().ends_with(['}', ';', ']', '{'])
                || code[..at].trim_end().is_empty()
                || ["unsafe", "pub", ")"].iter().any(|it| code[..at].trim_end().ends_with(it));
            if !begins_item {
                continue;
            }
            let inherent = keyword == "impl" && places_of(head, "for").is_empty();
            let name = inherent.then(|| type_name(without_generics(head))).flatten();
            found.push((at..end, name));
        }
    }
    found
}

/// The types that the free functions of a file take as `&mut`.
fn changed_by_free_functions(code: &str) -> BTreeSet<&str> {
    let blocks = blocks(code);
    let mut found = BTreeSet::new();
    for at in places_of(code, "fn") {
        let name = word_at(code[at + "fn".len()..].trim_start());
        let inside = blocks.iter().any(|(block, _)| block.contains(&at));
        let (_, Some(body)) = item_end(code, at) else { continue };
        if name.is_empty() || inside {
            continue;
        }
        for (borrow, text) in code[at..body].match_indices("&mut ") {
            found.extend(type_name(&code[at + borrow + text.len()..body]));
        }
        for (borrow, _) in code[at..body].match_indices("&'") {
            let rest = &code[at + borrow + "&'".len()..body];
            let rest = rest[word_at(rest).len()..].trim_start();
            found.extend(rest.strip_prefix("mut ").and_then(type_name));
        }
    }
    found
}

/// The number of leading parts that two module paths have in common.
fn shared(one: &Path, other: &Path) -> usize {
    one.iter().zip(other.iter()).take_while(|(a, b)| a == b).count()
}

/// For each type of a crate, by name and module: the files that hold code of the type. These are
/// the files with an `impl` of it, and the files with a free function that takes it as `&mut` and
/// can reach its fields; any other function can only call its methods. If several modules define a
/// name, it means the one whose module is nearest.
fn spread(sources: &[Source]) -> BTreeMap<(String, PathBuf), BTreeSet<String>> {
    let mut homes: BTreeMap<&str, Vec<(PathBuf, bool)>> = BTreeMap::new();
    for source in sources {
        for found in types(&source.code) {
            homes.entry(found.name).or_default().push((source.module(), found.is_open));
        }
    }
    let mut spread: BTreeMap<(String, PathBuf), BTreeSet<String>> = BTreeMap::new();
    for source in sources {
        let module = source.module();
        let nearest = |name: &str| {
            let homes = homes.get(name).into_iter().flatten();
            homes.max_by_key(|(home, _)| shared(home, &module))
        };
        let mut note = |name: &str, home: &Path| {
            let files = spread.entry((name.to_string(), home.to_path_buf())).or_default();
            files.insert(shown(&source.path));
        };
        for name in blocks(&source.code).iter().filter_map(|(_, name)| *name) {
            nearest(name).into_iter().for_each(|(home, _)| note(name, home));
        }
        for name in changed_by_free_functions(&source.code) {
            let reached = nearest(name).filter(|(home, open)| *open || module.starts_with(home));
            reached.into_iter().for_each(|(home, _)| note(name, home));
        }
    }
    spread
}

#[test]
fn no_struct_has_too_many_fields() {
    let mut complaints = Vec::new();
    let mut listed: BTreeSet<&(&str, &str, usize)> = BTreeSet::new();
    for (name, sources) in sources() {
        for source in &sources {
            for found in types(&source.code) {
                let entry = WIDE.iter().find(|(of, wide, fields)| {
                    *of == name && *wide == found.name && *fields == found.fields
                });
                listed.extend(entry);
                if found.fields > WIDE_FIELDS_MAX || found.fields > FIELDS_MAX && entry.is_none() {
                    let Type { name, fields, .. } = found;
                    complaints.push(format!("{}: {name} has {fields} fields", shown(&source.path)));
                }
            }
        }
    }
    for (of, name, fields) in WIDE.iter().filter(|entry| !listed.contains(entry)) {
        complaints.push(format!("{of} has no {name} of {fields} fields: correct the list"));
    }
    assert_none(complaints);
}

#[test]
fn the_code_of_a_type_is_in_few_files() {
    let mut complaints = Vec::new();
    let mut listed: BTreeSet<&(&str, &str, usize)> = BTreeSet::new();
    for (name, sources) in sources() {
        for ((of, _), files) in spread(&sources) {
            let entry = SPREAD.iter().find(|(home, spread, count)| {
                *home == name && *spread == of && *count == files.len()
            });
            listed.extend(entry);
            if files.len() > FILES_MAX && entry.is_none() {
                let files: Vec<_> = files.into_iter().collect();
                let count = files.len();
                complaints
                    .push(format!("{name}: {of} has {count} files:\n  {}", files.join("\n  ")));
            }
        }
    }
    for (of, name, count) in SPREAD.iter().filter(|entry| !listed.contains(entry)) {
        complaints.push(format!("{of} has no {name} in {count} files: correct the list"));
    }
    assert_none(complaints);
}

#[test]
fn fields_are_counted() {
    let check = |code: &str, expected: &[(&str, usize)]| {
        let found: Vec<_> = types(code).iter().map(|it| (it.name, it.fields)).collect();
        assert_eq!(found, expected, "{code}");
    };
    check("struct A;", &[("A", 0)]);
    check("struct A(u8, u8);", &[("A", 0)]);
    check("pub struct A { a: u8, pub b: [u8; 2] }", &[("A", 2)]);
    check("struct A<T> where T: B { #[c(d, e)] a: M<u8, T>, f: fn(u8, u8) -> u8, }", &[("A", 2)]);
    check("struct A { a: u8 } enum B { C { d: u8, e: u8 } }", &[("A", 1), ("B", 0)]);
}

#[test]
fn code_of_a_type_is_found() {
    let changed =
        |code: &'static str| changed_by_free_functions(code).into_iter().collect::<Vec<_>>();
    assert_eq!(changed("fn f(a: &mut A, b: &B) {}"), ["A"]);
    assert_eq!(changed("fn f<'a>(a: &'a mut b::A<C>) {}"), ["A"]);
    assert_eq!(changed("impl A { fn f(b: &mut B) {} }"), [""; 0]);
    assert_eq!(changed("trait A { fn f(b: &mut B) {} }"), [""; 0]);
    assert_eq!(changed("fn f(a: impl Fn(&mut A)) {}"), ["A"]);

    let names = |code: &'static str| blocks(code).iter().map(|(_, it)| *it).collect::<Vec<_>>();
    assert_eq!(names("impl<'a, T: Fn() -> u8> b::A<'a, T> { }"), [Some("A")]);
    assert_eq!(names("impl B for A { }"), [None]);
    assert_eq!(names("fn f() -> impl B { }"), [None; 0]);
}

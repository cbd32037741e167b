//! Finds circles of imports among the files of a crate. A file should import the files that it is
//! built from, and these should not import it. A few files may import each other, but a larger
//! circle can only be understood as a whole, so this test refuses it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::code::{code_only, item_end, places_of, test_items, without_tests, word_at};
use super::{assert_none, crates, is_test_file, rust_files};

/// Maximum number of files in a circle of imports.
const FILES_MAX: usize = 3;

/// The path of a module inside its crate; the root's path is empty.
type Module = Vec<String>;
/// The modules that each module imports.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// A path that a file names.
#[derive(Debug, PartialEq)]
struct Named {
    path: Module,
    /// Whether a `pub use` names the path.
    is_reexport: bool,
    /// The offset of the path in the file, in bytes.
    at: usize,
}

/// Splits a use tree into its paths: `a::{b, c::d as e}` becomes `a::b` and `a::c::d`.
fn use_paths(tree: &str) -> Vec<Module> {
    let tree = tree.trim();
    let Some((prefix, list)) = tree.split_once('{') else {
        let path = tree.split_whitespace().next().unwrap_or_default();
        let segments = path.split("::").map(str::to_string).filter(|segment| !segment.is_empty());
        return vec![segments.collect()];
    };
    let prefix: Module =
        prefix.split("::").map(|it| it.trim().to_string()).filter(|it| !it.is_empty()).collect();
    let list = list.trim_end().strip_suffix('}').expect("a list of a use tree is closed");
    let mut depth = 0;
    let parts = list.split(|c| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    let parts = parts.filter(|part| !part.trim().is_empty()).flat_map(use_paths);
    parts.map(|path| [prefix.clone(), path].concat()).collect()
}

/// Every path that the code names after `use`, or that begins with `crate::` or `super::`.
fn named_paths(code: &str) -> Vec<Named> {
    let mut named = Vec::new();
    let mut inline = code.to_string();
    for at in places_of(code, "use") {
        let rest = &code[at + "use".len()..];
        let Some(end) = rest.find(';').filter(|_| rest.starts_with(char::is_whitespace)) else {
            continue;
        };
        let statement = code[..at].rfind([';', '{', '}', ']']).map_or(0, |before| before + 1);
        let is_reexport = word_at(code[statement..].trim_start()) == "pub";
        let paths = use_paths(&rest[..end]);
        named.extend(paths.into_iter().map(|path| Named { path, is_reexport, at }));
        let whole = at..at + "use".len() + end;
        inline.replace_range(whole.clone(), &" ".repeat(whole.len()));
    }
    for at in [places_of(&inline, "crate"), places_of(&inline, "super")].concat() {
        let is_head = !inline[..at].ends_with("::") && !inline[..at].ends_with("(in ");
        let end = inline[at..].find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
        let path: Module = inline[at..][..end.unwrap_or(inline.len() - at)]
            .split("::")
            .map(|segment| segment.trim_matches(':').to_string())
            .filter(|segment| !segment.is_empty())
            .collect();
        if is_head && path.len() > 1 {
            named.push(Named { path, is_reexport: false, at });
        }
    }
    named
}

/// The names of a file's inline modules, each with the range of the module's body.
fn inline_modules(code: &str) -> Vec<(String, Range<usize>)> {
    let modules = places_of(code, "mod").into_iter().filter_map(|at| {
        let name = word_at(code[at + "mod".len()..].trim_start()).to_string();
        let (end, body) = item_end(code, at);
        body.map(|body| (name, body..end))
    });
    modules.collect()
}

/// The module, among those with a file, that the path `named` leads to when `module` names it.
/// `None` if the path leads out of the crate, to `module` itself, to a child that it re-exports, or
/// to the crate's root. The root does not count, because it names every module and re-exports some
/// of their items.
fn target(
    module: &Module,
    inline: &[(String, Range<usize>)],
    named: &Named,
    files: &BTreeMap<Module, String>,
) -> Option<Module> {
    let inner = inline.iter().filter(|(_, body)| body.contains(&named.at)).map(|(name, _)| name);
    let mut base: Module = module.iter().chain(inner).cloned().collect();
    let mut segments = named.path.as_slice();
    match segments.first()?.as_str() {
        "crate" => {
            base.clear();
            segments = &segments[1..];
        }
        "self" => segments = &segments[1..],
        "super" => {
            while segments.first().is_some_and(|segment| segment == "super") {
                base.pop();
                segments = &segments[1..];
            }
        }
        child => {
            let is_child = files.contains_key(&[base.as_slice(), &[child.to_string()]].concat());
            if !is_child {
                return None;
            }
        }
    }
    let path = [base.as_slice(), segments].concat();
    let with_file = (1..=path.len()).rev().map(|count| path[..count].to_vec());
    let found = with_file.into_iter().find(|path| files.contains_key(path))?;
    let is_reexported_child = named.is_reexport && found.starts_with(module);
    (found != *module && !is_reexported_child).then_some(found)
}

/// The imports of each module of a crate, without those of tests. `sources` has the text of each
/// module's file.
fn imports(sources: Vec<(Module, String)>) -> Imports {
    let mut codes = BTreeMap::new();
    let mut for_tests = BTreeSet::new();
    for (module, source) in sources {
        let code = code_only(&source);
        for item in test_items(&code) {
            for at in places_of(&code[item.clone()], "mod") {
                let name = word_at(code[item.start + at + "mod".len()..].trim_start());
                for_tests.insert([module.as_slice(), &[name.to_string()]].concat());
            }
        }
        codes.insert(module, without_tests(&code));
    }
    codes.retain(|module, _| !for_tests.iter().any(|tests| module.starts_with(tests)));
    let imported = |module: &Module, code: &String| {
        let inline = inline_modules(code);
        let named = named_paths(code).into_iter();
        named.filter_map(|named| target(module, &inline, &named, &codes)).collect()
    };
    codes.iter().map(|(module, code)| (module.clone(), imported(module, code))).collect()
}

/// The source files of a crate except tests: each module with the text of its file.
fn sources(src: &Path) -> Vec<(Module, String)> {
    let files = rust_files(src).into_iter().filter(|file| !is_test_file(file));
    let module_of = |file: &PathBuf| -> Module {
        let inside =
            file.strip_prefix(src).expect("the file lies in the folder").with_extension("");
        let module: Module =
            inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if module == ["lib"] || module == ["main"] { Vec::new() } else { module }
    };
    let read = |file: &PathBuf| fs::read_to_string(file).expect("a source file is text");
    files.map(|file| (module_of(&file), read(&file))).collect()
}

/// Every module that a chain of imports leads to from `from`.
fn reached(imports: &Imports, from: &Module) -> BTreeSet<Module> {
    let mut reached = BTreeSet::new();
    let mut waiting = vec![from];
    while let Some(module) = waiting.pop() {
        waiting.extend(imports[module].iter().filter(|next| reached.insert((*next).clone())));
    }
    reached
}

/// The circles of more than one file, each as the set of modules that reach each other.
fn circles(imports: &Imports) -> BTreeSet<BTreeSet<Module>> {
    let reached: BTreeMap<&Module, BTreeSet<Module>> =
        imports.keys().map(|module| (module, reached(imports, module))).collect();
    let circle = |module: &&Module| -> BTreeSet<Module> {
        reached[module].iter().filter(|other| reached[other].contains(*module)).cloned().collect()
    };
    reached.keys().map(circle).filter(|circle| circle.len() > 1).collect()
}

/// The circle as text: a line for each file, with its imports inside the circle.
fn shown(circle: &BTreeSet<Module>, imports: &Imports) -> String {
    let lines = circle.iter().map(|module| {
        let inside = imports[module].intersection(circle).map(|other| other.join("/"));
        let inside: Vec<String> = inside.collect();
        format!("    {} -> {}\n", module.join("/"), inside.join(" "))
    });
    lines.collect()
}

#[test]
fn files_do_not_import_each_other_in_large_circles() {
    let mut complaints = Vec::new();
    for (name, (folder, _)) in crates() {
        let imports = imports(sources(&folder.join("src")));
        for circle in circles(&imports).iter().filter(|circle| circle.len() > FILES_MAX) {
            let (count, shown) = (circle.len(), shown(circle, &imports));
            complaints.push(format!("{name}: a circle of {count} files\n{shown}"));
        }
    }
    assert_none(complaints);
}

#[test]
fn use_trees_are_taken_apart() {
    let check = |tree: &str, expected: &[&str]| {
        let paths: Vec<String> = use_paths(tree).iter().map(|path| path.join("::")).collect();
        assert_eq!(paths, expected);
    };
    check(" crate::a", &["crate::a"]);
    check(" crate::a as b", &["crate::a"]);
    check(" super::*", &["super::*"]);
    check(
        " crate::{a, b::{C, d as e}, f}",
        &["crate::a", "crate::b::C", "crate::b::d", "crate::f"],
    );
}

#[test]
fn imports_are_found() {
    let check = |b: &str, expected: &[&str]| {
        let path = |path: &str| path.split('/').map(str::to_string).collect::<Module>();
        let files = [("a", ""), ("a/x", ""), ("b", b), ("b/y", ""), ("t", "")];
        let mut sources: Vec<_> =
            files.iter().map(|(file, source)| (path(file), source.to_string())).collect();
        sources.push((Vec::new(), "mod a; mod b; #[cfg(test)] mod t;".to_string()));
        let found = imports(sources)[&path("b")].iter().map(|it| it.join("/")).collect::<Vec<_>>();
        assert_eq!(found, expected, "{b}");
    };
    check("use crate::a::Item;", &["a"]);
    check("use crate::{a, a::x::Item};", &["a", "a/x"]);
    check("use super::a;", &["a"]);
    check("use self::y::Item; use y::Other;", &["b/y"]);
    check("pub use y::Item;", &[]);
    check("pub(crate) use self::y::Item;", &[]);
    check("pub use crate::a::Item;", &["a"]);
    check("fn f() { crate::a::x::g(super::a::H) }", &["a", "a/x"]);
    check("fn f() -> super::y::G {}", &[]);
    check("mod z { fn f() -> super::y::G { super::super::a::h() } }", &["a", "b/y"]);
    check("// use crate::a;\nconst B: &str = \"crate::a::x\";", &[]);
    check("#[cfg(test)] mod z { use crate::a; }", &[]);
    check("use crate::t; use std::a;", &[]);
    check("pub(in crate::a) struct B;", &[]);
    check("fn f() -> impl Sized + use<'_> { crate::a::g() }", &["a"]);
}

#[test]
fn circles_are_what_reaches_itself() {
    let module = |name: char| vec![name.to_string()];
    let imports: Imports = ["a", "bc", "cd", "db", "ef", "fe", "ga"]
        .iter()
        .map(|row| {
            let mut names = row.chars();
            (module(names.next().expect("a row has a module")), names.map(module).collect())
        })
        .collect();
    let found: Vec<String> =
        circles(&imports).iter().map(|circle| circle.iter().flatten().cloned().collect()).collect();
    assert_eq!(found, ["bcd", "ef"]);
}

//! Checks the rooms of `member`, that is, its groups of modules: which room may name which, and
//! that only the rooms of a space name its protocol and its part of the state. Also checks that
//! bounds of one room alone are defined in that room.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::arrows::{Arrow, listed_arrows};
use super::code::{code_only, without_tests, word_at};
use super::{assert_none, files_below, is_test_file, root, shown};

/// The rooms of `member`. Every room may name the modules beside them.
const ROOMS: [&str; 7] =
    ["fronts/etcd", "fronts/zk", "leader", "membership", "order", "snapshot", "spaces"];

/// Bounds that concern several crates although in `member` only one room names them: other crates
/// give the first to both kinds of fronts, and check the second on every link.
const SHARED: [&str; 2] = ["FRONT_COMMANDS_MAX", "PEER_BODY_BYTES_MAX"];

/// The room that `path` begins with, where `path` is a path of modules or of a file. `None` if the
/// path is in no room.
fn room_of(path: &str) -> Option<&'static str> {
    let is_in = |room: &&&str| {
        path.strip_prefix(**room)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '.']))
    };
    ROOMS.iter().find(is_in).copied()
}

/// The rooms that a file's code names after `crate::`.
fn named_rooms(code: &str) -> BTreeSet<&'static str> {
    let begins = code.match_indices("crate::").map(|(at, found)| &code[at + found.len()..]);
    let rooms = begins.filter_map(|rest| {
        let outer = word_at(rest);
        let inner = rest[outer.len()..].strip_prefix("::").map_or("", word_at);
        // Every room may name the bounds of another one.
        room_of(&format!("{outer}/{inner}")).filter(|_| inner != "limits")
    });
    rooms.collect()
}

#[test]
fn the_rooms_of_member_depend_on_each_other_as_architecture_lists() {
    let document = fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it is text");
    let names = ROOMS.iter().map(|room| room.to_string()).collect();
    let listed = listed_arrows(&document, 1, &names);
    let source = root().join("crates/member/src");
    let mut found: BTreeSet<Arrow> = BTreeSet::new();
    let mut complaints = Vec::new();
    for path in files_below(&source).into_iter().filter(|path| !is_test_file(path)) {
        let inner = path.strip_prefix(&source).expect("it is below").to_string_lossy().into_owned();
        let Some(room) = room_of(&inner) else { continue };
        let code = without_tests(&code_only(&fs::read_to_string(&path).expect("source is text")));
        for other in named_rooms(&code).into_iter().filter(|other| *other != room) {
            let arrow = (room.to_string(), other.to_string());
            if !listed.contains(&arrow) {
                complaints.push(format!("{} names {other}, and {room} may not", shown(&path)));
            }
            found.insert(arrow);
        }
    }
    for (from, to) in listed.difference(&found) {
        complaints.push(format!("ARCHITECTURE.md lists {from} -> {to}, and nothing needs it"));
    }
    assert_none(complaints);
}

/// The public constants that a file defines.
fn constants(code: &str) -> BTreeSet<String> {
    let names =
        code.match_indices("pub const ").map(|(at, found)| word_at(&code[at + found.len()..]));
    names.map(str::to_string).collect()
}

#[test]
fn bounds_of_member_are_beside_their_subject() {
    let source = root().join("crates/member/src");
    let mut users: BTreeMap<String, BTreeSet<Option<&str>>> = BTreeMap::new();
    let mut bounds: Vec<(String, Option<&str>)> = Vec::new();
    for path in files_below(&source).into_iter().filter(|path| !is_test_file(path)) {
        let inner = path.strip_prefix(&source).expect("it is below").to_string_lossy().into_owned();
        let code = without_tests(&code_only(&fs::read_to_string(&path).expect("source is text")));
        let room = room_of(&inner);
        let own = if inner.ends_with("limits.rs") { constants(&code) } else { BTreeSet::new() };
        let is_shouted =
            |word: &&str| word.chars().all(|c| c.is_ascii_uppercase() || "_0123456789".contains(c));
        let words = code.split(|c: char| !c.is_alphanumeric() && c != '_').filter(is_shouted);
        words.filter(|word| !own.contains(*word)).for_each(|word| {
            users.entry(word.to_string()).or_default().insert(room);
        });
        bounds.extend(own.into_iter().map(|name| (name, room)));
    }
    assert!(bounds.len() > 100, "the bounds were found");
    let complaint = |(name, home): &(String, Option<&str>)| {
        let users = users.get(name)?;
        let only = users.first().copied().flatten().filter(|_| users.len() == 1);
        match home {
            None if SHARED.contains(&&**name) => None,
            None => only.map(|room| format!("{name} is a bound of {room} alone")),
            // Another room may look at the bound, but the bound's own room must use it.
            Some(room) if !users.contains(&Some(*room)) => {
                Some(format!("{room} has no use for {name}"))
            }
            Some(_) => None,
        }
    };
    assert_none(bounds.iter().filter_map(complaint).collect());
}

#[test]
fn rooms_are_found_by_their_paths() {
    assert_eq!(room_of("order/clock.rs"), Some("order"));
    assert_eq!(room_of("fronts/etcd.rs"), Some("fronts/etcd"));
    assert_eq!(room_of("orders.rs"), None);
    let code =
        "use crate::fronts::zk::Now; use crate::spaces::{self}; use crate::order::limits::A;";
    assert_eq!(named_rooms(code), BTreeSet::from(["fronts/zk", "spaces"]));
}

/// A space: the names that belong to it, and the rooms of `member` that may use these names.
struct Space {
    /// The paths that belong to the space. `prefix` is the beginning of the names that `machine`
    /// gives to items of the space.
    paths: &'static [&'static str],
    prefix: &'static str,
    rooms: &'static [&'static str],
}

/// The spaces. etcd v2 counts as a part of etcd, because its Front is a part of the Front for
/// etcd's clients.
const SPACES: [Space; 2] = [
    Space {
        paths: &["zk::", "machine::zk::", "crate::fronts::zk::", "crate::spaces::zk::"],
        prefix: "Zk",
        rooms: &["fronts/zk", "spaces/zk", "spaces.rs", "local_read.rs"],
    },
    Space {
        paths: &[
            "etcd::",
            "etcd_v2::",
            "machine::etcd::",
            "machine::etcd_v2::",
            "crate::fronts::etcd::",
            "crate::spaces::etcd",
        ],
        prefix: "Etcd",
        rooms: &["fronts/etcd", "spaces/etcd", "spaces.rs", "local_read.rs"],
    },
];

/// Lines that may name a space outside its rooms: the file, and the beginning of the line.
const ELSEWHERE: [(&str, &str); 1] = [("lib.rs", "pub use ")];

/// The code of a line, without its comment.
fn code_of(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

/// Whether a line of code names this path, and not only a longer path that ends with it.
fn names_path(line: &str, path: &str) -> bool {
    let code = code_of(line);
    code.match_indices(path).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':')
    })
}

/// Whether a line of code has a name that begins with this prefix, as `ZkCommand` does with `Zk`.
/// The variants of `machine`'s enums over all spaces do not count.
fn has_prefixed(line: &str, prefix: &str) -> bool {
    let sums = ["Command::EtcdV2", "Outcome::EtcdV2"];
    let code = sums.iter().fold(code_of(line).to_string(), |code, sum| code.replace(sum, ""));
    code.match_indices(prefix).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let behind = code[at + prefix.len()..].chars().next();
        before.is_none_or(|c| !c.is_alphanumeric() && c != '_')
            && behind.is_some_and(|c| c.is_ascii_uppercase())
    })
}

impl Space {
    fn is_named(&self, line: &str) -> bool {
        self.paths.iter().any(|path| names_path(line, path)) || has_prefixed(line, self.prefix)
    }

    fn is_room(&self, inner: &str) -> bool {
        self.rooms.iter().any(|room| inner.starts_with(room))
    }
}

#[test]
fn a_line_names_a_space_in_code_only() {
    for (line, expected) in [
        ("use zk::ErrorCode;", true),
        ("    let query = &zk::ops::query(read);", true),
        ("use machine::zk::tree::ROOT;", true),
        ("use machine::{Command, ZkCommand};", true),
        ("        self.spaces.zk.heard(owner);", false),
        ("use crate::fronts::zk::ZkFront;", true),
        ("    // zk::ErrorCode has a number for it, and ZkCommand.", false),
    ] {
        assert_eq!(SPACES[0].is_named(line), expected, "{line}");
    }
    assert!(SPACES[1].is_named("use etcd::Error;"));
    assert!(SPACES[1].is_named("use machine::etcd_v2::key::Key;"));
    assert!(SPACES[1].is_named("    Command::Etcd(EtcdCommand::Compact { revision })"));
    assert!(!SPACES[1].is_named("    Command::Etcd(command) => 1,"));
}

#[test]
fn in_member_only_the_rooms_of_a_space_name_it() {
    let source = root().join("crates/member/src");
    let mut complaints = Vec::new();
    let mut named_counts = [0; SPACES.len()];
    for path in files_below(&source) {
        let inner = path.strip_prefix(&source).expect("it is below").to_string_lossy().into_owned();
        if inner.contains("tests") || path.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        let text = fs::read_to_string(&path).expect("source is text");
        for (space, count) in SPACES.iter().zip(&mut named_counts) {
            for (number, line) in (1..).zip(text.lines()).filter(|(_, it)| space.is_named(it)) {
                let is_excused = |(file, begin): &(&str, &str)| {
                    inner == *file && line.trim_start().starts_with(begin)
                };
                if space.is_room(&inner) {
                    *count += 1;
                } else if !ELSEWHERE.iter().any(is_excused) {
                    complaints.push(format!("{}:{number}: {}", shown(&path), line.trim()));
                }
            }
        }
    }
    assert!(named_counts.iter().all(|count| *count > 0), "the rooms that may name them do");
    assert_none(complaints);
}

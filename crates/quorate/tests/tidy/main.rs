//! Tests the structure of the workspace: which crate may depend on which, which crates use no
//! clocks, files and sockets, and which texts no file may contain. People judge taste; a test
//! checks everything that can be counted.
//!
//! `ARCHITECTURE.md` gives the reasons. To change one of these rules, change it there and here in
//! one commit.

mod arrows;
mod circles;
mod code;
mod commits;
mod lengths;
mod prose;
mod rooms;
mod shapes;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates that the manifest of one crate may name.
struct Wall {
    name: &'static str,
    /// The crates of this workspace that it may depend on.
    ours: &'static [&'static str],
    /// The crates from outside the workspace that it may depend on.
    theirs: &'static [&'static str],
}

/// All crates of the workspace. A crate that is missing here must not exist.
const WALLS: [Wall; 19] = [
    Wall {
        name: "machine",
        ours: &[],
        theirs: &["bytes", "foldhash", "hashbrown", "thiserror", "xxhash-rust"],
    },
    Wall {
        name: "storage",
        ours: &[],
        theirs: &["bytes", "crc32c", "rustix", "thiserror", "xxhash-rust", "zstd"],
    },
    Wall {
        name: "replica",
        ours: &[],
        theirs: &["bytes", "protobuf", "raft", "slog", "thiserror"],
    },
    Wall { name: "workload", ours: &[], theirs: &["bytes", "thiserror"] },
    Wall {
        name: "zk",
        ours: &["machine"],
        theirs: &["base64", "bytes", "md-5", "sha1", "sha2", "sha3", "thiserror"],
    },
    Wall {
        name: "member",
        ours: &["etcd", "grpc_code", "machine", "replica", "storage", "zk"],
        theirs: &[
            "bytes",
            "foldhash",
            "hashbrown",
            "hdrhistogram",
            "self_cell",
            "slab",
            "thiserror",
        ],
    },
    Wall {
        name: "node",
        ours: &["machine", "member", "storage"],
        theirs: &[
            "bytes",
            "crc32c",
            "hkdf",
            "hmac",
            "p256",
            "parking_lot",
            "rustls",
            "sha2",
            "thiserror",
            "tokio",
            "tokio-rustls",
            "tracing",
        ],
    },
    Wall {
        name: "sim",
        ours: &["etcd", "machine", "member", "replica", "storage", "workload", "zk"],
        theirs: &["base64", "bytes", "thiserror"],
    },
    Wall {
        name: "chunk",
        ours: &["storage"],
        theirs: &[
            "bytes",
            "crc-fast",
            "foldhash",
            "hashbrown",
            "md-5",
            "parking_lot",
            "prost",
            "rustix",
            "sha2",
            "thiserror",
        ],
    },
    Wall {
        name: "etcd",
        ours: &["grpc_code", "machine"],
        theirs: &["base64", "bytes", "itoa", "prost", "thiserror", "time"],
    },
    Wall { name: "grpc_code", ours: &[], theirs: &[] },
    Wall {
        name: "grpc",
        ours: &["grpc_code"],
        theirs: &[
            "base64",
            "bytes",
            "flate2",
            "h2",
            "http-body-util",
            "hyper",
            "thiserror",
            "tokio",
            "tracing",
        ],
    },
    Wall {
        name: "config",
        ours: &["chunk", "etcd", "machine", "member", "storage", "tls", "token", "workload", "zk"],
        theirs: &["clap", "saphyr-parser", "thiserror", "toml", "tracing-subscriber"],
    },
    Wall {
        name: "shell",
        ours: &["tls", "zk"],
        theirs: &[
            "anyhow",
            "base64",
            "clap",
            "rustix",
            "rustls",
            "rustyline",
            "serde_json",
            "thiserror",
            "tokio",
        ],
    },
    Wall {
        name: "tls",
        ours: &[],
        theirs: &[
            "p12-keystore",
            "p521",
            "pkcs5",
            "rustls",
            "rustls-webpki",
            "sha1",
            "sha2",
            "thiserror",
            "tracing",
            "x509-parser",
        ],
    },
    Wall {
        name: "token",
        ours: &[],
        theirs: &[
            "base64",
            "p256",
            "p384",
            "p521",
            "pem",
            "ring",
            "serde_json",
            "thiserror",
            "x509-parser",
        ],
    },
    Wall {
        name: "results",
        ours: &[],
        theirs: &["anyhow", "fastrand", "maud", "serde", "serde_json", "statrs"],
    },
    Wall {
        name: "bench",
        ours: &["chunk", "etcd", "results", "zk"],
        theirs: &[
            "anyhow",
            "bytes",
            "clap",
            "h2",
            "hdrhistogram",
            "http",
            "indicatif",
            "mio",
            "nix",
            "rustix",
            "serde",
            "serde_json",
            "thiserror",
            "time",
            "tokio",
        ],
    },
    Wall {
        name: "quorate",
        ours: &[
            "bench",
            "chunk",
            "config",
            "etcd",
            "grpc",
            "grpc_code",
            "machine",
            "member",
            "node",
            "replica",
            "results",
            "shell",
            "sim",
            "storage",
            "tls",
            "token",
            "workload",
            "zk",
        ],
        theirs: &[
            "anyhow",
            "base64",
            "bcrypt",
            "bytes",
            "clap",
            "http-body-util",
            "httparse",
            "httpdate",
            "hyper",
            "hyper-util",
            "itoa",
            "rcgen",
            "rustix",
            "rustls",
            "serde_json",
            "sha1",
            "sha2",
            "thiserror",
            "tikv-jemallocator",
            "tokio",
            "tokio-rustls",
            "tracing",
            "tracing-subscriber",
            "x509-parser",
        ],
    },
];

/// Crates that the tests of any crate may use.
const FOR_TESTS: [&str; 8] =
    ["flate2", "h2", "proptest", "prost-build", "protox", "rcgen", "rustix", "toml"];
/// The crates that run on tokio. The core threads do not: they are plain threads.
const ON_TOKIO: [&str; 5] = ["bench", "grpc", "node", "quorate", "shell"];
/// The crates whose `clippy.toml` bans clocks, chance, threads, files and sockets.
const PURE: [&str; 9] =
    ["config", "etcd", "machine", "member", "replica", "sim", "storage", "workload", "zk"];
/// Names that say nothing, and so attract everything.
const VAGUE: [&str; 7] = ["common", "helper", "helpers", "misc", "types", "util", "utils"];
/// Folders without source of ours, which are not searched.
const SKIPPED: [&str; 5] = [".git", "node_modules", "quorate-data", "target", "__pycache__"];

/// The root folder of the workspace.
fn root() -> PathBuf {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    crate_dir.ancestors().nth(2).expect("the crate lies two folders deep").to_path_buf()
}

/// Every file below `folder`, sorted.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the repository can be read") {
            let entry = entry.expect("an entry can be read");
            let kind = entry.file_type().expect("an entry has a type");
            let skipped = SKIPPED.iter().any(|name| entry.file_name() == *name);
            if kind.is_dir() && !skipped {
                folders.push(entry.path());
            } else if kind.is_file() && !skipped {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// The crates of the workspace by name, each with its folder and its parsed manifest.
fn crates() -> BTreeMap<String, (PathBuf, toml::Table)> {
    let mut crates = BTreeMap::new();
    for entry in fs::read_dir(root().join("crates")).expect("crates can be listed") {
        let folder = entry.expect("an entry can be read").path();
        let Ok(text) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        let manifest: toml::Table = text.parse().expect("a manifest is TOML");
        let name = folder.file_name().expect("a folder has a name").to_string_lossy().into_owned();
        crates.insert(name, (folder, manifest));
    }
    assert!(crates.contains_key("quorate"));
    crates
}

/// The names in one section of dependencies, including those for single targets (`[target.…]`).
fn dependencies(manifest: &toml::Table, section: &str) -> BTreeSet<String> {
    let table = |value: Option<&toml::Value>| value.and_then(|v| v.as_table()).cloned();
    let targets = table(manifest.get("target")).unwrap_or_default();
    let mut names = BTreeSet::new();
    for owner in std::iter::once(manifest).chain(targets.values().filter_map(|v| v.as_table())) {
        names.extend(table(owner.get(section)).unwrap_or_default().keys().cloned());
    }
    names
}

/// Fails if there are complaints, and shows all of them at once.
fn assert_none(complaints: Vec<String>) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn crates_depend_only_on_what_the_walls_allow() {
    let mut complaints = Vec::new();
    for (name, (_, manifest)) in crates() {
        let Some(wall) = WALLS.iter().find(|wall| wall.name == name) else {
            complaints.push(format!("{name} is not in the list of crates"));
            continue;
        };
        for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
            for dependency in dependencies(&manifest, section) {
                let dependency = dependency.as_str();
                let for_tests = section == "dev-dependencies" && FOR_TESTS.contains(&dependency);
                let allowed = wall.ours.contains(&dependency)
                    || wall.theirs.contains(&dependency)
                    || for_tests;
                if !allowed {
                    complaints.push(format!("{name} may not depend on {dependency}"));
                }
            }
        }
    }
    assert_none(complaints);
}

#[test]
fn the_walls_have_no_gap() {
    let by_name = |name: &str| WALLS.iter().find(|wall| wall.name == name);
    for wall in &WALLS {
        assert!(!wall.ours.contains(&wall.name), "{} depends on itself", wall.name);
        assert!(wall.ours.iter().all(|ours| by_name(ours).is_some()), "{}", wall.name);
        let tokio = wall.theirs.contains(&"tokio");
        assert!(!tokio || ON_TOKIO.contains(&wall.name), "{} may not name tokio", wall.name);
        let raft = wall.theirs.contains(&"raft");
        assert_eq!(raft, wall.name == "replica", "only replica knows the raft crate");
    }
    let judge = by_name("workload").expect("workload is listed");
    assert!(judge.ours.is_empty(), "the judge must not share the accused's bugs");
}

#[test]
fn tokio_and_raft_stay_in_their_crates() {
    let mut complaints = Vec::new();
    for (name, (folder, _)) in crates() {
        for file in rust_files(&folder.join("src")) {
            let text = fs::read_to_string(&file).expect("a source file is text");
            for (what, allowed) in
                [("tokio::", ON_TOKIO.contains(&name.as_str())), ("raft::", name == "replica")]
            {
                if !allowed && text.lines().any(|line| names_crate(line, what)) {
                    complaints.push(format!("{} names {what}", shown(&file)));
                }
            }
        }
    }
    assert_none(complaints);
}

/// Whether a line of code names a crate. `what` is the crate's name followed by `::`.
fn names_crate(line: &str, what: &str) -> bool {
    let code = line.split("//").next().unwrap_or(line);
    code.match_indices(what).any(|(index, _)| {
        let before = code.get(..index).and_then(|text| text.chars().next_back());
        before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':')
    })
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = if folder.is_dir() { files_below(folder) } else { Vec::new() };
    files.retain(|file| file.extension().is_some_and(|extension| extension == "rs"));
    files
}

#[test]
fn folder_and_crate_have_one_name() {
    for (name, (_, manifest)) in crates() {
        let package = manifest.get("package").and_then(|package| package.get("name"));
        assert_eq!(package.and_then(|value| value.as_str()), Some(name.as_str()));
    }
}

#[test]
fn no_crate_or_module_has_a_vague_name() {
    let mut complaints = Vec::new();
    for (name, (folder, _)) in crates() {
        if VAGUE.contains(&name.as_str()) {
            complaints.push(format!("crate {name}"));
        }
        for file in rust_files(&folder.join("src")) {
            let inside = file.strip_prefix(&folder).expect("the file lies in the crate");
            let vague = inside
                .iter()
                .map(|part| part.to_string_lossy())
                .any(|part| VAGUE.contains(&part.trim_end_matches(".rs")));
            if vague {
                complaints.push(shown(&file));
            }
        }
    }
    assert_none(complaints);
}

#[test]
fn pure_crates_ban_the_world_in_their_clippy_file() {
    let mut complaints = Vec::new();
    for name in PURE {
        let path = root().join("crates").join(name).join("clippy.toml");
        let Ok(text) = fs::read_to_string(&path) else {
            complaints.push(format!("{} is missing", shown(&path)));
            continue;
        };
        let table: toml::Table = text.parse().expect("a clippy.toml is TOML");
        for key in ["disallowed-methods", "disallowed-types"] {
            let bans = table.get(key).and_then(|value| value.as_array());
            let explained = bans.is_some_and(|bans| {
                !bans.is_empty() && bans.iter().all(|ban| ban.get("reason").is_some())
            });
            if !explained {
                complaints.push(format!("{}: {key} needs bans, with reasons", shown(&path)));
            }
        }
    }
    assert_none(complaints);
}

#[test]
fn every_source_file_of_a_library_opens_with_its_module_doc() {
    let mut complaints = Vec::new();
    for (_, (folder, _)) in crates() {
        if !folder.join("src/lib.rs").is_file() {
            continue;
        }
        for file in rust_files(&folder.join("src")) {
            let text = fs::read_to_string(&file).expect("a source file is text");
            if !is_test_file(&file) && !text.starts_with("//!") {
                complaints.push(shown(&file));
            }
        }
    }
    assert_none(complaints);
}

/// Texts that no file may contain, each with what is wrong with it. They are put together from
/// parts, so that this file does not contain them.
fn banned_everywhere() -> Vec<(String, &'static str)> {
    ["work", "farm"]
        .iter()
        .map(|folder| (format!("/{folder}/"), "is a path of one machine"))
        .collect()
}

/// Texts that no Rust file may contain, each with what is wrong with it.
fn banned_in_rust() -> Vec<(String, &'static str)> {
    vec![
        (["to", "do!"].concat(), "is unfinished"),
        (["unimpl", "emented!"].concat(), "is unfinished"),
        (["#[ig", "nore"].concat(), "hides a test"),
        (["should_", "panic"].concat(), "does not say which panic"),
    ]
}

/// Whether a file is compiled only for tests within one process. Tests of real processes do not
/// count: they kill the processes at random moments and poll until a deadline, so they need a clock
/// and pauses.
fn is_test_file(path: &Path) -> bool {
    let is_test = path.iter().any(|part| part == "tests" || part == "tests.rs");
    is_test && !path.iter().any(|part| part == "it")
}

/// Whether a comment is too wide; rustfmt does not wrap comments. Descriptions of formats are set
/// out in columns, with `|` or blanks between them, and may be wider.
fn is_wide_comment(line: &str) -> bool {
    let comment = line.trim_start();
    let text = comment.trim_start_matches(['/', '!']).trim_start();
    comment.starts_with("//")
        && line.chars().count() > 100
        && ![" | ", "  "].iter().any(|gap| text.contains(gap))
}

#[test]
fn no_file_contains_what_is_banned() {
    let mut complaints = Vec::new();
    let everywhere = banned_everywhere();
    let in_rust = banned_in_rust();
    let sleep = (["thread::", "sleep"].concat(), "makes a test slow and fragile");
    for file in files_below(&root()) {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        let rust = file.extension().is_some_and(|extension| extension == "rs");
        for (index, line) in text.lines().enumerate() {
            let mut complain = |what: &str, why: &str| {
                complaints.push(format!("{}:{}: {what} {why}", shown(&file), index + 1));
            };
            if line.ends_with([' ', '\t']) {
                complain("a blank", "stands at the end of the line");
            }
            if rust && is_wide_comment(line) {
                complain("a comment", "is wider than 100 columns");
            }
            let banned = everywhere
                .iter()
                .chain(in_rust.iter().filter(|_| rust))
                .chain(std::iter::once(&sleep).filter(|_| rust && is_test_file(&file)));
            for (what, why) in banned.filter(|(what, _)| line.contains(what.as_str())) {
                complain(what, why);
            }
        }
    }
    assert_none(complaints);
}

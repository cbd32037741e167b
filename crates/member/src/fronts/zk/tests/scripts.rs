//! Tests by scripts: the requests of clients, and everything that the clients receive. The name of
//! a script says what it shows. `rig.rs` describes the lines; indented lines are output.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::rig::Rig;

/// The folder of the scripts. Each is a file `NAME.txt`.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/fronts/zk/tests/scripts");

/// The name and the text of every script, sorted by name.
fn scripts() -> BTreeMap<String, String> {
    let files = std::fs::read_dir(FOLDER).expect("the folder of the scripts is there");
    let script = |path: PathBuf| {
        let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        (name, std::fs::read_to_string(&path).expect("a script is text"))
    };
    files.map(|file| script(file.expect("a folder can be listed").path())).collect()
}

/// Plays the lines of a script that are not indented, and puts their output below each.
fn replay(script: &str) -> String {
    let mut rig = Rig::default();
    let mut out = String::new();
    for line in script.lines().filter(|line| !line.starts_with("  ")) {
        out += &format!("{line}\n");
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line == "restart" {
            rig = Rig::default();
            continue;
        }
        rig.line(line);
        for seen in rig.take_log() {
            out += &format!("  {seen}\n");
        }
        for notice in rig.notices.drain(..) {
            out += &format!("  log: {notice}\n");
        }
        rig.check();
    }
    out
}

#[test]
fn scripts_give_their_output() {
    let scripts = scripts();
    assert!(!scripts.is_empty(), "{FOLDER} holds no script");
    let mut wrong = String::new();
    for (name, script) in scripts {
        let played = std::panic::catch_unwind(|| replay(&script));
        let played = played.unwrap_or_else(|_| format!("{script}PANICS\n"));
        if played != script {
            wrong += &format!("=== {name}\n{played}");
        }
    }
    assert!(wrong.is_empty(), "these scripts play differently:\n{wrong}=== end");
}

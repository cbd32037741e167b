//! What may be written, and the line that says what is wrong with the rest.
#![allow(clippy::unwrap_used)]

use super::*;

fn check(line: &str, expected: Command) {
    assert_eq!(parse(&split(line).unwrap()), Ok(expected), "{line}");
}

fn wrong(line: &str, expected: &str) {
    let said = split(line).and_then(|words| parse(&words));
    assert!(said.as_ref().is_err_and(|text| text.contains(expected)), "{line}: {said:?}");
}

fn entry(perms: u32, scheme: &str, id: &str) -> AclEntry {
    AclEntry { perms, scheme: scheme.into(), id: id.into() }
}

#[test]
fn ls_lists_the_root_unless_told() {
    let ls = |path: &str, stat, watch, recursive| Command::Ls {
        path: path.into(),
        stat,
        watch,
        recursive,
    };
    check("ls", ls("/", false, false, false));
    check("ls /a", ls("/a", false, false, false));
    check("ls -s -w /a", ls("/a", true, true, false));
    check("ls -sR /a", ls("/a", true, false, true));
    check("ls /a -R", ls("/a", false, false, true));
    check("ls -- -s", ls("-s", false, false, false));
}

#[test]
fn reads_take_a_path_and_flags() {
    let path = || "/a".to_string();
    check("get -s /a", Command::Get { path: path(), stat: true, watch: false });
    check("get -w /a", Command::Get { path: path(), stat: false, watch: true });
    check("stat /a", Command::Stat { path: path(), watch: false });
    check("getAcl -s /a", Command::GetAcl { path: path(), stat: true });
    check("sync /a", Command::Sync { path: path() });
    check("tree /a", Command::Tree { path: path() });
    check("watch /a", Command::Watch { path: path() });
}

#[test]
fn create_takes_modes_data_and_acl() {
    let create =
        |data: &str, acl, mode| Command::Create { path: "/a".into(), data: data.into(), acl, mode };
    let open = || vec![entry(31, "world", "anyone")];
    check("create /a", create("", open(), CreateMode::Persistent));
    check("create -s /a x", create("x", open(), CreateMode::PersistentSequential));
    check("create -e /a x", create("x", open(), CreateMode::Ephemeral));
    check("create -s -e /a 'x y'", create("x y", open(), CreateMode::EphemeralSequential));
    let acl = vec![entry(1, "world", "anyone"), entry(31, "digest", "u:h=")];
    check("create /a x world:anyone:r,digest:u:h=:cdrwa", create("x", acl, CreateMode::Persistent));
    wrong("create -c /a", "unknown option -c (usage: create [-s] [-e] path [data] [acl])");
    wrong("create /a x world", "is not scheme:id:perms");
    wrong("create /a x world:anyone:z", "is not scheme:id:perms");
}

#[test]
fn writes_take_a_version() {
    let set = |data: &str, stat, version| Command::Set {
        path: "/a".into(),
        data: data.into(),
        stat,
        version,
    };
    check("set /a x", set("x", false, -1));
    check("set -s -v 3 /a x", set("x", true, 3));
    check("set /a -5", set("-5", false, -1));
    check("set /a ''", set("", false, -1));
    check("delete -v 0 /a", Command::Delete { path: "/a".into(), version: 0 });
    check("deleteall /a", Command::DeleteAll { path: "/a".into() });
    let acl = vec![entry(17, "ip", "10.0.0.0/8")];
    check(
        "setAcl -v 2 /a ip:10.0.0.0/8:ra",
        Command::SetAcl { path: "/a".into(), acl, stat: false, version: 2 },
    );
    wrong("delete -v x /a", "\"x\" is not a version");
    wrong("set /a x y", "too many arguments");
}

#[test]
fn the_rest_is_as_in_zkcli() {
    let (scheme, credentials) = ("digest".to_string(), "u:p w".to_string());
    check("addauth digest 'u:p w'", Command::AddAuth { scheme, credentials });
    check("help", Command::Help { of: None });
    check("help ls", Command::Help { of: Some("ls".into()) });
    check("history", Command::History);
    check("version", Command::Version);
    for line in ["quit", "exit", "close"] {
        check(line, Command::Quit);
    }
    wrong("frobnicate /a", "frobnicate: unknown command");
    wrong("get", "an argument is missing (usage: get [-s] [-w] path)");
    assert!(parse(&[]).is_err());
}

#[test]
fn quotes_keep_spaces() {
    let check = |line: &str, expected: &[&str]| assert_eq!(split(line).unwrap(), expected);
    check("", &[]);
    check("  a\tb  ", &["a", "b"]);
    check("a 'b c' \"d e\"", &["a", "b c", "d e"]);
    check("a'b c'd", &["ab cd"]);
    check("'' \"\"", &["", ""]);
    check(r#"a\ b "c\"d" 'e\f'"#, &["a b", "c\"d", r"e\f"]);
    assert!(split("a 'b").is_err());
    assert!(split("a \"b").is_err());
}

#[test]
fn every_command_of_the_help_is_one() {
    for usage in &USAGES {
        let said = parse(&[usage.name.to_string()]);
        assert!(!said.is_err_and(|text| text.contains("unknown command")), "{}", usage.name);
    }
}

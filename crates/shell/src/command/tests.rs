//! Tests of valid commands, and of the one-line errors of invalid ones.
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

fn path() -> String {
    "/a".to_string()
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
    check("ls /a watch", ls("/a", false, true, false));
    check("ls -- -s", ls("-s", false, false, false));
    check("LS --s /a", ls("/a", true, false, false));
}

#[test]
fn reads_take_a_path_and_flags() {
    let get = |stat, watch, form| Command::Get { path: path(), stat, watch, form };
    check("get -s /a", get(true, false, Form::Text));
    check("get -w /a", get(false, true, Form::Text));
    check("get /a true", get(false, true, Form::Text));
    check("get -b /a", get(false, false, Form::Base64));
    check("get -x -b /a", get(false, false, Form::Hex));
    check("stat /a", Command::Stat { path: path(), watch: false });
    check("stat -w /a", Command::Stat { path: path(), watch: true });
    check("getAcl -s /a", Command::GetAcl { path: path(), stat: true });
    check("getacl /a", Command::GetAcl { path: path(), stat: false });
    check("sync /a", Command::Sync { path: path() });
    check("tree", Command::Tree { path: "/".into(), depth: None });
    check("tree -d 2 /a", Command::Tree { path: path(), depth: Some(2) });
    check("getEphemerals", Command::GetEphemerals { prefix: "/".into() });
    check("getEphemerals /a", Command::GetEphemerals { prefix: path() });
    check("getAllChildrenNumber /a", Command::GetAllChildrenNumber { path: path() });
    check("config -c", Command::Config { stat: false, watch: false, clients: true });
    check("config -sw", Command::Config { stat: true, watch: true, clients: false });
    wrong("tree -d x", "-d: \"x\" is no number");
}

#[test]
fn create_takes_modes_data_and_acl() {
    let create = |data: Option<&str>, acl, mode, ttl_ms| {
        let data = data.map(|data| data.as_bytes().to_vec());
        Command::Create(NewZnode { path: path(), data, acl, mode, ttl_ms })
    };
    let open = || vec![entry(31, "world", "anyone")];
    let plain = |line, data, mode, ttl_ms| check(line, create(data, open(), mode, ttl_ms));
    plain("create /a", None, CreateMode::Persistent, None);
    plain("create /a ''", Some(""), CreateMode::Persistent, None);
    plain("create -s /a x", Some("x"), CreateMode::PersistentSequential, None);
    plain("create /a x -e", Some("x"), CreateMode::Ephemeral, None);
    plain("create -s -e /a 'x y'", Some("x y"), CreateMode::EphemeralSequential, None);
    plain("create -c /a", None, CreateMode::Container, None);
    plain("create -t 9 /a", None, CreateMode::PersistentTtl, Some(9));
    plain("create -s -t=9 /a", None, CreateMode::PersistentSequentialTtl, Some(9));
    plain("create -st9 /a", None, CreateMode::PersistentSequentialTtl, Some(9));
    let acl = vec![entry(1, "world", "anyone"), entry(31, "digest", "u:h=")];
    let line = "create /a x world:anyone:r,digest:u:h=:cdrwa";
    check(line, create(Some("x"), acl, CreateMode::Persistent, None));
    wrong("create -z /a", "Unrecognized option: -z; it has -s -e -c -t (usage: create [-s]");
    wrong("create -c -s /a", "-c cannot be combined with -s or -e");
    wrong("create -c -e -t 1 /a", "-c cannot be combined with -s or -e");
    wrong("create -e -t 1 /a", "-t cannot be combined with -e");
    wrong("create -c -t 1 /a", "-t cannot be combined with -c");
    wrong("create -t 0 /a", "ttl must be positive");
    wrong("create -t -1 /a", "ttl must be positive");
    wrong("create -t 1099511627776 /a", "cannot be larger than: 1099511627775");
    wrong("create -t x /a", "-t: \"x\" is no number");
    wrong("create /a -t", "-t takes a value");
    wrong("create /a x world", "world does not have the form scheme:id:perm");
    wrong("create /a x world:anyone:z", "Unknown perm type: z");
    wrong("create /a x world:anyone:r y", "too many arguments; quote what holds spaces");
}

#[test]
fn writes_take_a_version() {
    let set =
        |data: &str, stat, version| Command::Set { path: path(), data: data.into(), stat, version };
    check("set /a x", set("x", false, -1));
    check("set -s -v 3 /a x", set("x", true, 3));
    check("set /a x -v 3", set("x", false, 3));
    check("set /a -5", set("-5", false, -1));
    check("set /a ''", set("", false, -1));
    check("set /a {\"b\":1}", set("{\"b\":1}", false, -1));
    check("set -b /a aGVsbG8=", set("hello", false, -1));
    check("set -b /a aGVsbG8", set("hello", false, -1));
    check("set -b /a aGVsbG9=", set("hello", false, -1));
    check("delete -v 0 /a", Command::Delete { path: path(), version: 0 });
    check("deleteall /a", Command::DeleteAll { path: path(), batch: 1_000 });
    check("rmr /a -b 7", Command::DeleteAll { path: path(), batch: 7 });
    check("deleteall -b -1 /a", Command::DeleteAll { path: path(), batch: 1 });
    let set_acl = |version, recursive| Command::SetAcl {
        path: path(),
        acl: vec![entry(17, "ip", "10.0.0.0/8")],
        stat: false,
        version,
        recursive,
    };
    check("setAcl -v 2 /a ip:10.0.0.0/8:ra", set_acl(2, false));
    check("setAcl -R /a ip:10.0.0.0/8:ra", set_acl(-1, true));
    wrong("delete -v x /a", "\"x\" is not a version");
    wrong("delete /a 3", "too many arguments");
    wrong("set /a x y", "too many arguments");
    wrong("set -b /a ?", "-b: ");
    wrong("set -b /a a", "-b: ");
    wrong("set -b /a aGVsbG8==", "-b: ");
}

#[test]
fn watches_have_a_mode_and_a_type() {
    let add = |mode| Command::AddWatch { path: path(), mode };
    check("addWatch /a", add(AddWatchMode::PersistentRecursive));
    check("addWatch -m PERSISTENT /a", add(AddWatchMode::Persistent));
    check("addWatch -m persistent_recursive /a", add(AddWatchMode::PersistentRecursive));
    wrong("addWatch -m bogus /a", "there is no such mode");
    check("watch /a", Command::Watch { path: path(), mode: AddWatchMode::Persistent });
    check("watch -R /a", Command::Watch { path: path(), mode: AddWatchMode::PersistentRecursive });
    let remove =
        |watcher_type, locally| Command::RemoveWatches { path: path(), watcher_type, locally };
    check("removewatches /a", remove(WatcherType::Any, false));
    check("removewatches /a -a -l", remove(WatcherType::Any, true));
    check("removewatches -c /a", remove(WatcherType::Children, false));
    check("removewatches -d /a", remove(WatcherType::Data, false));
    check("removewatches -p /a", remove(WatcherType::Persistent, false));
    check("removewatches -r /a", remove(WatcherType::PersistentRecursive, false));
    check("printwatches", Command::PrintWatches { on: None });
    check("printwatches off", Command::PrintWatches { on: Some(false) });
    wrong("printwatches maybe", "it is on or off");
}

#[test]
fn a_quota_is_one_limit() {
    let set = |limit, value| Command::SetQuota { path: path(), limit, value };
    check("setquota -n 5 /a", set(Limit::Count, 5));
    check("setquota -b 0 /a", set(Limit::Bytes, 0));
    check("setquota -N 5 /a", set(Limit::CountHard, 5));
    check("setquota /a -B 8589934592", set(Limit::BytesHard, 8_589_934_592));
    check("listquota /a", Command::ListQuota { path: path() });
    check("delquota /a", Command::DelQuota { path: path(), limit: None });
    check("delquota -B /a", Command::DelQuota { path: path(), limit: Some(Limit::BytesHard) });
    wrong("setquota /a", "which of -n, -b, -N and -B?");
    wrong("setquota -n 5 -b 7 /a", "one limit at a time");
    wrong("delquota -n -b /a", "one limit at a time");
    wrong("setquota -n 0 /a", "must be greater than zero");
    wrong("setquota -N 2147483648 /a", "must be greater than zero");
    wrong("setquota -b -1 /a", "must be greater than or equal to zero");
    wrong("setquota -n x /a", "-n: \"x\" is no number");
}

#[test]
fn a_reconfiguration_says_what_changes_or_what_is_to_be() {
    let check_change = |line, expected| {
        let expected = Command::Reconfig { change: expected, file: None, stat: false };
        check(line, expected);
    };
    let one = "server.5=H:1:2;3".to_string();
    check_change(
        "reconfig -add server.5=H:1:2;3 --add 6=h -remove 3,4 -v 1a",
        Reconfiguration {
            joining: Some(format!("{},6=h", one.to_lowercase())),
            leaving: Some("3,4".into()),
            members: None,
            version: 26,
        },
    );
    check_change(
        "reconfig -members server.5=H:1:2;3",
        Reconfiguration {
            members: Some(one.to_lowercase()),
            version: -1,
            ..Reconfiguration::default()
        },
    );
    let change = Reconfiguration { version: -1, ..Reconfiguration::default() };
    let file = Some(PathBuf::from("/x"));
    check("reconfig -s -file /x", Command::Reconfig { change, file, stat: true });
    wrong("reconfig", "what is to change?");
    wrong("reconfig -file /x -remove 1", "not both");
    wrong("reconfig -file /x -members y", "not both");
    wrong("reconfig -remove 1 -v 0x", "is not a version");
}

#[test]
fn the_rest_is_as_in_zkcli() {
    let auth = |credentials: &str| Command::AddAuth {
        scheme: "digest".into(),
        credentials: credentials.into(),
    };
    check("addauth digest 'u:p w'", auth("u:p w"));
    check("addauth digest", auth(""));
    check("whoami", Command::WhoAmI);
    check("connect", Command::Connect { to: None });
    check("connect h:1,g:2/c", Command::Connect { to: Some("h:1,g:2/c".into()) });
    check("close", Command::Close);
    check("help", Command::Help { of: None });
    check("? ls", Command::Help { of: Some("ls".into()) });
    check("history", Command::History);
    check("redo 3", Command::Redo { index: 3 });
    check("version", Command::Version);
    for line in ["quit", "exit"] {
        check(line, Command::Quit);
    }
    wrong("frobnicate /a", "Command not found frobnicate; `help` lists them");
    wrong("get", "an argument is missing (usage: get [-s] [-w] [-b] [-x] path)");
    wrong("redo x", "\"x\" is not a number of the history");
    assert!(parse(&[]).is_err());
}

#[test]
fn quotes_at_the_start_of_a_word_keep_spaces() {
    let check = |line: &str, expected: &[&str]| assert_eq!(split(line).unwrap(), expected);
    check("", &[]);
    check("  a\tb  ", &["a", "b"]);
    check("a 'b c' \"d e\"", &["a", "b c", "d e"]);
    check("'' \"\"", &["", ""]);
    // As in `zkCli.sh`: quotes inside a word are ordinary characters, and there is no escape.
    check("a'b c'd", &["a'b", "c'd"]);
    check(r#"{"a":"b"} x\ y"#, &[r#"{"a":"b"}"#, r"x\", "y"]);
    check(r#"'a "b" c' "it's""#, &[r#"a "b" c"#, "it's"]);
    check("'a'b", &["a", "b"]);
    check("a\u{a0}b", &["a\u{a0}b"]);
    assert_eq!(split("a 'b"), Err("a ' is not closed".to_string()));
    assert!(split("a \"b").is_err());
}

#[test]
fn words_know_where_they_stand() {
    let words = words_of("get  '/a b' \"/c");
    let at: Vec<(usize, bool)> = words.iter().map(|word| (word.start, word.closed)).collect();
    assert_eq!(at, [(0, true), (5, true), (12, false)]);
    assert_eq!(words[2].text, "/c");
}

#[test]
fn every_command_of_the_help_is_one() {
    for usage in USAGES {
        for name in [Some(usage.name), usage.alias].into_iter().flatten() {
            let arguments = (0..usage.count.0).map(|_| "1".to_string());
            let words: Vec<String> = [name.to_string()].into_iter().chain(arguments).collect();
            // The command is known; its arguments may be refused, but not with a panic.
            let said = parse(&words);
            assert!(!said.is_err_and(|text| text.contains("not found")), "{name}");
        }
        for option in usage.options {
            let name = format!("-{}", option.trim_end_matches('='));
            assert!(usage.arguments.contains(&name), "{} {name}", usage.name);
        }
    }
}

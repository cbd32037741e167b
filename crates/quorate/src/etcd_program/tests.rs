use super::*;

fn parsed(line: &str) -> Result<ServeArgs, Exit> {
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    parse(&words).expect("it is called by etcd's name")
}

fn wrong_text(line: &str) -> String {
    match parsed(line) {
        Err(Exit::Wrong(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_program_is_known_by_its_name_or_by_its_subcommand() {
    for (line, expected) in [
        ("etcd", true),
        ("/usr/bin/etcd --name a", true),
        ("quorate etcd", true),
        ("quorate serve", false),
        ("etcdctl put", false),
        ("quorate", false),
    ] {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        assert_eq!(parse(&words).is_some(), expected, "{line}");
    }
}

#[test]
fn flags_have_one_dash_or_two_and_values_behind_an_equals_sign_or_a_blank() {
    for line in [
        "etcd --name m0 --data-dir /d --listen-client-urls http://127.0.0.1:2",
        "etcd -name=m0 -data-dir=/d -listen-client-urls=http://127.0.0.1:2,http://[::1]:2/",
    ] {
        let args = parsed(line).expect("the flags are right");
        assert_eq!(args.data_dir.as_deref(), Some(Path::new("/d")));
        assert_eq!(args.etcd_addr.map(|it| it.to_string()).as_deref(), Some("127.0.0.1:2"));
        assert!(args.is_etcd && args.given_servers.is_none());
    }
    let args = parsed("etcd --name x").expect("the others have defaults");
    assert_eq!(args.data_dir.as_deref(), Some(Path::new("x.etcd")));
    assert_eq!(args.etcd_addr.map(|it| it.to_string()).as_deref(), Some("localhost:2379"));
}

#[test]
fn the_servers_are_numbered_in_the_order_of_their_names() {
    let list = "b=http://127.0.0.1:2480,a=http://127.0.0.1:50000,c=http://h:2580";
    let given = parsed(&format!("etcd --name b --initial-cluster {list}"));
    let given = given.expect("the flags are right").given_servers.expect("there are three");
    assert_eq!(given.own, 2);
    let expected =
        ["127.0.0.1:50000:30000", "127.0.0.1:2480:22480", "h:2580:22580"].map(str::to_string);
    assert_eq!(given.servers, (1..).zip(expected).collect::<Vec<_>>());
    let alone = parsed("etcd --name a --initial-cluster a=http://127.0.0.1:2380");
    assert!(alone.expect("the flags are right").given_servers.is_none());
}

#[test]
fn wrong_flags_are_named_in_one_line() {
    for (line, expected) in [
        ("etcd --nothing=1", "etcd: flag provided but not defined: -nothing"),
        ("etcd --name", "etcd: flag needs an argument: -name"),
        ("etcd name", "etcd: 'name' is not a valid flag"),
        (
            "etcd --listen-client-urls https://h:1",
            "etcd: --listen-client-urls: \"https://h:1\" is no http:// URL",
        ),
        (
            "etcd --name x --initial-cluster a=http://h:1,b=http://h:2",
            "etcd: --initial-cluster does not hold \"x\", the name of this server",
        ),
        (
            "etcd --name a --initial-cluster a=http://h,b=http://h:2",
            "etcd: --initial-cluster: \"h\" has no port that can be dialled",
        ),
    ] {
        assert_eq!(wrong_text(line), expected);
    }
}

#[test]
fn programs_find_etcds_version_and_flags() {
    let help = |line: &str| match parsed(line) {
        Err(Exit::Help(text)) => text,
        other => panic!("{other:?}"),
    };
    assert!(help("etcd --version").starts_with("etcd Version: 3.6.16\n"));
    assert!(help("etcd --help").contains("--initial-cluster-state 'new'"));
}

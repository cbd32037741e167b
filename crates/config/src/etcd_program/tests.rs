use super::*;
use crate::etcd::{EtcdService, EtcdWire};
use crate::tls::{AllowedNames, CertificateRules, ClientAuth};
use crate::{EtcdGiven, cluster::PeerAuth};

mod changed;

/// Parses a command line, with some variables and a file `f.yml`.
fn parsed_with(line: &str, variables: &[(&str, &str)], file: &str) -> Result<ServeArgs, Exit> {
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    let variables =
        variables.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let read = |path: &Path| Ok((path == Path::new("f.yml")).then(|| file.to_string()));
    parse(&words, &variables, &read).expect("it is called by etcd's name")
}

/// Parses a command line, with these files.
pub(super) fn parsed_in(line: &str, files: &[(&str, &str)]) -> Result<ServeArgs, Exit> {
    let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    let read = |path: &Path| {
        let found = files.iter().find(|(name, _)| path == Path::new(name));
        Ok(found.map(|(_, text)| text.to_string()))
    };
    parse(&words, &BTreeMap::new(), &read).expect("it is called by etcd's name")
}

fn parsed(line: &str) -> Result<ServeArgs, Exit> {
    parsed_with(line, &[], "")
}

fn given_with(line: &str, variables: &[(&str, &str)], file: &str) -> EtcdGiven {
    let args = parsed_with(line, variables, file).unwrap_or_else(|exit| panic!("{exit:?}"));
    *args.etcd.expect("it is etcd")
}

fn given(line: &str) -> EtcdGiven {
    given_with(line, &[], "")
}

/// The exit status, and the first line of the error.
fn error_with(line: &str, variables: &[(&str, &str)], file: &str) -> (u8, String) {
    let (status, text) = match parsed_with(line, variables, file) {
        Err(Exit::Wrong(text)) => (2, text),
        Err(Exit::Failed(text)) => (1, text),
        other => panic!("{line}: {other:?}"),
    };
    (status, text.lines().next().unwrap_or_default().to_string())
}

fn error(line: &str) -> (u8, String) {
    error_with(line, &[], "")
}

/// The ports, each as `address wire service`.
fn ports(given: &EtcdGiven) -> Vec<String> {
    let shown = given.ports.iter();
    shown.map(|port| format!("{} {:?} {:?}", port.address, port.wire, port.service)).collect()
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
        let found = parse(&words, &BTreeMap::new(), &|_: &Path| Ok(None));
        assert_eq!(found.is_some(), expected, "{line}");
    }
}

#[test]
fn flags_have_one_dash_or_two_and_values_behind_an_equals_sign_or_a_blank() {
    for line in [
        "etcd --name m0 --data-dir /d --listen-client-urls http://127.0.0.1:2 \
         --advertise-client-urls http://h:2 --enable-grpc-gateway",
        "etcd -name=m0 -data-dir=/d -listen-client-urls=http://127.0.0.1:2 \
         -advertise-client-urls=http://h:2 --enable-grpc-gateway=T",
    ] {
        let args = parsed(line).expect("the flags are right");
        assert_eq!(args.data_dir.as_deref(), Some(Path::new("/d")));
        let given = args.etcd.expect("it is etcd");
        assert_eq!(ports(&given), ["127.0.0.1:2 Plain All"]);
        assert_eq!(given.about.client_urls, ["http://h:2"]);
        assert!(given.about.name == "m0" && given.about.has_gateway && given.cluster.is_none());
    }
    let args = parsed("etcd --name x").expect("the others have defaults");
    assert_eq!(args.data_dir.as_deref(), Some(Path::new("x.etcd")));
    let given = args.etcd.expect("it is etcd");
    assert_eq!(ports(&given), ["localhost:2379 Plain All"]);
    assert_eq!(given.about.peer_urls, ["http://localhost:2380"]);
    assert!(given.warnings.is_empty(), "{:?}", given.warnings);
}

/// The statuses and texts are those of etcd 3.6.16.
#[test]
fn wrong_flags_end_the_program_as_in_etcd() {
    for (line, status, expected) in [
        ("--nothing=1", 2, "flag provided but not defined: -nothing"),
        ("--name", 2, "flag needs an argument: -name"),
        ("---name", 2, "bad flag syntax: ---name"),
        ("--max-txn-ops=x", 2, "invalid value \"x\" for flag -max-txn-ops: parse error"),
        (
            "--heartbeat-interval=-1",
            2,
            "invalid value \"-1\" for flag -heartbeat-interval: parse error",
        ),
        (
            "--client-cert-auth=maybe",
            2,
            "invalid boolean value \"maybe\" for -client-cert-auth: parse error",
        ),
        (
            "--initial-cluster-state=bad",
            2,
            "invalid value \"bad\" for flag -initial-cluster-state: invalid value",
        ),
        (
            "--v2-deprecation=not-yet",
            2,
            "invalid value \"not-yet\" for flag -v2-deprecation: invalid value \"not-yet\"",
        ),
        (
            "--listen-client-urls=localhost:2379",
            2,
            "invalid value \"localhost:2379\" for flag -listen-client-urls: URL scheme must be \
             http, https, unix, or unixs: localhost:2379",
        ),
        (
            "--feature-gates=Foo=true",
            2,
            "invalid value \"Foo=true\" for flag -feature-gates: unrecognized feature gate: Foo",
        ),
        (
            "--initial-cluster-state=existing",
            1,
            "etcd: cannot fetch cluster info from peer urls: could not retrieve cluster \
             information from the given URLs",
        ),
        ("name", 1, "etcd: \"name\" is not a valid flag"),
        ("--client-cert-auth maybe", 1, "etcd: \"maybe\" is not a valid flag"),
        (
            "--listen-client-urls=http://127.0.0.1:1",
            1,
            "etcd: --advertise-client-urls is required when --listen-client-urls is set explicitly",
        ),
        (
            "--listen-client-http-urls=http://example.com:1",
            1,
            "etcd: expected IP in URL for binding (http://example.com:1)",
        ),
        ("--listen-metrics-urls=unix://m", 1, "etcd: unix sockets are not served (unix://m)"),
        (
            "--name x --initial-cluster a=http://h:1,b=http://h:2",
            1,
            "etcd: couldn't find local name \"x\" in the initial cluster configuration",
        ),
        (
            "--name a --initial-cluster a=http://h:1,b=http://h:1",
            1,
            "etcd: initial cluster a=http://h:1,b=http://h:1 has duplicate url",
        ),
        (
            "--name a --initial-cluster a=http://1.1.1.1:1,b=http://h:1 \
             --initial-advertise-peer-urls http://1.1.1.2:1",
            1,
            "etcd: --initial-cluster has a=http://1.1.1.1:1 but missing from \
             --initial-advertise-peer-urls=http://1.1.1.2:1",
        ),
        (
            "--name a --initial-cluster a=http://h:1,b=http://h:2 \
             --initial-advertise-peer-urls http://h:3",
            1,
            "etcd: --initial-cluster has a=http://h:1 but missing from \
             --initial-advertise-peer-urls=http://h:3",
        ),
        (
            "--name a --initial-cluster a=http://h:1,b=https://h:2",
            1,
            "etcd: --initial-cluster: all URLs must have one scheme, http or https",
        ),
        (
            "--election-timeout=100",
            1,
            "etcd: --election-timeout[100ms] should be at least as 5 times as \
             --heartbeat-interval[100ms]",
        ),
        ("--auto-compaction-mode=foo", 1, "etcd: unknown auto-compaction-mode \"foo\""),
        (
            "--tls-min-version=TLS1.0",
            1,
            "etcd: unexpected TLS version \"TLS1.0\" (must be one of: TLS1.2, TLS1.3)",
        ),
        ("--cipher-suites=FOO", 1, "etcd: unexpected TLS cipher suite \"FOO\""),
        ("--logger=foo", 1, "etcd: unknown logger option \"foo\""),
        (
            "--corrupt-check-time=1h --experimental-corrupt-check-time=1h",
            1,
            "etcd: cannot set --experimental-corrupt-check-time and --corrupt-check-time at the \
             same time, please use --corrupt-check-time only",
        ),
        (
            "--listen-metrics-urls=https://127.0.0.1:1",
            1,
            "etcd: client TLS key/cert (--cert-file, --key-file) must be provided for metrics \
             secure url",
        ),
        ("gateway start", 1, "etcd: gateway is not built: clients reach the members themselves"),
    ] {
        assert_eq!(error(&format!("etcd {line}")), (status, expected.to_string()), "{line}");
    }
}

#[test]
fn flags_without_effect_are_warnings_and_those_that_would_harm_are_errors() {
    let warned = |line: &str| {
        let warnings = given(&format!("etcd {line}")).warnings;
        warnings.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let expected = "command line: --snapshot-count: has no effect: snapshots and the log are kept \
                    by their size";
    assert_eq!(warned("--snapshot-count=100"), [expected]);
    assert!(warned("--snapshot-count=10000 --corrupt-check-time=0 --pre-vote").is_empty());
    assert_eq!(warned("--experimental-compaction-batch-limit=10").len(), 1);
    assert_eq!(warned("--enable-v2=true --snapshot").len(), 1);
    for flag in [
        "discovery",
        "discovery-token",
        "discovery-endpoints",
        "discovery-srv",
        "discovery-srv-name",
        "discovery-proxy",
    ] {
        let refused = format!(
            "etcd: --{flag}: discovery is not served: name the members in --initial-cluster"
        );
        assert_eq!(error(&format!("etcd --{flag}=x")), (1, refused));
    }
    let refused = "etcd: --proxy: there is no v2 proxy".to_string();
    assert_eq!(error("etcd --proxy=on"), (1, refused));
    assert!(given("etcd --force-new-cluster").force_new_cluster);
    assert!(!given("etcd --force-new-cluster=false").force_new_cluster);
}

#[test]
fn gates_have_two_spellings() {
    let is_on = |line: &str, name: &str| {
        let gates = given(&format!("etcd {line}")).about.gates;
        gates.iter().find(|gate| gate.0 == name).expect("it is known").2
    };
    assert!(is_on("--feature-gates=InitialCorruptCheck=true", "InitialCorruptCheck"));
    assert!(is_on("--experimental-initial-corrupt-check", "InitialCorruptCheck"));
    assert!(is_on("--experimental-initial-corrupt-check=true", "InitialCorruptCheck"));
    assert!(!is_on("", "InitialCorruptCheck"));
    assert!(is_on("", "TxnModeWriteWithSharedBuffer"));
    let both = "etcd --feature-gates=InitialCorruptCheck=true --experimental-initial-corrupt-check";
    assert_eq!(error(both).0, 1);
}

#[test]
fn variables_say_what_flags_do_not() {
    let urls = [
        ("ETCD_LISTEN_CLIENT_URLS", "http://127.0.0.1:3"),
        ("ETCD_ADVERTISE_CLIENT_URLS", "http://h:3"),
        ("ETCD_DATA_DIR", ""),
        ("ETCD_NOTHING", "1"),
    ];
    let found = given_with("etcd --name m1", &urls, "");
    assert_eq!(
        (ports(&found), found.about.name.as_str()),
        (vec!["127.0.0.1:3 Plain All".into()], "m1")
    );
    let warnings: Vec<String> = found.warnings.iter().map(ToString::to_string).collect();
    assert_eq!(warnings, ["environment: ETCD_NOTHING: unrecognized environment variable"]);
    let (status, text) = error_with("etcd --name m1", &[("ETCD_NAME", "m2")], "");
    assert!(status == 1 && text.ends_with("ETCD_NAME"), "{text}");
    let wrong = error_with("etcd", &[("ETCD_MAX_TXN_OPS", "x")], "");
    assert_eq!(wrong, (1, "etcd: invalid value \"x\" for ETCD_MAX_TXN_OPS: parse error".into()));
}

/// Keys of etcd's sample file, and some others.
const FILE: &str = "\
# a comment
name: 'm2'
data-dir: /d
listen-client-urls: http://127.0.0.1:4,https://127.0.0.1:4
listen-metrics-urls: \"http://127.0.0.1:5\"
snapshot-count: 10000
cors:
strict-reconfig-check: yes
watch-progress-notify-interval: 60000000000
auto-compaction-retention: \"1\"
log-outputs: [stderr, /l]
nothing: 1
client-transport-security:
  cert-file: /c.pem
  key-file: /k.pem
  client-cert-auth: true
  trusted-ca-file: /ca.pem
  auto-tls: false
peer-transport-security:
  nothing: 2
";

#[test]
fn a_file_says_everything() {
    let line = "etcd --config-file f.yml --name ignored";
    let found = given_with(line, &[("ETCD_NAME", "ignored")], FILE);
    assert_eq!(found.about.name, "m2");
    assert_eq!(ports(&found), ["127.0.0.1:4 Either All", "127.0.0.1:5 Plain Metrics"]);
    assert_eq!(found.about.client_urls, ["http://localhost:2379"], "it has a default in a file");
    let expected = [
        ("auto-compaction-retention", "1".to_string()),
        ("watch-progress-notify-interval", "60000ms".to_string()),
        ("strict-reconfig-check", "true".to_string()),
    ];
    assert_eq!(found.settings, expected);
    assert_eq!(found.log.outputs.len(), 2);
    let tls = found.tls.expect("a port speaks it");
    assert_eq!(
        (tls.key_store.path.as_path(), tls.client_auth),
        (Path::new("/c.pem"), ClientAuth::Need)
    );
    assert_eq!(tls.key_store.key_path.as_deref(), Some(Path::new("/k.pem")));
    let warnings: Vec<String> = found.warnings.iter().map(ToString::to_string).collect();
    let unknown = "is unknown; it is ignored";
    let expected = [
        format!("f.yml:12: nothing: {unknown}"),
        format!("f.yml:20: peer-transport-security.nothing: {unknown}"),
    ];
    assert_eq!(warnings, expected);
    let by_variable = given_with("etcd", &[("ETCD_CONFIG_FILE", "f.yml")], FILE);
    assert_eq!(by_variable.about.name, "m2");
}

#[test]
fn wrong_files_are_errors_that_name_the_line() {
    for (file, expected) in [
        ("name: a\nmax-txn-ops: abc\n", "f.yml:2: max-txn-ops: \"abc\": parse error"),
        ("name: [\n", "f.yml: "),
        ("- a\n", "f.yml:1: a list is no value of a key"),
        ("a\n", "f.yml:1: the file is no map"),
        ("name: &x [a]\ndata-dir: *x\n", "f.yml:2: an alias stands for no text"),
        (
            "a:\n  b:\n    c:\n      d:\n        e: 1\n",
            "f.yml:5: more than 4 maps within each other",
        ),
        ("name: a\nname: [a: b]\n", "f.yml:2: a list holds a map"),
    ] {
        let (status, text) = error_with("etcd --config-file f.yml", &[], file);
        assert!(status == 1 && text.starts_with(&format!("etcd: {expected}")), "{file}: {text}");
    }
    let missing = error_with("etcd --config-file none.yml", &[], "");
    assert_eq!(missing, (1, "etcd: open none.yml: no such file or directory".to_string()));
    let empty = given_with("etcd --config-file f.yml", &[], "");
    assert_eq!(empty.about.name, "default");
}

#[test]
fn the_servers_are_numbered_in_the_order_of_their_names() {
    let list = "b=http://127.0.0.1:2480,a=http://127.0.0.1:50000,c=http://[::1]:2580";
    let line = "etcd --name b --listen-peer-urls http://0.0.0.0:2480 --initial-cluster";
    let found = given(&format!("{line} {list}")).cluster.expect("there are three");
    assert_eq!((found.own, &found.auth), (2, &PeerAuth::None));
    assert_eq!(found.listen.iter().map(ToString::to_string).collect::<Vec<_>>(), ["*:2480"]);
    let lines: Vec<_> =
        found.servers.iter().map(|it| (it.number, it.name.as_str(), it.line.as_str())).collect();
    let expected = [
        (1, "a", "127.0.0.1:50000:30000"),
        (2, "b", "127.0.0.1:2480:22480"),
        (3, "c", "[::1]:2580:22580"),
    ];
    assert_eq!(lines, expected);
    assert!(given("etcd --name a --initial-cluster a=http://127.0.0.1:2380").cluster.is_none());
}

#[test]
fn tls_needs_a_certificate_or_makes_one() {
    let client = "--listen-client-urls https://127.0.0.1:1 --advertise-client-urls https://h:1";
    assert_eq!(error(&format!("etcd {client}")).0, 1);
    let found = given(&format!("etcd {client} --cert-file /c --key-file /k"));
    let tls = found.tls.expect("a port speaks it");
    assert_eq!((tls.client_auth, tls.trust_store), (ClientAuth::None, None));
    assert_eq!(found.ports[0].wire, EtcdWire::Secure);
    let found = given(&format!("etcd {client} --auto-tls --self-signed-cert-validity 2"));
    let made = &found.self_signed[0];
    assert_eq!((made.dir.as_path(), made.years), (Path::new("default.etcd/fixtures/client"), 2));
    assert_eq!(made.hosts, ["127.0.0.1"]);
    let auth = format!("etcd {client} --cert-file /c --key-file /k --client-cert-auth");
    assert_eq!(error(&auth).0, 1, "nobody could be believed");
    let peers = "--initial-cluster a=https://h:1,b=https://h:2 --name a \
                 --listen-peer-urls https://127.0.0.1:1";
    let PeerAuth::Tls(tls) =
        given(&format!("etcd {peers} --peer-auto-tls")).cluster.expect("there are two").auth
    else {
        panic!("the URLs say https")
    };
    assert!(tls.trust_store.is_none());
    assert_eq!(error(&format!("etcd {peers}")).0, 1);
    assert_eq!(error(&format!("etcd {peers} --peer-cert-file /c --peer-key-file /k")).0, 1);
}

#[test]
fn certificates_have_rules_of_one_kind() {
    let client = "--listen-client-urls https://127.0.0.1:1 --advertise-client-urls https://h:1 \
                  --cert-file /c --key-file /k";
    let names = "--client-cert-allowed-hostname a,b --client-crl-file /crl";
    let found = given(&format!("etcd {client} {names} --trusted-ca-file /ca"));
    let expected = CertificateRules {
        names: Some(AllowedNames::Hosts(vec!["a".to_string(), "b".to_string()])),
        revoked: Some("/crl".into()),
    };
    assert!(found.warnings.is_empty(), "{:?}", found.warnings);
    assert_eq!(found.tls.expect("a port speaks it").rules, expected);
    let warned = given(&format!("etcd {client} {names}")).warnings;
    assert_eq!(warned.len(), 1, "as in etcd, nobody shows a certificate: {warned:?}");
    let peers = "--initial-cluster a=https://h:1,b=https://h:2 --name a \
                 --listen-peer-urls https://127.0.0.1:1";
    let trust = "--peer-cert-file /c --peer-key-file /k --peer-trusted-ca-file /ca";
    let PeerAuth::Tls(tls) = given(&format!("etcd {peers} {trust} --peer-cert-allowed-cn a"))
        .cluster
        .expect("there are two")
        .auth
    else {
        panic!("the URLs say https")
    };
    assert_eq!(tls.rules.names, Some(AllowedNames::CommonNames(vec!["a".to_string()])));
    // The text is etcd's.
    let both = "--peer-cert-allowed-cn a,b --peer-cert-allowed-hostname c";
    let text = "etcd: AllowedCNs and AllowedHostnames are mutually exclusive (cns=[\"a\" \"b\"], \
                hostnames=[\"c\"])";
    assert_eq!(error(&format!("etcd {peers} {trust} {both}")), (1, text.to_string()));
    assert_eq!(error(&format!("etcd {peers} --peer-auto-tls --peer-crl-file /crl")).0, 1);
    // etcd has a key of the file for the common names of clients, but no flag.
    let flag = error(&format!("etcd {client} --client-cert-allowed-cn a"));
    assert_eq!(flag, (2, "flag provided but not defined: -client-cert-allowed-cn".to_string()));
    let file = "listen-client-urls: https://127.0.0.1:4\nclient-transport-security:\n  \
                cert-file: /c\n  key-file: /k\n  trusted-ca-file: /ca\n  allowed-cn: [a]\n";
    let found = given_with("etcd --config-file f.yml", &[], file);
    let names = found.tls.expect("a port speaks it").rules.names;
    assert_eq!(names, Some(AllowedNames::CommonNames(vec!["a".to_string()])));
    let file = format!("{file}  allowed-hostname: [b]\n");
    assert_eq!(error_with("etcd --config-file f.yml", &[], &file).0, 1);
}

#[test]
fn ports_are_split_by_what_they_serve() {
    let found = given(
        "etcd --listen-client-urls http://127.0.0.1:1 --advertise-client-urls http://h:1 \
         --listen-client-http-urls http://127.0.0.1:2 --listen-metrics-urls http://127.0.0.1:3",
    );
    let services: Vec<_> = found.ports.iter().map(|port| port.service).collect();
    assert_eq!(services, [EtcdService::Grpc, EtcdService::Http, EtcdService::Metrics]);
    let both = "etcd --listen-client-urls http://127.0.0.1:1 --advertise-client-urls http://h:1 \
                --listen-client-http-urls http://127.0.0.1:1";
    assert_eq!(error(both).0, 1);
}

#[test]
fn programs_find_etcds_version_and_flags() {
    let help = |line: &str| match parsed(line) {
        Err(Exit::Help(text)) => text,
        other => panic!("{other:?}"),
    };
    assert!(help("etcd --version").starts_with("etcd Version: 3.6.16\nGit SHA: "));
    assert!(help("etcd --version --name x").starts_with("etcd Version: 3.6.16\n"));
    for asked in ["--help", "-h", "--name x -help"] {
        let text = help(&format!("etcd {asked}"));
        for flag in ["--initial-cluster-state 'new'", "--experimental-initial-corrupt-check"] {
            assert!(text.contains(flag), "{flag}");
        }
    }
}

/// The table in `docs/etcd.md` has each flag, except old names and flags that etcd ignores.
#[test]
fn the_documentation_names_every_flag() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/etcd.md");
    #[allow(clippy::disallowed_methods, reason = "the page of the flags is a file")]
    let text = std::fs::read_to_string(path).expect("it is there");
    let flags = flags::GROUPS.iter().flat_map(|(_, flags)| flags.iter());
    let is_shown = |flag: &&flags::Flag| {
        flag.kind != flags::Kind::Ignored && !flag.name.starts_with("experimental-")
    };
    let missing: Vec<&str> = flags
        .filter(is_shown)
        .map(|flag| flag.name)
        .filter(|name| !text.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn numbers_are_read_as_go_and_yaml_read_them() {
    let settings = |given: EtcdGiven| given.settings;
    let quota = |text: &str| {
        let given = settings(given(&format!("etcd --quota-backend-bytes={text}")));
        given.into_iter().map(|(_, value)| value).collect::<Vec<_>>()
    };
    for text in ["8589934592", "0x200000000", "0X2_0000_0000", "8_589_934_592", "0o100000000000"] {
        assert_eq!(quota(text), ["8589934592"], "{text}");
    }
    assert_eq!(
        (quota("-1"), quota("010"), quota("0b11")),
        (vec!["-1".into()], vec!["8".into()], vec!["3".into()])
    );
    for wrong in ["8e9", "_1", "1_", "1__0", "0x", "0x-1", "--1", "", "9223372036854775808"] {
        let (status, text) = error(&format!("etcd --quota-backend-bytes={wrong}"));
        assert_eq!((status, text.contains("parse error")), (2, true), "{wrong}: {text}");
    }
    for (text, expected) in [("8e9", "8000000000"), ("8.5e9", "8500000000"), ("0x10", "16")] {
        let file = format!("quota-backend-bytes: {text}\n");
        let given = settings(given_with("etcd --config-file f.yml", &[], &file));
        assert_eq!(given, [("quota-backend-bytes", expected.to_string())], "{text}");
    }
    assert_eq!(error_with("etcd --config-file f.yml", &[], "max-txn-ops: 1.5\n").0, 1);
    let file = "name: &n a\ninitial-cluster-token: *n\ncors: [*n, *n]\n";
    assert_eq!(given_with("etcd --config-file f.yml", &[], file).about.name, "a");
    let long = format!("name: &n {}\ncors: [{}]\n", "x".repeat(1 << 19), "*n, ".repeat(3));
    let (status, text) = error_with("etcd --config-file f.yml", &[], &long);
    assert!(status == 1 && text.contains("aliases stand for more than"), "{text}");
}

#[test]
fn more_bytes_of_a_request_than_may_be_are_as_many_as_may_be() {
    let given = given("etcd --max-request-bytes=33554432");
    assert_eq!(given.settings, [("max-request-bytes", "16777216".to_string())]);
    let expected = "command line: --max-request-bytes: is more than 16777216, which counts in its \
                    place";
    assert_eq!(given.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
}

/// The three members of etcd's `Procfile` for one machine. The election port that is made up for
/// the first is the peer port of the third.
#[test]
fn members_on_one_machine_have_any_peer_ports() {
    let urls = [1, 2, 3].map(|it| format!("infra{it}=http://127.0.0.1:{it}2380")).join(",");
    let line = format!(
        "etcd --name=infra1 --initial-cluster={urls} --listen-peer-urls=http://127.0.0.1:12380 \
         --initial-advertise-peer-urls=http://127.0.0.1:12380"
    );
    let args = parsed_in(&line, &[]).unwrap();
    let (config, _) = crate::load_from(&args, &crate::Env::default(), &|_| Ok(None)).unwrap();
    assert_eq!(config.cluster.unwrap().servers.len(), 3);
}

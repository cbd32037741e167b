//! Tests of `quorate zk` as a process, against this tree's server.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::server::{RealServer, Server, free_addresses};

/// The output of a process, and whether it succeeded.
struct Given {
    good: bool,
    stdout: String,
    stderr: String,
}

fn command(address: SocketAddr, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.args(["zk", "--server", &address.to_string()]).args(words);
    command.env_remove("CLIENT_JVMFLAGS").env_remove("JVMFLAGS");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn given(child: Child) -> Given {
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    Given { good: output.status.success(), stdout, stderr }
}

/// Runs one command. Fails unless it succeeds and writes `stderr` to standard error. Returns its
/// standard output.
fn good_with(address: SocketAddr, words: &[&str], stderr: &str) -> String {
    let given = given(command(address, words).spawn().unwrap());
    assert!(given.good, "{words:?}: {}", given.stderr);
    assert_eq!(given.stderr, stderr, "{words:?}");
    given.stdout
}

/// Runs one command. Fails unless it succeeds and writes nothing to standard error. Returns its
/// standard output.
fn good(address: SocketAddr, words: &[&str]) -> String {
    good_with(address, words, "")
}

/// Creates a znode. Its path is written to standard error, as in `zkCli.sh`.
fn create(address: SocketAddr, words: &[&str], made: &str) {
    let words: Vec<&str> = [&["create"], words].concat();
    assert_eq!(good_with(address, &words, &format!("Created {made}\n")), "");
}

/// Runs one command. Fails unless the command fails and writes this line to standard error.
fn bad(address: SocketAddr, words: &[&str], line: &str) {
    let given = given(command(address, words).spawn().unwrap());
    assert!(!given.good, "{words:?}: {}", given.stdout);
    assert_eq!(given.stderr, format!("{line}\n"), "{words:?}");
}

/// Writes lines to the standard input of a shell that has no terminal. Returns its output.
fn lines_with(address: SocketAddr, options: &[&str], text: &str) -> Given {
    let mut child = command(address, options).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    given(child)
}

fn lines(address: SocketAddr, text: &str) -> Given {
    lines_with(address, &[], text)
}

/// Runs lines in a shell with JSON output. Returns the JSON values that it writes, one a line.
fn json_lines(address: SocketAddr, text: &str) -> Vec<Value> {
    let given = lines_with(address, &["--output", "json"], text);
    assert_eq!(given.stderr, "");
    given.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The text without zxids, which differ from run to run.
fn without_zxids(text: &str) -> String {
    let line = |line: &str| match line.split_once(" zxid: ") {
        Some((before, _)) => format!("{before}\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// The text for a watch that fired, without its zxid.
fn fired(kind: &str, path: &str) -> String {
    format!("\nWATCHER::\n\nWatchedEvent state:SyncConnected type:{kind} path:{path}\n")
}

#[test]
fn single_commands_change_and_show_the_tree() {
    let server = Server::start("zk-single", &[]);
    let at = server.address();
    create(at, &["/a", "one two"], "/a");
    create(at, &["/a/b"], "/a/b");
    create(at, &["-s", "/a/n-", "x"], "/a/n-0000000001");
    assert_eq!(good(at, &["get", "/a"]), "one two\n");
    assert_eq!(good(at, &["get", "/a/b"]), "null\n");
    assert_eq!(good(at, &["get", "-b", "/a"]), "b25lIHR3bw==\n");
    assert!(good(at, &["get", "-x", "/a"]).contains("|00000000| 6f 6e 65 20 74 77 6f "));
    assert_eq!(good(at, &["set", "/a", "-3"]), "");
    assert!(good(at, &["get", "-s", "/a"]).starts_with("-3\ncZxid = 0x"));
    assert!(good(at, &["stat", "/a"]).contains("\ndataVersion = 1\n"));
    assert!(good(at, &["set", "-s", "-v", "1", "/a", "x"]).contains("\ndataVersion = 2\n"));
    assert_eq!(good(at, &["set", "-b", "/a/b", "AP8="]), "");
    let note = "2 bytes that are no text; -b gives them as base64\n";
    assert!(good_with(at, &["get", "/a/b"], note).contains("| 00 ff "));
    assert_eq!(good(at, &["ls", "/a"]), "[b, n-0000000001]\n");
    assert!(good(at, &["ls", "-s", "/a"]).starts_with("[b, n-0000000001]\ncZxid = "));
    assert_eq!(good(at, &["getAcl", "/a"]), "'world,'anyone\n: cdrwa\n");
    assert_eq!(good(at, &["setAcl", "/a/b", "world:anyone:r"]), "");
    assert!(good(at, &["getAcl", "-s", "/a/b"]).starts_with("'world,'anyone\n: r\ncZxid = "));
    assert_eq!(good(at, &["sync", "/a"]), "Sync is OK\n");
    assert_eq!(good(at, &["delete", "-v", "1", "/a/b"]), "");
    assert_eq!(good(at, &["deleteall", "/a"]), "");
    assert_eq!(good(at, &["ls", "/"]), "[zookeeper]\n");
}

#[test]
fn znodes_of_every_mode_are_made() {
    let server = Server::start("zk-modes", &["extendedTypesEnabled=true"]);
    let text = "create -c /c\ncreate -t 60000 /t x\ncreate -s -t 60000 /t-\ncreate -e /e\n\
                create -s -e /e-\ngetEphemerals\ngetEphemerals /e-\ngetEphemerals /t\n\
                getAllChildrenNumber /\nwhoami\n";
    let given = lines(server.address(), text);
    let made = ["/c", "/t", "/t-0000000002", "/e", "/e-0000000004"];
    let made: String = made.iter().map(|path| format!("Created {path}\n")).collect();
    assert_eq!(given.stderr, made);
    let shown = "[/e, /e-0000000004]\n[/e-0000000004]\n[]\n8\nAuth scheme: User\nip: 127.0.0.1\n";
    assert_eq!(given.stdout, shown);
    assert!(given.good);
}

#[test]
fn an_ephemeral_goes_with_the_command_that_made_it() {
    let server = Server::start("zk-ephemeral", &[]);
    let at = server.address();
    create(at, &["-e", "/e"], "/e");
    bad(at, &["get", "/e"], "Node does not exist: /e");
}

/// The errors are worded like those of the real `zkCli.sh`, where it has one.
#[test]
fn what_fails_says_so_in_one_line() {
    let server = Server::start("zk-bad", &[]);
    let at = server.address();
    bad(at, &["get", "/a"], "Node does not exist: /a");
    bad(at, &["stat", "/a"], "Node does not exist: /a");
    bad(at, &["ls", "-R", "/a"], "Node does not exist: /a");
    bad(at, &["deleteall", "/a"], "Node does not exist: /a");
    bad(at, &["create", "/"], "Node already exists: /");
    bad(at, &["create", "a"], "Path must start with / character");
    bad(at, &["get", "/a/"], "Path must not end with / character");
    let twice = "Invalid path string \"/a//b\" caused by empty node name specified @3";
    bad(at, &["ls", "/a//b"], twice);
    bad(at, &["create", "/a/b"], "Node does not exist: /a/b");
    bad(at, &["delete", "/zookeeper"], "Arguments are not valid : /zookeeper");
    bad(at, &["set", "-v", "7", "/", "x"], "version No is not valid : /");
    bad(at, &["setAcl", "/", "bogus:x:r"], "Acl is not valid : /");
    bad(at, &["addauth", "bogus", "x"], "KeeperErrorCode = AuthFailed for bogus");
    bad(at, &["frobnicate"], "Command not found frobnicate; `help` lists them");
    bad(at, &["removewatches", "/"], "KeeperErrorCode = No such watcher for /");
    bad(at, &["get"], "get: an argument is missing (usage: get [-s] [-w] [-b] [-x] path)");
    let text = "Failed to delete some node(s) in the subtree! Arguments are not valid : /zookeeper";
    let given = given(command(at, &["deleteall", "/zookeeper"]).spawn().unwrap());
    assert!(!given.good && given.stderr.starts_with(text), "{}", given.stderr);
}

#[test]
fn commands_that_need_no_server_need_none() {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    assert!(good(nowhere, &["help"]).contains("deleteall [-b batch] path"));
    assert!(good(nowhere, &["help", "ls"]).starts_with("ls [-s] [-w] [-R] [path]"));
    assert!(good(nowhere, &["version"]).starts_with("quorate "));
    let given = given(command(nowhere, &["ls", "/"]).spawn().unwrap());
    assert!(!given.good);
    assert!(given.stderr.starts_with("cannot connect to 127.0.0.1:1: "), "{}", given.stderr);
    assert_eq!(given.stderr.lines().count(), 1);
}

/// Runs `quorate zk` with these arguments alone.
fn zk(words: &[&str]) -> Given {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.env_remove("CLIENT_JVMFLAGS").env_remove("JVMFLAGS").arg("zk").args(words);
    given(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

#[test]
fn the_first_server_that_answers_is_used() {
    let server = Server::start("zk-several", &[]);
    let servers = format!("127.0.0.1:1,{}", server.address());
    for option in ["--server", "-server"] {
        assert_eq!(zk(&[option, &servers, "ls", "/"]).stdout, "[zookeeper]\n");
    }
}

#[test]
fn a_chroot_is_the_root() {
    let server = Server::start("zk-chroot", &[]);
    let at = server.address();
    create(at, &["/app"], "/app");
    let servers = format!("{at}/app");
    let app = |words: &[&str]| zk(&[&["-server", &servers], words].concat());
    assert_eq!(app(&["create", "-s", "/n-"]).stderr, "Created /n-0000000000\n");
    assert_eq!(app(&["ls", "/"]).stdout, "[n-0000000000]\n");
    assert_eq!(app(&["ls", "-R", "/"]).stdout, "/\n/n-0000000000\n");
    assert_eq!(app(&["get", "/app"]).stderr, "Node does not exist: /app\n");
    assert!(app(&["setquota", "-n", "1", "/"]).stderr.contains("without a chroot"));
    assert_eq!(good(at, &["ls", "/app"]), "[n-0000000000]\n");
    let given = zk(&["-server", "h:1/app/", "ls"]);
    assert_eq!(given.stderr, "quorate: h:1/app/: Path must not end with / character\n");
}

/// The path of a key or trust store of the tests.
fn store(name: &str) -> String {
    format!("{}/tests/fixtures/tls/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Starts a server with a TLS port and these key and trust stores.
fn tls_server(name: &str, keys: &str, trusted: &str) -> Server {
    let lines = [
        "secureClientPort=0".to_string(),
        "secureClientPortAddress=127.0.0.1".to_string(),
        format!("ssl.keyStore.location={}", store(keys)),
        format!("ssl.trustStore.location={}", store(trusted)),
    ];
    Server::start(name, &lines.each_ref().map(String::as_str))
}

/// Runs a command with these Java flags.
fn with_flags(flags: &str, words: &[&str]) -> Given {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.env("CLIENT_JVMFLAGS", flags).env_remove("JVMFLAGS").arg("zk").args(words);
    given(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

const SECURE: &str = "-Dzookeeper.client.secure=true -Dzookeeper.ssl.";

#[test]
fn a_server_is_asked_by_tls_and_shown_a_certificate() {
    let server = tls_server("zk-tls", "server.pem", "ca.pem");
    let at = format!("localhost:{}", server.face("zk-tls").port());
    let trust = format!("{SECURE}trustStore.location={}", store("ca.pem"));
    let flags = format!("{trust} -Dzookeeper.ssl.keyStore.location={}", store("client.pem"));
    let given = with_flags(&flags, &["-server", &at, "whoami"]);
    assert!(given.good, "{}", given.stderr);
    let x509 = "x509: CN=client,O=Test\\, Inc.,C=DE\n";
    assert!(given.stdout.contains(x509), "{}", given.stdout);
    // The data needs more than one TLS record in both directions.
    let data = "x".repeat(100_000);
    assert!(with_flags(&flags, &["-server", &at, "create", "/large", &data]).good);
    assert_eq!(with_flags(&flags, &["-server", &at, "get", "/large"]).stdout, format!("{data}\n"));
    // These are a client without a certificate, one with a certificate of another authority, and
    // one that does not trust the server.
    let stranger = format!("{trust} -Dzookeeper.ssl.keyStore.location={}", store("stranger.pem"));
    let other = format!("{SECURE}trustStore.location={}", store("other-ca.pem"));
    for flags in [&trust, &stranger, &other] {
        let given = with_flags(flags, &["-server", &at, "ls", "/"]);
        assert!(!given.good && given.stderr.starts_with("cannot connect to"), "{flags}");
    }
    let plain = with_flags(&flags, &["-server", &server.address().to_string(), "ls", "/"]);
    assert!(!plain.good, "{}", plain.stdout);
    let configured = server.folder().join("client.properties");
    let ca = store("ca.pem");
    let text = format!(
        "zookeeper.client.secure=true\nzookeeper.ssl.trustStore.location={ca}\n\
         zookeeper.ssl.keyStore.location={}\n",
        store("client.pem")
    );
    std::fs::write(&configured, text).unwrap();
    let file = configured.to_string_lossy();
    let given = zk(&["-client-configuration", &file, "-server", &at, "ls", "/"]);
    assert_eq!(given.stdout, "[large, zookeeper]\n", "{}", given.stderr);
}

#[test]
fn the_name_of_a_server_is_checked_unless_that_is_not_wanted() {
    let server = tls_server("zk-tls-name", "self-signed.pem", "self-signed.pem");
    let at = format!("localhost:{}", server.face("zk-tls").port());
    let flags = format!(
        "{SECURE}trustStore.location={} -Dzookeeper.ssl.keyStore.location={}",
        store("self-signed-trusted.pem"),
        store("self-signed.pem"),
    );
    let given = with_flags(&flags, &["-server", &at, "ls", "/"]);
    assert!(!given.good && given.stderr.contains("not valid for"), "{}", given.stderr);
    let flags = format!("{flags} -Dzookeeper.ssl.hostnameVerification=false");
    let given = with_flags(&flags, &["-server", &at, "ls", "/"]);
    assert_eq!(given.stdout, "[zookeeper]\n", "{}", given.stderr);
}

#[test]
fn a_server_may_name_its_host_by_its_subject_alone() {
    // The certificate is of version 1, as `openssl x509 -req` makes it: only its subject names the
    // host.
    let server = tls_server("zk-tls-v1", "server-v1.pem", "ca.pem");
    let flags = format!(
        "{SECURE}trustStore.location={} -Dzookeeper.ssl.keyStore.location={}",
        store("ca.pem"),
        store("client-v1.pem"),
    );
    let port = server.face("zk-tls").port();
    let given = with_flags(&flags, &["-server", &format!("localhost:{port}"), "ls", "/"]);
    assert_eq!(given.stdout, "[zookeeper]\n", "{}", given.stderr);
    let given = with_flags(&flags, &["-server", &format!("127.0.0.1:{port}"), "ls", "/"]);
    assert!(!given.good, "{}", given.stdout);
}

#[test]
fn a_user_of_sasl_logs_in() {
    let folder = crate::server::folder("zk-sasl");
    let module = "org.apache.zookeeper.server.auth.DigestLoginModule required";
    let jaas = |name: &str, text: &str| {
        let file = folder.join(name);
        std::fs::write(&file, text).unwrap();
        format!("-Djava.security.auth.login.config={}", file.display())
    };
    let users = jaas("server.conf", &format!("Server {{ {module} user_bob=\"bob's\"; }};"));
    std::fs::write(folder.join(crate::server::JVMFLAGS_FILE), users).unwrap();
    let client = |name: &str, password: &str| {
        let text = format!("Client {{ {module} username=bob password=\"{password}\"; }};");
        jaas(name, &text)
    };
    let (right, wrong) = (client("right.conf", "bob's"), client("wrong.conf", "eve's"));
    let provider = "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider";
    let server = Server::start_in(folder, &[provider]);
    let at = server.address().to_string();
    let given = with_flags(&right, &["-server", &at, "whoami"]);
    assert_eq!(given.stdout, "Auth scheme: User\nip: 127.0.0.1\nsasl: bob\n", "{}", given.stderr);
    let given = with_flags(&wrong, &["-server", &at, "whoami"]);
    assert!(!given.good && given.stderr.contains("SASL"), "{}", given.stderr);
}

#[test]
fn what_cannot_be_used_is_said() {
    let given = zk(&["-client-configuration", "/nothing/there", "ls"]);
    assert!(!given.good);
    assert!(given.stderr.contains("-client-configuration /nothing/there: "), "{}", given.stderr);
    let given = with_flags("-Dzookeeper.client.secure=true", &["ls", "/"]);
    assert!(!given.good && given.stderr.contains("trustStore.location"), "{}", given.stderr);
}

#[test]
fn a_script_runs_in_one_session() {
    let server = Server::start("zk-script", &[]);
    let text = "# a comment\n\
                create -e /e 'with space'\n\
                \n\
                get /e\n\
                create /json {\"a\":\"b\"}\n\
                get /json\n\
                addauth digest user:password\n\
                create /secret x auth::r\n\
                get /secret\n\
                whoami\n\
                getAcl /secret\n\
                quit\n\
                get /never\n";
    let given = lines(server.address(), text);
    assert!(given.good, "{}", given.stderr);
    let shown: Vec<&str> = given.stdout.lines().collect();
    assert_eq!(shown[..3], ["with space", "{\"a\":\"b\"}", "x"]);
    assert_eq!(shown[3..6], ["Auth scheme: User", "ip: 127.0.0.1", "digest: user"]);
    assert_eq!(shown[6..], ["'digest,'user:x", ": r"]);
    assert_eq!(given.stderr, "Created /e\nCreated /json\nCreated /secret\n");
}

#[test]
fn a_script_goes_on_after_a_failure_and_fails_at_its_end() {
    let server = Server::start("zk-script-bad", &[]);
    let given = lines(server.address(), "get /a\ncreate 'x\ncreate /a 1\nget /a\n");
    assert!(!given.good);
    assert_eq!(given.stderr, "Node does not exist: /a\na ' is not closed\nCreated /a\n");
    assert_eq!(given.stdout, "1\n");
}

#[test]
fn the_history_is_shown_and_run_again_without_passwords() {
    let server = Server::start("zk-history", &[]);
    let text = "create -s /a-\nredo 0\naddauth digest u:p\nredo 2\nredo 9\nls /\nhistory\n";
    let given = lines(server.address(), text);
    let stderr = "Created /a-0000000000\nCreated /a-0000000001\n\
                  what may hold a password is not kept\nCommand index out of range\n";
    assert_eq!(given.stderr, stderr);
    let stdout = "[a-0000000000, a-0000000001, zookeeper]\n0 - create -s /a-\n\
                  1 - create -s /a-\n2 - addauth (not kept)\n3 - redo 2\n4 - redo 9\n\
                  5 - ls /\n6 - history\n";
    assert_eq!(given.stdout, stdout);
}

#[test]
fn a_session_is_closed_and_another_opened() {
    let server = Server::start("zk-close", &[]);
    let at = server.address();
    let text = format!("create -e /e\nclose\nls /\nconnect\nls /\nconnect {at}/zookeeper\nls /\n");
    let given = lines(at, &text);
    assert!(!given.good);
    assert_eq!(given.stderr, "Created /e\nNot connected\n");
    assert_eq!(given.stdout, "[zookeeper]\n[config, quota]\n");
}

#[test]
fn a_session_goes_on_after_refused_credentials() {
    let server = Server::start("zk-refused", &[]);
    let given = lines(server.address(), "create -e /e\naddauth bogus x\ngetEphemerals\nls /\n");
    assert!(!given.good);
    assert_eq!(given.stderr, "Created /e\nKeeperErrorCode = AuthFailed for bogus\n");
    assert_eq!(given.stdout, "[/e]\n[e, zookeeper]\n");
}

#[test]
fn a_line_that_is_no_text_does_not_keep_those_behind_it() {
    let server = Server::start("zk-no-text", &[]);
    let mut child = command(server.address(), &[]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"create /a 1\nset /a \xff\nget /a\r\n").unwrap();
    drop(stdin);
    let given = given(child);
    assert!(!given.good);
    assert_eq!(given.stderr, "Created /a\na line is not UTF-8; `set -b` takes other data\n");
    assert_eq!(given.stdout, "1\n");
}

#[test]
fn trees_are_listed_drawn_changed_and_removed() {
    let server = Server::start("zk-trees", &[]);
    let at = server.address();
    let mut text = "create /t\n".to_string();
    for path in ["/t/a", "/t/b", "/t/a/x", "/t/a/x/y", "/t/b/z"] {
        text += &format!("create {path}\n");
    }
    assert!(lines(at, &text).good);
    // All children of a znode come before the znodes below the first child, as in `zkCli.sh`.
    let listed = "/t\n/t/a\n/t/b\n/t/a/x\n/t/a/x/y\n/t/b/z\n";
    assert_eq!(good(at, &["ls", "-R", "/t"]), listed);
    let drawn = "/t\n├── a\n│   └── x\n│       └── y\n└── b\n    └── z\n";
    assert_eq!(good(at, &["tree", "/t"]), drawn);
    assert_eq!(good(at, &["tree", "-d", "1", "/t"]), "/t\n├── a\n└── b\n");
    assert_eq!(good(at, &["getAllChildrenNumber", "/t"]), "5\n");
    assert_eq!(good(at, &["setAcl", "-R", "/t", "world:anyone:cdra"]), "");
    assert_eq!(good(at, &["getAcl", "/t/a/x/y"]), "'world,'anyone\n: cdra\n");
    bad(
        at,
        &["setAcl", "-R", "-v", "7", "/t/a/x", "world:anyone:r"],
        "version No is not valid : \
         /t/a/x\nversion No is not valid : /t/a/x/y\nthe ACL of 2 znodes was not set",
    );
    assert_eq!(good(at, &["deleteall", "-b", "2", "/t"]), "");
    assert_eq!(good(at, &["ls", "/"]), "[zookeeper]\n");
}

/// There are more siblings than the shell asks for at once, and every fifth has children.
#[test]
fn a_wide_tree_is_walked_in_order() {
    let server = Server::start("zk-wide", &[]);
    let at = server.address();
    let mut text = "create /w\n".to_string();
    let mut children = String::new();
    let mut below = String::new();
    for index in 0..300 {
        text += &format!("create /w/{index:03}\n");
        children += &format!("/w/{index:03}\n");
        if index % 5 == 0 {
            text += &format!("create /w/{index:03}/x\ncreate /w/{index:03}/y\n");
            below += &format!("/w/{index:03}/x\n/w/{index:03}/y\n");
        }
    }
    assert!(lines(at, &text).good);
    assert_eq!(good(at, &["ls", "-R", "/w"]), format!("/w\n{children}{below}"));
    assert_eq!(good(at, &["deleteall", "/w"]), "");
    assert_eq!(good(at, &["ls", "/"]), "[zookeeper]\n");
}

#[test]
fn what_may_not_be_read_does_not_hide_the_rest() {
    let server = Server::start("zk-unread", &[]);
    let at = server.address();
    let text = "create /t\ncreate /t/a\ncreate /t/b\ncreate /t/b/x\ncreate /t/c\n\
                create /t/c/y\nsetAcl /t/b world:anyone:cdwa\nls -R /t\ntree /t\n";
    let said = "Insufficient permission : /t/b\nthe children of 1 znodes were not read\n";
    let given = lines(at, text);
    assert!(!given.good);
    let drawn = "/t\n├── a\n├── b\n└── c\n    └── y\n";
    assert_eq!(given.stdout, format!("/t\n/t/a\n/t/b\n/t/c\n/t/c/y\n{drawn}"));
    assert!(given.stderr.ends_with(&format!("{said}{said}")), "{}", given.stderr);
    let value = &json_lines(at, "ls -R /t\n")[0];
    assert_eq!(value["paths"].as_array().unwrap().len(), 5);
    assert_eq!((&value["ok"], &value["notes"][0]), (&false.into(), &said.lines().next().into()));
    bad(
        at,
        &["deleteall", "/t"],
        "Failed to delete some node(s) in the subtree! \
         Node not empty: /t/b",
    );
}

#[test]
fn a_command_that_there_is_not_has_a_status_of_its_own() {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    let output = command(nowhere, &["frobnicate"]).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    let output = command(nowhere, &["get"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

/// Commands of the shell that send all kinds of requests, and cause errors of each kind.
const EVERYTHING: &str = "\
    create /a one\ncreate /a/b\ncreate -s /a/n- x\ncreate -e /e x\ncreate -c /c\n\
    create -t 5000000 /t ttl\ncreate /a\ncreate /no/x\ncreate /e/x\ncreate /q x digest:u:h=:r\n\
    get -s /a/b\nget /q\nget /no\nls -s /\nls -R /a\nls /no\nls -R /\nstat /no\nget -b /a\n\
    stat -w /w\ncreate /w\nls -w /a\nset /a y\nset -v 9 /a z\nset -s -v 1 /a z\ngetAcl -s /a\n\
    setAcl -s /a world:anyone:cdrwa\nsetAcl -v 9 /a world:anyone:r\nsetAcl /a bogus:x:r\n\
    addauth digest u:p\nwhoami\ncreate /s x auth::cdrwa\ngetAcl /s\naddWatch /r\n\
    addWatch -m PERSISTENT /p\ncreate /r\ncreate /r/x\ncreate /p\nset /p 1\nremovewatches /r\n\
    removewatches -c /a\nremovewatches /r\ngetEphemerals\ngetEphemerals /e\n\
    getAllChildrenNumber /\ngetAllChildrenNumber /no\nlistquota /c\nsetquota -n 5 /c\n\
    create /c/k 12345\nlistquota /c\nsetquota -B 2 /c\ndelquota -n /c\nlistquota /c\n\
    delquota /c\nls -R /zookeeper\nsync /a\ndelete /a\ndelete -v 9 /a/b\ndelete /no\n\
    delete /zookeeper\ndeleteall /a\ndeleteall /r\ntree -d 1 /\nconfig\nconfig -c\n\
    reconfig -remove 3\n";

/// The text without the lines of times, which differ from server to server.
fn without_times(text: &str) -> String {
    let is_time = |line: &str| line.starts_with("ctime = ") || line.starts_with("mtime = ");
    text.lines().filter(|line| !is_time(line)).map(|line| format!("{line}\n")).collect()
}

#[test]
fn the_real_server_is_shown_as_this_one() {
    let config = ["extendedTypesEnabled=true", "reconfigEnabled=true"];
    let (ours, real) = (Server::start("zk-same", &config), RealServer::start("zk-real", &config));
    let shown = |address| {
        let given = lines(address, EVERYTHING);
        // The session creates and deletes its ephemerals here, so only their owner could differ.
        (without_times(&given.stdout), given.stderr)
    };
    let (ours, real) = (shown(ours.address()), shown(real.address()));
    assert_eq!(ours, real);
    assert!(ours.0.contains("bytes=5") && ours.1.contains("Insufficient permission : /q"));
}

#[test]
fn quotas_are_set_listed_and_removed() {
    let server = Server::start("zk-quota", &[]);
    let text = "create /c\nlistquota /c\nsetquota -n 5 /c\nlistquota /c\nsetquota -B 100 /c\n\
                create /c/k\nsetquota -n 1 /c/k\nsetquota -n 1 /zookeeper/quota/c\n\
                setquota -n 1 /no\ndelquota -n /c\nlistquota /c\ndelquota /c\ndelquota /c\n\
                ls /zookeeper/quota\n";
    let given = lines(server.address(), text);
    let limits: Vec<&str> =
        given.stdout.lines().filter(|line| line.starts_with("Output quota")).collect();
    let expected = [
        "Output quota for /c count=5,bytes=-1=;byteHardLimit=-1;countHardLimit=-1",
        "Output quota for /c count=-1,bytes=-1=;byteHardLimit=100;countHardLimit=-1",
    ];
    assert_eq!(limits, expected);
    assert!(given.stdout.ends_with("\n[]\n"), "{}", given.stdout);
    let place = "absolute path is /zookeeper/quota/c/zookeeper_limits\n";
    let stderr = format!(
        "Created /c\n{place}quota for /c does not exist.\n{place}Created /c/k\n\
         /c/k has a parent /c which has a quota\n\
         cannot set a quota under the path: /zookeeper/quota\n/no does not exist.\n{place}\
         Quota does not exist for /c\n"
    );
    assert_eq!(given.stderr, stderr);
}

#[test]
fn the_configuration_is_shown_and_changing_it_refused() {
    let server = Server::start("zk-config", &["reconfigEnabled=true"]);
    let at = server.address();
    assert!(good(at, &["config", "-s"]).contains("cZxid = "));
    assert!(good(at, &["config", "-c"]).ends_with('\n'));
    bad(at, &["reconfig", "-remove", "3"], "KeeperErrorCode = Unimplemented");
    bad(
        at,
        &["reconfig", "-file", "/nothing/there"],
        "Error processing /nothing/there: No such file or directory (os error 2)",
    );
}

#[test]
fn watches_of_the_shell_are_printed_when_they_fire() {
    let server = Server::start("zk-event", &[]);
    let text = "stat -w /a\ncreate /a\nget -w /a\nset /a x\nls -w /a\nprintwatches off\n\
                create /a/b\nprintwatches on\nprintwatches\n";
    let given = lines(server.address(), text);
    assert_eq!(given.stderr, "Node does not exist: /a\nCreated /a\nCreated /a/b\n");
    let (created, changed) = (fired("NodeCreated", "/a"), fired("NodeDataChanged", "/a"));
    let stdout = format!("{created}null\n{changed}[]\nprintwatches is on\n");
    assert_eq!(without_zxids(&given.stdout), stdout);
}

#[test]
fn watches_that_stay_are_set_and_removed() {
    let server = Server::start("zk-stay", &[]);
    let text = "addWatch /r\naddWatch -m PERSISTENT /p\ncreate /r\ncreate /r/x\ncreate /p\n\
                create /p/x\nremovewatches -d /r\nremovewatches /r\nremovewatches -p /p\n\
                set /r 1\nset /p 1\n";
    let given = lines(server.address(), text);
    let events = [
        ("NodeCreated", "/r"),
        ("NodeCreated", "/r/x"),
        ("NodeCreated", "/p"),
        ("NodeChildrenChanged", "/p"),
        ("PersistentWatchRemoved", "/r"),
        ("PersistentWatchRemoved", "/p"),
    ];
    let events: String = events.iter().map(|(kind, path)| fired(kind, path)).collect();
    assert_eq!(without_zxids(&given.stdout), events);
    assert!(given.stderr.ends_with("KeeperErrorCode = No such watcher for /r\n"));
}

#[test]
fn json_is_one_value_for_each_command_and_event() {
    let server = Server::start("zk-json", &[]);
    let text = "create /a x\nget -s /a\nget /b\nls -w /\nls -R /a\ncreate /b\nset -b /b AP8=\n\
                get /b\ngetAcl /a\ntree /a\nfrobnicate\nls -R /c\nsync /\nwhoami\nhistory\n";
    let values = json_lines(server.address(), text);
    let commands: Vec<&str> = values.iter().filter_map(|value| value["command"].as_str()).collect();
    let expected = "create get get ls ls create set get getAcl tree frobnicate ls sync whoami \
                    history";
    assert_eq!(commands.join(" "), expected);
    let ok: Vec<bool> = values.iter().filter_map(|value| value["ok"].as_bool()).collect();
    assert_eq!(ok.iter().filter(|ok| !**ok).count(), 3);
    let line = |value: &Value| value.to_string();
    assert_eq!(line(&values[0]), r#"{"command":"create","created":"/a","ok":true}"#);
    assert_eq!((&values[1]["data"], &values[1]["stat"]["dataLength"]), (&"x".into(), &1.into()));
    let missing = r#"{"command":"get","error":{"code":-101,"message":"Node does not exist: /b","name":"NoNode"},"ok":false}"#;
    assert_eq!(line(&values[2]), missing);
    assert_eq!(line(&values[4]), r#"{"command":"ls","ok":true,"path":"/a","paths":["/a"]}"#);
    assert_eq!(values[5]["event"], "NodeChildrenChanged");
    assert_eq!(values[8]["data_base64"], "AP8=");
    let missing = values.iter().rfind(|value| value["command"] == "ls").unwrap();
    assert_eq!(missing["error"]["name"], "NoNode");
}

/// A running shell on pipes: a test writes lines to it and reads its answers.
struct Talk {
    child: Child,
    output: std::io::Lines<BufReader<ChildStdout>>,
}

impl Talk {
    fn start(address: SocketAddr, words: &[&str]) -> Talk {
        let mut child = command(address, words).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Talk { child, output }
    }

    fn say(&mut self, line: &str) {
        writeln!(self.child.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn next(&mut self) -> String {
        self.output.next().expect("it goes on").unwrap()
    }

    fn next_json(&mut self) -> Value {
        serde_json::from_str(&self.next()).unwrap()
    }
}

#[test]
fn a_session_goes_on_with_its_watches_when_the_server_comes_back() {
    let mut server = Server::start("zk-again", &[]);
    // The server comes back at its old port.
    let [at] = free_addresses();
    server.kill_nine();
    server.restart_at(at);
    let mut talk = Talk::start(at, &["--output", "json", "-t", "30s", "-waitforconnection"]);
    talk.say("create -e /e");
    assert_eq!(talk.next_json()["created"], "/e");
    talk.say("addWatch /w");
    assert_eq!(talk.next_json()["ok"], true);
    talk.say("get -w /e");
    assert_eq!(talk.next_json()["data"], Value::Null);
    server.stop();
    assert_eq!(talk.next_json()["state"], "Disconnected");
    server.restart_at(at);
    let again = talk.next_json();
    assert_eq!((&again["state"], &again["again"]), (&"SyncConnected".into(), &true.into()));
    create(at, &["/w"], "/w");
    let event = talk.next_json();
    assert_eq!((&event["event"], &event["path"]), (&"NodeCreated".into(), &"/w".into()));
    talk.say("getEphemerals");
    assert_eq!(talk.next_json()["ephemerals"], serde_json::json!(["/e"]));
    talk.say("quit");
    assert!(talk.child.wait().unwrap().success());
}

#[test]
fn watch_prints_events_until_it_is_interrupted() {
    let server = Server::start("zk-watch", &[]);
    let at = server.address();
    let mut child = command(at, &["watch", "-R", "/a"]).spawn().unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap()).lines();
    assert_eq!(said.next().unwrap().unwrap(), "watching /a; Ctrl-C ends");
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || output.next().expect("watch goes on").unwrap();
    let happened: [(&[&str], &str); 4] = [
        (&["create", "/a"], "type:NodeCreated path:/a zxid: "),
        (&["set", "/a", "x"], "type:NodeDataChanged path:/a zxid: "),
        (&["create", "/a/b"], "type:NodeCreated path:/a/b zxid: "),
        (&["delete", "/a/b"], "type:NodeDeleted path:/a/b zxid: "),
    ];
    for (words, expected) in happened {
        assert!(given(command(at, words).spawn().unwrap()).good);
        let line = next();
        assert!(line.contains(expected), "{words:?}: {line}");
    }
    let id = i32::try_from(child.id()).unwrap();
    let pid = rustix::process::Pid::from_raw(id).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(child.wait().unwrap().success());
}

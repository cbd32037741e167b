//! `quorate zk` as a process, against this tree's server.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use crate::server::Server;

/// What a process gave.
struct Given {
    good: bool,
    stdout: String,
    stderr: String,
}

fn command(address: SocketAddr, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.args(["zk", "--server", &address.to_string()]).args(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn given(child: Child) -> Given {
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    Given { good: output.status.success(), stdout, stderr }
}

/// Runs one command; it must succeed without a word on standard error.
fn good(address: SocketAddr, words: &[&str]) -> String {
    let given = given(command(address, words).spawn().unwrap());
    assert!(given.good, "{words:?}: {}", given.stderr);
    assert_eq!(given.stderr, "", "{words:?}");
    given.stdout
}

/// Runs one command; it must fail with this line.
fn bad(address: SocketAddr, words: &[&str], line: &str) {
    let given = given(command(address, words).spawn().unwrap());
    assert!(!given.good, "{words:?}: {}", given.stdout);
    assert_eq!(given.stderr, format!("{line}\n"), "{words:?}");
}

/// Writes lines to a shell that has no terminal.
fn lines(address: SocketAddr, text: &str) -> Given {
    let mut child = command(address, &[]).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    given(child)
}

#[test]
fn single_commands_change_and_show_the_tree() {
    let server = Server::start("zk-single", &[]);
    let at = server.address();
    assert_eq!(good(at, &["create", "/a", "one two"]), "Created /a\n");
    assert_eq!(good(at, &["create", "/a/b"]), "Created /a/b\n");
    assert_eq!(good(at, &["create", "-s", "/a/n-", "x"]), "Created /a/n-0000000001\n");
    assert_eq!(good(at, &["get", "/a"]), "one two\n");
    assert_eq!(good(at, &["set", "/a", "-3"]), "");
    assert!(good(at, &["get", "-s", "/a"]).starts_with("-3\ncZxid          = 0x"));
    assert!(good(at, &["stat", "/a"]).contains("dataVersion    = 1\n"));
    assert_eq!(good(at, &["ls", "/a"]), "b\nn-0000000001\n");
    assert_eq!(good(at, &["ls", "-R", "/a"]), "/a\n/a/b\n/a/n-0000000001\n");
    assert_eq!(good(at, &["tree", "/a"]), "/a\n├── b\n└── n-0000000001\n");
    assert_eq!(good(at, &["getAcl", "/a"]), "world:anyone:cdrwa\n");
    assert_eq!(good(at, &["setAcl", "/a/b", "world:anyone:r"]), "");
    assert_eq!(good(at, &["getAcl", "/a/b"]), "world:anyone:r\n");
    assert_eq!(good(at, &["sync", "/a"]), "Sync is OK\n");
    assert_eq!(good(at, &["delete", "-v", "0", "/a/b"]), "");
    assert_eq!(good(at, &["deleteall", "/a"]), "");
    assert_eq!(good(at, &["ls", "/"]), "zookeeper\n");
}

#[test]
fn an_ephemeral_goes_with_the_command_that_made_it() {
    let server = Server::start("zk-ephemeral", &[]);
    let at = server.address();
    assert_eq!(good(at, &["create", "-e", "/e"]), "Created /e\n");
    bad(at, &["get", "/e"], "zk: /e: no node");
}

#[test]
fn what_fails_says_so_in_one_line() {
    let server = Server::start("zk-bad", &[]);
    let at = server.address();
    bad(at, &["get", "/a"], "zk: /a: no node");
    bad(at, &["create", "/"], "zk: /: node exists");
    bad(at, &["create", "a"], "zk: a: bad arguments");
    bad(at, &["create", "/a/b"], "zk: /a/b: no node");
    bad(at, &["delete", "/zookeeper"], "zk: /zookeeper: bad arguments");
    bad(at, &["set", "-v", "7", "/", "x"], "zk: /: bad version");
    bad(at, &["setAcl", "/", "bogus:x:r"], "zk: /: invalid ACL");
    bad(at, &["addauth", "bogus", "x"], "zk: bogus: auth failed");
    bad(at, &["frobnicate"], "zk: frobnicate: unknown command; `help` lists them");
    bad(at, &["get", "-w", "/"], "zk: -w needs the shell; `watch PATH` waits for events");
    bad(at, &["get"], "zk: get: an argument is missing (usage: get [-s] [-w] path)");
}

#[test]
fn commands_that_need_no_server_need_none() {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    assert!(good(nowhere, &["help"]).contains("deleteall path"));
    assert!(good(nowhere, &["help", "ls"]).starts_with("ls [-s] [-w] [-R] [path]"));
    assert!(good(nowhere, &["version"]).starts_with("quorate "));
    let given = given(command(nowhere, &["ls", "/"]).spawn().unwrap());
    assert!(!given.good);
    assert!(given.stderr.starts_with("zk: cannot connect to 127.0.0.1:1: "), "{}", given.stderr);
    assert_eq!(given.stderr.lines().count(), 1);
}

#[test]
fn the_first_server_that_answers_is_used() {
    let server = Server::start("zk-several", &[]);
    let servers = format!("127.0.0.1:1,{}", server.address());
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    let output = command.args(["zk", "--server", &servers, "ls", "/"]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "zookeeper\n");
}

#[test]
fn a_script_runs_in_one_session() {
    let server = Server::start("zk-script", &[]);
    let text = "# a comment\n\
                create -e /e 'with space'\n\
                \n\
                get /e\n\
                addauth digest user:password\n\
                create /secret x auth::r\n\
                get /secret\n\
                getAcl /secret\n\
                quit\n\
                get /never\n";
    let given = lines(server.address(), text);
    assert!(given.good, "{}", given.stderr);
    let shown: Vec<&str> = given.stdout.lines().collect();
    assert_eq!(shown[..4], ["Created /e", "with space", "Created /secret", "x"]);
    assert!(shown[4].starts_with("digest:user:"), "{}", shown[4]);
    assert_eq!(shown.len(), 5);
}

#[test]
fn a_script_goes_on_after_a_failure_and_fails_at_its_end() {
    let server = Server::start("zk-script-bad", &[]);
    let given = lines(server.address(), "get /a\ncreate 'x\ncreate /a 1\nget /a\n");
    assert!(!given.good);
    assert_eq!(given.stderr, "zk: /a: no node\nzk: a ' is not closed\n");
    assert_eq!(given.stdout, "Created /a\n1\n");
}

#[test]
fn a_watch_of_the_shell_is_told_when_it_fires() {
    let server = Server::start("zk-event", &[]);
    let given = lines(server.address(), "stat -w /a\ncreate /a\nget -w /a\nset /a x\nsync /\n");
    let stderr = "zk: /a: no node\nevent: /a: created\nevent: /a: data changed\n";
    assert_eq!(given.stderr, stderr);
}

#[test]
fn watch_prints_events_until_it_is_interrupted() {
    let server = Server::start("zk-watch", &[]);
    let at = server.address();
    let mut child = command(at, &["watch", "/a"]).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || output.next().expect("watch goes on").unwrap();
    assert_eq!(next(), "watching /a; Ctrl-C ends");
    let happened: [(&[&str], &str); 5] = [
        (&["create", "/a"], "/a: created"),
        (&["set", "/a", "x"], "/a: data changed"),
        (&["create", "/a/b"], "/a: children changed"),
        (&["deleteall", "/a"], "/a: children changed"),
        (&["create", "/a"], "/a: deleted"),
    ];
    for (words, expected) in happened {
        good(at, words);
        let line = next();
        assert!(line.ends_with(expected), "{words:?}: {line}");
    }
    let id = i32::try_from(child.id()).unwrap();
    let pid = rustix::process::Pid::from_raw(id).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(child.wait().unwrap().success());
}

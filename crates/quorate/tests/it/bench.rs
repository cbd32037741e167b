//! `quorate bench`, small, against this server and the real one: the counts are what was asked for.

use std::path::PathBuf;
use std::process::Command;

use crate::server::{RealServer, Server, folder};

const CONFIG: [&str; 2] = ["4lw.commands.whitelist=*", "maxClientCnxns=0"];

/// Runs it with `--json` and gives its output and what it wrote.
fn bench(name: &str, args: &[&str]) -> (String, String) {
    let json: PathBuf = folder(&format!("bench-{name}")).join("figures.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    let output = command.arg("bench").args(args).arg("--json").arg(&json).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}", text(&output.stderr));
    (text(&output.stdout), std::fs::read_to_string(json).unwrap())
}

#[test]
fn the_latency_test_counts_the_same_on_both_servers() {
    let ours = Server::start("bench-ours", &CONFIG);
    let real = RealServer::start("bench-real", &CONFIG);
    let (target, compared) =
        (format!("zk://{}", ours.address()), format!("zk://{}", real.address()));
    for mode in [&[][..], &["--sync"][..]] {
        let args = [
            &["zk-latencies", "--target", &target, "--compare", &compared, "--clients", "1,3"][..],
            &["--znode-count", "100", "--rounds", "2", "--warmup", "0"][..],
            mode,
        ]
        .concat();
        let (text, json) = bench("latencies", &args);
        assert!(text.contains("created     100 permanent znodes"), "{text}");
        assert!(text.contains("ratios, ZooKeeper 3.9.5"), "{text}");
        assert!(!text.contains("errors"), "{text}");
        assert!(!json.contains("\"errors\": 1"), "{json}");
        // Three servers, the null server among them, two runs, for 1 and for 3 clients: 100 of each
        // but for the watches, and 1,100 in all.
        for (clients, operations, times) in [(1, 100, 6), (1, 500, 1), (1, 1_100, 1)] {
            let count = json.matches(&format!("\"operations\": {operations},")).count();
            assert_eq!(count, clients * 3 * 2 * times, "{operations}");
        }
        assert_eq!(json.matches("\"operations\": 1500,").count(), 3 * 2);
        assert_eq!(json.matches("\"operations\": 3300,").count(), 3 * 2);
        assert_eq!(json.matches("\"sessions_lost\": 0").count(), 2 * 3 * 2 * 8);
    }
}

#[test]
fn wrong_options_are_named_in_one_line() {
    for (args, named) in [
        (&["zk-latencies"][..], "--target"),
        (&["zk-latencies", "--target", "localhost:1"][..], "zk://HOST:PORT"),
        (&["zk-latencies", "--target", "zk://127.0.0.1:1"][..], "127.0.0.1:1"),
        (&["zk-latencies", "--target", "zk://127.0.0.1:1", "--clients", "0"][..], "--clients"),
        (&["zk-latencies", "--target", "zk://127.0.0.1:1", "--rounds", "x"][..], "--rounds"),
        (&["nothing"][..], "nothing"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
        let output = command.arg("bench").args(args).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success());
        assert!(text.contains(named), "{args:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{args:?}: {text}");
    }
}

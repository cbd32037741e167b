//! `quorate bench`, small, against this server and the real one: the counts are what was asked for.

use std::net::SocketAddr;
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

/// The figure of each server of a `--json` file, in the order of the file.
fn figures(json: &str, key: &str) -> Vec<String> {
    let key = format!("\"{key}\": ");
    let lines = json.lines().filter_map(|line| line.trim().strip_prefix(&key));
    lines.map(|value| value.trim_end_matches(',').to_string()).collect()
}

/// What lies below the root of a server.
fn below_root(address: SocketAddr) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    let output =
        command.args(["zk", "--server", &address.to_string(), "ls", "/"]).output().unwrap();
    assert!(output.status.success());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_filled_tree_is_counted_and_removed_unless_it_is_kept() {
    let ours = Server::start("bench-fill-ours", &CONFIG);
    let real = RealServer::start("bench-fill-real", &CONFIG);
    let (target, compared) =
        (format!("zk://{}", ours.address()), format!("zk://{}", real.address()));
    let args = ["zk-fill", "--target", &target, "--compare", &compared, "--parents", "3"];
    let args = [&args[..], &["--children", "1500", "--clients", "4"][..]].concat();
    let (text, json) = bench("fill", &args);
    // The null server is the third.
    assert_eq!(figures(&json, "znodes"), ["4500.0"; 3]);
    assert_eq!(figures(&json, "trouble"), ["0"; 3]);
    assert!(figures(&json, "resident_memory_per_znode_bytes")[..2].iter().all(|it| it != "null"));
    assert!(text.contains("ratios, ZooKeeper 3.9.5"), "{text}");
    for address in [ours.address(), real.address()] {
        assert!(!below_root(address).contains("bench-"));
    }
    bench("fill", &[&args[..], &["--keep"]].concat());
    for address in [ours.address(), real.address()] {
        assert!(below_root(address).contains("bench-"));
    }
}

#[test]
fn watches_are_all_set_and_a_change_is_seen_by_all() {
    let ours = Server::start("bench-watch-ours", &CONFIG);
    let real = RealServer::start("bench-watch-real", &CONFIG);
    let (target, compared) =
        (format!("zk://{}", ours.address()), format!("zk://{}", real.address()));
    let args = ["zk-watch", "--target", &target, "--compare", &compared, "--connections", "5"];
    let args = [&args[..], &["--watches", "200", "--seers", "30", "--rounds", "2"]].concat();
    for mode in [&[][..], &["--distinct"][..]] {
        let (text, json) = bench("watch", &[&args[..], mode].concat());
        assert_eq!(figures(&json, "watches"), ["1000.0"; 3]);
        // The null server does not count.
        assert_eq!(figures(&json, "watches_that_the_server_counts"), ["1000.0", "1000.0", "null"]);
        assert_eq!(figures(&json, "trouble"), ["0"; 3], "{text}");
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words.matches("events 30 (30 to 30 in 2 rounds)").count(), 3, "{text}");
        for address in [ours.address(), real.address()] {
            assert!(!below_root(address).contains("bench-"));
        }
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
        (&["zk-fill", "--target", "zk://127.0.0.1:1", "--parents", "0"][..], "--parents: 0"),
        (&["zk-fill", "--target", "zk://127.0.0.1:1"][..], "127.0.0.1:1"),
        (&["zk-watch", "--target", "zk://127.0.0.1:1", "--seers", "0"][..], "--seers: 0"),
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

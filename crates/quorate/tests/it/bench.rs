//! Runs `quorate bench` with small numbers, mostly against this server and the real ZooKeeper, and
//! checks its output, above all the counts.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use bench::limits::{
    SILENCE_LIMIT, STORE_TICK, STORE_UPKEEP_INTERVAL, STORE_UPKEEP_MOVED_BYTES,
    STORE_UPKEEP_SCRUBBED_BYTES,
};
use bench::servers::process::Processes;
use bench::workloads::chunk::cmdw::table::value_of;
use rustix::process::Pid;

use crate::ensemble::{Members, word};
use crate::server::{RealServer, Server, folder, free_addresses, wait_until};

const CONFIG: [&str; 2] = ["4lw.commands.whitelist=*", "maxClientCnxns=0"];

/// Runs `quorate bench` with `--json`. Returns its output and the content of the JSON file.
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
        // Three servers, counting the null server (which does nothing); two runs; 1 and 3 clients.
        // Each phase has 100 operations per client, the watch phase 500, and all phases together
        // 1,100.
        for (phase, operations) in [("create", 100.0), ("watch", 500.0), ("all", 1_100.0)] {
            let expected = [1.0, 3.0].map(|clients| vec![vec![clients * operations; 2]; 3]);
            assert_eq!(values(&json, &format!("{phase}_operations")), expected.concat());
            for wrong in ["errors", "sessions_lost"] {
                let wrong = values(&json, &format!("{phase}_{wrong}"));
                assert_eq!(wrong.concat(), [0.0; 12], "{text}");
            }
        }
    }
}

/// Both servers here are Quorate; `tests/peers/etcd` compares with the real etcd.
#[test]
fn requests_of_etcds_clients_are_all_answered_and_two_servers_answer_alike() {
    let lines = ["quorate.etcdAddr=127.0.0.1:0"];
    let servers = ["one", "two"].map(|name| Server::start(&format!("bench-etcd-{name}"), &lines));
    let [target, compared] = servers.each_ref().map(|it| format!("etcd://{}", it.face("etcd")));
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.args(["bench", "differential", "--target", &target, "--compare", &compared]);
    let output = command.args(["--seeds", "4"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1399 requests: "), "{text}");
    let ops = "put,range,serializable-range,txn-put,txn-mixed,lease-keepalive";
    let args = ["etcd", "--target", &target, "--compare", &compared, "--op", ops, "--keys", "50"];
    let args =
        [&args[..], &["--requests", "300", "--clients", "20", "--connections", "3"]].concat();
    for mode in [&[][..], &["--rate", "3000"][..]] {
        let once = ["--rounds", "1", "--warmup", "0"];
        let (text, json) = bench("etcd", &[&args[..], &once, mode].concat());
        assert_eq!(text.matches("ratios, Quorate to Quorate").count(), 6, "{text}");
        assert_eq!(values(&json, "trouble").concat(), [0.0; 12], "{text}");
        let rates = values(&json, "requests_per_s").concat();
        assert!(rates.len() == 12 && rates.iter().all(|rate| *rate > 100.0), "{json}");
    }
}

/// Simulates a small Kubernetes cluster for two seconds on two servers: each watch must see each
/// put, and no update may be lost.
#[test]
fn a_cluster_of_kubernetes_loses_no_event_and_no_update() {
    let lines = ["quorate.etcdAddr=127.0.0.1:0"];
    let servers = ["one", "two"].map(|name| Server::start(&format!("bench-kube-{name}"), &lines));
    let [target, compared] = servers.each_ref().map(|it| format!("etcd://{}", it.face("etcd")));
    let args = ["etcd-kube", "--target", &target, "--compare", &compared, "--objects", "300"];
    let args = [&args[..], &["--compress", "400", "--seconds", "2", "--apiservers", "2"]].concat();
    let (text, json) = bench("kube", &args);
    assert_eq!(values(&json, "trouble").concat(), [0.0; 2], "{text}");
    for key in [
        "events_missed",
        "watches_with_other_puts",
        "keys_that_watches_have_otherwise",
        "wrong_counts",
        "guarded_updates_lost",
        "deleted_keys_that_are_there",
    ] {
        assert_eq!(values(&json, key).concat(), [0.0; 2], "{key}: {text}");
    }
    for key in [
        "guarded_updates",
        "creates",
        "deletes",
        "events_put",
        "leases_granted",
        "counts",
        "compactions",
        "puts_that_watches_saw",
        "counts_compared_with_watches",
        "conflicts_of_guarded_updates",
        "data_folder_at_the_end_mib",
        "vmrss_median_mib",
    ] {
        let counts = values(&json, key).concat();
        assert!(counts.len() == 2 && counts.iter().all(|it| *it > 0.0), "{key}: {text}");
    }
}

#[test]
fn clients_of_both_protocols_have_one_server_alone_and_together() {
    let lines = [&CONFIG[..], &["quorate.etcdAddr=127.0.0.1:0"]].concat();
    let server = Server::start("bench-mixed-ours", &lines);
    let (zk, etcd) =
        (format!("zk://{}", server.address()), format!("etcd://{}", server.face("etcd")));
    let args = ["mixed", "--target", &zk, "--etcd", &etcd, "--seconds", "1", "--keys", "100"];
    let few = ["--zk-clients", "4", "--etcd-clients", "4", "--rounds", "2", "--warmup", "0"];
    for mode in [&["--zk-rate", "1000", "--etcd-rate", "500"][..], &["--closed"][..]] {
        let (text, json) = bench("mixed", &[&args[..], &few, mode].concat());
        assert_eq!(values(&json, "trouble").concat(), [0.0; 4], "{text}");
        // One figure for each protocol alone and one for both together; the ratios have another
        // unit.
        for key in ["zookeeper_requests_per_s", "etcd_requests_per_s", "get_p99_ms", "put_max_ms"] {
            let figures = values(&json, key);
            assert!(figures.len() == 2 && figures.concat().iter().all(|it| *it > 0.0), "{text}");
            assert!(figures.iter().all(|rounds| rounds.len() == 2), "{key}: {text}");
        }
        if mode.len() > 1 {
            let rates = values(&json, "zookeeper_requests_per_s").concat();
            assert!(rates.iter().all(|rate| (900.0..1_010.0).contains(rate)), "{text}");
            assert_eq!(values(&json, "range_p99_times")[0].len(), 2, "{text}");
        }
        assert_eq!(values(&json, "zookeeper_requests_times")[0].len(), 2, "{text}");
        let cpu = values(&json, "server_cpu_per_request_times").concat();
        assert!(cpu.len() == 2 && cpu.iter().all(|it| *it > 0.0), "{text}");
    }
    assert!(!below_root(server.address()).contains("bench-"));
}

#[test]
fn a_compaction_leaves_the_last_revisions_and_no_request_fails() {
    let lines = ["quorate.etcdAddr=127.0.0.1:0"];
    let server = Server::start("bench-compaction-ours", &lines);
    let target = format!("etcd://{}", server.face("etcd"));
    let args = ["etcd-compaction", "--target", &target, "--revisions", "3000", "--keys", "300"];
    let few = ["--leave", "100", "--seconds", "1", "--clients", "100", "--connections", "3"];
    for (rate, asked) in [(&["--rate", "1000"][..], Some(1_000.0)), (&[][..], None)] {
        let once = ["--rounds", "1"];
        let (text, json) = bench("compaction", &[&args[..], &few, &once, rate].concat());
        assert_eq!(values(&json, "trouble").concat(), [0.0], "{text}");
        let maximum = values(&json, "maximum_of_puts_per_s").concat()[0];
        let rate = values(&json, "rate_asked_for_per_s").concat();
        assert_eq!(rate, [asked.unwrap_or((maximum / 2.0).floor())], "{text}");
        for key in ["put_p50_before_ms", "range_p50_after_ms", "compaction_ms", "cores_after"] {
            let figure = values(&json, key).concat();
            assert!(figure.len() == 1 && figure[0] > 0.0, "{key}: {text}");
        }
    }
}

/// A rate of 1,000 a second for a second, in bursts of 5, makes 500 requests from each of two
/// clients; there are 11 phases.
#[test]
fn a_fixed_rate_shows_what_each_operation_and_an_idle_server_cost() {
    let ours = Server::start("bench-rate-ours", &CONFIG);
    let target = format!("zk://{}", ours.address());
    let args = ["zk-latencies", "--target", &target, "--clients", "2", "--rate", "1000"];
    let times = ["--burst", "5", "--seconds", "1", "--idle-seconds", "1"];
    let once = ["--rounds", "1", "--warmup", "0"];
    let (text, json) = bench("rate", &[&args[..], &times, &once].concat());
    assert!(text.contains("open loop at 1000 per s in bursts of 5: 500 znodes"), "{text}");
    assert!(text.contains("idle for 1 s without a client: Quorate"), "{text}");
    assert!(!text.contains("errors"), "{text}");
    assert_eq!(values(&json, "all_operations").concat(), [11_000.0; 2], "{json}");
    // The null server is a thread of the load generator, so its wake-ups cannot be counted.
    let wakeups = values(&json, "create_server_wake_ups");
    assert!(wakeups[0][0] > 0.0 && wakeups[1].is_empty(), "{json}");
    assert_eq!(values(&json, "wake_ups_of_server_1_per_s").len(), 1, "{json}");
}

/// The values of one figure for each server of each test in a JSON file, in order: one value, or
/// one per round; empty if unknown. The key is the figure's name and unit in lower-case letters and
/// digits. `trouble` is a key of its own.
fn values(json: &str, key: &str) -> Vec<Vec<f64>> {
    let results = results::Results::read(json).unwrap();
    let systems = results.tests.iter().flat_map(|test| &test.systems);
    if key == "trouble" {
        return systems.map(|it| vec![it.trouble as f64]).collect();
    }
    let figures = systems.flat_map(|it| &it.figures);
    figures.filter(|it| key_of(it) == key).map(|it| it.values.clone()).collect()
}

fn key_of(figure: &results::schema::Figure) -> String {
    let whole = format!("{} {}", figure.name, figure.unit).to_lowercase().replace('.', "");
    let words = whole.split(|it: char| !it.is_ascii_alphanumeric());
    words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join("_")
}

/// Like [`values`], in a single list. Fails unless the first two servers have `count` rounds.
fn rounds(json: &str, key: &str, count: usize) -> Vec<f64> {
    let all = values(json, key);
    // The null server, if present, comes last and has one round.
    for server in &all[..2] {
        assert_eq!(server.len(), count, "{key}");
    }
    all.concat()
}

/// The names of the znodes below the root of a server.
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
    let args = [&args[..], &["--children", "1500", "--clients", "4", "--rounds", "2"]].concat();
    let (text, json) = bench("fill", &args);
    // The null server is the third one, and has one round.
    assert_eq!(rounds(&json, "znodes", 2), [4500.0; 5]);
    assert_eq!(values(&json, "trouble").concat(), [0.0; 3]);
    // Memory is measured only in the first round, when the server is fresh.
    let memory = values(&json, "resident_memory_per_znode_bytes");
    assert_eq!(memory.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 0]);
    assert!(text.contains("warm: no round of 4500 creates before the first of 2 that count; at"));
    assert_eq!(text.matches(" s with VmRSS ").count(), 2, "{text}");
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
    let args = [&args[..], &["--changes", "2"]].concat();
    for mode in [&[][..], &["--distinct"][..]] {
        let (text, json) = bench("watch", &[&args[..], mode].concat());
        assert_eq!(rounds(&json, "watches", 2), [1000.0; 5]);
        // The null server does not count watches.
        assert_eq!(rounds(&json, "watches_that_the_server_counts", 2), [1000.0; 4]);
        assert_eq!(values(&json, "trouble").concat(), [0.0; 3], "{text}");
        assert_eq!(rounds(&json, "events", 2), [30.0; 5]);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words.matches("events 30 (30 to 30 in 2 rounds)").count(), 2, "{text}");
        for address in [ours.address(), real.address()] {
            assert!(!below_root(address).contains("bench-"));
        }
    }
}

/// Starts `quorate serve` on a fixed port, unlike [`Server`]: the benchmark kills the server and
/// starts it again on the same port.
fn serve_on_fixed_port(name: &str) -> (Child, PathBuf, SocketAddr) {
    let (child, folder, [address, _]) = serve_on_fixed_ports(name);
    (child, folder, address)
}

/// Like [`serve_on_fixed_port`], but returns the address for etcd clients, too, after ZooKeeper's.
fn serve_on_fixed_ports(name: &str) -> (Child, PathBuf, [SocketAddr; 2]) {
    let folder = folder(name);
    let [address, etcd] = free_addresses();
    let data = folder.join("data");
    let lines = [
        format!("dataDir={}", data.display()),
        format!("clientPort={}", address.port()),
        "clientPortAddress=127.0.0.1".to_string(),
        format!("quorate.etcdAddr={etcd}"),
    ];
    let config = [&lines.join("\n"), &CONFIG.join("\n"), ""].join("\n");
    std::fs::write(folder.join("zoo.cfg"), config).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    // The configuration's path is relative, so the second start needs this folder as well.
    command.args(["serve", "--config", "zoo.cfg"]).current_dir(&folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("quorate ready"), "{line}");
    (child, folder, [address, etcd])
}

/// Kills the servers that a benchmark left running, whose process ids it printed. Returns how many
/// there were.
fn end_restarted(text: &str) -> usize {
    let after = |line: &str| {
        let rest = line.trim().strip_prefix("started again as process ")?;
        rest.split(';').next()?.parse().ok()
    };
    let pids: Vec<i32> = text.lines().filter_map(after).collect();
    for pid in &pids {
        let pid = Pid::from_raw(*pid).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    }
    pids.len()
}

#[test]
fn a_killed_server_is_started_again_and_has_every_acknowledged_znode() {
    let (mut child, data, address) = serve_on_fixed_port("bench-restart-ours");
    let real = RealServer::start("bench-restart-real", &CONFIG);
    let (target, compared) = (format!("zk://{address}"), format!("zk://{}", real.address()));
    let args = ["zk-restart", "--target", &target, "--compare", &compared, "--parents", "3"];
    let args = [&args[..], &["--children", "500", "--clients", "4", "--rounds", "2"][..]].concat();
    let (text, json) = bench("restart", &args);
    child.wait().unwrap();
    for address in [address, real.address()] {
        // The server still runs after the benchmark, and the benchmark has removed its znodes.
        assert!(!below_root(address).contains("bench-"));
    }
    assert_eq!(end_restarted(&text), 2, "{text}");
    for (key, value) in
        [("znodes_acknowledged", 1500.0), ("znodes_found", 1500.0), ("znodes_missing", 0.0)]
    {
        assert_eq!(rounds(&json, key, 2), [value; 4], "{key}: {text}");
    }
    assert_eq!(values(&json, "trouble").concat(), [0.0; 2], "{text}");
    std::fs::remove_dir_all(data).unwrap();
}

#[test]
fn a_killed_server_is_started_again_and_has_every_acknowledged_key() {
    let (mut child, data, [_, etcd]) = serve_on_fixed_ports("bench-etcd-restart-ours");
    let target = format!("etcd://{etcd}");
    let args = ["etcd-restart", "--target", &target, "--keys", "12000", "--value", "30"];
    let args = [&args[..], &["--clients", "50", "--connections", "3", "--rounds", "2"]].concat();
    let (text, json) = bench("etcd-restart", &args);
    child.wait().unwrap();
    assert_eq!(end_restarted(&text), 1, "{text}");
    for (key, value) in
        [("keys_acknowledged", 12_000.0), ("keys_found", 12_000.0), ("keys_missing", 0.0)]
    {
        assert_eq!(values(&json, key).concat(), [value; 2], "{key}: {text}");
    }
    assert_eq!(values(&json, "trouble").concat(), [0.0], "{text}");
    let first = values(&json, "first_answer_ms").concat();
    assert!(first.len() == 2 && first.iter().all(|ms| *ms > 0.0), "{text}");
    std::fs::remove_dir_all(data).unwrap();
}

/// A standalone server counts as the leader and is killed; its clients have no other server to
/// connect to.
#[test]
fn sessions_go_on_when_the_leader_is_back_and_every_acknowledged_write_is_there() {
    let (mut child, data, address) = serve_on_fixed_port("bench-failover-ours");
    let real = RealServer::start("bench-failover-real", &CONFIG);
    let (target, compared) = (format!("zk://{address}"), format!("zk://{}", real.address()));
    let args = ["zk-failover", "--target", &target, "--compare", &compared, "--sessions", "20"];
    let args =
        [&args[..], &["--before", "1", "--away", "0", "--after", "0", "--pause", "20"]].concat();
    let args = [&args[..], &["--rounds", "2", "--warmup", "0"]].concat();
    let (text, json) = bench("failover", &args);
    child.wait().unwrap();
    for address in [address, real.address()] {
        assert!(!below_root(address).contains("bench-"));
    }
    assert_eq!(end_restarted(&text), 2, "{text}");
    assert_eq!(rounds(&json, "acknowledged_writes_lost", 2), [0.0; 4], "{text}");
    // A server other than ours may drop a connection once more while it comes back.
    let lost = rounds(&json, "connections_lost", 2);
    assert!(lost[..2] == [20.0; 2] && lost[2..].iter().all(|count| *count >= 20.0), "{text}");
    // A server other than ours may take so long to come back that sessions expire.
    assert_eq!(rounds(&json, "sessions_expired", 2)[..2], [0.0; 2], "{text}");
    assert_eq!(values(&json, "trouble").concat(), [0.0; 2], "{text}");
    let gaps = rounds(&json, "longest_gap_of_a_session_p50_ms", 2);
    let back = rounds(&json, "serves_again_after_its_return_ms", 2);
    assert!(gaps.iter().chain(&back).all(|ms| *ms > 0.0), "{text}");
    assert_eq!(text.matches("longest gaps of 40 sessions in all rounds").count(), 2, "{text}");
    std::fs::remove_dir_all(data).unwrap();
}

/// Kills the leader of an ensemble twice, and then deletes the directory of a follower. The
/// follower must get the data again, and no acknowledged write may be lost.
#[test]
fn an_ensemble_loses_leaders_and_a_directory_and_no_acknowledged_write() {
    let mut members = Members::prepare("bench-ensemble", "maxClientCnxns=0\n");
    (0..3).for_each(|place| members.start(place));
    let clients = members.clients.clone();
    wait_until("all of them serve", || {
        clients.iter().all(|address| word(*address, "srvr").contains("\nMode: "))
    });
    let addresses: Vec<String> = clients.iter().map(ToString::to_string).collect();
    let target = format!("zk://{}", addresses.join(","));
    let args = ["zk-failover", "--target", &target, "--sessions", "30", "--pause", "20"];
    let times = ["--before", "1", "--away", "1", "--after", "0", "--rounds", "2", "--warmup", "0"];
    let (text, json) = bench("ensemble-failover", &[&args[..], &times].concat());
    for key in ["acknowledged_writes_lost", "sessions_expired", "answers_that_were_errors"] {
        assert_eq!(values(&json, key).concat(), [0.0; 2], "{key}: {text}");
    }
    assert_eq!(values(&json, "trouble").concat(), [0.0], "{text}");
    for (mode, count) in [("leader", 1), ("follower", 2)] {
        assert_eq!(json.matches(&format!(" ({mode}): CPU ")).count(), count, "{json}");
    }
    let args = ["zk-join", "--target", &target, "--parents", "3", "--children", "500"];
    let args = [&args[..], &["--sessions", "10", "--delete-data", "--rounds", "1"]].concat();
    let (text, json) =
        bench("ensemble-join", &[&args[..], &["--around", "1", "--away", "1"]].concat());
    for (key, value) in [
        ("znodes_found_on_the_new_member", 1500.0),
        ("znodes_missing_there", 0.0),
        ("acknowledged_writes_lost", 0.0),
        ("connections_lost", 0.0),
    ] {
        assert_eq!(values(&json, key).concat(), [value], "{key}: {text}");
    }
    assert_eq!(values(&json, "trouble").concat(), [0.0], "{text}");
    for address in &clients {
        assert!(!below_root(*address).contains("bench-"));
    }
    // The servers that the benchmark started still run after it.
    let running = Processes::listening(&clients);
    running.kill().unwrap();
    wait_until("they are gone", || running.are_gone());
    let folder = members.folder.clone();
    drop(members);
    std::fs::remove_dir_all(folder).unwrap();
}

/// A server that follows no leader has the only copy of its data, so the benchmark refuses to
/// delete that.
#[test]
fn a_member_joins_only_where_one_follows() {
    let ours = Server::start("bench-join-ours", &CONFIG);
    let target = format!("zk://{}", ours.address());
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.args(["bench", "zk-join", "--target", &target, "--delete-data"]);
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(text.contains("no server says it follows"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(!below_root(ours.address()).contains("bench-"));
}

#[test]
fn the_open_loop_asks_for_what_the_rate_says_and_snapshots_are_counted() {
    // With this setting a server takes a snapshot about every 2,000 commands; ZooKeeper adds a
    // random part.
    let config = [&CONFIG[..], &["snapCount=2000"][..]].concat();
    let ours = Server::start("bench-gap-ours", &config);
    let real = RealServer::start("bench-gap-real", &config);
    let (target, compared) =
        (format!("zk://{}", ours.address()), format!("zk://{}", real.address()));
    let args = ["zk-snapshot-gap", "--target", &target, "--compare", &compared, "--parents", "3"];
    let args = [&args[..], &["--children", "500", "--clients", "4", "--rate", "2000"]].concat();
    let args = [&args[..], &["--seconds", "2"]].concat();
    let (text, json) = bench("gap", &args);
    assert_eq!(rounds(&json, "rate_asked_for_per_s", 2), [2000.0; 5]);
    assert_eq!(rounds(&json, "requests", 2), [4000.0; 5]);
    assert_eq!(values(&json, "trouble").concat(), [0.0; 3], "{text}");
    // The null server does not count snapshots.
    let snapshots = rounds(&json, "snapshots_meanwhile", 2);
    assert_eq!(snapshots.len(), 4);
    assert!(snapshots.iter().all(|count| *count > 0.0), "{text}");
    assert!(rounds(&json, "longest_gap_all_clients_ms", 2).iter().all(|gap| *gap > 0.0));
    for address in [ours.address(), real.address()] {
        assert!(!below_root(address).contains("bench-"));
    }
}

#[test]
fn the_rate_is_half_of_what_is_sustained() {
    let ours = Server::start("bench-maximum-ours", &CONFIG);
    let target = format!("zk://{}", ours.address());
    let args = ["zk-snapshot-gap", "--target", &target, "--parents", "1", "--children", "500"];
    let args = [&args[..], &["--rounds", "1", "--seconds", "1", "--clients", "4"]].concat();
    let (text, json) = bench("maximum", &args);
    let maxima = values(&json, "maximum_open_loop_per_s").concat();
    let asked = values(&json, "rate_asked_for_per_s").concat();
    // The null server gets the same rate as the first server.
    let half = (maxima[0] / 2.0).floor().max(1.0);
    assert_eq!(asked, [half; 2], "{text}");
    assert_eq!(maxima.len(), 2);
}

#[test]
fn every_ephemeral_of_the_publishers_is_an_event_of_all_its_subscribers() {
    let ours = Server::start("bench-pubsub-ours", &CONFIG);
    let real = RealServer::start("bench-pubsub-real", &CONFIG);
    let (target, compared) =
        (format!("zk://{}", ours.address()), format!("zk://{}", real.address()));
    let args = ["pubsub", "--target", &target, "--compare", &compared, "--publishers", "10"];
    let args = [&args[..], &["--subscribers", "30", "--items", "205", "--rounds", "2"]].concat();
    let args = [&args[..], &["--warmup-items", "13", "--size", "16,4096", "--paths", "3"]].concat();
    for mode in [&[][..], &["--rate", "2000"][..]] {
        let (text, json) = bench("pubsub", &[&args[..], mode].concat());
        // There are four kinds of tests, two of them with subscribers, in two sizes, on three
        // servers counting the null server. Two servers have two rounds, which makes five runs of
        // each test.
        assert_eq!(values(&json, "trouble").concat(), [0.0; 24], "{text}");
        assert_eq!(values(&json, "failed_requests").concat(), [0.0; 40]);
        assert_eq!(values(&json, "ephemerals_created").concat(), [205.0; 10]);
        assert_eq!(values(&json, "items_set").concat(), [205.0; 10]);
        assert_eq!(values(&json, "items_created").concat(), [205.0; 20]);
        for key in ["watches_set", "events"] {
            assert_eq!(values(&json, key).concat(), [205.0 * 3.0; 20], "{key}");
        }
        assert_eq!(values(&json, "items_read").concat(), [205.0 * 3.0; 10]);
        for key in ["events_missed", "events_that_came_twice", "events_not_asked_for"] {
            assert_eq!(values(&json, key).concat(), [0.0; 20], "{key}");
        }
        assert_eq!(values(&json, "reads_of_wrong_data").concat(), [0.0; 10]);
        for published in [
            "4096 bytes, create and delete: 2037 per s",
            "4096 bytes, event only, 5 client hosts",
            "4096 bytes, event, then read, 1 client host: 5771",
        ] {
            assert!(text.contains(&format!("published: {published}")), "{text}");
        }
        assert_eq!(text.matches("ratios, ZooKeeper 3.9.5").count(), 8, "{text}");
        // Only the first size of each kind has a warm-up round.
        assert_eq!(text.matches("warm: 1 round of 205 items").count(), 4, "{text}");
        assert_eq!(text.matches("warm: no round of 205 items").count(), 4, "{text}");
        for address in [ours.address(), real.address()] {
            assert!(!below_root(address).contains("bench-"));
        }
    }
}

/// Starts a process of clients. It has warmed up and waits for the signal to begin with the items.
fn warm_part(target: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quorate"));
    command.args(["bench", "pubsub-part", "--target", target, "--publishers", "2"]);
    command.args(["--subscribers", "6", "--items", "20", "--warmup", "2", "--size", "16"]);
    let mut part = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(part.stdout.as_mut().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "");
    part.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "");
    part
}

#[test]
fn a_process_of_clients_does_not_outlive_the_benchmark() {
    let ours = Server::start("bench-part", &CONFIG);
    let mut part = warm_part(&format!("zk://{}", ours.address()));
    // While the server is paused, the process waits for the answer to its first item, for up to
    // `SILENCE_LIMIT`.
    let server = Processes::of(&[ours.pid().as_raw_nonzero().get() as u32]);
    server.pause().unwrap();
    part.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    let left_at = Instant::now();
    drop(part.stdin.take());
    assert!(!part.wait().unwrap().success());
    server.resume().unwrap();
    assert!(left_at.elapsed() < SILENCE_LIMIT / 2);
}

#[test]
fn every_change_is_published_and_seen_or_overtaken() {
    let ours = Server::start("bench-notify-ours", &CONFIG);
    let real = RealServer::start("bench-notify-real", &CONFIG);
    let (target, compared) =
        (format!("zk://{}", ours.address()), format!("zk://{}", real.address()));
    let args = ["zk-notify", "--target", &target, "--compare", &compared, "--publishers", "10"];
    let args = [&args[..], &["--subscribers", "30", "--items", "205", "--rounds", "2"]].concat();
    let args = [&args[..], &["--warmup-items", "13", "--size", "16,4096"]].concat();
    let read = "items_read_after_an_event";
    for (mode, seen) in [
        (&[][..], read),
        (&["--rate", "2000"][..], read),
        (&["--event-only"][..], "watches_set_again"),
    ] {
        let (text, json) = bench("notify", &[&args[..], mode].concat());
        // There are two sizes, on three servers counting the null server. Two servers have two
        // rounds, which makes five runs of each size.
        assert_eq!(values(&json, "trouble").concat(), [0.0; 6], "{text}");
        assert_eq!(values(&json, "items_published").concat(), [205.0; 10]);
        assert_eq!(values(&json, "items_missed").concat(), [0.0; 10]);
        let seen = values(&json, seen).concat();
        assert_eq!(seen, values(&json, "events").concat());
        let overtaken = values(&json, "items_overtaken").concat();
        let all = seen.iter().zip(&overtaken).map(|(seen, overtaken)| seen + overtaken);
        assert_eq!(all.collect::<Vec<_>>(), [205.0 * 3.0; 10]);
        assert!(!text.contains("published:"), "{text}");
        assert_eq!(text.matches("ratios, ZooKeeper 3.9.5").count(), 2, "{text}");
        // Only the first size has a warm-up round.
        assert_eq!(text.matches("warm: 1 round of 205 items").count(), 1, "{text}");
        assert_eq!(text.matches("warm: no round of 205 items").count(), 1, "{text}");
        for address in [ours.address(), real.address()] {
            assert!(!below_root(address).contains("bench-"));
        }
    }
}

#[test]
fn the_chunk_test_says_where_chunks_are_and_how_often_it_synced() {
    let dir = folder("bench-cmdw-dir");
    let few = ["cmdw", "--dir", dir.to_str().unwrap(), "--size", "1KiB", "--count", "60"];
    let few = [&few[..], &["--threads", "3", "--rounds", "1", "--checksum", "none"]].concat();
    let (text, json) = bench("cmdw", &few);
    assert!(text.contains("  acknowledged from process memory"), "{text}");
    assert!(text.contains("  acknowledged from the page cache"), "{text}");
    assert!(text.contains("    not one promise: acknowledged from process"), "{text}");
    assert!(json.contains("acknowledged from process memory"), "{json}");
    let (text, _) = bench("cmdw-durable", &[&few[..], &["--durability", "group-synced"]].concat());
    assert!(!text.contains("acknowledged from"), "{text}");
    let lines = || text.lines().filter(|line| line.starts_with("impl="));
    for layout in ["LOG", "FILE_PER_BLOCK", "FILE_PER_CHUNK", "logsync", "loggroup"] {
        let line = lines().find(|line| value_of(line, "layout") == Some(layout)).unwrap();
        let syncs = value_of(line, "fdatasyncs").unwrap();
        assert!(syncs.parse::<u64>().unwrap() > 0, "{line}");
    }
    assert!(text.contains("limit directgroup"), "{text}");
    assert!(text.contains("  limit loggroup: no limit"), "{text}");
    assert!(text.contains("FILE_PER_BLOCK: files share no sync"), "{text}");
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0);
}

#[test]
fn the_chunk_read_test_says_what_is_cold() {
    let dir = folder("bench-cmdr-dir");
    let args = ["cmdr", "--dir", dir.to_str().unwrap(), "--size", "1KiB", "--count", "60"];
    let (text, _) = bench("cmdr", &[&args[..], &["--threads", "3", "--rounds", "1"]].concat());
    assert!(text.contains("note: cold means that the chunks"), "{text}");
    assert_eq!(std::fs::read_dir(dir).unwrap().count(), 0);
}

/// The server's constants are private, so this test looks for them in the server's source.
#[test]
fn the_chunk_test_keeps_a_store_up_as_often_as_the_server_does() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/listen_chunk/limits.rs");
    let source: String = std::fs::read_to_string(path).unwrap().split_whitespace().collect();
    let (tick, interval) = (STORE_TICK.as_millis(), STORE_UPKEEP_INTERVAL.as_millis());
    let (moved_mib, scrubbed_kib) =
        (STORE_UPKEEP_MOVED_BYTES >> 20, STORE_UPKEEP_SCRUBBED_BYTES >> 10);
    for expected in [
        format!("constTICK:Duration=Duration::from_millis({tick});"),
        format!("constUPKEEP_INTERVAL:Duration=Duration::from_millis({interval});"),
        format!("bytes_moved_max:{moved_mib}*1024*1024,bytes_scrubbed_max:{scrubbed_kib}*1024}}"),
    ] {
        assert!(source.contains(&expected), "{expected}");
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
        (&["zk-restart", "--target", "zk://127.0.0.1:1", "--children", "0"][..], "--children: 0"),
        (&["zk-restart", "--target", "zk://127.0.0.1:1", "--compare-start", "x"][..], "--compare"),
        (&["zk-snapshot-gap", "--target", "zk://127.0.0.1:1", "--rate", "0"][..], "--rate"),
        (&["zk-failover", "--target", "zk://127.0.0.1:1", "--size", "7"][..], "--size: 7"),
        (&["zk-failover", "--target", "zk://127.0.0.1:1"][..], "127.0.0.1:1"),
        (&["zk-join", "--target", "zk://127.0.0.1:1"][..], "--delete-data"),
        (&["zk-join", "--target", "zk://127.0.0.1:1", "--delete-data"][..], "127.0.0.1:1"),
        (&["zk-watch", "--target", "zk://127.0.0.1:1", "--seers", "0"][..], "--seers: 0"),
        (&["pubsub", "--target", "zk://127.0.0.1:1"][..], "127.0.0.1:1"),
        (&["pubsub", "--target", "zk://127.0.0.1:1", "--scenario", "1,4"][..], "--scenario"),
        (&["pubsub", "--target", "zk://127.0.0.1:1", "--size", "256,8"][..], "--size: 8"),
        (&["pubsub", "--target", "zk://127.0.0.1:1", "--subscribers", "0"][..], "--subscribers: 0"),
        (&["pubsub", "--target", "zk://127.0.0.1:1", "--items", "0"][..], "--items: 0"),
        (&["pubsub", "--target", "zk://127.0.0.1:1", "--subscribers", "3001"][..], "no multiple"),
        (&["pubsub", "--target", "zk://127.0.0.1:1", "--paths", "0"][..], "--paths: 0"),
        (&["pubsub", "--target", "zk://127.0.0.1:1", "--rate", "0"][..], "--rate"),
        (&["zk-notify", "--target", "zk://127.0.0.1:1"][..], "127.0.0.1:1"),
        (
            &["zk-notify", "--target", "zk://127.0.0.1:1", "--publishers", "0"][..],
            "--publishers: 0",
        ),
        (&["cmdw", "--dir", "/", "--compare", "freon:/", "--containers", "2"][..], "--containers"),
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

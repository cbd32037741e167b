//! Compares this server with the real ZooKeeper, with the code of `quorate bench differential`:
//! both get the same requests and must give the same answers.

mod audit;
mod deliberate;
mod quotas;
mod throttles;

use std::path::Path;

use bench::differential::side::Side;
use bench::differential::{Compared, run_seed};

use crate::server::{JVMFLAGS_FILE, RealServer, Server, folder};

/// How many seeds an ordinary run has: some 10,000 requests in a quarter of a minute.
const SEEDS: u64 = 24;

/// Timeouts so long that no session expires during a seed, even on a slow machine.
const CONFIG: [&str; 2] = ["minSessionTimeout=100000", "maxSessionTimeout=1000000"];

/// A flag that keeps the servers from removing containers during a seed.
const NO_SWEEPS: &str = "-Dznode.container.checkIntervalMs=86400000";

#[test]
fn every_answer_and_event_is_that_of_the_real_server() {
    check_seeds("differential", SEEDS, NO_SWEEPS);
}

#[test]
fn every_answer_is_that_of_the_real_server_where_znodes_have_a_time_to_live() {
    let flags = format!("{NO_SWEEPS} -Dzookeeper.extendedTypesEnabled=true");
    check_seeds("differential-ttl", SEEDS / 3, &flags);
}

/// Starts both servers, empty, with these settings and Java flags.
fn both(name: &str, config: &[&str], flags: &str) -> (RealServer, Server) {
    let [of_real, of_ours] = ["real", "ours"].map(|side| folder(&format!("{name}-{side}")));
    for folder in [&of_real, &of_ours] {
        std::fs::write(folder.join(JVMFLAGS_FILE), flags).unwrap();
    }
    (RealServer::start_in(of_real, config), Server::start_in(of_ours, config))
}

fn check_seeds(name: &str, count: u64, flags: &str) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds: Vec<u64> = match (number("QUORATE_DIFF_SEED"), number("QUORATE_DIFF_SEEDS")) {
        (Some(seed), _) => vec![seed],
        (None, asked) => (1..=asked.unwrap_or(count)).collect(),
    };
    let (real_server, server) = both(name, &CONFIG, flags);
    let mut real = Side::new("real", real_server.address());
    let mut ours = Side::new("ours", server.address());
    let mut compared = Compared::default();
    for seed in seeds {
        let found = run_seed(seed, "super:test", &mut real, &mut ours, &mut compared).unwrap();
        if let Some(mismatch) = found {
            let name = format!("{name}-{seed}.txt");
            let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
            std::fs::write(&file, mismatch.transcript.join("\n")).unwrap();
            panic!(
                "{}\nrepeat with QUORATE_DIFF_SEED={seed}; what the real server said is in {}",
                mismatch.text,
                file.display(),
            );
        }
    }
    println!("{compared:?}");
    assert!(compared.events > 0);
    assert!(compared.good_answers > compared.errors);
}

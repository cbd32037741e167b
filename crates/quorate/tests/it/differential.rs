//! This server beside the real ZooKeeper, as `quorate bench differential` compares any two.
//!
//! `QUORATE_DIFF_SEEDS=N` runs the seeds 1 to N; `QUORATE_DIFF_SEED=N` that one alone.

mod deliberate;
mod quotas;

use std::path::Path;

use bench::differential::side::Side;
use bench::differential::{Compared, run_seed};

use crate::server::{RealServer, Server};

/// Seeds of an ordinary run: some 10,000 requests, in a quarter of a minute.
const SEEDS: u64 = 24;

/// Sessions must not expire while a seed runs, however slow the machine.
const CONFIG: [&str; 2] = ["minSessionTimeout=100000", "maxSessionTimeout=1000000"];

#[test]
fn every_answer_and_event_is_that_of_the_real_server() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().unwrap());
    let seeds: Vec<u64> = match (number("QUORATE_DIFF_SEED"), number("QUORATE_DIFF_SEEDS")) {
        (Some(seed), _) => vec![seed],
        (None, count) => (1..=count.unwrap_or(SEEDS)).collect(),
    };
    let real_server = RealServer::start("differential-real", &CONFIG);
    let server = Server::start("differential-ours", &CONFIG);
    let mut real = Side::new("real", real_server.address());
    let mut ours = Side::new("ours", server.address());
    let mut compared = Compared::default();
    for seed in seeds {
        let found = run_seed(seed, "super:test", &mut real, &mut ours, &mut compared).unwrap();
        if let Some(mismatch) = found {
            let name = format!("differential-{seed}.txt");
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

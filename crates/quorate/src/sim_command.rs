//! `quorate sim`: runs in a simulated world, from seeds.

use std::process::ExitCode;

use crate::cli::SimArgs;

/// Seeds between two lines that say how far it is.
const PROGRESS_SEEDS: u64 = 1_000;

/// Runs one seed and says what it was like, or many and says which failed.
pub fn run(args: &SimArgs) -> anyhow::Result<ExitCode> {
    Ok(match args.seeds {
        None => run_one(args.seed.unwrap_or(1)),
        Some(count) => run_many(count),
    })
}

fn run_one(seed: u64) -> ExitCode {
    let mut options = sim::Options::draw(seed);
    options.is_verbose = true;
    match sim::run(options) {
        Ok(summary) => {
            println!("{summary:#?}");
            ExitCode::SUCCESS
        }
        Err(failure) => {
            println!("{failure}");
            ExitCode::FAILURE
        }
    }
}

fn run_many(count: u64) -> ExitCode {
    let (mut failures, mut writes, mut reads, mut starts) = (0, 0, 0, 0);
    for seed in 1..=count {
        match sim::run_seed(seed) {
            Ok(summary) => {
                writes += summary.write_count;
                reads += summary.read_count;
                starts += summary.start_count;
            }
            Err(failure) => {
                failures += 1;
                println!("{failure}");
            }
        }
        if seed.is_multiple_of(PROGRESS_SEEDS) && seed < count {
            eprintln!("{seed} seeds, {failures} failed");
        }
    }
    println!(
        "{count} seeds, {failures} failed: {writes} writes acknowledged, {reads} reads answered, \
         {starts} starts of the server"
    );
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

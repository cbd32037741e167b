//! `quorate sim`: runs simulated clusters from seeds.

use std::process::ExitCode;

use crate::cli::SimArgs;

/// After how many seeds a line of progress is printed.
const PROGRESS_SEEDS: u64 = 1_000;

/// Runs one seed and prints what happened, or runs many seeds and prints which failed. With many
/// seeds and no given number of members, every second seed runs an ensemble.
pub fn run(args: &SimArgs) -> anyhow::Result<ExitCode> {
    Ok(match args.seeds {
        None => run_one(args.seed.unwrap_or(1), args.members),
        Some(count) => run_many(args.seed.unwrap_or(1), count, args.members),
    })
}

fn run_one(seed: u64, members: Option<usize>) -> ExitCode {
    let member_count = members.unwrap_or_else(|| sim::member_count(seed));
    let mut options = sim::Options::draw_ensemble(seed, member_count);
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

/// The `n`-th of many seeds, counted from 1, and how many members it has.
fn nth(n: u64, members: Option<usize>) -> (u64, usize) {
    let seed = match members {
        Some(_) => n,
        None if n.is_multiple_of(2) => sim::ENSEMBLE_SEEDS + n / 2,
        None => n.div_ceil(2),
    };
    (seed, members.unwrap_or_else(|| sim::member_count(seed)))
}

fn run_many(first: u64, count: u64, members: Option<usize>) -> ExitCode {
    let (mut failures, mut writes, mut reads, mut starts, mut led) = (0, 0, 0, 0, 0);
    for n in 1..=count {
        let (seed, member_count) = nth(first.saturating_add(n - 1), members);
        match sim::run_ensemble(seed, member_count) {
            Ok(summary) => {
                writes += summary.zk.writes;
                reads += summary.zk.reads;
                starts += summary.members.starts;
                led += summary.led_count;
            }
            Err(failure) => {
                failures += 1;
                println!("{failure}");
            }
        }
        if n.is_multiple_of(PROGRESS_SEEDS) && n < count {
            eprintln!("{n} seeds, {failures} failed");
        }
    }
    println!(
        "{count} seeds, {failures} failed: {writes} writes acknowledged, {reads} reads answered, \
         {starts} starts of servers, {led} terms with a leader"
    );
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

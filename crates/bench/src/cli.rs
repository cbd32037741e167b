//! The options of `quorate bench`, and what it does with them.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use crate::latencies::{self, Shape};
use crate::limits::CLIENTS_MAX;
use crate::machine_info::{MachineInfo, disk_latencies, stolen_ticks};
use crate::null_server::NullServer;
use crate::report::{self, Series};
use crate::target::{Target, TargetAddress};

/// Options of `quorate bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, Subcommand)]
enum Workload {
    /// The service-latency test: create, set, get, delete, ephemerals, watches
    ZkLatencies(LatencyArgs),
}

/// Where to measure and what to write down.
#[derive(Debug, Args)]
struct Where {
    /// The server to measure
    #[arg(long, value_name = "zk://HOST:PORT[,...]")]
    target: TargetAddress,
    /// Another one, measured in turn with the first
    #[arg(long, value_name = "zk://HOST:PORT[,...]")]
    compare: Option<TargetAddress>,
    /// Measured runs of each; figures are medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Runs before those, which warm the servers and are not counted
    #[arg(long, value_name = "N", default_value_t = 1)]
    warmup: u32,
    /// Measure how long fdatasync takes in this folder, which should be on the servers' disk
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    /// Write all figures to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct LatencyArgs {
    #[command(flatten)]
    at: Where,
    /// Sessions at once; several numbers are several tests
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,10,20")]
    clients: Vec<usize>,
    /// One request at a time instead of all at once
    #[arg(long)]
    sync: bool,
    /// Znodes of each client
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    znode_count: usize,
    /// Bytes of data in each
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    znode_size: usize,
    /// Watchers on each ephemeral
    #[arg(long, value_name = "N", default_value_t = 5)]
    watch_multiple: usize,
    /// Timeout of the sessions, ms
    #[arg(long, value_name = "MS", default_value_t = 30_000)]
    timeout: i32,
    /// Leave out the lines that the original prints for each client
    #[arg(long)]
    brief: bool,
}

/// Runs a benchmark and prints it.
///
/// # Errors
/// A target does not answer, or a file cannot be written.
pub fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    match &args.workload {
        Workload::ZkLatencies(args) => zk_latencies(args),
    }
}

fn zk_latencies(args: &LatencyArgs) -> anyhow::Result<ExitCode> {
    for (name, number) in
        [("znode-count", args.znode_count), ("watch-multiple", args.watch_multiple)]
    {
        anyhow::ensure!(number > 0, "--{name} must be at least 1");
    }
    for clients in &args.clients {
        let is_possible = (1..=CLIENTS_MAX).contains(clients);
        anyhow::ensure!(is_possible, "--clients: {clients} is not in 1..={CLIENTS_MAX}");
    }
    let shape = Shape {
        znode_count: args.znode_count,
        znode_bytes: args.znode_size,
        watch_multiple: args.watch_multiple,
        is_synchronous: args.sync,
        timeout_ms: args.timeout,
    };
    let null = NullServer::start(args.znode_size)?;
    let addresses = core::iter::once(&args.at.target).chain(&args.at.compare);
    let mut targets = addresses.map(Target::find).collect::<anyhow::Result<Vec<_>>>()?;
    targets.push(null.target());
    let header = header(&args.at)?;
    print!("{header}");
    println!(
        "warm: {} runs before the measured ones; {} measured, in turn; latency from the write to the \
         socket; us of CPU are user and system",
        args.at.warmup, args.at.rounds
    );
    let mut tests = Vec::new();
    let mut trouble = 0;
    for &clients in &args.clients {
        let mode = if args.sync { "synchronous" } else { "asynchronous" };
        println!(
            "\n{clients} clients, {mode}: {} znodes of {} bytes each, {} watchers on each",
            shape.znode_count, shape.znode_bytes, shape.watch_multiple
        );
        let series = measure(&targets, clients, &shape, &args.at)?;
        for one in &series[..series.len() - 1] {
            if !args.brief {
                println!("{} ({}), last run", one.name, one.address);
                print!("{}", report::original_lines(&one.runs[one.runs.len() - 1], &shape));
            }
            trouble += one.runs.iter().map(|run| run.all.errors + run.all.lost).sum::<u64>();
        }
        let (null, servers) = series.split_last().expect("the null server is the last");
        print!("{}", report::table(servers));
        println!("the generator's ceiling:");
        print!("{}", report::table(core::slice::from_ref(null)));
        tests.push(json!({
            "clients": clients,
            "synchronous": args.sync,
            "servers": series.iter().map(report::to_json).collect::<Vec<_>>(),
        }));
    }
    println!("\n{}", report::published(&args.clients));
    if let Some(path) = &args.at.json {
        let all = json!({ "workload": "zk-latencies", "about": header, "tests": tests });
        std::fs::write(path, serde_json::to_string_pretty(&all)?)
            .map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
    }
    if trouble > 0 {
        eprintln!("{trouble} answers were errors, or sessions were lost: see the tables");
    }
    Ok(ExitCode::SUCCESS)
}

/// The machine and its disk.
fn header(at: &Where) -> anyhow::Result<String> {
    let mut out =
        format!("quorate {} bench on {}\n", env!("CARGO_PKG_VERSION"), MachineInfo::read());
    if let Some(folder) = &at.disk {
        let latencies = disk_latencies(folder)
            .map_err(|error| anyhow::anyhow!("--disk {}: {error}", folder.display()))?;
        out += &format!(
            "fdatasync of 4 KiB in {}: p50 {:.0} us, p99 {:.0} us, max {:.0} us\n",
            folder.display(),
            latencies.percentile_us(50.0),
            latencies.percentile_us(99.0),
            latencies.max_us()
        );
    }
    Ok(out)
}

/// Runs each target in turn, forward and then backward, so that what drifts hits all alike.
fn measure(
    targets: &[Target],
    clients: usize,
    shape: &Shape,
    at: &Where,
) -> anyhow::Result<Vec<Series>> {
    let mut series: Vec<Series> = targets
        .iter()
        .map(|target| Series {
            name: target.name.clone(),
            address: target.address.clone(),
            runs: Vec::new(),
            memory: None,
        })
        .collect();
    let stolen = stolen_ticks();
    let progress = Progress::start((at.warmup + at.rounds) as u64 * targets.len() as u64);
    for round in 0..at.warmup + at.rounds {
        for place in order(targets.len(), round) {
            let target = &targets[place];
            progress.say(&format!("{clients} clients, round {round}: {}", target.name));
            let label = format!("{}-{round}", std::process::id());
            let run = latencies::run(target, clients, shape, &label)
                .map_err(|error| anyhow::anyhow!("{}: {error}", target.address))?;
            if round >= at.warmup {
                series[place].runs.push(run);
                series[place].memory = target.memory().map(|it| (it.resident, it.peak));
            }
        }
    }
    progress.end();
    let stolen = stolen_ticks() - stolen;
    if stolen > 0 {
        println!("note: other guests of this host took {} ms of CPU meanwhile", stolen * 10);
    }
    Ok(series)
}

/// A B C, then C B A, and so on.
fn order(count: usize, round: u32) -> Vec<usize> {
    match round % 2 {
        0 => (0..count).collect(),
        _ => (0..count).rev().collect(),
    }
}

/// Live on a terminal; elsewhere a line for each run, on standard error.
struct Progress(Option<ProgressBar>);

impl Progress {
    fn start(runs: u64) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| ProgressBar::new(runs));
        if let Some(bar) = &bar {
            let style = ProgressStyle::with_template("{pos}/{len} {elapsed} {msg}");
            bar.set_style(style.expect("the template is well formed"));
        }
        Progress(bar)
    }

    fn say(&self, what: &str) {
        match &self.0 {
            Some(bar) => {
                bar.set_message(what.to_string());
                bar.inc(1);
            }
            None => drop(writeln!(std::io::stderr(), "{what}")),
        }
    }

    fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_take_turns() {
        let rounds: Vec<_> = (0..3).map(|round| order(3, round)).collect();
        assert_eq!(rounds, [[0, 1, 2], [2, 1, 0], [0, 1, 2]]);
    }
}

//! The workload `zk-snapshot-gap`: how long a server is silent while it takes snapshots. A tree is
//! filled, then its data is set in open loop at half of the server's maximum rate. The main figure
//! is the longest gap between two replies.
//!
//! [`crate::workloads::zk::tree::traffic`] describes the schedule, and
//! [`crate::workloads::zk::maximum`] the search for the maximum rate.

use std::process::ExitCode;

use clap::Args;

use crate::limits::{RATE_MAX, SECONDS_MAX, SESSION_TIMEOUT_MS};
use crate::measure::comparison::{Comparison, Rounds, Turn, Where};
use crate::measure::driver::Driver;
use crate::measure::figures::{Block, Figure, Good};
use crate::measure::stats::Phase;
use crate::servers::null_server::NullServer;
use crate::workloads::zk::maximum::{maximum, set};
use crate::workloads::zk::snapshots::Snapshots;
use crate::workloads::zk::tree::traffic::Gaps;
use crate::workloads::zk::tree::{Tree, TreeArgs};

/// Options of `quorate bench zk-snapshot-gap`.
#[derive(Debug, Args)]
// There is no warm-up round: each round warms a server when it fills the tree and searches the
// maximum.
#[command(mut_arg("warmup", |it| it.default_value("0")))]
#[command(mut_arg("rounds", |it| it.default_value("2")))]
pub struct SnapshotGapArgs {
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    repeat: Rounds,
    #[command(flatten)]
    tree: TreeArgs,
    /// Requests a second, all clients together [default: half of what the server can do]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=RATE_MAX))]
    rate: Option<u64>,
    /// How long at that rate
    #[arg(long, value_name = "S", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    seconds: u64,
    /// How long each rate is tried in the search for the server's maximum
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    probe_seconds: u64,
}

/// Runs `quorate bench zk-snapshot-gap` and prints the results.
///
/// # Errors
/// An option is wrong, a target does not answer, or a file cannot be written.
pub fn command(args: &SnapshotGapArgs) -> anyhow::Result<ExitCode> {
    args.tree.check()?;
    let rate = args.rate.map_or("half of its maximum".to_string(), |rate| format!("{rate} per s"));
    let about = format!(
        "{}; then setData at {rate} for {} s, open loop; latency from the intended start",
        args.tree, args.seconds
    );
    let mut comparison = Comparison::start(&args.at, "zk-snapshot-gap", &about)?;
    let mut first_rate = args.rate;
    let work = format!("{} creates and {} s of setData", args.tree.znode_count(), args.seconds);
    comparison.measure(&args.repeat, &work, |turn| {
        let (block, rate) = measure(turn, args, args.rate)?;
        if turn.place == 0 {
            first_rate = Some(rate);
        }
        Ok(block)
    })?;
    // The ceiling is measured at the last rate of the first server. It shows how late the generator
    // itself is.
    let null = NullServer::with_children(args.tree.size, args.tree.children)?;
    comparison.measure_ceiling(&null, |turn| Ok(measure(turn, args, first_rate)?.0))?;
    comparison.finish()
}

/// Measures one target at `rate`, or at half of its maximum. Also returns the rate that was used.
fn measure(
    turn: &Turn<'_>,
    args: &SnapshotGapArgs,
    rate: Option<u64>,
) -> anyhow::Result<(Block, u64)> {
    let target = turn.target;
    let mut block = target.block();
    let mut tree = Tree::new(&args.tree, &turn.label);
    let clients = args.tree.clients;
    let mut driver = Driver::connect(&target.addresses, clients, SESSION_TIMEOUT_MS)?;
    turn.say("filling");
    block.blame(&tree.make(&mut driver, target)?);
    let mut half = None;
    if args.rate.is_none() {
        turn.say("looking for the maximum");
        let maximum = maximum(&mut driver, target, &tree, args.probe_seconds, |it| turn.say(it))?;
        block.blame(&maximum.phase);
        block.figures.extend(maximum.figures());
        half = Some((maximum.rate / 2).max(1));
    }
    let rate = rate.or(half).expect("it is given or was looked for");
    turn.say(&format!("open loop at {rate} per s"));
    let snapshots = Snapshots::start(target);
    let (open, gaps) = set(&mut driver, target, &tree, rate, args.seconds, "open loop")?;
    let snapshots = snapshots.stop();
    block.figures.extend(figures_of(rate, args.rate.is_some(), &open, &gaps, snapshots));
    block.blame(&open);
    if snapshots == Some(0) {
        block.notes.push("no snapshot was taken: the gap is not that of one".to_string());
    }
    if args.tree.keep && turn.may_keep {
        block.notes.push(format!("the tree is kept: {}", tree.root()));
    } else {
        block.blame(&tree.remove(&mut driver, target)?);
    }
    driver.close();
    Ok((block, rate))
}

/// The figures of a run. Latencies are compared only if all servers get the same rate; half of a
/// server's own maximum is not.
fn figures_of(
    rate: u64,
    is_same_for_all: bool,
    open: &Phase,
    gaps: &Gaps,
    snapshots: Option<usize>,
) -> [Figure; 13] {
    let ms = |ns: u64| ns as f64 / 1e6;
    let us = |percent| open.latencies.percentile_us(percent);
    let good = if is_same_for_all { Good::Less } else { Good::Neither };
    let latency = |name, us: f64| Figure::once(name, "us", us, good);
    let taken = snapshots.map(|count| count as f64);
    [
        Figure::once("rate asked for", "per s", rate as f64, Good::Neither),
        Figure::once("rate reached", "per s", open.rate(), Good::Neither),
        Figure::once("requests", "", open.operations as f64, Good::Neither),
        Figure::once("snapshots meanwhile", "", taken, Good::Neither),
        Figure::once("longest gap, all clients", "ms", ms(gaps.longest_ns), Good::Less),
        Figure::once("longest gap of one client", "ms", ms(gaps.client_longest_ns), Good::Less),
        latency("latency p50", us(50.0)),
        latency("latency p90", us(90.0)),
        latency("latency p99", us(99.0)),
        latency("latency p99.9", us(99.9)),
        latency("latency max", open.latencies.max_us()),
        Figure::once("server CPU per setData, open loop", "us", open.server_us(), Good::Less),
        Figure::once("generator CPU per setData", "us", open.own_us(), Good::Neither),
    ]
}

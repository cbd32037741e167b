//! The workload `zk-snapshot-gap`: how long a server is silent while it takes snapshots. A tree is
//! filled, then its data is set in open loop at half of the server's maximum rate. The main figure
//! is the longest gap between two replies.
//!
//! [`traffic`] describes the schedule. The maximum rate is also searched in open loop, one rate
//! after the other. Full pipelines would carry many requests in one packet, and would give a rate
//! that says little about requests that come one by one.

use std::process::ExitCode;

use clap::Args;

use crate::limits::{
    PROBE_ATTEMPTS, PROBE_P50_MS_MAX, PROBE_RATE_FIRST, PROBE_RATE_STEP, PROBE_REACHED_MIN,
    RATE_MAX, SECONDS_MAX, SESSION_TIMEOUT_MS,
};
use crate::measure::comparison::{Comparison, Rounds, Turn, Where};
use crate::measure::driver::Driver;
use crate::measure::figures::{Block, Figure, Good};
use crate::measure::pace::End;
use crate::measure::stats::Phase;
use crate::servers::null_server::NullServer;
use crate::servers::target::Target;
use crate::workloads::zk::snapshots::Snapshots;
use crate::workloads::zk::tree::traffic::{self, Gaps, Plan};
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
        let maximum = maximum(&mut driver, target, &tree, args.probe_seconds, turn)?;
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

/// The search for the highest rate that a server sustains. The rate doubles until one is not
/// sustained (or halves until one is); then it goes between the two until they are close. Pure.
#[derive(Clone, Copy, Debug, Default)]
struct Search {
    /// The highest rate so far that was sustained.
    sustained: Option<u64>,
    /// The lowest rate so far that was not sustained.
    overloaded: Option<u64>,
}

impl Search {
    /// The rate to try next; `None` when the search has ended.
    fn next(&self) -> Option<u64> {
        match (self.sustained, self.overloaded) {
            (None, None) => Some(PROBE_RATE_FIRST),
            (Some(least), None) => (least < RATE_MAX).then(|| (least * 2).min(RATE_MAX)),
            (None, Some(most)) => (most > 1).then_some(most / 2),
            (Some(least), Some(most)) => {
                let middle = (least as f64 * most as f64).sqrt() as u64;
                let is_close = most as f64 <= least as f64 * PROBE_RATE_STEP;
                (!is_close && middle > least).then_some(middle)
            }
        }
    }

    fn on_probe(&mut self, rate: u64, is_sustained: bool) {
        let end = if is_sustained { &mut self.sustained } else { &mut self.overloaded };
        *end = Some(rate);
    }
}

/// The highest rate that a server sustains, the phase at that rate, and the number of tries.
struct Maximum {
    rate: u64,
    phase: Phase,
    probes: u64,
}

impl Maximum {
    fn figures(&self) -> [Figure; 4] {
        let (rate, phase) = (self.rate as f64, &self.phase);
        let p50 = phase.latencies.percentile_us(50.0);
        [
            Figure::once("maximum, open loop", "per s", rate, Good::More),
            Figure::once("latency p50 at that", "us", p50, Good::Neither),
            Figure::once("server CPU per setData at that", "us", phase.server_us(), Good::Less),
            Figure::once("rates tried", "", self.probes as f64, Good::Neither),
        ]
    }
}

fn maximum(
    driver: &mut Driver,
    target: &Target,
    tree: &Tree,
    seconds: u64,
    turn: &Turn<'_>,
) -> anyhow::Result<Maximum> {
    let mut search = Search::default();
    let mut found = None;
    let mut probes = 0;
    while let Some(rate) = search.next() {
        let mut is_good = false;
        // A snapshot or a garbage collection may spoil one try.
        for _ in 0..PROBE_ATTEMPTS {
            if is_good {
                break;
            }
            turn.say(&format!("looking for the maximum: {rate} per s"));
            probes += 1;
            let phase = set(driver, target, tree, rate, seconds, "maximum")?.0;
            is_good = is_sustained(&phase, rate);
            if is_good {
                found = Some((rate, phase));
            }
        }
        search.on_probe(rate, is_good);
    }
    let (rate, phase) = found.ok_or_else(|| {
        anyhow::anyhow!("not even 1 setData a second is answered within {PROBE_P50_MS_MAX} ms")
    })?;
    Ok(Maximum { rate, phase, probes })
}

/// Whether a server keeps up: it answers without errors, at the rate asked for, and no queue grows.
fn is_sustained(phase: &Phase, rate: u64) -> bool {
    phase.errors == 0
        && phase.lost == 0
        && phase.rate() >= rate as f64 * PROBE_REACHED_MIN
        && phase.latencies.percentile_us(50.0) <= PROBE_P50_MS_MAX * 1_000.0
}

/// Sets data in open loop, with `rate` requests a second for `seconds`. Returns the phase, which
/// lasts from the first due request to the last answer, and the longest gaps between replies.
fn set(
    driver: &mut Driver,
    target: &Target,
    tree: &Tree,
    rate: u64,
    seconds: u64,
    name: &'static str,
) -> anyhow::Result<(Phase, Gaps)> {
    let plan = Plan { rate: Some(rate), end: End::Requests(rate * seconds), has_reads: false };
    let (done, gaps) = traffic::run(driver, target, tree, plan)?;
    Ok((done.phase(name), gaps))
}

#[cfg(test)]
mod tests;

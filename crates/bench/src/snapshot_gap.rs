//! How long a server is silent while it takes snapshots: on a filled tree, data is set at half of the
//! rate that the server can do, in open loop, and the longest gap between two replies is looked for.
//!
//! The rate is found first, in closed loop. Then request `i` of the test is due at `i / rate`, by
//! client `i % clients`: each client's schedule is evenly spaced, and so is that of all together. A
//! latency counts from when its request was due, whether or not it could be sent then.

use std::process::ExitCode;

use clap::Args;
use zk::request::{Request, WriteRequest};
use zk::response::ReplyHeader;
use zk::{ErrorCode, JuteReader};

use crate::client_zk::Session;
use crate::comparison::{Comparison, Rounds, Turn, Where};
use crate::driver::{Driver, Load, Next};
use crate::figures::{Block, Figure, Good};
use crate::limits::{PIPELINE_REQUESTS, RATE_MAX, SECONDS_MAX, SESSION_TIMEOUT_MS};
use crate::meter::{Meter, Tally};
use crate::snapshots::Snapshots;
use crate::stats::Phase;
use crate::target::Target;
use crate::tree::{Tree, TreeArgs};

/// Options of `quorate bench zk-snapshot-gap`.
#[derive(Debug, Args)]
// The fill and the search for the maximum warm a server within each round.
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
    /// How long it is looked for what the server can do
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    maximum_seconds: u64,
}

/// Runs `quorate bench zk-snapshot-gap` and prints it.
///
/// # Errors
/// An option is wrong, a target does not answer, or a file cannot be written.
pub fn command(args: &SnapshotGapArgs) -> anyhow::Result<ExitCode> {
    args.tree.check()?;
    let rate = args.rate.map_or("half of the maximum".to_string(), |rate| format!("{rate} per s"));
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
    // At the last rate of the first server: how late the generator is of itself.
    comparison.measure_ceiling(args.tree.size, args.tree.children, |turn| {
        Ok(measure(turn, args, first_rate)?.0)
    })?;
    comparison.finish()
}

/// The figures of one server, and the rate that it was given.
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
    turn.say("looking for the maximum");
    let until_ns = driver.now_ns() + args.maximum_seconds * 1_000_000_000;
    let maximum = set(&mut driver, target, &tree, Pace::Closed { until_ns }, "maximum")?.0;
    let rate = rate.unwrap_or((maximum.rate() / 2.0) as u64).max(1);
    turn.say(&format!("open loop at {rate} per s"));
    let snapshots = Snapshots::start(target);
    // A moment later, so that no client begins late.
    let pace = Pace::Open {
        start_ns: driver.now_ns() + 10_000_000,
        spacing_ns: 1e9 / rate as f64,
        count: rate * args.seconds,
    };
    let (open, gaps) = set(&mut driver, target, &tree, pace, "open loop")?;
    let snapshots = snapshots.stop();
    block.figures.extend(figures_of(&maximum, rate, &open, &gaps, snapshots));
    block.blame(&maximum);
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

fn figures_of(
    maximum: &Phase,
    rate: u64,
    open: &Phase,
    gaps: &Gaps,
    snapshots: Option<usize>,
) -> [Figure; 15] {
    let ms = |ns: u64| ns as f64 / 1e6;
    let us = |percent| open.latencies.percentile_us(percent);
    let latency = |name, us: f64| Figure::once(name, "us", us, Good::Less);
    let taken = snapshots.map(|count| count as f64);
    [
        Figure::once("maximum", "per s", maximum.rate(), Good::More),
        Figure::once("server CPU per setData, maximum", "us", maximum.server_us(), Good::Less),
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

/// When requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pace {
    /// As fast as answers come, until then.
    Closed {
        /// ns of the driver.
        until_ns: u64,
    },
    /// On a schedule.
    Open {
        /// Of the first request, ns of the driver.
        start_ns: u64,
        /// Between two requests of all clients.
        spacing_ns: f64,
        /// Of all clients.
        count: u64,
    },
}

fn set(
    driver: &mut Driver,
    target: &Target,
    tree: &Tree,
    pace: Pace,
    name: &'static str,
) -> anyhow::Result<(Phase, Gaps)> {
    let clients = driver.client_count();
    let mut load = SetLoad {
        tree,
        pace,
        sent: vec![0; clients],
        gaps: Gaps::new(clients),
        tally: Tally::default(),
        path: String::new(),
    };
    let meter = Meter::start(driver, target);
    driver.run(&mut load)?;
    Ok((meter.stop(driver, name, load.tally), load.gaps))
}

struct SetLoad<'a> {
    tree: &'a Tree,
    pace: Pace,
    /// Requests of each client.
    sent: Vec<u64>,
    gaps: Gaps,
    tally: Tally,
    path: String,
}

impl Load for SetLoad<'_> {
    fn next(&mut self, client: usize, session: &mut Session, now_ns: u64) -> Next {
        let index = self.sent[client] * self.sent.len() as u64 + client as u64;
        let since_ns = match self.pace {
            Pace::Closed { until_ns } if now_ns >= until_ns => return Next::Finished,
            Pace::Closed { .. } if session.under_way() >= PIPELINE_REQUESTS => return Next::Wait,
            Pace::Closed { .. } => now_ns,
            Pace::Open { count, .. } if index >= count => return Next::Finished,
            Pace::Open { start_ns, spacing_ns, .. } => {
                let due_ns = start_ns + (index as f64 * spacing_ns) as u64;
                if now_ns < due_ns {
                    return Next::At(due_ns);
                }
                due_ns
            }
        };
        self.sent[client] += 1;
        self.tree.child(&mut self.path, scattered(index, self.tree.znode_count()));
        let (path, data, version) = (self.path.as_str(), Some(self.tree.data()), -1);
        session.send(&Request::Write(WriteRequest::SetData { path, data, version }), since_ns);
        Next::Sent
    }

    fn on_reply(
        &mut self,
        client: usize,
        header: ReplyHeader,
        _: JuteReader<'_>,
        took_ns: u64,
        now_ns: u64,
    ) {
        self.tally.count(header.error == ErrorCode::OK, took_ns);
        self.gaps.on_reply(client, now_ns);
    }
}

/// Numbers that go all over a range, the same ones in each run.
fn scattered(index: u64, count: usize) -> usize {
    // The golden ratio of 2^64, as in Fibonacci hashing.
    let hash = index.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    (hash % count as u64) as usize
}

/// The longest times between two replies.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Gaps {
    /// To any client.
    longest_ns: u64,
    /// To the client that waited longest.
    client_longest_ns: u64,
    last_ns: Option<u64>,
    client_last_ns: Vec<Option<u64>>,
}

impl Gaps {
    fn new(clients: usize) -> Gaps {
        Gaps {
            longest_ns: 0,
            client_longest_ns: 0,
            last_ns: None,
            client_last_ns: vec![None; clients],
        }
    }

    fn on_reply(&mut self, client: usize, now_ns: u64) {
        let since = |last: Option<u64>| last.map_or(0, |last| now_ns.saturating_sub(last));
        self.longest_ns = self.longest_ns.max(since(self.last_ns));
        self.client_longest_ns = self.client_longest_ns.max(since(self.client_last_ns[client]));
        self.last_ns = Some(now_ns);
        self.client_last_ns[client] = Some(now_ns);
    }
}

#[cfg(test)]
mod tests;

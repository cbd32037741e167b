//! The workload `zk-reconfig`: what ZooKeeper's clients notice when the servers of their ensemble
//! change. Sessions write in open loop at half of the ensemble's greatest rate. Meanwhile a
//! follower gets other ports, a server joins, a follower leaves, and the leader leaves. The figures
//! are the times of these changes, and the longest times in which a session had no answer.

use std::cell::Cell;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::limits::{PAUSE_MS_MAX, RATE_MAX, SECONDS_MAX, SESSION_TIMEOUT_MS};
use crate::measure::comparison::Rounds;
use crate::measure::contest::{self, About, Bout, Contenders};
use crate::measure::driver::Driver;
use crate::measure::figures::{Block, Figure, Good};
use crate::workloads::zk::maximum::maximum;
use crate::workloads::zk::own_servers::{Change, FIRST_SERVERS, NEW_SERVER, OwnServers};
use crate::workloads::zk::tree::steady::Steady;
use crate::workloads::zk::tree::{Tree, TreeArgs};
use crate::workloads::zk::writers::Stages;

/// Options of `quorate bench zk-reconfig`.
#[derive(Debug, Args)]
// There is no warm-up round: each round starts its servers afresh.
#[command(mut_arg("warmup", |it| it.default_value("0")))]
#[command(mut_arg("rounds", |it| it.default_value("5")))]
pub struct ReconfigArgs {
    #[command(flatten)]
    at: Contenders,
    #[command(flatten)]
    repeat: Rounds,
    #[command(flatten)]
    load: SteadyArgs,
    /// Znodes that are written
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    znodes: u32,
    /// Bytes of data in each write
    #[arg(long, value_name = "BYTES", default_value_t = 100, value_parser = clap::value_parser!(u32).range(..=1_000_000))]
    size: u32,
    /// How long the sessions write before the first change, between two, and after the last
    #[arg(long, value_name = "S", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    between: u64,
}

/// Options of sessions that write in open loop while servers change.
#[derive(Clone, Debug, Args)]
pub struct SteadyArgs {
    /// Sessions that write, spread over the three servers
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = clap::value_parser!(u32).range(3..=100_000))]
    pub sessions: u32,
    /// Writes a second, all sessions together [default: half of what the servers can do]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=RATE_MAX))]
    rate: Option<u64>,
    /// How long each rate is tried in the search for what they can do
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    probe_seconds: u64,
    /// The longest random pause before a session connects again, ms. The Java client's
    /// is up to 1000
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(0..=PAUSE_MS_MAX))]
    pause: u64,
}

/// The rate of each contender, once it was given or found. It is searched in the first round only.
pub struct Rates([Cell<Option<u64>>; 2]);

impl SteadyArgs {
    /// The rates that are known before the first round.
    pub fn rates(&self) -> Rates {
        Rates([Cell::new(self.rate), Cell::new(self.rate)])
    }

    /// The rate in words.
    pub fn rate_text(&self) -> String {
        self.rate.map_or("half of their maximum".to_string(), |rate| format!("{rate} per s"))
    }

    /// Opens the sessions. They connect again whenever a connection ends.
    ///
    /// # Errors
    /// A session cannot be opened.
    pub fn connect(&self, servers: &OwnServers<'_>, seed: u32) -> anyhow::Result<Driver> {
        let addresses = servers.target()?.addresses;
        let mut driver = Driver::connect(&addresses, self.sessions as usize, SESSION_TIMEOUT_MS)?;
        driver.reconnect_after(Duration::from_millis(self.pause), u64::from(seed));
        Ok(driver)
    }

    /// The rate of a contender: half of the greatest one that its servers sustain, unless it is
    /// known.
    ///
    /// # Errors
    /// The servers sustain no rate, or stay silent.
    pub fn rate(
        &self,
        bout: &Bout<'_>,
        rates: &Rates,
        (servers, tree): (&OwnServers<'_>, &Tree),
    ) -> anyhow::Result<u64> {
        let known = &rates.0[bout.place];
        if let Some(rate) = known.get() {
            return Ok(rate);
        }
        let target = servers.target()?;
        let sessions = self.sessions as usize;
        let mut driver = Driver::connect(&target.addresses, sessions, SESSION_TIMEOUT_MS)?;
        bout.say("looking for the maximum");
        let found = maximum(&mut driver, &target, tree, self.probe_seconds, |it| bout.say(it))?;
        driver.close();
        let rate = (found.rate / 2).max(1);
        known.set(Some(rate));
        Ok(rate)
    }
}

/// Runs `quorate bench zk-reconfig` and prints the results.
///
/// # Errors
/// A server does not start, or a change is refused; or a file cannot be written.
pub fn command(args: &ReconfigArgs) -> anyhow::Result<ExitCode> {
    let (load, rates) = (&args.load, args.load.rates());
    let text = format!(
        "{FIRST_SERVERS} servers and one that may join; {} sessions set {} bytes in {} znodes at {}, \
         open loop; every {} s a reconfig; latency from the intended start",
        load.sessions,
        args.size,
        args.znodes,
        load.rate_text(),
        args.between
    );
    let about = About { workload: "zk-reconfig", text: &text, words: &["serve", "--config"] };
    contest::run(&args.at, &args.repeat, about, |bout| measure(bout, args, &rates))
}

/// For each change the names of its figures: how long it took, and the longest gaps of sessions at
/// other servers and at the changed or removed ones.
const CHANGES: [[&str; 3]; 4] = [
    ["ports of a follower changed", "longest gap, others", "longest gap, at that follower"],
    ["a server added", "longest gap at the addition", ""],
    ["a follower removed", "longest gap, others then", "longest gap, at the removed one"],
    ["the leader removed", "longest gap, others after that", "longest gap, at removed servers"],
];

/// A change that was made in a run.
struct Made {
    took: Duration,
    /// The servers whose sessions do not count as others: the changed one, and all removed ones.
    touched: Vec<usize>,
}

fn measure(bout: &Bout<'_>, args: &ReconfigArgs, rates: &Rates) -> anyhow::Result<Block> {
    let mut servers = OwnServers::start(bout)?;
    let target = servers.target()?;
    let mut block = bout.block(&target);
    let shape = TreeArgs {
        parents: 1,
        children: args.znodes as usize,
        size: args.size as usize,
        clients: args.load.sessions as usize,
        keep: false,
    };
    let mut tree = Tree::new(&shape, "reconfig");
    let mut maker = Driver::connect(&target.addresses, shape.clients, SESSION_TIMEOUT_MS)?;
    block.blame(&tree.make(&mut maker, &target)?);
    maker.close();
    let rate = args.load.rate(bout, rates, (&servers, &tree))?;
    servers.start_new()?;
    servers.wait_for_new(&tree.last_child())?;
    let mut driver = args.load.connect(&servers, bout.round)?;
    bout.say(&format!("changing the servers at {rate} writes per s"));
    let stages = Stages::start();
    let mut steady = Steady::new(&tree, &stages, rate, (&driver, FIRST_SERVERS));
    let between = Duration::from_secs(args.between);
    let made =
        steady.run_beside(&mut driver, || change_all(bout, &mut servers, &stages, between))?;
    driver.close();
    block.figures = figures(&steady, &made);
    block.figures.extend(rate_figures(&steady, &stages, rate));
    steady.report_troubles(&mut block);
    Ok(block)
}

/// Makes all changes, each in a stage of its own.
fn change_all(
    bout: &Bout<'_>,
    servers: &mut OwnServers<'_>,
    stages: &Stages,
    between: Duration,
) -> anyhow::Result<Vec<Made>> {
    bout.sleep(between)?;
    let leader = servers.leader()?;
    let [moved, removed] = [1, 2].map(|step| (leader + step) % FIRST_SERVERS);
    // The moved server keeps its vote through all changes, so it is asked for the last ones.
    let changes = [
        (removed, Change::Move(moved), vec![moved]),
        (moved, Change::Add(NEW_SERVER), vec![]),
        (moved, Change::Remove(removed), vec![removed]),
        (moved, Change::Remove(leader), vec![removed, leader]),
    ];
    let mut made = Vec::new();
    for (at, change, touched) in changes {
        let is_leader = servers.leader()? == leader;
        anyhow::ensure!(
            is_leader,
            "another server leads now: the changes were planned for the first"
        );
        stages.next();
        let took = servers.change(at, change)?;
        made.push(Made { took, touched });
        bout.sleep(between)?;
    }
    Ok(made)
}

fn figures(steady: &Steady<'_>, made: &[Made]) -> Vec<Figure> {
    let ms = |ns: u64| ns as f64 / 1e6;
    let before = steady.gap_ns(0, |_| true).map(ms);
    let mut figures = Vec::new();
    for (step, (names, made)) in CHANGES.iter().zip(made).enumerate() {
        let gap = |is_touched: bool| {
            steady.gap_ns(step + 1, |place| made.touched.contains(&place) == is_touched).map(ms)
        };
        let [took, others, own] = names;
        let took_ms = made.took.as_secs_f64() * 1_000.0;
        figures.push(Figure::once(took, "ms", took_ms, Good::Less));
        figures.push(Figure::once(others, "ms", gap(false), Good::Less));
        if !own.is_empty() {
            figures.push(Figure::once(own, "ms", gap(true), Good::Less));
        }
    }
    figures.push(Figure::once("longest gap before all that", "ms", before, Good::Neither));
    figures
}

/// The rate that was asked for and reached, and what happened to connections and requests.
fn rate_figures(steady: &Steady<'_>, stages: &Stages, rate: u64) -> [Figure; 6] {
    let acknowledged: u64 = steady.answers.iter().map(|it| it.acknowledged).sum();
    let took: Duration = stages.durations().iter().sum();
    let p50_ms = steady.answers[0].latencies.percentile_us(50.0) / 1_000.0;
    let count = |name, count: u64| Figure::once(name, "", count as f64, Good::Neither);
    let per_s = |name, rate: f64| Figure::once(name, "per s", rate, Good::Neither);
    [
        per_s("rate asked for", rate as f64),
        per_s("rate reached", acknowledged as f64 / took.as_secs_f64()),
        Figure::once("latency p50 before all that", "ms", p50_ms, Good::Neither),
        count("connections lost", steady.troubles.connections_lost),
        count("writes without an answer", steady.unanswered),
        count("answers that were errors", steady.troubles.errors),
    ]
}

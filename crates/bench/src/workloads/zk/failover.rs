//! The workload `zk-failover`: how long no client can write when the leader is killed or paused, or
//! its disk hangs. Many sessions write in closed loop; after the fault they reconnect as real
//! clients do. The figures are the longest times between two acknowledged writes: of each session,
//! of all sessions together, of the sessions at the leader, and of the sessions at the followers.
//! In the end every acknowledged write must be there.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::limits::{CLIENTS_MAX, DATA_BYTES_MAX, PAUSE_MS_MAX, SESSION_TIMEOUT_MS, TREE_CLIENTS};
use crate::measure::comparison::{Comparison, Rounds, Turn, Where};
use crate::measure::driver::Driver;
use crate::measure::figures::{Block, Figure, Good};
use crate::measure::open_files;
use crate::measure::published::FAILOVER;
use crate::measure::stats::Latencies;
use crate::servers::ensemble::{Ensemble, Restarted};
use crate::servers::probe::Probe;
use crate::workloads::both::fault::{FaultArgs, Outage};
use crate::workloads::zk::tree::{Tree, TreeArgs};
use crate::workloads::zk::writers::{Account, NUMBER_BYTES, Stages, Troubles, Writers};

/// Options of `quorate bench zk-failover`.
#[derive(Debug, Args)]
#[command(mut_arg("rounds", |it| it.default_value("20")))]
pub struct FailoverArgs {
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    repeat: Rounds,
    #[command(flatten)]
    load: LoadArgs,
    #[command(flatten)]
    fault: FaultArgs,
}

/// Options of the sessions that write in closed loop.
#[derive(Clone, Debug, Args)]
pub struct LoadArgs {
    /// Sessions that write, one request under way each
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub sessions: usize,
    /// Bytes of data in each write
    #[arg(long, value_name = "BYTES", default_value_t = 100)]
    pub size: usize,
    /// Timeout of the sessions, ms
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    pub timeout: i32,
    /// The longest random pause before a session connects again, ms. The Java client's
    /// is up to 1000
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(0..=PAUSE_MS_MAX))]
    pub pause: u64,
}

impl LoadArgs {
    /// Names the first option that asks for something impossible.
    ///
    /// # Errors
    /// An option asks for something impossible.
    pub fn check(&self) -> anyhow::Result<()> {
        for (name, number, min, max) in [
            ("sessions", self.sessions, 1, CLIENTS_MAX),
            ("size", self.size, NUMBER_BYTES, DATA_BYTES_MAX),
        ] {
            let is_possible = (min..=max).contains(&number);
            anyhow::ensure!(is_possible, "--{name}: {number} is not in {min}..={max}");
        }
        anyhow::ensure!(self.timeout > 0, "--timeout: {} is not above 0", self.timeout);
        open_files::make_room(self.sessions)
    }

    /// The options of the tree that is written to: one znode for each session.
    pub fn tree(&self) -> TreeArgs {
        TreeArgs {
            parents: 1,
            children: self.sessions,
            size: self.size,
            clients: TREE_CLIENTS,
            keep: false,
        }
    }

    /// Opens the sessions on these servers.
    ///
    /// # Errors
    /// The sessions cannot be opened.
    pub fn connect(&self, addresses: &[SocketAddr], seed: u64) -> anyhow::Result<Driver> {
        let mut driver = Driver::connect(addresses, self.sessions, self.timeout)?;
        driver.reconnect_after(Duration::from_millis(self.pause), seed);
        Ok(driver)
    }
}

impl std::fmt::Display for LoadArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let LoadArgs { sessions, size, timeout, pause } = self;
        write!(
            f,
            "{sessions} sessions set {size} bytes in closed loop, each its own znode; timeout \
             {timeout} ms, up to {pause} ms before each attempt to connect again"
        )
    }
}

/// The sums over all counted rounds of one target.
#[derive(Default)]
struct Pooled {
    gaps: Latencies,
    troubles: Troubles,
    restarted: Restarted,
}

/// Runs `quorate bench zk-failover` and prints it.
///
/// # Errors
/// An option is wrong, a server is not on this machine or does not come back, or a file cannot be
/// written.
pub fn command(args: &FailoverArgs) -> anyhow::Result<ExitCode> {
    args.load.check()?;
    let FailoverArgs { load, fault, .. } = args;
    let about = format!("{load}; {fault}; latency from the write to the socket");
    let mut comparison = Comparison::start(&args.at, "zk-failover", &about)?;
    fault.check(comparison.targets())?;
    comparison.begin(String::new(), FAILOVER.map(str::to_string).to_vec());
    let pooled = RefCell::new([Pooled::default(), Pooled::default()]);
    comparison.measure(&args.repeat, "one fault of the leader", |turn| {
        fail_over(turn, args, &mut pooled.borrow_mut()[turn.place])
    })?;
    comparison.finish()
}

fn fail_over(turn: &Turn<'_>, args: &FailoverArgs, pooled: &mut Pooled) -> anyhow::Result<Block> {
    let target = turn.target;
    let mut block = target.block();
    let mut tree = Tree::new(&args.load.tree(), &turn.label);
    let mut maker = Driver::connect(&target.addresses, TREE_CLIENTS, SESSION_TIMEOUT_MS)?;
    block.blame(&tree.make(&mut maker, target)?);
    maker.close();
    // The processes of a target may be those that the round before started.
    let ensemble = Ensemble::of(target)?;
    let mut driver = args.load.connect(&target.addresses, u64::from(turn.round))?;
    turn.say("writing");
    let stages = Stages::start();
    let mut writers = Writers::new(&tree, &stages);
    let probe = Probe::Znode(tree.last_child());
    let (outage, account) = std::thread::scope(|scope| {
        let keeper = scope.spawn(|| {
            let outage = args.fault.happen(&ensemble, &probe, || stages.next());
            stages.end(outage.is_ok());
            outage
        });
        let account = writers.run(&mut driver);
        (keeper.join().expect("the thread does not panic"), account)
    });
    // If the fault failed, the writers only waited for it.
    let outage = outage?;
    let account = account?;
    block.figures = figures(&writers, &stages, &outage, &account, ensemble.members().len());
    block.trouble += account.trouble();
    block.notes.extend(account.note());
    if turn.counts {
        pooled.gaps.add(&writers.gaps(FAULT));
        pooled.troubles.add_all(&writers.troubles);
    }
    if let Some(output) = outage.output {
        pooled.restarted.add(outage.address, output);
    }
    if turn.may_keep {
        block.notes.extend(pooled.notes());
        block.notes.extend(pooled.restarted.notes());
    }
    driver.close();
    let mut remover = Driver::connect(&target.addresses, TREE_CLIENTS, SESSION_TIMEOUT_MS)?;
    block.blame(&tree.remove(&mut remover, target)?);
    remover.close();
    Ok(block)
}

/// The stage before the fault, and the stage from the fault on.
const BEFORE: usize = 0;
const FAULT: usize = 1;

fn figures(
    writers: &Writers<'_>,
    stages: &Stages,
    outage: &Outage,
    account: &Account,
    server_count: usize,
) -> Vec<Figure> {
    let ms = |us: f64| us / 1_000.0;
    let (before, fault) = (&writers.tallies[BEFORE], &writers.tallies[FAULT]);
    let (usual, gaps) = (writers.gaps(BEFORE), writers.gaps(FAULT));
    let rate = stages.durations().first().map(|it| before.acknowledged as f64 / it.as_secs_f64());
    let count = |name, count: u64| Figure::once(name, "", count as f64, Good::Neither);
    let wait = |name, us: f64| Figure::once(name, "ms", ms(us), Good::Less);
    let usual_wait = |name, us: f64| Figure::once(name, "ms", ms(us), Good::Neither);
    let p50 = before.latencies.percentile_us(50.0);
    let troubles = &writers.troubles;
    let mut figures = vec![
        Figure::once("writes before the fault", "per s", rate, Good::More),
        usual_wait("latency p50 before the fault", p50),
        usual_wait("longest gap before it, sessions' p50", usual.percentile_us(50.0)),
        usual_wait("longest gap before it, sessions' max", usual.max_us()),
        wait("longest gap, all sessions together", fault.gap_ns as f64 / 1_000.0),
        wait("longest gap of a session, p50", gaps.percentile_us(50.0)),
        wait("longest gap of a session, p99", gaps.percentile_us(99.0)),
        wait("longest gap of a session, max", gaps.max_us()),
    ];
    if server_count > 1 {
        figures.extend(gaps_by_place(writers, outage.place));
    }
    figures.extend([
        count("connections lost", troubles.connections_lost),
        count("attempts to connect that failed", troubles.attempts_failed),
        count("sessions expired", troubles.sessions_expired),
        count("answers that were errors", troubles.errors),
        count("writes acknowledged", account.acknowledged),
        count("acknowledged writes lost", account.lost),
        count("writes without an answer", account.unknown),
        count("of those, happened", account.unknown_that_happened),
    ]);
    figures.extend(outage.figures());
    figures
}

/// The gaps of the sessions that were at the leader when it failed, and of the others.
fn gaps_by_place(writers: &Writers<'_>, leader: usize) -> [Figure; 6] {
    let wait = |name, us: f64| Figure::once(name, "ms", us / 1_000.0, Good::Less);
    let at_leader = writers.gaps_of(FAULT, |place| place == leader);
    let elsewhere = writers.gaps_of(FAULT, |place| place != leader);
    let gap = writers.tallies[FAULT].server_gaps.get(leader).copied().unwrap_or_default();
    let us = |ns: u64| ns as f64 / 1_000.0;
    [
        wait("at followers: longest gap, together", us(gap.elsewhere_ns)),
        wait("at followers: gap of a session, p50", elsewhere.percentile_us(50.0)),
        wait("at followers: gap of a session, max", elsewhere.max_us()),
        wait("at the leader: longest gap, together", us(gap.here_ns)),
        wait("at the leader: gap of a session, p50", at_leader.percentile_us(50.0)),
        wait("at the leader: gap of a session, max", at_leader.max_us()),
    ]
}

impl Pooled {
    fn notes(&self) -> [String; 2] {
        let gaps = &self.gaps;
        let s = |us: f64| us / 1e6;
        [
            format!(
                "longest gaps of {} sessions in all rounds that count: p50 {:.2} s, p90 {:.2} s, \
                 p99 {:.2} s, max {:.2} s",
                gaps.count(),
                s(gaps.percentile_us(50.0)),
                s(gaps.percentile_us(90.0)),
                s(gaps.percentile_us(99.0)),
                s(gaps.max_us())
            ),
            format!("what went wrong in all of those: {}", self.troubles.kinds()),
        ]
    }
}

impl Account {
    /// The number of findings that must not occur: lost and surplus writes, and sessions that did
    /// not write again.
    pub fn trouble(&self) -> u64 {
        self.lost + self.surplus + self.silent
    }

    /// A line about these findings; `None` if there are none.
    pub fn note(&self) -> Option<String> {
        let Account { lost, surplus, silent, .. } = self;
        (self.trouble() > 0).then(|| {
            format!(
                "{lost} acknowledged writes are lost, {surplus} happened that were not sent, \
                 {silent} \
                 sessions did not write again"
            )
        })
    }
}

#[cfg(test)]
mod tests;

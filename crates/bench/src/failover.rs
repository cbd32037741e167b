//! How long nobody can write when the leader is killed: many sessions write in closed loop, the
//! leader gets SIGKILL, the sessions go on at the other servers as real clients do, and the killed
//! one is started again and comes back. The longest time between two acknowledged writes is looked
//! for, for each session and for all together, and every acknowledged write must be there in the
//! end.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::comparison::{Comparison, Rounds, Turn, Where};
use crate::driver::Driver;
use crate::ensemble::{Ensemble, Restarted};
use crate::figures::{Block, Figure, Good};
use crate::limits::{
    CLIENTS_MAX, DATA_BYTES_MAX, PAUSE_MS_MAX, SECONDS_MAX, SESSION_TIMEOUT_MS, TREE_CLIENTS,
};
use crate::open_files;
use crate::published::FAILOVER;
use crate::stats::Latencies;
use crate::tree::{Tree, TreeArgs};
use crate::writers::{Account, NUMBER_BYTES, Stages, Troubles, Writers};

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
    /// How long they write before the leader is killed
    #[arg(long, value_name = "S", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    before: u64,
    /// How long the killed server stays away
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(0..=SECONDS_MAX))]
    away: u64,
    /// How long they write after it is back
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=SECONDS_MAX))]
    after: u64,
}

/// Options of those that write in closed loop.
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
    /// The longest pause before a session connects again, ms; each is by chance. The Java client's
    /// is up to 1000
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(0..=PAUSE_MS_MAX))]
    pub pause: u64,
}

impl LoadArgs {
    /// Names the first option that asks for something impossible.
    ///
    /// # Errors
    /// There is one.
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

    /// The znodes that are written to: one of each session.
    pub fn tree(&self) -> TreeArgs {
        TreeArgs {
            parents: 1,
            children: self.sessions,
            size: self.size,
            clients: TREE_CLIENTS,
            keep: false,
        }
    }

    /// The sessions, on these servers.
    ///
    /// # Errors
    /// They cannot be opened.
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

/// Of all rounds of one target that count.
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
    let FailoverArgs { load, before, away, after, .. } = args;
    let about = format!(
        "{load}; the leader gets SIGKILL after {before} s, is started again after {away} s, and they \
         go on for {after} s after it is back; latency from the write to the socket"
    );
    let mut comparison = Comparison::start(&args.at, "zk-failover", &about)?;
    // Before anything is done: what cannot be killed or started cannot be measured.
    for target in comparison.targets() {
        let found = Ensemble::of(target).map(|it| it.leader().is_some());
        let is_led = found.map_err(|error| anyhow::anyhow!("{}: {error}", target.address))?;
        anyhow::ensure!(is_led, "{}: no server says that it leads", target.address);
    }
    comparison.begin(String::new(), FAILOVER.map(str::to_string).to_vec());
    let pooled = RefCell::new([Pooled::default(), Pooled::default()]);
    comparison.measure(&args.repeat, "killing the leader", |turn| {
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
    // Its processes are those that the round before started.
    let ensemble = Ensemble::of(target)?;
    let mut driver = args.load.connect(&target.addresses, u64::from(turn.round))?;
    turn.say("writing");
    let stages = Stages::start();
    let mut writers = Writers::new(&tree, &stages);
    let path = tree.last_child();
    let (outage, account) = std::thread::scope(|scope| {
        let keeper = scope.spawn(|| {
            let outage = kill_and_start(&ensemble, &stages, args, &path);
            stages.end(outage.is_ok());
            outage
        });
        let account = writers.run(&mut driver);
        (keeper.join().expect("it does not panic"), account)
    });
    // If the one failed, the other has only waited for it.
    let outage = outage?;
    let account = account?;
    block.figures = figures(&writers, &stages, &outage, &account);
    block.trouble += account.trouble();
    block.notes.extend(account.note());
    if turn.counts {
        pooled.gaps.add(&writers.gaps(KILLED));
        pooled.troubles.add_all(&writers.troubles);
    }
    pooled.restarted.add(outage.address, outage.output);
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

/// The stage before the kill, and the one from then on.
const BEFORE: usize = 0;
const KILLED: usize = 1;

/// What was done to the leader.
struct Outage {
    /// From the kill until no thread was left.
    gone: Duration,
    /// From its start until it gave a session and answered.
    back: Duration,
    /// Where its clients connect.
    address: SocketAddr,
    /// Where it prints.
    output: PathBuf,
}

fn kill_and_start(
    ensemble: &Ensemble,
    stages: &Stages,
    args: &FailoverArgs,
    path: &str,
) -> anyhow::Result<Outage> {
    std::thread::sleep(Duration::from_secs(args.before));
    let leader = ensemble.leader();
    let leader = leader.ok_or_else(|| anyhow::anyhow!("no server says that it leads"))?;
    let leader = ensemble.member(leader);
    stages.next();
    let gone = leader.kill()?;
    std::thread::sleep(Duration::from_secs(args.away).saturating_sub(gone));
    let started = leader.start()?;
    let (address, output) = (leader.address, started.output.clone());
    let back = started.wait_until_it_serves(path)?;
    std::thread::sleep(Duration::from_secs(args.after));
    Ok(Outage { gone, back, address, output })
}

fn figures(
    writers: &Writers<'_>,
    stages: &Stages,
    outage: &Outage,
    account: &Account,
) -> Vec<Figure> {
    let ms = |us: f64| us / 1_000.0;
    let (before, killed) = (&writers.tallies[BEFORE], &writers.tallies[KILLED]);
    let (usual, gaps) = (writers.gaps(BEFORE), writers.gaps(KILLED));
    let rate = stages.durations().first().map(|it| before.acknowledged as f64 / it.as_secs_f64());
    let time = |it: Duration| it.as_secs_f64() * 1_000.0;
    let count = |name, count: u64| Figure::once(name, "", count as f64, Good::Neither);
    let wait = |name, us: f64| Figure::once(name, "ms", ms(us), Good::Less);
    let usual_wait = |name, us: f64| Figure::once(name, "ms", ms(us), Good::Neither);
    let p50 = before.latencies.percentile_us(50.0);
    let troubles = &writers.troubles;
    vec![
        Figure::once("writes before the kill", "per s", rate, Good::More),
        usual_wait("latency p50 before the kill", p50),
        usual_wait("longest gap before it, sessions' p50", usual.percentile_us(50.0)),
        usual_wait("longest gap before it, sessions' max", usual.max_us()),
        wait("longest gap, all sessions together", killed.gap_ns as f64 / 1_000.0),
        wait("longest gap of a session, p50", gaps.percentile_us(50.0)),
        wait("longest gap of a session, p99", gaps.percentile_us(99.0)),
        wait("longest gap of a session, max", gaps.max_us()),
        count("connections lost", troubles.connections_lost),
        count("attempts to connect that failed", troubles.attempts_failed),
        count("sessions expired", troubles.sessions_expired),
        count("answers that were errors", troubles.errors),
        count("writes acknowledged", account.acknowledged),
        count("acknowledged writes lost", account.lost),
        count("writes without an answer", account.unknown),
        count("of those, happened", account.unknown_that_happened),
        Figure::once("process gone after the kill", "ms", time(outage.gone), Good::Neither),
        Figure::once("serves again after its start", "ms", time(outage.back), Good::Less),
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
    /// What must not happen.
    pub fn trouble(&self) -> u64 {
        self.lost + self.surplus + self.silent
    }

    /// Says it.
    pub fn note(&self) -> Option<String> {
        let Account { lost, surplus, silent, .. } = self;
        (self.trouble() > 0).then(|| {
            format!(
                "{lost} acknowledged writes are lost, {surplus} happened that were not sent, {silent} \
                 sessions did not write again"
            )
        })
    }
}

#[cfg(test)]
mod tests;

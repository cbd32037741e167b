//! The workload `zk-new-server`: how long a server that joins a filled ensemble takes until it
//! serves, and what that costs the clients of the others. Three servers hold a tree, and sessions
//! write to them in open loop at half of their greatest rate. Then a fourth server starts, which is
//! not in the list of the ensemble. It gets the data without a vote.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::limits::{SECONDS_MAX, SESSION_TIMEOUT_MS};
use crate::measure::comparison::Rounds;
use crate::measure::contest::{self, About, Bout, Contenders};
use crate::measure::driver::Driver;
use crate::measure::figures::{Block, Figure, Good};
use crate::workloads::zk::own_servers::{FIRST_SERVERS, OwnServers};
use crate::workloads::zk::reconfig::{Rates, SteadyArgs};
use crate::workloads::zk::tree::steady::Steady;
use crate::workloads::zk::tree::{Tree, TreeArgs};
use crate::workloads::zk::writers::Stages;

/// Options of `quorate bench zk-new-server`.
#[derive(Debug, Args)]
// There is no warm-up round: each round starts its servers afresh.
#[command(mut_arg("warmup", |it| it.default_value("0")))]
#[command(mut_arg("rounds", |it| it.default_value("3")))]
pub struct NewServerArgs {
    #[command(flatten)]
    at: Contenders,
    #[command(flatten)]
    repeat: Rounds,
    #[command(flatten)]
    load: SteadyArgs,
    #[command(flatten)]
    tree: TreeArgs,
    /// How long the sessions write before the server starts, and after it serves
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    around: u64,
}

/// Runs `quorate bench zk-new-server` and prints the results.
///
/// # Errors
/// An option is wrong, a server does not serve, or a file cannot be written.
pub fn command(args: &NewServerArgs) -> anyhow::Result<ExitCode> {
    args.tree.check()?;
    let (load, rates) = (&args.load, args.load.rates());
    let text = format!(
        "{}; then {} sessions on {FIRST_SERVERS} servers set their data at {}, open loop, and after \
         {} s a fourth server starts; latency from the intended start",
        args.tree,
        load.sessions,
        load.rate_text(),
        args.around
    );
    let about = About { workload: "zk-new-server", text: &text, words: &["serve", "--config"] };
    contest::run(&args.at, &args.repeat, about, |bout| measure(bout, args, &rates))
}

fn measure(bout: &Bout<'_>, args: &NewServerArgs, rates: &Rates) -> anyhow::Result<Block> {
    let mut servers = OwnServers::start(bout)?;
    let target = servers.target()?;
    let mut block = bout.block(&target);
    let mut tree = Tree::new(&args.tree, "new-server");
    let mut filler = Driver::connect(&target.addresses, args.tree.clients, SESSION_TIMEOUT_MS)?;
    bout.say("filling");
    block.blame(&tree.make(&mut filler, &target)?);
    filler.close();
    let rate = args.load.rate(bout, rates, (&servers, &tree))?;
    let mut driver = args.load.connect(&servers, bout.round)?;
    bout.say(&format!("writing at {rate} per s, and a server joins"));
    let stages = Stages::start();
    let mut steady = Steady::new(&tree, &stages, rate, (&driver, FIRST_SERVERS));
    let (path, around) = (tree.last_child(), Duration::from_secs(args.around));
    let serves =
        steady.run_beside(&mut driver, || join(bout, &mut servers, &stages, (&path, around)))?;
    driver.close();
    block.figures = figures(&steady, &stages, (rate, serves));
    steady.report_troubles(&mut block);
    Ok(block)
}

/// Starts the new server in the second stage, which ends when it serves. Returns how long that
/// took.
fn join(
    bout: &Bout<'_>,
    servers: &mut OwnServers<'_>,
    stages: &Stages,
    (path, around): (&str, Duration),
) -> anyhow::Result<Duration> {
    bout.sleep(around)?;
    stages.next();
    servers.start_new()?;
    let serves = servers.wait_for_new(path)?;
    stages.next();
    bout.sleep(around)?;
    Ok(serves)
}

/// For each stage the names of the writers' figures: the share of the offered rate that was
/// acknowledged, p99 latency, longest gap of a session.
const STAGES: [[&str; 3]; 3] = [
    ["share of the rate before", "write p99 before", "longest gap before"],
    ["share of the rate, joining", "write p99, joining", "longest gap, joining"],
    ["share of the rate after", "write p99 after", "longest gap after"],
];

fn figures(steady: &Steady<'_>, stages: &Stages, (rate, serves): (u64, Duration)) -> Vec<Figure> {
    let mut figures = vec![
        Figure::once("serves after its start", "s", serves.as_secs_f64(), Good::Less),
        Figure::once("rate offered", "per s", rate as f64, Good::Neither),
    ];
    for (stage, (names, took)) in STAGES.iter().zip(stages.durations()).enumerate() {
        let ([share, p99, gap], answers) = (names, &steady.answers[stage]);
        let share_percent = share_of(answers.acknowledged, rate, took) * 100.0;
        let p99_ms = answers.latencies.percentile_us(99.0) / 1_000.0;
        let gap_ms = steady.gap_ns(stage, |_| true).map(|ns| ns as f64 / 1e6);
        figures.extend([
            Figure::once(share, "%", share_percent, Good::Neither),
            Figure::once(p99, "ms", p99_ms, Good::Less),
            Figure::once(gap, "ms", gap_ms, Good::Less),
        ]);
    }
    let count = |name, count: u64| Figure::once(name, "", count as f64, Good::Neither);
    figures.extend([
        count("connections lost", steady.troubles.connections_lost),
        count("writes without an answer", steady.unanswered),
        count("answers that were errors", steady.troubles.errors),
    ]);
    figures
}

/// The share of the offered requests that were acknowledged: 1 is all. More than 1 means that a
/// backlog was worked off.
fn share_of(acknowledged: u64, rate: u64, took: Duration) -> f64 {
    acknowledged as f64 / (rate as f64 * took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_that_of_the_offered_requests() {
        let two_s = Duration::from_secs(2);
        assert_eq!([200, 180, 0].map(|it| share_of(it, 100, two_s)), [1.0, 0.9, 0.0]);
    }
}

//! Measures how long servers are away after a kill, for clients of any protocol. Clients write
//! *things*, such as keys or znodes. At the last reply all servers of a target get SIGKILL, and are
//! started again. Then the servers are asked for the last thing until one answers; that ends the
//! time. Afterwards every acknowledged thing must be there.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;

use crate::limits::{EXIT_LIMIT, RECONNECT_PAUSE};
use crate::measure::comparison::{Comparison, Rounds, Turn};
use crate::measure::figures::{Block, Figure, Good};
use crate::measure::stats::Phase;
use crate::servers::launch::Launch;
use crate::servers::probe::{FirstAnswer, Probe};
use crate::servers::process::Processes;
use crate::servers::target::Target;

/// The sentence about a restart in a heading.
pub const ABOUT: &str = "then SIGKILL at the last reply; time counts from that. The log was written \
                         just before and is in the page cache, where it was written through that";

/// Options about starting servers again.
#[derive(Debug, Args)]
pub struct StartArgs {
    /// How to start the server again, for sh [default: as its processes were started]
    #[arg(long, value_name = "CMD")]
    start: Option<String>,
    /// How to start the compared server again, for sh
    #[arg(long, value_name = "CMD", requires = "compare")]
    compare_start: Option<String>,
}

/// The things of one protocol (keys or znodes) that servers must not lose by a restart: how clients
/// write, count and remove them.
pub trait Things {
    /// The names of the figures about the things that were acknowledged, found, and missing, and
    /// about the rate of writing them.
    const NAMES: [&'static str; 4];

    /// Writes all things to a target.
    ///
    /// # Errors
    /// The target cannot be reached, or falls silent.
    fn write(&mut self, target: &Target) -> anyhow::Result<Phase>;

    /// The read of the thing that was written last.
    fn last(&self) -> Probe;

    /// Counts the things on a target that serves again.
    ///
    /// # Errors
    /// The target cannot be reached, or does not answer.
    fn count(&mut self, target: &Target, block: &mut Block) -> anyhow::Result<Found>;

    /// Removes the things, or leaves them there if they are to be kept and the round may keep them.
    ///
    /// # Errors
    /// The target cannot be reached, or does not answer.
    fn remove(&mut self, target: &Target, may_keep: bool, block: &mut Block) -> anyhow::Result<()>;
}

/// How many of the things a restarted target still has.
pub struct Found {
    pub found: u64,
    /// Things that were acknowledged and are not there.
    pub missing: u64,
}

/// Runs a restart of each target in each round. `work` names the work of a round, and `things`
/// makes the things of one turn.
///
/// # Errors
/// A server is not on this machine or does not come back.
pub fn measure<T: Things>(
    comparison: &mut Comparison,
    (repeat, work): (&Rounds, &str),
    starts: &StartArgs,
    things: impl Fn(&Turn<'_>) -> T,
) -> anyhow::Result<()> {
    let starts = [&starts.start, &starts.compare_start];
    // This check comes first: a server that cannot be killed or started cannot be measured.
    let launches = comparison.targets().iter().zip(starts);
    let launches: Vec<Vec<Launch>> = launches
        .map(|(target, start)| launches_of(target, start.as_deref()))
        .collect::<anyhow::Result<_>>()?;
    comparison.measure(repeat, work, |turn| restart(turn, &launches[turn.place], &mut things(turn)))
}

/// The ways to start the processes of a target again.
fn launches_of(target: &Target, start: Option<&str>) -> anyhow::Result<Vec<Launch>> {
    let pids = target.processes().map_or(&[][..], Processes::pids);
    anyhow::ensure!(
        !pids.is_empty(),
        "{}: its processes are not found on this machine, so they cannot be killed",
        target.address
    );
    match start {
        Some(command) => Ok(vec![Launch::Shell(command.to_string())]),
        None => pids.iter().map(|pid| Launch::of(*pid)).collect(),
    }
}

fn restart<T: Things>(
    turn: &Turn<'_>,
    launches: &[Launch],
    things: &mut T,
) -> anyhow::Result<Block> {
    // The processes of the target may be those that the round before started.
    let mut target = turn.target.clone();
    target.find_processes();
    let mut block = target.block();
    turn.say("filling");
    let before = target.memory();
    let made = things.write(&target)?;
    turn.say("killing");
    let outage = kill_and_start(&target, launches, &things.last())?;
    target.find_processes();
    let after = target.memory();
    turn.say("counting");
    let Found { found, missing } = things.count(&target, &mut block)?;
    let ms = |it: Duration| it.as_secs_f64() * 1_000.0;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let count = |name, count: u64| Figure::once(name, "", count as f64, Good::Neither);
    let cpu_ms = outage.cpu_ns.map(|ns| ns as f64 / 1e6);
    let [acknowledged_name, found_name, missing_name, rate_name] = T::NAMES;
    block.figures.extend([
        count(acknowledged_name, made.operations - made.errors),
        count(found_name, found),
        count(missing_name, missing),
        Figure::once("VmRSS before", "MiB", before.map(|it| mib(it.resident)), Good::Neither),
        Figure::once(rate_name, "per s", made.rate(), Good::More),
        Figure::once("processes gone", "ms", ms(outage.gone), Good::Neither),
        Figure::once("first answer", "ms", ms(outage.answered), Good::Less),
        Figure::once("server CPU to first answer", "ms", cpu_ms, Good::Less),
        Figure::once("VmRSS after", "MiB", after.map(|it| mib(it.resident)), Good::Less),
        Figure::once("VmHWM after", "MiB", after.map(|it| mib(it.peak)), Good::Less),
    ]);
    block.blame(&made);
    if let FirstAnswer::Wrong(what) = outage.first {
        block.trouble += 1;
        block.notes.push(format!("the first answer was wrong: {what}"));
    }
    // The processes of earlier rounds are gone, so only the last round names them.
    if turn.may_keep {
        let (pids, output) = (outage.pids, outage.output.display());
        block.notes.push(format!("started again as process {pids}; it prints to {output}"));
    }
    things.remove(&target, turn.may_keep, &mut block)?;
    Ok(block)
}

/// The times and the first answer of a restart, from the kill of a target's processes until the new
/// processes answered.
struct Outage {
    /// The time from the kill until no thread was left.
    gone: Duration,
    /// The time from the kill until a server answered.
    answered: Duration,
    first: FirstAnswer,
    /// CPU time of the new processes until the first answer.
    cpu_ns: Option<u64>,
    /// The ids of the new processes, as text.
    pids: String,
    /// The file that they print to.
    output: PathBuf,
}

/// Ends the processes of a target by SIGKILL, starts them again, and waits for the first answer.
fn kill_and_start(target: &Target, launches: &[Launch], last: &Probe) -> anyhow::Result<Outage> {
    let processes = target.processes().expect("it was checked that there are some");
    let killed = Instant::now();
    processes.kill()?;
    while !processes.are_gone() {
        anyhow::ensure!(killed.elapsed() < EXIT_LIMIT, "its processes do not end by SIGKILL");
        std::thread::sleep(Duration::from_millis(1));
    }
    let gone = killed.elapsed();
    let port = target.addresses[0].port();
    let output = format!("quorate-bench-{}-restarted-{port}.log", std::process::id());
    let output = std::env::temp_dir().join(output);
    let mut children = Vec::new();
    for launch in launches {
        children.push(launch.start(&output)?);
    }
    let first = last.first_answer(&target.addresses, &mut children, &output, RECONNECT_PAUSE)?;
    let answered = killed.elapsed();
    let back = Processes::listening(&target.addresses);
    let pids: Vec<String> = back.pids().iter().map(u32::to_string).collect();
    Ok(Outage { gone, answered, first, cpu_ns: back.cpu_ns(), pids: pids.join(" "), output })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::null_server::NullServer;

    /// The null server is a thread of this process, so it cannot be killed and started again.
    #[test]
    fn what_is_no_process_of_its_own_is_refused() {
        let null = NullServer::start(1).unwrap();
        let error = launches_of(&null.target(), Some("true")).unwrap_err().to_string();
        assert!(error.contains("cannot be killed"), "{error}");
        assert_eq!(error.lines().count(), 1);
    }
}

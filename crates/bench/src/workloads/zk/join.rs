//! The workload `zk-join`: what it costs the other members of an ensemble when a member joins with
//! an empty data directory.
//!
//! A tree is filled, and sessions write to the other members in closed loop. Then a follower is
//! stopped, its data is deleted, and it is started again. The rate of the writers is measured in
//! four stages: before, while the follower is away, while it joins, and after it serves. In the end
//! the follower is asked for every znode.

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;

use crate::limits::{SECONDS_MAX, SESSION_TIMEOUT_MS, TREE_CLIENTS};
use crate::measure::comparison::{Comparison, Rounds, Turn, Where};
use crate::measure::driver::Driver;
use crate::measure::figures::{Block, Figure, Good};
use crate::servers::ensemble::{Ensemble, Member, Restarted};
use crate::servers::probe::Probe;
use crate::servers::target::Target;
use crate::workloads::zk::failover::LoadArgs;
use crate::workloads::zk::tree::{Tree, TreeArgs};
use crate::workloads::zk::writers::{NUMBER_BYTES, Stages, Writers};

/// The file that stays when the data of a server is deleted. It holds the server's number
/// (ZooKeeper's `QuorumPeerConfig`), which no server creates by itself.
const KEPT: &str = "myid";

/// Options of `quorate bench zk-join`.
#[derive(Debug, Args)]
// There is no warm-up round: each round warms the servers when it fills the tree.
#[command(mut_arg("warmup", |it| it.default_value("0")))]
#[command(mut_arg("rounds", |it| it.default_value("2")))]
pub struct JoinArgs {
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    repeat: Rounds,
    #[command(flatten)]
    tree: TreeArgs,
    /// Sessions that write to the other members, one request under way each
    #[arg(long, value_name = "N", default_value_t = 100)]
    sessions: usize,
    /// Confirms that a follower's data may be deleted: all but myid in the folders that its answer
    /// to conf names
    #[arg(long, required = true)]
    delete_data: bool,
    /// How long the sessions write before the follower is stopped, and after it serves again
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    around: u64,
    /// How long the follower stays away
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=SECONDS_MAX))]
    away: u64,
}

impl JoinArgs {
    fn load(&self) -> LoadArgs {
        LoadArgs {
            sessions: self.sessions,
            size: self.tree.size.max(NUMBER_BYTES),
            timeout: SESSION_TIMEOUT_MS,
            pause: 1_000,
        }
    }
}

/// Runs `quorate bench zk-join` and prints the results.
///
/// # Errors
/// An option is wrong, a server is not on this machine or does not serve again, or a file cannot be
/// written.
pub fn command(args: &JoinArgs) -> anyhow::Result<ExitCode> {
    assert!(args.delete_data, "it is required");
    args.tree.check()?;
    args.load().check()?;
    let JoinArgs { tree, sessions, around, away, .. } = args;
    let about = format!(
        "{tree}; then {sessions} sessions on the other members set {} bytes in closed loop, each \
         its \
         own znode; a follower gets SIGTERM after {around} s, its data is deleted, it is started again \
         after {away} s, and they go on for {around} s after it serves; latency from the write to the \
         socket",
        args.load().size
    );
    let mut comparison = Comparison::start(&args.at, "zk-join", &about)?;
    // Before any measurement: a follower that cannot be stopped and started ends the workload at
    // once.
    for target in comparison.targets() {
        follower_of(target).map_err(|error| anyhow::anyhow!("{}: {error}", target.address))?;
    }
    let work = format!("{} creates and a join", args.tree.znode_count());
    let restarted = RefCell::new([Restarted::default(), Restarted::default()]);
    comparison.measure(&args.repeat, &work, |turn| {
        join(turn, args, &mut restarted.borrow_mut()[turn.place])
    })?;
    comparison.finish()
}

/// The ensemble behind a target, the index of a follower in it, and the folders with that
/// follower's data.
fn follower_of(target: &Target) -> anyhow::Result<(Ensemble, usize, Vec<PathBuf>)> {
    let ensemble = Ensemble::of(target)?;
    let place = ensemble.follower().ok_or_else(|| anyhow::anyhow!("no server says it follows"))?;
    let folders = ensemble.member(place).data_folders()?;
    Ok((ensemble, place, folders))
}

fn join(turn: &Turn<'_>, args: &JoinArgs, restarted: &mut Restarted) -> anyhow::Result<Block> {
    let target = turn.target;
    let mut block = target.block();
    let mut tree = Tree::new(&args.tree, &turn.label);
    let mut filler = Driver::connect(&target.addresses, args.tree.clients, SESSION_TIMEOUT_MS)?;
    turn.say("filling");
    let load = args.load();
    let mut written = Tree::new(&load.tree(), &format!("{}-w", turn.label));
    block.blame(&written.make(&mut filler, target)?);
    block.blame(&tree.make(&mut filler, target)?);
    filler.close();
    let (ensemble, place, folders) = follower_of(target)?;
    let member = ensemble.member(place);
    let mut others = target.addresses.clone();
    others.remove(place);
    let mut driver = load.connect(&others, u64::from(turn.round))?;
    turn.say(&format!("writing; {} stops and joins", member.address));
    let stages = Stages::start();
    let mut writers = Writers::new(&written, &stages);
    let path = tree.last_child();
    let (rejoined, account) = std::thread::scope(|scope| {
        let keeper = scope.spawn(|| {
            let rejoined = stop_and_start(member, &folders, &stages, args, &path);
            stages.end(rejoined.is_ok());
            rejoined
        });
        let account = writers.run(&mut driver);
        (keeper.join().expect("the thread does not panic"), account)
    });
    // If the restart failed, the writers have ended early, and their results mean nothing.
    let rejoined = rejoined?;
    let account = account?;
    driver.close();
    turn.say("counting on the member that joined");
    let joined = [member.address];
    let mut counter = Driver::connect(&joined, TREE_CLIENTS, SESSION_TIMEOUT_MS)?;
    let (counted, count) = tree.count(&mut counter, target)?;
    counter.close();
    block.blame(&counted);
    block.figures = figures(&writers, &stages, &rejoined);
    let number = |name, count: u64| Figure::once(name, "", count as f64, Good::Neither);
    block.figures.extend([
        number("connections lost", writers.troubles.connections_lost),
        number("writes acknowledged", account.acknowledged),
        number("acknowledged writes lost", account.lost),
        number("znodes found on the new member", count.found),
        number("znodes missing there", count.missing),
    ]);
    block.trouble += account.trouble();
    block.notes.extend(account.note());
    restarted.add(member.address, rejoined.output.clone());
    if turn.may_keep {
        block.notes.extend(restarted.notes());
    }
    turn.say("removing");
    let mut remover = Driver::connect(&target.addresses, args.tree.clients, SESSION_TIMEOUT_MS)?;
    block.blame(&written.remove(&mut remover, target)?);
    if args.tree.keep && turn.may_keep {
        block.notes.push(format!("the tree is kept: {}", tree.root()));
    } else {
        block.blame(&tree.remove(&mut remover, target)?);
    }
    remover.close();
    Ok(block)
}

/// For each stage the names of the writers' figures: rate, p99 latency, longest gap between two
/// acknowledgements.
const STAGES: [[&str; 3]; 4] = [
    ["writes before", "write p99 before", "longest gap before"],
    ["writes while it is away", "write p99 while it is away", "longest gap while it is away"],
    ["writes while it joins", "write p99 while it joins", "longest gap while it joins"],
    ["writes after it serves", "write p99 after it serves", "longest gap after it serves"],
];

/// How the follower's restart went.
struct Rejoined {
    /// The time from SIGTERM until no thread of the process was left.
    gone: Duration,
    /// The time from the new start until the follower opened a session and answered.
    serves: Duration,
    /// CPU time of the new process until it served; `None` if it is not known.
    cpu_ns: Option<u64>,
    /// The file with the output of the new process.
    output: PathBuf,
}

fn stop_and_start(
    member: &Member,
    folders: &[PathBuf],
    stages: &Stages,
    args: &JoinArgs,
    path: &str,
) -> anyhow::Result<Rejoined> {
    std::thread::sleep(Duration::from_secs(args.around));
    stages.next();
    let gone = member.stop()?;
    for folder in folders {
        empty(folder).map_err(|error| anyhow::anyhow!("{}: {error}", folder.display()))?;
    }
    std::thread::sleep(Duration::from_secs(args.away).saturating_sub(gone));
    stages.next();
    let started = member.start()?;
    let output = started.output.clone();
    let serves = started.wait_until_it_serves(&Probe::Znode(path.to_string()))?;
    let cpu_ns = member.cpu_ns_now();
    stages.next();
    std::thread::sleep(Duration::from_secs(args.around));
    Ok(Rejoined { gone, serves, cpu_ns, output })
}

/// Deletes everything in a data folder except [`KEPT`].
fn empty(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name() == KEPT {
            continue;
        }
        match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

fn figures(writers: &Writers<'_>, stages: &Stages, rejoined: &Rejoined) -> Vec<Figure> {
    let mut figures = Vec::new();
    for (stage, (names, took)) in STAGES.iter().zip(stages.durations()).enumerate() {
        let (tally, [rate, p99, gap]) = (&writers.tallies[stage], names);
        let per_s = tally.acknowledged as f64 / took.as_secs_f64();
        let ms = tally.latencies.percentile_us(99.0) / 1_000.0;
        figures.extend([
            Figure::once(rate, "per s", per_s, Good::More),
            Figure::once(p99, "ms", ms, Good::Less),
            Figure::once(gap, "ms", tally.gap_ns as f64 / 1e6, Good::Less),
        ]);
    }
    let ms = |it: Duration| it.as_secs_f64() * 1_000.0;
    let cpu_ms = rejoined.cpu_ns.map(|ns| ns as f64 / 1e6);
    let longest_us = writers.gaps(2).max_us();
    figures.extend([
        Figure::once("longest gap of a session, joining", "ms", longest_us / 1_000.0, Good::Less),
        Figure::once("process gone after SIGTERM", "ms", ms(rejoined.gone), Good::Neither),
        Figure::once("serves after its start", "ms", ms(rejoined.serves), Good::Less),
        Figure::once("its CPU until it serves", "ms", cpu_ms, Good::Less),
    ]);
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::null_server::NullServer;

    /// Three sessions write in the last stage. The earlier stages were too short for a write.
    #[test]
    fn each_stage_has_its_figures() {
        let null = NullServer::start(20).unwrap();
        let args = TreeArgs { parents: 1, children: 3, size: 20, clients: 1, keep: false };
        let tree = Tree::new(&args, "t");
        let mut driver = Driver::connect(&null.target().addresses, 3, 10_000).unwrap();
        let stages = Stages::start();
        for _ in 1..STAGES.len() {
            stages.next();
        }
        stages.end(true);
        let mut writers = Writers::new(&tree, &stages);
        writers.run(&mut driver).unwrap();
        let (gone, serves) = (Duration::from_millis(5), Duration::from_millis(1_500));
        let rejoined = Rejoined { gone, serves, cpu_ns: None, output: PathBuf::from("log") };
        let figures = figures(&writers, &stages, &rejoined);
        let of = |name| {
            let figure = figures.iter().find(|figure| figure.name == name).unwrap();
            figure.values.first().copied()
        };
        assert_eq!(of("writes before"), Some(0.0));
        assert!(of("writes after it serves").unwrap() > 0.0);
        assert_eq!(of("serves after its start"), Some(1_500.0));
        assert_eq!(of("its CPU until it serves"), None);
        let mut names: Vec<_> = figures.iter().map(|figure| figure.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), figures.len());
    }

    #[test]
    fn a_folder_is_emptied_but_for_the_number() {
        let folder = std::env::temp_dir().join(format!("quorate-empty-{}", std::process::id()));
        fs::create_dir_all(folder.join("version-2/deep")).unwrap();
        fs::write(folder.join("version-2/deep/log.1"), b"1").unwrap();
        fs::write(folder.join("boot"), b"1").unwrap();
        fs::write(folder.join("myid"), b"3").unwrap();
        empty(&folder).unwrap();
        let names: Vec<_> =
            fs::read_dir(&folder).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(names, ["myid"]);
        fs::remove_dir_all(&folder).unwrap();
        assert!(empty(&folder).is_err());
    }
}

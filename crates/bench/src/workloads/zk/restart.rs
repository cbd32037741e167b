//! How long a killed server is away: a tree is filled, the server gets SIGKILL at the last reply,
//! is started again, and is asked for the znode that was acknowledged last.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitCode};
use std::time::{Duration, Instant};

use clap::Args;
use zk::ErrorCode;
use zk::request::{ReadKind, ReadRequest, Request};

use crate::limits::{
    ATTEMPT_LIMIT, EXIT_LIMIT, READ_BYTES, RECONNECT_PAUSE, RESTART_LIMIT, SESSION_TIMEOUT_MS,
};
use crate::measure::comparison::{Comparison, Rounds, Turn, Where};
use crate::measure::driver::Driver;
use crate::measure::figures::{Block, Figure, Good};
use crate::servers::launch::Launch;
use crate::servers::process::Processes;
use crate::servers::target::Target;
use crate::workloads::zk::client::{Incoming, Session};
use crate::workloads::zk::tree::{Tree, TreeArgs};

/// Options of `quorate bench zk-restart`.
#[derive(Debug, Args)]
// Each round starts its server afresh.
#[command(mut_arg("warmup", |it| it.default_value("0")))]
pub struct RestartArgs {
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    repeat: Rounds,
    #[command(flatten)]
    tree: TreeArgs,
    /// How to start the server again, for sh [default: as its processes were started]
    #[arg(long, value_name = "CMD")]
    start: Option<String>,
    /// How to start the compared server again, for sh
    #[arg(long, value_name = "CMD", requires = "compare")]
    compare_start: Option<String>,
}

/// Runs `quorate bench zk-restart` and prints it.
///
/// # Errors
/// An option is wrong, a server is not on this machine or does not come back, or a file cannot be
/// written.
pub fn command(args: &RestartArgs) -> anyhow::Result<ExitCode> {
    args.tree.check()?;
    let about = format!(
        "{}; then SIGKILL at the last reply; time counts from that. The log was written just before \
         and is in the page cache, where it was written through that",
        args.tree
    );
    let mut comparison = Comparison::start(&args.at, "zk-restart", &about)?;
    let starts = [&args.start, &args.compare_start];
    // This check comes first: a server that cannot be killed or started cannot be measured.
    let launches = comparison.targets().iter().zip(starts);
    let launches: Vec<Vec<Launch>> = launches
        .map(|(target, start)| launches_of(target, start.as_deref()))
        .collect::<anyhow::Result<_>>()?;
    let work = format!("{} creates, a kill and a start", args.tree.znode_count());
    comparison
        .measure(&args.repeat, &work, |turn| restart(turn, &launches[turn.place], &args.tree))?;
    comparison.finish()
}

/// The ways to start the processes of a target again.
///
/// # Errors
/// Its processes are not on this machine, or belong to another user.
pub fn launches_of(target: &Target, start: Option<&str>) -> anyhow::Result<Vec<Launch>> {
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

fn restart(turn: &Turn<'_>, launches: &[Launch], args: &TreeArgs) -> anyhow::Result<Block> {
    // The processes of the target may be those that the round before started.
    let mut target = turn.target.clone();
    target.find_processes();
    let target = &target;
    let mut block = target.block();
    let mut tree = Tree::new(args, &turn.label);
    turn.say("filling");
    let before = target.memory();
    let mut driver = Driver::connect(&target.addresses, args.clients, SESSION_TIMEOUT_MS)?;
    let made = tree.make(&mut driver, target)?;
    turn.say("killing");
    let path = tree.last_child();
    let outage = kill_and_start(target, launches, |children, output| {
        first_answer(&target.addresses, &path, children, output, RECONNECT_PAUSE)
    })?;
    drop(driver);
    turn.say("counting");
    let mut back = target.clone();
    back.find_processes();
    let at_first_ns = outage.cpu_ns;
    let memory = back.memory();
    let mut driver = Driver::connect(&back.addresses, args.clients, SESSION_TIMEOUT_MS)?;
    let (counted, count) = tree.count(&mut driver, &back)?;
    let ms = |it: Duration| it.as_secs_f64() * 1_000.0;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    block.figures.extend([
        Figure::once(
            "znodes acknowledged",
            "",
            (made.operations - made.errors) as f64,
            Good::Neither,
        ),
        Figure::once("znodes found", "", count.found as f64, Good::Neither),
        Figure::once("znodes missing", "", count.missing as f64, Good::Neither),
        Figure::once("VmRSS before", "MiB", before.map(|it| mib(it.resident)), Good::Neither),
        Figure::once("creates", "per s", made.rate(), Good::More),
        Figure::once("processes gone", "ms", ms(outage.gone), Good::Neither),
        Figure::once("first answer", "ms", ms(outage.answered), Good::Less),
        Figure::once(
            "server CPU to first answer",
            "ms",
            at_first_ns.map(|ns| ns as f64 / 1e6),
            Good::Less,
        ),
        Figure::once("VmRSS after", "MiB", memory.map(|it| mib(it.resident)), Good::Less),
        Figure::once("VmHWM after", "MiB", memory.map(|it| mib(it.peak)), Good::Less),
    ]);
    block.blame(&made);
    block.blame(&counted);
    if outage.first != ErrorCode::OK {
        block.trouble += 1;
        block.notes.push(format!("the last znode was answered with error {}", outage.first.0));
    }
    // The processes of earlier rounds are gone, so only the last round names them.
    if turn.may_keep {
        block.notes.push(format!(
            "started again as process {}; it prints to {}",
            outage.pids,
            outage.output.display()
        ));
    }
    if args.keep && turn.may_keep {
        block.notes.push(format!("the tree is kept: {}", tree.root()));
    } else {
        block.blame(&tree.remove(&mut driver, &back)?);
    }
    driver.close();
    Ok(block)
}

/// The time between the last reply before the kill and the first one after it.
#[derive(Debug)]
pub struct Outage<T> {
    /// The time from the kill until no thread was left.
    pub gone: Duration,
    /// The time from the kill until the read was answered.
    pub answered: Duration,
    /// What that answer says.
    pub first: T,
    /// CPU time of the new processes until that answer.
    pub cpu_ns: Option<u64>,
    /// The ids of the new processes, as text.
    pub pids: String,
    /// The file that they print to.
    pub output: PathBuf,
}

/// Ends the processes of a target by SIGKILL, starts them again, and calls `first`, which returns
/// when the first answer has come. `first` gets the processes of the start commands, and the file
/// that they print to.
///
/// # Errors
/// The processes do not end, or cannot be started, or `first` fails.
pub fn kill_and_start<T>(
    target: &Target,
    launches: &[Launch],
    first: impl FnOnce(&mut [Child], &Path) -> anyhow::Result<T>,
) -> anyhow::Result<Outage<T>> {
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
    let first = first(&mut children, &output)?;
    let answered = killed.elapsed();
    let back = Processes::listening(&target.addresses);
    let pids: Vec<String> = back.pids().iter().map(u32::to_string).collect();
    Ok(Outage { gone, answered, first, cpu_ns: back.cpu_ns(), pids: pids.join(" "), output })
}

/// Fails if a command that started a server has failed. A start command may succeed and end while
/// the server runs on its own.
///
/// # Errors
/// One has failed, or its status cannot be asked for.
pub fn check_children(children: &mut [Child], output: &Path) -> anyhow::Result<()> {
    for child in children {
        let status = child.try_wait()?.filter(|status| !status.success());
        let log = output.display();
        anyhow::ensure!(status.is_none(), "the server does not start again: see {log}");
    }
    Ok(())
}

/// Asks the servers in turn until one answers, even with an error, with a pause between attempts.
///
/// # Errors
/// A command that started a server has failed, or no server answers for [`RESTART_LIMIT`].
pub fn first_answer(
    addresses: &[SocketAddr],
    path: &str,
    children: &mut [Child],
    output: &Path,
    pause: Duration,
) -> anyhow::Result<ErrorCode> {
    let began = Instant::now();
    let log = output.display();
    for address in addresses.iter().cycle() {
        let failed = match ask(address, path) {
            Ok(error) => return Ok(error),
            Err(failed) => failed,
        };
        check_children(children, output)?;
        anyhow::ensure!(began.elapsed() < RESTART_LIMIT, "it does not come back ({failed}): {log}");
        std::thread::sleep(pause);
    }
    unreachable!("a target has an address, and they go round")
}

/// Makes one attempt: a session, and a read in it.
fn ask(address: &SocketAddr, path: &str) -> anyhow::Result<ErrorCode> {
    let mut stream = TcpStream::connect_timeout(address, ATTEMPT_LIMIT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(ATTEMPT_LIMIT))?;
    let mut session = Session::connect(SESSION_TIMEOUT_MS);
    // Both requests go at once: a server reads the second when it has answered the first.
    let read = ReadRequest { kind: ReadKind::GetData, path, watch: false };
    session.send(&Request::Read(read), 0);
    stream.write_all(session.output())?;
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = stream.read(&mut buffer)?;
        anyhow::ensure!(count > 0, "the connection was closed");
        session.input().extend_from_slice(&buffer[..count]);
        while let Some(incoming) = session.take()? {
            if let Incoming::Reply { header, .. } = incoming {
                return Ok(header.error);
            }
        }
    }
}

#[cfg(test)]
mod tests;

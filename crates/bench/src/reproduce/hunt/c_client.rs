//! Repeats one cell (a number of servers, cores and clients) with ZooKeeper's stock C client. The
//! document's script used that client through its Python binding. The difference between its rates
//! and those of our generator is time that the client costs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use results::schema::Test;

use super::{ALL, CPU, Cell, PHASES, operations};
use crate::measure::figures::{Block, Figure, Good};
use crate::measure::record::{OURS, PEER};
use crate::measure::report::Shape;
use crate::reproduce::session::{Session, Site, Work};
use crate::servers::interrupt::Interrupt;
use crate::servers::target::Target;

/// The script of the source tree that compiles and runs the client.
const SCRIPT: &str = "tests/clients/run-c-latencies.sh";

/// Znodes of each client in the trial run, which tells whether the client can be run at all.
const TRIAL_ZNODES: usize = 10;

/// The figures that short tables show.
const HEADLINES: [&str; 3] = [ALL, PHASES[0][1], PHASES[2][1]];

/// The program that runs the client: `asked`, or else the script if it exists.
pub fn program(asked: Option<&Path>) -> Option<PathBuf> {
    match asked {
        Some(path) => Some(path.to_path_buf()),
        None => Some(PathBuf::from(SCRIPT)).filter(|script| script.is_file()),
    }
}

/// Measures a cell with the C client. If the client cannot be run at all, that is no error: the
/// report says so. False means that the run was interrupted.
///
/// # Errors
/// A run of the client fails after the trial run has succeeded.
pub fn measure(
    session: &mut Session,
    site: &Site,
    (cell, shape): (Cell, &Shape),
    program: &Path,
) -> anyhow::Result<bool> {
    let trial = Shape { znode_count: TRIAL_ZNODES, ..*shape };
    let folder = session.folder.path().join("c-client");
    std::fs::create_dir(&folder)?;
    let client = Client { program, folder };
    let first = &site.servers[0].target;
    if let Err(error) = client.run(first, 1, &trial) {
        let why = format!("the stock C client was not run: {error:#}");
        session.results().deviations.push(why);
        return Ok(true);
    }
    let test = Test {
        // Its ratios differ from those of the generator, and must not enter the same mean.
        group: format!("{}, stock C client", Cell::group(cell.servers)),
        title: title(cell),
        limit: "the client: each of its threads has one session".to_string(),
        ..Test::default()
    };
    let work = Work {
        test,
        what: format!("{} operations of each client", operations(shape)),
        units: cell.units(),
        headlines: &HEADLINES,
        cpu: None,
    };
    session.expect(cell.units() * f64::from(session.repeat.all()) * site.servers.len() as f64);
    let goes_on =
        session.measure(site, work, |turn| client.run(turn.target, cell.clients, shape))?;
    add_remark(session, cell);
    Ok(goes_on)
}

fn title(cell: Cell) -> String {
    format!("{}, stock C client", cell.title())
}

/// Adds a remark to the test: the rates that the client and the generator reached on the same
/// servers.
fn add_remark(session: &mut Session, cell: Cell) {
    let tests = &session.results().tests;
    let rate = |title: &str, system: &str| {
        let test = tests.iter().find(|test| test.title == title)?;
        test.of(system)?.figure(ALL)?.median()
    };
    let (by_client, by_generator) = (title(cell), cell.title());
    let of = |(system, name): (&str, &str)| {
        let (client, own) = rate(&by_client, system).zip(rate(&by_generator, system))?;
        Some(format!("{name} {client:.0} and {own:.0} per s ({:.1} times)", own / client))
    };
    let both: Vec<String> =
        [(OURS, "ours"), (PEER, "the real server")].into_iter().filter_map(of).collect();
    let remark = format!(
        "all phases by the stock C client, and by the generator: {}; what lies between is the \
         client's time",
        both.join("; ")
    );
    let mut tests = session.results().tests.iter_mut();
    if let Some(test) = tests.find(|test| test.title == by_client).filter(|_| !both.is_empty()) {
        test.remarks.push(remark);
    }
}

/// The program that runs the client.
struct Client<'a> {
    program: &'a Path,
    /// The folder that it compiles the client in.
    folder: PathBuf,
}

impl Client<'_> {
    /// Runs the client once and reads its figures.
    fn run(&self, target: &Target, clients: usize, shape: &Shape) -> anyhow::Result<Block> {
        let hosts: Vec<String> = target.addresses.iter().map(ToString::to_string).collect();
        let counts = [clients, shape.znode_count, shape.watch_multiple].map(|it| it.to_string());
        let mut command = Command::new(self.program);
        command.arg(hosts.join(",")).args(&counts).env("PEER_TMP", &self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = Interrupt::start(|| Ok(command.spawn()?));
        let output = started.and_then(|child| Ok(child.wait_with_output()?));
        let output = output.with_context(|| self.program.display().to_string())?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        let complaint = complaint.trim().lines().last().unwrap_or_default();
        ensure!(output.status.success(), "{}: {complaint}", self.program.display());
        let mut block = target.block();
        read(&String::from_utf8_lossy(&output.stdout), &mut block)?;
        Ok(block)
    }
}

/// Reads the client's output: for each phase its name, its rate, and the servers' CPU for each
/// operation.
fn read(text: &str, block: &mut Block) -> anyhow::Result<()> {
    let values = |name: &str| {
        let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
        let mut words = rest.split_whitespace();
        let rate: f64 = words.next()?.parse().ok()?;
        let cpu_us: f64 = words.nth(1)?.parse().ok()?;
        Some((rate, cpu_us))
    };
    // The client's names of the phases, in the order of [`PHASES`].
    let names = [
        "create ",
        "set ",
        "get ",
        "delete ",
        "create ephemeral ",
        "watch ",
        "delete eph., event ",
    ];
    let mut all = vec![("all ", ALL, CPU)];
    all.extend(names.into_iter().zip(PHASES).map(|(name, it)| (name, it[1], it[2])));
    for (name, rate_name, cpu_name) in all {
        let found = values(name).with_context(|| format!("the client does not print {name:?}"))?;
        block.figures.push(Figure::once(rate_name, "per s", found.0, Good::More));
        block.figures.push(Figure::once(cpu_name, "us", found.1, Good::Less));
    }
    let errors = text.lines().find_map(|line| line.strip_suffix(" errors")?.parse().ok());
    block.trouble += errors.unwrap_or(0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
create                  20312 ops/s     5.10 us of server CPU an operation
set                     21000 ops/s     3.00 us of server CPU an operation
get                     40000 ops/s     1.00 us of server CPU an operation
delete                  22000 ops/s     3.10 us of server CPU an operation
create ephemeral        20000 ops/s     4.00 us of server CPU an operation
watch                   50000 ops/s     0.70 us of server CPU an operation
delete eph., event      15000 ops/s     4.20 us of server CPU an operation
all                     30000 ops/s     2.20 us of server CPU an operation
";

    #[test]
    fn the_lines_of_the_client_are_figures() {
        let mut block = Block::default();
        read(TEXT, &mut block).unwrap();
        let of = |name: &str| block.figures.iter().find(|it| it.name == name).unwrap().values[0];
        assert_eq!((of(ALL), of(CPU)), (30_000.0, 2.2));
        // One name is the beginning of another.
        assert_eq!((of(PHASES[0][1]), of(PHASES[4][1])), (20_312.0, 20_000.0));
        assert_eq!((of(PHASES[3][2]), of(PHASES[6][2])), (3.1, 4.2));
        assert_eq!(block.trouble, 0);
        let mut broken = Block::default();
        read(&format!("{TEXT}7 errors\n"), &mut broken).unwrap();
        assert_eq!(broken.trouble, 7);
        let error = read("create  x", &mut Block::default()).unwrap_err().to_string();
        assert!(error.contains("all"), "{error}");
    }

    #[test]
    fn the_script_is_taken_where_it_is() {
        assert_eq!(program(Some(Path::new("/a/b"))), Some("/a/b".into()));
        // Tests run in the folder of the crate, which has no such script.
        assert_eq!(program(None), None);
    }
}

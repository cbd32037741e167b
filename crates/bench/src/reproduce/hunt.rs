//! `quorate reproduce hunt`: P. Hunt's "ZooKeeper service latencies under various loads &
//! configurations" (2009), made with his smoketest: 1 and 3 servers of 1, 2 and 4 cores, 1, 10 and
//! 20 clients, seven phases.
//!
//! A *cell* is one combination of servers, cores and clients; there are 18.
//!
//! For each cell the document prints the lines of the last, slowest client, and the seconds of the
//! whole test. [`crate::workloads::zk::latencies`] does what the smoketest does.

mod c_client;

use std::path::Path;
use std::process::ExitCode;

use results::schema::{Chart, Published, Role, Series, Test};

use super::ReproduceArgs;
use super::servers::Servers;
use super::session::{self, CpuUse, Plan, Session, Site, Work};
use crate::measure::figures::{Block, Figure, Good};
use crate::measure::report::{Run, Shape};
use crate::servers::null_server::NullServer;
use crate::servers::target::{Scheme, Target};
use crate::workloads::zk::latencies;

/// The published lines of the slowest client: 126, seven phases for each of 18 cells.
const PHASES_CSV: &str = include_str!("../../published/hunt_phases.csv");
/// The published seconds of each cell.
const ELAPSED_CSV: &str = include_str!("../../published/hunt_elapsed.csv");

/// The numbers of servers, cores and clients in the document.
const SERVERS: [usize; 2] = [1, 3];
const CORES: [usize; 3] = [1, 2, 4];
const CLIENTS: [usize; 3] = [1, 10, 20];

/// Znodes of each client with `--quick`; the document has 10,000.
const QUICK_ZNODES: usize = 500;

/// The timeout of the sessions, ms.
const TIMEOUT_MS: i32 = 5_000;

/// For each phase: the names of our figures (rate of the slowest client, rate of all clients, CPU
/// of the servers), and the phase's name in [`PHASES_CSV`].
const PHASES: [[&str; 4]; 7] = [
    ["create", "create, all clients", "create, server CPU", "create"],
    ["set", "set, all clients", "set, server CPU", "set"],
    ["get", "get, all clients", "get, server CPU", "get"],
    ["delete", "delete, all clients", "delete, server CPU", "delete"],
    [
        "create ephemeral",
        "create ephemeral, all clients",
        "create ephemeral, server CPU",
        "create_ephemeral",
    ],
    ["watch", "watch, all clients", "watch, server CPU", "watch"],
    [
        "delete ephemeral, notified",
        "delete ephemeral, notified, all clients",
        "delete ephemeral, notified, server CPU",
        "delete_ephemeral_notified",
    ],
];

const ALL: &str = "all phases, all clients";
const TIME: &str = "time";
const CPU: &str = "server CPU per operation";

/// The figures that short tables show: the time, the rate of all phases, and a rate for each phase.
const HEADLINES: [&str; 9] = [
    TIME,
    ALL,
    PHASES[0][0],
    PHASES[1][0],
    PHASES[2][0],
    PHASES[3][0],
    PHASES[4][0],
    PHASES[5][0],
    PHASES[6][0],
];

/// One test of the document: a combination of servers, cores and clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    servers: usize,
    cores: usize,
    clients: usize,
}

/// Runs `quorate reproduce hunt`.
///
/// # Errors
/// Servers do not start, a test fails, or a file cannot be written.
pub fn command(args: &ReproduceArgs) -> anyhow::Result<ExitCode> {
    let makers = args.zk_makers()?;
    let repeat = args.repeat(6);
    let shape = shape(args.quick);
    let cells: Vec<Cell> = cells().filter(|cell| args.wants(&cell.title())).collect();
    anyhow::ensure!(!cells.is_empty(), "--only: no test has that in its title");
    let runs = session::runs(&repeat, makers.len());
    let mut session = Session::start(Plan {
        workload: "reproduce hunt".to_string(),
        title: "ZooKeeper service latencies (P. Hunt, 2009)".to_string(),
        is_quick: args.quick,
        repeat,
        no_peer: args.no_peer(&makers),
        dir: args.dir.clone(),
        log_dir: args.log_dir.clone(),
        makers,
        outputs: args.outputs(),
        work: cells.iter().map(|cell| cell.units() * runs).sum(),
    })?;
    describe(&mut session, &shape);
    // A quick run does not try the C client, which has to be compiled.
    let client = match &args.c_client {
        None if args.quick => None,
        asked => c_client::program(asked.as_deref()),
    };
    let measured = measure_all(&mut session, &cells, (&shape, client.as_deref()));
    session.results().charts = SERVERS.map(|servers| chart(&session, servers)).to_vec();
    session.finish_after(measured)
}

fn shape(is_quick: bool) -> Shape {
    Shape {
        znode_count: if is_quick { QUICK_ZNODES } else { 10_000 },
        znode_bytes: 100,
        watch_multiple: 5,
        is_synchronous: false,
        rate: None,
        burst: 1,
        timeout_ms: TIMEOUT_MS,
    }
}

fn cells() -> impl Iterator<Item = Cell> {
    let of_servers = |servers| {
        CORES.into_iter().flat_map(move |cores| {
            CLIENTS.into_iter().map(move |clients| Cell { servers, cores, clients })
        })
    };
    SERVERS.into_iter().flat_map(of_servers)
}

/// Measures the cells in order. Cells with the same servers and cores use the same started servers.
/// An interrupt ends it early, and is no error.
fn measure_all(
    session: &mut Session,
    cells: &[Cell],
    (shape, client): (&Shape, Option<&Path>),
) -> anyhow::Result<()> {
    let by_client = cell_by_client(cells, session.results().machine.cores);
    let runs = session.runs();
    for cell in cells {
        if session.split(cell.cores).is_none() {
            session.expect(-cell.units() * runs);
        }
    }
    for group in
        cells.chunk_by(|one, other| (one.servers, one.cores) == (other.servers, other.cores))
    {
        let Cell { servers, cores, .. } = group[0];
        let Some(split) = session.split(cores) else {
            let has = session.results().machine.cores;
            let why = format!("this machine has {has} cores");
            group.iter().for_each(|cell| session.skip(cell.test(false), why.clone()));
            continue;
        };
        let site = session.start_servers(Scheme::Zk, servers, split)?;
        // The null server is a thread, and runs on the cores of the servers.
        site.split.servers.take()?;
        let null = NullServer::start(shape.znode_bytes)?;
        let null_servers = Servers::from_null(null.target());
        site.split.generator.take()?;
        session.note_system(&null_servers);
        for cell in group {
            let mut goes_on = measure(session, &site, &null_servers, (*cell, shape))?;
            if let Some(client) = client.filter(|_| goes_on && Some(*cell) == by_client) {
                goes_on = c_client::measure(session, &site, (*cell, shape), client)?;
            }
            if !goes_on {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The cell that is also measured with the stock C client: ten clients and one server, with two
/// cores if the machine has them.
fn cell_by_client(cells: &[Cell], cores: usize) -> Option<Cell> {
    let is_it =
        |cell: &&Cell| cell.servers == 1 && cell.clients == 10 && cell.cores <= cores.min(2);
    cells.iter().filter(is_it).max_by_key(|cell| cell.cores).copied()
}

/// Measures a cell and the generator's ceiling for it. False means that the run was interrupted.
fn measure(
    session: &mut Session,
    site: &Site,
    null: &Servers,
    (cell, shape): (Cell, &Shape),
) -> anyhow::Result<bool> {
    let what = format!("{} operations of each client", operations(shape));
    let work = || Work {
        test: cell.test(site.split.is_apart()),
        what: what.clone(),
        units: cell.units(),
        headlines: &HEADLINES,
        cpu: Some(CpuUse::FIRST_RATE),
    };
    let run = |target: &Target, label: &str| {
        let run = latencies::run(target, cell.clients, shape, label)?;
        Ok(block(target, &run, shape))
    };
    let goes_on = session.measure(site, work(), |turn| {
        let label = format!("{}-{}-{}", cell.clients, cell.cores, turn.label);
        run(turn.target, &label)
    })?;
    if !goes_on {
        return Ok(false);
    }
    session.measure_ceiling(null, work(), |turn| run(turn.target, &turn.label))
}

/// How many operations each client makes in the whole test.
fn operations(shape: &Shape) -> usize {
    shape.znode_count * (6 + shape.watch_multiple)
}

/// The figures of one run of a cell.
fn block(target: &Target, run: &Run, shape: &Shape) -> Block {
    let mut block = target.block();
    let once = |name, unit, value, good| Figure::once(name, unit, value, good);
    block.figures.push(once(TIME, "s", run.all.seconds().into(), Good::Less));
    block.figures.push(once(ALL, "per s", run.all.rate().into(), Good::More));
    for ([slowest, all, cpu, _], phase) in PHASES.iter().zip(&run.phases) {
        let count = phase.operations as f64 / run.clients as f64;
        let slowest_s = phase.client_ns.iter().max().map(|ns| *ns as f64 / 1e9);
        let rate = slowest_s.map(|s| count / s.max(1e-9));
        block.figures.push(once(slowest, "per s", rate, Good::More));
        block.figures.push(once(all, "per s", phase.rate().into(), Good::More));
        block.figures.push(once(cpu, "us", phase.server_us(), Good::Less));
        block.latencies.push((slowest, phase.latencies.clone()));
    }
    block.figures.push(once(CPU, "us", run.all.server_us(), Good::Less));
    block.figures.push(once(
        "generator CPU per operation",
        "us",
        run.all.own_us().into(),
        Good::Neither,
    ));
    let notified = run.notified_ms.iter().max().copied().unwrap_or(0) as f64;
    let name = "last event after the last delete";
    block.figures.push(once(name, "ms", notified.into(), Good::Less));
    let memory = target.memory().map(|memory| memory.resident as f64 / f64::from(1 << 20));
    block.figures.push(once("VmRSS", "MiB", memory, Good::Less));
    block.blame(&run.all);
    debug_assert_eq!(run.all.operations, (run.clients * operations(shape)) as u64);
    block
}

impl Cell {
    fn title(self) -> String {
        let Cell { servers, cores, clients } = self;
        let s = |count: usize| if count == 1 { "" } else { "s" };
        format!(
            "{servers} server{}, {cores} core{}, {clients} client{}",
            s(servers),
            s(cores),
            s(clients)
        )
    }

    /// The relative duration of a run of this cell: most of it grows with the clients.
    fn units(self) -> f64 {
        self.clients as f64 + 2.0
    }

    fn group(servers: usize) -> String {
        if servers == 1 { "1 server".to_string() } else { format!("{servers} servers") }
    }

    fn test(self, is_apart: bool) -> Test {
        let Cell { servers, cores, clients } = self;
        let mut remarks = Vec::new();
        if clients == 1 {
            let why = "with one client the document's client, a script of Python, was the limit: \
                       its rates say little of the server";
            remarks.push(why.to_string());
        }
        if servers > 1 {
            remarks.push(format!(
                "all {servers} servers share {cores} core{}; in the document each had so many of a \
                 machine of its own",
                if cores == 1 { "" } else { "s" }
            ));
        }
        if !is_apart {
            remarks.push("the generator has no core of its own here".to_string());
        }
        Test {
            group: Cell::group(servers),
            title: self.title(),
            published: self.published(),
            remarks,
            ..Test::default()
        }
    }

    /// The figures that the document has for this cell.
    fn published(self) -> Vec<Published> {
        let key = [self.servers, self.cores, self.clients].map(|it| it.to_string());
        let rows = |csv: &'static str| {
            let key = key.clone();
            let fields = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
            fields.filter(move |it| it.len() > 3 && it[..3].iter().eq(&key))
        };
        let of = |figure: &str, value: f64, text: String| Published {
            figure: figure.to_string(),
            value: Some(value),
            text,
        };
        let mut all = Vec::new();
        for row in rows(ELAPSED_CSV) {
            let Ok(seconds) = row[3].parse::<f64>() else { continue };
            all.push(of(TIME, seconds, format!("{seconds} s")));
            let rate = self.clients as f64 * 110_000.0 / seconds;
            all.push(of(ALL, rate, format!("{rate:.0} per s: clients x 110,000 / {seconds} s")));
        }
        for row in rows(PHASES_CSV) {
            let phase = PHASES.iter().find(|names| names[3] == row[4]);
            let Some((names, Ok(rate))) = phase.zip(row.last().map(|it| it.parse::<f64>())) else {
                continue;
            };
            all.push(of(names[0], rate, format!("{rate:.0} per s")));
        }
        all
    }
}

/// Fills in what the results say about the test: what is done, what differs from the document, and
/// what is doubtful in the document.
fn describe(session: &mut Session, shape: &Shape) {
    let znodes = shape.znode_count;
    let about = [
        format!(
            "each client makes {znodes} znodes of 100 bytes, sets, reads and deletes them, makes \
             {znodes} ephemerals, watches each five times, and deletes them; asynchronously, so that \
             all requests of a phase are sent before the first answer is awaited"
        ),
        "a phase has the rate of the slowest client, as the document; \"all phases, all clients\" is \
         clients x operations / time; the session timeout is 5 s"
            .to_string(),
        "published: ZooKeeper 3.2.1 on two 4-core Xeons of 2.5 GHz limited to so many cores, one \
         7200 rpm SATA disk for log and data, 1 GbE, a heap of 512 MB"
            .to_string(),
    ];
    let deviations = [
        "servers and generator are on one machine, which they share where the text of a test says so; \
         in the document each had its own",
        "the clients are in one process and begin each phase together; in the document each was a \
         process, begun by hand at about the same time, so that the slowest one had less company in \
         the end",
        "each client has a root of its own",
        "cores are logical ones, the first by their numbers: two may be threads of one core; the \
         servers of the other system stay up on them, idle",
        "the generator speaks the protocol itself; the document's was a script over the C client \
         library: see the ceiling in each row",
        "the servers are as they are, not limited in memory; the real server has the heap that its \
         scripts give it",
    ];
    let traps = [
        "the document's text names other servers than its command line (60, 62, 63 and 60, 61, 63)",
        "\"for 50k znodes\" means watches: 10,000 ephemerals, five watches each",
        "its rates are those of the last, slowest client; those of all clients follow from the seconds",
        "with one client its client is the limit, not the server",
        "log and data were on one 7200 rpm disk: a write took milliseconds there",
    ];
    session.results().about = about.to_vec();
    session.results().deviations = deviations.map(str::to_string).to_vec();
    session.results().traps = traps.map(str::to_string).to_vec();
}

/// The document's chart for this number of servers: the seconds of each cell.
fn chart(session: &Session, servers: usize) -> Chart {
    let cells: Vec<Cell> = cells().filter(|cell| cell.servers == servers).collect();
    let found = |role: Role| {
        let of_cell = |cell: &Cell| {
            let id = &session.record.results.of_role(role)?.id;
            let mut tests = session.record.results.tests.iter();
            tests.find(|test| test.title == cell.title())?.of(id)?.figure(TIME)?.median()
        };
        cells.iter().map(of_cell).collect()
    };
    let published = |cell: &Cell| {
        let mut all = cell.published().into_iter();
        all.find(|it| it.figure == TIME)?.value
    };
    let label = |cell: &Cell| format!("{}/{}", cell.cores, cell.clients);
    let series = |name: &str, values| Series { name: name.to_string(), values };
    Chart {
        title: format!("The whole test, {}", Cell::group(servers)),
        x: "cores/clients".to_string(),
        unit: "s".to_string(),
        is_logarithmic: true,
        labels: cells.iter().map(label).collect(),
        series: vec![
            series("published", cells.iter().map(published).collect()),
            series("real server here", found(Role::Peer)),
            series("ours here", found(Role::Ours)),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_published_figure_belongs_to_a_cell() {
        let all: Vec<Published> = cells().flat_map(Cell::published).collect();
        assert_eq!(all.iter().filter(|it| it.figure == TIME).count(), 18);
        let rates = all.iter().filter(|it| PHASES.iter().any(|names| names[0] == it.figure));
        assert_eq!(rates.count(), 126);
        let cell = Cell { servers: 3, cores: 4, clients: 20 };
        let time = cell.published().into_iter().find(|it| it.figure == TIME).unwrap();
        assert_eq!(time.value, Some(53.0));
        // 20 x 110,000 / 53.
        let rate = cell.published().into_iter().find(|it| it.figure == ALL).unwrap();
        assert_eq!(rate.value.unwrap().round(), 41_509.0);
    }

    #[test]
    fn a_run_has_the_rate_of_its_slowest_client() {
        let null = NullServer::start(100).unwrap();
        let shape = Shape { znode_count: 20, ..shape(true) };
        let run = latencies::run(&null.target(), 3, &shape, "t").unwrap();
        let block = block(&null.target(), &run, &shape);
        let of = |name: &str| block.figures.iter().find(|it| it.name == name).unwrap().values[0];
        let slowest_ns = *run.phases[2].client_ns.iter().max().unwrap();
        assert_eq!(of("get"), 20.0 / (slowest_ns as f64 / 1e9));
        assert!(of("get, all clients") > of("get"));
        assert_eq!(block.latencies.len(), PHASES.len());
        let measured = block.measured("null", &HEADLINES);
        assert_eq!(measured.figures.iter().filter(|it| it.is_headline).count(), HEADLINES.len());
    }
}

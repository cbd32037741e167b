//! `quorate reproduce alibaba`: Alibaba's publish/subscribe test (2011) with three servers and
//! three scenarios. [`crate::workloads::zk::pubsub`] is the workload.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::ExitCode;

use results::schema::{Measured, Published, Role, Test};

use super::ReproduceArgs;
use super::servers::Servers;
use super::session::{CpuUse, Plan, Session, Site, Work};
use crate::limits::ZOOKEEPER_HEAP_MB;
use crate::measure::open_files;
use crate::measure::published::{PUBSUB_DOUBTS, PubsubRow};
use crate::servers::target::Scheme;
use crate::workloads::zk::pubsub::options::Connections;
use crate::workloads::zk::pubsub::{self, Kind, Shape};

/// The number of servers in the document.
const SERVERS: usize = 3;

/// The number of client hosts in the document. Here each is a process.
const HOSTS: usize = 5;

/// The tests of the document: what is done, and the sizes of an item in bytes.
const TESTS: [(Kind, &[usize]); 4] = [
    (Kind::Ephemerals, &[4096, 1024, 255]),
    (Kind::EventOnly, &[4096, 2048, 1024, 255]),
    (Kind::EventThenRead, &[4096, 1024, 256]),
    (Kind::SetData, &[4096, 1024, 255]),
];

/// The figures that short tables show for each kind of test.
fn headlines(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Ephemerals => &["updates", "update mean"],
        Kind::EventOnly => &["items", "create mean", "event mean"],
        Kind::EventThenRead => &["items", "create mean", "event mean", "data mean"],
        Kind::SetData => &["updates", "setData mean"],
    }
}

/// Runs `quorate reproduce alibaba`.
///
/// # Errors
/// Servers do not start, a test fails, or a file cannot be written.
pub fn command(args: &ReproduceArgs) -> anyhow::Result<ExitCode> {
    let mut makers = args.zk_makers()?;
    for maker in makers.iter_mut().filter(|it| it.role == Role::Peer) {
        maker.heap_mb = Some(ZOOKEEPER_HEAP_MB);
    }
    // A round takes up to a minute, so there are as few as an interval needs.
    let repeat = args.repeat(3);
    let shapes: Vec<Shape> =
        shapes(args.quick).filter(|shape| args.wants(&shape.to_string())).collect();
    anyhow::ensure!(!shapes.is_empty(), "--only: no test has that in its title");
    let connections = shapes.iter().map(|shape| shape.connections.count()).max();
    open_files::make_room(connections.unwrap_or(0))?;
    let runs = f64::from(repeat.all()) * makers.len() as f64;
    let starts_peer = makers.iter().any(|it| it.role == Role::Peer && !it.is_running());
    let mut session = Session::start(Plan {
        workload: "reproduce alibaba".to_string(),
        title: "ZooKeeper publish and subscribe (Alibaba, 2011)".to_string(),
        is_quick: args.quick,
        repeat,
        no_peer: args.no_peer(&makers),
        dir: args.dir.clone(),
        log_dir: args.log_dir.clone(),
        makers,
        outputs: args.outputs(),
        work: shapes.iter().map(|shape| units(shape) * (runs + 1.0)).sum(),
    })?;
    describe(&mut session, &shapes[0]);
    if !args.log_dir.as_ref().is_some_and(|logs| is_on_another_disk(logs, &args.dir)) {
        let text = "log and snapshots are on one disk: --log-dir takes another";
        session.results().deviations.push(text.to_string());
    }
    let measured = measure_all(&mut session, &shapes);
    if starts_peer && session.results().no_peer.is_none() {
        let text = format!(
            "the real server has a heap of {ZOOKEEPER_HEAP_MB} MB, if ZK_HEAP or ZK_SERVER_HEAP names no \
             other one: the 512 MB of its scripts, or the 1000 MB of its distribution, are too few for \
             items of 820 MB. The document names no heap"
        );
        session.results().deviations.push(text);
    }
    session.finish_after(measured)
}

fn shapes(is_quick: bool) -> impl Iterator<Item = Shape> {
    let (publishers, items) = if is_quick { (20, 400) } else { (1_000, 200_000) };
    let of_kind = move |(kind, sizes): (Kind, &'static [usize])| {
        let is_watched = kind.scenario() == 2;
        let subscribers = if is_watched { 3 * publishers } else { 0 };
        // The document has the tests with reads twice: clients on one host, and on several.
        let processes = if kind == Kind::EventThenRead { &[1, HOSTS][..] } else { &[1] };
        let of_size = move |size: &'static usize| {
            processes.iter().map(move |processes| Shape {
                kind,
                connections: Connections { publishers, subscribers },
                paths: 10,
                items,
                warmup: items / 40,
                size: *size,
                rate: None,
                processes: *processes,
            })
        };
        sizes.iter().flat_map(of_size)
    };
    TESTS.into_iter().flat_map(of_kind)
}

/// The relative duration of a run: an item with subscribers needs more requests.
fn units(shape: &Shape) -> f64 {
    if shape.kind.scenario() == 2 { 2.2 } else { 1.0 }
}

/// Measures the tests, each on freshly started servers, because the real server keeps the logs of
/// all earlier tests on its disk.
fn measure_all(session: &mut Session, shapes: &[Shape]) -> anyhow::Result<()> {
    for shape in shapes {
        let cores = session.results().machine.cores;
        let Some(split) = session.split(cores) else { return Ok(()) };
        let site = session.start_servers(Scheme::Zk, SERVERS, split)?;
        if !measure(session, &site, shape)? {
            break;
        }
    }
    Ok(())
}

/// Measures a test and the generator's ceiling for it. False means that the run was interrupted.
fn measure(session: &mut Session, site: &Site, shape: &Shape) -> anyhow::Result<bool> {
    let work = || Work {
        test: test(shape),
        what: format!("{} items", shape.items),
        units: units(shape),
        headlines: headlines(shape.kind),
        cpu: Some(cpu_use(shape)),
    };
    if !session.measure(site, work(), |turn| pubsub::measure(turn, shape))? {
        return Ok(false);
    }
    // For the null server both ends of each connection are in this process.
    let small = shape.of_one_process();
    open_files::make_room(small.connections.count() * 2)?;
    let null_server = pubsub::null_server(&small)?;
    let null = Servers::from_null(null_server.target());
    session.note_system(&null);
    session.measure_ceiling(&null, work(), |turn| {
        let mut block = pubsub::measure(turn, &small)?;
        block.notes.extend(small.remark_beside(shape));
        Ok(block)
    })
}

/// How to get the number of busy cores from the figures of a test. With subscribers, events and
/// reads go on after the last item is created, and their CPU counts; so there the rate is taken
/// over the time until all items are seen.
fn cpu_use(shape: &Shape) -> CpuUse {
    match shape.kind {
        Kind::Ephemerals | Kind::SetData => CpuUse::FIRST_RATE,
        Kind::EventOnly | Kind::EventThenRead => {
            CpuUse { rate: items_until_seen, threads: shape.processes }
        }
    }
}

/// The rate of items, counted until subscribers have seen all of them.
fn items_until_seen(measured: &Measured) -> Option<f64> {
    let median = |name: &str| measured.figure(name)?.median();
    let rate = median("items created")? / median("time until all is seen")?;
    Some(rate).filter(|rate| rate.is_finite())
}

fn test(shape: &Shape) -> Test {
    let mut remarks = Vec::new();
    match shape.kind {
        Kind::Ephemerals | Kind::SetData => remarks.push(
            "the document has equal figures for scenarios 1 and 3, which differ: one is a mistake"
                .to_string(),
        ),
        Kind::EventOnly | Kind::EventThenRead => remarks.push(
            "with one host of clients the document's events took ten to thirty times as long as with \
             five: that was the clients' time"
                .to_string(),
        ),
    }
    Test {
        group: format!("scenario {}", shape.kind.scenario()),
        title: shape.to_string(),
        published: rows(shape).flat_map(|row| published(row, shape.kind)).collect(),
        remarks,
        ..Test::default()
    }
}

/// The document's rows about a test. For a test with reads, only the rows with as many client
/// hosts.
fn rows(shape: &Shape) -> impl Iterator<Item = &'static PubsubRow> {
    let Shape { kind, processes, .. } = *shape;
    let is_it = move |row: &&PubsubRow| {
        kind != Kind::EventThenRead || row.is_of_one_host() == (processes == 1)
    };
    shape.rows().filter(is_it)
}

/// The published figures of a row: its rate, and its response times. The response times are shown
/// beside our event latency in scenario 2, and beside our update latency in the others.
fn published(row: &PubsubRow, kind: Kind) -> Vec<Published> {
    let names = headlines(kind);
    let response = if kind.scenario() == 2 { names[2] } else { names[1] };
    let of = |figure: &str, value: &str, unit: &str| Published {
        figure: figure.to_string(),
        value: value.parse().ok(),
        text: format!("{value} {unit} ({})", row.setting),
    };
    vec![of(names[0], row.rate, "per s"), of(response, row.response_ms, "ms")]
}

/// Whether two folders are on different file systems.
fn is_on_another_disk(one: &Path, other: &Path) -> bool {
    let device = |path: &Path| std::fs::metadata(path).map(|it| it.dev()).ok();
    device(one) != device(other)
}

fn describe(session: &mut Session, shape: &Shape) {
    let Shape { connections: Connections { publishers, .. }, items, .. } = *shape;
    let watches = 3 * items;
    let about = [
        &format!(
            "1: each of {publishers} connections creates an ephemeral on its paths and deletes it; \
             both count as an update"
        ),
        &format!(
            "2: each of {publishers} publishers creates an ephemeral, which stays, on each of its \
             paths; three subscribers watch each path, all from before the first create: {items} \
             items, {watches} watches. Times count from before the create: until the answer, until a \
             subscriber has the event, and until it has read the data"
        ),
        &format!(
            "3: each of {publishers} connections sets data on its paths, which nobody watches"
        ),
        "published: three servers of 8 cores, JDK 1.6, log and snapshots on separate disks; five hosts \
         of clients with 4 cores each, or one with 8",
    ];
    let deviations = vec![
        "servers and clients share all cores of one machine".to_string(),
        "a process of clients has one thread; in the document each connection had one"
            .to_string(),
        "the document does not say how many paths a connection has in scenarios 1 and 3 (10 here), \
         nor how many updates it makes (as many as there are items in scenario 2)"
            .to_string(),
    ];
    session.results().about = about.map(ToString::to_string).to_vec();
    session.results().deviations = deviations;
    session.results().traps = PUBSUB_DOUBTS.map(str::to_string).to_vec();
}

#[cfg(test)]
mod tests {
    use results::schema::Figure;

    use super::*;

    #[test]
    fn each_test_has_its_published_rows_and_each_row_its_test() {
        let rows: usize = shapes(false).map(|shape| rows(&shape).count()).sum();
        assert_eq!(rows, crate::measure::published::PUBSUB.len());
        for shape in shapes(false) {
            let test = test(&shape);
            assert!(!test.published.is_empty(), "{}", test.title);
            let names = headlines(shape.kind);
            let is_known = |it: &Published| names.contains(&it.figure.as_str());
            assert!(test.published.iter().all(is_known), "{:?}", test.published);
        }
    }

    #[test]
    fn the_rate_of_scenario_2_is_that_until_all_is_seen() {
        let figure = |name: &str, value: f64| Figure {
            name: name.to_string(),
            values: vec![value],
            ..Figure::default()
        };
        let figures = vec![figure("items created", 500.0), figure("time until all is seen", 2.0)];
        assert_eq!(items_until_seen(&Measured { figures, ..Measured::default() }), Some(250.0));
        let most = shapes(false).map(|shape| cpu_use(&shape).threads).max();
        assert_eq!(most, Some(HOSTS));
    }
}

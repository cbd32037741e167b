//! The workload `pubsub`: the three scenarios of Alibaba's publish/subscribe test (2011). Each
//! connection works on its own paths. An *item* is one create or setData.
//!
//! 1. Connections create ephemerals on their paths and delete them.
//! 2. Subscribers set a watch on each path of a publisher, before the znode exists. Then the
//!    publishers create an ephemeral on each of their paths. In one test a subscriber only receives
//!    the event; in another the subscriber then reads the data. The ephemerals stay until their
//!    connections close.
//! 3. Connections set data on their paths, which nobody watches.

pub mod item;
pub mod options;
pub mod pace;

pub mod processes;

mod items;
mod outcome;
mod subscriptions;
mod updates;

use std::process::ExitCode;

use clap::Args;

use crate::limits::{SESSION_TIMEOUT_MS, TREE_CLIENTS, TREE_ZNODES_MAX};
use crate::measure::comparison::{Comparison, Rounds, Turn, Where};
use crate::measure::driver::Driver;
use crate::measure::figures::{Block, Figure, Good};
use crate::measure::open_files;
use crate::measure::published::{PUBSUB, PUBSUB_DOUBTS, PubsubRow};
use crate::servers::null_server::NullServer;
use crate::servers::target::Target;
use crate::workloads::zk::tree::{Tree, TreeArgs};
use options::{Connections, PublishArgs};
use outcome::Outcome;
use processes::{Gate, Open};

/// Options of `quorate bench pubsub`.
#[derive(Debug, Args)]
#[command(mut_arg("warmup", |it| it.help(
    "Rounds before those of the first size of each kind of test, which are not counted"
)))]
pub struct PubsubArgs {
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    repeat: Rounds,
    /// 1: ephemerals; 2: publishers and subscribers; 3: setData that nobody watches
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1,2,3", value_parser = clap::value_parser!(u32).range(1..=3))]
    scenario: Vec<u32>,
    #[command(flatten)]
    publish: PublishArgs,
    /// Paths of each connection in scenarios 1 and 3; in scenario 2 each item has a path of its own
    #[arg(long, value_name = "N", default_value_t = 10)]
    paths: usize,
    /// Processes that the clients of scenario 2 are spread over
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    processes: u16,
}

/// Runs `quorate bench pubsub` and prints the results.
///
/// # Errors
/// An option is wrong, a target does not answer, an event does not come, or a file cannot be
/// written.
pub fn command(args: &PubsubArgs) -> anyhow::Result<ExitCode> {
    if args.publish.rate.is_some() {
        // In open loop both servers reach the rate that was asked for, so their ratio says nothing.
        args.repeat.ensure_fixed()?;
    }
    let shapes = shapes(args)?;
    let connections = shapes.iter().map(|shape| shape.connections.count()).max();
    open_files::make_room(connections.unwrap_or_default())?;
    let mut comparison = Comparison::start(&args.at, "pubsub", &args.publish.about())?;
    let mut warm = None;
    for shape in &shapes {
        // Only the first size of a kind has warm-up rounds: the tests of other sizes run the same
        // code in a server.
        let is_warm = warm.replace(shape.kind) == Some(shape.kind);
        let warmup = if is_warm { 0 } else { args.repeat.warmup };
        one_test(&mut comparison, shape, &Rounds { warmup, ..args.repeat })?;
    }
    let end = comparison.finish();
    for doubt in PUBSUB_DOUBTS {
        println!("note: {doubt}");
    }
    end
}

/// The tests that the options ask for: all sizes of one kind, then the next kind.
fn shapes(args: &PubsubArgs) -> anyhow::Result<Vec<Shape>> {
    let PublishArgs { publishers, subscribers, items, warmup_items, rate, .. } = args.publish;
    args.publish.check()?;
    anyhow::ensure!(
        !args.scenario.contains(&2) || subscribers.is_multiple_of(publishers),
        "--subscribers: {subscribers} is no multiple of --publishers, {publishers}: each path has as \
         many subscribers as any other"
    );
    let processes = usize::from(args.processes);
    anyhow::ensure!(processes <= publishers, "--processes: there are {publishers} publishers");
    anyhow::ensure!(processes == 1 || rate.is_none(), "--processes: only without --rate");
    let (paths, max) = (args.paths, TREE_ZNODES_MAX / publishers);
    anyhow::ensure!((1..=max).contains(&paths), "--paths: {paths} is not in 1..={max}");
    let of_kind = |kind: Kind| {
        let subscribers = if kind.has_subscribers() { subscribers } else { 0 };
        let connections = Connections { publishers, subscribers };
        let processes = if kind.has_subscribers() { processes } else { 1 };
        let of_size = move |size: &usize| {
            let (size, warmup) = (*size, warmup_items);
            Shape { kind, connections, paths, items, warmup, size, rate, processes }
        };
        args.publish.size.iter().map(of_size)
    };
    let kinds = args.scenario.iter().flat_map(|scenario| Kind::from_scenario(*scenario));
    Ok(kinds.copied().flat_map(of_kind).collect())
}

/// The work of the connections of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Connections create and delete ephemerals (scenario 1).
    Ephemerals,
    /// Publishers create ephemerals; subscribers receive an event (scenario 2).
    EventOnly,
    /// Publishers create ephemerals; subscribers receive an event and read the data (scenario 2).
    EventThenRead,
    /// Connections set data (scenario 3).
    SetData,
}

impl Kind {
    fn from_scenario(scenario: u32) -> &'static [Kind] {
        match scenario {
            1 => &[Kind::Ephemerals],
            2 => &[Kind::EventOnly, Kind::EventThenRead],
            _ => &[Kind::SetData],
        }
    }

    /// The number of the scenario in the document.
    pub fn scenario(self) -> u32 {
        match self {
            Kind::Ephemerals => 1,
            Kind::EventOnly | Kind::EventThenRead => 2,
            Kind::SetData => 3,
        }
    }

    fn has_subscribers(self) -> bool {
        self.scenario() == 2
    }
}

/// One test of the workload: what its connections do, how many there are, and the items.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The work of the connections.
    pub kind: Kind,
    /// The numbers of publishers and subscribers.
    pub connections: Connections,
    /// Paths of each connection in scenarios 1 and 3.
    pub paths: usize,
    /// Items that count, all publishers together.
    pub items: u64,
    /// Items before those that count, to warm the servers.
    pub warmup: u64,
    /// Bytes of data in an item.
    pub size: usize,
    /// Items a second, all publishers together; `None` in closed loop.
    pub rate: Option<u64>,
    /// Processes that the connections are spread over; 1 in scenarios 1 and 3.
    pub processes: usize,
}

impl Shape {
    /// How many subscribers watch each path.
    fn subscribers_each(&self) -> usize {
        self.connections.subscribers / self.connections.publishers
    }

    /// This test by one process that also has the server's ends of the connections: with fewer
    /// connections, if open files are too few for both ends.
    pub fn of_one_process(&self) -> Shape {
        let connections = self.connections.at_most(open_files::pairs_max());
        Shape { connections, processes: 1, ..*self }
    }

    /// The remark that this test has fewer connections than `other`; `None` if the numbers are
    /// equal.
    pub fn remark_beside(&self, other: &Shape) -> Option<String> {
        (self.connections != other.connections).then(|| self.connections.remark())
    }

    /// The published rows about this kind and size.
    pub fn rows(&self) -> impl Iterator<Item = &'static PubsubRow> {
        let (scenario, size) = (self.kind.scenario(), self.size);
        let is_event_only = self.kind == Kind::EventOnly;
        PUBSUB.iter().filter(move |row| row.is_about(scenario, size, is_event_only))
    }

    /// The published rows as lines of text; one line says so if there are none.
    fn published(&self) -> Vec<String> {
        let lines: Vec<String> = self.rows().map(ToString::to_string).collect();
        if lines.is_empty() {
            return vec![format!("nothing for {} bytes in this test", self.size)];
        }
        lines
    }
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Shape { kind, paths, items, size, .. } = self;
        let (publishers, each) = (self.connections.publishers, self.subscribers_each());
        write!(f, "scenario {}, ", kind.scenario())?;
        let on = format!("{publishers} connections, {paths} paths each");
        match kind {
            Kind::Ephemerals => {
                write!(f, "{size} bytes: {on}, create and delete {items} ephemerals")
            }
            Kind::SetData => {
                write!(f, "{size} bytes: {on}, set data {items} times, nobody watches")
            }
            Kind::EventOnly | Kind::EventThenRead => {
                let then = if *kind == Kind::EventOnly { "only" } else { "then read" };
                write!(
                    f,
                    "event {then}, {size} bytes: {publishers} connections create {items} \
                     ephemerals, each watched by {each} of {}",
                    self.connections.subscribers
                )?;
                match self.processes {
                    1 => Ok(()),
                    several => write!(f, ", in {several} processes"),
                }
            }
        }
    }
}

fn one_test(comparison: &mut Comparison<'_>, shape: &Shape, repeat: &Rounds) -> anyhow::Result<()> {
    comparison.begin(shape.to_string(), shape.published());
    let Shape { items, warmup, .. } = shape;
    let work = format!("{items} items (each after {warmup} more on the same connections)");
    comparison.measure(repeat, &work, |turn| measure(turn, shape))?;
    // For the null server both ends of each connection are in this process.
    let small = shape.of_one_process();
    open_files::make_room(small.connections.count() * 2)?;
    comparison.measure_ceiling(&null_server(shape)?, |turn| {
        let mut block = measure(turn, &small)?;
        block.notes.extend(small.remark_beside(shape));
        Ok(block)
    })
}

/// The null server that answers this test as its clients expect.
///
/// # Errors
/// The null server cannot be started.
pub fn null_server(shape: &Shape) -> anyhow::Result<NullServer> {
    if shape.kind.has_subscribers() {
        NullServer::with_absent(shape.size)
    } else {
        NullServer::start(shape.size)
    }
}

/// Runs one test on one target.
///
/// # Errors
/// The server does not answer, or an expected event does not come.
pub fn measure(turn: &Turn<'_>, shape: &Shape) -> anyhow::Result<Block> {
    match shape.processes {
        1 => Ok(measure_alone(turn, shape, &mut Open)?.0),
        _ => processes::measure(turn, shape),
    }
}

/// Runs one test by the clients of this process. The paths of publisher `i` are below parent `i` of
/// the tree. Returns an outcome only for scenario 2.
fn measure_alone(
    turn: &Turn<'_>,
    shape: &Shape,
    gate: &mut dyn Gate,
) -> anyhow::Result<(Block, Option<Outcome>)> {
    let target = turn.target;
    let mut block = target.block();
    block.figures.push(resident("VmRSS before", target));
    let args = TreeArgs {
        parents: shape.connections.publishers,
        children: if shape.kind == Kind::SetData { shape.paths } else { 0 },
        size: shape.size,
        clients: TREE_CLIENTS,
        keep: false,
    };
    let mut tree = Tree::new(&args, &turn.label);
    let mut maker = Driver::connect(&target.addresses, args.clients, SESSION_TIMEOUT_MS)?;
    block.blame(&tree.make(&mut maker, target)?);
    maker.close();
    turn.say("connecting");
    let connections = shape.connections.count();
    let mut driver = Driver::connect(&target.addresses, connections, SESSION_TIMEOUT_MS)?;
    let outcome = match shape.kind.has_subscribers() {
        true => Some(items::run(&mut driver, turn, (shape, &tree), gate, &mut block)?),
        false => {
            updates::run(&mut driver, turn, shape, &tree, &mut block)?;
            None
        }
    };
    block.figures.push(resident("VmRSS at the end", target));
    turn.say("closing");
    driver.close();
    let mut remover = Driver::connect(&target.addresses, args.clients, SESSION_TIMEOUT_MS)?;
    block.blame(&tree.remove(&mut remover, target)?);
    remover.close();
    Ok((block, outcome))
}

/// `VmRSS` of the server now, as a figure.
fn resident(name: &'static str, target: &Target) -> Figure {
    let mib = target.memory().map(|memory| memory.resident as f64 / f64::from(1 << 20));
    Figure::once(name, "MiB", mib, Good::Less)
}

#[cfg(test)]
mod tests;

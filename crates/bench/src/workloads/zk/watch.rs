//! The workload `zk-watch`: what very many watches cost a server, and how long it takes until very
//! many clients have seen one change.
//!
//! In the first half some connections set many watches each: half of the watches by getData, the
//! others by exists. None of these watches fires. In the second half other connections all watch
//! one znode, whose data is then set several times. A latency begins when the set is written to the
//! socket, and ends when the event arrives.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;
use zk::request::{ReadKind, ReadRequest, Request, WriteRequest};
use zk::response::ReplyHeader;
use zk::{ErrorCode, JuteReader};

use crate::limits::{
    CLIENTS_MAX, PIPELINE_REQUESTS, SESSION_TIMEOUT_MS, TREE_CLIENTS, WATCHES_MAX,
};
use crate::measure::comparison::{Comparison, Rounds, Turn, Where};
use crate::measure::driver::{Driver, Load, Next};
use crate::measure::figures::{Block, Figure, Good, of_phase};
use crate::measure::meter::{Meter, Tally};
use crate::measure::open_files;
use crate::measure::stats::{Phase, median};
use crate::servers::null_server::NullServer;
use crate::servers::process::Memory;
use crate::servers::target::Target;
use crate::workloads::zk::client::Session;
use crate::workloads::zk::tree::{Tree, TreeArgs};

/// `Watcher.Event.EventType.NodeDataChanged`.
const DATA_CHANGED: i32 = 3;

/// Bytes of data in the watched znodes.
const DATA_BYTES: usize = 100;

/// Options of `quorate bench zk-watch`.
#[derive(Debug, Args)]
// Only a fresh server shows how much memory the watches take.
#[command(mut_arg("warmup", |it| it.default_value("0")))]
pub struct WatchArgs {
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    repeat: Rounds,
    /// Connections that set many watches
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    connections: usize,
    /// Watches of each of these connections
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    watches: usize,
    /// Watch other paths on each connection, which do not exist, instead of the same znodes on all
    #[arg(long)]
    distinct: bool,
    /// Connections that see one znode change
    #[arg(long, value_name = "N", default_value_t = 10_000)]
    seers: usize,
    /// Changes of that znode in each round; the round's figures are their medians
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    changes: u32,
}

/// Runs `quorate bench zk-watch` and prints it.
///
/// # Errors
/// An option is wrong, a target does not answer, or a file cannot be written.
pub fn command(args: &WatchArgs) -> anyhow::Result<ExitCode> {
    for (name, number, max) in [
        ("connections", args.connections, CLIENTS_MAX),
        ("watches", args.watches, WATCHES_MAX),
        ("seers", args.seers, CLIENTS_MAX),
    ] {
        anyhow::ensure!((1..=max).contains(&number), "--{name}: {number} is not in 1..={max}");
    }
    open_files::make_room(args.connections.max(args.seers + 1))?;
    let shape = Shape {
        connections: args.connections,
        watches: args.watches,
        is_distinct: args.distinct,
        seers: args.seers,
        changes: args.changes,
    };
    let mut comparison = Comparison::start(&args.at, "zk-watch", &shape.to_string())?;
    let work = format!("{} watches and {} changes", args.connections * args.watches, args.changes);
    comparison.measure(&args.repeat, &work, |turn| measure(turn, &shape))?;
    // Both ends of the null server's connections are in this process.
    let pairs = open_files::pairs_max().saturating_sub(1);
    let (connections, seers) = (shape.connections.min(pairs), shape.seers.min(pairs));
    let small = Shape { connections, seers, ..shape };
    comparison.measure_ceiling(&NullServer::start(DATA_BYTES)?, |turn| {
        let mut block = measure(turn, &small)?;
        if small != shape {
            block
                .notes
                .push(format!("with {connections} connections, {seers} seers: RLIMIT_NOFILE"));
        }
        Ok(block)
    })?;
    comparison.finish()
}

/// The sizes of the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    connections: usize,
    watches: usize,
    is_distinct: bool,
    seers: usize,
    changes: u32,
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Shape { connections, watches, seers, changes, .. } = self;
        let which = if self.is_distinct { "absent znodes of its own" } else { "the same znodes" };
        write!(
            f,
            "{connections} connections with {watches} watches each, on {which}; then {seers} \
             connections see one change, {changes} times; from the write to the socket"
        )
    }
}

/// Runs both halves on one server.
fn measure(turn: &Turn<'_>, shape: &Shape) -> anyhow::Result<Block> {
    let target = turn.target;
    let children = if shape.is_distinct { 1 } else { shape.watches };
    let args =
        TreeArgs { parents: 1, children, size: DATA_BYTES, clients: TREE_CLIENTS, keep: false };
    let mut tree = Tree::new(&args, &turn.label);
    let mut maker = Driver::connect(&target.addresses, args.clients, SESSION_TIMEOUT_MS)?;
    let mut block = target.block();
    block.blame(&tree.make(&mut maker, target)?);
    maker.close();
    turn.say("setting watches");
    set_many(target, shape, &tree, &mut block)?;
    turn.say("seeing one change");
    see_one(target, shape, &tree, &mut block)?;
    let mut remover = Driver::connect(&target.addresses, args.clients, SESSION_TIMEOUT_MS)?;
    block.blame(&tree.remove(&mut remover, target)?);
    remover.close();
    Ok(block)
}

/// The first half: many watches.
fn set_many(target: &Target, shape: &Shape, tree: &Tree, block: &mut Block) -> anyhow::Result<()> {
    let before = target.memory();
    let mut driver = Driver::connect(&target.addresses, shape.connections, SESSION_TIMEOUT_MS)?;
    let connected = target.memory();
    let per_client = shape.watches;
    let set = watch(&mut driver, target, tree, per_client, shape.is_distinct, shape.connections)?;
    let after = target.memory();
    let counted = target.monitored("zk_watch_count");
    driver.close();
    let watch_count = shape.connections * shape.watches;
    let each = |before: Option<Memory>, after: Option<Memory>, count: usize| {
        let (before, after) = before.zip(after)?;
        Some((after.resident as f64 - before.resident as f64) / count as f64)
    };
    let mib = |it: Memory| it.resident as f64 / f64::from(1 << 20);
    let of_connection = each(before, connected, shape.connections);
    let of_watch = each(connected, after, watch_count);
    let names = ["watches set", "server CPU per watch", "generator CPU per watch"];
    block.figures.extend([
        Figure::once("watches", "", set.operations as f64, Good::Neither),
        Figure::once("watches that the server counts", "", counted, Good::Neither),
    ]);
    block.figures.extend(of_phase(names, &set));
    block.figures.extend([
        Figure::once("VmRSS before", "MiB", before.map(mib), Good::Neither),
        Figure::once("resident memory per connection", "bytes", of_connection, Good::Less)
            .of_first_round(),
        Figure::once("resident memory per watch", "bytes", of_watch, Good::Less).of_first_round(),
    ]);
    block.blame(&set);
    Ok(())
}

/// The second half: one change that many see.
fn see_one(target: &Target, shape: &Shape, tree: &Tree, block: &mut Block) -> anyhow::Result<()> {
    let mut driver = Driver::connect(&target.addresses, shape.seers + 1, SESSION_TIMEOUT_MS)?;
    let mut changes = Vec::new();
    for _ in 0..shape.changes {
        block.blame(&watch(&mut driver, target, tree, 1, false, shape.seers)?);
        let change = see(&mut driver, target, tree)?;
        block.blame(&change.0);
        changes.push(change);
    }
    driver.close();
    let of = |name, unit, good, figure: &dyn Fn(&(Phase, u64)) -> Option<f64>| {
        let values: Option<Vec<f64>> = changes.iter().map(figure).collect();
        Figure::once(name, unit, values.map(|it| median(&it)), good)
    };
    let ms = |us: f64| Some(us / 1_000.0);
    block.figures.extend([
        of("events", "", Good::Neither, &|(phase, _)| Some(phase.operations as f64)),
        of("first event", "ms", Good::Less, &|(_, first_ns)| ms(*first_ns as f64 / 1_000.0)),
        of("median event", "ms", Good::Less, &|(it, _)| ms(it.latencies.percentile_us(50.0))),
        of("last event", "ms", Good::Less, &|(phase, _)| ms(phase.latencies.max_us())),
        of("server CPU per event", "us", Good::Less, &|(phase, _)| phase.server_us()),
        of("generator CPU per event", "us", Good::Neither, &|(phase, _)| Some(phase.own_us())),
    ]);
    Ok(())
}

/// Lets the first `watchers` clients set so many watches each.
fn watch(
    driver: &mut Driver,
    target: &Target,
    tree: &Tree,
    per_client: usize,
    is_distinct: bool,
    watchers: usize,
) -> anyhow::Result<Phase> {
    let meter = Meter::start(driver, target);
    let mut load = WatchLoad {
        tree,
        per_client,
        is_distinct,
        sent: vec![0; watchers],
        tally: Tally::default(),
        path: String::new(),
    };
    driver.run(&mut load)?;
    Ok(meter.stop(driver, "set watches", load.tally))
}

struct WatchLoad<'a> {
    tree: &'a Tree,
    per_client: usize,
    /// Whether each client watches absent paths of its own.
    is_distinct: bool,
    sent: Vec<usize>,
    tally: Tally,
    path: String,
}

impl Load for WatchLoad<'_> {
    fn next(&mut self, client: usize, session: &mut Session, now_ns: u64) -> Next {
        let Some(sent) = self.sent.get_mut(client).filter(|sent| **sent < self.per_client) else {
            return Next::Finished;
        };
        if session.under_way() >= PIPELINE_REQUESTS {
            return Next::Wait;
        }
        let number = *sent;
        *sent += 1;
        let kind =
            if number % 2 == 0 && !self.is_distinct { ReadKind::GetData } else { ReadKind::Exists };
        if self.is_distinct {
            self.path.clear();
            write!(self.path, "{}/w{client}-{number}", self.tree.root())
                .expect("a String takes everything");
        } else {
            self.tree.child(&mut self.path, number);
        }
        session.send(&Request::Read(ReadRequest { kind, path: &self.path, watch: true }), now_ns);
        Next::Sent
    }

    fn on_reply(&mut self, _: usize, header: ReplyHeader, _: JuteReader<'_>, took_ns: u64, _: u64) {
        // exists sets a watch on an absent znode, too.
        let is_right =
            header.error == ErrorCode::OK || self.is_distinct && header.error == ErrorCode::NO_NODE;
        self.tally.count(is_right, took_ns);
    }
}

/// Sets the first child by the last client; all other clients wait for the event. The phase is
/// about the events. Also returns when the first event came, in ns.
fn see(driver: &mut Driver, target: &Target, tree: &Tree) -> anyhow::Result<(Phase, u64)> {
    let meter = Meter::start(driver, target);
    let seers = driver.client_count() - 1;
    let mut path = String::new();
    tree.child(&mut path, 0);
    let mut load = SeeLoad {
        path,
        data: tree.data(),
        has_seen: vec![false; seers],
        set_ns: None,
        first_ns: 0,
        surplus: 0,
        tally: Tally::default(),
    };
    driver.run(&mut load)?;
    load.tally.errors += load.surplus;
    let first_ns = load.first_ns;
    Ok((meter.stop(driver, "see one change", load.tally), first_ns))
}

struct SeeLoad<'a> {
    path: String,
    data: &'a [u8],
    has_seen: Vec<bool>,
    /// The time at which the change was sent, ns.
    set_ns: Option<u64>,
    first_ns: u64,
    /// Events that no client waited for, and a change that was refused.
    surplus: u64,
    tally: Tally,
}

impl Load for SeeLoad<'_> {
    fn next(&mut self, client: usize, session: &mut Session, now_ns: u64) -> Next {
        match self.has_seen.get(client) {
            Some(true) => Next::Finished,
            Some(false) => Next::Wait,
            None if self.set_ns.is_some() => Next::Finished,
            None => {
                self.set_ns = Some(now_ns);
                let (path, data, version) = (self.path.as_str(), Some(self.data), -1);
                let request = WriteRequest::SetData { path, data, version };
                session.send(&Request::Write(request), now_ns);
                Next::Sent
            }
        }
    }

    fn on_reply(&mut self, _: usize, header: ReplyHeader, _: JuteReader<'_>, _: u64, _: u64) {
        self.surplus += u64::from(header.error != ErrorCode::OK);
    }

    fn on_event(&mut self, client: usize, kind: i32, path: &str, now_ns: u64) {
        let is_due = self.has_seen.get(client) == Some(&false);
        let is_it = kind == DATA_CHANGED && path == self.path;
        let (true, true, Some(set_ns)) = (is_due, is_it, self.set_ns) else {
            self.surplus += 1;
            return;
        };
        self.has_seen[client] = true;
        let took_ns = now_ns.saturating_sub(set_ns);
        if self.tally.answered == 0 {
            self.first_ns = took_ns;
        }
        self.tally.count(true, took_ns);
    }
}

#[cfg(test)]
mod tests;

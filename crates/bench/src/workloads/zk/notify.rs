//! The workload `zk-notify`: each publisher sets the data of its znode again and again. Subscribers
//! watch the znodes, and at each event read the data and set the watch again. Nobody has published
//! figures of this test.

use std::process::ExitCode;

use clap::Args;

use crate::limits::{SESSION_TIMEOUT_MS, TREE_CLIENTS};
use crate::measure::comparison::{Comparison, Rounds, Turn, Where};
use crate::measure::driver::Driver;
use crate::measure::figures::Block;
use crate::measure::meter::Meter;
use crate::measure::open_files;
use crate::servers::null_server::NullServer;
use crate::workloads::zk::pubsub::options::{Connections, PublishArgs};
use crate::workloads::zk::pubsub::pace::Pace;
use crate::workloads::zk::tree::{Tree, TreeArgs};

mod load;

use load::NotifyLoad;

/// Options of `quorate bench zk-notify`.
#[derive(Debug, Args)]
#[command(mut_arg("warmup", |it| it.help(
    "Rounds before those of the first size, which are not counted"
)))]
#[command(mut_arg("items", |it| it.help("Items in all: an item is one setData")))]
pub struct NotifyArgs {
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    repeat: Rounds,
    #[command(flatten)]
    publish: PublishArgs,
    /// Subscribers do not read the data: they set the watch again by exists
    #[arg(long)]
    event_only: bool,
}

/// Runs `quorate bench zk-notify` and prints the results.
///
/// # Errors
/// An option is wrong, a target does not answer, or a file cannot be written.
pub fn command(args: &NotifyArgs) -> anyhow::Result<ExitCode> {
    if args.publish.rate.is_some() {
        // In open loop both servers reach the rate that was asked for, so their ratio says nothing.
        args.repeat.ensure_fixed()?;
    }
    args.publish.check()?;
    let PublishArgs { publishers, subscribers, .. } = args.publish;
    let connections = Connections { publishers, subscribers };
    open_files::make_room(connections.count())?;
    let mut comparison = Comparison::start(&args.at, "zk-notify", &args.publish.about())?;
    let mut warmup = args.repeat.warmup;
    for size in &args.publish.size {
        let shape = Shape {
            connections,
            items: args.publish.items,
            warmup: args.publish.warmup_items,
            size: *size,
            rate: args.publish.rate,
            is_event_only: args.event_only,
        };
        // Only the first size has warm-up rounds: the tests of other sizes run the same code in a
        // server.
        let repeat = Rounds { warmup: std::mem::take(&mut warmup), ..args.repeat };
        one_test(&mut comparison, &shape, &repeat)?;
    }
    comparison.finish()
}

/// One test of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    connections: Connections,
    items: u64,
    warmup: u64,
    size: usize,
    /// Items a second, all publishers together; `None` in closed loop.
    rate: Option<u64>,
    /// Whether subscribers only set their watch again (by `exists`) and read no data.
    is_event_only: bool,
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Shape { items, size, .. } = self;
        let Connections { publishers, subscribers } = self.connections;
        let what = if self.is_event_only { "an event only" } else { "an event and read" };
        write!(
            f,
            "{size} bytes: {publishers} connections set data {items} times, {subscribers} see {what}"
        )
    }
}

fn one_test(comparison: &mut Comparison<'_>, shape: &Shape, repeat: &Rounds) -> anyhow::Result<()> {
    comparison.begin(shape.to_string(), Vec::new());
    let Shape { items, warmup, .. } = shape;
    let work = format!("{items} items (each after {warmup} more on the same connections)");
    comparison.measure(repeat, &work, |turn| measure(turn, shape))?;
    // For the null server both ends of each connection are in this process.
    let small = Shape { connections: shape.connections.at_most(open_files::pairs_max()), ..*shape };
    open_files::make_room(small.connections.count() * 2)?;
    comparison.measure_ceiling(&NullServer::start(shape.size)?, |turn| {
        let mut block = measure(turn, &small)?;
        if small != *shape {
            block.notes.push(small.connections.remark());
        }
        Ok(block)
    })
}

/// Runs one test on one target.
fn measure(turn: &Turn<'_>, shape: &Shape) -> anyhow::Result<Block> {
    let target = turn.target;
    let args = TreeArgs {
        parents: 1,
        children: shape.connections.publishers,
        size: shape.size,
        clients: TREE_CLIENTS,
        keep: false,
    };
    let mut tree = Tree::new(&args, &turn.label);
    let mut maker = Driver::connect(&target.addresses, args.clients, SESSION_TIMEOUT_MS)?;
    let mut block = target.block();
    block.blame(&tree.make(&mut maker, target)?);
    maker.close();
    turn.say("connecting");
    let connections = shape.connections.count();
    let mut driver = Driver::connect(&target.addresses, connections, SESSION_TIMEOUT_MS)?;
    publish(&mut driver, turn, shape, &tree, &mut block)?;
    turn.say("closing");
    driver.close();
    let mut remover = Driver::connect(&target.addresses, args.clients, SESSION_TIMEOUT_MS)?;
    block.blame(&tree.remove(&mut remover, target)?);
    remover.close();
    Ok(block)
}

fn publish(
    driver: &mut Driver,
    turn: &Turn<'_>,
    shape: &Shape,
    tree: &Tree,
    block: &mut Block,
) -> anyhow::Result<()> {
    let mut load = NotifyLoad::new(shape, tree);
    for (name, items) in [("subscribe", 0), ("warm-up", shape.warmup), ("items", shape.items)] {
        turn.say(name);
        let meter = Meter::start(driver, turn.target);
        load.begin(items, Pace::start(driver, shape.rate));
        driver.run(&mut load)?;
        let phase = load.end(&meter, driver, name);
        block.blame(&phase);
        if name == "items" {
            block.figures.extend(load.figures(&phase));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

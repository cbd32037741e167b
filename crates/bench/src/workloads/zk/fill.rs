//! The workload `zk-fill`: it fills a tree with a million znodes, and measures how fast that is and
//! how much memory each znode takes.

use std::process::ExitCode;

use clap::Args;

use crate::limits::SESSION_TIMEOUT_MS;
use crate::measure::comparison::{Comparison, Rounds, Turn, Where};
use crate::measure::driver::Driver;
use crate::measure::figures::{Block, Figure, Good, of_phase};
use crate::servers::null_server::NullServer;
use crate::servers::process::Memory;
use crate::workloads::zk::tree::{Tree, TreeArgs};

/// Options of `quorate bench zk-fill`.
#[derive(Debug, Args)]
// There is no warm-up round: only a fresh server shows how much memory a znode takes.
#[command(mut_arg("warmup", |it| it.default_value("0")))]
pub struct FillArgs {
    #[command(flatten)]
    at: Where,
    #[command(flatten)]
    repeat: Rounds,
    #[command(flatten)]
    tree: TreeArgs,
}

/// Runs `quorate bench zk-fill` and prints the results.
///
/// # Errors
/// An option is wrong, a target does not answer, or a file cannot be written.
pub fn command(args: &FillArgs) -> anyhow::Result<ExitCode> {
    args.tree.check()?;
    let about = format!("{}; memory is that of the server's processes", args.tree);
    let mut comparison = Comparison::start(&args.at, "zk-fill", &about)?;
    let work = format!("{} creates", args.tree.znode_count());
    comparison.measure(&args.repeat, &work, |turn| fill(turn, &args.tree))?;
    let tree = TreeArgs { keep: false, ..args.tree.clone() };
    let null = NullServer::with_children(tree.size, tree.children)?;
    comparison.measure_ceiling(&null, |turn| fill(turn, &tree))?;
    comparison.finish()
}

/// Fills one server, counts its znodes, and removes them unless `--keep` is set.
fn fill(turn: &Turn<'_>, args: &TreeArgs) -> anyhow::Result<Block> {
    let target = turn.target;
    turn.say("filling");
    let before = target.memory();
    let mut driver = Driver::connect(&target.addresses, args.clients, SESSION_TIMEOUT_MS)?;
    let mut tree = Tree::new(args, &turn.label);
    let made = tree.make(&mut driver, target)?;
    let after = target.memory();
    let (counted, count) = tree.count(&mut driver, target)?;
    let mut block = target.block();
    block.figures.push(Figure::once("znodes", "", count.found as f64, Good::Neither));
    let names = ["creates", "server CPU per create", "generator CPU per create"];
    block.figures.extend(of_phase(names, &made));
    block.figures.extend(memory_figures(before, after, tree.znode_count()));
    block.blame(&made);
    block.blame(&counted);
    if args.keep && turn.may_keep {
        block.notes.push(format!("the tree is kept: {}", tree.root()));
    } else {
        turn.say("removing");
        let removed = tree.remove(&mut driver, target)?;
        block.blame(&removed);
        // With `--keep` the last round removes nothing, so it has no such figures. All rounds must
        // have the same figures.
        if !args.keep {
            let names = ["deletes", "server CPU per delete", "generator CPU per delete"];
            block.figures.extend(of_phase(names, &removed));
        }
    }
    driver.close();
    Ok(block)
}

fn memory_figures(
    before: Option<Memory>,
    after: Option<Memory>,
    znode_count: usize,
) -> [Figure; 5] {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let each = before.zip(after).map(|(before, after)| {
        (after.resident as f64 - before.resident as f64) / znode_count as f64
    });
    [
        Figure::once("VmRSS before", "MiB", before.map(|it| mib(it.resident)), Good::Neither),
        Figure::once("VmHWM before", "MiB", before.map(|it| mib(it.peak)), Good::Neither),
        Figure::once("VmRSS after", "MiB", after.map(|it| mib(it.resident)), Good::Less),
        Figure::once("VmHWM after", "MiB", after.map(|it| mib(it.peak)), Good::Less),
        Figure::once("resident memory per znode", "bytes", each, Good::Less).of_first_round(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::null_server::NullServer;

    const ARGS: TreeArgs = TreeArgs { parents: 3, children: 50, size: 10, clients: 2, keep: false };

    #[test]
    fn a_tree_is_filled_counted_and_removed() {
        let null = NullServer::with_children(ARGS.size, ARGS.children).unwrap();
        let target = null.target();
        let turn = Turn::only(&target);
        let block = fill(&turn, &ARGS).unwrap();
        assert_eq!((block.trouble, block.figures[0].values.as_slice()), (0, &[150.0][..]));
        assert!(block.figures.iter().any(|figure| figure.name == "deletes"));
        let keep = TreeArgs { keep: true, ..ARGS };
        let kept = fill(&turn, &keep).unwrap();
        assert_eq!(kept.notes, ["the tree is kept: /bench-t"]);
        // A round before the last removes its tree, and still has the same figures.
        let mut earlier = Turn::only(&target);
        earlier.may_keep = false;
        let removed = fill(&earlier, &keep).unwrap();
        assert!(removed.notes.is_empty());
        assert_eq!(Block::from_rounds(vec![removed, kept]).figures[0].values, [150.0, 150.0]);
    }

    /// A server that gives memory back while it is filled shows less memory afterwards: the figure
    /// is then negative, and not hidden.
    #[test]
    fn memory_of_a_znode_is_the_difference() {
        let memory = |resident| Some(Memory { resident, peak: 3 << 20 });
        let of = |before, after| memory_figures(before, after, 1_000)[4].values.clone();
        assert_eq!(of(memory(1_000), memory(201_000)), [200.0]);
        assert_eq!(of(memory(2_000), memory(1_000)), [-1.0]);
        assert!(of(None, memory(1_000)).is_empty());
    }
}

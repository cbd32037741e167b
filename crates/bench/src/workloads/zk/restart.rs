//! The workload `zk-restart`: how long a server that speaks ZooKeeper's protocol is away after a
//! kill. The run fills a tree before the kill, and counts the tree's znodes after the restart: none
//! may be missing.

use std::process::ExitCode;

use clap::Args;

use crate::limits::SESSION_TIMEOUT_MS;
use crate::measure::comparison::{Comparison, Rounds, Where};
use crate::measure::driver::Driver;
use crate::measure::figures::Block;
use crate::measure::stats::Phase;
use crate::servers::probe::Probe;
use crate::servers::target::Target;
use crate::workloads::both::restart::{self, Found, StartArgs, Things};
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
    #[command(flatten)]
    starts: StartArgs,
}

/// Runs `quorate bench zk-restart` and prints it.
///
/// # Errors
/// An option is wrong, a server is not on this machine or does not come back, or a file cannot be
/// written.
pub fn command(args: &RestartArgs) -> anyhow::Result<ExitCode> {
    args.tree.check()?;
    let about = format!("{}; {}", args.tree, restart::ABOUT);
    let mut comparison = Comparison::start(&args.at, "zk-restart", &about)?;
    let work = format!("{} creates, a kill and a start", args.tree.znode_count());
    restart::measure(&mut comparison, (&args.repeat, &work), &args.starts, |turn| Znodes {
        tree: Tree::new(&args.tree, &turn.label),
        args: &args.tree,
        driver: None,
    })?;
    comparison.finish()
}

/// The znodes of a tree.
struct Znodes<'a> {
    tree: Tree,
    args: &'a TreeArgs,
    /// The sessions that wrote the znodes; after the kill those that count and remove them.
    driver: Option<Driver>,
}

impl Things for Znodes<'_> {
    const NAMES: [&'static str; 4] =
        ["znodes acknowledged", "znodes found", "znodes missing", "creates"];

    fn write(&mut self, target: &Target) -> anyhow::Result<Phase> {
        let clients = self.args.clients;
        let driver = Driver::connect(&target.addresses, clients, SESSION_TIMEOUT_MS)?;
        // The sessions stay open until the kill.
        self.tree.make(self.driver.insert(driver), target)
    }

    fn last(&self) -> Probe {
        Probe::Znode(self.tree.last_child())
    }

    fn count(&mut self, target: &Target, block: &mut Block) -> anyhow::Result<Found> {
        let clients = self.args.clients;
        let driver = Driver::connect(&target.addresses, clients, SESSION_TIMEOUT_MS)?;
        let (counted, count) = self.tree.count(self.driver.insert(driver), target)?;
        block.blame(&counted);
        Ok(Found { found: count.found, missing: count.missing })
    }

    fn remove(&mut self, target: &Target, may_keep: bool, block: &mut Block) -> anyhow::Result<()> {
        let mut driver = self.driver.take().expect("the znodes were counted before");
        if self.args.keep && may_keep {
            block.notes.push(format!("the tree is kept: {}", self.tree.root()));
        } else {
            block.blame(&self.tree.remove(&mut driver, target)?);
        }
        driver.close();
        Ok(())
    }
}

//! The fake world: members with their disks, their network and their clients, under one seed.
//!
//! It runs the step functions that ship (`member`), driven as the shell that ships drives them, in
//! virtual time over [`storage::fault_disk`]. Clients speak ZooKeeper's bytes. All chance, that of
//! faults included, is drawn from the seed: one seed gives one run, event by event, and [`Failure`]
//! names the line that repeats it.
//!
//! - [`run_seed`]: a run with all options drawn from the seed. [`run`]: a run with the caller's
//!   [`Options`].
//! - [`script`]: a short fixed load, with a crash at every operation of the disk.

pub mod build;
pub mod check;
pub mod client;
pub mod disk;
pub mod etcd_clients;
pub mod fault;
pub mod limits;
pub mod links;
pub mod network;
pub mod script;
pub mod server;
mod simulation;
pub mod witness;
pub mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use simulation::Simulation;
pub use simulation::{
    EtcdCounts, EtcdFailureCounts, EtcdReadCounts, EtcdWriteCounts, FaultCounts, LaterOps,
    LevelCounts, MemberCounts, Options, Summary, WatchCounts, ZkCounts, ZkWatchCounts,
};
use thiserror::Error;

/// A run that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reason}\nrepeat with: quorate sim --seed {seed} --members {member_count}")]
pub struct Failure {
    /// The seed of the run.
    pub seed: u64,
    /// The number of members in the run.
    pub member_count: usize,
    /// What went wrong.
    pub reason: String,
}

/// The first seed of ensembles: where the caller names no member count, seeds from here on run 3 or
/// 5 members. Lower seeds run one member, as they did before there were ensembles.
pub const ENSEMBLE_SEEDS: u64 = 1_000_000_000;

/// How many members a seed has if the caller does not say so: 1, 3 or 5.
pub fn member_count(seed: u64) -> usize {
    match seed {
        ENSEMBLE_SEEDS.. if seed.is_multiple_of(4) => 5,
        ENSEMBLE_SEEDS.. => 3,
        _ => 1,
    }
}

/// Runs everything that a seed says, with one member.
///
/// # Errors
/// The member did what no correct one would have done.
pub fn run_seed(seed: u64) -> Result<Summary, Failure> {
    run(Options::draw(seed))
}

/// Runs everything that a seed says, with so many members: 1 to [`limits::MEMBERS_MAX`].
///
/// # Errors
/// The members did what no correct ones would have done.
pub fn run_ensemble(seed: u64, member_count: usize) -> Result<Summary, Failure> {
    run(Options::draw_ensemble(seed, member_count))
}

/// Runs what the options say.
///
/// # Errors
/// As [`run_seed`].
pub fn run(options: Options) -> Result<Summary, Failure> {
    let (seed, member_count) = (options.seed, options.member_count);
    let outcome = catch_unwind(AssertUnwindSafe(|| Simulation::new(options).run()));
    let reason = match outcome {
        Ok(Ok(summary)) => return Ok(summary),
        Ok(Err(reason)) => reason,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            format!("an invariant is broken: {}", text.unwrap_or("no message"))
        }
    };
    Err(Failure { seed, member_count, reason })
}

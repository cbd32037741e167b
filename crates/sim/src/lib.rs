//! Simulates a whole cluster in one thread: members with their disks, network, faults and clients,
//! all driven by one seed.
//!
//! The simulator runs the same step functions as the real server (crate `member`), and calls them
//! as the real shell does (crate `node`), in virtual time and on an in-memory disk
//! ([`storage::fault_disk`]). Its clients speak ZooKeeper's and etcd's protocols. Every random
//! choice, also of a fault, comes from the seed. So one seed always gives one run, event by event,
//! and [`Failure`] names the command that repeats it.
//!
//! - [`run_seed`]: a run with all options drawn from the seed. [`run`]: a run with the caller's
//!   [`Options`].
//! - [`script`]: a short fixed load, for runs that crash at each disk operation in turn.

pub mod build;
pub mod check;
pub mod client;
pub mod disk;
pub mod etcd_clients;
pub mod fault;
pub mod limits;
pub mod links;
pub mod member_changes;
pub mod network;
pub mod script;
pub mod server;
mod simulation;
pub mod witness;
pub mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use member_changes::{ChangeCounts, ChangeLoad};
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
    /// The seed that repeats the run.
    pub seed: u64,
    /// The number of members in the run.
    pub member_count: usize,
    /// The broken promise or invariant, as text for people.
    pub reason: String,
}

/// The first of the seeds that run an ensemble. If the caller names no member count, seeds from
/// here on run 3 or 5 members, and lower seeds run one member.
pub const ENSEMBLE_SEEDS: u64 = 1_000_000_000;

/// How many members the run of a seed has if the caller does not say so: 1, 3 or 5.
pub fn member_count(seed: u64) -> usize {
    match seed {
        ENSEMBLE_SEEDS.. if seed.is_multiple_of(4) => 5,
        ENSEMBLE_SEEDS.. => 3,
        _ => 1,
    }
}

/// Runs one member, with all options drawn from the seed.
///
/// # Errors
/// The member broke a promise or an invariant.
pub fn run_seed(seed: u64) -> Result<Summary, Failure> {
    run(Options::draw(seed))
}

/// Runs `member_count` members (1 to [`limits::MEMBERS_MAX`]), with all other options drawn from
/// the seed.
///
/// # Errors
/// A member broke a promise or an invariant.
pub fn run_ensemble(seed: u64, member_count: usize) -> Result<Summary, Failure> {
    run(Options::draw_ensemble(seed, member_count))
}

/// Runs a simulation with these options.
///
/// # Errors
/// Like [`run_seed`].
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

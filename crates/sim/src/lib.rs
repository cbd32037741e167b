//! The fake world: a member with its disk, its network and its clients, under one seed.
//!
//! It runs the step functions that ship (`member`), driven as the shell that ships drives them, in
//! virtual time over [`storage::fault_disk`]. Clients speak ZooKeeper's bytes. Whatever is left to
//! chance, faults included, is drawn from the seed: the same seed gives the same run, event by
//! event, and [`Failure`] names the line that repeats it.
//!
//! - [`run_seed`]: everything drawn. [`run`]: with [`Options`] of the caller's.
//! - [`script`]: a short fixed load, with a crash at every operation of the disk.

pub mod check;
pub mod client;
pub mod disk;
pub mod fault;
pub mod limits;
pub mod network;
pub mod script;
pub mod server;
mod simulation;
pub mod witness;
pub mod world;

use std::panic::{AssertUnwindSafe, catch_unwind};

use simulation::Simulation;
pub use simulation::{Options, Summary};
use thiserror::Error;

/// A run that went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reason}\nrepeat with: quorate sim --seed {seed}")]
pub struct Failure {
    /// Of the run.
    pub seed: u64,
    /// What went wrong.
    pub reason: String,
}

/// Runs everything that a seed says.
///
/// # Errors
/// The member did what no correct one would have done.
pub fn run_seed(seed: u64) -> Result<Summary, Failure> {
    run(Options::draw(seed))
}

/// Runs what the options say.
///
/// # Errors
/// As [`run_seed`].
pub fn run(options: Options) -> Result<Summary, Failure> {
    let seed = options.seed;
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
    Err(Failure { seed, reason })
}

//! The subcommands of `quorate bench`. The options of each stand beside its workload.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::fill::{self, FillArgs};
use crate::latencies::{self, LatencyArgs};

/// Options of `quorate bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    workload: Workload,
}

#[derive(Debug, Subcommand)]
enum Workload {
    /// The service-latency test: create, set, get, delete, ephemerals, watches
    ZkLatencies(LatencyArgs),
    /// A million znodes: how fast they are made and how much memory each takes
    ZkFill(FillArgs),
}

/// Runs a benchmark and prints it.
///
/// # Errors
/// A target does not answer, or a file cannot be written.
pub fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    match &args.workload {
        Workload::ZkLatencies(args) => latencies::command(args),
        Workload::ZkFill(args) => fill::command(args),
    }
}

//! What all workloads share: the options that say where to measure, taking turns between the
//! servers, and what is printed and written down whatever was measured.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::Value;

use crate::machine_info::{MachineInfo, disk_latencies, stolen_ticks};
use crate::target::{Target, TargetAddress};

/// Where to measure and what to write down.
#[derive(Debug, Args)]
pub struct Where {
    /// The server to measure
    #[arg(long, value_name = "zk://HOST:PORT[,...]")]
    pub target: TargetAddress,
    /// Another one, measured in turn with the first
    #[arg(long, value_name = "zk://HOST:PORT[,...]")]
    pub compare: Option<TargetAddress>,
    /// Measure how long fdatasync takes in this folder, which should be on the servers' disk
    #[arg(long, value_name = "DIR")]
    pub disk: Option<PathBuf>,
    /// Write all figures to a file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// How often a workload is repeated that is short.
#[derive(Debug, Args)]
pub struct Rounds {
    /// Measured runs of each; figures are medians
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Runs before those, which warm the servers and are not counted
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub warmup: u32,
}

impl Where {
    /// The servers, the one in question first.
    ///
    /// # Errors
    /// One does not answer.
    pub fn targets(&self) -> anyhow::Result<Vec<Target>> {
        core::iter::once(&self.target).chain(&self.compare).map(Target::find).collect()
    }

    /// The machine and its disk.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn header(&self) -> anyhow::Result<String> {
        let mut out =
            format!("quorate {} bench on {}\n", env!("CARGO_PKG_VERSION"), MachineInfo::read());
        if let Some(folder) = &self.disk {
            let latencies = disk_latencies(folder)
                .map_err(|error| anyhow::anyhow!("--disk {}: {error}", folder.display()))?;
            out += &format!(
                "fdatasync of 4 KiB in {}: p50 {:.0} us, p99 {:.0} us, max {:.0} us\n",
                folder.display(),
                latencies.percentile_us(50.0),
                latencies.percentile_us(99.0),
                latencies.max_us()
            );
        }
        Ok(out)
    }

    /// Writes all figures to the file, if there is to be one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write_json(&self, all: &Value) -> anyhow::Result<()> {
        let Some(path) = &self.json else { return Ok(()) };
        std::fs::write(path, serde_json::to_string_pretty(all)?)
            .map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))
    }
}

/// Says what was wrong with the answers. It is not fatal: a figure with its errors beside it is
/// worth more than none.
pub fn end(trouble: u64) -> ExitCode {
    if trouble > 0 {
        eprintln!("{trouble} answers were errors, or sessions were lost: see the tables");
    }
    ExitCode::SUCCESS
}

/// CPU time that other guests of the host took since this was made.
pub struct Stolen(u64);

impl Stolen {
    /// From now on.
    pub fn start() -> Stolen {
        Stolen(stolen_ticks())
    }

    /// Says how much it was, if any.
    pub fn print(&self) {
        let ticks = stolen_ticks() - self.0;
        if ticks > 0 {
            println!("note: other guests of this host took {} ms of CPU meanwhile", ticks * 10);
        }
    }
}

/// A B C, then C B A, and so on.
pub fn order(count: usize, round: u32) -> Vec<usize> {
    match round % 2 {
        0 => (0..count).collect(),
        _ => (0..count).rev().collect(),
    }
}

/// Live on a terminal; elsewhere a line for each run, on standard error.
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// Nothing of so many steps is done yet.
    pub fn start(runs: u64) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| ProgressBar::new(runs));
        if let Some(bar) = &bar {
            let style = ProgressStyle::with_template("{pos}/{len} {elapsed} {msg}");
            bar.set_style(style.expect("the template is well formed"));
        }
        Progress(bar)
    }

    /// The next step begins.
    pub fn say(&self, what: &str) {
        match &self.0 {
            Some(bar) => {
                bar.set_message(what.to_string());
                bar.inc(1);
            }
            None => drop(writeln!(std::io::stderr(), "{what}")),
        }
    }

    /// All is done.
    pub fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_take_turns() {
        let rounds: Vec<_> = (0..3).map(|round| order(3, round)).collect();
        assert_eq!(rounds, [[0, 1, 2], [2, 1, 0], [0, 1, 2]]);
    }
}

//! What all workloads share: the options that say where to measure, taking turns between the
//! servers, and what is printed and written down whatever was measured.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use crate::figures::{self, Block};
use crate::machine_info::{MachineInfo, disk_latencies, stolen_ticks};
use crate::null_server::NullServer;
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

/// One workload on all servers, once on each, one after the other.
pub struct Comparison<'a> {
    at: &'a Where,
    workload: &'static str,
    about: String,
    targets: Vec<Target>,
    parts: Vec<Part>,
    progress: Progress,
    stolen: Stolen,
}

/// One of several tests of a workload; the only one has no title.
#[derive(Debug, Default)]
struct Part {
    title: String,
    /// What was published about it, a line each.
    published: Vec<String>,
    servers: Vec<Block>,
    ceiling: Option<Block>,
}

impl Comparison<'_> {
    /// Finds the servers and prints the machine and `about`: what will be done.
    ///
    /// # Errors
    /// A server does not answer, or the disk cannot be measured.
    pub fn start<'a>(
        at: &'a Where,
        workload: &'static str,
        about: &str,
    ) -> anyhow::Result<Comparison<'a>> {
        let targets = at.targets()?;
        let about = format!("{}{workload}: {about}\n", at.header()?);
        print!("{about}");
        Ok(Comparison {
            at,
            workload,
            about,
            parts: Vec::new(),
            progress: Progress::start(0),
            stolen: Stolen::start(),
            targets,
        })
    }

    /// The servers, the one in question first.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// What is measured from here on stands below this title, beside what was published about it. A
    /// workload that is one test needs none.
    pub fn begin(&mut self, title: String, published: Vec<String>) {
        self.progress.say(&title);
        self.parts.push(Part { title, published, ..Part::default() });
    }

    fn part(&mut self) -> &mut Part {
        if self.parts.is_empty() {
            self.parts.push(Part::default());
        }
        self.parts.last_mut().expect("it was just made")
    }

    /// Measures each server, in another order in every other test. `measure` gets a label for paths
    /// that no other run has, and what says how far it is.
    ///
    /// # Errors
    /// One cannot be measured at all.
    pub fn measure(
        &mut self,
        mut measure: impl FnMut(&Target, &str, &dyn Fn(&str)) -> anyhow::Result<Block>,
    ) -> anyhow::Result<()> {
        let turn = self.parts.len().saturating_sub(1);
        let mut servers = vec![Block::default(); self.targets.len()];
        for place in order(servers.len(), turn as u32) {
            servers[place] = self.one(&self.targets[place], &mut measure)?;
        }
        self.part().servers = servers;
        Ok(())
    }

    /// Measures a server that does nothing: what the generator can do. Its znodes hold `data_bytes`
    /// and have `child_count` children.
    ///
    /// # Errors
    /// It cannot be measured.
    pub fn measure_ceiling(
        &mut self,
        data_bytes: usize,
        child_count: usize,
        mut measure: impl FnMut(&Target, &str, &dyn Fn(&str)) -> anyhow::Result<Block>,
    ) -> anyhow::Result<()> {
        let null = NullServer::with_children(data_bytes, child_count)?;
        self.part().ceiling = Some(self.one(&null.target(), &mut measure)?);
        Ok(())
    }

    fn one(
        &self,
        target: &Target,
        measure: &mut impl FnMut(&Target, &str, &dyn Fn(&str)) -> anyhow::Result<Block>,
    ) -> anyhow::Result<Block> {
        let say = |what: &str| self.progress.say(&format!("{}: {what}", target.name));
        measure(target, &std::process::id().to_string(), &say)
            .map_err(|error| anyhow::anyhow!("{}: {error}", target.address))
    }

    /// Prints the figures and writes them down.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self) -> anyhow::Result<ExitCode> {
        self.progress.end();
        self.stolen.print();
        for part in &self.parts {
            part.print();
        }
        let mut all = json!({ "workload": self.workload, "about": self.about });
        match self.parts.as_slice() {
            [part] if part.title.is_empty() => all["servers"] = part.servers_json(),
            parts => all["tests"] = parts.iter().map(Part::to_json).collect(),
        }
        self.at.write_json(&all)?;
        let servers = self.parts.iter().flat_map(|part| &part.servers);
        Ok(end(servers.map(|block| block.trouble).sum()))
    }
}

impl Part {
    fn print(&self) {
        println!();
        if !self.title.is_empty() {
            println!("== {}", self.title);
        }
        print!("{}", figures::table(&self.servers));
        if let Some(ceiling) = &self.ceiling {
            println!("the generator's ceiling:");
            print!("{}", figures::table(core::slice::from_ref(ceiling)));
        }
        for line in &self.published {
            println!("published: {line}");
        }
    }

    fn servers_json(&self) -> Value {
        self.servers.iter().chain(&self.ceiling).map(Block::to_json).collect()
    }

    fn to_json(&self) -> Value {
        let Part { title, published, .. } = self;
        json!({ "test": title, "published": published, "servers": self.servers_json() })
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
    /// Nothing of so many steps is done yet; 0 if their number says nothing.
    pub fn start(runs: u64) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| ProgressBar::new(runs));
        if let Some(bar) = &bar {
            let style = ProgressStyle::with_template(match runs {
                0 => "{elapsed} {msg}",
                _ => "{pos}/{len} {elapsed} {msg}",
            });
            // The clock goes on while a step does.
            bar.enable_steady_tick(Duration::from_millis(500));
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

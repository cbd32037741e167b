//! What most workloads share: the options that name the servers to measure, the loop that gives
//! each server its turns, and the output of any figures. (Workloads of the chunk store use only the
//! options for rounds and that loop.)
//!
//! In a *round* each server has one *turn*, that is, one run of the workload. The first rounds may
//! only warm the servers; the figures of the others count.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use results::schema::{Published, Test};

use crate::limits::{UNTIL_ROUNDS_MAX, UNTIL_ROUNDS_MIN};
use crate::measure::census::Census;
use crate::measure::figures::{self, Block};
use crate::measure::machine_info::{MachineInfo, disk_latencies, stolen_ticks};
use crate::measure::record::{self, NULL, OURS, PEER, Record};
use crate::servers::null_server::NullServer;
use crate::servers::target::{Scheme, Target, TargetAddress};

/// The options that name the servers to measure and the files to write.
#[derive(Debug, Args)]
pub struct Where {
    /// The server to measure
    #[arg(long, value_name = "zk://HOST:PORT[,...]")]
    pub target: TargetAddress,
    /// Another server, measured in turn with the first
    #[arg(long, value_name = "zk://HOST:PORT[,...]")]
    pub compare: Option<TargetAddress>,
    /// Measure how long fdatasync takes in this folder, which should be on the servers' disk
    #[arg(long, value_name = "DIR")]
    pub disk: Option<PathBuf>,
    /// Write all figures to a file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// How often a workload is repeated. In each round every server has one turn.
#[derive(Clone, Copy, Debug, Args)]
pub struct Rounds {
    /// Rounds that count; figures are medians of them
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Rounds before the counted ones, which warm the servers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(..=1000))]
    pub warmup: u32,
    /// How precisely a ratio must be known.
    #[command(flatten)]
    pub goal: Goal,
}

/// How precisely the ratio of the two systems must be known before the rounds end, and how long
/// that may take.
#[derive(Clone, Copy, Debug, Args)]
pub struct Goal {
    /// Go on until the ratio of the two systems is known so well: half of its interval (95 %), as
    /// `2%`
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub until: Option<f64>,
    /// Minutes that a test may take for that
    #[arg(long, value_name = "MINUTES", default_value_t = 10, requires = "until",
          value_parser = clap::value_parser!(u64).range(1..=1440))]
    pub within: u64,
}

impl Goal {
    /// No goal: the rounds end after their fixed number.
    pub const NONE: Goal = Goal { until: None, within: 0 };
}

/// Reads a percentage (`2%` or `2`) as a fraction: 0.02.
///
/// # Errors
/// The text is no number, or the number is not within 0.1 to 100.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    match number {
        Ok(number) if (0.1..=100.0).contains(&number) => Ok(number / 100.0),
        _ => Err("it is 0.1 to 100, in percent".to_string()),
    }
}

impl Rounds {
    /// One round, which counts, and no warm-up.
    pub const ONCE: Rounds = Rounds::of(1, 0);

    /// `rounds` rounds that count, after `warmup` rounds that do not.
    pub const fn of(rounds: u32, warmup: u32) -> Rounds {
        Rounds { rounds, warmup, goal: Goal::NONE }
    }

    /// These rounds without `--until`.
    pub fn fixed(self) -> Rounds {
        Rounds { goal: Goal::NONE, ..self }
    }

    /// Refuses `--until`, in a workload whose results have no ratio.
    ///
    /// # Errors
    /// `--until` is set.
    pub fn ensure_fixed(&self) -> anyhow::Result<()> {
        let is_fixed = self.goal.until.is_none();
        anyhow::ensure!(is_fixed, "--until: there is no ratio of rates to find here");
        Ok(())
    }

    /// Runs all rounds: in each, `turn(place, round)` measures each of the `places` once. The order
    /// of the places alternates between forward and backward, so that a drift of the machine hits
    /// all places alike. Returns a list of results for each place, with only the rounds that count,
    /// in order: results at one index belong to one round.
    ///
    /// # Errors
    /// The first error of a turn; no turn follows it.
    pub fn take_turns<T>(
        &self,
        places: usize,
        mut turn: impl FnMut(usize, u32) -> anyhow::Result<T>,
    ) -> anyhow::Result<Vec<Vec<T>>> {
        let mut all: Vec<Vec<T>> = (0..places).map(|_| Vec::new()).collect();
        for round in 0..self.all() {
            self.take_round(&mut all, round, &mut turn)?;
        }
        Ok(all)
    }

    /// Like [`Rounds::take_turns`], but with `--until` further rounds follow. They end when `width`
    /// of the results (the half width of the ratio, see [`super::figures`]) is at most the goal, or
    /// the time is over. With one place there is no ratio, so no rounds are added. With `--until`
    /// it also returns a line that says whether the goal was reached.
    ///
    /// # Errors
    /// See [`Rounds::take_turns`].
    pub fn take_turns_until<T>(
        &self,
        places: usize,
        mut turn: impl FnMut(usize, u32) -> anyhow::Result<T>,
        mut width: impl FnMut(&[Vec<T>]) -> Option<f64>,
    ) -> anyhow::Result<(Vec<Vec<T>>, Option<String>)> {
        let began = Instant::now();
        let mut all = self.take_turns(places, &mut turn)?;
        let Some(wanted) = self.goal.until else { return Ok((all, None)) };
        if places < 2 {
            let line = "until: there is one system, and so no ratio".to_string();
            return Ok((all, Some(line)));
        }
        let mut round = self.all();
        loop {
            let (found, rounds) = (width(&all), round - self.warmup);
            let is_over = began.elapsed() >= Duration::from_secs(self.goal.within * 60)
                || rounds >= UNTIL_ROUNDS_MAX;
            // The interval of a few pairs may be narrow by chance.
            let is_known = rounds >= UNTIL_ROUNDS_MIN && found.is_some_and(|it| it <= wanted);
            if is_known || is_over {
                return Ok((all, Some(until_line(wanted, found, (rounds, began.elapsed())))));
            }
            // A pair of rounds, forward and backward, so that a drift hits all places alike.
            for _ in 0..2 {
                self.take_round(&mut all, round, &mut turn)?;
                round += 1;
            }
        }
    }

    /// Runs one more round, and appends each place's result to its list in `all` if the round
    /// counts.
    fn take_round<T>(
        &self,
        all: &mut [Vec<T>],
        round: u32,
        turn: &mut impl FnMut(usize, u32) -> anyhow::Result<T>,
    ) -> anyhow::Result<()> {
        for place in order(all.len(), round) {
            let result = turn(place, round)?;
            if round >= self.warmup {
                all[place].push(result);
            }
        }
        Ok(())
    }

    /// The number of all rounds, warm-up rounds included. Rounds of `--until` are not in it.
    pub fn all(&self) -> u32 {
        self.warmup + self.rounds
    }

    /// The name of a round (counted from 0) for progress messages.
    pub fn round_name(&self, round: u32) -> String {
        match self.goal.until {
            None => format!("round {} of {}", round + 1, self.all()),
            Some(_) => format!("round {}", round + 1),
        }
    }

    /// The line that says how warm everything was when the test began: how often `work` was done
    /// before the first round that counts, and how long the servers have run.
    pub fn warm_line(&self, work: &str, targets: &[Target]) -> String {
        // The null server is a thread of this process.
        let servers = targets.iter().filter(|target| target.processes().is_some());
        let servers: Vec<String> = servers.map(Target::age).collect();
        self.warm_line_of(work, &servers)
    }

    fn warm_line_of(&self, work: &str, servers: &[String]) -> String {
        let before = match self.warmup {
            0 => "no round".to_string(),
            1 => "1 round".to_string(),
            more => format!("{more} rounds"),
        };
        let counted = match self.rounds {
            1 => "the one that counts".to_string(),
            more => format!("the first of {more} that count"),
        };
        let servers = servers.join("; ");
        format!("warm: {before} of {work} before {counted}; at the start {servers}")
    }
}

/// The line that says whether the ratio became known to `wanted`, and if not, how long that would
/// take: the width of an interval falls with the square root of the number of rounds.
fn until_line(wanted: f64, found: Option<f64>, (rounds, took): (u32, Duration)) -> String {
    let minutes = took.as_secs_f64() / 60.0;
    let wanted_text = format!("{:.1} %", wanted * 100.0);
    match found {
        None => format!("until {wanted_text}: no interval after {rounds} rounds, {minutes:.1} min"),
        Some(found) if found <= wanted => format!(
            "until {wanted_text}: the ratio is known to {:.1} % after {rounds} rounds, {minutes:.1} \
             min",
            found * 100.0
        ),
        Some(found) => format!(
            "until {wanted_text}: not reached. The ratio is known to {:.1} % after {rounds} rounds, \
             {minutes:.1} min; on this machine it would take about {:.0} min",
            found * 100.0,
            minutes * (found / wanted).powi(2)
        ),
    }
}

/// One run of a workload on one target.
pub struct Turn<'a> {
    /// The target that is measured.
    pub target: &'a Target,
    /// The index of `target` in the list of the targets that the run compares.
    pub place: usize,
    /// The round that this turn is in, counted from 0. The first rounds may be warm-up.
    pub round: u32,
    /// Whether the figures of this turn count.
    pub counts: bool,
    /// A label for paths, which no other turn has.
    pub label: String,
    /// Whether the workload may leave its tree on the server: true only in the last round of a
    /// fixed number of rounds.
    pub may_keep: bool,
    said: Option<(String, &'a Progress)>,
}

impl Turn<'_> {
    /// A turn of `quorate reproduce`, which shows its progress itself.
    pub fn from_session(target: &Target, (place, round, counts): (usize, u32, bool)) -> Turn<'_> {
        let label = format!("{}-{place}-{round}", std::process::id());
        Turn { target, place, round, counts, label, may_keep: false, said: None }
    }

    /// A single turn for a unit test, without progress messages.
    #[cfg(test)]
    pub fn only(target: &Target) -> Turn<'_> {
        let label = "t".to_string();
        Turn { target, place: 0, round: 0, counts: true, label, may_keep: true, said: None }
    }

    /// Shows the step that the turn is at.
    pub fn say(&self, what: &str) {
        if let Some((prefix, progress)) = &self.said {
            progress.say(&format!("{prefix}{}: {what}", self.target.name));
        }
    }
}

impl Where {
    /// Finds the targets: that of `--target` first, then that of `--compare`, if it is set.
    ///
    /// # Errors
    /// A server does not answer, or an address is not one of protocol `scheme`.
    pub fn targets(&self, scheme: Scheme) -> anyhow::Result<Vec<Target>> {
        let find = |address: &TargetAddress| {
            address.check_scheme(scheme)?;
            Target::find(address)
        };
        core::iter::once(&self.target).chain(&self.compare).map(find).collect()
    }

    /// Starts the record of a run. Also returns the lines that describe the machine and its disk.
    ///
    /// # Errors
    /// The folder of `--disk` cannot be written.
    pub fn start_record(&self, workload: &str) -> anyhow::Result<(Record, String)> {
        let mut record = Record::start(workload);
        let mut out =
            format!("quorate {} bench on {}\n", env!("CARGO_PKG_VERSION"), MachineInfo::read());
        out += "server CPU: by the clocks of its processes, in ns, ended threads included; a thread on a \
                core is up to a tick of the scheduler (1 to 10 ms) behind\n";
        if let Some(folder) = &self.disk {
            let latencies = disk_latencies(folder)
                .map_err(|error| anyhow::anyhow!("--disk {}: {error}", folder.display()))?;
            record.note_disk(folder, &latencies);
            out += &format!(
                "fdatasync of 4 KiB in {}: p50 {:.0} us, p99 {:.0} us, max {:.0} us\n",
                folder.display(),
                latencies.percentile_us(50.0),
                latencies.percentile_us(99.0),
                latencies.max_us()
            );
        }
        Ok((record, out))
    }
}

/// The targets that a workload measures in turn, and the record that their figures go to.
pub struct Servers<'a> {
    at: &'a Where,
    record: Record,
    targets: Vec<Target>,
    census: Census,
}

impl Servers<'_> {
    /// Starts to count the CPU time of each server of an ensemble. `about` are the lines that were
    /// printed before the first test; the record keeps them.
    pub fn start<'a>(
        at: &'a Where,
        (mut record, about): (Record, &str),
        targets: Vec<Target>,
    ) -> Servers<'a> {
        let census = Census::start(&targets);
        record.results.about = about.lines().map(str::to_string).collect();
        record.note_targets(&targets);
        Servers { at, record, targets, census }
    }

    /// Adds a target that takes turns with the others. Its CPU time is not counted for each server.
    pub fn add(&mut self, target: Target) {
        self.targets.push(target);
    }

    /// The targets, that of `--target` first.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Gives each target its turn in each round. Returns a list of results for each target, with
    /// only the rounds that count, and the line about `--until`, if it is set. For `--until`,
    /// `width` returns the half width of the ratio between the first two targets. The labels of the
    /// turns begin with `label`.
    ///
    /// # Errors
    /// A target cannot be measured at all.
    pub fn measure<T>(
        &self,
        label: &str,
        repeat: &Rounds,
        progress: &Progress,
        mut measure: impl FnMut(&Turn<'_>) -> anyhow::Result<T>,
        width: impl FnMut(&[Vec<T>]) -> Option<f64>,
    ) -> anyhow::Result<(Vec<Vec<T>>, Option<String>)> {
        let turn = |place: usize, round: u32| {
            let prefix = match repeat.all() {
                1 if repeat.goal.until.is_none() => String::new(),
                _ => format!("{}, ", repeat.round_name(round)),
            };
            let turn = Turn {
                target: &self.targets[place],
                place,
                round,
                counts: round >= repeat.warmup,
                label: format!("{label}-{round}"),
                may_keep: round + 1 == repeat.all() && repeat.goal.until.is_none(),
                said: Some((prefix, progress)),
            };
            one(&turn, &mut measure)
        };
        repeat.take_turns_until(self.targets.len(), turn, width)
    }

    /// Prints what each server of an ensemble cost, and writes the record to the file of `--json`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(mut self, tests: Vec<Test>, trouble: u64) -> anyhow::Result<ExitCode> {
        self.record.results.about.extend(self.census.end());
        if let Some(path) = &self.at.json {
            record::write(&self.record.end(tests), path)?;
        }
        Ok(end(trouble))
    }
}

/// A workload that measures all targets in turn and prints a table of figures for each of its
/// tests.
pub struct Comparison<'a> {
    servers: Servers<'a>,
    parts: Vec<Part>,
    progress: Progress,
    stolen: Stolen,
}

/// The results of one test. If a workload has only one test, that test has no title.
#[derive(Debug, Default)]
struct Part {
    title: String,
    /// Figures that others published about this test, one line each.
    published: Vec<String>,
    /// The line that says how warm everything was when the test began.
    warm: String,
    /// The line about `--until`, if it is set: see [`Rounds::take_turns_until`].
    until: Option<String>,
    servers: Vec<Block>,
    ceiling: Option<Block>,
}

impl Comparison<'_> {
    /// Finds the targets of `zk://` addresses, and prints the machine and `about`, which says what
    /// the workload does.
    ///
    /// # Errors
    /// A server does not answer, or the disk cannot be measured.
    pub fn start<'a>(
        at: &'a Where,
        workload: &'static str,
        about: &str,
    ) -> anyhow::Result<Comparison<'a>> {
        Comparison::start_on(Scheme::Zk, at, workload, about)
    }

    /// Like [`Comparison::start`], for targets that speak the protocol `scheme`.
    ///
    /// # Errors
    /// See [`Comparison::start`].
    pub fn start_on<'a>(
        scheme: Scheme,
        at: &'a Where,
        workload: &'static str,
        about: &str,
    ) -> anyhow::Result<Comparison<'a>> {
        let targets = at.targets(scheme)?;
        let (record, header) = at.start_record(workload)?;
        let about = format!("{header}{workload}: {about}\n");
        print!("{about}");
        Ok(Comparison {
            servers: Servers::start(at, (record, &about), targets),
            parts: Vec::new(),
            progress: Progress::start(0),
            stolen: Stolen::start(),
        })
    }

    /// The targets, that of `--target` first.
    pub fn targets(&self) -> &[Target] {
        self.servers.targets()
    }

    /// Begins a test. What is measured from here on belongs to it, and is printed below its title
    /// beside the figures that others `published`. A workload of one test needs no title.
    pub fn begin(&mut self, title: String, published: Vec<String>) {
        if !title.is_empty() {
            self.progress.say(&title);
        }
        self.parts.push(Part { title, published, ..Part::default() });
    }

    fn part(&mut self) -> &mut Part {
        if self.parts.is_empty() {
            self.parts.push(Part::default());
        }
        self.parts.last_mut().expect("it was just made")
    }

    /// Measures each target in turn, in each round. `work` names what one round does.
    ///
    /// # Errors
    /// A target cannot be measured at all.
    pub fn measure(
        &mut self,
        repeat: &Rounds,
        work: &str,
        measure: impl FnMut(&Turn<'_>) -> anyhow::Result<Block>,
    ) -> anyhow::Result<()> {
        self.part().warm = repeat.warm_line(work, self.servers.targets());
        let label = self.label();
        let (rounds, until) =
            self.servers.measure(&label, repeat, &self.progress, measure, |rounds| {
                let blocks = rounds.iter().map(|of_one| Block::from_rounds(of_one.clone()));
                figures::ratio_width(&blocks.collect::<Vec<_>>())
            })?;
        let part = self.part();
        part.servers = rounds.into_iter().map(Block::from_rounds).collect();
        part.until = until;
        Ok(())
    }

    /// Measures the null server, once: its rate is the most that the generator can reach.
    ///
    /// # Errors
    /// The null server cannot be measured.
    pub fn measure_ceiling(
        &mut self,
        null: &NullServer,
        mut measure: impl FnMut(&Turn<'_>) -> anyhow::Result<Block>,
    ) -> anyhow::Result<()> {
        let turn = Turn {
            target: &null.target(),
            place: self.servers.targets().len(),
            round: 0,
            counts: true,
            label: format!("{}-ceiling", self.label()),
            may_keep: false,
            said: Some((String::new(), &self.progress)),
        };
        let ceiling = one(&turn, &mut measure)?;
        self.part().ceiling = Some(ceiling);
        Ok(())
    }

    /// The start of all labels of this process and this test.
    fn label(&self) -> String {
        format!("{}-{}", std::process::id(), self.parts.len())
    }

    /// Prints the figures, and writes them to the file of `--json`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(self) -> anyhow::Result<ExitCode> {
        self.progress.end();
        self.stolen.print();
        for part in &self.parts {
            part.print();
        }
        let servers = self.parts.iter().flat_map(|part| &part.servers);
        let trouble = servers.map(|block| block.trouble).sum();
        let tests = self.parts.iter().map(Part::to_test).collect();
        self.servers.finish(tests, trouble)
    }
}

fn one<T>(
    turn: &Turn<'_>,
    measure: &mut impl FnMut(&Turn<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    measure(turn).map_err(|error| anyhow::anyhow!("{}: {error}", turn.target.address))
}

impl Part {
    fn print(&self) {
        println!();
        if !self.title.is_empty() {
            println!("== {}", self.title);
        }
        println!("{}", self.warm);
        print!("{}", figures::table(&self.servers));
        self.until.iter().for_each(|line| println!("{line}"));
        if let Some(ceiling) = &self.ceiling {
            println!("the generator's ceiling, one run:");
            print!("{}", figures::table(core::slice::from_ref(ceiling)));
        }
        for line in &self.published {
            println!("published: {line}");
        }
    }

    fn to_test(&self) -> Test {
        let ids = [OURS, PEER];
        let of_servers = self.servers.iter().zip(ids);
        let ceiling = self.ceiling.iter().map(|block| (block, NULL));
        let text = |line: &String| Published { text: line.clone(), ..Published::default() };
        Test {
            title: self.title.clone(),
            warm: self.warm.clone(),
            published: self.published.iter().map(text).collect(),
            systems: of_servers.chain(ceiling).map(|(it, id)| it.of_comparison(id)).collect(),
            remarks: self.until.iter().cloned().collect(),
            ..Test::default()
        }
    }
}

/// Prints how many answers were errors, if any were. The exit status is success all the same: a
/// figure with its errors beside it is worth more than none.
fn end(trouble: u64) -> ExitCode {
    if trouble > 0 {
        eprintln!("{trouble} answers were errors, or sessions were lost: see the tables");
    }
    ExitCode::SUCCESS
}

/// Counts the CPU time that other guests of the host take from this machine. Holds the ticks of
/// `/proc/stat` at its start.
pub struct Stolen(u64);

impl Stolen {
    /// Starts to count.
    pub fn start() -> Stolen {
        Stolen(stolen_ticks())
    }

    /// Prints how much CPU time was stolen since the start, if any was.
    pub fn print(&self) {
        let ticks = stolen_ticks() - self.0;
        if ticks > 0 {
            println!("note: other guests of this host took {} ms of CPU meanwhile", ticks * 10);
        }
    }
}

/// The order in which places take their turns: A B C in even rounds, C B A in odd ones.
pub fn order(count: usize, round: u32) -> Vec<usize> {
    match round % 2 {
        0 => (0..count).collect(),
        _ => (0..count).rev().collect(),
    }
}

/// Shows the progress of a run on standard error: a bar on a terminal, else one line for each step.
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// Starts the display for `runs` steps; 0 if their number is not known.
    pub fn start(runs: u64) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| ProgressBar::new(runs));
        if let Some(bar) = &bar {
            let style = ProgressStyle::with_template(match runs {
                0 => "{elapsed} {msg}",
                _ => "{pos}/{len} {elapsed} {msg}",
            });
            // The elapsed time goes on during a step.
            bar.enable_steady_tick(Duration::from_millis(500));
            bar.set_style(style.expect("the template is well formed"));
        }
        Progress(bar)
    }

    /// Begins the next step, and shows `what` as its name.
    pub fn say(&self, what: &str) {
        match &self.0 {
            Some(bar) => {
                bar.set_message(what.to_string());
                bar.inc(1);
            }
            None => drop(writeln!(std::io::stderr(), "{what}")),
        }
    }

    /// Removes the bar.
    pub fn end(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::figures::{Figure, Good};

    #[test]
    fn targets_take_turns_and_only_rounds_that_count_are_kept() {
        let mut seen = Vec::new();
        let repeat = Rounds::of(3, 1);
        let results = repeat.take_turns(2, |place, round| {
            seen.push((place, round));
            Ok(10 * round + place as u32)
        });
        assert_eq!(seen, [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2), (1, 3), (0, 3)]);
        assert_eq!(results.unwrap(), [[10, 20, 30], [11, 21, 31]]);
        let three: Vec<_> = (0..3).map(|round| order(3, round)).collect();
        assert_eq!(three, [[0, 1, 2], [2, 1, 0], [0, 1, 2]]);
    }

    #[test]
    fn rounds_go_on_until_a_ratio_is_known() {
        let repeat = Rounds { goal: Goal { until: Some(0.02), within: 1 }, ..Rounds::of(2, 1) };
        let mut widths = [None, Some(0.05), Some(0.01)].into_iter();
        let turn = |place: usize, round| Ok(10 * round + place as u32);
        let (all, line) = repeat.take_turns_until(2, turn, |_| widths.next().flatten()).unwrap();
        assert_eq!(all, [[10, 20, 30, 40, 50, 60], [11, 21, 31, 41, 51, 61]]);
        assert!(line.unwrap().contains("known to 1.0 % after 6 rounds"));
        // At least six rounds, however narrow the interval is.
        let (all, _) = repeat.take_turns_until(2, turn, |_| Some(0.0)).unwrap();
        assert_eq!(all[0].len(), 6);
        let over = Rounds { goal: Goal { within: 0, ..repeat.goal }, ..repeat };
        let (all, line) = over.take_turns_until(2, turn, |_| Some(0.04)).unwrap();
        assert_eq!(all[0].len(), 2);
        let line = line.unwrap();
        assert!(line.contains("not reached") && line.contains("4.0 %"), "{line}");
        let (_, line) = repeat.fixed().take_turns_until(2, turn, |_| None).unwrap();
        assert_eq!(line, None);
        let (all, line) = repeat.take_turns_until(1, turn, |_| None).unwrap();
        assert_eq!(all, [[10, 20]]);
        assert!(line.unwrap().contains("no ratio"));
        assert_eq!((percent("2%"), percent("0.5")), (Ok(0.02), Ok(0.005)));
        assert!(percent("0").is_err() && percent("x").is_err());
    }

    #[test]
    fn nothing_more_is_done_when_a_turn_fails() {
        let mut turns = 0;
        let result: anyhow::Result<Vec<Vec<()>>> = Rounds::ONCE.take_turns(3, |place, _| {
            turns += 1;
            anyhow::ensure!(place != 1, "no");
            Ok(())
        });
        assert_eq!((result.is_err(), turns), (true, 2));
    }

    /// Two servers whose n-th runs give n and 10 n. The values of both stay paired by round, also
    /// in the table.
    #[test]
    fn what_is_compared_are_runs_of_one_round() {
        let nulls = [NullServer::start(1).unwrap(), NullServer::start(1).unwrap()];
        let at = Where {
            target: "zk://127.0.0.1:1".parse().unwrap(),
            compare: None,
            disk: None,
            json: None,
        };
        let targets = nulls.iter().map(NullServer::target).collect();
        let mut comparison = Comparison {
            servers: Servers::start(&at, (Record::start("zk-test"), ""), targets),
            parts: Vec::new(),
            progress: Progress(None),
            stolen: Stolen(0),
        };
        let mut labels = Vec::new();
        let mut runs = [0.0; 2];
        let repeat = Rounds::of(3, 1);
        comparison
            .measure(&repeat, "nothing", |turn| {
                labels.push((turn.place, turn.may_keep, turn.label.clone()));
                runs[turn.place] += 1.0;
                let value = runs[turn.place] * if turn.place == 0 { 1.0 } else { 10.0 };
                let mut block = turn.target.block();
                block.figures.push(Figure::once("wait", "ms", value, Good::Less));
                Ok(block)
            })
            .unwrap();
        let servers = &comparison.parts[0].servers;
        assert_eq!(servers[0].figures[0].values, [2.0, 3.0, 4.0]);
        assert_eq!(servers[1].figures[0].values, [20.0, 30.0, 40.0]);
        assert!(figures::table(servers).contains("1/10.0  (1/10.0 to 1/10.0 in 3 pairs)"));
        let places: Vec<usize> = labels.iter().map(|(place, ..)| *place).collect();
        assert_eq!(places, [0, 1, 1, 0, 0, 1, 1, 0]);
        let keep: Vec<bool> = labels.iter().map(|(_, may_keep, _)| *may_keep).collect();
        assert_eq!(keep, [false, false, false, false, false, false, true, true]);
        // Targets may be servers of one ensemble, or one server twice, so their paths must differ.
        assert_ne!(labels[0].2, labels[2].2);
    }

    #[test]
    fn what_was_warm_is_one_line() {
        let servers = ["A up for 3 s".to_string(), "B up for 9 s".to_string()];
        for (rounds, warmup, expected) in [
            (3, 1, "1 round of 9 creates before the first of 3 that count"),
            (1, 0, "no round of 9 creates before the one that counts"),
            (2, 2, "2 rounds of 9 creates before the first of 2 that count"),
        ] {
            let line = Rounds::of(rounds, warmup).warm_line_of("9 creates", &servers);
            let expected = format!("warm: {expected}; at the start A up for 3 s; B up for 9 s");
            assert_eq!(line, expected);
        }
    }
}

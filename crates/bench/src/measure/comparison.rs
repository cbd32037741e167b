//! The parts that all workloads share: the options that say where to measure, the turns of the
//! servers, and the output for any figures.

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

/// Where to measure and what to write down.
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

/// How often a workload is repeated. In each round every server has its turn.
#[derive(Clone, Copy, Debug, Args)]
pub struct Rounds {
    /// Rounds that count; figures are medians of them
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Rounds before the counted ones, which warm the servers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(..=1000))]
    pub warmup: u32,
    /// How well a ratio is to be known.
    #[command(flatten)]
    pub goal: Goal,
}

/// How well the ratio of two systems is to be known, and how long that may take.
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
    /// No goal: rounds end with their number.
    pub const NONE: Goal = Goal { until: None, within: 0 };
}

/// A part of 1, from a number of percent.
///
/// # Errors
/// It is no such number, or not in 0.1 to 100.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    match number {
        Ok(number) if (0.1..=100.0).contains(&number) => Ok(number / 100.0),
        _ => Err("it is 0.1 to 100, in percent".to_string()),
    }
}

impl Rounds {
    /// One round, which counts.
    pub const ONCE: Rounds = Rounds::of(1, 0);

    /// So many rounds that count, after so many that do not.
    pub const fn of(rounds: u32, warmup: u32) -> Rounds {
        Rounds { rounds, warmup, goal: Goal::NONE }
    }

    /// As many rounds, and no more.
    pub fn fixed(self) -> Rounds {
        Rounds { goal: Goal::NONE, ..self }
    }

    /// Refuses `--until`, where results have no ratio.
    ///
    /// # Errors
    /// It is asked for.
    pub fn ensure_fixed(&self) -> anyhow::Result<()> {
        let is_fixed = self.goal.until.is_none();
        anyhow::ensure!(is_fixed, "--until: there is no ratio of rates to find here");
        Ok(())
    }

    /// Gives each of `places` its turn in each round, forward and then backward, so that a drift
    /// hits all places alike. The result has a list for each place, with the rounds that count in
    /// order: results at one index belong to one round.
    ///
    /// # Errors
    /// The first error of a turn; the turns after it are not taken.
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

    /// As [`Rounds::take_turns`]; then goes on until `width` of the results is small enough, if
    /// that is asked for, or the time is over. One place has no ratio, and so no more rounds. Also
    /// returns the line that says what became of it.
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
            // Forward and backward, so that a drift hits all alike.
            for _ in 0..2 {
                self.take_round(&mut all, round, &mut turn)?;
                round += 1;
            }
        }
    }

    /// One more round for each of the places in `all`.
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

    /// All rounds, with those that do not count.
    pub fn all(&self) -> u32 {
        self.warmup + self.rounds
    }

    /// What a round is called while it is under way, counted from 0.
    pub fn round_name(&self, round: u32) -> String {
        match self.goal.until {
            None => format!("round {} of {}", round + 1, self.all()),
            Some(_) => format!("round {}", round + 1),
        }
    }

    /// The line that says what was warm when the test began: how often `work` was done before, and
    /// how long the servers have run.
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

/// What became of the wish to know a ratio to `wanted`. The width falls with the root of the
/// rounds.
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

/// One run of a workload on one server.
pub struct Turn<'a> {
    /// The server.
    pub target: &'a Target,
    /// The index of the server among those that are compared.
    pub place: usize,
    /// The round of the run, counted from the first one, which may not count.
    pub round: u32,
    /// Whether its figures count.
    pub counts: bool,
    /// A label for paths that no other run has.
    pub label: String,
    /// Whether this is the last run on a server that stays: only this run keeps its tree.
    pub may_keep: bool,
    said: Option<(String, &'a Progress)>,
}

impl Turn<'_> {
    /// A turn of a reproduction, which shows its progress itself.
    pub fn from_session(target: &Target, (place, round, counts): (usize, u32, bool)) -> Turn<'_> {
        let label = format!("{}-{place}-{round}", std::process::id());
        Turn { target, place, round, counts, label, may_keep: false, said: None }
    }

    /// The only turn of a test, with no progress to show.
    #[cfg(test)]
    pub fn only(target: &Target) -> Turn<'_> {
        let label = "t".to_string();
        Turn { target, place: 0, round: 0, counts: true, label, may_keep: true, said: None }
    }

    /// Shows how far the turn is.
    pub fn say(&self, what: &str) {
        if let Some((prefix, progress)) = &self.said {
            progress.say(&format!("{prefix}{}: {what}", self.target.name));
        }
    }
}

impl Where {
    /// The servers, the one in question first.
    ///
    /// # Errors
    /// One does not answer, or is of another protocol than `scheme`.
    pub fn targets(&self, scheme: Scheme) -> anyhow::Result<Vec<Target>> {
        let find = |address: &TargetAddress| {
            address.check_scheme(scheme)?;
            Target::find(address)
        };
        core::iter::once(&self.target).chain(&self.compare).map(find).collect()
    }

    /// Begins the record of a run, and returns the lines about the machine and its disk.
    ///
    /// # Errors
    /// The folder cannot be written.
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

/// The servers that a workload measures in turn, and the file that its figures go to.
pub struct Servers<'a> {
    at: &'a Where,
    record: Record,
    targets: Vec<Target>,
    census: Census,
}

impl Servers<'_> {
    /// Begins to count what each server of an ensemble costs. `about`: the lines that were printed
    /// before the first test.
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

    /// Adds a server that takes turns with the others. Its cost is not counted.
    pub fn add(&mut self, target: Target) {
        self.targets.push(target);
    }

    /// The servers, the one in question first.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// Gives each server its turn in each round, and returns the results of the rounds that count,
    /// for each server, and what became of `--until`, for which `width` tells how well the ratio of
    /// the first two servers is known. The labels of the turns begin with `label`.
    ///
    /// # Errors
    /// A server cannot be measured at all.
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

    /// Prints what each server of an ensemble cost, and writes that to the file with the results.
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

/// One workload on all servers, in turn, with a table of figures for each test.
pub struct Comparison<'a> {
    servers: Servers<'a>,
    parts: Vec<Part>,
    progress: Progress,
    stolen: Stolen,
}

/// One of several tests of a workload; the only one has no title.
#[derive(Debug, Default)]
struct Part {
    title: String,
    /// Lines of figures that were published about this test.
    published: Vec<String>,
    /// The line that says what was warm when the test began.
    warm: String,
    /// What became of `--until`.
    until: Option<String>,
    servers: Vec<Block>,
    ceiling: Option<Block>,
}

impl Comparison<'_> {
    /// Finds the servers of ZooKeeper's clients and prints the machine and `about`: what will be
    /// done.
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

    /// Like [`Comparison::start`], with servers of a protocol.
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

    /// The servers, the one in question first.
    pub fn targets(&self) -> &[Target] {
        self.servers.targets()
    }

    /// Begins a test: what is measured from here on is below this title, beside what was
    /// published about it. A workload that is one test needs no title.
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

    /// Measures each server in turn, in each round. `work` names what one round does.
    ///
    /// # Errors
    /// A server cannot be measured at all.
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

    /// Measures a server that does nothing, once: its rate is the ceiling of the generator.
    ///
    /// # Errors
    /// It cannot be measured.
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

    /// The beginning of the labels of this process and this test.
    fn label(&self) -> String {
        format!("{}-{}", std::process::id(), self.parts.len())
    }

    /// Prints the figures and writes them to the file.
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

/// The status of the process after answers that were wrong, which it also prints. They are not
/// fatal: a figure with its errors beside it is worth more than none.
fn end(trouble: u64) -> ExitCode {
    if trouble > 0 {
        eprintln!("{trouble} answers were errors, or sessions were lost: see the tables");
    }
    ExitCode::SUCCESS
}

/// CPU time that other guests of the host have taken from this machine, in ticks when this was
/// made.
pub struct Stolen(u64);

impl Stolen {
    /// Begins to count.
    pub fn start() -> Stolen {
        Stolen(stolen_ticks())
    }

    /// Prints how much was stolen since then, if any.
    pub fn print(&self) {
        let ticks = stolen_ticks() - self.0;
        if ticks > 0 {
            println!("note: other guests of this host took {} ms of CPU meanwhile", ticks * 10);
        }
    }
}

/// The order of the places in a round: A B C, then C B A, and so on.
pub fn order(count: usize, round: u32) -> Vec<usize> {
    match round % 2 {
        0 => (0..count).collect(),
        _ => (0..count).rev().collect(),
    }
}

/// The progress of a run: a bar on a terminal; elsewhere a line for each step, on standard error.
pub struct Progress(Option<ProgressBar>);

impl Progress {
    /// Begins a run of so many steps; 0 if their number says nothing.
    pub fn start(runs: u64) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| ProgressBar::new(runs));
        if let Some(bar) = &bar {
            let style = ProgressStyle::with_template(match runs {
                0 => "{elapsed} {msg}",
                _ => "{pos}/{len} {elapsed} {msg}",
            });
            // The clock of the bar goes on during a step.
            bar.enable_steady_tick(Duration::from_millis(500));
            bar.set_style(style.expect("the template is well formed"));
        }
        Progress(bar)
    }

    /// Begins the next step.
    pub fn say(&self, what: &str) {
        match &self.0 {
            Some(bar) => {
                bar.set_message(what.to_string());
                bar.inc(1);
            }
            None => drop(writeln!(std::io::stderr(), "{what}")),
        }
    }

    /// Ends the bar.
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
        // Six rounds at least, however narrow it is.
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

    /// Two servers whose n-th run gives n and 10 n: the rounds of both stay in step, in the table
    /// as well.
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

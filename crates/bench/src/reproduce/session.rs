//! A reproduction in progress: its results so far, its folders and cores, the time that is left,
//! and the output in the end. An interrupt ends it before the next run; what was measured until
//! then is kept and written.

use std::cell::RefCell;
use std::fs::File;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Context;
use results::Results;
use results::schema::{Measured, Moment, Role, Test};

use super::cores::{Cores, Split};
use super::servers::{Maker, Place, Servers};
use crate::measure::comparison::{Rounds, Turn};
use crate::measure::course::Course;
use crate::measure::figures::{self, Block};
use crate::measure::machine_info::disk_latencies;
use crate::measure::record::{self, Record};
use crate::servers::folder::Folder;
use crate::servers::interrupt::Interrupt;
use crate::servers::target::Scheme;

/// The files that the results go to.
#[derive(Clone, Debug, Default)]
pub struct Outputs {
    /// The file of the HTML report.
    pub html: Option<PathBuf>,
    /// The file of the JSON.
    pub json: Option<PathBuf>,
    /// Whether both files may contain absolute paths of this machine.
    pub has_folders: bool,
}

impl Outputs {
    /// Creates the files, so that a run of an hour does not end with an error about a wrong path.
    ///
    /// # Errors
    /// A file cannot be written.
    fn check(&self) -> anyhow::Result<()> {
        for path in self.html.iter().chain(&self.json) {
            let opened = File::options().append(true).create(true).open(path);
            opened.with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}

/// A reproduction in progress.
pub struct Session {
    /// The results so far.
    pub(super) record: Record,
    /// How often each test is repeated.
    pub repeat: Rounds,
    /// Whether a signal asked the run to end; checked before each run.
    pub interrupt: Interrupt,
    /// The folder with the data of all servers.
    pub folder: Folder,
    /// The folder with the logs of all servers, if they are on another disk.
    logs: Option<Folder>,
    makers: Vec<Maker>,
    cores: Cores,
    outputs: Outputs,
    progress: Progress,
}

/// All that a reproduction needs to start.
pub struct Plan {
    /// The field `workload` of the results, such as `reproduce hunt`.
    pub workload: String,
    /// The title that reports show.
    pub title: String,
    /// Whether it is scaled down (`--quick`).
    pub is_quick: bool,
    /// How often each test is repeated.
    pub repeat: Rounds,
    /// The folder on whose disk the servers have their data.
    pub dir: PathBuf,
    /// A folder on another disk for logs.
    pub log_dir: Option<PathBuf>,
    /// The systems to measure: Quorate first.
    pub makers: Vec<Maker>,
    /// Why no peer is among the systems; `None` if there is one, or none was wanted.
    pub no_peer: Option<String>,
    /// The files that the results go to.
    pub outputs: Outputs,
    /// The units of work of all tests together: see [`Work::units`].
    pub work: f64,
}

/// How far a reproduction is, in units of work (see [`Work::units`]), to estimate the time that is
/// left.
struct Progress {
    began: Instant,
    all: f64,
    done: f64,
}

/// The started servers of all systems for some tests, and their cores.
pub struct Site {
    /// The servers of each system, Quorate's first.
    pub servers: Vec<Servers>,
    /// The cores of the servers and of the generator.
    pub split: Split,
}

/// A test that is about to be measured.
pub struct Work<'a> {
    /// The test, with all fields that are known before the measurement.
    pub test: Test,
    /// A name for the work of one run, for the line that says how warm everything was.
    pub what: String,
    /// The relative duration of one run, compared with the runs of other tests.
    pub units: f64,
    /// The figures that short tables show.
    pub headlines: &'a [&'a str],
    /// How to get the number of busy cores from the figures; `None` if the figures do not give it.
    pub cpu: Option<CpuUse>,
}

/// How to get the number of busy cores from the CPU time of each operation.
#[derive(Clone, Copy, Debug)]
pub struct CpuUse {
    /// Operations a second, over the same time as the CPU was measured.
    pub rate: fn(&Measured) -> Option<f64>,
    /// The number of threads of the generator.
    pub threads: usize,
}

impl CpuUse {
    /// Takes the first rate among the figures; the generator has one thread.
    pub const FIRST_RATE: CpuUse = CpuUse { rate: first_rate, threads: 1 };
}

impl Session {
    /// Measures the machine's disk, makes the folders, and starts the record.
    ///
    /// # Errors
    /// A folder or an output file cannot be written.
    pub fn start(plan: Plan) -> anyhow::Result<Session> {
        // The signals must be blocked before any other thread exists.
        let interrupt = Interrupt::catch()?;
        plan.outputs.check()?;
        let folder = Folder::make(&plan.dir.canonicalize()?, "quorate-reproduce")?;
        let log_dir = plan.log_dir.map(|dir| dir.canonicalize()).transpose()?;
        let logs = log_dir.map(|dir| Folder::make(&dir, "quorate-reproduce-log")).transpose()?;
        let mut record = Record::start(&plan.workload);
        let before =
            disk_latencies(folder.path()).with_context(|| folder.path().display().to_string())?;
        record.note_disk(folder.path(), &before);
        record.results.title = plan.title;
        record.results.is_quick = plan.is_quick;
        // A CPU quota may allow fewer cores than there are.
        let cores = record.results.machine.cores;
        let mut session = Session {
            record,
            repeat: plan.repeat,
            interrupt,
            folder,
            logs,
            makers: plan.makers,
            cores: Cores::all()?.at_most(cores),
            outputs: plan.outputs,
            progress: Progress { began: Instant::now(), all: plan.work, done: 0.0 },
        };
        if let Some(why) = plan.no_peer {
            session.go_on_alone(&why);
        }
        Ok(session)
    }

    /// Splits the machine's cores so that the servers get `cores`; `None` if the machine has too
    /// few.
    pub fn split(&self, cores: usize) -> Option<Split> {
        self.cores.split(cores)
    }

    /// Starts `count` servers of each system on the cores for servers, and binds this thread to
    /// those for the generator. If a peer that nobody asked for does not start, the run goes on
    /// without it.
    ///
    /// # Errors
    /// Servers do not start.
    pub fn start_servers(
        &mut self,
        scheme: Scheme,
        count: usize,
        split: Split,
    ) -> anyhow::Result<Site> {
        let mut servers = Vec::new();
        let mut missing = None;
        for maker in &self.makers {
            self.progress.say(&format!("starting {count} of {}", maker.id));
            let logs = self.logs.as_ref().map(Folder::path);
            let at = Place { folder: self.folder.path(), logs, cores: &split.servers };
            let is_first = self.record.results.of_role(maker.role).is_none();
            let may_fetch = is_first && maker.role == Role::Peer;
            let prepared = if may_fetch { maker.prepare(&self.interrupt) } else { Ok(()) };
            let started = prepared.and_then(|()| maker.start(scheme, count, at, &self.interrupt));
            match started {
                Err(error) if maker.is_default && is_first && !self.interrupt.is_asked() => {
                    missing = Some((maker.id, format!("{error:#}")));
                }
                started => servers.extend(started?),
            }
        }
        if let Some((id, why)) = missing {
            self.makers.retain(|maker| maker.id != id);
            self.go_on_alone(&why);
        }
        let site = Site { servers, split };
        site.split.generator.take()?;
        std::thread::sleep(super::servers::SETTLE);
        site.servers.iter().for_each(|servers| self.note_system(servers));
        Ok(site)
    }

    /// Prints why there is no peer, and keeps it for the results. Several lines of `why` become
    /// one.
    fn go_on_alone(&mut self, why: &str) {
        let lines: Vec<&str> = why.lines().map(str::trim).filter(|it| !it.is_empty()).collect();
        let why = lines.join(" | ");
        eprintln!("there is no real server beside ours: {why}");
        self.record.results.no_peer = Some(why);
    }

    /// Adds a system to the results, unless it is there. A new address of a known system is added
    /// to it.
    pub fn note_system(&mut self, servers: &Servers) {
        let same = |it: &&mut results::schema::System| it.id == servers.id;
        match self.record.results.systems.iter_mut().find(same) {
            Some(known) if !known.address.contains(&servers.system.address) => {
                known.address = format!("{}, {}", known.address, servers.system.address);
            }
            Some(_) => {}
            None => self.record.results.systems.push(servers.system.clone()),
        }
    }

    /// Measures a test on all systems of a site in turn, and keeps the results. False means that
    /// the run was interrupted.
    ///
    /// # Errors
    /// A system cannot be measured.
    pub fn measure(
        &mut self,
        site: &Site,
        mut work: Work<'_>,
        mut run: impl FnMut(&Turn<'_>) -> anyhow::Result<Block>,
    ) -> anyhow::Result<bool> {
        let targets: Vec<_> = site.servers.iter().map(|it| it.target.clone()).collect();
        work.test.warm = self.repeat.warm_line(&work.what, &targets);
        let places: Vec<&'static str> = site.servers.iter().map(|it| it.id).collect();
        let warmup = self.repeat.warmup;
        let used = work.cpu.map(|cpu| (cpu, site.split.used()));
        self.measure_in_turn(&places, (work, used), |place, round| {
            let servers = &site.servers[place];
            let turn = Turn::from_session(&servers.target, (place, round, round >= warmup));
            let course = Course::watch(&servers.target, &servers.data)?;
            let block = run(&turn);
            let course = course.end();
            let block = block.with_context(|| match servers.troubles() {
                troubles if troubles.is_empty() => servers.target.name.clone(),
                troubles => format!("{}: {troubles}", servers.target.name),
            })?;
            Ok((block, course))
        })
    }

    /// Like [`Session::measure`], for systems that have no servers: `run` gets the index of a
    /// place, and the round.
    ///
    /// # Errors
    /// A system cannot be measured.
    pub fn measure_places(
        &mut self,
        places: &[&'static str],
        work: Work<'_>,
        mut run: impl FnMut(usize, u32) -> anyhow::Result<Block>,
    ) -> anyhow::Result<bool> {
        let no_course = |block| (block, Vec::new());
        self.measure_in_turn(places, (work, None), |place, round| run(place, round).map(no_course))
    }

    /// Measures a test on all places (systems) in turn, and keeps the results. `used` says how to
    /// get the number of busy cores from the figures, and how many cores the servers have, how many
    /// the generator has, and how many both have together.
    fn measure_in_turn(
        &mut self,
        places: &[&'static str],
        (work, used): (Work<'_>, Option<(CpuUse, [usize; 3])>),
        mut run: impl FnMut(usize, u32) -> anyhow::Result<(Block, Vec<Moment>)>,
    ) -> anyhow::Result<bool> {
        let mut test = work.test;
        let (all, warmup) = (self.repeat.all(), self.repeat.warmup);
        let (progress, interrupt) = (&mut self.progress, &self.interrupt);
        // The blocks are kept here and not returned by the turns, since an error or interrupt drops
        // what turns return.
        let rounds: RefCell<Vec<Vec<Block>>> = RefCell::new(vec![Vec::new(); places.len()]);
        let mut courses = vec![Vec::new(); places.len()];
        let turn = |place: usize, round: u32| {
            interrupt.check()?;
            if round >= all {
                progress.all += work.units;
            }
            let name = self.repeat.round_name(round);
            progress.say(&format!("{}: {name}, {}", test.title, places[place]));
            let (block, course) = run(place, round)?;
            progress.done += work.units;
            courses[place] = course;
            if round >= warmup {
                rounds.borrow_mut()[place].push(block);
            }
            Ok(())
        };
        let width = |_: &[Vec<()>]| {
            let blocks =
                rounds.borrow().iter().cloned().map(Block::from_rounds).collect::<Vec<_>>();
            figures::widest_ratio(&blocks, work.headlines)
        };
        let taken = self.repeat.take_turns_until(places.len(), turn, width);
        let is_cut = self.interrupt.is_asked();
        if !is_cut {
            let until = taken?.1;
            until.iter().for_each(|line| eprintln!("{}: {line}", test.title));
            test.remarks.extend(until);
        }
        let rounds = rounds.into_inner();
        let whole = rounds.iter().map(Vec::len).min().unwrap_or(0);
        for ((id, mut blocks), course) in places.iter().zip(rounds).zip(courses) {
            // After an interrupt one system may have a run more than the other. Values must form
            // pairs.
            blocks.truncate(whole);
            if blocks.is_empty() {
                continue;
            }
            let measured = Block::from_rounds(blocks).measured(id, work.headlines);
            test.systems.push(Measured { course, ..measured });
        }
        if let Some((used, ours)) = used.zip(test.systems.first()) {
            test.limit = limit_of(ours, used);
        }
        if !test.systems.is_empty() {
            self.record.results.tests.push(test);
        }
        Ok(!is_cut)
    }

    /// Measures the workload against the null server, once, and adds the result to the test of that
    /// title. False means that the run was interrupted.
    ///
    /// # Errors
    /// The null server cannot be measured.
    pub fn measure_ceiling(
        &mut self,
        null: &Servers,
        work: Work<'_>,
        run: impl FnOnce(&Turn<'_>) -> anyhow::Result<Block>,
    ) -> anyhow::Result<bool> {
        if self.interrupt.is_asked() {
            return Ok(false);
        }
        self.progress.say(&format!("{}: the generator's ceiling", work.test.title));
        let block = run(&Turn::from_session(&null.target, (9, 0, true)))?;
        self.progress.done += work.units;
        let measured = block.measured(null.id, work.headlines);
        let mut known = self.record.results.tests.iter_mut();
        let same = |it: &&mut Test| (&it.group, &it.title) == (&work.test.group, &work.test.title);
        if let Some(test) = known.find(same) {
            test.systems.push(measured);
        }
        Ok(true)
    }

    /// Adds `units` to the planned work; the estimate of the time that is left depends on it. The
    /// number is negative if a planned test is left out.
    pub fn expect(&mut self, units: f64) {
        self.progress.all += units;
    }

    /// Adds a test to the results that this machine cannot make, with the reason.
    pub fn skip(&mut self, test: Test, why: String) {
        self.record.results.tests.push(Test { skipped: Some(why), ..test });
    }

    /// Ends the reproduction. If `measured` is an error, the results contain it beside what was
    /// measured before.
    ///
    /// # Errors
    /// A test failed, or a file cannot be written.
    pub fn finish_after(mut self, measured: anyhow::Result<()>) -> anyhow::Result<ExitCode> {
        if let Err(error) = &measured {
            self.results().cut_short = Some(format!("{error:#}"));
        }
        let is_interrupted = self.interrupt.is_asked();
        let status = self.finish()?;
        if is_interrupted { Ok(status) } else { measured.map(|()| status) }
    }

    /// Measures the disk again, completes the record, writes the files, and prints the tables.
    ///
    /// # Errors
    /// A file cannot be written.
    fn finish(mut self) -> anyhow::Result<ExitCode> {
        if self.interrupt.is_asked() {
            self.results().cut_short = Some("it was interrupted".to_string());
        }
        let after = disk_latencies(self.folder.path());
        match (after, &mut self.results().machine.disk) {
            (Ok(after), Some(disk)) => {
                disk.after = Some(after.curve("fdatasync of 4 KiB, after"));
            }
            (Ok(_), None) => {}
            (Err(error), _) => {
                let why = format!("the disk was not measured after the run: {error}");
                self.results().doubts.push(why);
            }
        }
        let mut results = self.record.end(Vec::new());
        print!("{}", results::text::table(&results));
        if !self.outputs.has_folders {
            record::leave_out_folders(&mut results);
        }
        let written = self.outputs.json.as_ref().map(|path| record::write(&results, path));
        if let Some(path) = &self.outputs.html {
            std::fs::write(path, results::html::page(&results))
                .with_context(|| path.display().to_string())?;
        }
        written.transpose()?;
        Ok(ExitCode::SUCCESS)
    }

    /// The number of runs of one test.
    pub fn runs(&self) -> f64 {
        runs(&self.repeat, self.makers.len())
    }

    /// The results so far.
    pub fn results(&mut self) -> &mut Results {
        &mut self.record.results
    }
}

/// The number of runs of one test: those of each system, and one of the null server.
pub fn runs(repeat: &Rounds, systems: usize) -> f64 {
    f64::from(repeat.all()) * systems as f64 + 1.0
}

/// The median of the first rate among a system's figures.
fn first_rate(measured: &Measured) -> Option<f64> {
    measured.figures.iter().find(|figure| figure.unit == "per s")?.median()
}

/// Names what limits a system in a test: busy cores, or something that requests wait for. `used`
/// says how many cores the servers have, how many the generator has, and how many both have
/// together.
fn limit_of(ours: &Measured, (cpu, used): (CpuUse, [usize; 3])) -> String {
    let of = |name: &str| {
        let figure = ours.figures.iter().find(|figure| figure.name.starts_with(name))?;
        figure.median()
    };
    let both = of("server CPU per").zip(of("generator CPU per"));
    let Some((rate, (server_us, generator_us))) = (cpu.rate)(ours).zip(both) else {
        return String::new();
    };
    let (server, generator) = (rate * server_us / 1e6, rate * generator_us / 1e6);
    let [of_servers, of_generator, all] = used.map(|count| count as f64);
    let busy = format!("servers {server:.1} of {of_servers}, generator {generator:.1}");
    if generator > 0.9 * of_generator.min(cpu.threads as f64) {
        format!("the generator; cores used: {busy}")
    } else if server > 0.9 * of_servers || server + generator > 0.9 * all {
        format!("the cores; used: {busy}")
    } else if server > 0.75 * of_servers || server + generator > 0.75 * all {
        format!("the cores, for the most part; used: {busy}")
    } else {
        format!("waits for the disk or for answers; cores used: {busy}")
    }
}

impl Progress {
    fn say(&self, what: &str) {
        let part = self.done / self.all;
        let left = match part {
            it if it > 0.02 => {
                let left_s = self.began.elapsed().as_secs_f64() * (1.0 - part) / part;
                format!(", about {} min left", (left_s / 60.0).ceil().max(0.0))
            }
            _ => String::new(),
        };
        eprintln!("[{:3.0} %{left}] {what}", part * 100.0);
    }
}

#[cfg(test)]
mod tests {
    use results::schema::Figure;

    use super::*;

    fn measured(figures: &[(&str, &str, f64)]) -> Measured {
        let figure = |(name, unit, value): &(&str, &str, f64)| Figure {
            name: (*name).to_string(),
            unit: (*unit).to_string(),
            values: vec![*value],
            ..Figure::default()
        };
        Measured { figures: figures.iter().map(figure).collect(), ..Measured::default() }
    }

    #[test]
    fn what_limits_a_test_is_what_is_busy() {
        let check = |rate: f64, (server_us, generator_us): (f64, f64), threads, expected: &str| {
            let ours = measured(&[
                ("items", "per s", rate),
                ("server CPU per item", "us", server_us),
                ("generator CPU per item", "us", generator_us),
            ]);
            let cpu = CpuUse { threads, ..CpuUse::FIRST_RATE };
            let limit = limit_of(&ours, (cpu, [2, 2, 2]));
            assert!(limit.starts_with(expected), "{limit}");
        };
        check(10_000.0, (150.0, 45.0), 1, "the cores; used: servers 1.5 of 2, generator 0.5");
        check(10_000.0, (50.0, 95.0), 1, "the generator; cores used");
        check(10_000.0, (70.0, 95.0), 5, "the cores, for the most part");
        check(10_000.0, (10.0, 10.0), 1, "waits for the disk or for answers");
        let nothing = measured(&[("items", "per s", 1.0)]);
        assert_eq!(limit_of(&nothing, (CpuUse::FIRST_RATE, [2, 2, 2])), "");
    }
}

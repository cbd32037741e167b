//! The loop and the output of workloads that start their servers by themselves, because they add
//! and remove servers. In each round each *contender* (Quorate, and another program if there is
//! one) has one turn, for which its servers are started afresh.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use results::schema::{Role, System, Test};

use crate::limits::INTERRUPT_LOOK;
use crate::measure::comparison::{Progress, Rounds, Stolen};
use crate::measure::figures::{self, Block, Figure};
use crate::measure::machine_info::MachineInfo;
use crate::measure::record::{self, OURS, PEER, Record};
use crate::servers::folder::Folder;
use crate::servers::interrupt::Interrupt;
use crate::servers::spawned::Program;
use crate::servers::target::Target;

/// The options that name the programs to measure, and where their servers keep their files.
#[derive(Debug, Args)]
pub struct Contenders {
    /// Quorate's program [default: this one]
    #[arg(long, value_name = "PROGRAM")]
    pub program: Option<PathBuf>,
    /// The program of another server, measured in turn with Quorate. It gets the same arguments
    #[arg(long, value_name = "PROGRAM")]
    pub compare: Option<PathBuf>,
    /// The folder on whose disk the servers have their data; all is removed in the end
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Write all figures to a file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// The parts of a workload's name and description that are printed and recorded.
#[derive(Clone, Copy, Debug)]
pub struct About<'a> {
    /// The name of the workload.
    pub workload: &'a str,
    /// What the workload does, in a sentence.
    pub text: &'a str,
    /// The first arguments of Quorate's program.
    pub words: &'a [&'a str],
}

/// One run of a workload with the servers of one contender.
pub struct Bout<'a> {
    /// The program of the contender.
    pub program: &'a Program,
    /// 0 for Quorate, 1 for the program of `--compare`.
    pub place: usize,
    /// The round, counted from 0.
    pub round: u32,
    /// An empty folder for the data of its servers.
    pub folder: &'a Path,
    /// The flag of signals that ask the run to end.
    pub interrupt: &'a Interrupt,
    progress: &'a Progress,
    prefix: String,
}

impl Bout<'_> {
    /// An empty block for the figures of these servers. Ports of servers that were started here
    /// tell a reader nothing, so it has no address.
    pub fn block(&self, target: &Target) -> Block {
        let name = match self.place {
            0 => {
                format!("Quorate {}, {} servers", env!("CARGO_PKG_VERSION"), target.addresses.len())
            }
            _ => target.name.clone(),
        };
        let address = self.program.path().display().to_string();
        Block { name, address, ..Block::default() }
    }

    /// Shows the step that the run is at.
    pub fn say(&self, what: &str) {
        self.progress.say(&format!("{}: {what}", self.prefix));
    }

    /// Sleeps, in short steps.
    ///
    /// # Errors
    /// A signal asks the run to end.
    pub fn sleep(&self, time: Duration) -> anyhow::Result<()> {
        let until = Instant::now() + time;
        loop {
            self.interrupt.check()?;
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(INTERRUPT_LOOK));
        }
    }
}

/// Gives each contender its turn in each round, and prints and writes the figures.
///
/// # Errors
/// A run fails, or a file cannot be written.
pub fn run(
    at: &Contenders,
    repeat: &Rounds,
    about: About<'_>,
    mut measure: impl FnMut(&Bout<'_>) -> anyhow::Result<Block>,
) -> anyhow::Result<ExitCode> {
    let interrupt = Interrupt::catch()?;
    let (mut record, stolen) = (Record::start(about.workload), Stolen::start());
    let header = [
        format!("quorate {} bench on {}", env!("CARGO_PKG_VERSION"), MachineInfo::read()),
        format!("{}: {}", about.workload, about.text),
    ];
    header.iter().for_each(|line| println!("{line}"));
    record.results.about = header.to_vec();
    let ours = Program::ours(at.program.as_deref(), about.words)?;
    let programs: Vec<Program> =
        core::iter::once(ours).chain(at.compare.as_deref().map(Program::other)).collect();
    let progress = Progress::start(0);
    let turn = |place: usize, round: u32| {
        let folder = Folder::make(&at.dir, about.workload)?;
        let program: &Program = &programs[place];
        let prefix = format!("{}, {}", repeat.round_name(round), program.path().display());
        let (interrupt, folder, progress) = (&interrupt, folder.path(), &progress);
        let bout = Bout { program, place, round, folder, interrupt, progress, prefix };
        let block = measure(&bout)?;
        // A run takes minutes. If it is interrupted, the figures of its rounds are not lost.
        block.figures.iter().for_each(|figure| bout.say(&in_words(figure)));
        Ok(block)
    };
    let blocks = |rounds: &[Vec<Block>]| -> Vec<Block> {
        rounds.iter().map(|of_one| Block::from_rounds(of_one.clone())).collect()
    };
    let (rounds, until) = repeat
        .take_turns_until(programs.len(), turn, |rounds| figures::ratio_width(&blocks(rounds)))?;
    progress.end();
    stolen.print();
    let blocks = blocks(&rounds);
    println!("\n{}", figures::table(&blocks).trim_end());
    until.iter().for_each(|line| println!("{line}"));
    if let Some(path) = &at.json {
        record.results.systems = blocks.iter().zip([Role::Ours, Role::Peer]).map(system).collect();
        let measured = blocks.iter().zip([OURS, PEER]).map(|(it, id)| it.of_comparison(id));
        let remarks = until.into_iter().collect();
        let test = Test { systems: measured.collect(), remarks, ..Test::default() };
        record::write(&record.end(vec![test]), path)?;
    }
    let trouble: u64 = blocks.iter().map(|block| block.trouble).sum();
    if trouble > 0 {
        eprintln!("{trouble} answers were errors or wrong: see the tables");
    }
    Ok(ExitCode::SUCCESS)
}

/// A figure of one round in one line.
fn in_words(figure: &Figure) -> String {
    let value = figure.values.first().map_or("unknown".to_string(), |value| format!("{value:.1}"));
    format!("{} {value} {}", figure.name, figure.unit).trim_end().to_string()
}

fn system((block, role): (&Block, Role)) -> System {
    let id = if role == Role::Ours { OURS } else { PEER };
    System { id: id.to_string(), role, name: block.name.clone(), ..System::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::figures::Good;

    #[test]
    fn a_figure_of_one_round_is_a_line() {
        let figure = |value| Figure::once("wait", "ms", value, Good::Less);
        assert_eq!(in_words(&figure(Some(1.25))), "wait 1.2 ms");
        assert_eq!(in_words(&figure(None)), "wait unknown ms");
        let count = Figure::once("connections lost", "", 2.0, Good::Neither);
        assert_eq!(in_words(&count), "connections lost 2.0");
    }
}

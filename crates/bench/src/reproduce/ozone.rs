//! `quorate reproduce ozone`: the test of Ozone's chunk layouts (HDDS-2717). Ten tests write chunks
//! to one disk and then sync it; the document has six runs of each.
//! [`crate::workloads::chunk::cmdw`] does what freon's `cmdw` does.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::Context;
use chunk::checksum::ChecksumType;
use chunk::layout::Layout;
use chunk::store::Durability;
use results::schema::{Published, Role, System, Test};

use super::session::{Plan, Session, Work};
use super::{Peer, ReproduceArgs, SCRIPTS, no_script};
use crate::measure::figures::{Block, Figure, Good};
use crate::measure::file_system::FileSystem;
use crate::measure::published::{CMDW, CMDW_DOUBTS, CmdwRow};
use crate::measure::stats::median;
use crate::servers::folder::Folder;
use crate::workloads::chunk::cmdw::freon::{self, Freon, FreonPeer};
use crate::workloads::chunk::cmdw::load::{ChunkBytes, Shape};
use crate::workloads::chunk::cmdw::table::Run;
use crate::workloads::chunk::cmdw::{self};

/// All runs of the document.
const RUNS_CSV: &str = include_str!("../../published/ozone_runs.csv");

/// The document's number of threads, and of chunks in a block.
const THREADS: usize = 16;
const CHUNKS_PER_BLOCK: u64 = 16;

/// The share of the document's chunks that `--quick` writes.
const QUICK_PART: f64 = 0.001;

const WITH_SYNC: &str = "chunks, with the sync";
const RATE: &str = "chunks, before the sync";
const SYNC: &str = "sync";
const HEADLINES: [&str; 3] = [WITH_SYNC, RATE, SYNC];

/// The script that fetches Ozone's jars and prints the folder with them; and its argument.
const INSTALLER: [&str; 2] = ["ozone/install-ozone.sh", "vapor"];

/// Runs `quorate reproduce ozone`.
///
/// # Errors
/// Ozone's program does not start, chunks cannot be written, or a file cannot be written.
pub fn command(args: &ReproduceArgs) -> anyhow::Result<ExitCode> {
    let (peer, no_peer) = peer(&args.peer)?;
    let repeat = args.repeat(6);
    let part = if args.quick { QUICK_PART } else { 1.0 };
    let rows: Vec<&CmdwRow> = CMDW.iter().filter(|row| args.wants(&title(row))).collect();
    anyhow::ensure!(!rows.is_empty(), "--only: no test has that in its title");
    let mut session = Session::start(Plan {
        workload: "reproduce ozone".to_string(),
        title: "Ozone's chunk layouts (HDDS-2717)".to_string(),
        is_quick: args.quick,
        repeat,
        dir: args.dir.clone(),
        log_dir: args.log_dir.clone(),
        work: rows.iter().map(|row| units(row)).sum::<f64>()
            * f64::from(repeat.all())
            * if peer.is_some() { 3.0 } else { 2.0 },
        makers: Vec::new(),
        no_peer,
        outputs: args.outputs(),
    })?;
    describe(&mut session, part);
    let measured = measure_all(&mut session, (&rows, part), peer.as_ref());
    session.finish_after(measured)
}

/// Finds Ozone's jars. If there are none and the user named no folder, the second value says why.
///
/// # Errors
/// The folder that the user named has no jars that can be run.
fn peer(peers: &[Peer]) -> anyhow::Result<(Option<FreonPeer>, Option<String>)> {
    let installer_in = |folder: &Path| folder.join(INSTALLER[0]);
    match peers {
        [Peer::None] => Ok((None, None)),
        [] if !installer_in(Path::new(SCRIPTS)).is_file() => Ok((None, Some(no_script()))),
        [] => match install(&installer_in(Path::new(SCRIPTS))) {
            Ok(peer) => Ok((Some(peer), None)),
            Err(error) => Ok((None, Some(format!("{error:#}")))),
        },
        [Peer::Folder(folder)] if installer_in(folder).is_file() => {
            Ok((Some(install(&installer_in(folder))?), None))
        }
        [Peer::Folder(folder)] => {
            let peer = FreonPeer { jars: folder.clone() };
            peer.find()?;
            Ok((Some(peer), None))
        }
        _ => anyhow::bail!("--peer: Ozone's side is a folder of its jars"),
    }
}

/// Runs the script that fetches Ozone's jars, and checks that they can be run.
///
/// # Errors
/// The script cannot be run, or fails; or a JDK is missing.
fn install(installer: &Path) -> anyhow::Result<FreonPeer> {
    let output = Command::new(installer).arg(INSTALLER[1]).output();
    let output = output.with_context(|| installer.display().to_string())?;
    let said = String::from_utf8_lossy(&output.stdout).trim().to_string();
    let complaint = String::from_utf8_lossy(&output.stderr).trim().to_string();
    anyhow::ensure!(output.status.success(), "{}: {complaint}", installer.display());
    let peer = FreonPeer { jars: said.lines().last().unwrap_or_default().into() };
    peer.find()?;
    Ok(peer)
}

/// The relative duration of a run: a part grows with the bytes, a part with the chunks.
fn units(row: &CmdwRow) -> f64 {
    (row.chunk_bytes * row.chunks) as f64 / 1e9 * 4.0 + row.chunks as f64 / 5e4
}

fn measure_all(
    session: &mut Session,
    (rows, part): (&[&CmdwRow], f64),
    peer: Option<&FreonPeer>,
) -> anyhow::Result<()> {
    let folder = Folder::make(session.folder.path(), "chunks")?;
    let mut freon = match peer {
        None => None,
        Some(peer) => {
            let first = shape(rows[0], part);
            let at = session.folder.path();
            Some(Freon::start(peer, at, &first, false, &session.interrupt)?)
        }
    };
    note_systems(session, freon.as_ref());
    let mut places = vec!["ours"];
    places.extend(freon.as_ref().map(|_| "peer"));
    places.push("ours-log");
    for row in rows {
        let shape = shape(row, part);
        let layout = layout_of(row);
        let interrupt = session.interrupt.clone();
        let test = cmdw::Test::new(
            (&folder, &interrupt),
            &shape,
            ChecksumType::None,
            Durability::Buffered,
        );
        let mut described = self::test(row, &shape);
        if freon.is_some() {
            described.remarks.extend(freon::remark(layout, &shape));
        }
        let work = Work {
            test: described,
            what: format!("{} chunks", shape.chunks),
            units: units(row),
            headlines: &HEADLINES,
            cpu: None,
        };
        let goes_on = session.measure_places(&places, work, |place, _| {
            let run = match (places[place], &mut freon) {
                ("peer", Some(freon)) => freon.run(layout, &shape)?,
                ("ours-log", _) => test.run_ours(Layout::Log)?,
                _ => test.run_ours(layout)?,
            };
            Ok(block(places[place], &run))
        })?;
        if !goes_on {
            break;
        }
    }
    Ok(())
}

fn note_systems(session: &mut Session, freon: Option<&Freon>) {
    let ours = format!("Quorate {}", env!("CARGO_PKG_VERSION"));
    let system = |id: &str, role, name: String, how: &str| System {
        id: id.to_string(),
        role,
        name,
        configuration: vec![how.to_string()],
        ..System::default()
    };
    let systems = &mut session.results().systems;
    systems.push(system("ours", Role::Ours, ours.clone(), "the document's layout of each test"));
    if let Some(freon) = freon {
        let how = "its chunk manager in one process that stays warm";
        systems.push(system("peer", Role::Peer, freon.name().to_string(), how));
    }
    let log = format!("{ours}, layout log");
    systems.push(system("ours-log", Role::Ours, log, "its own layout, whatever the test's is"));
}

fn shape(row: &CmdwRow, part: f64) -> Shape {
    let chunks = ((row.chunks as f64 * part).round() as u64).max(THREADS as u64);
    Shape {
        chunk_bytes: ChunkBytes(row.chunk_bytes),
        chunks,
        threads: THREADS,
        containers: THREADS,
        chunks_per_block: CHUNKS_PER_BLOCK,
    }
}

fn layout_of(row: &CmdwRow) -> Layout {
    if row.layout == "FILE_PER_CHUNK" { Layout::PerChunk } else { Layout::PerBlock }
}

fn title(row: &CmdwRow) -> String {
    format!("{} chunks of {}, {}", row.chunks, ChunkBytes(row.chunk_bytes), layout_of(row).name())
}

fn test(row: &CmdwRow, shape: &Shape) -> Test {
    let mut remarks = Vec::new();
    if row.chunk_bytes >= 102_400 {
        remarks.push(
            "the document's rate before the sync is that of a progress bar that sleeps 1 s: the rate \
             with the sync says more"
                .to_string(),
        );
    }
    if shape.chunks != row.chunks {
        remarks.push(format!("here {} chunks", shape.chunks));
    }
    Test { title: title(row), published: published(row), remarks, ..Test::default() }
}

/// The six published runs of a row: the rate and the seconds of the sync of each.
fn runs_of(row: &CmdwRow) -> Vec<(f64, f64)> {
    let of_line = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let [_, layout, bytes, _, rate, _, sync_s] = fields[..] else { return None };
        let is_it = layout == row.layout && bytes.parse() == Ok(row.chunk_bytes);
        is_it.then(|| Some((rate.parse().ok()?, sync_s.parse().ok()?))).flatten()
    };
    RUNS_CSV.lines().filter_map(of_line).collect()
}

fn published(row: &CmdwRow) -> Vec<Published> {
    let runs = runs_of(row);
    let of = |figure: &str, unit: &str, value: &dyn Fn(&(f64, f64)) -> f64| {
        let values: Vec<f64> = runs.iter().map(value).collect();
        let all: Vec<String> = values.iter().map(|it| format!("{it:.1}")).collect();
        Published {
            figure: figure.to_string(),
            value: (!values.is_empty()).then(|| median(&values)),
            text: format!("{} {unit}", all.join(", ")),
        }
    };
    let chunks = row.chunks as f64;
    vec![
        of(WITH_SYNC, "per s", &|(rate, sync_s)| chunks / (chunks / rate + sync_s)),
        of(RATE, "per s", &|(rate, _)| *rate),
        of(SYNC, "s", &|(_, sync_s)| *sync_s),
    ]
}

fn block(name: &str, run: &Run) -> Block {
    let once = |name, unit, value: Option<f64>, good| Figure::once(name, unit, value, good);
    let figures = vec![
        once(WITH_SYNC, "per s", Some(run.rate_with_sync()), Good::More),
        once(RATE, "per s", Some(run.rate()), Good::More),
        once("time before the sync", "s", Some(run.write_s), Good::Less),
        once(SYNC, "s", Some(run.sync_s), Good::Less),
        once("server CPU per chunk, with the sync", "us", run.cpu_us_with_sync, Good::Less),
        once("server CPU per chunk, before the sync", "us", run.cpu_us, Good::Less),
        once("p50", "us", run.p50_us, Good::Less),
        once("p99", "us", run.p99_us, Good::Less),
    ];
    Block { name: name.to_string(), figures, ..Block::default() }
}

fn describe(session: &mut Session, part: f64) {
    let how_many = match part {
        1.0 => "as many chunks as in the document".to_string(),
        _ => format!("{part} of the document's chunks"),
    };
    session.results().about = vec![
        format!(
            "16 threads write {how_many}, 16 to a block, each thread into a container of its own, \
             without checksums; then the store and the file system are synced"
        ),
        "a chunk is acknowledged before it is durable, in Ozone and here; the rate with the sync is \
         the one to compare"
            .to_string(),
        "published: freon on Xeon E5-2630v3, HGST 10 TB disks; medians of six runs, all of which are \
         shown"
            .to_string(),
    ];
    session.results().deviations = vec![
        "all on one machine and one disk; in the document on several".to_string(),
        "time begins with the first chunk, and is exact; the document's seconds include about 3 s of \
         start-up, and count whole ticks"
            .to_string(),
    ];
    session.results().traps = [
        CMDW_DOUBTS[1],
        "the document says both \"6 machines\" and \"three times on 3 machines\"",
        "nothing that Ozone does to a chunk ends in an fsync by default, and so it is here",
        "what limits these rows was not measured: mostly the disk, which the sync waits for",
    ]
    .map(str::to_string)
    .to_vec();
    let file_system = FileSystem::of(session.folder.path());
    if let Some(advice) = file_system.advice() {
        session.results().traps.push(format!("the folder is on {file_system}: {advice}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_test_has_six_published_runs() {
        for row in &CMDW {
            let runs = runs_of(row);
            assert_eq!(runs.len(), 6, "{}", title(row));
            let rates: Vec<f64> = runs.iter().map(|(rate, _)| *rate).collect();
            let part = median(&rates) / row.rate;
            assert!((0.8..1.25).contains(&part), "{}: {part}", title(row));
        }
        // 1 M chunks of 1 KiB, one file for each block: 52,000 a second with the sync.
        let rate = published(&CMDW[1])[0].value.unwrap();
        assert!((51_000.0..53_000.0).contains(&rate), "{rate}");
    }
}

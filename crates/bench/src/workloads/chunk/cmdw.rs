//! The workload `cmdw`: the chunk write test of Ozone's freon (`cmdw`, ChunkManagerDiskWrite), on
//! the chunk store in this process. It shows four kinds of figures beside each other: the published
//! ones, those of Ozone's own generator in the same run, the limits of the disk, and ours.
//!
//! [`load`] describes the work. Each run has a fresh store, and ends when the last chunk is
//! acknowledged. Then the store and the file system are synced, which is also timed: a rate without
//! the sync only shows how fast memory is. During the run [`background`] makes the calls that a
//! server makes beside its requests. [`limit`] measures plain system calls, [`freon`] runs Ozone's
//! generator, and [`table`] prints.
//!
//! A *contender* is what takes a turn: one of our layouts, one of Ozone's, a limit, or the
//! generator alone.

pub mod acknowledged;
pub mod background;
pub mod client;
pub mod counted_disk;
pub mod freon;
pub mod limit;
pub mod load;
pub mod remote;
pub mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use chunk::Disk;
use chunk::block::{BlockId, ChunkInfo};
use chunk::checksum::{ChecksumData, ChecksumType};
use chunk::container::ContainerSpec;
use chunk::layout::Layout;
use chunk::store::{Durability, Stage, Store, StoreOptions, WriteMode};
use clap::Args;
use results::schema::{self, Published};

use crate::limits::{BYTES_PER_CHECKSUM, CHUNK_THREADS_MAX, CHUNKS_MAX, CHUNKS_PER_BLOCK_MAX};
use crate::measure::comparison::{Progress, Rounds, Stolen};
use crate::measure::figures::widest;
use crate::measure::file_system::FileSystem;
use crate::measure::machine_info::{MachineInfo, disk_latencies};
use crate::measure::open_files;
use crate::measure::published::{CMDW, CMDW_DOUBTS, CmdwRow};
use crate::measure::record::{self, Record};
use crate::servers::folder::Folder;
use crate::servers::interrupt::Interrupt;
use crate::workloads::chunk::cmdw::acknowledged::Place;
use crate::workloads::chunk::cmdw::background::kept_up;
use crate::workloads::chunk::cmdw::client::ChunkAddress;
use crate::workloads::chunk::cmdw::counted_disk::{CountedDisk, SyncCounts};
use crate::workloads::chunk::cmdw::freon::{Freon, FreonPeer};
use crate::workloads::chunk::cmdw::limit::Limit;
use crate::workloads::chunk::cmdw::load::{ChunkBytes, Shape, chunk_data, write_all};
use crate::workloads::chunk::cmdw::remote::Workload;
use crate::workloads::chunk::cmdw::table::{Kind, Run, Series};

/// All bytes that the published test writes of one chunk size. Sizes that the document does not
/// have get as many chunks as make up these bytes.
const PUBLISHED_BYTES: u64 = 1_024_000_000;

/// The folder of a run's store, inside the folder of the workload.
pub const STORE_DIR: &str = "store";

/// The options that `cmdw` and `cmdr` share.
#[derive(Debug, Args)]
pub struct ChunkArgs {
    /// Folder to write to, on the disk to measure
    #[arg(long, value_name = "DIR", required_unless_present = "target")]
    dir: Option<PathBuf>,
    /// Datanodes to write to over the network instead of a folder, measured in turn
    #[arg(
        long,
        value_name = "chunk://HOST:PORT,...",
        value_delimiter = ',',
        conflicts_with_all = ["dir", "layout"]
    )]
    target: Vec<ChunkAddress>,
    /// Bytes of a chunk; several sizes are several tests
    #[arg(
        long,
        value_name = "SIZE,...",
        value_delimiter = ',',
        default_value = "1KiB,10KiB,100KiB,1000KiB,4000KiB"
    )]
    size: Vec<ChunkBytes>,
    /// Where the store puts chunks: per-chunk, per-block, log
    #[arg(
        long,
        value_name = "LAYOUT,...",
        value_delimiter = ',',
        default_value = "per-chunk,per-block,log",
        value_parser = layout_of
    )]
    layout: Vec<Layout>,
    /// Threads at once
    #[arg(long, value_name = "N", default_value_t = 16)]
    threads: usize,
    /// Chunks that follow each other in a block
    #[arg(long, value_name = "N", default_value_t = 16)]
    chunks_per_block: u64,
    /// Containers, which threads share in turn [default: one for each thread]
    #[arg(long, value_name = "N")]
    containers: Option<usize>,
    /// Chunks of each size, in the order of the sizes [default: as published]
    #[arg(long, value_name = "N,...", value_delimiter = ',', conflicts_with = "scale")]
    count: Vec<u64>,
    /// Share of the published numbers of chunks
    #[arg(long, value_name = "PART", default_value_t = 1.0)]
    scale: f64,
    /// How often, and how often before.
    #[command(flatten)]
    pub repeat: Rounds,
    /// Write all figures to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Options of `quorate bench cmdw`.
#[derive(Debug, Args)]
pub struct CmdwArgs {
    #[command(flatten)]
    chunks: ChunkArgs,
    /// Checksums that come with the chunks and are compared with them: none, crc32, crc32c, sha256,
    /// md5 [default: none, then crc32c]
    #[arg(long, value_name = "KIND", value_parser = checksum_of)]
    checksum: Option<ChecksumType>,
    /// When a chunk is acknowledged: buffered, synced (durable by a sync that each thread asks for
    /// itself), group-synced (durable by one that it shares in the layout log; the files of the
    /// other layouts share none)
    #[arg(
        long,
        value_name = "WHEN",
        default_value = "buffered",
        value_parser = durability_of,
        conflicts_with = "target"
    )]
    durability: Durability,
    /// Ozone's own chunk writer in turn with ours: a folder with the jars of a release. Each of its
    /// threads has a container of its own, so ours must, too
    #[arg(long, value_name = "freon:JAR-DIR", conflicts_with = "target")]
    compare: Option<FreonPeer>,
    /// Measure what the disk and the generator can do, too
    #[arg(
        long,
        value_name = "BOOL",
        default_value_t = true,
        default_missing_value = "true",
        num_args = 0..=1,
        action = clap::ArgAction::Set
    )]
    limits: bool,
}

fn layout_of(text: &str) -> Result<Layout, String> {
    match text {
        "per-chunk" => Ok(Layout::PerChunk),
        "per-block" => Ok(Layout::PerBlock),
        "log" => Ok(Layout::Log),
        _ => Err("layouts are per-chunk, per-block, log".to_string()),
    }
}

/// The kind of checksum with a name of the option `--checksum`.
pub fn checksum_of(text: &str) -> Result<ChecksumType, String> {
    let found = ChecksumType::ALL.into_iter().find(|kind| checksum_name(*kind) == text);
    found.ok_or_else(|| "checksums are none, crc32, crc32c, sha256, md5".to_string())
}

/// The name of a kind of checksum in options and tables.
pub fn checksum_name(kind: ChecksumType) -> &'static str {
    match kind {
        ChecksumType::None => "none",
        ChecksumType::Crc32 => "crc32",
        ChecksumType::Crc32c => "crc32c",
        ChecksumType::Sha256 => "sha256",
        ChecksumType::Md5 => "md5",
    }
}

fn durability_of(text: &str) -> Result<Durability, String> {
    match text {
        "buffered" => Ok(Durability::Buffered),
        "synced" => Ok(Durability::Synced),
        "group-synced" => Ok(Durability::GroupSynced),
        _ => Err("durability is buffered, synced or group-synced".to_string()),
    }
}

fn durability_name(durability: Durability) -> &'static str {
    match durability {
        Durability::Buffered => "buffered",
        Durability::Synced => "synced",
        Durability::GroupSynced => "group-synced",
    }
}

impl ChunkArgs {
    /// The tests that the options ask for, one for each size.
    ///
    /// # Errors
    /// An option is out of its bounds.
    pub fn shapes(&self) -> anyhow::Result<Vec<Shape>> {
        let (threads, containers) = (self.threads, self.containers.unwrap_or(self.threads));
        for (name, number, max) in [
            ("threads", threads as u64, CHUNK_THREADS_MAX as u64),
            ("containers", containers as u64, threads as u64),
            ("chunks-per-block", self.chunks_per_block, CHUNKS_PER_BLOCK_MAX),
        ] {
            anyhow::ensure!((1..=max).contains(&number), "--{name}: {number} is not in 1..={max}");
        }
        let is_scale = self.scale > 0.0 && self.scale <= 1_000.0;
        anyhow::ensure!(is_scale, "--scale: {} is not above 0 and up to 1000", self.scale);
        let (counts, sizes) = (self.count.len(), self.size.len());
        anyhow::ensure!(
            counts == 0 || counts == sizes,
            "--count: {counts} numbers for {sizes} sizes; give one for each size"
        );
        let shape = |(index, chunk_bytes): (usize, &ChunkBytes)| {
            let scaled = published_count(*chunk_bytes) as f64 * self.scale;
            let chunks = self.count.get(index).copied().unwrap_or((scaled.round() as u64).max(1));
            anyhow::ensure!(
                (1..=CHUNKS_MAX).contains(&chunks),
                "{chunks} chunks of {chunk_bytes} are not in 1..={CHUNKS_MAX}"
            );
            let (chunk_bytes, chunks_per_block) = (*chunk_bytes, self.chunks_per_block);
            Ok(Shape { chunk_bytes, chunks, threads, containers, chunks_per_block })
        };
        self.size.iter().enumerate().map(shape).collect()
    }

    /// The layouts of our store that the options ask for.
    pub fn layouts(&self) -> &[Layout] {
        &self.layout
    }

    /// Whether chunks are written to servers instead of a folder.
    pub fn is_remote(&self) -> bool {
        !self.target.is_empty()
    }

    /// Makes the folder that everything is written to. Also returns the lines about the machine,
    /// the disk and the file system.
    ///
    /// # Errors
    /// The folder cannot be made or written.
    pub fn make_folder(&self, workload: &str) -> anyhow::Result<(Folder, String)> {
        let dir = self.dir()?;
        let folder = Folder::make(dir, &format!("quorate-{workload}"))?;
        // Each file of the store takes at most two descriptors.
        let files = StoreOptions::default().open_files_max + self.threads;
        open_files::make_room(2 * files)?;
        let mut about =
            format!("quorate {} bench on {}\n", env!("CARGO_PKG_VERSION"), MachineInfo::read());
        let file_system = FileSystem::of(folder.path());
        let latencies = disk_latencies(folder.path())?;
        about += &format!(
            "{} is on {file_system}; fdatasync of 4 KiB there: p50 {:.0} us, p99 {:.0} us, max \
             {:.0} us\n",
            dir.display(),
            latencies.percentile_us(50.0),
            latencies.percentile_us(99.0),
            latencies.max_us()
        );
        if let Some(advice) = file_system.advice() {
            about += &format!("note: {advice}\n");
        }
        Ok((folder, about))
    }

    fn dir(&self) -> anyhow::Result<&Path> {
        self.dir.as_deref().ok_or_else(|| anyhow::anyhow!("--dir says where to write"))
    }

    /// Describes the load: threads, containers, chunks of a block, rounds.
    pub fn describe(&self) -> String {
        let containers = self.containers.unwrap_or(self.threads);
        format!(
            "{} threads, {containers} containers, {} chunks to a block; rounds: {} that count \
             after {} that warm up",
            self.threads, self.chunks_per_block, self.repeat.rounds, self.repeat.warmup
        )
    }

    /// Starts the record of a run; `about` are the lines that were printed first.
    pub fn start_record(workload: &str, about: &str) -> Record {
        let mut record = Record::start(workload);
        record.results.about = about.lines().map(str::to_string).collect();
        record
    }

    /// Completes the record, and writes it to the file of `--json`, if there is one.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&self, mut record: Record, tests: Vec<schema::Test>) -> anyhow::Result<()> {
        let Some(path) = &self.json else { return Ok(()) };
        record.results.systems = table::systems_of(&tests);
        record::write(&record.end(tests), path)
    }
}

/// The number of chunks of one size in the published test.
fn published_count(chunk_bytes: ChunkBytes) -> u64 {
    let row = CMDW.iter().find(|row| row.chunk_bytes == chunk_bytes.0);
    row.map_or((PUBLISHED_BYTES / chunk_bytes.0).max(1), |row| row.chunks)
}

/// Something that takes a turn in a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Contender {
    Ours(Layout),
    Ozone(Layout),
    Limit(Limit),
    /// The generator itself, with a write that does nothing.
    Generator,
}

impl Contender {
    /// Where a chunk is when it is acknowledged before it is durable. `None` if it is durable by
    /// then, or if no chunk is written.
    fn acknowledges_from(self, chunk_bytes: ChunkBytes) -> Option<Place> {
        match self {
            Contender::Ours(layout) => Some(Place::in_store(layout, chunk_bytes.0)),
            Contender::Ozone(_) | Contender::Limit(Limit::Sequential | Limit::Log) => {
                Some(Place::PageCache)
            }
            Contender::Limit(Limit::Gathered) => Some(Place::Process),
            Contender::Limit(Limit::Direct) => Some(Place::Device),
            Contender::Limit(Limit::LogSync | Limit::LogGroup | Limit::DirectGroup)
            | Contender::Generator => None,
        }
    }
}

/// The contenders of a test. Ozone and the limits have no checksums, so they are only in the tests
/// of the first kind of checksum.
fn contenders(args: &CmdwArgs, is_first: bool) -> Vec<Contender> {
    let ours = args.chunks.layouts();
    let mut all: Vec<Contender> = ours.iter().map(|layout| Contender::Ours(*layout)).collect();
    if !is_first {
        return all;
    }
    if args.compare.is_some() {
        let mut theirs: Vec<Layout> =
            ours.iter().copied().filter(|layout| *layout != Layout::Log).collect();
        if theirs.is_empty() {
            theirs.push(Layout::PerBlock);
        }
        all.extend(theirs.into_iter().map(Contender::Ozone));
    }
    if args.limits {
        let limits: &[Limit] = match args.durability {
            Durability::Buffered => &Limit::BUFFERED,
            Durability::Synced | Durability::GroupSynced => &Limit::DURABLE,
        };
        all.extend(limits.iter().map(|limit| Contender::Limit(*limit)));
        all.push(Contender::Generator);
    }
    all
}

/// Each of our layouts, with the layout of Ozone that it is compared with.
const BESIDE_OZONE: [(Layout, Layout); 3] = [
    (Layout::PerChunk, Layout::PerChunk),
    (Layout::PerBlock, Layout::PerBlock),
    (Layout::Log, Layout::PerBlock),
];

/// The largest half width of the ratios of our layouts to Ozone's: see [`crate::measure::figures`].
fn ratio_width(contenders: &[Contender], rounds: &[Vec<Option<Run>>]) -> Option<f64> {
    let runs_of = |wanted: Contender| {
        let at = contenders.iter().position(|it| *it == wanted)?;
        Some(rounds[at].iter().flatten().copied().collect::<Vec<Run>>())
    };
    let pairs = BESIDE_OZONE.into_iter().filter_map(|(ours, theirs)| {
        runs_of(Contender::Ours(ours)).zip(runs_of(Contender::Ozone(theirs)))
    });
    widest(pairs.map(|(ours, theirs)| table::ratio_width(&ours, &theirs)))
}

/// Refuses `--compare` if our threads share containers, because Ozone's threads never do.
fn ensure_same_containers(shapes: &[Shape]) -> anyhow::Result<()> {
    let is_same = shapes.iter().all(|shape| shape.containers == shape.threads);
    anyhow::ensure!(
        is_same,
        "--compare: each of Ozone's threads has its own container; give as many --containers as \
         --threads"
    );
    Ok(())
}

/// Runs `quorate bench cmdw` and prints the results.
///
/// # Errors
/// An option is wrong, something cannot be written, or a signal asked the run to end.
pub fn command(args: &CmdwArgs) -> anyhow::Result<ExitCode> {
    if args.compare.is_none() {
        args.chunks.repeat.ensure_fixed()?;
    }
    let checksums = match args.checksum {
        Some(only) => vec![only],
        None => vec![ChecksumType::None, ChecksumType::Crc32c],
    };
    if args.chunks.is_remote() {
        return remote::command(&args.chunks, Workload::Writes, &checksums);
    }
    let shapes = args.chunks.shapes()?;
    if let Some(peer) = &args.compare {
        ensure_same_containers(&shapes)?;
        peer.find()?;
    }
    let interrupt = Interrupt::catch()?;
    let (folder, mut about) = args.chunks.make_folder("cmdw")?;
    about += &format!(
        "cmdw: {}; {}\n",
        args.chunks.describe(),
        match args.durability {
            Durability::Buffered => "a chunk is acknowledged before it is durable",
            Durability::Synced =>
                "a chunk is durable when it is acknowledged, by a sync that its thread asked for",
            Durability::GroupSynced =>
                "a chunk is durable when it is acknowledged, in LOG by a sync that threads share",
        }
    );
    print!("{about}");
    let mut freon = match (&args.compare, shapes.first()) {
        (Some(peer), Some(shape)) => {
            let is_synced = args.durability != Durability::Buffered;
            Some(Freon::start(peer, args.chunks.dir()?, shape, is_synced, &interrupt)?)
        }
        _ => None,
    };
    let (stolen, record) = (Stolen::start(), ChunkArgs::start_record("cmdw", &about));
    let mut tests = Vec::new();
    for (index, checksum) in checksums.into_iter().enumerate() {
        for shape in &shapes {
            let test = Test::new((&folder, &interrupt), shape, checksum, args.durability);
            let contenders = contenders(args, index == 0);
            let has_ratio = contenders.iter().any(|it| matches!(it, Contender::Ozone(_)));
            let repeat = args.chunks.repeat;
            let repeat = if has_ratio { repeat } else { repeat.fixed() };
            tests.push(test.measure(&contenders, &repeat, &mut freon)?);
        }
    }
    println!();
    for doubt in CMDW_DOUBTS {
        println!("note: {doubt}");
    }
    if freon.is_some() {
        for remark in shapes.iter().filter_map(|shape| freon::remark(Layout::PerBlock, shape)) {
            println!("note: {remark}");
        }
    }
    stolen.print();
    args.chunks.finish(record, tests)?;
    Ok(ExitCode::SUCCESS)
}

/// One table: chunks of one size with one kind of checksum.
pub struct Test<'a> {
    folder: &'a Folder,
    interrupt: &'a Interrupt,
    shape: &'a Shape,
    /// The checksums of a chunk; all chunks have the same bytes.
    checksum: ChecksumData,
    data: Vec<u8>,
    durability: Durability,
}

impl Test<'_> {
    /// A test that writes to `folder`.
    pub fn new<'a>(
        (folder, interrupt): (&'a Folder, &'a Interrupt),
        shape: &'a Shape,
        checksum: ChecksumType,
        durability: Durability,
    ) -> Test<'a> {
        let data = chunk_data(shape.chunk_bytes);
        let checksum = ChecksumData::of(checksum, BYTES_PER_CHECKSUM, &data);
        Test { folder, interrupt, shape, checksum, data, durability }
    }

    /// Measures all contenders in turn, and prints the table.
    fn measure(
        &self,
        contenders: &[Contender],
        repeat: &Rounds,
        freon: &mut Option<Freon>,
    ) -> anyhow::Result<schema::Test> {
        let title = self.title();
        let runs = match repeat.goal.until {
            None => u64::from(repeat.all()) * contenders.len() as u64,
            Some(_) => 0,
        };
        let progress = Progress::start(runs);
        let turn = |place: usize, round| {
            let contender = contenders[place];
            let name = self.series(contender, freon.as_ref()).label();
            progress.say(&format!("{title}: {}: {name}", repeat.round_name(round)));
            self.interrupt.check()?;
            let run = match (contender, &mut *freon) {
                (Contender::Ours(layout), _) => self.run_ours(layout).map(Some),
                (Contender::Ozone(layout), Some(freon)) => freon.run(layout, self.shape).map(Some),
                (Contender::Ozone(_), None) => Ok(None),
                (Contender::Limit(limit), _) => self.run_limit(limit),
                (Contender::Generator, _) => self.run_generator().map(Some),
            };
            run.map_err(|error| error.context(name))
        };
        let width = |rounds: &[Vec<Option<Run>>]| ratio_width(contenders, rounds);
        let measured = repeat.take_turns_until(contenders.len(), turn, width);
        progress.end();
        let (rounds, until) = measured?;
        let all: Vec<Series> = contenders
            .iter()
            .zip(rounds)
            .map(|(contender, runs)| {
                let mut series = self.series(*contender, freon.as_ref());
                series.runs = runs.into_iter().flatten().collect();
                if series.runs.is_empty() {
                    series.notes.push("this file system has no such writes".to_string());
                }
                series.notes.extend(self.doubts(*contender).map(str::to_string));
                series
            })
            .collect();
        let published: Vec<&CmdwRow> = match self.checksum.kind {
            ChecksumType::None if self.durability == Durability::Buffered => self.published(),
            _ => Vec::new(),
        };
        println!("\n== {title}");
        let acknowledged = self.acknowledged(contenders, &all);
        print!("{}", self.text(&all, &published, &acknowledged));
        until.iter().for_each(|line| println!("{line}"));
        let place = |(place, labels): &(Place, Vec<String>)| {
            format!("acknowledged from {}: {}", place.describe(), labels.join(", "))
        };
        Ok(schema::Test {
            title,
            systems: all.iter().map(Series::measured).collect(),
            published: published.iter().map(|row| published_of(row)).collect(),
            remarks: acknowledged.iter().map(place).chain(until).collect(),
            ..schema::Test::default()
        })
    }

    /// Remarks about a contender that does less than the others, or promises something else.
    fn doubts(&self, contender: Contender) -> impl Iterator<Item = &'static str> {
        let is_durable = self.durability != Durability::Buffered;
        let is_shared = self.durability == Durability::GroupSynced;
        let is_bare = self.checksum.kind == ChecksumType::None;
        let of_durability = match contender {
            Contender::Ours(Layout::PerBlock | Layout::PerChunk) if is_shared => {
                Some("files share no sync: each chunk has one of its own, and of its directory")
            }
            Contender::Ozone(_) if is_durable => {
                Some("syncs the file of each chunk and no directory: a new name may be lost")
            }
            Contender::Limit(limit) => limit.doubt(),
            _ => None,
        };
        let of_checksums = match contender {
            Contender::Ozone(_) | Contender::Limit(_) if !is_bare => Some("has no checksums"),
            _ => None,
        };
        of_durability.into_iter().chain(of_checksums)
    }

    fn title(&self) -> String {
        let Shape { chunk_bytes, chunks, .. } = self.shape;
        let checksum = checksum_name(self.checksum.kind);
        let durability = durability_name(self.durability);
        format!("{chunks} chunks of {chunk_bytes}, checksums: {checksum}, {durability}")
    }

    /// For each place, the labels of the contenders that acknowledge buffered chunks from there.
    /// Empty for durable writes.
    fn acknowledged(&self, contenders: &[Contender], all: &[Series]) -> Vec<(Place, Vec<String>)> {
        if self.durability != Durability::Buffered {
            return Vec::new();
        }
        let of_place = |place: Place| {
            let both = contenders.iter().zip(all);
            let of_it = both.filter(|(contender, _)| {
                contender.acknowledges_from(self.shape.chunk_bytes) == Some(place)
            });
            (place, of_it.map(|(_, series)| series.label()).collect::<Vec<_>>())
        };
        let places = Place::ALL.into_iter().map(of_place);
        places.filter(|(_, labels)| !labels.is_empty()).collect()
    }

    fn published(&self) -> Vec<&'static CmdwRow> {
        CMDW.iter().filter(|row| row.chunk_bytes == self.shape.chunk_bytes.0).collect()
    }

    /// The printed text: the table, the places of acknowledgement, the ratios, and the key=value
    /// lines.
    fn text(
        &self,
        all: &[Series],
        published: &[&CmdwRow],
        acknowledged: &[(Place, Vec<String>)],
    ) -> String {
        let kind = match self.durability {
            Durability::Buffered => Kind::Writes,
            Durability::Synced | Durability::GroupSynced => Kind::DurableWrites,
        };
        let mut out = table::table(kind, all, published);
        for (place, labels) in acknowledged {
            let (from, who) = (place.describe(), labels.join(", "));
            out += &format!("  acknowledged from {from}: {who}\n");
        }
        let find = |implementation: &str, layout: &str| {
            all.iter().find(|series| {
                series.implementation.starts_with(implementation) && series.layout == layout
            })
        };
        let place = |series: &Series| {
            let label = series.label();
            let found = acknowledged.iter().find(|(_, labels)| labels.contains(&label));
            found.map(|(place, _)| place.name())
        };
        let of_ozone = BESIDE_OZONE.map(|(ours, theirs)| (ours, "ozone", theirs.name()));
        let limits = [Limit::Log, Limit::Gathered, Limit::LogGroup, Limit::DirectGroup];
        let of_limits = limits.map(|limit| (Layout::Log, "limit", limit.name()));
        for (ours, other, theirs) in of_ozone.into_iter().chain(of_limits) {
            let both = find("quorate", ours.name()).zip(find(other, theirs));
            let Some((one, two)) = both else { continue };
            out += &table::ratios(one, two);
            let places = place(one).zip(place(two));
            if let Some((one, two)) = places.filter(|(one, two)| one != two) {
                out += &format!("    not one promise: acknowledged from {one}, and from {two}\n");
            }
        }
        out + &table::lines(all)
    }

    fn series(&self, contender: Contender, freon: Option<&Freon>) -> Series {
        let checksum = checksum_name(self.checksum.kind);
        let durability = durability_name(self.durability);
        let (implementation, layout, variant) = match contender {
            Contender::Ours(layout) => (
                format!("quorate-{}", env!("CARGO_PKG_VERSION")),
                layout.name(),
                format!("{checksum}-{durability}"),
            ),
            Contender::Ozone(layout) => {
                let name = freon.map_or("ozone", Freon::name);
                (name.to_string(), layout.name(), durability.to_string())
            }
            Contender::Limit(limit) => ("limit".to_string(), limit.name(), "plain".to_string()),
            Contender::Generator => ("limit".to_string(), "generator-alone", "none".to_string()),
        };
        let layout = layout.to_string();
        Series { implementation, layout, variant, runs: Vec::new(), notes: Vec::new() }
    }

    /// Writes the chunks to a fresh store of our own, and removes the store.
    ///
    /// # Errors
    /// Something cannot be written, or a signal asked the run to end.
    pub fn run_ours(&self, layout: Layout) -> anyhow::Result<Run> {
        let options = store_options(self.shape, layout, self.checksum.kind);
        let disk = CountedDisk::new(self.folder.path().join(STORE_DIR))?;
        let store = open_store(disk.clone(), self.shape, layout, options)?;
        self.folder.sync_file_system()?;
        let syncs_before = disk.sync_counts();
        let durability = self.durability;
        let write = |id: BlockId, chunk: &ChunkInfo, number: u64| {
            // The stage matters only for `PerChunk`, which writes a temporary file before the
            // commit.
            let stage = match layout {
                Layout::PerChunk => Stage::Write { term: 1, index: number },
                Layout::PerBlock | Layout::Log => Stage::Combined,
            };
            store.write_chunk(id, chunk, &self.data, WriteMode { stage, durability })
        };
        let run = kept_up(&store, || {
            let took = write_all(self.shape, &prefix(), &self.checksum, self.interrupt, write)?;
            let syncs = disk.sync_counts().since(syncs_before);
            store.sync()?;
            self.folder.sync_file_system()?;
            anyhow::Ok(Run { syncs: Some(syncs), ..Run::of(self.shape, &took, &took.until_now()) })
        })?;
        drop(store);
        self.folder.clear()?;
        Ok(run)
    }

    fn run_limit(&self, limit: Limit) -> anyhow::Result<Option<Run>> {
        self.folder.sync_file_system()?;
        let result = limit.run(self.folder.path(), self.shape, &self.data, self.interrupt)?;
        let run = match result {
            Some((took, syncs)) => {
                self.folder.sync_file_system()?;
                let run = Run::of(self.shape, &took, &took.until_now());
                let syncs = SyncCounts { files: syncs, directories: 0 };
                Some(Run { syncs: Some(syncs), ..run })
            }
            None => None,
        };
        self.folder.clear()?;
        Ok(run)
    }

    fn run_generator(&self) -> anyhow::Result<Run> {
        let nothing = |_: BlockId, chunk: &ChunkInfo, _: u64| {
            std::hint::black_box(chunk);
            anyhow::Ok(())
        };
        let took = write_all(self.shape, &prefix(), &self.checksum, self.interrupt, nothing)?;
        Ok(Run::of(self.shape, &took, &took))
    }
}

/// The prefix of the names of a run's chunks: ten characters, as in the original.
pub fn prefix() -> String {
    format!("cmdw{:06}", std::process::id() % 1_000_000)
}

/// The options of a store for this shape. Its limits admit the blocks of any shape.
pub fn store_options(shape: &Shape, layout: Layout, checksum: ChecksumType) -> StoreOptions {
    let default = StoreOptions::default();
    let block_bytes = shape.chunk_bytes.0 * shape.chunks_per_block;
    StoreOptions {
        layout,
        verify_writes: checksum != ChecksumType::None,
        block_bytes_max: default.block_bytes_max.max(block_bytes),
        container_bytes_max: default.container_bytes_max.max(shape.bytes()),
        ..default
    }
}

/// Makes an empty store with the containers of a shape, and makes them durable.
///
/// # Errors
/// The store or a container cannot be made.
pub fn open_store<D: Disk + Clone>(
    disk: D,
    shape: &Shape,
    layout: Layout,
    options: StoreOptions,
) -> anyhow::Result<Store<D>> {
    let store = Store::open(disk, options)?;
    let spec = ContainerSpec { layout: Some(layout), ..ContainerSpec::default() };
    for id in shape.container_ids() {
        store.create_container(id, &spec)?;
    }
    store.sync()?;
    Ok(store)
}

fn published_of(row: &CmdwRow) -> Published {
    let rate = row.rate_with_sync();
    Published {
        figure: "chunks, with the sync".to_string(),
        value: Some(rate),
        text: format!("{}: {rate:.0} per s, {:.0} before the sync", row.layout, row.rate),
    }
}

#[cfg(test)]
mod tests;

//! The output of `cmdw` and `cmdr`: a table for each size, key=value lines, and JSON. Pure: figures
//! in, text out.

use std::fmt::Write;

use results::schema::{self, Measured, Role, System};

use crate::measure::figures::{Figure, Good, half_width, ratio};
use crate::measure::published::CmdwRow;
use crate::measure::stats::median;
use crate::workloads::chunk::cmdw::counted_disk::SyncCounts;
use crate::workloads::chunk::cmdw::load::{Shape, Took};

/// The figures of one run, all threads together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Run {
    /// The work of the run.
    pub shape: Shape,
    /// Seconds from the start to the answer to the last chunk.
    pub write_s: f64,
    /// Seconds from that answer until everything was durable.
    pub sync_s: f64,
    /// CPU for each chunk, user and system, until the last answer, µs; `None` if it is not known.
    pub cpu_us: Option<f64>,
    /// CPU for each chunk until everything was durable, µs. It includes writing out gathered
    /// chunks.
    pub cpu_us_with_sync: Option<f64>,
    /// The median latency of a chunk, µs; `None` if chunks have no latencies.
    pub p50_us: Option<f64>,
    /// The latency that 99 % of the chunks do not exceed, µs; `None` if chunks have no latencies.
    pub p99_us: Option<f64>,
    /// The number of syncs until the last answer; `None` if they were not counted.
    pub syncs: Option<SyncCounts>,
}

impl Run {
    /// The figures of a run, from its cost until the last answer (`write`), and its cost from the
    /// same start until everything was durable.
    pub fn of(shape: &Shape, write: &Took, until_durable: &Took) -> Run {
        let per_chunk_us = |took: &Took| took.cpu_ns as f64 / 1e3 / shape.chunks as f64;
        let has_latencies = write.latencies.count() > 0;
        let percentile = |percent| has_latencies.then(|| write.latencies.percentile_us(percent));
        let sync_ns = until_durable.elapsed_ns.saturating_sub(write.elapsed_ns);
        Run {
            shape: *shape,
            write_s: write.elapsed_ns as f64 / 1e9,
            sync_s: sync_ns as f64 / 1e9,
            cpu_us: Some(per_chunk_us(write)),
            cpu_us_with_sync: Some(per_chunk_us(until_durable)),
            p50_us: percentile(50.0),
            p99_us: percentile(99.0),
            syncs: None,
        }
    }

    fn mb(&self) -> f64 {
        self.shape.bytes() as f64 / 1e6
    }

    /// Chunks a second, without the sync.
    pub fn rate(&self) -> f64 {
        self.shape.chunks as f64 / self.write_s
    }

    /// Chunks a second, with the sync.
    pub fn rate_with_sync(&self) -> f64 {
        self.shape.chunks as f64 / (self.write_s + self.sync_s)
    }

    /// The value for a column of the table; `None` if the run does not have it.
    fn figure(&self, name: Column) -> Option<f64> {
        Some(match name {
            Column::Rate => self.rate(),
            Column::Chunks => self.shape.chunks as f64,
            Column::Seconds => self.write_s,
            Column::SyncSeconds => self.sync_s,
            Column::Mb => self.mb() / self.write_s,
            Column::RateWithSync => self.rate_with_sync(),
            Column::MbWithSync => self.mb() / (self.write_s + self.sync_s),
            Column::Cpu => self.cpu_us?,
            Column::CpuWithSync => self.cpu_us_with_sync?,
            Column::P50 => self.p50_us?,
            Column::P99 => self.p99_us?,
            Column::Syncs => self.syncs?.files as f64 / self.shape.chunks as f64,
            Column::DirectorySyncs => self.syncs?.directories as f64 / self.shape.chunks as f64,
        })
    }
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Rate,
    Chunks,
    Seconds,
    SyncSeconds,
    Mb,
    RateWithSync,
    MbWithSync,
    Cpu,
    CpuWithSync,
    P50,
    P99,
    Syncs,
    DirectorySyncs,
}

impl Column {
    /// The two lines of the column's head, and its digits after the decimal point.
    fn head(self) -> ([&'static str; 2], usize) {
        match self {
            Column::Rate => (["", "rate"], 0),
            Column::Chunks => (["", "chunks"], 0),
            Column::Seconds => (["", "sec"], 2),
            Column::SyncSeconds => (["", "sync"], 2),
            Column::Mb => (["", "MB/s"], 1),
            Column::RateWithSync => (["with sync", "rate"], 0),
            Column::MbWithSync => (["w. sync", "MB/s"], 1),
            Column::Cpu => (["CPU us", "a chunk"], 2),
            Column::CpuWithSync => (["CPU us", "w. sync"], 2),
            Column::P50 => (["p50", "us"], 1),
            Column::P99 => (["p99", "us"], 1),
            Column::Syncs => (["fdatasyncs", "a chunk"], 3),
            Column::DirectorySyncs => (["dir fsyncs", "a chunk"], 3),
        }
    }

    fn width(self) -> usize {
        if matches!(self, Column::Syncs | Column::DirectorySyncs) { 11 } else { 9 }
    }
}

/// The kind of a table. It decides which columns there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Writes that are made durable together after the last one.
    Writes,
    /// Writes that are each durable when acknowledged.
    DurableWrites,
    /// Reads only.
    Reads,
}

impl Kind {
    fn columns(self) -> Vec<Column> {
        use Column::{
            Chunks, Cpu, CpuWithSync, DirectorySyncs, Mb, MbWithSync, P50, P99, Rate, RateWithSync,
            Seconds, SyncSeconds, Syncs,
        };
        let first = [Rate, Chunks, Seconds];
        let of_writes = [SyncSeconds, Mb, RateWithSync, MbWithSync, Cpu, CpuWithSync, P50, P99];
        let mut all = Vec::from(first);
        match self {
            Kind::Writes => all.extend(of_writes),
            Kind::DurableWrites => {
                all.extend(of_writes);
                all.extend([Syncs, DirectorySyncs]);
            }
            Kind::Reads => all.extend([Mb, Cpu, P50, P99]),
        }
        all
    }
}

/// All runs of one contender.
#[derive(Clone, Debug)]
pub struct Series {
    /// The name of the implementation, with its version.
    pub implementation: String,
    /// The layout of the chunks, or the name of the limit.
    pub layout: String,
    /// The rest that distinguishes the series: checksums, durability, or the way to read.
    pub variant: String,
    /// One run for each round that counts; empty if the contender cannot run here.
    pub runs: Vec<Run>,
    /// Remarks, such as why the contender cannot run here.
    pub notes: Vec<String>,
}

impl Series {
    /// The name in tables.
    pub fn label(&self) -> String {
        format!("{} {}", self.implementation, self.layout)
    }

    fn values(&self, column: Column) -> Vec<f64> {
        self.runs.iter().filter_map(|run| run.figure(column)).collect()
    }

    fn row(&self, out: &mut String, columns: &[Column], label: &str) {
        let _ = write!(out, "  {label:<31}");
        for column in columns {
            let values = self.values(*column);
            let (_, digits) = column.head();
            cell(out, *column, (!values.is_empty()).then(|| median(&values)), digits);
        }
        out.push('\n');
    }

    fn figure(&self, name: &'static str, column: Column, good: Good) -> Figure {
        Figure { values: self.values(column), ..Figure::once(name, "", None, good) }
    }

    /// The key=value line of one run, for the scripts of `tests/peers/ozone` and what reads their
    /// output. `cpu_us_per_chunk` is the CPU until everything was durable.
    fn line(&self, round: usize, run: &Run) -> String {
        let Shape { chunk_bytes, chunks, threads, .. } = run.shape;
        let ms = |us: Option<f64>| us.map_or("-".to_string(), |us| format!("{:.4}", us / 1_000.0));
        let us = |us: Option<f64>| us.map_or("-".to_string(), |us| format!("{us:.3}"));
        let mut out = format!(
            "impl={} layout={} size={} chunks={chunks} threads={threads} rate={:.1} MBps={:.1} \
             write_s={:.4} sync_s={:.4} MBps_with_sync={:.1} chunks_per_s_with_sync={:.1} \
             p50_ms={} p99_ms={} cpu_us_per_chunk={} cpu_us_without_sync={}",
            self.implementation,
            self.layout,
            chunk_bytes.0,
            run.rate(),
            run.mb() / run.write_s,
            run.write_s,
            run.sync_s,
            run.mb() / (run.write_s + run.sync_s),
            run.rate_with_sync(),
            ms(run.p50_us),
            ms(run.p99_us),
            us(run.cpu_us_with_sync),
            us(run.cpu_us),
        );
        if let Some(syncs) = run.syncs {
            let SyncCounts { files, directories } = syncs;
            let _ = write!(out, " fdatasyncs={files} dir_fsyncs={directories}");
        }
        let _ = write!(out, " variant={} round={round}", self.variant);
        out
    }

    /// The series in the schema of all results.
    pub fn measured(&self) -> Measured {
        let figure = |(name, unit, good, column): &(&str, &str, _, Column)| schema::Figure {
            name: (*name).to_string(),
            unit: (*unit).to_string(),
            good: *good,
            values: self.values(*column),
            is_headline: *column == Column::RateWithSync,
        };
        Measured {
            system: self.id(),
            figures: FIGURES.iter().map(figure).collect(),
            notes: self.notes.clone(),
            ..Measured::default()
        }
    }

    /// The id of the series in results.
    pub fn id(&self) -> String {
        format!("{} {}", self.label(), self.variant)
    }
}

/// The figures of a series in results, each with its column.
const FIGURES: [(&str, &str, schema::Good, Column); 11] = [
    ("chunks, with the sync", "per s", schema::Good::More, Column::RateWithSync),
    ("chunks, before the sync", "per s", schema::Good::More, Column::Rate),
    ("chunks", "", schema::Good::Neither, Column::Chunks),
    ("time before the sync", "s", schema::Good::Less, Column::Seconds),
    ("sync", "s", schema::Good::Less, Column::SyncSeconds),
    ("server CPU per chunk", "us", schema::Good::Less, Column::Cpu),
    ("server CPU per chunk, with the sync", "us", schema::Good::Less, Column::CpuWithSync),
    ("p50", "us", schema::Good::Less, Column::P50),
    ("p99", "us", schema::Good::Less, Column::P99),
    ("fdatasyncs per chunk", "", schema::Good::Less, Column::Syncs),
    ("fsyncs of folders per chunk", "", schema::Good::Less, Column::DirectorySyncs),
];

/// The systems that occur in some tests. The first one is the system in question; limits have the
/// role of the null server.
pub fn systems_of(tests: &[schema::Test]) -> Vec<System> {
    let mut systems: Vec<System> = Vec::new();
    for measured in tests.iter().flat_map(|test| &test.systems) {
        let id = &measured.system;
        if systems.iter().any(|it| it.id == *id) {
            continue;
        }
        let role = match id.split(' ').next() {
            Some("limit") => Role::Null,
            _ if systems.is_empty() || id.starts_with("quorate") => Role::Ours,
            _ => Role::Peer,
        };
        systems.push(System { id: id.clone(), role, name: id.clone(), ..System::default() });
    }
    systems
}

fn cell(out: &mut String, column: Column, value: Option<f64>, digits: usize) {
    let width = column.width();
    let _ = match value {
        Some(value) => write!(out, " {value:>width$.digits$}"),
        None => write!(out, " {:>width$}", "-"),
    };
}

/// The table: a row for each contender, a row for each published figure of this size, and the
/// remarks. A cell is the median of the rounds.
pub fn table(kind: Kind, contenders: &[Series], published: &[&CmdwRow]) -> String {
    let columns = kind.columns();
    let mut out = String::new();
    for line in 0..2 {
        let _ = write!(out, "  {:<31}", ["", "testname"][line]);
        for column in &columns {
            let (width, (head, _)) = (column.width(), column.head());
            let _ = write!(out, " {:>width$}", head[line]);
        }
        out.push('\n');
    }
    for series in contenders {
        let label = match kind {
            Kind::Reads => format!("{} {}", series.layout, series.variant),
            _ => series.label(),
        };
        series.row(&mut out, &columns, &label);
    }
    for row in published {
        let _ = write!(out, "  {:<31}", format!("published {}", row.layout));
        for column in &columns {
            let (_, digits) = column.head();
            cell(&mut out, *column, published_figure(row, *column), digits);
        }
        out.push('\n');
    }
    for series in contenders {
        for note in &series.notes {
            let _ = writeln!(out, "  {}: {note}", series.label());
        }
    }
    out
}

fn published_figure(row: &CmdwRow, column: Column) -> Option<f64> {
    let mb = (row.chunk_bytes * row.chunks) as f64 / 1e6;
    Some(match column {
        Column::Rate => row.rate,
        Column::Chunks => row.chunks as f64,
        Column::Seconds => row.write_s(),
        Column::SyncSeconds => row.sync_s,
        Column::Mb => mb / row.write_s(),
        Column::RateWithSync => row.rate_with_sync(),
        Column::MbWithSync => row.rate_with_sync() * mb / row.chunks as f64,
        _ => return None,
    })
}

/// Text that says how many times better the first series is than the second; ratios are taken in
/// each round.
pub fn ratios(first: &Series, second: &Series) -> String {
    let mut out = format!("  {} to {}:\n", first.label(), second.label());
    for (name, column, good) in [
        ("rate", Column::Rate, Good::More),
        ("rate with sync", Column::RateWithSync, Good::More),
        ("CPU a chunk, with sync", Column::CpuWithSync, Good::Less),
        ("p99", Column::P99, Good::Less),
    ] {
        let of = |series: &Series| series.figure(name, column, good);
        if let Some(ratio) = ratio(&of(first), &of(second)) {
            let _ = writeln!(out, "    {name:<29} {ratio}");
        }
    }
    out
}

/// The half width of the ratio of two contenders' rates with sync: see [`crate::measure::figures`].
pub fn ratio_width(first: &[Run], second: &[Run]) -> Option<f64> {
    let rates = |runs: &[Run]| {
        let values = runs.iter().map(Run::rate_with_sync).collect();
        Figure { values, ..Figure::once("rate with sync", "", None, Good::More) }
    };
    half_width(&rates(first), &rates(second))
}

/// The key=value lines of all runs.
pub fn lines(contenders: &[Series]) -> String {
    let mut out = String::new();
    for series in contenders {
        for (round, run) in series.runs.iter().enumerate() {
            let _ = writeln!(out, "{}", series.line(round, run));
        }
    }
    out
}

/// The value of a key in a key=value line.
pub fn value_of<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let pairs = line.split_whitespace().filter_map(|word| word.split_once('='));
    pairs.into_iter().find_map(|(name, value)| (name == key).then_some(value))
}

#[cfg(test)]
mod tests;

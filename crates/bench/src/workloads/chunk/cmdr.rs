//! The workload `cmdr`: reads back the chunks that [`cmdw`](super::cmdw) writes, in the order of
//! the writes and in random order, from the disk (cold) and from memory (warm).
//!
//! First the threads write their chunks, and PutBlock commits each block; this is not timed. Each
//! chunk that is read is compared with what was written. The comparison counts in the rate and in
//! the CPU, but not in the latencies; the row "generator-alone" shows what it costs.

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use chunk::RealDisk;
use chunk::block::{BlockId, ChunkInfo};
use chunk::checksum::{ChecksumData, ChecksumType};
use chunk::layout::Layout;
use chunk::store::{Durability, Store, WriteMode};
use clap::Args;
use results::schema;

use crate::limits::{BYTES_PER_CHECKSUM, COLD_PART_MIN};
use crate::measure::comparison::{Progress, Rounds, Stolen};
use crate::measure::stats::Latencies;
use crate::random::order_by_chance;
use crate::servers::folder::{Folder, disk_read_bytes};
use crate::servers::interrupt::Interrupt;
use crate::workloads::chunk::cmdw::background::ticking;
use crate::workloads::chunk::cmdw::load::{
    Description, Shape, Took, block_of, chunk_data, together,
};
use crate::workloads::chunk::cmdw::remote::{self, Workload};
use crate::workloads::chunk::cmdw::table::{self, Kind, Run, Series};
use crate::workloads::chunk::cmdw::{
    ChunkArgs, STORE_DIR, checksum_name, checksum_of, open_store, prefix, store_options,
};

/// Options of `quorate bench cmdr`.
#[derive(Debug, Args)]
pub struct CmdrArgs {
    #[command(flatten)]
    chunks: ChunkArgs,
    /// Checksums that come with the chunks: none, crc32, crc32c, sha256, md5
    #[arg(long, value_name = "KIND", default_value = "none", value_parser = checksum_of)]
    checksum: ChecksumType,
}

/// One way to read the chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Way {
    name: &'static str,
    is_random: bool,
    is_cold: bool,
}

const WAYS: [Way; 4] = [
    Way { name: "sequential-cold", is_random: false, is_cold: true },
    Way { name: "sequential-warm", is_random: false, is_cold: false },
    Way { name: "random-cold", is_random: true, is_cold: true },
    Way { name: "random-warm", is_random: true, is_cold: false },
];

/// Runs `quorate bench cmdr` and prints the results.
///
/// # Errors
/// An option is wrong, something cannot be written or read, or a signal asked the run to end.
pub fn command(args: &CmdrArgs) -> anyhow::Result<ExitCode> {
    args.chunks.repeat.ensure_fixed()?;
    if args.chunks.is_remote() {
        return remote::command(&args.chunks, Workload::Reads, &[args.checksum]);
    }
    let shapes = args.chunks.shapes()?;
    let interrupt = Interrupt::catch()?;
    let (folder, mut about) = args.chunks.make_folder("cmdr")?;
    about += &format!("cmdr: {}\n", args.chunks.describe());
    print!("{about}");
    let (stolen, record) = (Stolen::start(), ChunkArgs::start_record("cmdr", &about));
    let mut tests = Vec::new();
    for shape in &shapes {
        let data = chunk_data(shape.chunk_bytes);
        let test = Test {
            folder: &folder,
            interrupt: &interrupt,
            shape,
            checksum: ChecksumData::of(args.checksum, BYTES_PER_CHECKSUM, &data),
            data,
        };
        tests.push(test.measure(args.chunks.layouts(), &args.chunks.repeat)?);
    }
    println!();
    println!("note: each chunk read is compared with what was written; rate and CPU include that");
    println!(
        "note: cold means that the chunks' data is not in the page cache; names, inodes and our \
         index are in memory. The store's background work, which reads in a server too, is off"
    );
    stolen.print();
    args.chunks.finish(record, tests)?;
    Ok(ExitCode::SUCCESS)
}

/// One table: all layouts with chunks of one size.
struct Test<'a> {
    folder: &'a Folder,
    interrupt: &'a Interrupt,
    shape: &'a Shape,
    /// The checksums of a chunk; all chunks have the same bytes.
    checksum: ChecksumData,
    data: Vec<u8>,
}

/// For each way to read, its run; and if the run was not as cold or warm as its name says, the
/// reason.
type Reads = [(Run, Option<String>); WAYS.len()];

impl Test<'_> {
    /// Measures all layouts in turn, and prints the table.
    fn measure(&self, layouts: &[Layout], repeat: &Rounds) -> anyhow::Result<schema::Test> {
        let Shape { chunk_bytes, chunks, .. } = self.shape;
        let checksum = checksum_name(self.checksum.kind);
        let title = format!("{chunks} chunks of {chunk_bytes}, checksums: {checksum}");
        let progress = Progress::start(u64::from(repeat.all()) * layouts.len() as u64);
        let rounds = repeat.take_turns(layouts.len(), |place, round| {
            let name = layouts[place].name();
            progress.say(&format!("{title}: round {} of {}: {name}", round + 1, repeat.all()));
            self.run(layouts[place]).map_err(|error| error.context(name))
        });
        progress.end();
        let mut all = Vec::new();
        for (layout, rounds) in layouts.iter().zip(rounds?) {
            all.extend(series_of(*layout, &rounds));
        }
        let alone = self.compare_alone()?;
        all.push(series(&["limit", "generator-alone", "compare"], vec![alone]));
        println!("\n== {title}");
        print!("{}", table::table(Kind::Reads, &all, &[]));
        print!("{}", table::lines(&all));
        Ok(schema::Test {
            title,
            systems: all.iter().map(Series::measured).collect(),
            ..schema::Test::default()
        })
    }

    /// Writes the chunks to a fresh store, reads them in each way, and removes the store.
    fn run(&self, layout: Layout) -> anyhow::Result<Reads> {
        let options = store_options(self.shape, layout, self.checksum.kind);
        let disk = RealDisk::new(self.folder.path().join(STORE_DIR))?;
        let store = open_store(disk, self.shape, layout, options)?;
        let order = order_by_chance(self.shape.chunks);
        let reads = ticking(&store, || {
            self.write(&store)?;
            store.sync()?;
            let read = |way: Way| {
                if way.is_cold {
                    self.folder.drop_cache()?;
                }
                let before = disk_read_bytes();
                let took = self.read(&store, way.is_random.then_some(order.as_slice()))?;
                let from_disk = before.zip(disk_read_bytes()).map(|(before, after)| after - before);
                let trouble = self.why_not(way.is_cold, from_disk);
                anyhow::Ok((Run::of(self.shape, &took, &took), trouble))
            };
            let [first, second, third, fourth] = WAYS;
            Ok([read(first)?, read(second)?, read(third)?, read(fourth)?])
        })?;
        drop(store);
        self.folder.clear()?;
        Ok(reads)
    }

    /// Why a run was not cold, or not warm; `None` if it was. `from_disk` has the bytes that came
    /// from a disk, if they were counted.
    fn why_not(&self, is_cold: bool, from_disk: Option<u64>) -> Option<String> {
        let name = if is_cold { "cold" } else { "warm" };
        let bytes = self.shape.bytes();
        let Some(read) = from_disk else {
            return Some(format!("whether it was {name} is unknown: there is no /proc/self/io"));
        };
        let part = read as f64 / bytes as f64;
        let is_so = if is_cold { part >= COLD_PART_MIN } else { part <= 1.0 - COLD_PART_MIN };
        (!is_so).then(|| format!("was not {name}: of {bytes} bytes {read} came from a disk"))
    }

    /// Writes all chunks. Each thread writes its own, block by block.
    fn write(&self, store: &Store<RealDisk>) -> anyhow::Result<Took> {
        let make_ready = |thread: usize| (thread, self.description());
        together(self.shape.threads, make_ready, |(thread, mut description)| {
            for numbers in self.shape.blocks_in_turn(thread) {
                let (id, _) = self.shape.place_in_turn(numbers[0]);
                let mut chunks = Vec::with_capacity(numbers.len());
                for number in numbers {
                    let chunk = description.of(number, self.shape.place_in_turn(number).1);
                    store.write_chunk(id, chunk, &self.data, WriteMode::default())?;
                    chunks.push(chunk.clone());
                    self.interrupt.check()?;
                }
                store.put_block(&block_of(id, chunks), true, Durability::Buffered)?;
            }
            Ok(Latencies::default())
        })
    }

    /// Reads all chunks. Without `order` each thread reads the chunks that it wrote; with it the
    /// threads share that order.
    fn read(&self, store: &Store<RealDisk>, order: Option<&[u32]>) -> anyhow::Result<Took> {
        self.read_by(order, |id, chunk, out| {
            out.clear();
            store.read_chunk(id, chunk, 0, out)
        })
    }

    /// Measures the comparisons without a read.
    fn compare_alone(&self) -> anyhow::Result<Run> {
        let took = self.read_by(None, |_, chunk, out| {
            if out.is_empty() {
                out.extend_from_slice(&self.data);
            }
            std::hint::black_box((chunk, out));
            anyhow::Ok(())
        })?;
        Ok(Run::of(self.shape, &took, &took))
    }

    fn read_by<E: Into<anyhow::Error>>(
        &self,
        order: Option<&[u32]>,
        read: impl Fn(BlockId, &ChunkInfo, &mut Vec<u8>) -> Result<(), E> + Sync,
    ) -> anyhow::Result<Took> {
        let (threads, next) = (self.shape.threads as u64, AtomicU64::new(0));
        let make_ready = |thread: usize| {
            let out = Vec::with_capacity(self.data.len());
            (thread as u64, self.description(), out, Latencies::default())
        };
        together(
            self.shape.threads,
            make_ready,
            |(mut turn, mut description, mut out, mut latencies)| {
                loop {
                    let number = match order {
                        None => turn,
                        Some(order) => {
                            let at = next.fetch_add(1, Ordering::Relaxed) as usize;
                            order.get(at).map_or(u64::MAX, |number| u64::from(*number))
                        }
                    };
                    if number >= self.shape.chunks {
                        return Ok(latencies);
                    }
                    turn += threads;
                    let (id, offset) = self.shape.place_in_turn(number);
                    let chunk = description.of(number, offset);
                    let began = Instant::now();
                    let result = read(id, chunk, &mut out);
                    latencies.record(began.elapsed().as_nanos() as u64);
                    let name = &chunk.name;
                    result.map_err(|error| error.into().context(format!("chunk {name}")))?;
                    anyhow::ensure!(
                        out == self.data,
                        "chunk {name} has other bytes than were written"
                    );
                    self.interrupt.check()?;
                }
            },
        )
    }

    fn description(&self) -> Description {
        Description::new(&prefix(), self.shape.chunk_bytes, self.checksum.clone())
    }
}

fn series([implementation, layout, variant]: &[&str; 3], runs: Vec<Run>) -> Series {
    let [implementation, layout, variant] =
        [implementation, layout, variant].map(ToString::to_string);
    Series { implementation, layout, variant, runs, notes: Vec::new() }
}

/// The series of one layout: one for each way to read.
fn series_of(layout: Layout, rounds: &[Reads]) -> Vec<Series> {
    let implementation = format!("quorate-{}", env!("CARGO_PKG_VERSION"));
    let of_way = |(index, way): (usize, &Way)| {
        let runs = rounds.iter().map(|reads| reads[index].0).collect();
        let mut series = series(&[&implementation, layout.name(), way.name], runs);
        let trouble = rounds.iter().find_map(|reads| reads[index].1.as_ref());
        if let Some(trouble) = trouble {
            series.notes.push(format!("{} {trouble}", way.name));
        }
        series
    };
    WAYS.iter().enumerate().map(of_way).collect()
}

#[cfg(test)]
mod tests;

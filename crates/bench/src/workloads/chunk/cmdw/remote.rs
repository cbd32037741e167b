//! `cmdw` and `cmdr` over the network: chunks are written to running datanodes and read from them.
//! Each thread has its own connection.
//!
//! Each thread writes a fixed share of the chunks. The column "sync" of the tables is the time of
//! PutBlock for all blocks; in our store it makes the block durable. Each run has new containers,
//! and deletes them in the end. CPU is that of the server's process, if it is on this machine.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use chunk::block::BlockId;
use chunk::checksum::{ChecksumData, ChecksumType};
use results::schema;

use crate::limits::BYTES_PER_CHECKSUM;
use crate::measure::comparison::{Progress, Stolen};
use crate::measure::machine_info::MachineInfo;
use crate::measure::stats::Latencies;
use crate::random::order_by_chance;
use crate::servers::interrupt::Interrupt;
use crate::servers::process::Processes;
use crate::workloads::chunk::cmdw::client::{ChunkAddress, ChunkClient};
use crate::workloads::chunk::cmdw::load::{
    Description, Shape, Took, block_of, chunk_data, together,
};
use crate::workloads::chunk::cmdw::table::{self, Kind, Run, Series};
use crate::workloads::chunk::cmdw::{ChunkArgs, checksum_name, prefix};

/// The work that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// The writes are measured.
    Writes,
    /// Chunks are written, then read in the order of the writes, then in random order. Only the
    /// reads are measured.
    Reads,
}

impl Workload {
    fn name(self) -> &'static str {
        match self {
            Workload::Writes => "cmdw",
            Workload::Reads => "cmdr",
        }
    }

    fn kind(self) -> Kind {
        match self {
            Workload::Writes => Kind::Writes,
            Workload::Reads => Kind::Reads,
        }
    }

    /// The names of the measured parts of a run.
    fn variants(self) -> &'static [&'static str] {
        match self {
            Workload::Writes => &["write"],
            Workload::Reads => &["sequential", "random"],
        }
    }
}

/// A datanode that has answered.
struct Datanode {
    name: String,
    address: SocketAddr,
    processes: Processes,
}

impl Datanode {
    fn find(address: &ChunkAddress) -> anyhow::Result<Datanode> {
        let (name, address) = (address.to_string(), address.find()?);
        Ok(Datanode { name, address, processes: Processes::listening(&[address]) })
    }

    /// Runs `work`. Returns its cost, and the CPU time that the server used meanwhile, ns.
    fn measure(
        &self,
        work: impl FnOnce() -> anyhow::Result<Took>,
    ) -> anyhow::Result<(Took, Option<u64>)> {
        let before = self.processes.cpu_ns();
        let took = work()?;
        let cpu_ns = before.zip(self.processes.cpu_ns()).map(|(before, after)| after - before);
        Ok((took, cpu_ns))
    }
}

/// Runs a workload on running datanodes, in turn, and prints the results.
///
/// # Errors
/// An option is wrong, a server does not answer or refuses a request, or a signal asked the run to
/// end.
pub fn command(
    args: &ChunkArgs,
    workload: Workload,
    checksums: &[ChecksumType],
) -> anyhow::Result<ExitCode> {
    let shapes = args.shapes()?;
    let datanodes: Vec<Datanode> =
        args.target.iter().map(Datanode::find).collect::<Result<_, _>>()?;
    let interrupt = Interrupt::catch()?;
    let mut about =
        format!("quorate {} bench on {}\n", env!("CARGO_PKG_VERSION"), MachineInfo::read());
    about += &format!("{}: {}\n", workload.name(), args.describe());
    print!("{about}");
    let (stolen, record) = (Stolen::start(), ChunkArgs::start_record(workload.name(), &about));
    let mut tests = Vec::new();
    for kind in checksums {
        for shape in &shapes {
            let data = chunk_data(shape.chunk_bytes);
            let checksum = ChecksumData::of(*kind, BYTES_PER_CHECKSUM, &data);
            let (data, interrupt) = (Bytes::from(data), &interrupt);
            let test = Test { workload, interrupt, shape, checksum, data };
            tests.push(test.measure(&datanodes, args)?);
        }
    }
    println!();
    match workload {
        Workload::Writes => println!(
            "note: the sync column is the PutBlock of each block; only ours makes the block durable"
        ),
        Workload::Reads => println!(
            "note: each chunk read is compared with what was written, and the rate includes that. \
             The server may have the chunk in memory"
        ),
    }
    println!("note: CPU is the server process's, if it is on this machine");
    stolen.print();
    args.finish(record, tests)?;
    Ok(ExitCode::SUCCESS)
}

/// One table: chunks of one size with one kind of checksum.
struct Test<'a> {
    workload: Workload,
    interrupt: &'a Interrupt,
    shape: &'a Shape,
    /// The checksums of a chunk; all chunks have the same bytes.
    checksum: ChecksumData,
    data: Bytes,
}

impl Test<'_> {
    /// Measures all datanodes in turn, and prints the table.
    fn measure(&self, datanodes: &[Datanode], args: &ChunkArgs) -> anyhow::Result<schema::Test> {
        let Shape { chunk_bytes, chunks, .. } = self.shape;
        let checksum = checksum_name(self.checksum.kind);
        let title = format!("{chunks} chunks of {chunk_bytes}, checksums: {checksum}");
        let repeat = &args.repeat;
        let progress = Progress::start(u64::from(repeat.all()) * datanodes.len() as u64);
        let rounds = repeat.take_turns(datanodes.len(), |place, round| {
            let name = &datanodes[place].name;
            progress.say(&format!("{title}: round {} of {}: {name}", round + 1, repeat.all()));
            self.run(&datanodes[place]).map_err(|error| error.context(name.clone()))
        });
        progress.end();
        let variants = self.workload.variants();
        let mut all = Vec::new();
        for (datanode, rounds) in datanodes.iter().zip(rounds?) {
            for (index, variant) in variants.iter().enumerate() {
                all.push(Series {
                    implementation: "datanode".to_string(),
                    layout: datanode.name.clone(),
                    variant: format!("{variant}-{checksum}"),
                    runs: rounds.iter().map(|runs| runs[index]).collect(),
                    notes: Vec::new(),
                });
            }
        }
        println!("\n== {title}");
        print!("{}", table::table(self.workload.kind(), &all, &[]));
        if let Some((first, second)) = all.split_at_checked(variants.len()) {
            for (first, second) in first.iter().zip(second) {
                print!("{}", table::ratios(first, second));
            }
        }
        print!("{}", table::lines(&all));
        Ok(schema::Test {
            title,
            systems: all.iter().map(Series::measured).collect(),
            ..schema::Test::default()
        })
    }

    /// Makes one run in new containers. Returns the figures of each measured part.
    fn run(&self, datanode: &Datanode) -> anyhow::Result<Vec<Run>> {
        let clients = (0..self.shape.threads).map(|_| ChunkClient::connect(datanode.address));
        let clients: Vec<ChunkClient> = clients.collect::<Result<_, _>>()?;
        // The time makes the container ids unique. Java's `long` limits them to 2^63.
        let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let first = since.as_micros() as u64;
        let mut made = Vec::new();
        let mut make = || {
            for id in self.shape.container_ids() {
                clients[0].create_container(first + id)?;
                made.push(first + id);
            }
            anyhow::Ok(())
        };
        let done = make().and_then(|()| self.run_in(datanode, &clients, first));
        // Deletes all containers, even if one of them cannot be deleted.
        let deleted: Vec<_> = made.iter().map(|id| clients[0].delete_container(*id)).collect();
        let deleted: anyhow::Result<Vec<()>> = deleted.into_iter().collect();
        let runs = done?;
        deleted.map(|_| runs)
    }

    fn run_in(
        &self,
        datanode: &Datanode,
        clients: &[ChunkClient],
        first: u64,
    ) -> anyhow::Result<Vec<Run>> {
        let of_server = |took: Took, cpu_ns: Option<u64>, all: &Took, all_cpu_ns: Option<u64>| {
            let per_chunk =
                |cpu_ns: Option<u64>| cpu_ns.map(|ns| ns as f64 / 1e3 / self.shape.chunks as f64);
            let (cpu_us, cpu_us_with_sync) = (per_chunk(cpu_ns), per_chunk(all_cpu_ns));
            Run { cpu_us, cpu_us_with_sync, ..Run::of(self.shape, &took, all) }
        };
        let (written, write_cpu) = datanode.measure(|| self.write(clients, first))?;
        let (_, commit_cpu) = datanode.measure(|| self.commit(clients, first))?;
        let until_durable = written.until_now();
        let both = write_cpu.zip(commit_cpu).map(|(write, commit)| write + commit);
        if self.workload == Workload::Writes {
            return Ok(vec![of_server(written, write_cpu, &until_durable, both)]);
        }
        let order = order_by_chance(self.shape.chunks);
        let mut runs = Vec::new();
        for order in [None, Some(order.as_slice())] {
            let (took, cpu) = datanode.measure(|| self.read(clients, first, order))?;
            runs.push(of_server(took.clone(), cpu, &took, cpu));
        }
        Ok(runs)
    }

    /// Writes all chunks. `first` is added to the ids of containers.
    fn write(&self, clients: &[ChunkClient], first: u64) -> anyhow::Result<Took> {
        self.by_blocks(clients, |client, description, numbers, latencies| {
            for number in numbers {
                let (id, offset) = self.place(first, *number);
                let chunk = description.of(*number, offset);
                let began = Instant::now();
                let written = client.write_chunk(id, chunk, &self.data);
                latencies.record(began.elapsed().as_nanos() as u64);
                written.map_err(|error| error.context(format!("chunk {}", chunk.name)))?;
                self.interrupt.check()?;
            }
            Ok(())
        })
    }

    /// Commits all blocks by PutBlock, each by the thread that wrote it.
    fn commit(&self, clients: &[ChunkClient], first: u64) -> anyhow::Result<Took> {
        self.by_blocks(clients, |client, description, numbers, _| {
            let (id, _) = self.place(first, numbers[0]);
            let chunk =
                |number: &u64| description.of(*number, self.place(first, *number).1).clone();
            let chunks = numbers.iter().map(chunk).collect();
            client.put_block(&block_of(id, chunks))?;
            self.interrupt.check()
        })
    }

    fn by_blocks(
        &self,
        clients: &[ChunkClient],
        each: impl Fn(&ChunkClient, &mut Description, &[u64], &mut Latencies) -> anyhow::Result<()>
        + Sync,
    ) -> anyhow::Result<Took> {
        let make_ready = |thread| (thread, self.description());
        together(self.shape.threads, make_ready, |(thread, mut description)| {
            let mut latencies = Latencies::default();
            for numbers in self.shape.blocks_in_turn(thread) {
                each(&clients[thread], &mut description, &numbers, &mut latencies)?;
            }
            Ok(latencies)
        })
    }

    /// Reads all chunks, in the order of the writes or in `order`.
    fn read(
        &self,
        clients: &[ChunkClient],
        first: u64,
        order: Option<&[u32]>,
    ) -> anyhow::Result<Took> {
        let make_ready = |thread| (thread, self.description());
        together(self.shape.threads, make_ready, |(thread, mut description)| {
            let mut latencies = Latencies::default();
            let mut out = Vec::with_capacity(self.data.len());
            for turn in (thread as u64..self.shape.chunks).step_by(self.shape.threads) {
                let number = order.map_or(turn, |order| u64::from(order[turn as usize]));
                let (id, offset) = self.place(first, number);
                let chunk = description.of(number, offset);
                out.clear();
                let began = Instant::now();
                let read = clients[thread].read_chunk(id, chunk, &mut out);
                latencies.record(began.elapsed().as_nanos() as u64);
                read.map_err(|error| error.context(format!("chunk {}", chunk.name)))?;
                let name = &chunk.name;
                anyhow::ensure!(out == self.data, "chunk {name} has other bytes than were written");
                self.interrupt.check()?;
            }
            Ok(latencies)
        })
    }

    /// The block and the offset of a chunk, in the containers of this run.
    fn place(&self, first: u64, number: u64) -> (BlockId, u64) {
        let (id, offset) = self.shape.place_in_turn(number);
        (BlockId { container_id: first + id.container_id, ..id }, offset)
    }

    fn description(&self) -> Description {
        Description::new(&prefix(), self.shape.chunk_bytes, self.checksum.clone())
    }
}

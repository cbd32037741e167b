//! The workload `chunk-open`: the cost of the chunk store's index. It measures how long a store
//! with many blocks takes to start from a checkpoint, the memory of each block, and the longest
//! time that a writer waits while a checkpoint is written.
//!
//! Another process fills the store, so that the process that opens it has nothing but the index in
//! its memory. Each block is written by one thread, in chunks of one size, in order. With several
//! threads the records of different blocks mix in the log.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use chunk::RealDisk;
use chunk::block::{BlockData, BlockId, ChunkInfo};
use chunk::container::ContainerSpec;
use chunk::store::{Durability, Store, StoreOptions, WriteMode};
use clap::Args;

use crate::measure::machine_info::MachineInfo;
use crate::measure::stats::median;
use crate::servers::folder::Folder;
use crate::servers::process::Processes;

/// Bytes of each chunk. They are few, because the index is measured and not the data.
const CHUNK_BYTES: usize = 64;

/// Blocks in each container.
const BLOCKS_PER_CONTAINER: u64 = 10_000;

/// Options of `quorate bench chunk-open`.
#[derive(Debug, Args)]
pub struct ChunkOpenArgs {
    /// Folder to write to, on the disk to measure. Each block takes some 4 KB
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Blocks
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    blocks: u64,
    /// Chunks of each block
    #[arg(long, value_name = "N", default_value_t = 16)]
    chunks: u64,
    /// Threads that write
    #[arg(long, value_name = "N", default_value_t = 4)]
    threads: u64,
    /// How often the store is opened
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: u32,
    /// Only fill the store in DIR; the benchmark starts a process of its own for that
    #[arg(long, hide = true)]
    fill: bool,
}

/// Runs `quorate bench chunk-open` and prints the results.
///
/// # Errors
/// The folder cannot be written, or a call of the store fails.
pub fn command(args: &ChunkOpenArgs) -> anyhow::Result<ExitCode> {
    if args.fill {
        fill(args)?;
        return Ok(ExitCode::SUCCESS);
    }
    println!("{}", MachineInfo::read());
    let folder = Folder::make(&args.dir, "chunk-open")?;
    let status = Command::new(std::env::current_exe()?)
        .args(["bench", "chunk-open", "--fill", "--dir"])
        .arg(folder.path())
        .args(["--blocks", &args.blocks.to_string(), "--chunks", &args.chunks.to_string()])
        .args(["--threads", &args.threads.to_string()])
        .status()
        .context("the store cannot be filled")?;
    anyhow::ensure!(status.success(), "the store was not filled: {status}");
    let mut seconds = Vec::new();
    for round in 0..args.rounds {
        let before = resident()?;
        let began = Instant::now();
        let store = open(folder.path())?;
        seconds.push(began.elapsed().as_secs_f64());
        anyhow::ensure!(store.damage().is_empty(), "{:?}", store.damage());
        if round == 0 {
            let bytes = resident()?.saturating_sub(before);
            println!("memory: {:.0} bytes a block", bytes as f64 / args.blocks as f64);
        }
    }
    let (blocks, chunks) = (args.blocks, args.chunks);
    println!("open: {:.2} s, {blocks} blocks of {chunks} chunks", median(&seconds));
    Ok(ExitCode::SUCCESS)
}

/// `VmRSS` of this process, bytes.
fn resident() -> anyhow::Result<u64> {
    let memory = Processes::of(&[std::process::id()]).memory();
    Ok(memory.context("there is no /proc")?.resident)
}

fn open(path: &Path) -> anyhow::Result<Store<RealDisk>> {
    Ok(Store::open(RealDisk::new(path)?, StoreOptions::default())?)
}

/// Fills a store, and then writes a checkpoint while another thread writes chunks.
fn fill(args: &ChunkOpenArgs) -> anyhow::Result<()> {
    let store = open(&args.dir)?;
    let began = Instant::now();
    for container_id in 0..args.blocks.div_ceil(BLOCKS_PER_CONTAINER) {
        store.create_container(1 + container_id, &ContainerSpec::default())?;
    }
    let next = AtomicU64::new(0);
    thread::scope(|scope| {
        let work = || -> anyhow::Result<()> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= args.blocks {
                    return Ok(());
                }
                write_block(&store, number, args.chunks)?;
            }
        };
        let threads: Vec<_> = (0..args.threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|it| it.join().expect("a panic has ended the process"))
    })?;
    store.sync()?;
    println!("filled in {:.1} s", began.elapsed().as_secs_f64());
    let (pause, took) = pause_of_a_checkpoint(&store)?;
    println!(
        "checkpoint: {:.2} s; the longest that a writer waited meanwhile: {:.2} ms",
        took.as_secs_f64(),
        pause.as_secs_f64() * 1e3
    );
    // With this checkpoint the next start reads all blocks from it.
    Ok(store.checkpoint()?)
}

fn write_block(store: &Store<RealDisk>, number: u64, chunks: u64) -> anyhow::Result<()> {
    let container_id = 1 + number / BLOCKS_PER_CONTAINER;
    let id = BlockId { container_id, local_id: number };
    let mut listed = Vec::new();
    for index in 0..chunks {
        let name = format!("{number}_chunk_{index}");
        let chunk = ChunkInfo::plain(name, index * CHUNK_BYTES as u64, CHUNK_BYTES as u64);
        store.write_chunk(id, &chunk, &[index as u8; CHUNK_BYTES], WriteMode::default())?;
        listed.push(chunk);
    }
    let block = BlockData {
        id,
        commit_sequence_id: 0,
        replica_index: None,
        flags: None,
        metadata: Vec::new(),
        chunks: listed,
    };
    store.put_block(&block, true, Durability::Buffered)?;
    Ok(())
}

/// Writes a checkpoint while another thread writes chunks. Returns the longest time that one chunk
/// took, and how long the checkpoint took.
fn pause_of_a_checkpoint(store: &Store<RealDisk>) -> anyhow::Result<(Duration, Duration)> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let writing = scope.spawn(|| -> anyhow::Result<Duration> {
            let mut longest = Duration::ZERO;
            let mut offset = 0;
            while !is_over.load(Ordering::Relaxed) {
                let id = BlockId { container_id: 1, local_id: u64::MAX >> 1 };
                let chunk = ChunkInfo::plain("more".to_string(), offset, CHUNK_BYTES as u64);
                let began = Instant::now();
                store.write_chunk(id, &chunk, &[7; CHUNK_BYTES], WriteMode::default())?;
                longest = longest.max(began.elapsed());
                // The chunks go to the same MiB over and over, because the index must not grow
                // meanwhile.
                offset = (offset + CHUNK_BYTES as u64) % (1 << 20);
            }
            Ok(longest)
        });
        let began = Instant::now();
        let written = store.checkpoint();
        let took = began.elapsed();
        is_over.store(true, Ordering::Relaxed);
        let longest = writing.join().expect("a panic has ended the process")?;
        written?;
        Ok((longest, took))
    })
}

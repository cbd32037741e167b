//! The work of Ozone's `cmdw`: how many chunks are written or read, by how many threads, and where
//! each chunk goes; and how the cost is measured.
//!
//! Threads take the numbers of chunks from one counter. Each thread writes its own sequence of
//! blocks, chunk after chunk, into its own container (`ChunkManagerDiskWrite`, Ozone 2.2.0). All
//! chunks have the same bytes. Between two chunks there is only the counter, the name and two looks
//! at the clock: no lock and no allocation.
//!
//! The *place* of a chunk is its block and its offset in the block.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use chunk::block::{BlockData, BlockId, ChunkInfo};
use chunk::checksum::ChecksumData;
use chunk::limits::CHUNK_BYTES_MAX;

use crate::measure::stats::Latencies;
use crate::random::Random;
use crate::servers::interrupt::Interrupt;
use crate::servers::process::process_cpu_ns;

/// The size of a chunk. As an option: `1000KiB`, `4MiB`, or `100` (bytes).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkBytes(pub u64);

impl FromStr for ChunkBytes {
    type Err = String;

    fn from_str(text: &str) -> Result<ChunkBytes, String> {
        let at = text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(at);
        let unit_bytes = match unit {
            "" | "B" => 1,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            _ => return Err(format!("{text:?}: a size is a number and B, KiB or MiB")),
        };
        let number: u64 = digits.parse().map_err(|_| format!("{text:?} has no number"))?;
        match number.checked_mul(unit_bytes) {
            Some(bytes) if (1..=CHUNK_BYTES_MAX).contains(&bytes) => Ok(ChunkBytes(bytes)),
            _ => Err(format!("{text}: a chunk has 1 to {CHUNK_BYTES_MAX} bytes")),
        }
    }
}

impl fmt::Display for ChunkBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes.is_multiple_of(1 << 10) => write!(f, "{} KiB", bytes >> 10),
            bytes => write!(f, "{bytes} bytes"),
        }
    }
}

/// The work of a run: the size and the number of the chunks, the threads that write them, and the
/// containers and blocks that they go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Bytes of each chunk.
    pub chunk_bytes: ChunkBytes,
    /// Chunks of all threads together.
    pub chunks: u64,
    /// Threads that work at the same time.
    pub threads: usize,
    /// The number of containers, at most as many as threads. Threads that share a container write
    /// different blocks.
    pub containers: usize,
    /// Chunks in each block.
    pub chunks_per_block: u64,
}

impl Shape {
    /// Bytes of all chunks together.
    pub fn bytes(&self) -> u64 {
        self.chunk_bytes.0 * self.chunks
    }

    /// The most blocks that a run may have: each thread may leave its last block partly filled.
    pub fn blocks_max(&self) -> u64 {
        self.chunks.div_ceil(self.chunks_per_block) + self.threads as u64
    }

    /// The ids of the run's containers.
    pub fn container_ids(&self) -> impl Iterator<Item = u64> + use<> {
        1..=self.containers as u64
    }

    /// How many threads share this thread's container, and the index of this thread among them.
    fn sharing(&self, thread: usize) -> (u64, u64) {
        let container = thread % self.containers;
        let sharers = (self.threads - container).div_ceil(self.containers);
        (sharers as u64, (thread / self.containers) as u64)
    }

    /// The place of chunk `number` if chunks are dealt to the threads in turn: thread `number %
    /// threads` writes it.
    pub fn place_in_turn(&self, number: u64) -> (BlockId, u64) {
        let threads = self.threads as u64;
        let (thread, count) = ((number % threads) as usize, number / threads);
        let (sharers, place) = self.sharing(thread);
        let container_id = (thread % self.containers) as u64 + 1;
        let local_id = place + count / self.chunks_per_block * sharers;
        let offset = count % self.chunks_per_block * self.chunk_bytes.0;
        (BlockId { container_id, local_id }, offset)
    }

    /// For each block of a thread, the numbers of its chunks, if chunks are dealt to the threads in
    /// turn.
    pub fn blocks_in_turn(&self, thread: usize) -> impl Iterator<Item = Vec<u64>> + use<> {
        let (threads, chunks, count) = (self.threads, self.chunks, self.chunks_per_block as usize);
        let mut numbers = (thread as u64..chunks).step_by(threads);
        std::iter::from_fn(move || {
            let block: Vec<u64> = numbers.by_ref().take(count).collect();
            (!block.is_empty()).then_some(block)
        })
    }

    /// The places of a thread's chunks, one after the other, without end.
    pub fn places(&self, thread: usize) -> Places {
        let (sharers, _) = self.sharing(thread);
        Places {
            id: self.place_in_turn(thread as u64).0,
            sharers,
            chunk_bytes: self.chunk_bytes.0,
            offset: 0,
            block_bytes: self.chunk_bytes.0 * self.chunks_per_block,
        }
    }
}

/// Iterates over the places of one thread's chunks. If `n` threads share a container, each has
/// every n-th block of it.
#[derive(Clone, Debug)]
pub struct Places {
    id: BlockId,
    sharers: u64,
    chunk_bytes: u64,
    offset: u64,
    block_bytes: u64,
}

impl Iterator for Places {
    type Item = (BlockId, u64);

    fn next(&mut self) -> Option<(BlockId, u64)> {
        if self.offset == self.block_bytes {
            self.offset = 0;
            self.id.local_id += self.sharers;
        }
        let place = (self.id, self.offset);
        self.offset += self.chunk_bytes;
        Some(place)
    }
}

/// The bytes of every chunk: random, but the same in each run.
pub fn chunk_data(bytes: ChunkBytes) -> Vec<u8> {
    let mut random = Random::new(bytes.0);
    let mut data = Vec::with_capacity(bytes.0 as usize + 8);
    while data.len() < bytes.0 as usize {
        data.extend_from_slice(&random.below(u64::MAX).to_le_bytes());
    }
    data.truncate(bytes.0 as usize);
    data
}

/// The record that PutBlock commits for a block with these chunks.
pub fn block_of(id: BlockId, chunks: Vec<ChunkInfo>) -> BlockData {
    let (replica_index, flags, metadata) = (None, None, Vec::new());
    BlockData { id, commit_sequence_id: 0, replica_index, flags, metadata, chunks }
}

/// The description of a chunk. It is reused: only the name and the offset change from chunk to
/// chunk.
#[derive(Debug)]
pub struct Description {
    chunk: ChunkInfo,
    prefix_bytes: usize,
}

impl Description {
    /// A description for chunks of this size with these checksums. Names begin with `prefix`.
    pub fn new(prefix: &str, bytes: ChunkBytes, checksum: ChecksumData) -> Description {
        let name = format!("{prefix}_chunk_");
        let prefix_bytes = name.len();
        let chunk = ChunkInfo { checksum, ..ChunkInfo::plain(name, 0, bytes.0) };
        Description { chunk, prefix_bytes }
    }

    /// Sets the name and the offset to those of chunk `number` at `offset`, and returns the
    /// description.
    pub fn of(&mut self, number: u64, offset: u64) -> &ChunkInfo {
        self.chunk.name.truncate(self.prefix_bytes);
        push_number(&mut self.chunk.name, number);
        self.chunk.offset = offset;
        &self.chunk
    }
}

/// Appends a number in decimal. Takes a third of the time of `write!`.
fn push_number(text: &mut String, number: u64) {
    let mut digits = [0; 20];
    let (mut at, mut rest) = (digits.len(), number);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    text.extend(digits[at..].iter().map(|digit| char::from(*digit)));
}

/// The cost of some work.
#[derive(Clone, Debug)]
pub struct Took {
    /// Time from the common start until the last thread was done, ns.
    pub elapsed_ns: u64,
    /// CPU time of this process, user and system, ns.
    pub cpu_ns: u64,
    /// The latency of each operation; may be empty.
    pub latencies: Latencies,
    /// The clock that measured this cost. It still runs.
    pub clock: Clock,
}

impl Took {
    /// The cost from the start of `clock` until now, without latencies.
    pub fn until_now(&self) -> Took {
        self.clock.stop(Latencies::default())
    }
}

/// Measures time and CPU of this process from its start.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    began: Instant,
    cpu_ns: u64,
}

impl Clock {
    /// Starts the clock.
    pub fn start() -> Clock {
        Clock { cpu_ns: process_cpu_ns(), began: Instant::now() }
    }

    /// The cost from the start until now. The clock goes on.
    pub fn stop(&self, latencies: Latencies) -> Took {
        let elapsed_ns = self.began.elapsed().as_nanos() as u64;
        Took { elapsed_ns, cpu_ns: process_cpu_ns() - self.cpu_ns, latencies, clock: *self }
    }
}

/// Runs `work` on `threads` threads. Each first calls `make_ready` with its number; when all are
/// ready they start together, each with what it has made.
///
/// # Errors
/// The first error of a thread, or a thread cannot be started. The other threads have ended by
/// then.
pub fn together<T>(
    threads: usize,
    make_ready: impl Fn(usize) -> T + Sync,
    work: impl Fn(T) -> anyhow::Result<Latencies> + Sync,
) -> anyhow::Result<Took> {
    let gate = Gate::default();
    let body = &|number: usize| {
        let ready = make_ready(number);
        match gate.wait() {
            true => work(ready),
            false => Ok(Latencies::default()),
        }
    };
    thread::scope(|scope| {
        let mut started = Vec::new();
        let mut failed = None;
        for number in 0..threads {
            let builder = thread::Builder::new().name(format!("chunks-{number}"));
            match builder.spawn_scoped(scope, move || body(number)) {
                Ok(handle) => started.push(handle),
                Err(error) => failed = Some(anyhow::Error::new(error).context("a thread")),
            }
        }
        gate.await_ready(started.len());
        let clock = Clock::start();
        gate.open(failed.is_none());
        let results: Vec<_> = started.into_iter().map(thread::ScopedJoinHandle::join).collect();
        let mut took = clock.stop(Latencies::default());
        for result in results {
            let latencies = result.map_err(|_| anyhow::anyhow!("a thread panicked"))??;
            took.latencies.add(&latencies);
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(took),
        }
    })
}

/// A gate where threads wait until it opens.
#[derive(Debug, Default)]
struct Gate {
    /// How many threads have come to the gate; and whether they may go on, which is `None` until
    /// the gate opens.
    state: Mutex<(usize, Option<bool>)>,
    changed: Condvar,
}

impl Gate {
    fn wait(&self) -> bool {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.0 += 1;
        self.changed.notify_all();
        let is_shut = |state: &mut (usize, Option<bool>)| state.1.is_none();
        let state = self.changed.wait_while(state, is_shut);
        state.unwrap_or_else(PoisonError::into_inner).1 == Some(true)
    }

    fn await_ready(&self, count: usize) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.changed.wait_while(state, |state| state.0 < count));
    }

    fn open(&self, may_go: bool) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).1 = Some(may_go);
        self.changed.notify_all();
    }
}

/// Writes all chunks of a shape by all its threads. `write` gets the block's id, the description of
/// the chunk, and its number.
///
/// # Errors
/// The first error of `write`, or a signal asked the run to end.
pub fn write_all<E: Into<anyhow::Error>>(
    shape: &Shape,
    prefix: &str,
    checksum: &ChecksumData,
    interrupt: &Interrupt,
    write: impl Fn(BlockId, &ChunkInfo, u64) -> Result<(), E> + Sync,
) -> anyhow::Result<Took> {
    let next = AtomicU64::new(0);
    let make_ready = |thread| {
        let description = Description::new(prefix, shape.chunk_bytes, checksum.clone());
        (shape.places(thread), description, Latencies::default())
    };
    together(shape.threads, make_ready, |(places, mut description, mut latencies)| {
        for (id, offset) in places {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= shape.chunks {
                break;
            }
            let chunk = description.of(number, offset);
            let began = Instant::now();
            let written = write(id, chunk, number);
            latencies.record(began.elapsed().as_nanos() as u64);
            if let Err(error) = written {
                // Makes the other threads stop at their next chunk.
                next.store(shape.chunks, Ordering::Relaxed);
                let name = &chunk.name;
                return Err(error.into().context(format!("chunk {name} cannot be written")));
            }
            interrupt.check()?;
        }
        Ok(latencies)
    })
}

#[cfg(test)]
mod tests;

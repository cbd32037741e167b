//! Measures the limits that the disk and the system set, without a store: in the same run as the
//! store, plain system calls write as many bytes. If a figure of the store is near a limit, a
//! better store could hardly be faster with the same way of writing.

mod gather;
mod group;

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use rustix::fs::{FallocateFlags, OFlags, fallocate};

use crate::limits::{DIRECT_ALIGN_BYTES, DIRECT_WRITERS, STREAM_BLOCK_BYTES};
use crate::measure::stats::Latencies;
use crate::servers::interrupt::Interrupt;
use crate::workloads::chunk::cmdw::limit::gather::Gatherer;
use crate::workloads::chunk::cmdw::limit::group::{AlignedMemory, DirectGroup, Group};
use crate::workloads::chunk::cmdw::load::{Shape, Took, together};

/// One way to write all bytes of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// One thread writes one file, in blocks of 1 MiB through the page cache.
    Sequential,
    /// Several threads write one file with reserved space, in aligned blocks of 1 MiB around the
    /// page cache (`O_DIRECT`).
    Direct,
    /// Each thread appends its chunks to its own growing file, through the page cache.
    Log,
    /// Each thread gathers its chunks in memory, in blocks of 256 KiB. It writes full blocks around
    /// the page cache to one file with reserved space.
    Gathered,
    /// Like `Log`, but with an fdatasync after each chunk.
    LogSync,
    /// All threads append to one growing file. One of the waiting threads calls fdatasync for all
    /// of them (group commit).
    LogGroup,
    /// All threads append to one file that was filled with zeros, and so is overwritten around the
    /// page cache. One of the waiting threads writes and syncs for all of them. No sync has to make
    /// a new length or block allocation durable.
    DirectGroup,
}

impl Limit {
    /// The limits for chunks that are acknowledged before they are durable.
    pub const BUFFERED: [Limit; 4] =
        [Limit::Sequential, Limit::Direct, Limit::Log, Limit::Gathered];
    /// The limits for chunks that are durable when acknowledged.
    pub const DURABLE: [Limit; 3] = [Limit::LogSync, Limit::LogGroup, Limit::DirectGroup];

    /// The name in tables and key=value lines.
    pub fn name(self) -> &'static str {
        match self {
            Limit::Sequential => "sequential",
            Limit::Direct => "direct",
            Limit::Log => "log",
            Limit::Gathered => "gathered",
            Limit::LogSync => "logsync",
            Limit::LogGroup => "loggroup",
            Limit::DirectGroup => "directgroup",
        }
    }

    /// Why this is not really a limit; `None` if it is one.
    pub fn doubt(self) -> Option<&'static str> {
        match self {
            Limit::LogSync | Limit::LogGroup => Some(
                "no limit: its file grows, so that each sync makes a length durable, too; that is \
                 directgroup",
            ),
            _ => None,
        }
    }

    /// Whether each of its operations is one chunk, so that its latencies can be compared.
    pub fn is_by_chunk(self) -> bool {
        !matches!(self, Limit::Sequential | Limit::Direct)
    }

    /// Writes all bytes of a shape into files in `folder`. Returns the cost and the number of
    /// fdatasyncs; `None` if the file system does not support such writes.
    ///
    /// # Errors
    /// A file cannot be made, written or synced, or a signal asked the run to end.
    pub fn run(
        self,
        folder: &Path,
        shape: &Shape,
        data: &[u8],
        interrupt: &Interrupt,
    ) -> anyhow::Result<Option<(Took, u64)>> {
        let path = folder.join(self.name());
        let own_file = |thread: usize| File::create_new(path.with_extension(thread.to_string()));
        let syncs = AtomicU64::new(0);
        let took = match self {
            Limit::Sequential => sequential(&path, shape, data, interrupt)?,
            Limit::Direct => match direct(&path, shape, data, interrupt)? {
                Some(took) => took,
                None => return Ok(None),
            },
            Limit::Log => by_chunk(shape, interrupt, own_file, |file, offset| {
                file.write_all_at(data, offset)
            })?,
            Limit::Gathered => match gathered(&path, shape, data, interrupt)? {
                Some(took) => took,
                None => return Ok(None),
            },
            Limit::LogSync => by_chunk(shape, interrupt, own_file, |file, offset| {
                file.write_all_at(data, offset)?;
                syncs.fetch_add(1, Ordering::Relaxed);
                file.sync_data()
            })?,
            Limit::LogGroup => {
                let group = Group::of(File::create_new(&path)?);
                let took = by_chunk(shape, interrupt, |_| Ok(()), |(), _| group.append(data))?;
                syncs.store(group.syncs(), Ordering::Relaxed);
                took
            }
            Limit::DirectGroup => {
                let Some(file) = zeroed(&path, shape.bytes(), interrupt)? else { return Ok(None) };
                let group = DirectGroup::of(file, shape);
                let took = by_chunk(shape, interrupt, |_| Ok(()), |(), _| group.append(data))?;
                syncs.store(group.syncs(), Ordering::Relaxed);
                took
            }
        };
        Ok(Some((took, syncs.into_inner())))
    }
}

/// The bytes of one block, which repeat the bytes of a chunk.
fn block_of(data: &[u8]) -> impl Iterator<Item = u8> {
    data.iter().copied().cycle().take(STREAM_BLOCK_BYTES as usize)
}

fn sequential(
    path: &Path,
    shape: &Shape,
    data: &[u8],
    interrupt: &Interrupt,
) -> anyhow::Result<Took> {
    let file = File::create_new(path)?;
    let block: Vec<u8> = block_of(data).collect();
    together(
        1,
        |_| (),
        |()| {
            let mut offset = 0;
            while offset < shape.bytes() {
                let count = STREAM_BLOCK_BYTES.min(shape.bytes() - offset);
                file.write_all_at(&block[..count as usize], offset)?;
                offset += count;
                interrupt.check()?;
            }
            Ok(Latencies::default())
        },
    )
}

fn direct(
    path: &Path,
    shape: &Shape,
    data: &[u8],
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Took>> {
    let bytes = shape.bytes().next_multiple_of(DIRECT_ALIGN_BYTES);
    let Some(file) = direct_file(path, bytes)? else { return Ok(None) };
    let mut memory = AlignedMemory::zeroed(STREAM_BLOCK_BYTES as usize);
    memory.bytes_mut().iter_mut().zip(block_of(data)).for_each(|(to, from)| *to = from);
    let next = AtomicU64::new(0);
    let took = together(
        DIRECT_WRITERS,
        |_| (),
        |()| {
            loop {
                let offset = next.fetch_add(STREAM_BLOCK_BYTES, Ordering::Relaxed);
                if offset >= bytes {
                    return Ok(Latencies::default());
                }
                let count = STREAM_BLOCK_BYTES.min(bytes - offset);
                file.write_all_at(&memory.bytes()[..count as usize], offset)?;
                interrupt.check()?;
            }
        },
    )?;
    Ok(Some(took))
}

fn gathered(
    path: &Path,
    shape: &Shape,
    data: &[u8],
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Took>> {
    let Some(file) = direct_file(path, gather::file_bytes(shape))? else { return Ok(None) };
    let (next, end) = (AtomicU64::new(0), AtomicU64::new(0));
    let make_ready = |_| (Gatherer::of(&file, &end), Latencies::default());
    let took = together(shape.threads, make_ready, |(mut gatherer, mut latencies)| {
        while next.fetch_add(1, Ordering::Relaxed) < shape.chunks {
            let began = Instant::now();
            gatherer.append(data)?;
            latencies.record(began.elapsed().as_nanos() as u64);
            interrupt.check()?;
        }
        gatherer.write_out()?;
        Ok(latencies)
    })?;
    Ok(Some(took))
}

/// A new file for writes around the page cache, with `bytes` of reserved space if the file system
/// can reserve it. `None` if the file system does not support such writes.
fn direct_file(path: &Path, bytes: u64) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).custom_flags(OFlags::DIRECT.bits() as i32);
    let file = match options.open(path) {
        Err(error) if is_refusal(&error) => return Ok(None),
        other => other?,
    };
    // Some file systems refuse only the first write, not the open.
    let block = AlignedMemory::zeroed(DIRECT_ALIGN_BYTES as usize);
    match file.write_all_at(block.bytes(), 0) {
        Err(error) if is_refusal(&error) => return Ok(None),
        other => other?,
    }
    let _ = fallocate(&file, FallocateFlags::empty(), 0, bytes);
    Ok(Some(file))
}

/// A file as from [`direct_file`], filled with zeros and durable. Without zeros, the first sync
/// after a write to a reserved block would also have to change the file's metadata.
fn zeroed(path: &Path, bytes: u64, interrupt: &Interrupt) -> anyhow::Result<Option<File>> {
    let bytes = bytes.next_multiple_of(DIRECT_ALIGN_BYTES);
    let Some(file) = direct_file(path, bytes)? else { return Ok(None) };
    let zeros = AlignedMemory::zeroed(STREAM_BLOCK_BYTES as usize);
    for offset in (0..bytes).step_by(STREAM_BLOCK_BYTES as usize) {
        let count = STREAM_BLOCK_BYTES.min(bytes - offset);
        file.write_all_at(&zeros.bytes()[..count as usize], offset)?;
        interrupt.check()?;
    }
    file.sync_all()?;
    Ok(Some(file))
}

fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}

/// Lets all threads append their chunks. `open` makes something for each thread, such as a file.
/// `append` gets it, and the number of bytes that the thread has appended before.
fn by_chunk<T>(
    shape: &Shape,
    interrupt: &Interrupt,
    open: impl Fn(usize) -> io::Result<T> + Sync,
    append: impl Fn(&T, u64) -> io::Result<()> + Sync,
) -> anyhow::Result<Took> {
    let next = AtomicU64::new(0);
    let make_ready = |thread: usize| (open(thread), Latencies::default());
    together(shape.threads, make_ready, |(opened, mut latencies)| {
        let (opened, mut offset) = (opened?, 0);
        while next.fetch_add(1, Ordering::Relaxed) < shape.chunks {
            let began = Instant::now();
            append(&opened, offset)?;
            latencies.record(began.elapsed().as_nanos() as u64);
            offset += shape.chunk_bytes.0;
            interrupt.check()?;
        }
        Ok(latencies)
    })
}

#[cfg(test)]
mod tests;

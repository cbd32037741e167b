//! Gathers the chunks of each thread in a block of memory, and writes each full block to a file
//! around the page cache. There is no store. The rate is an upper bound for a log that acknowledges
//! a chunk while the chunk is only in memory.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::limits::{DIRECT_ALIGN_BYTES, GATHERED_BLOCK_BYTES};
use crate::workloads::chunk::cmdw::limit::group::AlignedMemory;
use crate::workloads::chunk::cmdw::load::Shape;

/// The size of the file that the gatherers of all threads fill, bytes. The last block of each
/// thread may be partly filled.
pub fn file_bytes(shape: &Shape) -> u64 {
    shape.bytes().next_multiple_of(GATHERED_BLOCK_BYTES)
        + shape.threads as u64 * GATHERED_BLOCK_BYTES
}

/// Copies the chunks of one thread one after the other into a block of memory. Writes each full
/// block around the page cache.
#[derive(Debug)]
pub struct Gatherer<'a> {
    file: &'a File,
    /// The offset in the file for the next block of any thread.
    end: &'a AtomicU64,
    block: AlignedMemory,
    filled: usize,
}

impl<'a> Gatherer<'a> {
    /// A gatherer that writes to `file`, which is open for direct writes. All threads share `end`.
    pub fn of(file: &'a File, end: &'a AtomicU64) -> Gatherer<'a> {
        let mut block = AlignedMemory::zeroed(GATHERED_BLOCK_BYTES as usize);
        // The system provides memory pages at the first write to them, which must not be measured.
        block.bytes_mut().fill(1);
        Gatherer { file, end, block, filled: 0 }
    }

    /// Appends a chunk. Its last bytes may stay in memory only.
    ///
    /// # Errors
    /// A write failed.
    pub fn append(&mut self, data: &[u8]) -> io::Result<()> {
        let mut rest = data;
        while !rest.is_empty() {
            let room = &mut self.block.bytes_mut()[self.filled..];
            let (piece, behind) = rest.split_at(rest.len().min(room.len()));
            room[..piece.len()].copy_from_slice(piece);
            self.filled += piece.len();
            rest = behind;
            if self.filled == self.block.bytes().len() {
                self.write_out()?;
            }
        }
        Ok(())
    }

    /// Writes the bytes that are still in memory, padded with zeros to whole disk blocks.
    ///
    /// # Errors
    /// The write failed.
    pub fn write_out(&mut self) -> io::Result<()> {
        if self.filled == 0 {
            return Ok(());
        }
        let bytes = self.filled.next_multiple_of(DIRECT_ALIGN_BYTES as usize);
        self.block.bytes_mut()[self.filled..bytes].fill(0);
        self.filled = 0;
        let offset = self.end.fetch_add(GATHERED_BLOCK_BYTES, Ordering::Relaxed);
        self.file.write_all_at(&self.block.bytes()[..bytes], offset)
    }
}

#[cfg(test)]
mod tests;

//! Makes large writes to the files of blocks and chunks: around the page cache, through a few
//! buffers that all threads share.
//!
//! Why not through the page cache: copying 1000 KiB into it takes twice the CPU time of copying
//! them to memory that is reused, since the kernel must find each page first. And the kernel would
//! write the dirty pages of many files back in no useful order.

use std::io;

use parking_lot::{Condvar, Mutex};
use storage::disk::{AlignedBuffer, Disk};

use crate::limits::{BLOCK_BYTES, BUFFER_BYTES, BUFFERS_MAX, FILE_CACHED_BYTES_MAX};

/// The shared buffers: at most [`BUFFERS_MAX`], each made when it is first needed. A thread that
/// finds no free buffer waits for one.
#[derive(Debug, Default)]
pub struct DirectWrites {
    state: Mutex<State>,
    came_back: Condvar,
}

#[derive(Debug, Default)]
struct State {
    free: Vec<AlignedBuffer>,
    count: usize,
}

impl DirectWrites {
    /// Writes all of `data` at `offset` of a file. If the data are large and `offset` is the start
    /// of a disk block, their whole disk blocks go around the page cache; everything else goes
    /// through it.
    pub fn write<D: Disk>(
        &self,
        disk: &D,
        file: &D::File,
        offset: u64,
        data: &[u8],
    ) -> io::Result<()> {
        let block_bytes = BLOCK_BYTES as usize;
        let is_aligned = offset.is_multiple_of(block_bytes as u64);
        let blocks = if is_aligned { data.len() - data.len() % block_bytes } else { 0 };
        if blocks <= FILE_CACHED_BYTES_MAX {
            return disk.write_at(file, offset, data);
        }
        let (blocks, rest) = data.split_at(blocks);
        let mut buffer = self.take();
        let mut at = offset;
        let mut copy = |piece: &[u8]| {
            let bytes = &mut buffer.bytes_mut()[..piece.len()];
            bytes.copy_from_slice(piece);
            disk.write_blocks_at(file, at, bytes)?;
            at += piece.len() as u64;
            Ok(())
        };
        let written = blocks.chunks(BUFFER_BYTES).try_for_each(&mut copy);
        self.give_back(buffer);
        match rest.is_empty() {
            true => written,
            false => written.and_then(|()| disk.write_at(file, at, rest)),
        }
    }

    fn take(&self) -> AlignedBuffer {
        let mut state = self.state.lock();
        loop {
            if let Some(buffer) = state.free.pop() {
                return buffer;
            }
            if state.count < BUFFERS_MAX {
                state.count += 1;
                return AlignedBuffer::new(BUFFER_BYTES);
            }
            self.came_back.wait(&mut state);
        }
    }

    fn give_back(&self, buffer: AlignedBuffer) {
        self.state.lock().free.push(buffer);
        self.came_back.notify_one();
    }
}

#[cfg(test)]
mod tests;

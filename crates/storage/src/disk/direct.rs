//! Direct writes (O_DIRECT, around the page cache) to files that are overwritten in place.
//!
//! The log is synced after every write. Through the page cache, such a write costs a copy, marking
//! and finding a dirty page, and a write to the device. A direct write costs only the last.
//!
//! The device takes whole blocks at aligned offsets. So [`DirectWriter`] keeps a piece of the file
//! in memory. A write changes the piece, and then the blocks that it touched are written. The first
//! and the last of these blocks also hold bytes outside the write, which may be durable already;
//! they are written again, unchanged. If a power loss tears a write, a sector may be old or new,
//! and bytes that are equal in both are intact either way. The page cache writes whole pages and
//! relies on this, too.
//!
//! A caller whose data are already whole, aligned blocks in memory uses [`DirectBlocks`], which
//! keeps and copies nothing.
//!
//! Readers use other handles, through the page cache. A direct write first writes back dirty pages
//! of its range, and then drops the pages that it replaced.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

use crate::limits::{DIRECT_BLOCK_BYTES, DIRECT_PIECE_BYTES};

/// A handle for direct writes within the length that the file had when it was opened. Nobody else
/// may write to the file meanwhile.
#[derive(Debug)]
pub(super) struct DirectWriter {
    file: File,
    /// Length of the file in bytes, a multiple of the block size.
    length: u64,
    piece: AlignedBuffer,
    /// The offset in the file of the piece in the buffer; `None` if the buffer holds no valid
    /// piece.
    piece_start: Option<u64>,
}

impl DirectWriter {
    /// Opens the file at `path`, which is `length` bytes long. `None` if the file system refuses
    /// direct writes, or if `length` is no multiple of [`DIRECT_BLOCK_BYTES`].
    pub fn open(path: &Path, length: u64) -> io::Result<Option<DirectWriter>> {
        if !length.is_multiple_of(DIRECT_BLOCK_BYTES) {
            return Ok(None);
        }
        let Some(file) = open_direct(path, OFlags::NOFOLLOW)? else { return Ok(None) };
        let piece = AlignedBuffer::new(length.min(DIRECT_PIECE_BYTES) as usize);
        Ok(Some(DirectWriter { file, length, piece, piece_start: None }))
    }

    /// Writes all of `bytes` at `offset`. The caller must still sync, for the device has a cache,
    /// too. Reads the surrounding bytes through `reader`, an ordinary handle of the file. A write
    /// beyond the file's length is refused, too. After a refusal ([`is_refusal`]) the caller writes
    /// everything again through the page cache, since a part may have been written.
    pub fn write_at(&mut self, reader: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.length) {
            return Err(io::Error::from(io::ErrorKind::InvalidInput));
        }
        let (mut offset, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let skip = offset % DIRECT_PIECE_BYTES;
            let piece_end = self.length.min(offset - skip + DIRECT_PIECE_BYTES);
            let count = rest.len().min((piece_end - offset) as usize);
            let (now, later) = rest.split_at(count);
            self.write_in_piece(reader, offset, now)?;
            offset += count as u64;
            rest = later;
        }
        Ok(())
    }

    fn write_in_piece(&mut self, reader: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let skip = offset % DIRECT_PIECE_BYTES;
        let start = offset - skip;
        // `take`: after a failed read or write the content of the piece is unknown.
        let is_held = self.piece_start.take() == Some(start);
        let length = DIRECT_PIECE_BYTES.min(self.length - start);
        let piece = &mut self.piece.bytes_mut()[..length as usize];
        if !is_held && bytes.len() < piece.len() {
            reader.read_exact_at(piece, start)?;
        }
        let end = skip + bytes.len() as u64;
        piece[skip as usize..end as usize].copy_from_slice(bytes);
        let first = skip - skip % DIRECT_BLOCK_BYTES;
        let blocks = &piece[first as usize..end.next_multiple_of(DIRECT_BLOCK_BYTES) as usize];
        self.file.write_all_at(blocks, start + first)?;
        self.piece_start = Some(start);
        Ok(())
    }
}

/// Opens a file for direct writes. `None` if the file system does not support them.
fn open_direct(path: &Path, flags: OFlags) -> io::Result<Option<File>> {
    let flags = (OFlags::DIRECT | flags).bits() as i32;
    match OpenOptions::new().write(true).custom_flags(flags).open(path) {
        Err(error) if is_refusal(&error) => Ok(None),
        other => other.map(Some),
    }
}

/// A handle for direct writes of whole blocks. Several threads may write at the same time.
#[derive(Debug)]
pub(super) struct DirectBlocks {
    file: File,
}

impl DirectBlocks {
    /// Opens another handle of an open file, even if the file was renamed. `None` if the file
    /// system refuses, or if `/proc/self/fd` is missing.
    pub fn open(file: &File) -> io::Result<Option<DirectBlocks>> {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        match open_direct(Path::new(&path), OFlags::empty()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => Ok(other?.map(|file| DirectBlocks { file })),
        }
    }

    /// Writes all of `bytes` at `offset`. The caller must still sync, for the device has a cache,
    /// too. Refuses ([`is_refusal`]) bytes that are not whole, aligned blocks: these must go
    /// through the page cache.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let place = bytes.as_ptr() as u64;
        let is_aligned = [offset, bytes.len() as u64, place].map(|it| it % DIRECT_BLOCK_BYTES);
        match is_aligned == [0; 3] {
            true => self.file.write_all_at(bytes, offset),
            false => Err(io::Error::from(io::ErrorKind::InvalidInput)),
        }
    }
}

/// Whether `error` says that the file system does not support direct writes, or not the write that
/// was tried. A file system may refuse when the file is opened, or only at a write.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported)
}

/// Memory that starts at a multiple of [`DIRECT_BLOCK_BYTES`].
#[derive(Debug)]
pub struct AlignedBuffer {
    memory: Box<[u8]>,
    skip: usize,
    length: usize,
}

impl AlignedBuffer {
    /// A buffer of `length` bytes, all zero.
    pub fn new(length: usize) -> AlignedBuffer {
        let block_bytes = DIRECT_BLOCK_BYTES as usize;
        let memory = vec![0; length + block_bytes].into_boxed_slice();
        let skip = memory.as_ptr().align_offset(block_bytes);
        AlignedBuffer { memory, skip, length }
    }

    /// The bytes of the buffer.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.skip..self.skip + self.length]
    }

    /// The bytes of the buffer, to change.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.skip..self.skip + self.length]
    }
}

#[cfg(test)]
mod tests;

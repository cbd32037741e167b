//! Divides the range of a ReadBlock into answers.
//!
//! A reader verifies each answer with the checksums in it. So an answer has whole checksum pieces
//! of one chunk: it begins and ends at the borders of pieces. (Ozone 2.2 assumes that every chunk
//! is as long as the first one, and sends wrong checksums if not.)

use crate::block::{BlockData, ChunkInfo};
use crate::checksum::{ChecksumData, ChecksumType};

use super::refusal::Refusal;

/// The data of one answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// The range to read: the chunk's name, and bytes of the block.
    pub(super) chunk: ChunkInfo,
    /// The checksums of exactly these bytes.
    pub(super) checksum: ChecksumData,
}

/// The answers that are left. Each is made only when it is asked for.
#[derive(Debug)]
pub(super) struct Parts {
    block: BlockData,
    /// The first byte to read, and the one after the last.
    start: u64,
    end: u64,
    /// Most bytes of one answer, unless one checksum covers more.
    answer_bytes: u64,
    /// The chunk of the next answer, as an index into the block's chunks.
    chunk_index: usize,
    /// Bytes of that chunk that earlier answers had; `None` if the chunk was not begun.
    given: Option<u64>,
}

impl Parts {
    /// The answers for bytes `start` to `end` of the block.
    pub(super) fn new(block: BlockData, start: u64, end: u64, answer_bytes: u64) -> Parts {
        Parts { block, start, end, answer_bytes, chunk_index: 0, given: None }
    }

    /// Bytes of data in the next answer; `None` if there is none.
    pub(super) fn next_bytes(&mut self) -> Option<u64> {
        self.next_range().map(|(from, to)| to - from)
    }

    /// Where the next answer begins and ends in its chunk. Moves on to that chunk.
    fn next_range(&mut self) -> Option<(u64, u64)> {
        let (start, end) = (self.start, self.end);
        while let Some(chunk) = self.block.chunks.get(self.chunk_index) {
            if chunk.end() > start && chunk.offset < end {
                let unit = unit(&chunk.checksum);
                let first = start.saturating_sub(chunk.offset) / unit * unit;
                let from = self.given.unwrap_or(first);
                let wanted = end.min(chunk.end()) - chunk.offset;
                let last = wanted.checked_next_multiple_of(unit).unwrap_or(u64::MAX);
                let last = last.min(chunk.length);
                if from < last {
                    let step = (self.answer_bytes / unit).max(1) * unit;
                    return Some((from, last.min(from.saturating_add(step))));
                }
            }
            self.chunk_index += 1;
            self.given = None;
        }
        None
    }
}

impl Iterator for Parts {
    type Item = Result<Part, Refusal>;

    fn next(&mut self) -> Option<Result<Part, Refusal>> {
        let (from, to) = self.next_range()?;
        self.given = Some(to);
        let chunk = self.block.chunks.get(self.chunk_index)?;
        Some(part(chunk, from, to, unit(&chunk.checksum)))
    }
}

/// Bytes that one checksum covers, and that an answer must not divide.
fn unit(checksum: &ChecksumData) -> u64 {
    match checksum.kind {
        ChecksumType::None => 1,
        _ => u64::from(checksum.bytes_per_checksum.max(1)),
    }
}

/// The part with bytes `from` to `to` of a chunk; `from` is the start of a checksum piece.
fn part(chunk: &ChunkInfo, from: u64, to: u64, unit: u64) -> Result<Part, Refusal> {
    let (kind, bytes_per_checksum) = (chunk.checksum.kind, chunk.checksum.bytes_per_checksum);
    let checksums = match kind {
        ChecksumType::None => Vec::new(),
        _ => {
            let pieces = (from / unit) as usize..to.div_ceil(unit) as usize;
            let checksums = chunk.checksum.checksums.get(pieces.clone()).ok_or_else(|| {
                Refusal::new(
                    super::pb::Result::ContainerInternalError,
                    format!("chunk {:?} was committed without checksum {}", chunk.name, pieces.end),
                )
            })?;
            checksums.to_vec()
        }
    };
    Ok(Part {
        chunk: ChunkInfo::plain(chunk.name.clone(), chunk.offset + from, to - from),
        checksum: ChecksumData { kind, bytes_per_checksum, checksums },
    })
}

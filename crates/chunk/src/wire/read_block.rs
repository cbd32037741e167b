//! How a ReadBlock is cut into answers.
//!
//! A reader verifies an answer with the checksums in it, so an answer holds whole pieces of one
//! chunk: it begins where a checksum does and ends where one ends. (Ozone 2.2 takes every chunk for
//! as long as the first one, and sends wrong checksums where that is not so.)

use crate::block::{BlockData, ChunkInfo};
use crate::checksum::{ChecksumData, ChecksumType};

use super::refusal::Refusal;

/// The data of one answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// What is read: the chunk's name, and bytes of the block.
    pub(super) chunk: ChunkInfo,
    /// The checksums of exactly these bytes.
    pub(super) checksum: ChecksumData,
}

/// The answers that bytes `start` to `end` of the block take, each of `answer_bytes` bytes at most
/// unless one checksum covers more.
pub(super) fn parts(
    block: &BlockData,
    start: u64,
    end: u64,
    answer_bytes: u64,
) -> impl Iterator<Item = Result<Part, Refusal>> {
    let touched =
        block.chunks.iter().filter(move |chunk| chunk.end() > start && chunk.offset < end);
    touched.flat_map(move |chunk| {
        let unit = unit(&chunk.checksum);
        let first = start.saturating_sub(chunk.offset) / unit * unit;
        let last = (end.min(chunk.end()) - chunk.offset).next_multiple_of(unit).min(chunk.length);
        let step = (answer_bytes / unit).max(1) * unit;
        let count = (last - first).div_ceil(step);
        (0..count).map(move |index| {
            let from = first + index * step;
            part(chunk, from, last.min(from + step), unit)
        })
    })
}

/// Bytes that cannot be parted.
fn unit(checksum: &ChecksumData) -> u64 {
    match checksum.kind {
        ChecksumType::None => 1,
        _ => u64::from(checksum.bytes_per_checksum.max(1)),
    }
}

/// Bytes `from` to `to` of a chunk; `from` is where a piece begins.
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

//! The files of the log: their names, and the block that each starts with.
//!
//! A segment is made at its full length, and its records start behind the head. What follows the
//! last record is zeros. The head says where the log went on from, so that a log that was cut off
//! after a crash is read to that place and no further.
//!
//! Byte layout: `docs/formats.md`, "Chunk store".

use storage::codec::{DecodeError, Reader};

use crate::crc::crc32c;
use crate::limits::{BLOCK_BYTES, SEGMENT_BYTES_MAX, SEGMENT_NUMBER_MAX};
use crate::record::Position;

/// The folder of the segments.
pub const LOG_DIR: &str = "log";

/// Version of the format of the log and its records.
pub const LOG_FORMAT_VERSION: u32 = 1;

/// Byte of a segment where its first record starts.
pub const FIRST_RECORD: u32 = BLOCK_BYTES;

const MAGIC: &[u8; 8] = b"QUORCLOG";

/// What the head of a segment says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The store that it belongs to.
    pub store_id: u128,
    /// Its number, which is also in its name.
    pub number: u32,
    /// Bytes that it was made with.
    pub bytes: u32,
    /// Where the log ended when it was made; nothing behind that place counts.
    pub follows: Position,
    /// Up to where the log was durable then.
    pub durable: Position,
}

/// The path of a segment below the store's directory.
pub fn segment_path(number: u32) -> String {
    format!("{LOG_DIR}/{number:08x}.log")
}

/// The number in a segment's file name.
pub fn parse_segment_name(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".log")?;
    let number = u32::from_str_radix(digits, 16).ok()?;
    let is_ours = number <= SEGMENT_NUMBER_MAX && format!("{number:08x}") == digits;
    is_ours.then_some(number)
}

/// A head's bytes, without the zeros that fill its block.
pub fn encode_head(head: &Head) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&LOG_FORMAT_VERSION.to_le_bytes());
    out.extend_from_slice(&head.number.to_le_bytes());
    out.extend_from_slice(&head.store_id.to_le_bytes());
    out.extend_from_slice(&head.bytes.to_le_bytes());
    out.extend_from_slice(&0u32.to_le_bytes());
    out.extend_from_slice(&head.follows.to_u64().to_le_bytes());
    out.extend_from_slice(&head.durable.to_u64().to_le_bytes());
    let crc = crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// Reads a head, as [`encode_head`] wrote it, from the start of a segment's file.
pub fn decode_head(bytes: &[u8]) -> Result<Head, DecodeError> {
    let mut reader = Reader::new(bytes);
    let covered = Reader::new(bytes).take(56)?;
    if reader.take(MAGIC.len())? != MAGIC {
        return Err(reader.bad("this is not a segment of a chunk store"));
    }
    let version = reader.u32()?;
    let (number, store_id, segment_bytes) = (reader.u32()?, reader.u128()?, reader.u32()?);
    reader.zeros(4)?;
    let (follows, durable) = (Position::of_u64(reader.u64()?), Position::of_u64(reader.u64()?));
    if reader.u32()? != crc32c(covered) {
        return Err(reader.bad("the checksum of the segment's head does not match"));
    }
    if version != LOG_FORMAT_VERSION {
        return Err(reader.bad("the segment has an unknown format version"));
    }
    let is_sane = (FIRST_RECORD..=SEGMENT_BYTES_MAX).contains(&segment_bytes)
        && number <= SEGMENT_NUMBER_MAX
        && follows.segment < number
        && durable <= follows;
    match is_sane {
        true => Ok(Head { store_id, number, bytes: segment_bytes, follows, durable }),
        false => Err(reader.bad("the segment's head contradicts itself")),
    }
}

#[cfg(test)]
mod tests;

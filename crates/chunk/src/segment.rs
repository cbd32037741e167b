//! The segment files of the log: their names, and the head that each starts with.
//!
//! A segment's file is made at its full length under another name, `NNNNNNNN.next`, and renamed
//! when the log continues in it. Its length is durable by then, so a shorter segment has lost data.
//! A segment starts with a head, written twice, before its records. The head says where the log
//! ended when the segment was begun, so that a log that was cut off after a crash is read to that
//! position and no further.
//!
//! Byte layout: `docs/formats.md`, "Chunk store".

use storage::codec::{DecodeError, Reader};

use crate::crc::crc32c;
use crate::limits::{BLOCK_BYTES, SEGMENT_BYTES_MAX, SEGMENT_NUMBER_MAX};
use crate::record::Position;

/// The folder of the segments.
pub const LOG_DIR: &str = "log";

/// Version of the format of the log and its records. In version 1 a head had one copy, and the last
/// segment was cut off at each start.
pub const LOG_FORMAT_VERSION: u32 = 2;

/// Offset in a segment of the second copy of its head.
const SECOND_HEAD: usize = BLOCK_BYTES as usize / 2;

/// Bytes of a head.
const HEAD_BYTES: usize = 60;

/// Offset in a segment of its first record.
pub const FIRST_RECORD: u32 = BLOCK_BYTES;

const MAGIC: &[u8; 8] = b"QUORCLOG";

/// The content of a segment's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Version of the format of the segment.
    pub version: u32,
    /// The id of the store that the segment belongs to.
    pub store_id: u128,
    /// The segment's number, which is also in its file name.
    pub number: u32,
    /// Size of the file when it was made, in bytes.
    pub bytes: u32,
    /// Where the log ended when the segment was begun; nothing behind that position counts.
    pub follows: Position,
    /// The log was durable before this position when the segment was begun.
    pub durable: Position,
}

/// Where to start reading the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The position; that of the first segment if there is no checkpoint.
    pub at: Position,
    /// Where the record before starts in that segment; 0 if there is none, and `None` if unknown,
    /// after a checkpoint of version 1.
    pub previous: Option<u32>,
}

impl Start {
    /// The start of the whole log.
    pub const FIRST: Start =
        Start { at: Position { segment: 1, offset: FIRST_RECORD }, previous: Some(0) };
}

/// The path of a segment, relative to the store's directory.
pub fn segment_path(number: u32) -> String {
    format!("{LOG_DIR}/{number:08x}.log")
}

/// The path of the file prepared for segment `number`. While it exists, the segment before is known
/// to have been begun.
pub fn next_path(number: u32) -> String {
    format!("{LOG_DIR}/{number:08x}.next")
}

/// The file reserved for deletions on a full disk. It becomes a segment when it is used.
pub const RESERVE_PATH: &str = "log/reserve";

/// The number in a segment's file name; `None` if it is no segment's.
pub fn parse_segment_name(name: &str) -> Option<u32> {
    parse_number(name.strip_suffix(".log")?)
}

/// The number in the name of a file prepared for a segment; `None` if it is no such name.
pub fn parse_next_name(name: &str) -> Option<u32> {
    parse_number(name.strip_suffix(".next")?)
}

fn parse_number(digits: &str) -> Option<u32> {
    let number = u32::from_str_radix(digits, 16).ok()?;
    let is_ours = (1..=SEGMENT_NUMBER_MAX).contains(&number) && format!("{number:08x}") == digits;
    is_ours.then_some(number)
}

/// Encodes a head.
pub fn encode_head(head: &Head) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&head.version.to_le_bytes());
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

/// Fills the first block of a segment with the head, twice, and zeros.
pub fn put_head(head: &Head, block: &mut [u8]) {
    let bytes = encode_head(head);
    block.fill(0);
    block[..HEAD_BYTES].copy_from_slice(&bytes);
    block[SECOND_HEAD..SECOND_HEAD + HEAD_BYTES].copy_from_slice(&bytes);
}

/// Decodes the head in the first block of a segment, from an intact copy. Also returns the offset
/// of the other copy if that is damaged.
///
/// # Errors
/// Both copies are damaged.
pub fn read_block(block: &[u8]) -> Result<(Head, Option<usize>), DecodeError> {
    let second = block.get(SECOND_HEAD..).unwrap_or_default();
    match (decode_head(block), decode_head(second)) {
        (Ok(first), Ok(second)) if first == second => Ok((first, None)),
        (Ok(first), _) if first.version == 1 => Ok((first, None)),
        (Ok(first), _) => Ok((first, Some(SECOND_HEAD))),
        (Err(_), Ok(second)) => Ok((second, Some(0))),
        (Err(error), Err(_)) => Err(error),
    }
}

/// Decodes a head at the start of `bytes`, as [`encode_head`] wrote it.
pub fn decode_head(bytes: &[u8]) -> Result<Head, DecodeError> {
    let mut reader = Reader::new(bytes);
    let covered = Reader::new(bytes).take(HEAD_BYTES - 4)?;
    if reader.take(MAGIC.len())? != MAGIC {
        return Err(reader.bad("this is not a segment of a chunk store"));
    }
    let version = reader.u32()?;
    let (number, store_id, segment_bytes) = (reader.u32()?, reader.u128()?, reader.u32()?);
    reader.zeros(4)?;
    let (follows, durable) = (Position::from_u64(reader.u64()?), Position::from_u64(reader.u64()?));
    if reader.u32()? != crc32c(covered) {
        return Err(reader.bad("the checksum of the segment's head does not match"));
    }
    if !(1..=LOG_FORMAT_VERSION).contains(&version) {
        return Err(reader.bad("the segment has an unknown format version"));
    }
    let is_sane = (FIRST_RECORD..=SEGMENT_BYTES_MAX).contains(&segment_bytes)
        && number <= SEGMENT_NUMBER_MAX
        && follows.segment < number
        && durable <= follows;
    match is_sane {
        true => Ok(Head { version, store_id, number, bytes: segment_bytes, follows, durable }),
        false => Err(reader.bad("the segment's head contradicts itself")),
    }
}

#[cfg(test)]
mod tests;

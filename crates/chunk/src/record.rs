//! The records of the log: a header, a body, and a trailer with checksums of the body.
//!
//! ```text
//! header   64 bytes; the last four are its CRC-32C, which starts from the store's salt
//! body     depends on the kind; up to 32 MiB
//! trailer  a CRC-32C for every 64 KiB of the body, then a CRC-32C of those, which starts from the
//!          header's
//! padding  zeros, to a multiple of 8 bytes
//! ```
//!
//! The header holds the positions of the record itself and of the record before. So a record that a
//! device wrote to another place, or that was left in a file from earlier, is recognised as wrong,
//! and a missing record is noticed. The pieces of the body have their own checksums, so that a part
//! of a chunk is checked without reading the rest. Byte layout: `docs/formats.md`, "Chunk store".

use storage::codec::{DecodeError, Reader};

use crate::crc::{crc32c, crc32c_append};
use crate::limits::RECORD_BODY_BYTES_MAX;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 64;

/// Bytes of the body that one checksum of the trailer covers (a *piece*).
pub const PIECE_BYTES: usize = 64 * 1024;

/// The first bytes of each header, as a little-endian number.
pub(crate) const MAGIC: u32 = 0x4b48_4351;

/// Every record starts at a multiple of this in its segment, in bytes.
pub const RECORD_ALIGNMENT: u32 = 8;

/// The start value of the checksums of a store's headers, so that nothing that a client writes
/// looks like a record. Drawn at random when the store is made, and never shown to clients. 0 in
/// stores of version 1, which had no salt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Salt(pub u32);

/// A position in the log: a segment and an offset in its file. Later positions are greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Number of the segment.
    pub segment: u32,
    /// Offset in the segment's file, in bytes.
    pub offset: u32,
}

impl Position {
    /// The position as one number. Keeps the order.
    pub fn to_u64(self) -> u64 {
        (u64::from(self.segment) << 32) | u64::from(self.offset)
    }

    /// The position from such a number.
    pub fn from_u64(number: u64) -> Position {
        Position { segment: (number >> 32) as u32, offset: number as u32 }
    }
}

impl core::fmt::Display for Position {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "byte {} of segment {}", self.offset, self.segment)
    }
}

/// The kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Data of a block, from an offset on; body: the data.
    Chunk,
    /// A commit of a block; body: the block's metadata.
    Block,
    /// The block takes no more writes. No body.
    BlockFinalized,
    /// The block is deleted. No body.
    BlockDeleted,
    /// A container is made or changed; body: everything about it but its blocks.
    Container,
    /// The container is deleted, with its blocks. No body.
    ContainerDeleted,
    /// Nothing: makes the log longer, so that a checkpoint has another position than the one
    /// before. No body.
    Nothing,
}

impl Kind {
    /// All kinds, ordered by number from 1.
    pub const ALL: [Kind; 7] = [
        Kind::Chunk,
        Kind::Block,
        Kind::BlockFinalized,
        Kind::BlockDeleted,
        Kind::Container,
        Kind::ContainerDeleted,
        Kind::Nothing,
    ];

    fn number(self) -> u8 {
        Kind::ALL.iter().position(|kind| *kind == self).map_or(0, |index| index as u8 + 1)
    }

    fn from_number(number: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// The content of a record's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The record's kind.
    pub kind: Kind,
    /// The record's position in the log.
    pub at: Position,
    /// The id of the container that the record is about.
    pub container_id: u64,
    /// The local id of the block that the record is about, or 0.
    pub local_id: u64,
    /// The byte of the block where a chunk's data start, or 0.
    pub block_offset: u64,
    /// Bytes of the body.
    pub body_bytes: u32,
    /// Offset in the segment where the record before starts; 0 in the first record.
    pub previous: u32,
    /// The log was durable before this position when the record was written.
    pub durable: Position,
}

/// Size in bytes of a whole record with a body of `body_bytes` bytes.
pub fn record_bytes(body_bytes: usize) -> usize {
    (HEADER_BYTES + body_bytes + trailer_bytes(body_bytes)).next_multiple_of(8)
}

/// Size in bytes of the trailer of a body of `body_bytes` bytes.
pub fn trailer_bytes(body_bytes: usize) -> usize {
    4 * body_bytes.div_ceil(PIECE_BYTES) + 4
}

/// Encodes a header.
pub fn encode_header(header: &Header, salt: Salt) -> [u8; HEADER_BYTES] {
    let mut out = [0; HEADER_BYTES];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &MAGIC.to_le_bytes());
    put(4, &[header.kind.number()]);
    put(8, &header.at.to_u64().to_le_bytes());
    put(16, &header.container_id.to_le_bytes());
    put(24, &header.local_id.to_le_bytes());
    put(32, &header.block_offset.to_le_bytes());
    put(40, &header.durable.to_u64().to_le_bytes());
    put(48, &header.body_bytes.to_le_bytes());
    put(52, &header.previous.to_le_bytes());
    let crc = crc32c_append(salt.0, &out[..60]);
    out[60..].copy_from_slice(&crc.to_le_bytes());
    out
}

/// Decodes a header that was read at position `at`, which it must name.
pub fn decode_header(bytes: &[u8], at: Position, salt: Salt) -> Result<Header, DecodeError> {
    let mut reader = Reader::new(bytes);
    let covered = Reader::new(bytes).take(HEADER_BYTES - 4)?;
    if reader.u32()? != MAGIC {
        return Err(reader.bad("no record starts here"));
    }
    let kind = reader.u8()?;
    reader.zeros(3)?;
    let found = Position::from_u64(reader.u64()?);
    let (container_id, local_id, block_offset) = (reader.u64()?, reader.u64()?, reader.u64()?);
    let durable = Position::from_u64(reader.u64()?);
    let (body_bytes, previous) = (reader.u32()?, reader.u32()?);
    reader.zeros(4)?;
    if reader.u32()? != crc32c_append(salt.0, covered) {
        return Err(reader.bad("the checksum of the header does not match"));
    }
    let kind = Kind::from_number(kind).ok_or_else(|| reader.bad("the kind is unknown"))?;
    if found != at {
        return Err(reader.bad("the record belongs to another place"));
    }
    if body_bytes as usize > RECORD_BODY_BYTES_MAX {
        return Err(reader.bad("the body is over the limit"));
    }
    Ok(Header { kind, at, container_id, local_id, block_offset, body_bytes, previous, durable })
}

/// Appends the trailer for a body whose pieces have these checksums.
pub fn encode_trailer(header: &[u8; HEADER_BYTES], crcs: &[u32], out: &mut Vec<u8>) {
    let start = out.len();
    for crc in crcs {
        out.extend_from_slice(&crc.to_le_bytes());
    }
    let crc = crc32c_append(crc_of(header), &out[start..]);
    out.extend_from_slice(&crc.to_le_bytes());
}

/// The checksum at the end of an encoded header.
fn crc_of(header: &[u8; HEADER_BYTES]) -> u32 {
    let [.., a, b, c, d] = *header;
    u32::from_le_bytes([a, b, c, d])
}

/// Decodes and checks a trailer; returns the checksums of the pieces.
pub fn decode_trailer(header: &Header, bytes: &[u8], salt: Salt) -> Result<Vec<u32>, DecodeError> {
    let count = (header.body_bytes as usize).div_ceil(PIECE_BYTES);
    let mut reader = Reader::new(bytes);
    let covered = Reader::new(bytes).take(4 * count)?;
    let crcs: Result<Vec<u32>, DecodeError> = (0..count).map(|_| reader.u32()).collect();
    let crcs = crcs?;
    let of_header = crc_of(&encode_header(header, salt));
    if reader.u32()? != crc32c_append(of_header, covered) {
        return Err(reader.bad("the checksum of the trailer does not match"));
    }
    Ok(crcs)
}

/// The index of the first piece whose checksum does not match, if any. `pieces` starts with piece
/// `first` of the body.
pub fn first_bad_piece(pieces: &[u8], first: usize, crcs: &[u32]) -> Option<usize> {
    let crcs = crcs.iter().skip(first).map(Some).chain(core::iter::repeat(None));
    let mut pairs = pieces.chunks(PIECE_BYTES).zip(crcs);
    let bad = pairs.position(|(piece, crc)| crc != Some(&crc32c(piece)))?;
    Some(first + bad)
}

#[cfg(test)]
mod tests;

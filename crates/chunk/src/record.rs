//! A record of the log: a header, a body, and a trailer with checksums of the body.
//!
//! ```text
//! header   64 bytes, the last four of them its CRC32C, which starts from the store's salt
//! body     what the kind says, up to 32 MiB
//! trailer  a CRC32C for every 64 KiB of the body, then one of these that starts from the header's
//! padding  zeros, to a multiple of 8 bytes
//! ```
//!
//! The header says where the record itself is, and where the one before: one that a device wrote to
//! another place, or that was left in a file from before, is none, and one that is missing is
//! missed. The pieces of the body have checksums of their own, so that a part of a chunk is checked
//! without reading the rest. Byte layout: `docs/formats.md`, "Chunk store".

use storage::codec::{DecodeError, Reader};

use crate::crc::{crc32c, crc32c_append};
use crate::limits::RECORD_BODY_BYTES_MAX;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 64;

/// Bytes of the body that one checksum covers.
pub const PIECE_BYTES: usize = 64 * 1024;

/// The first bytes of each header, as a little-endian number.
pub(crate) const MAGIC: u32 = 0x4b48_4351;

/// A record starts at a multiple of so many bytes of its segment.
pub const RECORD_ALIGNMENT: u32 = 8;

/// The start value of the checksums of a store's headers, so that nothing that a client wrote looks
/// like a record: drawn when the store is made, and never shown to clients. 0 in stores of version
/// 1, which had none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Salt(pub u32);

/// A place in the log: a segment, and a byte of its file. Later places are greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Number of the segment.
    pub segment: u32,
    /// Byte of its file.
    pub offset: u32,
}

impl Position {
    /// As one number that keeps the order.
    pub fn to_u64(self) -> u64 {
        (u64::from(self.segment) << 32) | u64::from(self.offset)
    }

    /// From one number.
    pub fn from_u64(number: u64) -> Position {
        Position { segment: (number >> 32) as u32, offset: number as u32 }
    }
}

impl core::fmt::Display for Position {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "byte {} of segment {}", self.offset, self.segment)
    }
}

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Data of a block, from an offset on.
    Chunk,
    /// A block's metadata: a commit.
    Block,
    /// A block takes no more writes. No body.
    BlockFinalized,
    /// A block is gone. No body.
    BlockDeleted,
    /// A container: all that is known of it but its blocks.
    Container,
    /// A container is gone, with its blocks. No body.
    ContainerDeleted,
    /// Nothing: the log went on, so that a checkpoint has another place than the one before. No
    /// body.
    Nothing,
}

impl Kind {
    /// All of them, by number from 1.
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

/// What the header of a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the record is about.
    pub kind: Kind,
    /// The record's position in the log.
    pub at: Position,
    /// The container.
    pub container_id: u64,
    /// The block, or 0.
    pub local_id: u64,
    /// Byte of the block where a chunk's data start, or 0.
    pub block_offset: u64,
    /// Bytes of the body.
    pub body_bytes: u32,
    /// Byte of the segment where the record before starts; 0 if this is the first one.
    pub previous: u32,
    /// Up to where the log was durable when this was written.
    pub durable: Position,
}

/// Bytes of a whole record with a body of so many.
pub fn record_bytes(body_bytes: usize) -> usize {
    (HEADER_BYTES + body_bytes + trailer_bytes(body_bytes)).next_multiple_of(8)
}

/// Bytes of the trailer behind a body of so many.
pub fn trailer_bytes(body_bytes: usize) -> usize {
    4 * body_bytes.div_ceil(PIECE_BYTES) + 4
}

/// A header's bytes.
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

/// Reads a header that is said to be at `at`.
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

/// The trailer behind a body whose pieces have these checksums.
pub fn encode_trailer(header: &[u8; HEADER_BYTES], crcs: &[u32], out: &mut Vec<u8>) {
    let start = out.len();
    for crc in crcs {
        out.extend_from_slice(&crc.to_le_bytes());
    }
    let crc = crc32c_append(crc_of(header), &out[start..]);
    out.extend_from_slice(&crc.to_le_bytes());
}

/// The checksum that ends a header's bytes.
fn crc_of(header: &[u8; HEADER_BYTES]) -> u32 {
    let [.., a, b, c, d] = *header;
    u32::from_le_bytes([a, b, c, d])
}

/// The checksums of the pieces, from the trailer of a record whose header was read.
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

/// The index of the first piece that has another checksum, if any. `pieces` starts with the piece
/// `first` of the body.
pub fn first_bad_piece(pieces: &[u8], first: usize, crcs: &[u32]) -> Option<usize> {
    let crcs = crcs.iter().skip(first).map(Some).chain(core::iter::repeat(None));
    let mut pairs = pieces.chunks(PIECE_BYTES).zip(crcs);
    let bad = pairs.position(|(piece, crc)| crc != Some(&crc32c(piece)))?;
    Some(first + bad)
}

#[cfg(test)]
mod tests;

//! Computes and verifies the checksums that clients send with their chunks.
//!
//! A chunk has one checksum for every `bytes_per_checksum` bytes, counted from its start; the last
//! piece may be shorter. As in Ozone 2.2.0 (`Checksum`, `ChecksumByteBufferFactory`), CRC32 has
//! zlib's polynomial, and a checksum of type CRC32 or CRC32C is four bytes, big-endian.

use crate::crc::{crc32, crc32c};
use bytes::Bytes;
use md5::{Digest as _, Md5};
use sha2::Sha256;

/// Ozone's checksum types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChecksumType {
    /// No checksums.
    None,
    /// CRC-32 of zlib.
    Crc32,
    /// CRC-32C (Castagnoli).
    Crc32c,
    /// SHA-256.
    Sha256,
    /// MD5.
    Md5,
}

impl ChecksumType {
    /// All types, by number.
    pub const ALL: [ChecksumType; 5] = [
        ChecksumType::None,
        ChecksumType::Crc32,
        ChecksumType::Crc32c,
        ChecksumType::Sha256,
        ChecksumType::Md5,
    ];

    /// The type's number in Ozone's protocol, and in our records.
    pub fn number(self) -> u8 {
        match self {
            ChecksumType::None => 1,
            ChecksumType::Crc32 => 2,
            ChecksumType::Crc32c => 3,
            ChecksumType::Sha256 => 4,
            ChecksumType::Md5 => 5,
        }
    }

    /// The type with that number.
    pub fn from_number(number: u8) -> Option<ChecksumType> {
        ChecksumType::ALL.into_iter().find(|kind| kind.number() == number)
    }

    /// The checksum of one piece; empty for [`ChecksumType::None`].
    pub fn of(self, piece: &[u8]) -> Bytes {
        match self {
            ChecksumType::None => Bytes::new(),
            ChecksumType::Crc32 => Bytes::copy_from_slice(&crc32(piece).to_be_bytes()),
            ChecksumType::Crc32c => Bytes::copy_from_slice(&crc32c(piece).to_be_bytes()),
            ChecksumType::Sha256 => Bytes::copy_from_slice(&Sha256::digest(piece)),
            ChecksumType::Md5 => Bytes::copy_from_slice(&Md5::digest(piece)),
        }
    }

    /// Whether `checksum` is the checksum of the piece.
    fn matches(self, piece: &[u8], checksum: &[u8]) -> bool {
        match self {
            ChecksumType::None => true,
            ChecksumType::Crc32 => crc32(piece).to_be_bytes() == checksum,
            ChecksumType::Crc32c => crc32c(piece).to_be_bytes() == checksum,
            ChecksumType::Sha256 | ChecksumType::Md5 => self.of(piece) == checksum,
        }
    }
}

/// The checksums of one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChecksumData {
    /// The type of all these checksums.
    pub kind: ChecksumType,
    /// Bytes that each checksum covers.
    pub bytes_per_checksum: u32,
    /// The checksums of the pieces, in order.
    pub checksums: Vec<Bytes>,
}

/// Where data do not match their checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The checksum of the piece that starts at byte `at` of the chunk does not match.
    Piece {
        /// The byte of the chunk where that piece starts.
        at: u64,
    },
    /// The number of checksums is not the number of pieces.
    Count {
        /// Number of checksums.
        count: usize,
        /// Number of pieces.
        wanted: usize,
    },
}

impl core::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Mismatch::Piece { at } => write!(f, "the piece at byte {at} has another checksum"),
            Mismatch::Count { count, wanted } => {
                write!(f, "there are {count} checksums for {wanted} pieces")
            }
        }
    }
}

impl ChecksumData {
    /// An empty list of checksums.
    pub fn none() -> ChecksumData {
        ChecksumData { kind: ChecksumType::None, bytes_per_checksum: 0, checksums: Vec::new() }
    }

    /// The checksums of `data`, a whole chunk or its start. `bytes_per_checksum` must not be 0.
    pub fn of(kind: ChecksumType, bytes_per_checksum: u32, data: &[u8]) -> ChecksumData {
        let pieces = data.chunks(bytes_per_checksum.max(1) as usize);
        let checksums = match kind {
            ChecksumType::None => Vec::new(),
            _ => pieces.map(|piece| kind.of(piece)).collect(),
        };
        ChecksumData { kind, bytes_per_checksum, checksums }
    }

    /// Verifies the data of the whole chunk.
    pub fn verify(&self, data: &[u8]) -> Result<(), Mismatch> {
        if self.kind == ChecksumType::None {
            return Ok(());
        }
        let piece_bytes = self.bytes_per_checksum.max(1) as usize;
        let (count, wanted) = (self.checksums.len(), data.len().div_ceil(piece_bytes));
        if count != wanted {
            return Err(Mismatch::Count { count, wanted });
        }
        let mut pieces = data.chunks(piece_bytes).zip(&self.checksums);
        match pieces.position(|(piece, checksum)| !self.kind.matches(piece, checksum)) {
            None => Ok(()),
            Some(index) => Err(Mismatch::Piece { at: (index * piece_bytes) as u64 }),
        }
    }
}

#[cfg(test)]
mod tests;

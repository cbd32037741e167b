//! The checksums that clients send with their chunks: computed, and compared with the data.
//!
//! One checksum for every `bytes_per_checksum` bytes counted from the chunk's start, the last piece
//! short. Ozone 2.2.0, `Checksum` and `ChecksumByteBufferFactory`: CRC32 is zlib's polynomial, both
//! CRCs are four bytes, big-endian.

use crate::crc::{crc32, crc32c};
use bytes::Bytes;
use md5::{Digest as _, Md5};
use sha2::Sha256;

/// Ozone's checksum types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChecksumType {
    /// None at all.
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
    /// All of them, by number.
    pub const ALL: [ChecksumType; 5] = [
        ChecksumType::None,
        ChecksumType::Crc32,
        ChecksumType::Crc32c,
        ChecksumType::Sha256,
        ChecksumType::Md5,
    ];

    /// Its number in Ozone's protocol, which is that in our records, too.
    pub fn number(self) -> u8 {
        match self {
            ChecksumType::None => 1,
            ChecksumType::Crc32 => 2,
            ChecksumType::Crc32c => 3,
            ChecksumType::Sha256 => 4,
            ChecksumType::Md5 => 5,
        }
    }

    /// The type of that number.
    pub fn from_number(number: u8) -> Option<ChecksumType> {
        ChecksumType::ALL.into_iter().find(|kind| kind.number() == number)
    }

    /// The checksum of one piece; nothing for [`ChecksumType::None`].
    pub fn of(self, piece: &[u8]) -> Bytes {
        match self {
            ChecksumType::None => Bytes::new(),
            ChecksumType::Crc32 => Bytes::copy_from_slice(&crc32(piece).to_be_bytes()),
            ChecksumType::Crc32c => Bytes::copy_from_slice(&crc32c(piece).to_be_bytes()),
            ChecksumType::Sha256 => Bytes::copy_from_slice(&Sha256::digest(piece)),
            ChecksumType::Md5 => Bytes::copy_from_slice(&Md5::digest(piece)),
        }
    }

    /// Whether that is the checksum of a piece.
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
    /// The kind of all these checksums.
    pub kind: ChecksumType,
    /// Bytes that each covers.
    pub bytes_per_checksum: u32,
    /// One for each piece, in order.
    pub checksums: Vec<Bytes>,
}

/// Where data are not what their checksums say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The piece that starts at this byte of the chunk has another checksum.
    Piece {
        /// Byte of the chunk.
        at: u64,
    },
    /// There are not as many checksums as pieces.
    Count {
        /// Checksums that were given.
        count: usize,
        /// Pieces that the data have.
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
    /// No checksums.
    pub fn none() -> ChecksumData {
        ChecksumData { kind: ChecksumType::None, bytes_per_checksum: 0, checksums: Vec::new() }
    }

    /// The checksums of `data`, which starts where the chunk does. `bytes_per_checksum` is not 0.
    pub fn of(kind: ChecksumType, bytes_per_checksum: u32, data: &[u8]) -> ChecksumData {
        let pieces = data.chunks(bytes_per_checksum.max(1) as usize);
        let checksums = match kind {
            ChecksumType::None => Vec::new(),
            _ => pieces.map(|piece| kind.of(piece)).collect(),
        };
        ChecksumData { kind, bytes_per_checksum, checksums }
    }

    /// Compares them with the data of the whole chunk.
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

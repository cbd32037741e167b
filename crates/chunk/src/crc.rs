//! CRC-32 and CRC-32C (Castagnoli, RFC 3720). At 64 KiB this takes less than half of what one
//! `crc32` instruction after the other takes, which is a fifth of a large write.

use crc_fast::{CrcAlgorithm, Digest};

/// CRC-32, as of zip and Ethernet.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iso_hdlc(bytes)
}

/// CRC-32C, as of iSCSI.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The CRC-32C of what has `crc`, with `bytes` behind it. 0 is that of nothing.
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests;

//! Computes CRC-32 and CRC-32C (Castagnoli, RFC 3720), with the crate `crc_fast`. For 64 KiB it
//! takes less than half the time of a loop over the CPU's instruction `crc32`, which would take a
//! fifth of the time of a large write.

use crc_fast::{CrcAlgorithm, Digest};

/// The CRC-32 of zip and Ethernet.
pub fn crc32(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iso_hdlc(bytes)
}

/// The CRC-32C of iSCSI.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The CRC-32C of some bytes with CRC-32C `crc`, followed by `bytes`. 0 is the CRC-32C of no bytes.
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests;

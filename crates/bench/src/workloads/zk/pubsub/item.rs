//! The first bytes of the data of an item: its number among all items of the run, and the time that
//! its latency counts from. A reader knows by them which item it found.

use crate::limits::NULL_HEAD_BYTES;

/// Bytes of the number and the time.
pub const ITEM_BYTES: usize = 16;

// The null server must give back what subscribers check.
const _: () = assert!(ITEM_BYTES <= NULL_HEAD_BYTES);

/// Writes the number and the time, ns of the driver, to the beginning of the data.
pub fn write(data: &mut [u8], number: u64, since_ns: u64) {
    data[..8].copy_from_slice(&number.to_be_bytes());
    data[8..ITEM_BYTES].copy_from_slice(&since_ns.to_be_bytes());
}

/// The number and the time at the beginning of the data, if it is long enough.
pub fn read(data: &[u8]) -> Option<(u64, u64)> {
    let number = u64::from_be_bytes(*data.first_chunk()?);
    let since_ns = u64::from_be_bytes(*data.get(8..)?.first_chunk()?);
    Some((number, since_ns))
}

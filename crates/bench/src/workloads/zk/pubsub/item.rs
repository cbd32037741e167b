//! Encodes the head of an item's data: the number of the item among all items, and the time at
//! which its latency begins (when its request was due, or in closed loop was sent). A reader learns
//! from it which item it found.

use crate::limits::NULL_HEAD_BYTES;

/// Bytes of the head: the number, then the time.
pub const ITEM_BYTES: usize = 16;

// The null server must give back all that subscribers check.
const _: () = assert!(ITEM_BYTES <= NULL_HEAD_BYTES);

/// Writes the head: the number of the item and its time, ns of the driver. `data` must hold it.
pub fn write(data: &mut [u8], number: u64, since_ns: u64) {
    data[..8].copy_from_slice(&number.to_be_bytes());
    data[8..ITEM_BYTES].copy_from_slice(&since_ns.to_be_bytes());
}

/// Reads the head: the number and the time. `None` if `data` is too short.
pub fn read(data: &[u8]) -> Option<(u64, u64)> {
    let number = u64::from_be_bytes(*data.first_chunk()?);
    let since_ns = u64::from_be_bytes(*data.get(8..)?.first_chunk()?);
    Some((number, since_ns))
}

//! Bounds on the memory that etcd's and etcd v2's data take on every member, from level 4 on.
//!
//! The quota counts the encoded bytes of etcd's versions and leases, not the memory that they take.
//! For example, one version of an 8-byte key counts 17 bytes, and takes 94 bytes in memory: a store
//! within its quota may take several times as much memory. So a second bound limits an estimate of
//! the bytes in memory. The estimate is computed from totals that the stores keep anyway (numbers
//! of versions, leases and nodes, and their bytes). So computing it takes no longer for a large
//! store, and all members get the same number.

use crate::codec::{DecodeError, Reader, Write};
use crate::etcd::settings::QUOTA_BYTES_DEFAULT;

/// Bytes of memory of one version of a key, beside the bytes that the quota counts: its place in
/// the index and in the tail, its allocation, the reference of its lease. Measured at 55 to 111.
pub(crate) const ETCD_VERSION_HELD_BYTES: u64 = 112;

/// Bytes of memory of a lease, beside the bytes that the quota counts: the list of its keys, its
/// deadline.
pub(crate) const ETCD_LEASE_HELD_BYTES: u64 = 256;

/// Bytes of memory of a node of etcd v2's tree, beside the bytes of its record. Measured at 206 to
/// 255.
pub(crate) const ETCD_V2_NODE_HELD_BYTES: u64 = 256;

/// Bytes of memory of the deadline of a node that has a time to live.
pub(crate) const ETCD_V2_TTL_HELD_BYTES: u64 = 128;

/// Bytes of memory that a store may take for each byte of the quota. A version of an 8-byte key
/// takes 58 bytes of the file of etcd 3.6.16, and is estimated here at 129 bytes of memory (17
/// counted bytes, and [`ETCD_VERSION_HELD_BYTES`]). So a store of small keys that fits etcd's quota
/// fits this bound too.
pub(crate) const QUOTA_FACTOR: u32 = 3;

/// The bounds of an ensemble on the memory of etcd's stores. They are fixed when the level rises to
/// 4, and widened when an image is installed that needs more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldBounds {
    /// Bytes of memory that etcd's keys and leases may take for each byte of the quota.
    pub etcd_factor: u32,
    /// Bytes of memory that the tree of etcd v2 may always take, even if the quota allows less.
    pub etcd_v2_floor: u64,
}

impl HeldBounds {
    /// Bounds that allow the stores as they are now. `counted` is what the quota counts of etcd's
    /// keys and leases; `held` and `held_v2` are the bytes in memory of the two stores. A store
    /// that holds more than the quota (or than the default quota, if that is less) gets wider
    /// bounds, so that it is not refused what was allowed before: etcd's keys may go on with their
    /// present average of memory per counted byte, and etcd v2's tree may double.
    pub(crate) fn for_stores(quota: u64, (counted, held): (u64, u64), held_v2: u64) -> HeldBounds {
        // The quota may be set or lowered later, so compare with the default one too.
        let large = quota.min(QUOTA_BYTES_DEFAULT);
        let is_large = held > large;
        let as_it_is = held.div_ceil(counted.max(1)).min(u64::from(u32::MAX)) as u32;
        let is_large_v2 = held_v2 > large;
        HeldBounds {
            etcd_factor: if is_large { as_it_is.max(QUOTA_FACTOR) } else { QUOTA_FACTOR },
            etcd_v2_floor: if is_large_v2 { held_v2.saturating_mul(2) } else { 0 },
        }
    }

    /// For each field, the wider of two bounds.
    pub(crate) fn or(self, other: HeldBounds) -> HeldBounds {
        HeldBounds {
            etcd_factor: self.etcd_factor.max(other.etcd_factor),
            etcd_v2_floor: self.etcd_v2_floor.max(other.etcd_v2_floor),
        }
    }

    /// Bytes of memory that etcd's keys and leases may take, for a quota in bytes.
    pub fn etcd(self, quota: u64) -> u64 {
        quota.saturating_mul(u64::from(self.etcd_factor))
    }

    /// Bytes of memory that the tree of etcd v2 may take, for a quota in bytes.
    pub fn etcd_v2(self, quota: u64) -> u64 {
        quota.saturating_mul(u64::from(QUOTA_FACTOR)).max(self.etcd_v2_floor)
    }

    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        out.put_u32(self.etcd_factor);
        out.put_u64(self.etcd_v2_floor);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<HeldBounds, DecodeError> {
        let etcd_factor = reader.u32()?;
        if etcd_factor < QUOTA_FACTOR {
            return Err(reader.bad("factor of the quota", u64::from(etcd_factor)));
        }
        Ok(HeldBounds { etcd_factor, etcd_v2_floor: reader.u64()? })
    }
}

#[cfg(test)]
mod tests;

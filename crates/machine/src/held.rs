//! Bounds on what the clients of etcd's spaces make every member hold in memory, from level 4 on.
//!
//! etcd's quota counts bytes of versions. A version of a key of 8 bytes counts 17 bytes, and takes
//! 94 in memory; so a store within its quota may take many times as much. A second bound counts
//! what is held. It is linear in totals that the stores keep, so that raising the level takes no
//! longer with a large store, and equal on all members.

use crate::codec::{DecodeError, Reader, Write};
use crate::etcd::settings::QUOTA_BYTES_DEFAULT;

/// Bytes that a version of a key takes beside those that the quota counts: its place in the index
/// and in the tail, its allocation, the reference of its lease. Measured at 55 to 111.
pub(crate) const ETCD_VERSION_HELD_BYTES: u64 = 112;

/// Bytes that a lease takes beside those that the quota counts: the list of its keys, its deadline.
pub(crate) const ETCD_LEASE_HELD_BYTES: u64 = 256;

/// Bytes that a node of etcd v2's tree takes beside those of its record. Measured at 206 to 255.
pub(crate) const ETCD_V2_NODE_HELD_BYTES: u64 = 256;

/// Bytes that a time to live of a node takes: its deadline.
pub(crate) const ETCD_V2_TTL_HELD_BYTES: u64 = 128;

/// Bytes that a store may hold for each byte of the quota. A version of a key of 8 bytes takes 58
/// bytes of the file of etcd 3.6.16, and 129 count here. So a store of small keys that fits the
/// quota of etcd fits this bound.
pub(crate) const QUOTA_FACTOR: u32 = 3;

/// The bounds of an ensemble, as of the moment when they began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldBounds {
    /// Bytes that etcd's keys and leases may take for each byte of the quota.
    pub etcd_factor: u32,
    /// Bytes that the tree of etcd v2 may take, also where the quota allows less.
    pub etcd_v2_floor: u64,
}

impl HeldBounds {
    /// The bounds for stores as they are: `counted` is what the quota counts of etcd's, `held` and
    /// `held_v2` what they hold. A store that holds more than its quota, or than the default one,
    /// when the bounds begin may have as much for each byte that counts as it has on average: so it
    /// is not refused for what it was allowed before.
    pub(crate) fn for_stores(quota: u64, (counted, held): (u64, u64), held_v2: u64) -> HeldBounds {
        // A quota may come or fall later.
        let large = quota.min(QUOTA_BYTES_DEFAULT);
        let is_large = held > large;
        let as_it_is = held.div_ceil(counted.max(1)).min(u64::from(u32::MAX)) as u32;
        let is_large_v2 = held_v2 > large;
        HeldBounds {
            etcd_factor: if is_large { as_it_is.max(QUOTA_FACTOR) } else { QUOTA_FACTOR },
            etcd_v2_floor: if is_large_v2 { held_v2.saturating_mul(2) } else { 0 },
        }
    }

    /// The wider of two bounds.
    pub(crate) fn or(self, other: HeldBounds) -> HeldBounds {
        HeldBounds {
            etcd_factor: self.etcd_factor.max(other.etcd_factor),
            etcd_v2_floor: self.etcd_v2_floor.max(other.etcd_v2_floor),
        }
    }

    /// Bytes that etcd's keys and leases may take.
    pub fn etcd(self, quota: u64) -> u64 {
        quota.saturating_mul(u64::from(self.etcd_factor))
    }

    /// Bytes that the tree of etcd v2 may take.
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

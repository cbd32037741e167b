//! The count of the store against its quota, and its refusals for want of space.
//!
//! By `storage.BackendQuota` of etcd 3.6, but that a refused call changes nothing, and that bytes
//! are those of the versions that can be read: `docs/etcd.md` of this project says so, and has the
//! bound on memory, which the server reports when it begins.

use std::collections::BTreeSet;

use crate::etcd::op::{Error, KeyValue, LeaseOp, Op, Put, Txn, TxnOp};

/// The quota of a server that is not configured.
const QUOTA_BYTES_DEFAULT: u64 = 2 << 30;
/// Bytes that a put counts before it is done, beside its key and its value (`storage.kvOverhead`).
const PUT_BYTES: u64 = 256;
/// Bytes of a lease (`storage.leaseOverhead`).
const LEASE_BYTES: u64 = 64;
/// Bytes that a version and a lease take in memory beside those that count.
const VERSION_HELD_BYTES: u64 = 112;
const LEASE_HELD_BYTES: u64 = 256;
/// Bytes in memory for each byte of the quota.
const HELD_FACTOR: u64 = 3;

/// What is counted, and the alarms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Quota {
    /// The quota.
    pub quota_bytes: u64,
    /// What versions count.
    pub versions: Counted,
    /// Bytes in memory for each byte of the quota; `None` as long as there is no bound.
    held_factor: Option<u64>,
    /// The members for which an alarm is raised.
    alarms: BTreeSet<u64>,
}

/// Versions of keys, removals included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    count: u64,
    bytes: u64,
}

impl Counted {
    /// Adds what happened to a key: a pair was put, or the key was removed.
    pub fn add(&mut self, key: &[u8], (revision, sub): (i64, usize), pair: Option<&KeyValue>) {
        let text = |bytes: &[u8]| bytes.len() as u64;
        let place = number_bytes(revision) + number_bytes(sub as i64);
        let of_key = number_bytes(key.len() as i64) + text(key);
        let of_pair = pair.map_or(0, |pair| {
            number_bytes(revision - pair.create_revision)
                + number_bytes(pair.version)
                + number_bytes(pair.lease)
                + text(&pair.value)
        });
        self.count += 1;
        self.bytes += 1 + place + of_key + of_pair;
    }
}

/// Bytes of a number: one for each seven bits.
fn number_bytes(number: i64) -> u64 {
    let bits = 64 - (number as u64).leading_zeros();
    u64::from(bits.max(1).div_ceil(7))
}

impl Default for Quota {
    fn default() -> Quota {
        Quota {
            quota_bytes: QUOTA_BYTES_DEFAULT,
            versions: Counted::default(),
            held_factor: None,
            alarms: BTreeSet::new(),
        }
    }
}

impl Quota {
    /// Bytes that count, with so many leases.
    pub fn bytes(&self, lease_count: usize) -> u64 {
        self.versions.bytes + lease_count as u64 * LEASE_BYTES
    }

    /// Bytes in memory, with so many leases.
    fn held(&self, lease_count: usize) -> u64 {
        self.bytes(lease_count)
            + self.versions.count * VERSION_HELD_BYTES
            + lease_count as u64 * LEASE_HELD_BYTES
    }

    /// The bound on memory begins. A store that takes more than its quota may go on as before.
    pub fn bound(&mut self, lease_count: usize) {
        let (bytes, held) = (self.bytes(lease_count), self.held(lease_count));
        let is_large = held > self.quota_bytes.min(QUOTA_BYTES_DEFAULT);
        let as_it_is = if is_large { held.div_ceil(bytes.max(1)) } else { 0 };
        self.held_factor.get_or_insert(as_it_is.max(HELD_FACTOR));
    }

    /// Whether calls that take space are refused.
    pub fn is_alarmed(&self) -> bool {
        !self.alarms.is_empty()
    }

    /// An operator ends the alarm for a member. Returns whether there was one.
    pub fn disarm(&mut self, member: u64) -> bool {
        self.alarms.remove(&member)
    }

    /// Checks that there is room for what costs so much, and that a client of this member asked
    /// for. A refusal by the quota raises an alarm for the member, and one by the bound does not.
    ///
    /// # Errors
    /// There is no room.
    pub fn check(&mut self, cost: u64, lease_count: usize, member: u64) -> Result<(), Error> {
        if cost == 0 {
            return Ok(());
        }
        if self.bytes(lease_count) + cost >= self.quota_bytes {
            self.alarms.insert(member);
            return Err(Error::NoSpace);
        }
        let held = self.held(lease_count) + cost + LEASE_HELD_BYTES;
        let has_room = |factor: u64| held < self.quota_bytes.saturating_mul(factor);
        if self.held_factor.is_none_or(has_room) { Ok(()) } else { Err(Error::NoSpace) }
    }
}

/// What a call costs before it is done; 0: it takes no space.
pub(super) fn cost_of(op: &Op) -> u64 {
    match op {
        Op::Put(put) => cost_of_put(put),
        Op::Txn(txn) => cost_of_txn(txn),
        Op::Lease(LeaseOp::Grant { .. }) => LEASE_BYTES,
        Op::Range(_) | Op::DeleteRange(_) | Op::Compact(_) | Op::Lease(_) => 0,
    }
}

fn cost_of_put(put: &Put) -> u64 {
    PUT_BYTES + (put.key.len() + put.value.len()) as u64
}

/// The larger one of the two branches, whichever is taken.
fn cost_of_txn(txn: &Txn) -> u64 {
    let cost = |ops: &[TxnOp]| -> u64 {
        let costs = ops.iter().map(|op| match op {
            TxnOp::Put(put) => cost_of_put(put),
            TxnOp::Txn(txn) => cost_of_txn(txn),
            TxnOp::Range(_) | TxnOp::DeleteRange(_) | TxnOp::Empty => 0,
        });
        costs.sum()
    };
    cost(&txn.success).max(cost(&txn.failure))
}

#[cfg(test)]
mod tests;

//! Counts the bytes of the model's store against its quota, and decides which calls are refused for
//! want of space.
//!
//! It follows `storage.BackendQuota` of etcd 3.6, with two differences: a refused call changes
//! nothing, and only versions that can still be read count. Quorate also limits the memory of the
//! store; this limit begins at a command of the committed order ([`Quota::bound`]). `docs/etcd.md`
//! describes the two differences and the limit.

use std::collections::BTreeSet;

use crate::etcd::op::{Error, KeyValue, LeaseOp, Op, Put, Txn, TxnOp};

/// The default quota.
const QUOTA_BYTES_DEFAULT: u64 = 2 << 30;
/// Bytes that a put is charged before it is done, besides its key and value (`storage.kvOverhead`).
const PUT_BYTES: u64 = 256;
/// Bytes that a lease counts (`storage.leaseOverhead`).
const LEASE_BYTES: u64 = 64;
/// Bytes that a version takes in memory, besides those that count against the quota.
const VERSION_HELD_BYTES: u64 = 112;
const LEASE_HELD_BYTES: u64 = 256;
/// How many bytes of memory are allowed for each byte of the quota.
const HELD_FACTOR: u64 = 3;

/// The bytes that count against the quota, and the alarms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Quota {
    /// The quota, in bytes.
    pub quota_bytes: u64,
    /// The versions of keys that count: those that can still be read.
    pub versions: Counted,
    /// How many bytes of memory are allowed for each byte of the quota; `None` while memory is not
    /// limited.
    held_factor: Option<u64>,
    /// The members with a raised alarm.
    alarms: BTreeSet<u64>,
}

/// A count of versions of keys, including deletes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted {
    count: u64,
    bytes: u64,
}

impl Counted {
    /// Adds a change of a key: a put of a pair, or a delete (`None`).
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

/// The encoded size of a number: one byte for each seven bits.
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
    /// Bytes that count against the quota, with this many leases.
    pub fn bytes(&self, lease_count: usize) -> u64 {
        self.versions.bytes + lease_count as u64 * LEASE_BYTES
    }

    /// Bytes that the store takes in memory, with this many leases.
    fn held(&self, lease_count: usize) -> u64 {
        self.bytes(lease_count)
            + self.versions.count * VERSION_HELD_BYTES
            + lease_count as u64 * LEASE_HELD_BYTES
    }

    /// Begins to limit the memory of the store to [`HELD_FACTOR`] times the quota. If the store
    /// already takes more memory than the quota (or than the default quota, if that is lower), the
    /// factor is at least the present ratio of memory to counted bytes, so that the store can go
    /// on.
    pub fn bound(&mut self, lease_count: usize) {
        let (bytes, held) = (self.bytes(lease_count), self.held(lease_count));
        let is_large = held > self.quota_bytes.min(QUOTA_BYTES_DEFAULT);
        let as_it_is = if is_large { held.div_ceil(bytes.max(1)) } else { 0 };
        self.held_factor.get_or_insert(as_it_is.max(HELD_FACTOR));
    }

    /// Whether an alarm is raised, so that calls that take space are refused.
    pub fn is_alarmed(&self) -> bool {
        !self.alarms.is_empty()
    }

    /// Ends a member's alarm. Returns whether there was one.
    pub fn disarm(&mut self, member: u64) -> bool {
        self.alarms.remove(&member)
    }

    /// Checks that there is room for a call with this cost, made by a client of this member. A
    /// refusal by the quota raises an alarm for the member; a refusal by the limit of memory does
    /// not.
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

/// Bytes that a call is charged before it is done; 0 if it takes no space.
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

/// The cost of the more expensive branch, whichever is taken.
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

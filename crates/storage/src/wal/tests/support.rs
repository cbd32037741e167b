//! Helpers for the log's tests: small options, entries and payloads.

use bytes::Bytes;

use crate::error::StorageError;
use crate::fault_disk::FaultDisk;
use crate::limits::SEGMENT_BYTES_MIN;
use crate::wal::{
    EntryKind, HardState, LogEntry, Membership, Recovered, SnapshotPoint, Wal, WalOptions,
};

/// The smallest segments, so that tests cross segment borders often.
pub(crate) fn options() -> WalOptions {
    WalOptions {
        segment_bytes: SEGMENT_BYTES_MIN,
        first_segment_bytes: SEGMENT_BYTES_MIN,
        group: 3,
        spare_count: 1,
    }
}

pub(crate) fn voters(ids: &[u64]) -> Membership {
    Membership { voters: ids.to_vec(), ..Membership::default() }
}

pub(crate) fn hard(term: u64, vote: u64, commit: u64) -> HardState {
    HardState { term, vote, commit }
}

/// An entry whose payload depends on its index and term.
pub(crate) fn entry(index: u64, term: u64, payload_bytes: usize) -> LogEntry {
    let seed = index.wrapping_mul(31).wrapping_add(term.wrapping_mul(17));
    let byte = |at: usize| (seed.wrapping_add(at as u64 * 7) % 251) as u8;
    LogEntry {
        index,
        term,
        kind: match index % 5 {
            0 => EntryKind::MembershipChange,
            _ => EntryKind::Normal,
        },
        payload: (0..payload_bytes).map(byte).collect::<Vec<u8>>().into(),
    }
}

pub(crate) fn born(disk: &FaultDisk) {
    let point = SnapshotPoint { index: 1, term: 1 };
    Wal::create(disk, &options(), hard(1, 0, 1), &voters(&[7]), point).expect("is born");
}

pub(crate) fn open(disk: &FaultDisk) -> Result<(Wal<FaultDisk>, Recovered), StorageError> {
    Wal::open(disk.clone(), options())
}

/// Pseudo-random bytes.
pub(crate) fn noise(seed: u64, count: usize) -> Bytes {
    let mut chance = crate::fault_disk::Chance::new(seed);
    (0..count).map(|_| chance.bits() as u8).collect::<Vec<u8>>().into()
}

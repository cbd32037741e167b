use replica::{Effects, Membership, Replica, Restored};

use super::*;
use crate::order::limits::DISK_STALL_MS;
use crate::snapshot::log_rule::SnapshotLog;

/// A disk without jobs, which stalls after this many ms.
fn new(stall_ms: u64) -> Persisting {
    let (snapshot_commands, snapshot_log) = (u64::MAX, SnapshotLog::Unbounded);
    Persisting::new(&DiskOptions { snapshot_commands, snapshot_log, stall_ms })
}

/// Ids in the order in which a replica assigns them.
fn ids(count: usize) -> Vec<PersistId> {
    let restored = Restored {
        membership: Membership { voters: vec![1], ..Membership::default() },
        snapshot_index: 1,
        snapshot_term: 1,
        applied_index: 1,
        ..Restored::default()
    };
    let mut replica = Replica::new(replica::Config::new(1, 1, 1), restored).unwrap();
    replica.campaign().unwrap();
    let mut ids = Vec::new();
    while ids.len() < count {
        let Effects { persist, .. } = replica.effects();
        if let Some(job) = persist {
            replica.on_persisted(job.id);
            ids.push(job.id);
        } else if !replica.has_effects() {
            replica.propose(bytes::Bytes::from_static(b"x")).unwrap();
        }
    }
    ids
}

/// A disk whose longest wait in each of the last minutes was one of these.
fn usually(worst_ms: &[u64]) -> Persisting {
    let mut persisting = new(DISK_STALL_MS);
    let ids = ids(worst_ms.len());
    for (id, ms) in ids.into_iter().zip(worst_ms) {
        persisting.push(id, 0, None);
        persisting.advance(*ms);
        persisting.on_persisted();
        assert_eq!(persisting.pop(id), Some(id));
        persisting.advance(STALL_MINUTE_MS);
    }
    persisting
}

#[test]
fn a_disk_stalls_after_a_second_unless_it_is_often_that_slow() {
    for (worst_ms, expected) in [
        (&[][..], DISK_STALL_MS),
        (&[2, 3, 5], DISK_STALL_MS),
        // One long stall does not change what is usual, nor do two in five minutes.
        (&[8_000], DISK_STALL_MS),
        (&[8_000, 8_000], DISK_STALL_MS),
        (&[2, 3, 8_000, 8_000], DISK_STALL_MS),
        (&[2, 3, 8_000], DISK_STALL_MS),
        (&[2, 3, 4, 8_000, 8_000], DISK_STALL_MS),
        (&[900, 1_100, 1_000], 2_000),
        (&[60_000, 60_000, 60_000], DISK_STALL_MS_MAX),
        // Stalls of long ago do not count.
        (&[9_000, 9_000, 9_000, 9_000, 1, 1, 1, 1, 1, 1, 1, 1], DISK_STALL_MS),
    ] {
        assert_eq!(usually(worst_ms).stall_ms_min(), expected, "{worst_ms:?}");
    }
}

#[test]
fn a_disk_stalls_as_soon_as_is_configured() {
    for stall_ms in [1, 300, DISK_STALL_MS_MAX] {
        let mut persisting = new(stall_ms);
        persisting.push(ids(1)[0], 0, None);
        persisting.advance(stall_ms - 1);
        assert!(!persisting.is_stalled());
        persisting.advance(1);
        assert!(persisting.is_stalled());
        persisting.advance(stall_ms - 1);
        assert!(!persisting.is_stalled_for_long());
        persisting.advance(1);
        assert!(persisting.is_stalled_for_long());
    }
}

#[test]
fn only_a_disk_that_has_something_to_do_stalls() {
    let ids = ids(3);
    let mut persisting = new(DISK_STALL_MS);
    persisting.push_unsynced(ids[0], None);
    persisting.advance(DISK_STALL_MS);
    assert!(!persisting.is_stalled());
    persisting.push(ids[1], 10, None);
    persisting.push_unsynced(ids[2], None);
    persisting.advance(DISK_STALL_MS - 1);
    assert!(!persisting.is_stalled());
    persisting.advance(1);
    assert!(persisting.is_stalled() && !persisting.is_stalled_for_long());
    persisting.advance(DISK_STALL_MS);
    assert!(persisting.is_stalled_for_long());
    assert_eq!((persisting.awaited_count(), persisting.bytes()), (1, 10));
    persisting.on_persisted();
    assert!(!persisting.is_stalled());
    let popped = [persisting.pop(ids[1]), persisting.pop(ids[1]), persisting.pop(ids[1])];
    assert_eq!(popped, [Some(ids[0]), Some(ids[1]), None]);
    assert_eq!((persisting.pop_unsynced(), persisting.pop_unsynced()), (Some(ids[2]), None));
    assert_eq!((persisting.awaited_count(), persisting.bytes()), (0, 0));
}

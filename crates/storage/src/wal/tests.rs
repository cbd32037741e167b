//! Tests of the log on the disk in memory: what is recovered after every kind of end.

mod crashes;
mod damage;
mod full;
mod space;
pub(crate) mod support;

use bytes::Bytes;

use super::*;
use crate::fault_disk::{FaultDisk, FaultPlan, Operation};
use support::*;

#[test]
fn a_new_log_recovers_to_its_birth() {
    let disk = FaultDisk::new(1);
    born(&disk);
    let (wal, recovered) = open(&disk).expect("opens");
    assert_eq!(recovered.snapshot, SnapshotPoint { index: 1, term: 1 });
    assert_eq!(recovered.hard_state, hard(1, 0, 1));
    assert_eq!(recovered.membership, voters(&[7]));
    assert!(recovered.entries.is_empty());
    assert_eq!(recovered.cut, None);
    assert_eq!(wal.last_index(), 1);
}

#[test]
fn what_was_synced_survives_a_power_cut() {
    for seed in 0..50 {
        let disk = FaultDisk::new(seed);
        born(&disk);
        let (mut wal, _) = open(&disk).expect("opens");
        wal.append(&[entry(2, 1, 10), entry(3, 1, 0)], Some(hard(1, 7, 1)), None).expect("appends");
        let committed = wal.commit().expect("commits");
        assert_eq!(committed.durable_index, 3);
        wal.append(&[entry(4, 1, 2000)], None, Some(voters(&[7, 8]))).expect("appends");
        drop(wal);
        disk.crash();
        let (_, recovered) = open(&disk).expect("opens");
        assert_eq!(recovered.entries, [entry(2, 1, 10), entry(3, 1, 0)]);
        assert_eq!(recovered.hard_state, hard(1, 7, 1));
        assert_eq!(recovered.membership, voters(&[7]));
    }
}

#[test]
fn a_batch_is_one_write_and_one_sync() {
    let disk = FaultDisk::new(1);
    born(&disk);
    let (mut wal, _) = open(&disk).expect("opens");
    let before = disk.ops();
    let entries: Vec<LogEntry> = (2..50).map(|index| entry(index, 1, 100)).collect();
    wal.append(&entries, Some(hard(2, 7, 3)), None).expect("appends");
    wal.commit().expect("commits");
    assert_eq!(disk.ops() - before, 2);
}

#[test]
fn the_log_goes_on_over_many_segments_and_restarts() {
    let disk = FaultDisk::new(1);
    born(&disk);
    let mut expected = Vec::new();
    for round in 0..6 {
        let (mut wal, recovered) = open(&disk).expect("opens");
        assert_eq!(recovered.entries, expected);
        for _ in 0..40 {
            let next = entry(wal.last_index() + 1, 1 + round, 3000);
            wal.append(core::slice::from_ref(&next), None, None).expect("appends");
            wal.commit().expect("commits");
            expected.push(next);
        }
        assert!(wal.segment_count() > 2);
    }
}

#[test]
fn a_batch_that_is_larger_than_a_segment_is_split_and_whole() {
    let disk = FaultDisk::new(1);
    born(&disk);
    let (mut wal, _) = open(&disk).expect("opens");
    let entries: Vec<LogEntry> = (2..100).map(|index| entry(index, 1, 5000)).collect();
    wal.append(&entries, Some(hard(2, 7, 3)), Some(voters(&[7, 8, 9]))).expect("appends");
    wal.commit().expect("commits");
    disk.crash();
    let (_, recovered) = open(&disk).expect("opens");
    assert_eq!(recovered.entries, entries);
    assert_eq!(recovered.hard_state, hard(2, 7, 3));
    assert_eq!(recovered.membership, voters(&[7, 8, 9]));
}

#[test]
fn an_entry_larger_than_a_segment_gets_one_that_is_large_enough() {
    let disk = FaultDisk::new(1);
    born(&disk);
    let (mut wal, _) = open(&disk).expect("opens");
    let large = entry(2, 1, 700_000);
    wal.append(&[large.clone(), entry(3, 1, 1)], None, None).expect("appends");
    wal.commit().expect("commits");
    disk.crash();
    let (_, recovered) = open(&disk).expect("opens");
    assert_eq!(recovered.entries, [large, entry(3, 1, 1)]);
}

#[test]
fn an_entry_at_the_limit_is_taken_and_one_past_it_refused() {
    let disk = FaultDisk::new(1);
    born(&disk);
    let (mut wal, _) = open(&disk).expect("opens");
    let payload = Bytes::from(vec![7; PAYLOAD_BYTES_MAX + 1]);
    let mut large = entry(2, 1, 0);
    large.payload = payload.clone();
    let refused = wal.append(core::slice::from_ref(&large), Some(hard(9, 9, 1)), None);
    assert!(matches!(
        refused,
        Err(StorageError::RecordTooLarge { bytes, bytes_max })
            if bytes == PAYLOAD_BYTES_MAX + 1 && bytes_max == PAYLOAD_BYTES_MAX
    ));
    assert_eq!(wal.hard_state(), hard(1, 0, 1));
    large.payload = payload.slice(..PAYLOAD_BYTES_MAX);
    wal.append(core::slice::from_ref(&large), None, None).expect("appends");
    wal.commit().expect("commits");
    drop(wal);
    disk.crash();
    let (_, recovered) = open(&disk).expect("opens");
    assert_eq!(recovered.entries, [large]);
}

#[test]
fn a_conflicting_entry_truncates_the_tail_across_segments() {
    let disk = FaultDisk::new(3);
    born(&disk);
    let (mut wal, _) = open(&disk).expect("opens");
    let old: Vec<LogEntry> = (2..60).map(|index| entry(index, 1, 4000)).collect();
    wal.append(&old, None, None).expect("appends");
    wal.commit().expect("commits");
    let new = [entry(5, 2, 10), entry(6, 2, 11)];
    wal.append(&new, Some(hard(2, 0, 4)), None).expect("appends");
    assert_eq!(wal.durable_index(), 4);
    assert_eq!(wal.commit().expect("commits").durable_index, 6);
    disk.crash();
    let (mut wal, recovered) = open(&disk).expect("opens");
    let expected = [&old[..3], &new[..]].concat();
    assert_eq!(recovered.entries, expected);
    wal.append(&[entry(7, 2, 1)], None, None).expect("appends");
}

#[test]
fn a_torn_conflict_leaves_the_old_tail_or_the_new_one() {
    let old: Vec<LogEntry> = (2..9).map(|index| entry(index, 1, 700)).collect();
    let new: Vec<LogEntry> = (4..7).map(|index| entry(index, 2, 900)).collect();
    let mut seen = [false; 2];
    for seed in 0..200 {
        let disk = FaultDisk::new(seed);
        born(&disk);
        let (mut wal, _) = open(&disk).expect("opens");
        wal.append(&old, None, None).expect("appends");
        wal.commit().expect("commits");
        disk.set_plan(FaultPlan { stop_at: Some(disk.ops()), ..FaultPlan::default() });
        wal.append(&new, None, None).expect("appends");
        wal.commit().expect_err("the machine goes down");
        disk.crash();
        let (_, recovered) = open(&disk).expect("opens");
        let count = recovered.entries.iter().filter(|it| it.term == 2).count();
        let expected = match count {
            0 => old.clone(),
            count => [&old[..2], &new[..count]].concat(),
        };
        assert_eq!(recovered.entries, expected);
        seen[usize::from(count > 0)] = true;
    }
    assert_eq!(seen, [true; 2]);
}

#[test]
fn an_installed_snapshot_replaces_the_log() {
    for seed in 0..20 {
        let disk = FaultDisk::new(seed);
        born(&disk);
        let (mut wal, _) = open(&disk).expect("opens");
        wal.append(&[entry(2, 1, 10), entry(3, 1, 10)], None, None).expect("appends");
        wal.commit().expect("commits");
        wal.append(&[entry(4, 1, 10)], Some(hard(4, 2, 3)), None).expect("appends");
        wal.install_snapshot(SnapshotPoint { index: 90, term: 4 }, voters(&[1, 2, 3]))
            .expect("installs");
        assert_eq!(wal.segment_count(), 1);
        assert_eq!((wal.last_index(), wal.durable_index()), (90, 90));
        disk.crash();
        let (mut wal, recovered) = open(&disk).expect("opens");
        assert_eq!(recovered.snapshot, SnapshotPoint { index: 90, term: 4 });
        assert_eq!(recovered.hard_state, hard(4, 2, 90));
        assert_eq!(recovered.membership, voters(&[1, 2, 3]));
        assert!(recovered.entries.is_empty());
        wal.append(&[entry(91, 4, 1)], None, None).expect("appends");
        wal.commit().expect("commits");
        disk.crash();
        let (_, recovered) = open(&disk).expect("opens");
        assert_eq!(recovered.entries, [entry(91, 4, 1)]);
    }
}

#[test]
fn every_failed_write_and_sync_poisons_the_log_for_good() {
    for operation in [Operation::Write, Operation::Sync] {
        let disk = FaultDisk::new(1);
        born(&disk);
        let (mut wal, _) = open(&disk).expect("opens");
        disk.set_plan(FaultPlan { fail: vec![(operation, 0)], ..FaultPlan::default() });
        wal.append(&[entry(2, 1, 5)], None, None).expect("appends");
        assert!(matches!(wal.commit(), Err(StorageError::Io { .. })));
        let append = wal.append(&[entry(3, 1, 5)], None, None);
        assert!(matches!(append, Err(StorageError::Poisoned)));
        assert!(matches!(wal.commit(), Err(StorageError::Poisoned)));
        assert!(matches!(wal.idle_mark(), Err(StorageError::Poisoned)));
        let point = SnapshotPoint { index: 2, term: 1 };
        assert!(matches!(wal.release(point), Err(StorageError::Poisoned)));
        let installed = wal.install_snapshot(point, voters(&[1]));
        assert!(matches!(installed, Err(StorageError::Poisoned)));
        assert!(wal.spare_wanted().is_none());
    }
}

#[test]
fn idleness_writes_one_mark_and_then_nothing() {
    let disk = FaultDisk::new(1);
    born(&disk);
    let (mut wal, _) = open(&disk).expect("opens");
    wal.append(&[entry(2, 1, 5)], None, None).expect("appends");
    assert!(wal.idle_mark().expect("marks"));
    assert_eq!(wal.durable_index(), 2);
    let before = disk.ops();
    assert!(!wal.idle_mark().expect("marks"));
    assert_eq!(disk.ops(), before);
}

#[test]
fn a_log_of_another_group_is_refused() {
    let disk = FaultDisk::new(1);
    born(&disk);
    let other = WalOptions { group: 5, ..options() };
    let refused = Wal::open(disk, other).expect_err("is refused");
    assert!(matches!(refused, StorageError::Corrupt { .. }), "{refused}");
}

/// A follower gets a commit index together with an entry that the index covers, and the entry
/// replaces an uncommitted one. If the batch is torn, the old entry must not count as committed.
#[test]
fn a_torn_conflict_leaves_no_old_entry_committed() {
    let old = [entry(2, 1, 700), entry(3, 1, 700)];
    let new = [entry(3, 2, 40_000)];
    let mut seen = [false; 2];
    for seed in 0..200 {
        let disk = FaultDisk::new(seed);
        born(&disk);
        let (mut wal, _) = open(&disk).expect("opens");
        wal.append(&old, None, None).expect("appends");
        wal.commit().expect("commits");
        disk.set_plan(FaultPlan { stop_at: Some(disk.ops() + seed % 4), ..FaultPlan::default() });
        wal.append(&new, Some(hard(2, 0, 3)), None).expect("appends");
        let is_whole = wal.commit().is_ok();
        drop(wal);
        disk.crash();
        let (_, recovered) = open(&disk).expect("opens");
        let is_new = recovered.entries[1] == new[0];
        assert!(is_new || recovered.hard_state.commit < 3, "seed {seed}");
        assert!(!is_whole || (is_new && recovered.hard_state.commit == 3), "seed {seed}");
        seen[usize::from(is_new)] |= is_new || recovered.hard_state.term == 2;
    }
    assert_eq!(seen, [true; 2], "the batch is cut behind the hard state, and is whole");
}

#[test]
fn a_commit_index_beyond_a_cut_is_lowered_and_one_below_the_snapshot_raised() {
    let disk = FaultDisk::new(1);
    born(&disk);
    let (mut wal, _) = open(&disk).expect("opens");
    wal.append(&[entry(2, 1, 5), entry(3, 1, 5)], Some(hard(1, 0, 99)), None).expect("appends");
    wal.commit().expect("commits");
    drop(wal);
    let (mut wal, recovered) = open(&disk).expect("opens");
    assert_eq!(recovered.hard_state.commit, 3);
    wal.append(&[], Some(hard(1, 0, 1)), None).expect("appends");
    wal.release(SnapshotPoint { index: 2, term: 1 }).expect("releases");
    drop(wal);
    let (_, recovered) = open(&disk).expect("opens");
    assert_eq!(recovered.hard_state.commit, 2);
}

#[test]
fn a_membership_over_the_limit_is_refused_and_nothing_is_queued() {
    let disk = FaultDisk::new(1);
    born(&disk);
    let (mut wal, _) = open(&disk).expect("opens");
    let most: Vec<u64> = (0..crate::limits::MEMBERS_MAX as u64).collect();
    let more = [&most[..], &[1]].concat();
    let refused = wal.append(&[entry(2, 1, 1)], None, Some(voters(&more)));
    assert!(matches!(refused, Err(StorageError::RecordTooLarge { .. })));
    assert_eq!(wal.last_index(), 1);
    wal.append(&[entry(2, 1, 1)], None, Some(voters(&most))).expect("appends");
    wal.commit().expect("commits");
    drop(wal);
    let (_, recovered) = open(&disk).expect("opens");
    assert_eq!(recovered.membership, voters(&most));
}

#[test]
fn a_log_recovers_the_same_from_two_identical_disks() {
    let run = || {
        let disk = FaultDisk::new(5);
        born(&disk);
        let (mut wal, _) = open(&disk).expect("opens");
        let entries: Vec<LogEntry> = (2..40).map(|index| entry(index, 1, 3000)).collect();
        wal.append(&entries, Some(hard(2, 1, 1)), None).expect("appends");
        wal.commit().expect("commits");
        disk.paths().iter().map(|path| disk.content(path)).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

//! How segments are made, recycled and released.

use super::*;
use crate::limits::{CARRIED_BYTES_MAX, CARRIED_SHARE, FILE_NUMBER_MAX};
use crate::wal::scan::spare_path;

fn fill(wal: &mut Wal<FaultDisk>, count: u64, payload_bytes: usize) {
    for _ in 0..count {
        let next = entry(wal.last_index() + 1, 1, payload_bytes);
        wal.append(&[next], None, None).expect("appends");
        wal.commit().expect("commits");
    }
}

fn log_count(disk: &FaultDisk) -> usize {
    disk.paths().iter().filter(|path| path.ends_with(".log")).count()
}

fn spare_count(disk: &FaultDisk) -> usize {
    disk.paths().iter().filter(|path| path.ends_with(".spare")).count()
}

fn run(disk: &FaultDisk, wal: &mut Wal<FaultDisk>) {
    while let Some(mut job) = wal.spare_wanted() {
        while !job.step(disk).expect("steps") {}
        wal.adopt_spare(job);
    }
}

#[test]
fn released_segments_are_recycled_up_to_the_limit() {
    let disk = FaultDisk::new(1);
    born(&disk);
    let (mut wal, _) = open(&disk).expect("opens");
    fill(&mut wal, 200, 3000);
    let before = wal.segment_count();
    assert!(before > 8);
    wal.release(SnapshotPoint { index: 150, term: 1 }).expect("releases");
    assert!(wal.segment_count() < before);
    assert_eq!(log_count(&disk), wal.segment_count());
    assert_eq!(spare_count(&disk), options().spare_count + RESERVE_COUNT);
    drop(wal);
    let (_, recovered) = open(&disk).expect("opens");
    let expected: Vec<LogEntry> = (151..=201).map(|index| entry(index, 1, 3000)).collect();
    assert_eq!(recovered.entries, expected);
}

#[test]
fn frames_of_an_older_life_in_a_recycled_segment_are_not_read() {
    for seed in 0..30 {
        let disk = FaultDisk::new(seed);
        born(&disk);
        let (mut wal, _) = open(&disk).expect("opens");
        // Equal sizes, so that old frames lie exactly where new ones would.
        fill(&mut wal, 100, 3000);
        wal.release(SnapshotPoint { index: 101, term: 1 }).expect("releases");
        fill(&mut wal, 5 + seed, 3000);
        let last = wal.last_index();
        wal.append(&[entry(last + 1, 1, 3000)], None, None).expect("appends");
        drop(wal);
        disk.crash();
        let (_, recovered) = open(&disk).expect("opens");
        let expected: Vec<LogEntry> = (102..=last).map(|index| entry(index, 1, 3000)).collect();
        assert_eq!(recovered.entries, expected);
    }
}

#[test]
fn a_release_at_or_below_the_snapshot_writes_nothing() {
    let disk = FaultDisk::new(1);
    born(&disk);
    let (mut wal, _) = open(&disk).expect("opens");
    fill(&mut wal, 10, 10);
    wal.release(SnapshotPoint { index: 5, term: 1 }).expect("releases");
    let before = disk.ops();
    wal.release(SnapshotPoint { index: 5, term: 1 }).expect("releases");
    wal.release(SnapshotPoint { index: 4, term: 1 }).expect("releases");
    assert_eq!(disk.ops(), before);
    assert_eq!(wal.snapshot(), SnapshotPoint { index: 5, term: 1 });
}

#[test]
fn restarts_without_entries_do_not_collect_segments() {
    let disk = FaultDisk::new(1);
    born(&disk);
    let (mut wal, _) = open(&disk).expect("opens");
    fill(&mut wal, 3, 10);
    drop(wal);
    for round in 0..20 {
        let (mut wal, recovered) = open(&disk).expect("opens");
        assert_eq!(recovered.entries.len(), 3);
        assert_eq!(recovered.hard_state.term, round.max(1));
        wal.append(&[], Some(hard(round + 1, 7, 2)), None).expect("appends");
        wal.commit().expect("commits");
        drop(wal);
        disk.crash();
        assert!(log_count(&disk) <= 3, "{:?}", disk.paths());
        assert!(spare_count(&disk) <= options().spare_count + RESERVE_COUNT);
    }
}

#[test]
fn restarts_with_few_entries_do_not_collect_segments() {
    let disk = FaultDisk::new(1);
    born(&disk);
    let mut expected = Vec::new();
    for round in 0..40 {
        let (mut wal, recovered) = open(&disk).expect("opens");
        assert_eq!(recovered.entries, expected);
        assert_eq!(wal.segment_count(), 1);
        let next = entry(wal.last_index() + 1, 1 + round, 10);
        wal.append(core::slice::from_ref(&next), Some(hard(1 + round, 7, 1)), None)
            .expect("appends");
        wal.commit().expect("commits");
        expected.push(next);
        drop(wal);
        disk.crash();
        assert!(log_count(&disk) <= 2, "{:?}", disk.paths());
    }
}

/// A log of one segment, with entries that fill `bytes` bytes.
fn of_entries_bytes(bytes: u64) -> FaultDisk {
    let disk = FaultDisk::new(1);
    born(&disk);
    let (mut wal, _) = open(&disk).expect("opens");
    fill(&mut wal, 1, (bytes - 64) as usize);
    disk
}

#[test]
fn entries_at_the_limit_are_carried_and_a_byte_more_is_not() {
    let bytes_max = SEGMENT_BYTES_MIN / CARRIED_SHARE;
    for (bytes, segment_count) in [(bytes_max, 1), (bytes_max + 1, 2)] {
        let (wal, recovered) = open(&of_entries_bytes(bytes)).expect("opens");
        assert_eq!(recovered.entries.len(), 1);
        assert_eq!(wal.segment_count(), segment_count, "{bytes}");
    }
}

#[test]
fn of_a_large_segment_no_more_is_carried_than_the_limit() {
    let large = WalOptions { first_segment_bytes: 4 * 1024 * 1024, ..options() };
    for (bytes, segment_count) in [(CARRIED_BYTES_MAX, 1), (CARRIED_BYTES_MAX + 1, 2)] {
        let disk = FaultDisk::new(1);
        born(&disk);
        let (mut wal, _) = Wal::open(disk.clone(), large).expect("opens");
        fill(&mut wal, 1, (bytes - 64) as usize);
        drop(wal);
        let (wal, recovered) = Wal::open(disk, large).expect("opens");
        assert_eq!(recovered.entries.len(), 1);
        assert_eq!(wal.segment_count(), segment_count, "{bytes}");
    }
}

/// A log whose last segment starts behind entry 2, so that a start carries nothing over.
fn of_two_segments() -> (FaultDisk, Wal<FaultDisk>) {
    let disk = of_entries_bytes(SEGMENT_BYTES_MIN / 2);
    let (wal, _) = open(&disk).expect("opens");
    assert_eq!(wal.segment_count(), 2);
    (disk, wal)
}

#[test]
fn a_segment_that_rewrites_an_earlier_one_is_kept() {
    for (first, segment_count) in [(2, 3), (3, 2)] {
        let (disk, mut wal) = of_two_segments();
        fill(&mut wal, 4, 10);
        let new: Vec<LogEntry> = (first..first + 2).map(|index| entry(index, 5, 20)).collect();
        wal.append(&new, None, None).expect("appends");
        wal.commit().expect("commits");
        drop(wal);
        let mut expected = vec![entry(2, 1, (SEGMENT_BYTES_MIN / 2 - 64) as usize)];
        expected.retain(|it| it.index < first);
        expected.extend(new);
        for _ in 0..3 {
            let (wal, recovered) = open(&disk).expect("opens");
            assert_eq!(wal.segment_count(), segment_count, "from {first}");
            assert_eq!(recovered.entries, expected, "from {first}");
        }
    }
}

#[test]
fn what_a_snapshot_covers_is_not_carried_nor_the_segments_before_kept() {
    for covered in 2..=6 {
        let (disk, mut wal) = of_two_segments();
        fill(&mut wal, 4, 10);
        wal.release(SnapshotPoint { index: covered, term: 1 }).expect("releases");
        drop(wal);
        for _ in 0..3 {
            disk.crash();
            let (wal, recovered) = open(&disk).expect("opens");
            let expected: Vec<LogEntry> = (covered + 1..=6).map(|it| entry(it, 1, 10)).collect();
            assert_eq!(recovered.entries, expected);
            assert_eq!((wal.segment_count(), log_count(&disk)), (1, 1));
        }
    }
}

#[test]
fn what_was_carried_is_released_and_rewritten_as_anything_else() {
    let (disk, mut wal) = of_two_segments();
    fill(&mut wal, 4, 10);
    drop(wal);
    let (mut wal, _) = open(&disk).expect("opens");
    assert_eq!(wal.segment_count(), 2);
    wal.append(&[entry(5, 2, 7)], None, None).expect("appends");
    wal.release(SnapshotPoint { index: 3, term: 1 }).expect("releases");
    assert_eq!((wal.segment_count(), log_count(&disk)), (1, 1));
    drop(wal);
    disk.crash();
    let (_, recovered) = open(&disk).expect("opens");
    assert_eq!(recovered.entries, [entry(4, 1, 10), entry(5, 2, 7)]);
}

#[test]
fn spares_are_made_in_the_background_and_used() {
    let disk = FaultDisk::new(1);
    born(&disk);
    let (mut wal, _) = open(&disk).expect("opens");
    run(&disk, &mut wal);
    assert!(wal.room().spare_ready);
    assert_eq!(spare_count(&disk), options().spare_count + RESERVE_COUNT);
    let creates_before = disk.paths();
    while wal.room().bytes_before_new_segment > 4000 {
        fill(&mut wal, 1, 3000);
    }
    fill(&mut wal, 2, 3000);
    assert_eq!(wal.segment_count(), 2);
    assert_eq!(spare_count(&disk), options().spare_count + RESERVE_COUNT - 1);
    assert_eq!(disk.paths().len(), creates_before.len());
    run(&disk, &mut wal);
    assert_eq!(spare_count(&disk), options().spare_count + RESERVE_COUNT);
}

#[test]
fn only_one_spare_job_runs_at_a_time_and_a_failed_one_leaves_nothing() {
    let disk = FaultDisk::new(1);
    born(&disk);
    let (mut wal, _) = open(&disk).expect("opens");
    let before = spare_count(&disk);
    let mut job = wal.spare_wanted().expect("one is wanted");
    assert!(wal.spare_wanted().is_none());
    disk.set_plan(FaultPlan { bytes_max: Some(1000), ..FaultPlan::default() });
    assert!(matches!(job.step(&disk), Err(StorageError::DiskFull { .. })));
    wal.abandon_spare(job);
    assert!(!disk.paths().iter().any(|path| path.ends_with(".tmp")));
    let job = wal.spare_wanted().expect("one is wanted again");
    wal.adopt_spare(job);
    assert_eq!(spare_count(&disk), before);
}

#[test]
fn leftover_temporary_files_are_removed_at_open() {
    let disk = FaultDisk::new(1);
    born(&disk);
    disk.set_content("wal/00000000000000aa.tmp", vec![1; 100]);
    disk.set_content("wal/notes.txt", vec![1; 100]);
    open(&disk).expect("opens");
    assert!(!disk.paths().iter().any(|path| path.ends_with(".tmp")));
    assert!(disk.content("wal/notes.txt").is_some());
}

#[test]
fn a_file_with_a_number_that_no_file_of_ours_reaches_is_left_alone() {
    for number in [u64::MAX, u64::MAX - 1, FILE_NUMBER_MAX + 1] {
        for ending in ["log", "spare", "tmp"] {
            let disk = FaultDisk::new(1);
            born(&disk);
            let path = format!("wal/{number:016x}.{ending}");
            disk.set_content(&path, vec![1; 100]);
            for start in 0..3 {
                let (mut wal, recovered) = open(&disk).expect("opens");
                assert_eq!(recovered.entries.len(), start);
                fill(&mut wal, 1, 10);
            }
            assert_eq!(disk.content(&path), Some(vec![1; 100]));
        }
    }
}

#[test]
fn a_log_without_a_number_for_the_next_file_is_refused() {
    let disk = FaultDisk::new(1);
    born(&disk);
    disk.set_content(&spare_path(FILE_NUMBER_MAX), vec![0; 100]);
    let before = disk.paths();
    let refused = open(&disk).map(|(_, recovered)| recovered);
    assert!(matches!(refused, Err(StorageError::Corrupt { .. })), "{refused:?}");
    assert_eq!(disk.paths(), before);
}

#[test]
fn room_shrinks_by_what_is_queued() {
    let disk = FaultDisk::new(1);
    born(&disk);
    let (mut wal, _) = open(&disk).expect("opens");
    let before = wal.room().bytes_before_new_segment;
    wal.append(&[entry(2, 1, 100)], None, None).expect("appends");
    assert_eq!(before - wal.room().bytes_before_new_segment, 64 + 104);
}

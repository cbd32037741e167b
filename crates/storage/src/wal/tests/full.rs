//! Tests what the log takes and refuses on a full disk, and that starts still succeed there.

use super::*;

/// A log on a disk that has no byte left besides what is allocated already.
fn full() -> (FaultDisk, Wal<FaultDisk>) {
    let disk = FaultDisk::new(1);
    born(&disk);
    let (mut wal, _) = open(&disk).expect("opens");
    while let Some(mut job) = wal.spare_wanted() {
        while !job.step(&disk).expect("steps") {}
        wal.adopt_spare(job);
    }
    disk.set_plan(FaultPlan { bytes_max: Some(1), ..FaultPlan::default() });
    (disk, wal)
}

fn fill_up(wal: &mut Wal<FaultDisk>) -> u64 {
    loop {
        let next = entry(wal.last_index() + 1, 1, 3000);
        match wal.append(&[next], Some(hard(1, 7, 1)), None) {
            Ok(()) => drop(wal.commit().expect("commits")),
            Err(StorageError::DiskFull { .. }) => return wal.last_index(),
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn a_full_disk_refuses_entries_before_anything_is_written() {
    let (disk, mut wal) = full();
    let last = fill_up(&mut wal);
    let written = disk.bytes_written();
    let large: Vec<LogEntry> = (last + 1..last + 100).map(|index| entry(index, 1, 3000)).collect();
    let refused = wal.append(&large, Some(hard(8, 8, 8)), None);
    assert!(matches!(refused, Err(StorageError::DiskFull { .. })));
    assert_eq!(disk.bytes_written(), written);
    assert_eq!(wal.hard_state(), hard(1, 7, 1));
    assert_eq!(wal.last_index(), last);
    wal.commit().expect("is not poisoned");
    drop(wal);
    disk.crash();
    let (_, recovered) = open(&disk).expect("opens");
    assert_eq!(recovered.entries.len() as u64, last - 1);
}

#[test]
fn a_full_disk_still_takes_votes_and_snapshots() {
    let (disk, mut wal) = full();
    let last = fill_up(&mut wal);
    for term in 2..1000 {
        wal.append(&[], Some(hard(term, 7, 1)), None).expect("takes the vote");
        wal.commit().expect("commits");
    }
    let before = wal.segment_count();
    let written = disk.bytes_written();
    wal.release(SnapshotPoint { index: last, term: 1 }).expect("releases");
    assert!(disk.bytes_written() > written);
    assert!(wal.segment_count() < before);
    wal.append(&[entry(last + 1, 1, 3000)], None, None).expect("there is room again");
}

#[test]
fn entries_are_taken_again_when_there_is_room_again() {
    let (disk, mut wal) = full();
    let last = fill_up(&mut wal);
    disk.set_plan(FaultPlan::default());
    wal.append(&[entry(last + 1, 1, 3000)], None, None).expect("appends");
    wal.commit().expect("commits");
    drop(wal);
    disk.crash();
    let (_, recovered) = open(&disk).expect("opens");
    assert_eq!(recovered.entries.len() as u64, last);
}

#[test]
fn a_start_on_a_full_disk_uses_the_reserve() {
    let (disk, mut wal) = full();
    let last = fill_up(&mut wal);
    drop(wal);
    disk.crash();
    disk.set_plan(FaultPlan { bytes_max: Some(1), ..FaultPlan::default() });
    for _ in 0..5 {
        let (_, recovered) = match open(&disk) {
            Ok(opened) => opened,
            Err(error) => panic!("{error}: {:?}", disk.paths()),
        };
        assert_eq!(recovered.entries.len() as u64, last - 1);
    }
}

#[test]
fn a_spare_that_finds_no_room_at_any_operation_harms_nothing() {
    let kinds = [
        Operation::Create,
        Operation::Preallocate,
        Operation::Write,
        Operation::Sync,
        Operation::Rename,
    ];
    for kind in kinds {
        let disk = FaultDisk::new(1);
        born(&disk);
        let (mut wal, _) = open(&disk).expect("opens");
        let before = disk.paths();
        disk.set_plan(FaultPlan { full: vec![(kind, 0)], ..FaultPlan::default() });
        let mut job = wal.spare_wanted().expect("one is wanted");
        let failed = loop {
            match job.step(&disk) {
                Ok(is_done) => assert!(!is_done, "{kind:?}: nothing failed"),
                Err(error) => break error,
            }
        };
        assert!(matches!(failed, StorageError::DiskFull { .. }), "{kind:?}: {failed}");
        wal.abandon_spare(job);
        assert_eq!(disk.paths(), before, "{kind:?}");
        wal.append(&[entry(2, 1, 10)], None, None).expect("appends");
        wal.commit().expect("commits");
    }
}

#[test]
fn a_full_disk_allows_any_number_of_starts_that_append_little() {
    let (disk, mut wal) = full();
    let first = fill_up(&mut wal);
    drop(wal);
    disk.set_plan(FaultPlan { bytes_max: Some(0), ..FaultPlan::default() });
    for start in 0..20 {
        let (mut wal, recovered) = match open(&disk) {
            Ok(opened) => opened,
            Err(error) => panic!("start {start}: {error}: {:?}", disk.paths()),
        };
        assert_eq!(recovered.entries.last().map(|it| it.index), Some(first + start));
        // A new leader appends an entry of its term and a hard state.
        wal.append(&[entry(first + start + 1, 2 + start, 0)], Some(hard(2 + start, 7, 1)), None)
            .expect("appends");
        wal.commit().expect("commits");
        assert!(wal.segment_count() <= 5);
        drop(wal);
        disk.crash();
        disk.set_plan(FaultPlan { bytes_max: Some(0), ..FaultPlan::default() });
    }
}

#[test]
fn starts_that_append_and_crash_on_a_full_disk_lose_nothing_and_go_on() {
    let no_room = FaultPlan { bytes_max: Some(0), ..FaultPlan::default() };
    // One start, and the first entry of its term.
    let live = |disk: &FaultDisk, stop_in: Option<u64>| -> Result<u64, StorageError> {
        let stop_at = stop_in.map(|ops| disk.ops() + ops);
        disk.set_plan(FaultPlan { stop_at, ..no_room.clone() });
        let (mut wal, _) = open(disk)?;
        let index = wal.last_index() + 1;
        wal.append(&[entry(index, 1, 100)], None, None)?;
        Ok(wal.commit()?.durable_index)
    };
    let origin = || {
        let disk = full_with_one_spare();
        live(&disk, None).expect("lives");
        disk
    };
    let ops = {
        let disk = origin();
        let before = disk.ops();
        live(&disk, None).expect("lives");
        disk.ops() - before
    };
    for (stop, seed) in (0..ops).flat_map(|stop| (0..20).map(move |seed| (stop, seed))) {
        let disk = origin().fork(seed);
        let mut durable = 2;
        for round in 0..5 {
            let about = format!("stop {stop}, seed {seed}, round {round}");
            match live(&disk, Some((stop + round * (3 + seed)) % (ops + 1))) {
                Ok(index) => durable = index,
                Err(StorageError::Io { .. }) => {}
                Err(error) => panic!("{about}: {error}: {:?}", disk.paths()),
            }
            match (seed + round) % 3 {
                0 => disk.kill(),
                _ => disk.crash(),
            }
        }
        disk.set_plan(no_room.clone());
        let (wal, recovered) = open(&disk).expect("opens");
        assert!(wal.last_index() >= durable, "stop {stop}, seed {seed}");
        let expected: Vec<LogEntry> = (2..=wal.last_index()).map(|it| entry(it, 1, 100)).collect();
        assert_eq!(recovered.entries, expected);
        assert_eq!(wal.segment_count(), 1);
    }
}

#[test]
fn a_start_that_finds_no_room_at_any_operation_loses_nothing() {
    let kinds = [
        Operation::Create,
        Operation::Preallocate,
        Operation::Write,
        Operation::Sync,
        Operation::Rename,
        Operation::SyncDir,
    ];
    // With a reserve, and without one: then the start makes a segment, which takes every kind.
    for (kind, has_spares) in kinds.iter().flat_map(|kind| [(*kind, true), (*kind, false)]) {
        for (nth, seed) in (0..8).flat_map(|nth| (0..4).map(move |seed| (nth, seed))) {
            let about = format!("{kind:?} {nth}, seed {seed}, with spares: {has_spares}");
            let (disk, mut wal) = full();
            disk.set_plan(FaultPlan::default());
            wal.append(&[entry(2, 1, 700)], Some(hard(3, 7, 1)), None).expect("appends");
            wal.commit().expect("commits");
            drop(wal);
            let disk = disk.fork(seed);
            let spares = disk.paths().into_iter().filter(|path| path.ends_with(".spare"));
            spares.filter(|_| !has_spares).for_each(|path| disk.lose_file(&path));
            disk.set_plan(FaultPlan { full: vec![(kind, nth)], ..FaultPlan::default() });
            match open(&disk) {
                Ok(_) | Err(StorageError::DiskFull { .. } | StorageError::Io { .. }) => {}
                Err(error) => panic!("{about}: {error}"),
            }
            match seed {
                0 => disk.kill(),
                _ => disk.crash(),
            }
            let (_, recovered) = open(&disk).unwrap_or_else(|error| panic!("{about}: {error}"));
            assert_eq!(recovered.entries, [entry(2, 1, 700)], "{about}");
            assert_eq!(recovered.hard_state, hard(3, 7, 1), "{about}");
        }
    }
}

/// A log on a full disk with one spare in reserve, which all starts together must share.
fn full_with_one_spare() -> FaultDisk {
    let (disk, wal) = full();
    drop(wal);
    let spares = disk.paths().into_iter().filter(|path| path.ends_with(".spare"));
    spares.skip(1).for_each(|path| disk.lose_file(&path));
    disk
}

#[test]
fn starts_that_crash_on_a_full_disk_do_not_use_it_up() {
    let no_room = FaultPlan { bytes_max: Some(1), ..FaultPlan::default() };
    let ops = {
        let disk = full_with_one_spare();
        disk.set_plan(no_room.clone());
        let before = disk.ops();
        open(&disk).expect("opens");
        disk.ops() - before
    };
    for (stop, seed) in (0..ops).flat_map(|stop| (0..10).map(move |seed| (stop, seed))) {
        let disk = full_with_one_spare().fork(seed);
        for round in 0..4 {
            let stop_at = Some(disk.ops() + (stop + round * 5) % ops);
            disk.set_plan(FaultPlan { stop_at, ..no_room.clone() });
            drop(open(&disk));
            match (seed + round) % 3 {
                0 => disk.kill(),
                _ => disk.crash(),
            }
        }
        disk.set_plan(no_room.clone());
        if let Err(error) = open(&disk) {
            panic!("stop {stop}, seed {seed}: {error}: {:?}", disk.paths());
        }
    }
}

#[test]
fn a_spare_that_was_never_finished_makes_room_for_a_start() {
    let (disk, wal) = full();
    drop(wal);
    let spares = disk.paths().into_iter().filter(|path| path.ends_with(".spare"));
    spares.for_each(|path| disk.lose_file(&path));
    disk.set_content("wal/00000000000000aa.tmp", vec![1; SEGMENT_BYTES_MIN as usize]);
    let paths = disk.paths();
    let used = paths.iter().filter_map(|path| disk.content(path)).map(|it| it.len() as u64).sum();
    disk.set_plan(FaultPlan { bytes_max: Some(used), ..FaultPlan::default() });
    open(&disk).expect("opens");
}

/// A rename may fail on a full disk, because the directory needs a disk block for the new name.
#[test]
fn a_segment_whose_name_finds_no_room_is_waited_for_and_loses_nothing() {
    let disk = FaultDisk::new(1);
    born(&disk);
    let (mut wal, _) = open(&disk).expect("opens");
    disk.set_plan(FaultPlan {
        full: vec![(Operation::Rename, 1), (Operation::Rename, 2)],
        ..FaultPlan::default()
    });
    let mut refused = 0;
    for index in 2..60 {
        wal.append(&[entry(index, 1, 3000)], None, None).expect("appends");
        loop {
            match wal.commit() {
                Ok(committed) => break assert_eq!(committed.durable_index, index),
                Err(StorageError::DiskFull { .. }) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            assert_eq!(wal.durable_index(), index - 1);
        }
    }
    assert_eq!(refused, 2);
    disk.crash();
    let (_, recovered) = open(&disk).expect("opens");
    assert_eq!(recovered.entries.len(), 58);
}

#[test]
fn a_segment_that_cannot_be_kept_as_a_spare_for_want_of_room_is_removed() {
    let (disk, mut wal) = full();
    let last = fill_up(&mut wal);
    let before = wal.segment_count();
    let full = (0..before as u64 - 1).map(|nth| (Operation::Rename, nth)).collect();
    disk.set_plan(FaultPlan { full, ..FaultPlan::default() });
    wal.release(SnapshotPoint { index: last, term: 1 }).expect("releases");
    assert!(before > 1);
    assert_eq!(wal.segment_count(), 1);
    let logs = disk.paths().into_iter().filter(|path| path.ends_with(".log"));
    assert_eq!(logs.count(), 1);
}

fn spare_sizes(disk: &FaultDisk) -> Vec<u64> {
    let spares = disk.paths().into_iter().filter(|path| path.ends_with(".spare"));
    let size = |path: String| disk.content(&path).map_or(0, |bytes| bytes.len() as u64);
    spares.map(size).collect()
}

#[test]
fn a_log_that_yields_room_has_what_it_is_in_and_a_small_reserve() {
    let small = SEGMENT_BYTES_MIN;
    let options = WalOptions { segment_bytes: 4 * small, spare_count: 2, ..support::options() };
    let disk = FaultDisk::new(1);
    born(&disk);
    let (mut wal, _) = Wal::open(disk.clone(), options).expect("opens");
    let run = |wal: &mut Wal<FaultDisk>, spares: usize| {
        while spare_sizes(&disk).len() < spares {
            let mut job = wal.spare_wanted().expect("one is wanted");
            while !job.step(&disk).expect("steps") {}
            wal.adopt_spare(job);
        }
    };
    run(&mut wal, RESERVE_COUNT + 1);
    let mut under_way = wal.spare_wanted().expect("one more is wanted");
    while !under_way.step(&disk).expect("steps") {}
    assert_eq!(spare_sizes(&disk), [small, small, 4 * small, 4 * small]);
    wal.yield_room(true).expect("removes");
    wal.adopt_spare(under_way);
    assert_eq!(spare_sizes(&disk), [small, small]);
    assert!(wal.spare_wanted().is_none());
    // The disk has space, but entries do not get it; votes have the reserve.
    let last = fill_up(&mut wal);
    assert_eq!(wal.segment_count(), 1);
    for term in 2..1000 {
        wal.append(&[], Some(hard(term, 7, 1)), None).expect("takes the vote");
        wal.commit().expect("commits");
    }
    wal.release(SnapshotPoint { index: last, term: 1 }).expect("releases");
    assert!(spare_sizes(&disk).iter().all(|bytes| *bytes == small));
    assert_eq!(fill_up(&mut wal) > last, wal.segment_count() == 1);
    wal.yield_room(false).expect("nothing to do");
    wal.append(&[entry(wal.last_index() + 1, 1, 3000)], None, None).expect("has room again");
    wal.commit().expect("commits");
    run(&mut wal, RESERVE_COUNT + 2);
    disk.crash();
    let (wal, _) = Wal::open(disk, options).expect("opens");
    assert!(wal.last_index() > last);
}

#[test]
fn a_crash_while_the_log_yields_room_loses_nothing() {
    for seed in 0..30 {
        let (disk, mut wal) = full();
        let disk = disk.fork(seed);
        drop(wal);
        (wal, _) = open(&disk).expect("opens");
        let last = wal.last_index();
        wal.append(&[entry(last + 1, 1, 100)], None, None).expect("appends");
        wal.commit().expect("commits");
        wal.yield_room(true).expect("removes");
        wal.append(&[entry(last + 2, 1, 100)], None, None).expect("appends");
        wal.commit().expect("commits");
        drop(wal);
        disk.crash();
        let (wal, _) = open(&disk).expect("opens");
        assert_eq!(wal.last_index(), last + 2);
    }
}

/// The open segment itself may be what fills the disk.
#[test]
fn a_full_segment_that_a_snapshot_covers_is_left_for_one_of_the_reserve() {
    for seed in 0..20 {
        let (disk, mut wal) = full();
        let disk = {
            drop(wal);
            disk.fork(seed)
        };
        (wal, _) = open(&disk).expect("opens");
        disk.set_plan(FaultPlan { bytes_max: Some(1), ..FaultPlan::default() });
        let mut last = 1;
        for _ in 0..10 {
            last = fill_up(&mut wal);
            wal.release(SnapshotPoint { index: last, term: 1 }).expect("releases");
            assert_eq!(wal.segment_count(), 1);
            let room = wal.room();
            assert!(room.bytes_before_new_segment > 3000 || room.spare_ready);
        }
        drop(wal);
        disk.crash();
        let (wal, recovered) = open(&disk).expect("opens");
        assert_eq!((wal.last_index(), wal.snapshot().index), (last, last));
        assert!(recovered.entries.is_empty());
        assert_eq!(recovered.hard_state, hard(1, 7, last));
    }
}

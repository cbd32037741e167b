use super::*;
use crate::fault_disk::{FaultDisk, FaultPlan, Operation};
use crate::record::Membership;
use crate::snapshot::{SNAPSHOT_DIR, SnapshotMeta, SnapshotReader, SnapshotWriter, list};

const ROOM_BYTES: u64 = 100_000;

fn disk() -> FaultDisk {
    let disk = FaultDisk::new(1);
    disk.create_dir(SNAPSHOT_DIR).expect("makes a directory");
    disk.sync_dir("").expect("syncs");
    disk
}

fn kept(disk: &FaultDisk) -> Room<FaultDisk> {
    let mut room = Room::take_over(disk.clone()).expect("nothing is there");
    assert_eq!(room.bytes(), 0);
    room.keep(ROOM_BYTES).expect("there is room");
    room
}

fn bytes(disk: &FaultDisk) -> u64 {
    let content = |path: &String| disk.content(path).map_or(0, |bytes| bytes.len() as u64);
    disk.paths().iter().map(content).sum()
}

/// Leaves no byte of free space on the disk.
fn fill(disk: &FaultDisk) {
    disk.set_plan(FaultPlan { bytes_max: Some(bytes(disk)), ..FaultPlan::default() });
}

fn meta() -> SnapshotMeta {
    SnapshotMeta { index: 7, term: 1, cluster_id: 3, membership: Membership::default() }
}

/// Bytes that do not compress.
fn noise(bytes: usize) -> Vec<u8> {
    let mut chance = crate::fault_disk::Chance::new(5);
    (0..bytes).map(|_| chance.bits() as u8).collect()
}

#[test]
fn a_snapshot_is_written_into_its_room_on_a_disk_without_any_other() {
    for after_a_crash in [false, true] {
        let disk = disk();
        let mut room = kept(&disk);
        fill(&disk);
        let mut writer =
            SnapshotWriter::create_in(&mut room, disk.clone(), &meta()).expect("begins");
        assert_eq!(room.bytes(), 0);
        writer.write_piece(&noise(90_000)).expect("has room");
        let name = writer.finish().expect("ends");
        if after_a_crash {
            disk.crash();
        }
        // The space that the snapshot did not need is free again.
        assert!(bytes(&disk) < 91_000);
        let mut reader = SnapshotReader::open(disk.clone(), &name.name).expect("opens");
        assert_eq!(reader.next_piece().expect("reads"), Some(noise(90_000)));
        assert_eq!(reader.next_piece().expect("reads"), None);
    }
}

#[test]
fn a_snapshot_larger_than_its_room_grows_if_it_can() {
    let disk = disk();
    let mut room = kept(&disk);
    let mut writer = SnapshotWriter::create_in(&mut room, disk.clone(), &meta()).expect("begins");
    writer.write_piece(&noise(150_000)).expect("there is more");
    writer.finish().expect("ends");
    room.keep(ROOM_BYTES).expect("there is room");
    fill(&disk);
    let meta = SnapshotMeta { index: 8, ..meta() };
    let mut writer = SnapshotWriter::create_in(&mut room, disk.clone(), &meta).expect("begins");
    let refused = writer.write_piece(&noise(150_000));
    assert!(matches!(refused, Err(StorageError::DiskFull { .. })));
    writer.abort();
    assert_eq!(list(&disk).expect("lists").len(), 1);
}

#[test]
fn a_start_takes_over_what_was_set_aside() {
    for is_full in [false, true] {
        let disk = disk();
        drop(kept(&disk));
        disk.kill();
        if is_full {
            fill(&disk);
        }
        assert_eq!(Room::take_over(disk.clone()).expect("is there").bytes(), ROOM_BYTES);
        assert_eq!(disk.content(ROOM_FILE).map(|bytes| bytes.len() as u64), Some(ROOM_BYTES));
    }
}

#[test]
fn what_cannot_grow_stays_as_it_is() {
    for operation in [Operation::Preallocate, Operation::Create] {
        let disk = disk();
        let mut room = kept(&disk);
        disk.set_plan(FaultPlan { full: vec![(operation, 0)], ..FaultPlan::default() });
        match operation {
            Operation::Preallocate => {
                let refused = room.keep(ROOM_BYTES + 1);
                assert!(matches!(refused, Err(StorageError::DiskFull { bytes_wanted }) if
                    bytes_wanted == ROOM_BYTES + 1));
                assert_eq!(room.bytes(), ROOM_BYTES);
            }
            _ => {
                let mut room = Room::none(disk.clone());
                let refused = room.keep(ROOM_BYTES + 1);
                assert!(matches!(refused, Err(StorageError::DiskFull { .. })));
                assert_eq!(room.bytes(), 0);
            }
        }
        room.keep(ROOM_BYTES + 1).expect("there is room again");
        assert_eq!(room.bytes(), ROOM_BYTES + 1);
        room.keep(1).expect("there is more already");
        assert_eq!(room.bytes(), ROOM_BYTES + 1);
    }
}

#[test]
fn a_first_room_that_finds_none_leaves_no_file() {
    let disk = disk();
    fill(&disk);
    let mut room = Room::none(disk.clone());
    assert!(matches!(room.keep(1), Err(StorageError::DiskFull { .. })));
    assert!(disk.paths().is_empty());
}

#[test]
fn a_name_that_finds_no_block_costs_neither_room_nor_more_than_the_snapshot() {
    let disk = disk();
    let mut room = kept(&disk);
    disk.set_plan(FaultPlan { full: vec![(Operation::Rename, 0)], ..FaultPlan::default() });
    let refused = SnapshotWriter::create_in(&mut room, disk.clone(), &meta()).map(|_| ());
    assert!(matches!(refused, Err(StorageError::DiskFull { .. })));
    assert_eq!(room.bytes(), ROOM_BYTES);
    SnapshotWriter::create_in(&mut room, disk, &meta()).expect("begins").finish().expect("ends");
}

//! Reads checkpoints that are intact, cut off or changed.

use storage::fault_disk::FaultDisk;

use super::*;
use crate::container::State;
use crate::extents::Extent;

const AT: Position = Position { segment: 3, offset: 8192 };

const START: Start = Start { at: AT, previous: Some(4096) };

fn block() -> Block {
    let mut extents = Extents::default();
    for number in 0..5u32 {
        let at = Position { segment: 2, offset: 4096 * number };
        let extent = Extent::from_record(100 * u64::from(number), at, 100);
        extents.put(extent, &mut |_, _| {});
    }
    // And some extents at unequal distances; one of them is only a part of its record.
    for (number, start) in [(5, 50_000), (6, 60_000), (7, 61_000), (8, 80_000)] {
        let at = Position { segment: 3, offset: start };
        let extent = Extent::from_record(100 * number, at, 100);
        let skip = if number == 8 { 7 } else { 0 };
        extents.put(Extent { skip, body_bytes: 100 + skip, ..extent }, &mut |_, _| {});
    }
    let commit = Commit { at: AT, body_bytes: 7, length: 900, commit_sequence_id: 4 };
    Block { extents, length: 900, commit: Some(commit), is_finalized: true }
}

fn written() -> FaultDisk {
    let disk = FaultDisk::new(1);
    disk.create_dir(INDEX_DIR).expect("makes a directory");
    let mut writer = CheckpointWriter::create(disk.clone(), 9, START).expect("creates");
    for id in 1..=2 {
        writer.put_container(id, Layout::Log, &Index::new(State::Closed, Vec::new(), None));
        writer.put_block(1, &block());
        writer.put_block(2, &Block::default());
        writer.write_piece().expect("writes");
    }
    writer.put_deleted(3);
    writer.finish().expect("finishes").publish().expect("publishes");
    disk
}

fn read(disk: &FaultDisk) -> Result<Vec<String>, String> {
    let mut entries = Vec::new();
    let read = read_checkpoint(disk, 9, AT, &mut |entry| entries.push(format!("{entry:?}")));
    read.expect("is there").map(|start| {
        assert_eq!(start, START);
        entries
    })
}

#[test]
fn what_was_put_in_comes_back() {
    let disk = written();
    assert_eq!(list_checkpoints(&disk).expect("lists"), [AT]);
    let entries = read(&disk).expect("is whole");
    assert_eq!(entries.len(), 7);
    assert_eq!(entries[6], format!("{:?}", Entry::Deleted(3)));
    assert_eq!(entries[1], format!("{:?}", Entry::Block(1, block())));
    assert_eq!(entries[2], format!("{:?}", Entry::Block(2, Block::default())));
}

#[test]
fn a_checkpoint_with_any_bit_changed_or_cut_off_anywhere_is_none() {
    let disk = written();
    let path = checkpoint_path(AT);
    let whole = disk.content(&path).expect("is there");
    for bit in (0..8 * whole.len()).step_by(3) {
        let mut bad = whole.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        disk.set_content(&path, bad);
        assert!(read(&disk).is_err(), "bit {bit}");
    }
    for count in 0..whole.len() {
        disk.set_content(&path, whole[..count].to_vec());
        // The end of a checkpoint is a piece of no bytes, whose head is not all zeros.
        assert!(read(&disk).is_err(), "{count} bytes");
    }
}

#[test]
fn a_checkpoint_of_another_store_or_position_is_none() {
    let disk = written();
    let read = |store_id, at| read_checkpoint(&disk, store_id, at, &mut |_| {});
    assert!(read(8, AT).expect("is there").is_err());
    let other = Position { segment: 3, offset: 4096 };
    disk.set_content(
        &checkpoint_path(other),
        disk.content(&checkpoint_path(AT)).expect("is there"),
    );
    assert!(read(9, other).expect("is there").is_err());
}

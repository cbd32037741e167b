//! What a start makes of a data directory that is not as a clean end leaves it.

use storage::fault_disk::FaultDisk;
use storage::wal::LogEntry;

use super::*;
use crate::image_writer::ImageWriter;
use crate::message::{FromSnapshot, SnapshotJob};

const SECRET: [u8; 32] = [7; 32];

fn found(disk: &FaultDisk) -> Recovered<FaultDisk> {
    let options = WalOptions { segment_bytes: 256 * 1024, ..WalOptions::default() };
    let skipped = &mut Vec::new();
    let found = recover(disk, &SECRET, options, |error| skipped.push(error.to_string()));
    found.unwrap_or_else(|error| panic!("{error}, {skipped:?}"))
}

fn options() -> Options {
    let settings = Settings::default();
    Options {
        settings,
        containers: Default::default(),
        tick_ms: 2_000,
        raft_tick_ms: 100,
        snapshot_commands: 10,
        snapshot_log_bytes: None,
    }
}

/// A durable snapshot of the empty state at an index and term.
fn write_snapshot(disk: &FaultDisk, found: &Recovered<FaultDisk>, index: u64, term: u64) {
    let mut image = ImageWriter::new(disk.clone(), found.dir.identity().cluster_id);
    let membership = Membership { voters: vec![found.origin.member.0], ..Membership::default() };
    let mut machine = Machine::default();
    (2..=index).for_each(|index| machine.finish_entry(LogIndex(index)));
    machine.freeze();
    let FreezeStep::Last(piece) = machine.freeze_step(usize::MAX, u32::MAX) else {
        panic!("an empty state is one piece");
    };
    let zxid = machine::Zxid(0);
    image.handle(SnapshotJob::Begin { number: 1, index, term, membership, zxid });
    image.handle(SnapshotJob::Piece(piece));
    let output = image.handle(SnapshotJob::Finish);
    assert_eq!(output.report, Some(FromSnapshot::Finished { index, term }));
    assert!(output.problems.is_empty());
}

fn append(found: &mut Recovered<FaultDisk>, index: u64, term: u64) {
    let kind = storage::wal::EntryKind::Normal;
    let entry = LogEntry { index, term, kind, payload: bytes::Bytes::new() };
    let hard_state = HardState { term, vote: 0, commit: index - 1 };
    found.wal.append(&[entry], Some(hard_state), None).unwrap();
    found.wal.commit().unwrap();
}

#[test]
fn an_empty_directory_is_born_once_and_each_start_is_counted() {
    let disk = FaultDisk::new(1);
    let first = found(&disk);
    assert!(first.is_new);
    let origin = first.origin;
    drop(first);
    let second = found(&disk);
    assert!(!second.is_new);
    assert_eq!(second.origin.member, origin.member);
    assert_eq!(second.origin.boot.0, origin.boot.0 + 1);
}

/// The last batch was applied and is in a snapshot; its frames, which no mark covers yet, are
/// damaged and count as torn.
#[test]
fn a_log_that_ends_before_the_snapshot_goes_on_behind_it() {
    for (log_term, snapshot_term) in [(3, 3), (3, 5)] {
        let disk = FaultDisk::new(1);
        let mut before = found(&disk);
        append(&mut before, 2, log_term);
        write_snapshot(&disk, &before, 7, snapshot_term);
        drop(before);
        let mut after = found(&disk);
        assert_eq!(after.log_ended, Some(2));
        assert_eq!((after.wal.last_index(), after.restored.entries.len()), (7, 0));
        assert_eq!(after.restored.hard_state.term, snapshot_term);
        assert_eq!(after.restored.hard_state.commit, 7);
        append(&mut after, 8, snapshot_term);
        drop(after);
        disk.crash();
        let last = found(&disk);
        assert_eq!(last.log_ended, None);
        assert_eq!(last.restored.entries.len(), 1);
        let started = start(last.origin, &last.machine, last.restored, options());
        started.expect("nothing contradicts itself");
    }
}

#[test]
fn a_snapshot_that_cannot_be_read_is_replaced_by_the_one_before_and_the_log() {
    let disk = FaultDisk::new(1);
    let mut before = found(&disk);
    for index in 2..10 {
        append(&mut before, index, 1);
    }
    write_snapshot(&disk, &before, 5, 1);
    drop(before);
    let path = disk.paths().into_iter().find(|path| path.contains("0000000005-")).unwrap();
    let mut bytes = disk.content(&path).unwrap();
    bytes[100] ^= 1;
    disk.set_content(&path, bytes);
    let after = found(&disk);
    assert_eq!((after.restored.snapshot_index, after.restored.entries.len()), (1, 8));
}

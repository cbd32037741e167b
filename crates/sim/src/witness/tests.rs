//! The witness notices what a member must not do with entries it has handed over.

use machine::entry::{BatchBuilder, encode_identities};
use machine::{BootId, ConnectionId, LogIndex, MemberId, Ordinal, Origin};
use storage::disk::Disk;

use super::*;

fn entry(index: u64, payload: &'static [u8]) -> Entry {
    Entry { index, term: 2, kind: EntryKind::Normal, payload: Bytes::from_static(payload) }
}

/// A disk on which a sync covers entry 2.
fn disk() -> SimDisk {
    let disk = SimDisk::new(1, false);
    let file = disk.create("log").unwrap();
    disk.announce(2, &Bytes::from_static(b"two"));
    disk.write_at(&file, 0, b"two").unwrap();
    disk.sync_data(&file).unwrap();
    disk
}

#[test]
fn an_entry_that_no_sync_covers_must_not_be_applied() {
    let (disk, mut witness) = (disk(), Witness::new(true));
    assert_eq!(witness.on_committed(&[entry(2, b"two")], &disk, 0), Ok(()));
    disk.announce(3, &Bytes::from_static(b"three"));
    let refused = witness.on_committed(&[entry(3, b"three")], &disk, 0);
    assert_eq!(refused, Err("entry 3 is applied before a sync covers it".to_string()));
}

#[test]
fn an_applied_entry_stays_what_it_was() {
    let (disk, mut witness) = (disk(), Witness::new(true));
    witness.on_committed(&[entry(2, b"two")], &disk, 0).unwrap();
    assert!(witness.on_start(1, &[entry(2, b"two")], 0).is_ok());
    assert!(witness.on_start(1, &[entry(2, b"other")], 0).is_err());
    assert!(witness.on_committed(&[entry(2, b"other")], &disk, 0).is_err());
}

#[test]
fn an_applied_entry_is_there_after_a_restart() {
    let (disk, mut witness) = (disk(), Witness::new(true));
    witness.on_committed(&[entry(2, b"two")], &disk, 0).unwrap();
    assert!(witness.on_start(2, &[], 0).is_ok());
    assert!(witness.on_start(1, &[], 0).is_err());
}

/// Entry 2 with as many commands as asked.
fn handed(command_count: usize) -> Witness {
    let mut builder = BatchBuilder::default();
    let nobody = encode_identities([].into_iter());
    for _ in 0..command_count {
        let command = Command::ExpireSessions { sessions: Vec::new() };
        builder.push(ConnectionId(0), &nobody, &command);
    }
    let origin = Origin { member: MemberId(1), boot: BootId(1) };
    let payload = entry::encode(0, 0, &[builder.finish().stamp(origin, 1)]);
    let mut witness = Witness::new(true);
    let disk = SimDisk::new(1, false);
    let file = disk.create("log").unwrap();
    disk.announce(2, &payload);
    disk.write_at(&file, 0, &payload).unwrap();
    disk.sync_data(&file).unwrap();
    let entry = Entry { index: 2, term: 2, kind: EntryKind::Normal, payload };
    witness.on_committed(&[entry], &disk, 0).unwrap();
    witness
}

#[test]
fn a_member_is_not_ready_before_it_has_applied_what_was_committed_in_earlier_lives() {
    let mut witness = handed(1);
    assert!(witness.on_ready(1, 0).is_ok());
    witness.on_start(2, &[], 0).unwrap();
    assert!(witness.on_ready(2, 0).is_ok());
    assert!(witness.on_ready(1, 0).is_err());
}

#[test]
fn a_sync_is_not_answered_before_what_was_committed_is_applied() {
    let witness = handed(3);
    assert_eq!((witness.newest_index(), witness.ordinal_at(2)), (2, 3));
    assert!(witness.check_sync(1, 0).is_ok());
    assert!(witness.check_sync(2, 3).is_ok());
    assert!(witness.check_sync(2, 2).is_err());
}

#[test]
fn a_snapshot_is_the_state_at_the_end_of_its_entry() {
    let witness = handed(3);
    let counters = |index, ordinal| Counters {
        index: LogIndex(index),
        ordinal: Ordinal(ordinal),
        ..Counters::default()
    };
    assert!(witness.check_snapshot(2, counters(2, 3)).is_ok());
    assert!(witness.check_snapshot(2, counters(2, 2)).is_err());
    assert!(witness.check_snapshot(2, counters(1, 3)).is_err());
}

#[test]
fn clients_can_attach_while_the_member_is_ready_and_its_disk_is_not_full() {
    let mut witness = handed(1);
    witness.on_start(2, &[], 5).unwrap();
    assert!(witness.is_shut_between(5, 9));
    witness.on_ready(2, 10).unwrap();
    assert!(!witness.is_shut_between(5, 10));
    witness.on_room(true, 20);
    assert!(witness.is_shut_between(20, 24));
    assert!(!witness.is_shut_between(19, 24));
    witness.on_room(false, 25);
    assert!(!witness.is_shut_between(20, 25));
    witness.on_start(2, &[], 40).unwrap();
    witness.on_room(false, 45);
    assert!(witness.is_shut_between(45, 50));
    assert_eq!(witness.opened_us().collect::<Vec<_>>(), [10, 25]);
}

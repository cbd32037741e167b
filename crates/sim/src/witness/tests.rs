//! The witness notices what a member must not do with entries it has handed over.

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
    assert!(witness.on_start(1, &[entry(2, b"two")]).is_ok());
    assert!(witness.on_start(1, &[entry(2, b"other")]).is_err());
    assert!(witness.on_committed(&[entry(2, b"other")], &disk, 0).is_err());
}

#[test]
fn an_applied_entry_is_there_after_a_restart() {
    let (disk, mut witness) = (disk(), Witness::new(true));
    witness.on_committed(&[entry(2, b"two")], &disk, 0).unwrap();
    assert!(witness.on_start(2, &[]).is_ok());
    assert!(witness.on_start(1, &[]).is_err());
}

//! The watch counts an entry as synced only after its bytes were written and then synced.

use super::*;

fn watched() -> (SimDisk, SimFile) {
    let disk = SimDisk::new(1, false);
    let file = disk.create("log").unwrap();
    disk.announce(5, &Bytes::from_static(b"the payload"));
    (disk, file)
}

#[test]
fn a_written_entry_is_not_synced_before_the_sync() {
    let (disk, file) = watched();
    assert!(!disk.is_synced(5));
    disk.write_at(&file, 0, b"head the payload tail").unwrap();
    assert!(!disk.is_synced(5));
    disk.sync_data(&file).unwrap();
    assert!(disk.is_synced(5));
}

#[test]
fn a_sync_before_the_write_or_of_another_file_does_not_count() {
    let (disk, file) = watched();
    let other = disk.create("other").unwrap();
    disk.sync_data(&file).unwrap();
    disk.write_at(&file, 0, b"the payload").unwrap();
    disk.sync_data(&other).unwrap();
    assert!(!disk.is_synced(5));
}

#[test]
fn a_sync_that_fails_does_not_count() {
    let (disk, file) = watched();
    disk.write_at(&file, 0, b"the payload").unwrap();
    disk.change_plan(|plan| plan.fail.push((storage::fault_disk::Operation::Sync, 0)));
    assert!(disk.sync_data(&file).is_err());
    assert!(!disk.is_synced(5));
}

#[test]
fn a_loss_of_power_takes_what_was_only_written() {
    let (disk, file) = watched();
    disk.write_at(&file, 0, b"the payload").unwrap();
    disk.end_life(true);
    let file = disk.create("log").unwrap();
    disk.sync_data(&file).unwrap();
    assert!(!disk.is_synced(5));
}

#[test]
fn an_entry_that_replaces_another_is_watched_anew() {
    let (disk, file) = watched();
    disk.write_at(&file, 0, b"the payload").unwrap();
    disk.sync_data(&file).unwrap();
    disk.announce(5, &Bytes::from_static(b"another"));
    assert!(!disk.is_synced(5));
}

#[test]
fn a_part_is_found_wherever_it_is() {
    let bytes: Vec<u8> = (0..40).map(|at| at % 11).collect();
    for from in 0..bytes.len() {
        for to in from + 1..=bytes.len() {
            assert!(holds(&bytes, &bytes[from..to]), "{from} to {to}");
        }
    }
    for length in 1..=41 {
        assert!(!holds(&bytes, &vec![9; length + 1]));
    }
    assert!(!holds(&bytes[..7], &bytes[..8]));
}

use super::*;
use crate::datadir::{self, Opened};
use crate::fault_disk::FaultDisk;
use crate::record::{EntryKind, LogEntry, Membership};
use crate::snapshot::{SnapshotMeta, SnapshotWriter};
use crate::wal::{Wal, WalOptions};

fn options() -> WalOptions {
    WalOptions {
        segment_bytes: 64 * 1024,
        first_segment_bytes: 64 * 1024,
        group: 4,
        spare_count: 1,
    }
}

/// A directory with several segments, and only the first snapshot.
fn lived() -> FaultDisk {
    let disk = FaultDisk::new(1);
    let Ok(Opened::Empty(empty)) = datadir::open(disk.clone()) else {
        panic!("it is empty");
    };
    let identity = Identity { cluster_id: 5, member_id: 6 };
    let pieces = [b"image".to_vec()];
    let dir = empty
        .birth(identity, &Membership::default(), (crate::datadir::BIRTH_POINT, &pieces), &options())
        .expect("born");
    dir.next_boot().expect("counts");
    let (mut wal, _) = Wal::open(disk.clone(), options()).expect("opens");
    for index in 2..60 {
        let entry = LogEntry {
            index,
            term: 3,
            kind: EntryKind::Normal,
            payload: vec![index as u8; 3000].into(),
        };
        wal.append(&[entry], None, None).expect("appends");
        wal.commit().expect("commits");
    }
    disk
}

fn report(disk: &FaultDisk) -> Report {
    inspect(disk, &mut |_| Ok(()))
}

#[test]
fn a_sound_directory_is_told_so_and_not_changed() {
    let disk = lived();
    let (ops, paths) = (disk.ops(), disk.paths());
    let mut seen = Vec::new();
    let report = inspect(&disk, &mut |entry| {
        assert_eq!((entry.kind, entry.term), (0, 3));
        assert_eq!(entry.payload, vec![entry.index as u8; 3000]);
        seen.push(entry.index);
        Ok(())
    });
    assert!(report.is_sound(), "{report}");
    assert_eq!(seen, (2..60).collect::<Vec<u64>>());
    assert_eq!((disk.ops(), disk.paths()), (ops, paths));
    assert_eq!(report.boot, Some(1));
    assert_eq!(report.last_index, Some(59));
    assert!(report.segments.len() > 2);
    assert_eq!(report.segments[0].entries.map(|(first, _)| first), Some(2));
    assert!(report.segments[0].is_sealed);
    let text = report.to_string();
    for line in ["cluster 00000000000000000000000000000005 member 6", "boot 1", "\nsound\n"] {
        assert!(text.contains(line), "{text}");
    }
}

#[test]
fn a_payload_that_the_caller_refuses_is_a_problem() {
    let report = inspect(&lived(), &mut |entry| match entry.index {
        30 => Err("it makes no sense".to_owned()),
        _ => Ok(()),
    });
    assert_eq!(report.problems.len(), 1);
    assert!(report.problems[0].contains("entry 30"), "{report}");
}

#[test]
fn the_log_can_be_read_alone() {
    let disk = lived();
    let snapshot = format!("snapshots/{}", snapshot::snapshot_name(1, 1));
    disk.lose_file(&snapshot);
    let mut seen = Vec::new();
    let report = inspect_log(&disk, &mut |entry| {
        seen.push(entry.index);
        Ok(())
    });
    assert!(report.is_sound(), "{report}");
    assert_eq!(seen, (2..60).collect::<Vec<u64>>());
    assert_eq!(report.identity, Some(Identity { cluster_id: 5, member_id: 6 }));
    assert_eq!((report.last_index, report.snapshots.len()), (Some(59), 0));
    assert!(!self::report(&disk).is_sound(), "the snapshot is missing");
}

#[test]
fn damage_in_several_places_is_found_in_one_run() {
    let disk = lived();
    let logs = report(&disk).segments;
    for segment in &logs[..2] {
        let path = log_path(segment.sequence);
        let mut bytes = disk.content(&path).expect("is there");
        bytes[20_000] ^= 1;
        disk.set_content(&path, bytes);
    }
    disk.set_content("identity", vec![1, 2, 3]);
    let snapshot = format!("snapshots/{}", snapshot::snapshot_name(1, 1));
    let mut bytes = disk.content(&snapshot).expect("is there");
    bytes[30] ^= 1;
    disk.set_content(&snapshot, bytes);
    let report = report(&disk);
    assert!(!report.is_sound());
    // The identity, two segments, the snapshot, and the fact that no sound snapshot is left.
    assert_eq!(report.problems.len(), 5, "{report}");
    assert!(report.to_string().contains("NOT SOUND"));
}

#[test]
fn a_torn_tail_is_shown_and_is_no_fault() {
    let disk = lived();
    let last = report(&disk).segments.pop().expect("there are segments");
    let path = log_path(last.sequence);
    let mut bytes = disk.content(&path).expect("is there");
    let at = last.end as usize - 100;
    bytes[at] ^= 1;
    disk.set_content(&path, bytes);
    let report = report(&disk);
    assert!(report.is_sound(), "{report}");
    let tail = report.segments.last().and_then(|it| it.tail.clone()).expect("is torn");
    assert_eq!(tail.offset + tail.bytes, last.end);
    assert!(report.to_string().contains("torn"));
}

#[test]
fn an_empty_directory_is_not_sound_and_does_not_panic() {
    let report = report(&FaultDisk::new(1));
    assert!(!report.is_sound());
    assert!(report.segments.is_empty());
}

#[test]
fn a_snapshot_that_was_received_is_verified_whoever_wrote_it() {
    let disk = lived();
    let other = {
        let meta = SnapshotMeta { index: 9, term: 2, cluster_id: 77, membership: one_voter() };
        let mut writer = SnapshotWriter::create(disk.clone(), &meta).expect("creates");
        writer.write_piece(b"image").expect("writes");
        let name = writer.finish().expect("finishes").name;
        let path = format!("{}/{name}", snapshot::SNAPSHOT_DIR);
        let bytes = disk.content(&path).expect("it was just written");
        disk.lose_file(&path);
        bytes
    };
    let path = format!("{}/{RECEIVED_NAME}", snapshot::SNAPSHOT_DIR);
    disk.set_content(&path, other.clone());
    let found = report(&disk);
    assert!(found.is_sound(), "{found}");
    assert_eq!(found.snapshots.last().map(|it| &*it.name), Some(RECEIVED_NAME));
    let mut changed = other;
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    disk.set_content(&path, changed);
    let found = report(&disk);
    assert!(found.problems[0].contains("received.snap is corrupt"), "{found}");
}

fn one_voter() -> Membership {
    Membership { voters: vec![6], ..Membership::default() }
}

#[test]
fn an_unborn_directory_with_a_draft_is_sound_and_one_that_lost_its_identity_is_not() {
    let disk = FaultDisk::new(1);
    let Ok(Opened::Empty(empty)) = datadir::open(disk.clone()) else { panic!("it is empty") };
    let draft = empty.draft(6).expect("drafts");
    let found = report(&disk);
    assert!(found.is_sound(), "{found}");
    assert!(found.to_string().contains("member 6 of no cluster yet"), "{found}");
    let disk = lived();
    disk.set_content(DRAFT_FILE, datadir::encode_draft(&draft));
    assert!(report(&disk).is_sound());
    disk.lose_file(IDENTITY_FILE);
    let found = report(&disk);
    assert!(!found.is_sound());
    assert_eq!(found.draft, None);
}

#[test]
fn the_first_voters_and_what_was_set_aside_are_shown() {
    let disk = lived();
    datadir::set_aside(disk.clone()).expect("moves");
    let Ok(Opened::Empty(empty)) = datadir::open(disk.clone()) else { panic!("it is empty") };
    let membership = Membership { voters: vec![6, 7], ..Membership::default() };
    let identity = Identity { cluster_id: 5, member_id: 6 };
    drop(
        empty
            .birth(
                identity,
                &membership,
                (crate::datadir::BIRTH_POINT, &[b"image".to_vec()]),
                &options(),
            )
            .expect("born"),
    );
    let found = report(&disk);
    assert!(found.is_sound(), "{found}");
    let text = found.to_string();
    assert!(text.contains("first voters [6, 7]"), "{text}");
    assert!(text.contains("note: set-aside-1 holds what was set aside"), "{text}");
    let mut bytes = disk.content(BIRTH_FILE).expect("is there");
    bytes[20] ^= 1;
    disk.set_content(BIRTH_FILE, bytes);
    assert!(report(&disk).problems[0].contains("birth is corrupt"));
}

use super::*;
use crate::datadir::{
    BIRTH_POINT, BOOT_FILE, GIVEN_BIRTH_POINT, Opened, SET_ASIDE_PREFIX, open, open_to_read,
};
use crate::fault_disk::{FaultDisk, FaultPlan};
use crate::record::LogEntry;
use crate::snapshot;
use crate::wal::{EntryKind, Wal};

const OLD: Identity = Identity { cluster_id: 5, member_id: 6 };
const NEW: Identity = Identity { cluster_id: 8, member_id: 9 };

/// Options with small segments.
const OPTIONS: WalOptions = WalOptions {
    segment_bytes: 64 * 1024,
    first_segment_bytes: 64 * 1024,
    group: 0,
    spare_count: 1,
};

/// A directory of three members with some entries in its log, which has been started.
fn used() -> FaultDisk {
    let disk = FaultDisk::new(1);
    let Ok(Opened::Empty(empty)) = open(disk.clone()) else { panic!("it is empty") };
    let membership = Membership { voters: vec![6, 7, 8], ..Membership::default() };
    let dir = empty
        .birth(OLD, &membership, (BIRTH_POINT, &[b"old".to_vec()]), &OPTIONS)
        .expect("is born");
    dir.next_boot().expect("counts");
    let (mut wal, _) = Wal::open(disk.clone(), OPTIONS).expect("opens");
    let payload = bytes::Bytes::from_static(b"an entry");
    let entry = LogEntry { index: 2, term: 1, kind: EntryKind::Normal, payload };
    wal.append(&[entry], None, None).expect("appends");
    wal.commit().expect("commits");
    disk
}

fn begin_anew(disk: &FaultDisk) -> Result<String, StorageError> {
    open_to_read(disk)?.begin_anew(
        disk,
        NEW,
        (GIVEN_BIRTH_POINT, &[b"one".to_vec(), b"two".to_vec()]),
    )
}

/// The directory's identity, the last index of its log, and the pieces of its newest snapshot.
fn found(disk: &FaultDisk) -> (Identity, u64, Vec<Vec<u8>>) {
    let Ok(Opened::Existing(dir)) = open(disk.clone()) else { panic!("it is born") };
    dir.next_boot().expect("counts");
    let (wal, _) = Wal::open(disk.clone(), OPTIONS).expect("opens");
    let name = snapshot::list(disk).expect("lists").pop().expect("there is one").name;
    let mut reader = SnapshotReader::open(disk.clone(), &name).expect("opens");
    let mut pieces = Vec::new();
    while let Some(piece) = reader.next_piece().expect("it is sound") {
        pieces.push(piece);
    }
    (dir.identity(), wal.last_index(), pieces)
}

fn old() -> (Identity, u64, Vec<Vec<u8>>) {
    (OLD, 2, vec![b"old".to_vec()])
}

fn new() -> (Identity, u64, Vec<Vec<u8>>) {
    (NEW, 2, vec![b"one".to_vec(), b"two".to_vec()])
}

#[test]
fn the_new_content_takes_the_place_of_the_old() {
    let disk = used();
    assert_eq!(begin_anew(&disk).expect("the disk is sound"), "set-aside-1");
    let kept = disk.paths().into_iter().filter(|path| path.starts_with(SET_ASIDE_PREFIX));
    assert!(kept.clone().any(|path| path == "set-aside-1/identity"));
    assert!(kept.clone().any(|path| path.starts_with("set-aside-1/wal/")));
    assert!(!disk.paths().contains(&SUCCESSOR_FILE.to_string()));
    disk.crash();
    assert_eq!(found(&disk), new());
    // A second time there is other content to set aside.
    assert_eq!(begin_anew(&disk).expect("the disk is sound"), "set-aside-2");
}

/// After a crash at each operation, by a kill or by a loss of power, a start finds all of the old
/// content or all of the new.
#[test]
fn after_a_crash_at_each_operation_it_is_the_one_or_the_other() {
    let whole = used();
    begin_anew(&whole).expect("the disk is sound");
    let (mut old_count, mut new_count) = (0, 0);
    let begun = used().ops();
    for op in begun..whole.ops() {
        for power_is_cut in [false, true] {
            let disk = used();
            disk.set_plan(FaultPlan { stop_at: Some(op), ..FaultPlan::default() });
            begin_anew(&disk).expect_err("the disk stops");
            match power_is_cut {
                true => disk.crash(),
                false => disk.kill(),
            }
            // A second crash in the start that completes it.
            let again = disk.fork(op);
            let stop_at = Some(again.ops() + op % 7);
            again.set_plan(FaultPlan { stop_at, ..FaultPlan::default() });
            drop(open(again.clone()));
            again.crash();
            let states = [&disk, &again].map(found);
            for state in states {
                assert!(state == old() || state == new(), "operation {op}: {state:?}");
                old_count += usize::from(state == old());
                new_count += usize::from(state == new());
            }
        }
    }
    assert!(old_count > 10 && new_count > 10, "{old_count} old, {new_count} new");
}

/// The old content is set aside, and the new cannot be read: no start begins empty.
#[test]
fn a_damaged_successor_is_named_and_kept() {
    let disk = used();
    let pieces = [b"one".to_vec()];
    open_to_read(&disk)
        .expect("opens")
        .begin_anew(&disk, NEW, (GIVEN_BIRTH_POINT, &pieces))
        .expect("the disk is sound");
    let before = used();
    let mut stop = before.ops();
    let damaged = loop {
        let disk = used();
        disk.set_plan(FaultPlan { stop_at: Some(stop), ..FaultPlan::default() });
        drop(open_to_read(&disk).expect("opens").begin_anew(
            &disk,
            NEW,
            (GIVEN_BIRTH_POINT, &pieces),
        ));
        disk.kill();
        let paths = disk.paths();
        let has = |name: &str| paths.iter().any(|path| path == name);
        if has(SUCCESSOR_FILE) && !has(IDENTITY_FILE) && !has(BOOT_FILE) {
            break disk;
        }
        stop += 1;
    };
    let sound = damaged.content(SUCCESSOR_FILE).expect("it is there");
    for at in 0..sound.len() {
        let mut bytes = sound.clone();
        bytes[at] ^= 1;
        damaged.set_content(SUCCESSOR_FILE, bytes);
        let error = open(damaged.clone()).expect_err("it is damaged").to_string();
        assert!(error.contains(SUCCESSOR_FILE), "byte {at}: {error}");
        assert!(!damaged.paths().contains(&IDENTITY_FILE.to_string()));
    }
    damaged.set_content(SUCCESSOR_FILE, sound);
    assert_eq!(found(&damaged).0, NEW);
}

//! Tests of damage: every file of a data directory is removed, emptied, cut off, and has bits
//! flipped.
//!
//! After a start, all acknowledged entries must be there; or the start must fail, name the file and
//! remove none, and an inspection of the directory must find the damage, too. Only a write at the
//! very end of the log, with no mark behind it that says that it was durable, may be taken for a
//! torn write; the start reports that.

use std::path::Path;

use storage::datadir::BOOT_FILE;

use super::*;

/// The index of the last entry. The first is covered by the snapshot of the birth.
const LAST: u64 = 12;

/// Bytes of the payload of every third entry: more than a start copies into its new segment.
const LARGE: usize = 20_000;

fn payload(index: u64) -> bytes::Bytes {
    let bytes = if index.is_multiple_of(3) { LARGE } else { 40 };
    // The bytes differ, and none of them is zero.
    (0..bytes).map(|at| (at as u64 * 31 + index) as u8 | 1).collect()
}

fn start_of(
    disk: &FaultDisk,
    skipped: &mut Vec<String>,
) -> Result<Recovered<FaultDisk>, RecoveryError> {
    recover(disk, &SECRET, SMALL_WAL, |error| skipped.push(error.to_string()))
}

fn append_some(found: &mut Recovered<FaultDisk>, indexes: core::ops::RangeInclusive<u64>) {
    for index in indexes {
        let kind = storage::wal::EntryKind::Normal;
        let entry = LogEntry { index, term: 1, kind, payload: payload(index) };
        let hard_state = HardState { term: 1, vote: 0, commit: index - 1 };
        found.wal.append(&[entry], Some(hard_state), None).expect("appends");
        found.wal.commit().expect("commits");
    }
}

/// A directory with two snapshots beside that of the birth, and several segments. With `is_idle`,
/// the log ends with a mark that the last entry was durable.
fn lived(is_idle: bool) -> FaultDisk {
    live(FaultDisk::new(1), is_idle)
}

/// Like [`lived`], for a server that began an ensemble together with another one.
fn lived_in_ensemble() -> FaultDisk {
    let disk = FaultDisk::new(1);
    let Ok(OpenedMember::Unborn(unborn)) = open_member(&disk, &SECRET, SMALL_WAL, |_| {}) else {
        panic!("an empty directory is unborn");
    };
    let birth = Birth { cluster_id: 7, voters: vec![3, unborn.member.0] };
    drop(unborn.be_born(&disk, &birth, SMALL_WAL).expect("is born"));
    live(disk, true)
}

fn live(disk: FaultDisk, is_idle: bool) -> FaultDisk {
    let mut found = start_of(&disk, &mut Vec::new()).expect("is born");
    append_some(&mut found, 2..=6);
    write_snapshot(&disk, &found, 4, 1);
    drop(found);
    let mut found = start_of(&disk, &mut Vec::new()).expect("starts");
    append_some(&mut found, 7..=9);
    write_snapshot(&disk, &found, 7, 1);
    found.wal.release(SnapshotPoint { index: 4, term: 1 }).expect("releases");
    append_some(&mut found, 10..=LAST);
    if is_idle {
        found.wal.idle_mark().expect("marks");
    }
    drop(found);
    disk.kill();
    disk
}

/// All files with content: neither spare segments nor unfinished files.
fn files(disk: &FaultDisk) -> Vec<String> {
    let mut paths = disk.paths();
    let is_empty = |path: &String| {
        let extension = Path::new(path).extension().and_then(|it| it.to_str());
        matches!(extension, Some("spare" | "tmp")) || path == "LOCK"
    };
    paths.retain(|path| !is_empty(path));
    paths
}

/// The entries behind the restored snapshot that are lost.
fn lost(found: &Recovered<FaultDisk>) -> Vec<u64> {
    let entries = &found.restored.entries;
    let is_there = |index: &u64| {
        entries.iter().any(|it| {
            let is_it = it.index == *index;
            assert!(!is_it || it.payload == payload(*index), "entry {index} is another");
            is_it
        })
    };
    (found.restored.snapshot_index + 1..=LAST).filter(|index| !is_there(index)).collect()
}

/// Checks a start on a damaged disk. Returns whether it fails.
fn check(disk: &FaultDisk, is_idle: bool, what: &str) -> bool {
    let before = files(disk);
    let report = storage::inspect::inspect(disk, &mut |_| Ok(()));
    let mut skipped = Vec::new();
    let found = match start_of(disk, &mut skipped) {
        Ok(found) => found,
        Err(error) => {
            assert_eq!(files(disk), before, "{what}: {error}");
            assert!(!report.is_sound(), "{what}: {error}, and a look finds nothing");
            return true;
        }
    };
    let lost = lost(&found);
    // Only the last entry may be lost, since nothing was written behind it.
    let is_torn = !is_idle && found.cut.is_some() && lost == [LAST];
    assert!(lost.is_empty() || is_torn, "{what}: {lost:?} are lost, {skipped:?}");
    // The inspection finds every bad snapshot that the start reports.
    assert!(skipped.is_empty() || !report.is_sound(), "{what}: {skipped:?}");
    false
}

fn each_directory(mut body: impl FnMut(&FaultDisk, bool, &str)) {
    for is_idle in [false, true] {
        body(&lived(is_idle), is_idle, if is_idle { "idle" } else { "busy" });
    }
}

fn contents(disk: &FaultDisk) -> Vec<(String, Vec<u8>)> {
    let paths = disk.paths().into_iter().filter(|path| path != "LOCK");
    paths.map(|path| (path.clone(), disk.content(&path).expect("is there"))).collect()
}

#[test]
fn a_directory_that_is_whole_is_sound_and_starts() {
    each_directory(|disk, is_idle, name| {
        let report = storage::inspect::inspect(disk, &mut |_| Ok(()));
        assert!(report.is_sound(), "{name}: {:?}", report.problems);
        assert!(report.segments.len() > 1, "{name}: {:?}", report.segments);
        assert!(!check(disk, is_idle, name));
    });
}

#[test]
fn a_file_that_is_removed_or_emptied_is_missed() {
    each_directory(|disk, is_idle, name| {
        let mut failed = 0;
        for (path, content) in contents(disk) {
            let removed = disk.fork(1);
            removed.lose_file(&path);
            failed += u32::from(check(&removed, is_idle, &format!("{name}: {path} removed")));
            if !content.is_empty() {
                let emptied = disk.fork(1);
                emptied.set_content(&path, Vec::new());
                failed += u32::from(check(&emptied, is_idle, &format!("{name}: {path} emptied")));
            }
        }
        assert!(failed > 4, "{name}: {failed}");
        for dir in ["wal", "snapshots"] {
            let removed = disk.fork(1);
            removed.lose_tree(dir);
            assert!(check(&removed, is_idle, &format!("{name}: {dir} removed")));
        }
    });
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_missed() {
    each_directory(|disk, is_idle, name| {
        for (path, content) in contents(disk) {
            let end = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            let all = [end + 1, content.len().saturating_sub(1)];
            for count in (0..end).step_by(509).chain(all).filter(|count| *count < content.len()) {
                let cut = disk.fork(1);
                cut.set_content(&path, content[..count].to_vec());
                check(&cut, is_idle, &format!("{name}: {path} cut off at {count}"));
            }
        }
    });
}

#[test]
fn a_bit_that_is_flipped_anywhere_is_found() {
    each_directory(|disk, is_idle, name| {
        for (path, content) in contents(disk) {
            let end = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
            // Every byte of small files and of the heads of files; of the rest only some.
            let step = if end > 1_000 { 509 } else { 1 };
            let heads = (0..end.min(200)).chain(4_096..end.min(4_300)).chain(8_192..end.min(8_400));
            for at in (0..end).step_by(step).chain(heads) {
                let flipped = disk.fork(1);
                let mut bad = content.clone();
                bad[at] ^= 1 << (at % 8);
                flipped.set_content(&path, bad);
                check(&flipped, is_idle, &format!("{name}: {path}, byte {at} flipped"));
            }
        }
    });
}

/// A member of an ensemble sets the whole directory aside, which loses nothing.
#[test]
fn a_damaged_directory_of_a_member_is_set_aside_whole() {
    let disk = lived_in_ensemble();
    let mut set_aside = 0;
    for (path, content) in contents(&disk) {
        let damaged = disk.fork(1);
        damaged.set_content(&path, content[..content.len() / 2].to_vec());
        let before = contents(&damaged);
        let opened = open_member(&damaged, &SECRET, SMALL_WAL, |_| {});
        let Ok(OpenedMember::Unborn(unborn)) = opened else { continue };
        let (name, cause) = unborn.set_aside.expect("it was born");
        set_aside += 1;
        // The count of starts was raised before that.
        let kept = |path: &str| files(&disk).iter().any(|it| it == path) && path != BOOT_FILE;
        for (path, content) in before.iter().filter(|(path, _)| kept(path)) {
            let kept = damaged.content(&format!("{name}/{path}"));
            assert!(kept.as_ref() == Some(content), "{path}, after {cause}");
        }
    }
    assert!(set_aside > 2, "{set_aside}");
}

//! Cuts logs off and changes them from outside. Recovery must return what was written, or report
//! corruption.

use super::*;
use crate::limits::CARRIED_SHARE;
use crate::record::{SLOT_BYTES, decode_slot};
use crate::wal::recover::Recovered;

/// Size of a payload too large for a start to carry it over, so that its segment stays.
const UNCARRIED_BYTES: usize = (SEGMENT_BYTES_MIN / CARRIED_SHARE) as usize;

/// A small log of two segments, and what was synced to it.
struct Written {
    disk: FaultDisk,
    /// The newest segment's path.
    last: String,
    /// Where the last segment ended, the last index, and the hard state, as of each sync.
    synced: Vec<(u64, u64, HardState)>,
}

/// Writes a log with several synced batches in its last segment. Nothing shows that the last batch
/// was durable, unless `is_idle`.
fn written(is_idle: bool) -> Written {
    let disk = FaultDisk::new(9);
    born(&disk);
    let (mut wal, _) = open(&disk).expect("opens");
    let first = [entry(2, 1, UNCARRIED_BYTES), entry(3, 1, 0)];
    wal.append(&first, Some(hard(1, 7, 1)), None).expect("appends");
    wal.commit().expect("commits");
    drop(wal);
    let (mut wal, _) = open(&disk).expect("opens");
    assert_eq!(wal.segment_count(), 2);
    let mut synced = vec![(wal.tail().end(), 3, wal.hard_state())];
    for (index, bytes) in [(4, 33), (5, 700), (6, 1)] {
        let state = hard(index, index % 3, index - 1);
        wal.append(&[entry(index, index, bytes)], Some(state), Some(voters(&[index])))
            .expect("appends");
        wal.commit().expect("commits");
        synced.push((wal.tail().end(), index, state));
    }
    if is_idle {
        wal.idle_mark().expect("marks");
    }
    let last = log_path(wal.tail().sequence);
    Written { disk, last, synced }
}

fn expected_entries(last: u64) -> Vec<LogEntry> {
    let all = [(2, 1, UNCARRIED_BYTES), (3, 1, 0), (4, 4, 33), (5, 5, 700), (6, 6, 1)];
    let all = all.iter().map(|(index, term, bytes)| entry(*index, *term, *bytes));
    all.filter(|it| it.index <= last).collect()
}

/// The result that recovery of a damaged log must have.
#[derive(Clone, Copy, Debug)]
enum Expected {
    /// The damaged bytes were durable, and something in the log shows that.
    Corrupt,
    /// Nothing shows that the damaged bytes were durable. Recovery cuts off everything behind this
    /// entry, and nothing else.
    Exactly(u64),
    /// Corruption, or a cut behind any entry: the test cannot know which.
    Any,
}

fn check(result: &Result<Recovered, StorageError>, expected: Expected, about: &str) {
    match (result, expected) {
        (Err(StorageError::Corrupt { .. }), Expected::Corrupt | Expected::Any) => {}
        (Ok(recovered), Expected::Exactly(last)) => {
            assert_eq!(recovered.entries, expected_entries(last), "{about}");
        }
        (Ok(recovered), Expected::Any) => {
            let last = recovered.entries.last().map_or(1, |it| it.index);
            assert_eq!(recovered.entries, expected_entries(last), "{about}");
        }
        (result, expected) => panic!("{about}: {result:?} is not {expected:?}"),
    }
}

fn reopened(written: &Written, path: &str, bytes: Vec<u8>) -> Result<Recovered, StorageError> {
    let disk = written.disk.fork(1);
    disk.set_content(path, bytes);
    let result = open(&disk).map(|(_, recovered)| recovered);
    // Another start must come to the same result.
    if let Ok(first) = &result {
        let (_, again) = open(&disk).expect("opens again");
        assert_eq!(again.entries, first.entries);
        assert_eq!(again.hard_state, first.hard_state);
    }
    result
}

/// The bytes of a segment up to `cut`, then zeros: what a crash may leave of unsynced bytes.
fn zeros_from(segment: &[u8], cut: u64) -> Vec<u8> {
    let mut bytes = segment[..cut as usize].to_vec();
    bytes.resize(segment.len(), 0);
    bytes
}

#[test]
fn a_log_of_zeros_from_any_byte_on_recovers_to_what_is_left() {
    let written = written(false);
    let whole = written.disk.content(&written.last).expect("is there");
    let end = written.synced.last().expect("some").0;
    for cut in 0..=end {
        let bytes = zeros_from(&whole, cut);
        // Only marks before the cut can be read, and none of them points behind it. If the head is
        // gone, the seal of the segment before shows that a segment is missing.
        let is_there = |end: u64| bytes[..end as usize] == whole[..end as usize];
        let mut whole_batches = written.synced.iter().filter(|(end, ..)| is_there(*end));
        let expected = match whole_batches.next_back() {
            Some((_, index, _)) => Expected::Exactly(*index),
            None => Expected::Corrupt,
        };
        let result = reopened(&written, &written.last, bytes);
        check(&result, expected, &format!("zeros from {cut} on"));
    }
}

#[test]
fn a_log_of_zeros_from_any_byte_below_the_idle_mark_on_is_corrupt() {
    let written = written(true);
    let whole = written.disk.content(&written.last).expect("is there");
    let end = written.synced.last().expect("some").0;
    for cut in 41..end - 8 {
        let result = reopened(&written, &written.last, zeros_from(&whole, cut));
        assert!(matches!(result, Err(StorageError::Corrupt { .. })), "zeros from {cut} on");
    }
    let result = reopened(&written, &written.last, zeros_from(&whole, end));
    assert_eq!(result.expect("is whole").entries, expected_entries(6));
}

/// A file gets its length before its name, so a shorter file has lost data.
#[test]
fn a_log_that_is_cut_off_anywhere_is_corrupt() {
    for is_idle in [false, true] {
        let written = written(is_idle);
        let whole = written.disk.content(&written.last).expect("is there");
        let end = written.synced.last().expect("some").0 as usize;
        for cut in (0..=end).chain([whole.len() - 1]) {
            let result = reopened(&written, &written.last, whole[..cut].to_vec());
            assert!(matches!(result, Err(StorageError::Corrupt { .. })), "cut off at {cut}");
        }
    }
}

#[test]
fn every_flipped_bit_of_the_last_segment_is_noticed_or_cuts_the_last_batch() {
    let written = written(false);
    let whole = written.disk.content(&written.last).expect("is there");
    let count = written.synced.len();
    let last_start = written.synced[count - 2].0;
    let end = written.synced[count - 1].0;
    // Nothing between the slots is read: there, every 61st byte is enough.
    let is_read = |at: &u64| at % 4096 < 40 || *at >= FRAMES_START || at.is_multiple_of(61);
    for at in (0..end).filter(is_read) {
        for bit in 0..8 {
            let mut bytes = whole.clone();
            bytes[at as usize] ^= 1 << bit;
            // In all but the last batch, a later frame shows that the damaged one was durable.
            let expected = match at {
                0..FRAMES_START => Expected::Exactly(6),
                _ if at < last_start => Expected::Corrupt,
                _ => Expected::Exactly(5),
            };
            let result = reopened(&written, &written.last, bytes);
            check(&result, expected, &format!("bit {bit} of byte {at}"));
        }
    }
}

#[test]
fn every_changed_byte_below_an_idle_mark_is_corrupt() {
    let written = written(true);
    let whole = written.disk.content(&written.last).expect("is there");
    let end = written.synced.last().expect("some").0;
    for at in FRAMES_START..end {
        for pattern in [0x01, 0x80, 0xff, whole[at as usize]] {
            let mut bytes = whole.clone();
            bytes[at as usize] ^= pattern;
            if pattern != 0 {
                let result = reopened(&written, &written.last, bytes);
                check(&result, Expected::Corrupt, &format!("byte {at} by {pattern}"));
            }
        }
    }
}

/// Offsets of the intact slots of a segment.
fn good_slots(segment: &[u8]) -> Vec<usize> {
    let offsets = SLOT_OFFSETS.iter().map(|offset| *offset as usize);
    offsets.filter(|at| decode_slot(&segment[*at..*at + SLOT_BYTES]).is_ok()).collect()
}

#[test]
fn damage_to_the_only_mark_or_seal_loses_nothing() {
    let written = written(true);
    let paths = written.disk.paths();
    let earlier = paths.iter().find(|path| path.ends_with(".log")).expect("there is one");
    for path in [earlier, &written.last] {
        let whole = written.disk.content(path).expect("is there");
        let slots = good_slots(&whole);
        assert_eq!(slots.len(), 1, "{path}");
        for at in slots[0]..slots[0] + SLOT_BYTES {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x40;
            assert!(good_slots(&bytes).is_empty());
            let result = reopened(&written, path, bytes);
            check(&result, Expected::Exactly(6), &format!("byte {at} of {path}"));
        }
    }
}

#[test]
fn a_seal_that_was_damaged_is_written_again() {
    let written = written(true);
    let paths = written.disk.paths();
    let earlier = paths.iter().find(|path| path.ends_with(".log")).expect("there is one");
    let mut bytes = written.disk.content(earlier).expect("is there");
    let seal = good_slots(&bytes)[0];
    bytes[seal] ^= 1;
    written.disk.set_content(earlier, bytes);
    lose_what_follows(&written.disk, "the seal was damaged");
}

#[test]
fn every_changed_byte_of_an_earlier_segment_is_corrupt() {
    let written = written(false);
    let paths = written.disk.paths();
    let earlier = paths.iter().find(|path| path.ends_with(".log")).expect("there is one");
    assert_ne!(*earlier, written.last);
    let whole = written.disk.content(earlier).expect("is there");
    let read = whole.len() - whole.iter().rev().take_while(|byte| **byte == 0).count();
    // Within the long payload, every 61st byte is enough.
    let is_read = |at: &usize| *at < 9_000 || *at > read - 200 || at.is_multiple_of(61);
    for at in (FRAMES_START as usize..read.next_multiple_of(8)).filter(is_read) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        let result = reopened(&written, earlier, bytes);
        check(&result, Expected::Corrupt, &format!("byte {at}"));
    }
}

#[test]
fn a_missing_segment_is_corruption_wherever_it_was() {
    let disk = FaultDisk::new(1);
    born(&disk);
    let (mut wal, _) = open(&disk).expect("opens");
    for _ in 0..100 {
        let next = entry(wal.last_index() + 1, 1, 3000);
        wal.append(&[next], None, None).expect("appends");
        wal.commit().expect("commits");
    }
    drop(wal);
    let logs = disk.paths();
    let logs = logs.iter().filter(|path| path.ends_with(".log"));
    let logs: Vec<&String> = logs.collect();
    assert!(logs.len() > 3);
    for missing in logs {
        let disk = disk.fork(1);
        disk.lose_file(missing);
        let result = open(&disk).map(|(_, recovered)| recovered);
        assert!(matches!(result, Err(StorageError::Corrupt { .. })), "{missing}");
    }
}

/// Path of the newest segment.
fn newest(disk: &FaultDisk) -> String {
    let paths = disk.paths();
    paths.into_iter().rfind(|path| path.ends_with(".log")).expect("there is a log")
}

/// Starts, acknowledges an entry, and asserts that a loss of the newest segment or of its head is
/// noticed.
fn lose_what_follows(disk: &FaultDisk, about: &str) {
    let (mut wal, _) = open(disk).unwrap_or_else(|error| panic!("{about}: {error}"));
    let next = entry(wal.last_index() + 1, 9, 100);
    wal.append(&[next], None, None).expect("appends");
    wal.commit().expect("commits");
    drop(wal);
    let lost = disk.fork(1);
    lost.lose_file(&newest(&lost));
    let result = open(&lost).map(|(_, recovered)| recovered);
    assert!(matches!(result, Err(StorageError::Corrupt { .. })), "{about}, lost: {result:?}");
    let path = newest(disk);
    let mut bytes = disk.content(&path).expect("is there");
    bytes[FRAMES_START as usize + 70] ^= 1;
    disk.set_content(&path, bytes);
    let result = open(disk).map(|(_, recovered)| recovered);
    assert!(matches!(result, Err(StorageError::Corrupt { .. })), "{about}, flipped: {result:?}");
}

#[test]
fn a_lost_segment_is_noticed_whatever_start_crashed_before() {
    // Two segments and a last one with entries: what every start below finds.
    let origin = FaultDisk::new(1);
    born(&origin);
    let (mut wal, _) = open(&origin).expect("opens");
    for index in 2..40 {
        wal.append(&[entry(index, 1, 3000)], None, None).expect("appends");
        wal.commit().expect("commits");
    }
    assert_eq!(wal.segment_count(), 3);
    drop(wal);
    let ops = {
        let disk = origin.fork(1);
        open(&disk).expect("opens");
        disk.ops()
    };
    for (stop, seed) in (0..ops).flat_map(|stop| (0..8).map(move |seed| (stop, seed))) {
        let disk = origin.fork(seed);
        disk.set_plan(FaultPlan { stop_at: Some(disk.ops() + stop), ..FaultPlan::default() });
        drop(open(&disk));
        match seed {
            0 => disk.kill(),
            _ => disk.crash(),
        }
        lose_what_follows(&disk, &format!("stop {stop}, seed {seed}"));
    }
}

#[test]
fn a_lost_segment_is_noticed_whatever_switch_crashed_before() {
    let live = |stop: u64, seed: u64| {
        let disk = FaultDisk::new(seed);
        born(&disk);
        let (mut wal, _) = open(&disk).expect("opens");
        let before = disk.ops();
        disk.set_plan(FaultPlan { stop_at: Some(before + stop), ..FaultPlan::default() });
        let entries: Vec<LogEntry> = (2..40).map(|index| entry(index, 1, 3000)).collect();
        let done = wal.append(&entries, None, None).and_then(|()| wal.commit());
        (disk.ops() - before, done.is_ok(), disk)
    };
    let (ops, is_ok, _) = live(u64::MAX / 2, 0);
    assert!(is_ok);
    for (stop, seed) in (0..ops).flat_map(|stop| (0..8).map(move |seed| (stop, seed))) {
        let (_, is_ok, disk) = live(stop, seed);
        assert!(!is_ok);
        disk.crash();
        lose_what_follows(&disk, &format!("stop {stop}, seed {seed}"));
    }
}

/// A log whose newest segment holds only carried entries; and these entries.
fn carried_over(link: bool) -> (FaultDisk, Vec<LogEntry>) {
    let disk = FaultDisk::new(4);
    born(&disk);
    let mut entries = Vec::new();
    let payload_bytes = if link { UNCARRIED_BYTES } else { 10 };
    for sizes in [vec![payload_bytes], vec![600, 0, 33], vec![]] {
        let (mut wal, _) = open(&disk).expect("opens");
        for bytes in sizes {
            let next = entry(wal.last_index() + 1, 1, bytes);
            wal.append(core::slice::from_ref(&next), None, None).expect("appends");
            wal.commit().expect("commits");
            entries.push(next);
        }
        assert!(wal.segment_count() <= 1 + usize::from(link));
    }
    (disk, entries)
}

#[test]
fn every_changed_byte_that_a_start_carried_is_corrupt() {
    for link in [false, true] {
        let (origin, entries) = carried_over(link);
        let path = newest(&origin);
        let whole = origin.content(&path).expect("is there");
        let (_, recovered) = open(&origin.fork(1)).expect("opens");
        assert_eq!(recovered.entries, entries);
        let read = whole.len() - whole.iter().rev().take_while(|byte| **byte == 0).count();
        for at in FRAMES_START as usize..read.next_multiple_of(8) {
            let disk = origin.fork(1);
            let mut bytes = whole.clone();
            bytes[at] ^= 0x04;
            disk.set_content(&path, bytes);
            let result = open(&disk).map(|(_, recovered)| recovered);
            let about = format!("byte {at}: {result:?}");
            assert!(matches!(result, Err(StorageError::Corrupt { .. })), "{about}");
        }
    }
}

#[test]
fn a_log_cut_at_any_byte_that_a_start_carried_is_corrupt() {
    let (origin, _) = carried_over(true);
    let path = newest(&origin);
    let whole = origin.content(&path).expect("is there");
    let read = whole.len() - whole.iter().rev().take_while(|byte| **byte == 0).count();
    for cut in 0..read {
        let disk = origin.fork(1);
        disk.set_content(&path, whole[..cut].to_vec());
        let result = open(&disk).map(|(_, recovered)| recovered);
        assert!(matches!(result, Err(StorageError::Corrupt { .. })), "cut at {cut}");
    }
}

#[test]
fn what_a_start_carried_is_noticed_when_lost_whatever_start_crashed_before() {
    for link in [false, true] {
        let (origin, _) = carried_over(link);
        let ops = {
            let disk = origin.fork(1);
            let before = disk.ops();
            open(&disk).expect("opens");
            disk.ops() - before
        };
        for (stop, seed) in (0..ops).flat_map(|stop| (0..8).map(move |seed| (stop, seed))) {
            let disk = origin.fork(seed);
            disk.set_plan(FaultPlan { stop_at: Some(disk.ops() + stop), ..FaultPlan::default() });
            drop(open(&disk));
            match seed {
                0 => disk.kill(),
                _ => disk.crash(),
            }
            lose_what_follows(&disk, &format!("link {link}, stop {stop}, seed {seed}"));
        }
    }
}

#[test]
fn swapped_segments_are_corruption() {
    let written = written(false);
    let paths = written.disk.paths();
    let earlier = paths.iter().find(|path| path.ends_with(".log")).expect("there is one");
    let bytes = written.disk.content(earlier).expect("is there");
    let disk = written.disk.fork(1);
    let other = disk.content(&written.last).expect("is there");
    disk.set_content(earlier, other);
    disk.set_content(&written.last, bytes);
    let result = open(&disk).map(|(_, recovered)| recovered);
    assert!(matches!(result, Err(StorageError::Corrupt { .. })));
}

#[test]
fn a_client_cannot_write_bytes_that_pass_for_a_frame() {
    // The payload holds, at the right offset, a header with a mark that would make a torn write
    // look like corruption. Its author knows everything but the salt.
    let disk = FaultDisk::new(1);
    born(&disk);
    let (mut wal, _) = open(&disk).expect("opens");
    let payload_start = wal.tail().end() + 64;
    let inner_offset = payload_start + 4096;
    let header = FrameHeader {
        body_bytes: 0,
        kind: FrameKind::HardState,
        entry_kind: 0,
        group: 3,
        index: 0,
        term: 0,
        generation: wal.tail().sequence,
        offset: inner_offset,
        mark: inner_offset,
        chain: 0,
        body_crc: 0,
    };
    let mut forged = vec![0; 4096];
    encode_frame(&mut forged, 0, &header, b"");
    let mut forging = entry(2, 1, 0);
    forging.payload = forged.into();
    wal.append(&[forging], None, None).expect("appends");
    wal.commit().expect("commits");
    let path = log_path(wal.tail().sequence);
    drop(wal);
    let mut bytes = disk.content(&path).expect("is there");
    bytes[payload_start as usize] ^= 1;
    disk.set_content(&path, bytes);
    let (_, recovered) = open(&disk).expect("is a torn write");
    assert!(recovered.entries.is_empty());
    let cut = recovered.cut.expect("something was cut");
    assert_eq!(cut.offset, payload_start - 64);
}

#[test]
fn random_bytes_in_place_of_a_segment_are_never_taken_for_entries() {
    let written = written(false);
    let whole = written.disk.content(&written.last).expect("is there");
    let end = written.synced.last().expect("some").0 as usize;
    for seed in 0..400 {
        let mut chance = crate::fault_disk::Chance::new(seed);
        let mut bytes = whole.clone();
        for _ in 0..=chance.below(20) {
            let start = chance.below(end as u64) as usize;
            let count = chance.below(100) as usize;
            let stop = (start + count).min(bytes.len());
            let from = noise(chance.bits(), stop - start);
            bytes[start..stop].copy_from_slice(&from);
        }
        let result = reopened(&written, &written.last, bytes);
        check(&result, Expected::Any, &format!("seed {seed}"));
    }
}

#[test]
fn frames_of_another_history_are_not_joined() {
    // Two histories that share a segment's head, so that only the chain tells their frames apart.
    // That may be a file put together from two backups, or a write that went to only one disk of a
    // mirror.
    let origin = FaultDisk::new(1);
    born(&origin);
    let live = |byte: u8| {
        let disk = origin.fork(1);
        let (mut wal, _) = open(&disk).expect("opens");
        let mut ends = Vec::new();
        for index in 2..5 {
            let mut next = entry(index, 1, 100);
            next.payload = vec![byte; 100].into();
            wal.append(&[next], None, None).expect("appends");
            wal.commit().expect("commits");
            ends.push(wal.tail().end() as usize);
        }
        let path = log_path(wal.tail().sequence);
        (disk.content(&path).expect("is there"), ends, path, disk)
    };
    let (mut first, ends, path, disk) = live(1);
    let (second, ..) = live(2);
    first[ends[1]..ends[2]].copy_from_slice(&second[ends[1]..ends[2]]);
    let torn = disk.fork(1);
    torn.set_content(&path, first.clone());
    let (_, recovered) = open(&torn).expect("the last batch counts as torn");
    assert_eq!(recovered.entries.len(), 2);
    first[ends[0]..ends[1]].copy_from_slice(&second[ends[0]..ends[1]]);
    disk.set_content(&path, first);
    assert!(open(&disk).is_err(), "a later frame says that it was durable");
}

#[test]
fn frames_that_check_and_make_no_sense_are_corruption() {
    // No writer of ours makes such frames: the reader must not rely on that.
    type Break = fn(&mut Wal<FaultDisk>);
    let breaks: [(&str, Break); 4] = [
        ("a gap", |wal| wal.push_record(&Record::Entry(&entry(9, 1, 1)))),
        ("a covered entry", |wal| wal.push_record(&Record::Entry(&entry(2, 1, 1)))),
        ("a snapshot behind the end", |wal| {
            wal.push_record(&Record::Snapshot(SnapshotPoint { index: 9, term: 1 }));
        }),
        ("a head inside", |wal| {
            let head = Head {
                link: None,
                hard_state: HardState::default(),
                snapshot: SnapshotPoint::default(),
                membership: Membership::default(),
                blocks: 0,
            };
            wal.push_frame(FrameKind::Head, None, &encode_head(&head));
        }),
    ];
    for (about, make) in breaks {
        let disk = FaultDisk::new(1);
        born(&disk);
        let (mut wal, _) = open(&disk).expect("opens");
        wal.append(&[entry(2, 1, 1), entry(3, 1, 1)], None, None).expect("appends");
        wal.release(SnapshotPoint { index: 2, term: 1 }).expect("releases");
        make(&mut wal);
        wal.commit().expect("commits");
        drop(wal);
        let result = open(&disk).map(|(_, recovered)| recovered);
        assert!(matches!(result, Err(StorageError::Corrupt { .. })), "{about}: {result:?}");
    }
}

#[test]
fn a_log_of_a_newer_version_is_refused_as_such() {
    let disk = FaultDisk::new(1);
    born(&disk);
    let (wal, _) = open(&disk).expect("opens");
    let path = log_path(wal.tail().sequence);
    let sequence = wal.tail().sequence;
    drop(wal);
    let mut body = 2_u32.to_le_bytes().to_vec();
    body.extend_from_slice(b"whatever version 2 has");
    let header = FrameHeader {
        body_bytes: 0,
        kind: FrameKind::Head,
        entry_kind: 0,
        group: 3,
        index: 1,
        term: 0,
        generation: sequence,
        offset: FRAMES_START,
        mark: FRAMES_START,
        chain: 0,
        body_crc: 0,
    };
    let mut bytes = vec![0; FRAMES_START as usize];
    encode_frame(&mut bytes, 0, &header, &body);
    disk.set_content(&path, bytes);
    let result = open(&disk).map(|(_, recovered)| recovered);
    assert!(matches!(result, Err(StorageError::UnknownFormat { version: 2, .. })));
}

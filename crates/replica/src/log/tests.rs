use bytes::Bytes;

use super::*;
use crate::members::Membership;

fn entry(index: u64, term: u64) -> Entry {
    Entry { index, term, data: Bytes::from_static(&[0; 40]), ..Default::default() }
}

/// A log of entries 2 to 9 that take 200 bytes of memory each. Entries up to 5 are applied.
fn log() -> Log {
    let entries = (2..=9).map(|index| entry(index, index / 2)).collect();
    let initial = (HardState::default(), ConfState::default());
    Log::new(initial, Position { term: 1, index: 1 }, entries, 5)
}

fn indexes(log: &Log, low: u64, high: u64, bytes_max: Option<u64>) -> raft::Result<Vec<u64>> {
    let entries = log.entries(low, high, bytes_max, GetEntriesContext::empty(false))?;
    Ok(entries.iter().map(|entry| entry.index).collect())
}

fn meta(index: u64, voters: &[u64]) -> SnapshotMeta {
    let membership = Membership::from_voters(voters.iter().copied());
    SnapshotMeta { index, term: 1, membership }
}

#[test]
fn entries_are_read_up_to_a_size_and_at_least_one() {
    let log = log();
    assert_eq!(indexes(&log, 2, 10, None).unwrap(), [2, 3, 4, 5, 6, 7, 8, 9]);
    assert_eq!(indexes(&log, 4, 10, Some(600)).unwrap(), [4, 5, 6]);
    assert_eq!(indexes(&log, 4, 10, Some(0)).unwrap(), [4]);
    let compacted = Err(Error::Store(StorageError::Compacted));
    assert_eq!(indexes(&log, 1, 3, None), compacted);
}

#[test]
fn terms_are_known_from_the_entry_before_the_first() {
    let log = log();
    assert_eq!(log.term(0), Err(Error::Store(StorageError::Compacted)));
    assert_eq!(log.term(1), Ok(1));
    assert_eq!(log.term(9), Ok(4));
    assert_eq!(log.term(10), Err(Error::Store(StorageError::Unavailable)));
}

#[test]
fn append_replaces_from_its_first_entry_on() {
    let mut log = log();
    log.append(&[entry(7, 9), entry(8, 9)]);
    assert_eq!(log.last(), 8);
    assert_eq!(log.term(6), Ok(3));
    assert_eq!(log.term(7), Ok(9));
    log.append(&[]);
    assert_eq!(log.last(), 8);
}

/// Limits on the bytes of applied entries.
fn memory(bytes_max: usize, away_bytes_max: usize, pinned_bytes_max: usize) -> LogMemory {
    LogMemory { bytes_max, away_bytes_max, pinned_bytes_max }
}

#[test]
fn compaction_stops_at_its_limits() {
    let mut log = log();
    assert_eq!(log.applied_bytes(), 800);
    log.compact(Needed::NOTHING, memory(800, 0, usize::MAX));
    assert_eq!(log.first_index(), Ok(2));
    log.compact(Needed::NOTHING, memory(799, 0, usize::MAX));
    assert_eq!(log.first_index(), Ok(3));
    assert_eq!(log.truncated(), Position { term: 1, index: 2 });
    let pinned = Needed { pinned_index: 3, ..Needed::NOTHING };
    log.compact(pinned, memory(0, 0, 400));
    assert_eq!(log.first_index(), Ok(4));
    log.compact(pinned, memory(0, usize::MAX, 399));
    assert_eq!(log.first_index(), Ok(5));
    log.compact(Needed::NOTHING, memory(0, usize::MAX, usize::MAX));
    assert_eq!(log.first_index(), Ok(6));
    assert_eq!(log.applied_bytes(), 0);
}

#[test]
fn entries_for_a_follower_that_is_away_have_a_limit_of_their_own() {
    let away = Needed { away_index: 3, ..Needed::NOTHING };
    let mut log = log();
    log.compact(away, memory(0, 400, 0));
    assert_eq!(log.first_index(), Ok(4));
    log.compact(away, memory(0, 399, 0));
    assert_eq!(log.first_index(), Ok(5));
    // The limit for entries that nobody needs is the larger one here.
    log.compact(away, memory(200, 0, 0));
    assert_eq!(log.first_index(), Ok(5));
    // Live followers need the entries after 4, too.
    log.compact(Needed { pinned_index: 4, away_index: 3 }, memory(0, 0, 200));
    assert_eq!(log.first_index(), Ok(5));
    log.compact(away, memory(0, 0, 0));
    assert_eq!(log.first_index(), Ok(6));
}

/// The followers that need a snapshot, each with the least index, and the index of this member's
/// own snapshot if that is usable.
fn wanted(log: &Log) -> Vec<(u64, u64, Option<u64>)> {
    let wanted = log.take_wanted(usize::MAX).into_iter();
    let own = |to, index_min| log.snapshot().filter(|own| serves(own, to, index_min));
    wanted.map(|it| (it.to, it.index_min, own(it.to, it.index_min).map(|own| own.index))).collect()
}

#[test]
fn a_snapshot_is_wanted_until_one_is_chosen_that_serves() {
    let mut log = log();
    let unavailable = Err(Error::Store(StorageError::SnapshotTemporarilyUnavailable));
    let of = |log: &Log, to| Storage::snapshot(log, 0, to).map(|it| it.get_metadata().index);
    assert_eq!(of(&log, 2), unavailable);
    assert_eq!(wanted(&log), [(2, 1, None)]);
    assert_eq!(wanted(&log), []);
    // This member's own snapshot is not sent before it is chosen.
    log.on_taken(meta(4, &[1, 2]));
    assert_eq!(of(&log, 2), unavailable);
    assert_eq!(wanted(&log), [(2, 1, Some(4))]);
    log.choose(Some((2, meta(4, &[1, 2]))));
    assert_eq!(of(&log, 2), Ok(4));
    // The choice is for that follower only; others are sent nothing.
    assert_eq!(of(&log, 1), unavailable);
    assert_eq!(wanted(&log), [(1, 1, Some(4))]);
    // The log no longer continues from that snapshot.
    log.compact(Needed::NOTHING, memory(0, 0, usize::MAX));
    assert_eq!(of(&log, 2), unavailable);
    assert_eq!(wanted(&log), [(2, 5, None)]);
    // Another member's snapshot is usable, too.
    log.choose(Some((2, meta(5, &[1, 2]))));
    assert_eq!(of(&log, 2), Ok(5));
    // The receiver is not a member in the snapshot.
    log.on_taken(meta(5, &[1, 2]));
    log.choose(Some((3, meta(5, &[1, 2]))));
    log.on_membership(7);
    assert_eq!(of(&log, 3), unavailable);
    assert_eq!(wanted(&log), [(3, 7, None)]);
}

/// The log has four applied entries of 200 bytes each.
#[test]
fn fresh_is_a_snapshot_behind_which_half_of_the_log_may_come_yet() {
    let log = log();
    let fresh = |pinned_bytes_max| {
        let _ = Storage::snapshot(&log, 0, 2);
        log.take_wanted(pinned_bytes_max)[0].index_fresh
    };
    assert_eq!(fresh(usize::MAX), 1);
    assert_eq!(fresh(1_600), 1);
    assert_eq!(fresh(800), 3);
    assert_eq!(fresh(0), 5);
}

#[test]
fn installed_snapshot_replaces_everything_and_can_be_sent_on() {
    let mut log = log();
    log.install(&meta(20, &[1, 2]));
    assert_eq!((log.first_index(), log.last_index()), (Ok(21), Ok(20)));
    assert!(Storage::snapshot(&log, 0, 2).is_err());
    assert_eq!(wanted(&log), [(2, 20, Some(20))]);
    log.on_applied(20);
    assert_eq!(log.applied_bytes(), 0);
    log.append(&[entry(21, 5)]);
    assert_eq!(log.last(), 21);
}

#[test]
fn membership_entry_is_seen_only_between_applied_and_committed() {
    let mut log = log();
    let mut change = entry(7, 9);
    change.set_entry_type(EntryType::EntryConfChangeV2);
    log.append(&[change, entry(8, 9)]);
    assert!(!log.has_membership_change_up_to(6));
    assert!(log.has_membership_change_up_to(7));
    log.on_applied(7);
    assert!(!log.has_membership_change_up_to(8));
}

use machine::LogIndex;
use storage::wal::Membership;

use super::*;
use crate::snapshot::limits::SNAPSHOT_LOG_BYTES_DEFAULT;

const RESTORED: SnapshotPoint = SnapshotPoint { index: 3, term: 1 };

const MARK: machine::Mark = machine::Mark { ordinal: machine::Ordinal(3), zxid: machine::Zxid(3) };

/// A schedule with a limit of ten commands and this limit of log, and `log_bytes` of log at its
/// start.
fn counting(log_rule: SnapshotLog, log_bytes: u64) -> Snapshots {
    Snapshots::new(10, log_rule, RESTORED, log_bytes)
}

fn frozen() -> FromApply {
    FromApply::Frozen { index: LogIndex(5), term: 1, mark: MARK, image_bytes_max: 0 }
}

fn piece(last: bool) -> FromApply {
    FromApply::Piece { bytes: vec![1], last }
}

/// The jobs that follow from a message of Apply, as short names.
fn jobs(snapshots: &mut Snapshots, message: FromApply) -> Vec<&'static str> {
    let jobs = snapshots.on_apply(message, &Membership::default());
    jobs.iter()
        .map(|job| match job {
            SnapshotJob::Begin { index: 5, term: 1, mark: MARK, .. } => "begin",
            SnapshotJob::Begin { .. } => "begin elsewhere",
            SnapshotJob::Piece(_) => "piece",
            SnapshotJob::Finish => "finish",
            SnapshotJob::Abort => "abort",
            SnapshotJob::DiscardReceived => "discard",
            SnapshotJob::KeepRoom(_) => "keep room",
            _ => "of another member",
        })
        .collect()
}

/// A schedule that has just asked for an image.
fn asked() -> Snapshots {
    let mut snapshots = counting(SnapshotLog::Bytes(1_000), 0);
    snapshots.count(1_000, 1);
    assert!(matches!(snapshots.maybe_begin(0), Some(ToApply::Freeze)));
    snapshots
}

#[test]
fn a_snapshot_is_due_by_commands_or_by_bytes() {
    for (bytes, commands, due) in [(999, 9, false), (1_000, 0, true), (0, 10, true)] {
        let mut snapshots = counting(SnapshotLog::Bytes(1_000), 0);
        assert!(snapshots.maybe_begin(0).is_none());
        snapshots.count(bytes, commands);
        assert_eq!(snapshots.maybe_begin(0).is_some(), due);
    }
}

#[test]
fn a_large_state_is_written_after_more_log() {
    let least = SNAPSHOT_LOG_BYTES_DEFAULT;
    for (state_bytes, bytes, due) in [
        (0, least - 1, false),
        (2 * least + 1, least, true),
        (2 * least + 2, least, false),
        (2 * least + 2, least + 1, true),
    ] {
        let mut snapshots = counting(SnapshotLog::ByState, 0);
        snapshots.count(bytes as usize, 0);
        assert_eq!(snapshots.maybe_begin(state_bytes).is_some(), due);
    }
    // A configured number of bytes counts as it is, however large the state is.
    let mut snapshots = counting(SnapshotLog::Bytes(1_000), 1_000);
    assert!(snapshots.maybe_begin(1 << 40).is_some());
}

#[test]
fn the_log_that_a_start_finds_counts() {
    let mut snapshots = counting(SnapshotLog::Bytes(1_000), 999);
    assert!(snapshots.maybe_begin(0).is_none());
    snapshots.count(1, 0);
    assert!(snapshots.maybe_begin(0).is_some());
}

#[test]
fn without_a_maximum_no_amount_of_log_makes_a_snapshot_due() {
    let mut snapshots = counting(SnapshotLog::Unbounded, 1 << 40);
    snapshots.count(1 << 40, 9);
    assert!(snapshots.maybe_begin(0).is_none());
    snapshots.make_due();
    assert!(snapshots.maybe_begin(0).is_some());
    snapshots.count(1 << 40, 0);
    assert!(snapshots.maybe_begin(0).is_none());
}

#[test]
fn one_is_taken_at_a_time_and_a_piece_at_a_time() {
    let mut snapshots = asked();
    assert!(snapshots.is_running());
    snapshots.count(5_000, 50);
    assert!(snapshots.maybe_begin(0).is_none());
    assert_eq!(jobs(&mut snapshots, frozen()), ["begin"]);
    for _ in 0..2 {
        let next = snapshots.on_snapshot(FromSnapshot::PieceWritten);
        assert!(matches!(next, Some(ToApply::FreezeStep)));
        assert_eq!(jobs(&mut snapshots, piece(false)), ["piece"]);
    }
    assert!(snapshots.on_snapshot(FromSnapshot::PieceWritten).is_some());
    assert_eq!(jobs(&mut snapshots, piece(true)), ["piece"]);
    // The disk has the log only up to the entry before the image's.
    assert!(snapshots.maybe_finish(4).is_none());
    assert!(matches!(snapshots.maybe_finish(5), Some(SnapshotJob::Finish)));
    assert!(snapshots.maybe_finish(5).is_none());
    assert!(snapshots.on_snapshot(FromSnapshot::PieceWritten).is_none());
    assert!(snapshots.maybe_begin(0).is_none());
    assert!(snapshots.on_snapshot(FromSnapshot::Finished { index: 5, term: 1 }).is_none());
    assert!(!snapshots.is_running());
    // Entries that were counted meanwhile make the next snapshot due.
    assert!(snapshots.maybe_begin(0).is_some());
}

#[test]
fn an_aborted_image_is_asked_for_again_at_once() {
    let mut snapshots = asked();
    jobs(&mut snapshots, frozen());
    assert!(snapshots.on_snapshot(FromSnapshot::PieceWritten).is_some());
    assert_eq!(jobs(&mut snapshots, FromApply::FreezeAborted), ["abort"]);
    assert!(matches!(snapshots.maybe_begin(0), Some(ToApply::Freeze)));
}

#[test]
fn one_snapshot_is_given_up_for_a_newer_one_and_the_next_is_not() {
    let mut snapshots = asked();
    // The image will be new enough.
    snapshots.want_with(6);
    jobs(&mut snapshots, frozen());
    // The image at entry 5 is new enough, and then it is not. It ends with the piece under way.
    for (index, is_given_up) in [(5, false), (6, true)] {
        snapshots.want_with(index);
        let step = snapshots.on_snapshot(FromSnapshot::PieceWritten);
        assert_eq!(matches!(step, Some(ToApply::Thaw)), is_given_up);
        assert_eq!(snapshots.is_running(), !is_given_up);
        assert_eq!(jobs(&mut snapshots, piece(false)).len(), usize::from(!is_given_up));
    }
    // The next one begins at once. Apply may only now tell that it has abandoned the former image.
    assert!(matches!(snapshots.maybe_begin(0), Some(ToApply::Freeze)));
    assert!(jobs(&mut snapshots, FromApply::FreezeAborted).is_empty());
    assert_eq!(jobs(&mut snapshots, frozen()), ["begin"]);
    snapshots.want_with(7);
    let step = snapshots.on_snapshot(FromSnapshot::PieceWritten);
    assert!(matches!(step, Some(ToApply::FreezeStep)));
    // Once it is finished, another one may be given up.
    jobs(&mut snapshots, piece(true));
    snapshots.maybe_finish(5);
    snapshots.on_snapshot(FromSnapshot::Finished { index: 5, term: 1 });
    snapshots.want_with(7);
    assert!(snapshots.maybe_begin(0).is_some());
    jobs(&mut snapshots, frozen());
    snapshots.want_with(7);
    assert!(matches!(snapshots.on_snapshot(FromSnapshot::PieceWritten), Some(ToApply::Thaw)));
}

#[test]
fn a_file_that_failed_is_tried_again_after_a_full_interval() {
    for pieces in 0..3 {
        let mut snapshots = asked();
        jobs(&mut snapshots, frozen());
        for at in 1..=pieces {
            snapshots.on_snapshot(FromSnapshot::PieceWritten);
            jobs(&mut snapshots, piece(at == 2));
        }
        assert!(matches!(snapshots.on_snapshot(FromSnapshot::Failed), Some(ToApply::Thaw)));
        assert!(snapshots.maybe_begin(0).is_none());
        assert_eq!(jobs(&mut snapshots, piece(false)), [""; 0]);
        snapshots.count(999, 9);
        assert!(snapshots.maybe_begin(0).is_none());
        snapshots.count(1, 1);
        assert!(snapshots.maybe_begin(0).is_some());
    }
}

#[test]
fn a_snapshot_is_hurried_if_there_is_any_log_to_let_go_of() {
    let mut snapshots = counting(SnapshotLog::Bytes(1_000), 0);
    snapshots.make_due();
    assert!(snapshots.maybe_begin(0).is_none());
    snapshots.count(1, 1);
    snapshots.make_due();
    assert!(snapshots.maybe_begin(0).is_some());
    // A snapshot under way is not begun twice, and after a failure none begins without more log.
    snapshots.make_due();
    assert!(snapshots.maybe_begin(0).is_none());
    snapshots.on_snapshot(FromSnapshot::Failed);
    assert!(snapshots.maybe_begin(0).is_none());
    // If it is made due, a failed snapshot is tried again; log that is covered needs no snapshot.
    snapshots.make_due();
    assert!(snapshots.maybe_begin(0).is_some());
    jobs(&mut snapshots, frozen());
    snapshots.on_snapshot(FromSnapshot::Finished { index: 5, term: 1 });
    snapshots.make_due();
    assert!(snapshots.maybe_begin(0).is_none());
}

#[test]
fn the_log_is_kept_from_the_snapshot_before_the_newest_while_there_is_room() {
    let mut snapshots = asked();
    assert_eq!([false, true].map(|full| snapshots.release(full).index), [3, 3]);
    jobs(&mut snapshots, frozen());
    snapshots.on_snapshot(FromSnapshot::Finished { index: 5, term: 1 });
    assert_eq!([false, true].map(|full| snapshots.release(full).index), [3, 5]);
    snapshots.on_snapshot(FromSnapshot::Finished { index: 8, term: 2 });
    assert_eq!([false, true].map(|full| snapshots.release(full).index), [5, 8]);
}

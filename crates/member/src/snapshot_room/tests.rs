use super::*;

const MIB: u64 = 1024 * 1024;

/// What it asks for, if anything, in MiB.
fn asked(room: &mut SnapshotRoom) -> Option<[u64; 3]> {
    room.maybe_ask().map(|job| wanted(&job))
}

fn wanted(job: &SnapshotJob) -> [u64; 3] {
    match job {
        SnapshotJob::KeepRoom(it) => [it.bytes_min, it.bytes, it.bytes_max].map(|it| it / MIB),
        job => unreachable!("{job:?}"),
    }
}

/// A state of 99 MiB, all of it in the newest snapshot, asked for once.
fn asking() -> SnapshotRoom {
    let mut room = SnapshotRoom::new(99 * MIB);
    assert_eq!(asked(&mut room), Some([101, 101, 127]));
    assert_eq!(asked(&mut room), None);
    room
}

#[test]
fn an_empty_state_needs_a_step() {
    let mut room = SnapshotRoom::new(100);
    assert_eq!(asked(&mut room), Some([1, 1, 2]));
}

#[test]
fn what_the_state_has_grown_is_needed_twice_until_a_snapshot_has_it() {
    let mut room = asking();
    room.on_kept(127 * MIB);
    room.on_applied(LogIndex(3), 103 * MIB);
    assert_eq!(asked(&mut room), None);
    room.on_applied(LogIndex(4), 109 * MIB);
    assert_eq!(asked(&mut room), Some([111, 121, 152]));
    room.on_kept(121 * MIB);
    assert!(!room.is_missing());
    room.on_applied(LogIndex(5), 110 * MIB);
    assert!(room.is_missing());
    assert!(room.is_used_up());
    // The snapshot has room. When it is durable, as much is needed as it may have had.
    assert_eq!(wanted(&room.on_begin(110 * MIB)), [112, 112, 140]);
    room.on_kept(0);
    room.on_finished();
    assert!(room.is_used_up());
    room.on_kept(112 * MIB);
    assert!(!room.is_missing());
}

#[test]
fn more_is_asked_for_before_it_is_needed_and_nothing_is_missing_before_the_answer() {
    let mut room = asking();
    room.on_kept(127 * MIB);
    room.on_applied(LogIndex(5), 900 * MIB);
    assert!(asked(&mut room).is_some());
    assert!(!room.is_missing());
    assert_eq!(asked(&mut room), None);
}

/// A state that grows faster than room is made, on a disk that has any amount of it.
#[test]
fn an_answer_says_nothing_of_what_was_not_asked_for() {
    let mut room = asking();
    room.on_applied(LogIndex(5), 900 * MIB);
    room.on_kept(127 * MIB);
    assert!(!room.is_missing());
    // It is asked for at once, and only that answer tells.
    let [_, bytes, bytes_max] = asked(&mut room).unwrap();
    room.on_applied(LogIndex(6), 2_000 * MIB);
    room.on_kept(bytes_max * MIB);
    assert!(!room.is_missing());
    assert!(asked(&mut room).is_some());
    room.on_kept(bytes * MIB);
    assert!(room.is_missing());
}

#[test]
fn what_is_not_applied_yet_counts_until_it_is() {
    let mut room = asking();
    room.on_kept(101 * MIB);
    assert!(!room.is_missing());
    room.on_proposed(LogIndex(3), MIB);
    room.on_proposed(LogIndex(4), MIB);
    room.on_proposed(LogIndex(5), 1);
    assert!(room.is_missing());
    // They made the state no larger.
    room.on_applied(LogIndex(4), 99 * MIB);
    assert!(!room.is_missing());
    room.on_applied(LogIndex(5), 99 * MIB);
    assert_eq!((room.unapplied.len(), room.unapplied_bytes), (0, 0));
}

#[test]
fn without_room_it_is_asked_for_again_and_again_after_a_while() {
    let mut room = asking();
    room.on_kept(100 * MIB);
    for _ in 0..3 {
        assert!(room.is_missing());
        assert_eq!(asked(&mut room), None);
        room.advance(SNAPSHOT_ROOM_RETRY_MS - 1);
        assert_eq!(asked(&mut room), None);
        room.advance(1);
        assert_eq!(asked(&mut room), Some([101, 101, 127]));
        room.on_kept(100 * MIB);
    }
    // Enough for now is enough, and the rest is asked for later.
    room.on_kept(101 * MIB);
    assert!(!room.is_missing());
    room.advance(SNAPSHOT_ROOM_RETRY_MS);
    assert!(asked(&mut room).is_some());
}

#[test]
fn a_snapshot_under_way_uses_up_the_room_and_the_state_goes_on_within_it() {
    let mut room = asking();
    room.on_kept(105 * MIB);
    room.on_begin(99 * MIB);
    room.on_kept(0);
    assert!(room.is_missing());
    assert!(!room.is_used_up());
    // By 2 MiB it may grow: 99, and 2 and 2 more, and what compression may add.
    room.on_applied(LogIndex(3), 101 * MIB);
    assert!(!room.is_used_up());
    room.on_applied(LogIndex(4), 102 * MIB);
    assert!(room.is_used_up());
    // With room for the next one nothing is missing.
    room.on_kept(140 * MIB);
    assert!(!room.is_missing());
    room.on_finished();
    assert!(!room.is_missing());
}

#[test]
fn a_snapshot_that_failed_is_none() {
    let mut room = asking();
    room.on_kept(105 * MIB);
    room.on_begin(200 * MIB);
    room.on_kept(104 * MIB);
    room.on_idle();
    assert_eq!(room.newest_image_bytes, 99 * MIB);
    assert!(!room.is_missing());
    room.on_kept(0);
    assert!(room.is_used_up());
}

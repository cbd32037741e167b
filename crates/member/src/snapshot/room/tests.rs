use super::*;

const MIB: u64 = 1024 * 1024;

/// The room that Loop asks for, in MiB: `bytes_min`, `bytes` and `bytes_max`; `None` if it does not
/// ask.
fn asked(room: &mut SnapshotRoom) -> Option<[u64; 3]> {
    room.maybe_ask().map(|job| wanted(&job))
}

fn wanted(job: &SnapshotJob) -> [u64; 3] {
    match job {
        SnapshotJob::KeepRoom(it) => [it.bytes_min, it.bytes, it.bytes_max].map(|it| it / MIB),
        job => unreachable!("{job:?}"),
    }
}

/// Answers the last request: `mib` MiB are set aside.
fn kept(room: &mut SnapshotRoom, mib: u64) {
    kept_of(room, mib, room.wanted().bytes_max / MIB);
}

/// Answers an older request, which wanted at most `wanted_mib` MiB: `mib` MiB are set aside.
fn kept_of(room: &mut SnapshotRoom, mib: u64, wanted_mib: u64) {
    room.on_kept(RoomKept { bytes: mib * MIB, bytes_wanted: wanted_mib * MIB });
}

/// A state of 64 MiB that the newest snapshot has completely, after the first request. That
/// snapshot needs one part in 64 more for its headers, and the request one step more.
fn asking() -> SnapshotRoom {
    let mut room = SnapshotRoom::new(64 * MIB);
    assert_eq!(asked(&mut room), Some([65, 66, 83]));
    assert_eq!(asked(&mut room), None);
    room
}

#[test]
fn an_empty_state_needs_a_step() {
    let mut room = SnapshotRoom::new(100);
    assert_eq!(asked(&mut room), Some([0, 1, 2]));
}

#[test]
fn what_the_state_has_grown_is_needed_twice_until_a_snapshot_has_it() {
    let mut room = asking();
    kept(&mut room, 83);
    room.on_applied(LogIndex(3), 67 * MIB);
    assert_eq!(asked(&mut room), None);
    room.on_applied(LogIndex(4), 96 * MIB);
    assert_eq!(asked(&mut room), Some([97, 131, 164]));
    kept(&mut room, 131);
    assert!(!room.is_missing());
    room.on_applied(LogIndex(5), 96 * MIB + 4096);
    assert!(room.is_missing());
    assert!(room.is_used_up());
    // The snapshot has room. Once it is durable, the next one needs as much as it may have had.
    assert_eq!(wanted(&room.on_begin(96 * MIB)), [97, 98, 123]);
    kept(&mut room, 0);
    room.on_finished();
    assert!(room.is_used_up());
    kept(&mut room, 99);
    assert!(!room.is_missing());
}

#[test]
fn more_is_asked_for_before_it_is_needed_and_nothing_is_missing_before_the_answer() {
    let mut room = asking();
    kept(&mut room, 83);
    room.on_applied(LogIndex(5), 900 * MIB);
    assert!(asked(&mut room).is_some());
    assert!(!room.is_missing());
    assert_eq!(asked(&mut room), None);
}

#[test]
fn writes_wait_for_an_answer_once_the_state_has_outgrown_the_room() {
    let mut room = asking();
    assert!(room.must_wait());
    kept(&mut room, 83);
    assert!(!room.must_wait());
    // A snapshot uses the room: the state may grow within that before there is an answer.
    room.on_begin(64 * MIB);
    room.on_applied(LogIndex(5), 72 * MIB);
    assert!(!room.must_wait());
    room.on_applied(LogIndex(6), 73 * MIB);
    room.on_applied(LogIndex(7), 74 * MIB);
    kept_of(&mut room, 0, 0);
    assert!(room.must_wait() && !room.is_used_up());
    kept(&mut room, 0);
    assert!(!room.must_wait() && room.is_used_up());
    kept(&mut room, 110);
    assert!(!room.must_wait() && !room.is_used_up());
    // Less than was wanted, but more than is needed, is no shortage.
    kept_of(&mut room, 100, 110);
    assert!(!room.must_wait() && !room.is_used_up());
}

/// The state grows faster than room is set aside, and the disk has any amount of room.
#[test]
fn an_answer_says_nothing_of_what_was_not_asked_for() {
    let mut room = asking();
    room.on_applied(LogIndex(5), 900 * MIB);
    kept_of(&mut room, 83, 83);
    assert!(!room.is_missing());
    // More room is asked for at once, and only the answer to that request counts.
    let [_, _, bytes_max] = asked(&mut room).unwrap();
    // A snapshot begins meanwhile, and asks for more: the answer on its way is not to that request.
    room.on_applied(LogIndex(6), 3_000 * MIB);
    room.on_begin(3_000 * MIB);
    kept_of(&mut room, bytes_max, bytes_max);
    assert!(!room.is_missing());
    kept(&mut room, bytes_max);
    assert!(room.is_missing());
}

#[test]
fn what_is_not_applied_yet_counts_until_it_is() {
    let mut room = asking();
    kept(&mut room, 66);
    assert!(!room.is_missing());
    room.on_proposed(LogIndex(3), MIB);
    room.on_proposed(LogIndex(4), MIB);
    room.on_proposed(LogIndex(5), 4096);
    assert!(room.is_missing());
    // The applied entries have not made the state larger.
    room.on_applied(LogIndex(4), 64 * MIB - 4096);
    assert!(!room.is_missing());
    room.on_applied(LogIndex(5), 64 * MIB);
    assert_eq!((room.unapplied.len(), room.unapplied_bytes), (0, 0));
    assert!(!room.is_missing());
}

#[test]
fn without_room_it_is_asked_for_again_and_again_after_a_while() {
    let mut room = asking();
    kept(&mut room, 65);
    for _ in 0..3 {
        assert!(room.is_missing());
        assert_eq!(asked(&mut room), None);
        room.advance(SNAPSHOT_ROOM_RETRY_MS - 1);
        assert_eq!(asked(&mut room), None);
        room.advance(1);
        assert_eq!(asked(&mut room), Some([65, 66, 83]));
        kept(&mut room, 65);
    }
    // If there is enough for now, nothing is missing; the rest is asked for later.
    kept(&mut room, 66);
    assert!(!room.is_missing());
    room.advance(SNAPSHOT_ROOM_RETRY_MS);
    assert!(asked(&mut room).is_some());
}

#[test]
fn a_snapshot_under_way_uses_up_the_room_and_the_state_goes_on_within_it() {
    let mut room = asking();
    kept(&mut room, 71);
    room.on_begin(64 * MIB);
    kept(&mut room, 0);
    assert!(room.is_missing());
    assert!(!room.is_used_up());
    // The state may grow by 2 MiB. That takes 64 MiB, 2 MiB of growth and 2 MiB more for the next
    // snapshot, what failed compression may add, and one step.
    room.on_applied(LogIndex(3), 66 * MIB);
    assert!(!room.is_used_up());
    room.on_applied(LogIndex(4), 67 * MIB);
    assert!(room.is_used_up());
    // With room for the next snapshot, nothing is missing.
    kept(&mut room, 100);
    assert!(!room.is_missing());
    room.on_finished();
    assert!(!room.is_missing());
}

#[test]
fn a_snapshot_that_failed_is_none() {
    let mut room = asking();
    kept(&mut room, 70);
    room.on_begin(200 * MIB);
    kept(&mut room, 69);
    room.on_idle();
    assert_eq!(room.newest_image_bytes, 64 * MIB);
    assert!(!room.is_missing());
    kept(&mut room, 0);
    assert!(room.is_used_up());
}

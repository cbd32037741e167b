use storage::fault_disk::{Chance, FaultDisk, FaultPlan};
use storage::snapshot::SNAPSHOT_DIR;
use storage::snapshot::room::ROOM_FILE;

use super::*;

const MIB: u64 = 1024 * 1024;

struct Rig {
    disk: FaultDisk,
    image: SnapshotWriter<FaultDisk>,
    /// Each amount of room set aside that Loop was told of, in MiB.
    told: Vec<u64>,
}

impl Rig {
    fn new() -> Rig {
        let disk = FaultDisk::new(1);
        disk.create_dir(SNAPSHOT_DIR).unwrap();
        let image = SnapshotWriter::new(disk.clone(), 1);
        Rig { disk, image, told: Vec::new() }
    }

    fn job(&mut self, job: SnapshotJob) -> Option<FromSnapshot> {
        let output = self.image.handle(job, || ());
        self.told.extend(output.room.map(|room| room.bytes / MIB));
        output.report
    }

    fn keep(&mut self, min_mib: u64, mib: u64) -> u64 {
        let bytes = min_mib * MIB;
        let wanted = RoomWanted { bytes_min: bytes / 2, bytes, bytes_max: mib * MIB };
        assert_eq!(self.job(SnapshotJob::KeepRoom(wanted)), None);
        *self.told.last().unwrap()
    }

    fn begin(&mut self, index: u64) -> Option<FromSnapshot> {
        let membership = storage::wal::Membership::default();
        let mark = machine::Mark::default();
        self.job(SnapshotJob::Begin { number: index, index, term: 1, membership, mark })
    }

    /// Writes a complete snapshot of `mib` MiB that do not compress.
    fn write(&mut self, index: u64, mib: u64) -> Option<FromSnapshot> {
        self.begin(index);
        self.job(SnapshotJob::Piece(noise(mib)));
        self.job(SnapshotJob::Finish)
    }

    fn bytes(&self) -> u64 {
        let bytes = |path: &String| self.disk.content(path).map_or(0, |it| it.len() as u64);
        self.disk.paths().iter().map(bytes).sum()
    }

    /// Limits the disk to its present bytes and `more`.
    fn limit_room(&self, more: u64) {
        let bytes_max = Some(self.bytes() + more);
        self.disk.set_plan(FaultPlan { bytes_max, ..FaultPlan::default() });
    }

    fn indexes(&self) -> Vec<u64> {
        snapshot::list(&self.disk).unwrap().iter().map(|name| name.index).collect()
    }
}

fn noise(mib: u64) -> Vec<u8> {
    let mut chance = Chance::new(3);
    (0..mib * MIB / 8).flat_map(|_| chance.bits().to_le_bytes()).collect()
}

const FINISHED: fn(u64) -> Option<FromSnapshot> =
    |index| Some(FromSnapshot::Finished { index, term: 1 });

#[test]
fn room_for_the_next_snapshot_is_set_aside_before_one_uses_its_own() {
    let mut rig = Rig::new();
    assert_eq!(rig.keep(2, 3), 3);
    assert_eq!(rig.begin(5), Some(FromSnapshot::PieceWritten));
    // Room is set aside twice: for the snapshot being written, and for the next one.
    assert_eq!(rig.bytes(), 6 * MIB);
    rig.job(SnapshotJob::Piece(noise(1)));
    assert_eq!(rig.job(SnapshotJob::Finish), FINISHED(5));
    assert!(rig.bytes() < 5 * MIB);
    assert_eq!(rig.disk.content(ROOM_FILE).unwrap().len() as u64, 3 * MIB);
    // The amount is the same as before, so Loop is not told again.
    assert_eq!(rig.told, [3]);
}

#[test]
fn a_full_disk_has_room_for_one_snapshot_and_says_when_it_is_used_up() {
    let mut rig = Rig::new();
    rig.keep(2, 3);
    rig.limit_room(0);
    assert_eq!(rig.write(5, 2), FINISHED(5));
    // The unused rest of the snapshot's room is free again, but is not enough for the next.
    assert_eq!(rig.told, [3, 0]);
    assert_eq!(rig.keep(2, 3), 0);
    assert_eq!(rig.begin(6), Some(FromSnapshot::PieceWritten));
    assert_eq!(rig.job(SnapshotJob::Piece(noise(2))), Some(FromSnapshot::Failed));
    assert_eq!(rig.indexes(), [5]);
    rig.disk.set_plan(FaultPlan::default());
    assert_eq!(rig.keep(2, 3), 3);
}

#[test]
fn older_snapshots_make_room_for_the_next_and_the_newest_stays() {
    let mut rig = Rig::new();
    rig.keep(2, 2);
    assert_eq!((rig.write(5, 2), rig.write(6, 2)), (FINISHED(5), FINISHED(6)));
    assert_eq!(rig.indexes(), [5, 6]);
    rig.limit_room(MIB);
    // The disk has the room that is needed, but no more: no snapshot is removed to get more.
    assert_eq!(rig.keep(3, 9), 3);
    assert_eq!(rig.indexes(), [5, 6]);
    assert_eq!(rig.keep(4, 9), 4);
    assert_eq!(rig.indexes(), [6]);
    assert_eq!(rig.keep(9, 9), 4);
    assert_eq!(rig.indexes(), [6]);
}

/// The room that is set aside stays until the next snapshot uses it. The file that is then set
/// aside for the snapshot after it has the smaller amount.
#[test]
fn less_room_is_set_aside_when_less_is_wanted() {
    let mut rig = Rig::new();
    rig.keep(8, 9);
    assert_eq!(rig.keep(1, 2), 9);
    assert_eq!(rig.write(5, 1), FINISHED(5));
    assert_eq!(rig.told, [9, 9, 2]);
}

/// Reads a piece of a snapshot for another member. False if the snapshot is gone.
fn read(rig: &mut Rig, index: u64) -> bool {
    let want = Want { at: SnapshotAt { index, term: 1 }, offset: 0 };
    let job = SnapshotJob::Read { to: machine::MemberId(3), want };
    match rig.image.handle(job, || {}).transfer {
        Some(FromTransfer::Read { message: PeerMessage::Piece(piece), .. }) => {
            assert_eq!(piece.at.index, index);
            true
        }
        Some(FromTransfer::Read { message: PeerMessage::Gone(at), .. }) => {
            assert_eq!(at.index, index);
            false
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_snapshot_that_another_member_reads_is_kept_until_it_does_not_any_more() {
    let mut rig = Rig::new();
    for index in 5..=6 {
        rig.write(index, 0);
    }
    for index in 7..=9 {
        assert!(read(&mut rig, 5));
        rig.write(index, 0);
        assert_eq!(rig.indexes(), [5, index - 1, index]);
    }
    // Other snapshots are removed by age, and so is the one that was read, once nobody has read it
    // since the last snapshot.
    rig.write(10, 0);
    assert_eq!(rig.indexes(), [9, 10]);
    assert!(!read(&mut rig, 5));
    // Even a snapshot that is being read is removed if its room is needed.
    assert!(read(&mut rig, 9));
    rig.limit_room(0);
    rig.keep(4, 4);
    assert_eq!(rig.indexes(), [10]);
}

#[test]
fn a_snapshot_that_is_none_is_told_from_one_that_cannot_be_written() {
    let mut rig = Rig::new();
    let receive = |rig: &mut Rig, bytes: Vec<u8>| {
        let job = SnapshotJob::Receive { is_first: true, bytes: bytes.into() };
        rig.image.handle(job, || {}).transfer
    };
    assert!(matches!(receive(&mut rig, vec![7; 500]), Some(FromTransfer::Written)));
    let check = SnapshotJob::CheckReceived(SnapshotAt { index: 5, term: 1 });
    let output = rig.image.handle(check, || {});
    assert!(matches!(output.transfer, Some(FromTransfer::Spoiled)));
    assert_eq!(output.problems.len(), 1);
    rig.limit_room(0);
    let output = receive(&mut rig, noise(1));
    assert!(matches!(output, Some(FromTransfer::Failed)));
}

#[test]
fn a_snapshot_that_was_given_up_leaves_its_room_to_the_next() {
    let mut rig = Rig::new();
    rig.keep(2, 3);
    rig.limit_room(0);
    rig.begin(5);
    rig.job(SnapshotJob::Piece(noise(1)));
    rig.job(SnapshotJob::Abort);
    assert_eq!(rig.told, [3, 0, 3]);
    assert_eq!(rig.write(6, 3).is_some(), rig.indexes() == [6]);
}

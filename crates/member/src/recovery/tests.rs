//! Tests of starts: from an empty directory, and from a directory that a clean end does not leave,
//! because of damage, a power cut or another version.

mod damage;
mod failures;

use machine::entry::{self, BatchBuilder, encode_identities};
use machine::zk::command::AskedAcl;
use machine::{
    Changes, Command, ConnectionId, ControlCommand, CreateMode, Op, SessionId, Stamp, ZkCommand,
};
use storage::fault_disk::FaultDisk;
use storage::limits::PIECE_BYTES_MAX;
use storage::wal::LogEntry;

use super::*;
use crate::message::{FromSnapshot, SnapshotJob};
use crate::snapshot::writer::SnapshotWriter;

const SECRET: [u8; 32] = [7; 32];

/// Options with small segments, so that a short log has several and a copy of the disk is cheap.
const SMALL_WAL: WalOptions = WalOptions {
    segment_bytes: 64 * 1024,
    first_segment_bytes: 64 * 1024,
    group: 0,
    spare_count: 1,
};

fn found(disk: &FaultDisk) -> Recovered<FaultDisk> {
    let options = WalOptions { segment_bytes: 256 * 1024, ..WalOptions::default() };
    let skipped = &mut Vec::new();
    let found = recover(disk, &SECRET, options, |error| skipped.push(error.to_string()));
    found.unwrap_or_else(|error| panic!("{error}, {skipped:?}"))
}

fn options() -> Options {
    let mut order = crate::fronts::zk::tests::rig::options();
    order.disk.snapshot_commands = 10;
    Options { spaces: Default::default(), order }
}

/// Writes a durable snapshot of the empty state at an index and term.
fn write_snapshot(disk: &FaultDisk, found: &Recovered<FaultDisk>, index: u64, term: u64) {
    write_image(disk, found, (index, term), |_| {});
}

/// Writes a durable snapshot of the empty state, whose image `change` has changed.
fn write_image(
    disk: &FaultDisk,
    found: &Recovered<FaultDisk>,
    (index, term): (u64, u64),
    change: impl FnOnce(&mut Vec<u8>),
) {
    let mut image = SnapshotWriter::new(disk.clone(), found.dir.identity().cluster_id);
    let membership = Membership { voters: vec![found.origin.member.0], ..Membership::default() };
    let mut piece = empty_image(index);
    change(&mut piece);
    let mark = machine::Mark::default();
    image.handle(SnapshotJob::Begin { number: 1, index, term, membership, mark }, || ());
    image.handle(SnapshotJob::Piece(piece), || ());
    let output = image.handle(SnapshotJob::Finish, || ());
    assert_eq!(output.report, Some(FromSnapshot::Finished { index, term }));
    assert!(output.problems.is_empty());
}

/// The image of the empty state at an index.
fn empty_image(index: u64) -> Vec<u8> {
    let mut machine = Machine::default();
    (2..=index).for_each(|index| machine.finish_entry(LogIndex(index)));
    machine.freeze();
    match machine.freeze_step(usize::MAX, u32::MAX) {
        FreezeStep::Last(piece) => piece,
        _ => panic!("an empty state is one piece"),
    }
}

fn append(found: &mut Recovered<FaultDisk>, index: u64, term: u64) {
    let kind = storage::wal::EntryKind::Normal;
    let entry = LogEntry { index, term, kind, payload: bytes::Bytes::new() };
    let hard_state = HardState { term, vote: 0, commit: index - 1 };
    found.wal.append(&[entry], Some(hard_state), None).unwrap();
    found.wal.commit().unwrap();
}

#[test]
fn an_empty_directory_is_born_once_and_each_start_is_counted() {
    let disk = FaultDisk::new(1);
    let first = found(&disk);
    assert!(first.is_new);
    let origin = first.origin;
    drop(first);
    let second = found(&disk);
    assert!(!second.is_new);
    assert_eq!(second.origin.member, origin.member);
    assert_eq!((origin.boot.count(), second.origin.boot.count()), (1, 2));
}

/// Two copies of a directory may each hand over a batch with the same sequence: the second copy
/// must not take the first one's batch in the log as its own, and answer its clients from it.
#[test]
fn two_starts_of_copies_of_a_directory_are_different_ones() {
    let starts = [1, 2].map(|start| {
        let disk = FaultDisk::new(1);
        drop(unborn(&disk, 9));
        let copy = unborn(&disk, start);
        let birth = Birth { cluster_id: 7, voters: vec![3, copy.member.0] };
        copy.be_born(&disk, &birth, WalOptions::default()).expect("is born").origin
    });
    assert_eq!(starts[0].member, starts[1].member);
    assert_ne!(starts[0].boot, starts[1].boot);
    assert_eq!(starts.map(|origin| origin.boot.count()), [1, 1]);
}

/// The last batch was applied and is in a snapshot. Its frames in the log, which no mark covers
/// yet, are damaged and count as a torn write.
#[test]
fn a_log_that_ends_before_the_snapshot_goes_on_behind_it() {
    for (log_term, snapshot_term) in [(3, 3), (3, 5)] {
        let disk = FaultDisk::new(1);
        let mut before = found(&disk);
        append(&mut before, 2, log_term);
        write_snapshot(&disk, &before, 7, snapshot_term);
        drop(before);
        let mut after = found(&disk);
        assert_eq!(after.log_ended, Some(2));
        assert_eq!((after.wal.last_index(), after.restored.entries.len()), (7, 0));
        assert_eq!(after.restored.hard_state.term, snapshot_term);
        assert_eq!(after.restored.hard_state.commit, 7);
        append(&mut after, 8, snapshot_term);
        drop(after);
        disk.crash();
        let last = found(&disk);
        assert_eq!(last.log_ended, None);
        assert_eq!(last.restored.entries.len(), 1);
        let started = start(last.origin, &last.machine, last.restored, options());
        started.expect("nothing contradicts itself");
    }
}

#[test]
fn a_snapshot_that_cannot_be_read_is_replaced_by_the_one_before_and_the_log() {
    let disk = FaultDisk::new(1);
    let mut before = found(&disk);
    for index in 2..10 {
        append(&mut before, index, 1);
    }
    write_snapshot(&disk, &before, 5, 1);
    drop(before);
    let path = disk.paths().into_iter().find(|path| path.contains("0000000005-")).unwrap();
    let mut bytes = disk.content(&path).unwrap();
    bytes[100] ^= 1;
    disk.set_content(&path, bytes);
    let after = found(&disk);
    assert_eq!((after.restored.snapshot_index, after.restored.entries.len()), (1, 8));
}

fn open(disk: &FaultDisk, secret: u8) -> Result<OpenedMember<FaultDisk>, RecoveryError> {
    open_member(disk, &[secret; 32], WalOptions::default(), |_| {})
}

fn unborn(disk: &FaultDisk, secret: u8) -> UnbornMember<FaultDisk> {
    match open(disk, secret) {
        Ok(OpenedMember::Unborn(unborn)) => *unborn,
        Ok(OpenedMember::Born(_)) => panic!("it was never born"),
        Err(error) => panic!("{error}"),
    }
}

fn born(disk: &FaultDisk) -> Box<Recovered<FaultDisk>> {
    match open(disk, 99) {
        Ok(OpenedMember::Born(recovered)) => recovered,
        Ok(OpenedMember::Unborn(_)) => panic!("it was born"),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_member_of_an_ensemble_keeps_its_id_from_before_its_birth() {
    let disk = FaultDisk::new(1);
    let member = unborn(&disk, 1).member;
    disk.crash();
    let again = unborn(&disk, 2);
    assert_eq!((again.member, again.set_aside.is_none()), (member, true));
    let birth = Birth { cluster_id: 7, voters: vec![3, member.0] };
    let first = again.be_born(&disk, &birth, WalOptions::default()).expect("is born");
    assert!(first.is_new);
    assert_eq!((first.origin.member, first.dir.birth()), (member, &birth));
    assert_eq!(first.restored.membership.voters, birth.voters);
    drop(first);
    disk.crash();
    let second = born(&disk);
    assert!(!second.is_new);
    assert_eq!((second.origin.member, second.origin.boot.count()), (member, 2));
    assert_eq!(second.dir.birth(), &birth);
}

#[test]
fn whoever_is_not_among_the_first_voters_is_born_with_the_same_snapshot() {
    let images = [(1, vec![3, 5]), (2, vec![3, 5])].map(|(secret, voters)| {
        let disk = FaultDisk::new(1);
        let birth = Birth { cluster_id: 7, voters };
        let made = unborn(&disk, secret).be_born(&disk, &birth, WalOptions::default());
        let recovered = made.expect("is born");
        assert!(!birth.voters.contains(&recovered.origin.member.0));
        let path = disk.paths().into_iter().find(|path| path.ends_with(".snap")).unwrap();
        disk.content(&path).unwrap()
    });
    assert_eq!(images[0], images[1]);
}

#[test]
fn a_backup_that_is_larger_than_a_piece_of_a_snapshot_is_restored() {
    let paths: Vec<String> = (0..17).map(|number| format!("/n{number}")).collect();
    let data = vec![7; PIECE_BYTES_MAX / 16];
    let mut backup = Machine::default();
    let stamp = Stamp {
        time_ms: 1,
        origin: Origin::default(),
        connection: ConnectionId(1),
        identities: &[],
    };
    let mut apply = |command| {
        let reply = backup.apply(&stamp, &Command::Zk(command), &mut Changes::default());
        assert!(matches!(reply.outcome, machine::Outcome::Zk(Ok(_))), "nothing is in its way");
    };
    let session = SessionId(9);
    apply(ZkCommand::OpenSession { session, password: [1; 16], timeout_ms: 4_000 });
    for path in &paths {
        let op = Op::Create {
            path,
            malformed: false,
            data: Some(&data),
            acl: AskedAcl::Open,
            mode: CreateMode::Persistent,
            ttl_ms: -1,
        };
        apply(ZkCommand::Write { session, op });
    }
    let disk = FaultDisk::new(1);
    let birth = Birth { cluster_id: 7, voters: vec![3] };
    be_born_with(&disk, MemberId(3), &birth, backup).expect("is born");
    let restored = found(&disk).machine;
    let znode = restored.zk().tree().find("/n16").expect("is restored");
    assert_eq!(znode.data(), Some(data.as_slice()));
}

#[test]
fn a_birth_that_failed_at_any_operation_is_done_again_with_the_same_id() {
    let birth = |member: MemberId| Birth { cluster_id: 7, voters: vec![3, member.0] };
    let count = {
        let disk = FaultDisk::new(1);
        let member = unborn(&disk, 1);
        let birth = birth(member.member);
        member.be_born(&disk, &birth, WalOptions::default()).expect("is born");
        disk.ops()
    };
    for (seed, stop) in (0..3).flat_map(|seed| (0..count).map(move |stop| (seed, stop))) {
        let disk = FaultDisk::new(seed);
        let stop_at = Some(stop);
        disk.set_plan(storage::fault_disk::FaultPlan { stop_at, ..Default::default() });
        let mut told = None;
        if let Ok(OpenedMember::Unborn(unborn)) = open(&disk, 1) {
            told = Some(unborn.member);
            let birth = birth(unborn.member);
            drop(unborn.be_born(&disk, &birth, WalOptions::default()));
        }
        disk.crash();
        let after = match open(&disk, 2).unwrap_or_else(|error| panic!("{error}")) {
            OpenedMember::Born(recovered) => *recovered,
            OpenedMember::Unborn(unborn) => {
                assert!(unborn.set_aside.is_none());
                let birth = birth(unborn.member);
                unborn.be_born(&disk, &birth, WalOptions::default()).expect("is born")
            }
        };
        assert_eq!(told.unwrap_or(after.origin.member), after.origin.member);
        assert_eq!(after.dir.birth(), &birth(after.origin.member));
    }
}

/// Other servers were added to it later. They may not have caught up, so its data may be the only
/// data that there is.
#[test]
fn a_corrupt_member_that_began_alone_is_not_set_aside() {
    let disk = FaultDisk::new(1);
    let member = unborn(&disk, 1);
    let birth = Birth { cluster_id: 7, voters: vec![member.member.0] };
    let mut lived = member.be_born(&disk, &birth, WalOptions::default()).expect("is born");
    (2..9).for_each(|index| append(&mut lived, index, 1));
    drop(lived);
    let path = disk.paths().into_iter().rfind(|path| path.ends_with(".log")).unwrap();
    let mut bytes = disk.content(&path).unwrap();
    bytes[8_256] ^= 1;
    disk.set_content(&path, bytes);
    let before = disk.paths();
    let opened = open_member(&disk, &SECRET, WalOptions::default(), |_| {});
    assert!(opened.is_err_and(|error| error.to_string().contains(".log is corrupt")));
    assert_eq!(disk.paths(), before);
}

#[test]
fn a_corrupt_member_is_set_aside_whole_and_comes_back_with_another_id() {
    type Damage<'d> = (&'d str, &'d dyn Fn(&FaultDisk));
    let flip = |disk: &FaultDisk, end: &str, at: usize| {
        let path = disk.paths().into_iter().rfind(|path| path.ends_with(end)).unwrap();
        let mut bytes = disk.content(&path).unwrap();
        bytes[at] ^= 1;
        disk.set_content(&path, bytes);
    };
    let damages: [Damage; 8] = [
        ("identity is corrupt", &|disk| flip(disk, "identity", 20)),
        // This byte is the version of the file's format.
        ("identity is corrupt", &|disk| flip(disk, "identity", 9)),
        (".snap is corrupt", &|disk| flip(disk, ".snap", 9)),
        (".log is corrupt", &|disk| flip(disk, ".log", 8_256)),
        ("identity is corrupt", &|disk| disk.lose_file("identity")),
        ("birth is corrupt", &|disk| flip(disk, "birth", 20)),
        (".snap is corrupt", &|disk| flip(disk, ".snap", 40)),
        (".log is corrupt", &|disk| flip(disk, ".log", 8_220)),
    ];
    for (expected, damage) in damages {
        let disk = FaultDisk::new(1);
        let member = unborn(&disk, 1);
        let id = member.member;
        let birth = Birth { cluster_id: 7, voters: vec![3, id.0] };
        let mut lived = member.be_born(&disk, &birth, WalOptions::default()).expect("is born");
        (2..9).for_each(|index| append(&mut lived, index, 1));
        drop(lived);
        damage(&disk);
        // A standalone server does not start then: no other server has its data.
        let refused = recover(&disk, &SECRET, WalOptions::default(), |_| {});
        assert!(refused.is_err_and(|error| error.to_string().contains(expected)), "{expected}");
        let before = disk.paths();
        assert!(before.iter().all(|path| !path.starts_with("set-aside")));
        let after = unborn(&disk, 2);
        assert_ne!(after.member, id);
        let (name, cause) = after.set_aside.as_ref().expect("was set aside");
        assert_eq!(name, "set-aside-1");
        assert!(cause.to_string().contains(expected), "{cause}");
        // A start that finds a bad snapshot has already opened the log, which changes its segments.
        let is_log = |path: &String| path.starts_with("wal/");
        for path in before.iter().filter(|path| *path != "LOCK" && !is_log(path)) {
            assert!(disk.content(&format!("set-aside-1/{path}")).is_some(), "{path}");
        }
        let paths = disk.paths();
        assert!(paths.iter().any(|path| path.starts_with("set-aside-1/wal/")));
        let left = paths.iter().filter(|path| !path.starts_with("set-aside-1/"));
        assert_eq!(left.collect::<Vec<_>>(), ["LOCK", "draft"]);
        let again = after.be_born(&disk, &birth, WalOptions::default()).expect("is born");
        assert_eq!(again.restored.entries.len(), 0);
    }
}

/// CRC-32C, which the formats on disk use.
fn crc32c(bytes: &[u8]) -> u32 {
    let bit = |crc: u32, _| (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), bit))
}

#[test]
fn what_another_start_may_read_is_not_set_aside() {
    let disk = FaultDisk::new(1);
    let member = unborn(&disk, 1);
    let birth = Birth { cluster_id: 7, voters: vec![member.member.0] };
    let running = member.be_born(&disk, &birth, WalOptions::default()).expect("is born");
    let refused = |disk: &FaultDisk| open(disk, 2).err().expect("is refused").to_string();
    assert!(refused(&disk).contains("in use"));
    drop(running);
    let fail = vec![(storage::fault_disk::Operation::Read, 12)];
    disk.set_plan(storage::fault_disk::FaultPlan { fail, ..Default::default() });
    assert!(refused(&disk).contains("injected fault"));
    // Now a later version wrote the file, and its checksum is right.
    let mut bytes = disk.content("identity").unwrap();
    bytes[8] = 2;
    let crc = crc32c(&bytes[..40]);
    bytes[40..].copy_from_slice(&crc.to_le_bytes());
    disk.set_content("identity", bytes);
    assert!(refused(&disk).contains("format version 2"));
    assert!(disk.paths().iter().all(|path| !path.starts_with("set-aside")));
}

#[test]
fn a_snapshot_of_a_later_version_is_not_set_aside_whatever_the_others_are() {
    for (position, byte, expected) in [
        (1, 9, "the image has format version 9"),
        (36, 2, "the image's section of space control has version 2"),
        (37, 5, "the image has a section of space 5"),
        (38, 2, "the image's section of space zk has version 2"),
        (45, 6, "the image has level 6, and this server knows up to 5: install version 0.1.0"),
    ] {
        for is_older_damaged in [false, true] {
            let refused = refused_image(|image| image[position] = byte, is_older_damaged);
            assert!(refused.contains(expected), "{refused}");
        }
    }
}

/// An entry whose only command raises the level.
fn raise(index: u64, level: Level) -> LogEntry {
    let mut builder = BatchBuilder::default();
    let command = Command::Control(ControlCommand::Raise(level.into()));
    builder.push(ConnectionId(0), &encode_identities([].into_iter()), &command).expect("it fits");
    let batch = builder.finish().stamp(Origin::default(), 1);
    let payload = entry::encode(1, 0, level, &[batch]);
    LogEntry { index, term: 1, kind: storage::wal::EntryKind::Normal, payload }
}

fn open_knowing(
    disk: &FaultDisk,
    level_max: Level,
) -> Result<OpenedMember<FaultDisk>, RecoveryError> {
    let reading = Reading { level_max, ..Reading::from(WalOptions::default()) };
    open_member(disk, &[2; 32], reading, |_| {})
}

#[test]
fn a_log_of_a_later_version_is_refused_and_not_set_aside_where_that_is_committed() {
    for (commit, is_refused) in [(1, false), (2, true)] {
        let disk = FaultDisk::new(1);
        let member = unborn(&disk, 1);
        let birth = Birth { cluster_id: 7, voters: vec![member.member.0] };
        let mut lived = member.be_born(&disk, &birth, WalOptions::default()).expect("is born");
        let hard_state = HardState { term: 1, vote: 0, commit };
        lived.wal.append(&[raise(2, Level::ETCD)], Some(hard_state), None).unwrap();
        lived.wal.commit().unwrap();
        drop(lived);
        let refused = open_knowing(&disk, Level::FIRST).err();
        assert_eq!(refused.is_some(), is_refused);
        if let Some(error) = refused {
            let said = "log entry 2 needs level 2, and this server knows up to 1: install version \
                        0.2.0 or later, or raise level_max where it is set";
            assert_eq!(error.to_string(), said);
        }
        assert!(disk.paths().iter().all(|path| !path.starts_with("set-aside")));
        assert!(matches!(open_knowing(&disk, Level::ETCD), Ok(OpenedMember::Born(_))));
    }
}

#[test]
fn a_snapshot_of_a_higher_level_is_refused_and_not_set_aside() {
    let disk = FaultDisk::new(1);
    let member = unborn(&disk, 1);
    let birth = Birth { cluster_id: 7, voters: vec![member.member.0] };
    let mut lived = member.be_born(&disk, &birth, WalOptions::default()).expect("is born");
    append(&mut lived, 2, 1);
    let mut raised = Machine::default();
    let command = Command::Control(ControlCommand::Raise(Level::ETCD.into()));
    let stamp = Stamp {
        time_ms: 1,
        origin: Origin::default(),
        connection: ConnectionId(0),
        identities: &[],
    };
    raised.apply(&stamp, &command, &mut Changes::default());
    raised.finish_entry(LogIndex(2));
    raised.freeze();
    let FreezeStep::Last(image) = raised.freeze_step(usize::MAX, u32::MAX) else {
        panic!("a small state is one piece");
    };
    write_image(&disk, &lived, (2, 1), |piece| *piece = image);
    lived.wal.release(SnapshotPoint { index: 2, term: 1 }).unwrap();
    lived.wal.commit().unwrap();
    drop(lived);
    let refused = open_knowing(&disk, Level::FIRST).err().expect("is refused").to_string();
    let said = "the image has level 2, and this server knows up to 1: install version 0.2.0";
    assert!(refused.contains(said), "{refused}");
    assert!(disk.paths().iter().all(|path| !path.starts_with("set-aside")));
    assert!(matches!(open_knowing(&disk, Level::ETCD), Ok(OpenedMember::Born(_))));
}

/// Starts a member whose newest image `change` has changed, and whose older one is damaged or does
/// not reach to the log. Checks that nothing is set aside, and returns the text of the error.
fn refused_image(change: impl FnOnce(&mut Vec<u8>), is_older_damaged: bool) -> String {
    let disk = FaultDisk::new(1);
    let member = unborn(&disk, 1);
    let birth = Birth { cluster_id: 7, voters: vec![member.member.0] };
    let mut lived = member.be_born(&disk, &birth, WalOptions::default()).expect("is born");
    (2..9).for_each(|index| append(&mut lived, index, 1));
    write_image(&disk, &lived, (8, 1), change);
    let first = disk.paths().into_iter().find(|path| path.ends_with(".snap")).unwrap();
    if is_older_damaged {
        let bytes = disk.content(&first).unwrap();
        disk.set_content(&first, bytes[..40].to_vec());
    } else {
        lived.wal.release(SnapshotPoint { index: 8, term: 1 }).unwrap();
        lived.wal.commit().unwrap();
    }
    drop(lived);
    let refused = open(&disk, 2).err().expect("is refused").to_string();
    assert!(disk.paths().iter().all(|path| !path.starts_with("set-aside")));
    refused
}

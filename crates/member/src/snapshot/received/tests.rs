use machine::entry::{self, BatchBuilder};
use machine::{
    Changes, Command, ConnectionId, ControlCommand, LogIndex, Machine, Op, Origin, SessionId,
    Settings, Stamp, ZkCommand,
};
use storage::fault_disk::{FaultDisk, FaultPlan, Operation};
use storage::snapshot::{has_received, snapshot_name};
use storage::wal::{EntryKind, HardState, LogEntry, Membership, WalOptions};

use super::*;
use crate::inspect::inspect;
use crate::message::SnapshotJob;
use crate::recovery::{Recovered, recover};
use crate::snapshot::writer::SnapshotWriter;

const SECRET: [u8; 32] = [5; 32];

/// Options with small segments, since these disks are copied often.
const WAL: WalOptions = WalOptions {
    segment_bytes: 64 * 1024,
    first_segment_bytes: 64 * 1024,
    group: 0,
    spare_count: 1,
};

/// A machine with one session, which a new machine does not have.
fn machine_with_session() -> Machine {
    let mut machine = Machine::default();
    let command = Command::Zk(ZkCommand::OpenSession {
        session: SessionId(9),
        password: [1; 16],
        timeout_ms: 4_000,
    });
    let (origin, connection) = (Origin::default(), ConnectionId(3));
    let stamp = Stamp { time_ms: 1, origin, connection, identities: &[] };
    let reply = machine.apply(&stamp, &command, &mut Changes::default());
    assert!(matches!(reply.outcome, machine::Outcome::Zk(Ok(_))), "it is the first");
    machine.finish_entry(LogIndex(2));
    machine
}

/// The bytes of a snapshot of that machine, as another server writes it.
fn snapshot_bytes() -> Vec<u8> {
    let disk = FaultDisk::new(3);
    drop(recover(&disk, &SECRET, WAL, |_| {}).expect("it is born"));
    let mut image = SnapshotWriter::new(disk.clone(), 1);
    let mut machine = machine_with_session();
    machine.freeze();
    let machine::image::FreezeStep::Last(piece) = machine.freeze_step(usize::MAX, u32::MAX) else {
        panic!("a small state is one piece");
    };
    let membership = Membership { voters: vec![1], ..Membership::default() };
    let mark = machine.mark();
    image.handle(SnapshotJob::Begin { number: 1, index: 2, term: 1, membership, mark }, || ());
    image.handle(SnapshotJob::Piece(piece), || ());
    assert!(image.handle(SnapshotJob::Finish, || ()).problems.is_empty());
    disk.content(&format!("snapshots/{}", snapshot_name(2, 1))).expect("it was just written")
}

fn born() -> FaultDisk {
    let disk = FaultDisk::new(1);
    drop(found(&disk));
    disk
}

fn found(disk: &FaultDisk) -> Recovered<FaultDisk> {
    recover(disk, &SECRET, WAL, |_| {}).expect("the directory is fine")
}

fn receive(disk: &FaultDisk, bytes: &[u8]) -> Result<PreparedImage, RecoveryError> {
    let mut receiver = ImageReceiver::new(disk.clone())?;
    for part in bytes.chunks(7) {
        receiver.write(part)?;
    }
    receiver.finish()
}

/// Appends an entry that installs this image, like one that Loop makes.
fn append_install(found: &mut Recovered<FaultDisk>, hash: u128) {
    let mut builder = BatchBuilder::default();
    let nobody = entry::encode_identities([].into_iter());
    builder
        .push(ConnectionId(0), &nobody, &Command::Zk(ZkCommand::Configure(Settings::default())))
        .expect("it fits");
    builder
        .push(ConnectionId(0), &nobody, &Command::Control(ControlCommand::InstallImage { hash }))
        .expect("it fits");
    let batch = builder.finish().stamp(found.origin, 1);
    let payload = entry::encode(1, 0, machine::Level::FIRST, &[batch]);
    let entry = LogEntry { index: 2, term: 1, kind: EntryKind::Normal, payload };
    let hard_state = HardState { term: 1, vote: 0, commit: 1 };
    found.wal.append(&[entry], Some(hard_state), None).expect("there is room");
    found.wal.commit().expect("the disk works");
}

#[test]
fn a_snapshot_of_another_server_is_received_and_kept() {
    let disk = born();
    let image = receive(&disk, &snapshot_bytes()).expect("nothing is wrong with it");
    assert!(image.machine.zk().sessions().get(SessionId(9)).is_some());
    assert!(has_received(&disk).expect("the disk works"));
}

#[test]
fn what_is_no_whole_snapshot_is_not_kept() {
    let whole = snapshot_bytes();
    let mut changed = whole.clone();
    changed[whole.len() / 2] ^= 4;
    let longer = [&*whole, b"x"].concat();
    let zookeeper = [b"ZKSN\0\0\0\x02".as_slice(), &[0; 100]].concat();
    let cut = (0..whole.len()).map(|end| whole[..end].to_vec());
    for bytes in cut.chain([changed, longer, zookeeper]) {
        let disk = born();
        assert!(receive(&disk, &bytes).is_err(), "{} bytes", bytes.len());
        assert!(!has_received(&disk).expect("the disk works"));
        drop(found(&disk));
        assert!(disk.paths().iter().all(|path| !path.contains("received")));
    }
}

#[test]
fn one_that_an_entry_names_is_prepared_by_every_start() {
    let disk = born();
    let image = receive(&disk, &snapshot_bytes()).expect("nothing is wrong with it");
    let mut before = found_with_kept(&disk, &image);
    append_install(&mut before, image.hash);
    drop(before);
    for _ in 0..2 {
        let mut after = found(&disk);
        let payload = after.restored.entries[0].payload.clone();
        let batch = entry::decode_batch(&payload, entry::HEADER_BYTES).expect("it was encoded");
        let first = batch.command(0).expect("it decodes").expect("there are two");
        let framed = batch.command(first.end).expect("it decodes").expect("there are two");
        let (origin, connection) = (batch.origin, ConnectionId(0));
        let stamp = Stamp { time_ms: 1, origin, connection, identities: &[] };
        let mut changes = Changes::default();
        let reply = after.machine.apply(&stamp, &framed.command, &mut changes);
        assert_eq!(reply.outcome, machine::Outcome::DONE);
        assert!(after.machine.zk().sessions().get(SessionId(9)).is_some());
        assert!(has_received(&disk).expect("the disk works"));
    }
}

/// A start with the received snapshot in place. The start removes it, since no entry names it, so
/// it is then received again.
fn found_with_kept(disk: &FaultDisk, image: &PreparedImage) -> Recovered<FaultDisk> {
    let recovered = found(disk);
    assert!(!has_received(disk).expect("the disk works"), "nothing named it");
    let again = receive(disk, &snapshot_bytes()).expect("nothing is wrong with it");
    assert_eq!(again.hash, image.hash);
    recovered
}

#[test]
fn one_that_is_named_and_lost_or_damaged_is_an_error() {
    let disk = born();
    let image = receive(&disk, &snapshot_bytes()).expect("nothing is wrong with it");
    let mut before = found_with_kept(&disk, &image);
    append_install(&mut before, image.hash);
    drop(before);
    assert!(inspect(&disk).is_sound());
    let path = format!("snapshots/{RECEIVED_NAME}");
    let whole = disk.content(&path).expect("it is kept");
    let end = whole.len();
    let flipped = (0..100).chain((100..end - 50).step_by(11)).chain(end - 50..end).map(|at| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        Some(bytes)
    });
    let cut = (0..end).step_by(37).map(|end| Some(whole[..end].to_vec()));
    for bytes in flipped.chain(cut).chain([None]) {
        let damaged = disk.fork(1);
        match &bytes {
            Some(bytes) => damaged.set_content(&path, bytes.clone()),
            None => damaged.lose_file(&path),
        }
        let problems = inspect(&damaged).problems;
        let failure = recover(&damaged, &SECRET, WAL, |_| {}).err();
        let failure = failure.expect("the log cannot be applied");
        assert!(failure.is_corruption(), "{failure}");
        for text in problems.iter().chain([&failure.to_string()]) {
            assert!(text.contains("received.snap is corrupt"), "{text}");
        }
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert_eq!(damaged.content(&path), bytes);
    }
}

#[test]
fn another_one_than_is_named_is_an_error() {
    let disk = born();
    let image = receive(&disk, &snapshot_bytes()).expect("nothing is wrong with it");
    let mut before = found_with_kept(&disk, &image);
    append_install(&mut before, image.hash ^ 1);
    drop(before);
    let failure = recover(&disk, &SECRET, WAL, |_| {}).err();
    let text = failure.expect("the log cannot be applied").to_string();
    assert!(text.contains("it is another one: entry 2 of the log installs it"), "{text}");
    assert_eq!(inspect(&disk).problems, [text]);
}

/// An entry that a later version wrote may name the received snapshot.
#[test]
fn beside_an_entry_that_cannot_be_read_it_is_left() {
    let disk = born();
    let image = receive(&disk, &snapshot_bytes()).expect("nothing is wrong with it");
    let mut before = found_with_kept(&disk, &image);
    let payload = bytes::Bytes::from_static(b"what a later version wrote");
    let entry = LogEntry { index: 2, term: 1, kind: EntryKind::Normal, payload };
    let hard_state = HardState { term: 1, vote: 0, commit: 1 };
    before.wal.append(&[entry], Some(hard_state), None).expect("there is room");
    before.wal.commit().expect("the disk works");
    drop(before);
    assert_eq!(found(&disk).restored.entries.len(), 1);
    assert!(has_received(&disk).expect("the disk works"));
}

#[test]
fn a_disk_that_is_full_costs_the_snapshot_alone() {
    let disk = born();
    let whole = snapshot_bytes();
    disk.set_plan(FaultPlan { full: vec![(Operation::Write, 20)], ..FaultPlan::default() });
    let error = receive(&disk, &whole).expect_err("there is no room").to_string();
    assert!(error.contains("the disk is full"), "{error}");
    discard(&disk).expect("the disk works");
    assert!(disk.paths().iter().all(|path| !path.contains("received")));
}

/// An entry with these commands.
fn entry_of(index: u64, commands: &[Command<'_>]) -> LogEntry {
    let mut builder = BatchBuilder::default();
    let nobody = entry::encode_identities([].into_iter());
    for command in commands {
        builder.push(ConnectionId(0), &nobody, command).expect("it fits");
    }
    let batch = builder.finish().stamp(Origin::default(), index);
    LogEntry {
        index,
        term: 1,
        kind: EntryKind::Normal,
        payload: entry::encode(1, 0, machine::Level::FIRST, &[batch]),
    }
}

#[test]
fn the_survey_counts_znodes_and_finds_the_last_image() {
    let create = |path| Op::Create {
        path,
        malformed: false,
        data: None,
        acl: machine::zk::command::AskedAcl::Open,
        mode: machine::CreateMode::Persistent,
        ttl_ms: -1,
    };
    let session = SessionId(9);
    let delete = Op::Delete { path: "/a", version: -1 };
    let write = |op| Command::Zk(ZkCommand::Write { session, op });
    let multi = Command::Zk(ZkCommand::Multi {
        session,
        ops: vec![create("/c"), create("/d"), delete.clone()],
    });
    let entries = [
        entry_of(2, &[write(create("/a")), write(create("/b"))]),
        entry_of(3, &[Command::Control(ControlCommand::InstallImage { hash: 1 }), multi]),
        LogEntry { payload: b"x".as_slice().into(), ..entry_of(4, &[]) },
        LogEntry { payload: b"".as_slice().into(), ..entry_of(5, &[]) },
        entry_of(6, &[Command::Control(ControlCommand::InstallImage { hash: 2 })]),
        LogEntry { kind: EntryKind::MembershipChange, ..entry_of(7, &[write(create("/e"))]) },
    ];
    for middle in 0..=entries.len() {
        let mut survey = Survey::of(&entries[..middle]);
        survey.add(Survey::of(&entries[middle..]));
        assert_eq!(survey.named, Some((6, 2)));
        assert_eq!(survey.znodes_more(), 3);
        assert!(survey.is_unreadable);
    }
    let survey = Survey::of(&[entry_of(2, &[write(delete)])]);
    assert_eq!((survey.named, survey.znodes_more(), survey.is_unreadable), (None, 0, false));
}

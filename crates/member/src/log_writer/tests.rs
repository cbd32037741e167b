//! Tests of Loop with its log writer, on a disk with or without room: which entries become durable,
//! and what the log writer reports to Loop about the room.

use machine::{Command, Op, SessionId, ZkCommand};
use storage::fault_disk::{FaultDisk, FaultPlan, Operation};
use storage::wal::WalOptions;

use super::*;
use crate::Loop;
use crate::fronts::zk::tests::rig::{own_batch, plenty_of_room};
use crate::message::{FrontId, LoopInput, Submission, Ticket, ToApply, ToLoop, Waiter};
use crate::recovery::{Options, Recovered, recover, start};

const KIB: u64 = 1024;
const SECRET: [u8; 32] = [7; 32];
const WAL: WalOptions = WalOptions {
    segment_bytes: 256 * KIB,
    first_segment_bytes: 64 * KIB,
    group: 0,
    spare_count: 2,
};

/// The room below which writes are refused: enough for a few commands.
const ROOM_BYTES_MIN: u64 = 8 * KIB;

struct Rig {
    disk: FaultDisk,
    member: Loop,
    log: LogWriter<FaultDisk>,
    now_ms: u64,
    /// Each message to Loop about the disk: whether it is full.
    told: Vec<bool>,
    /// The shortages that the driver would log.
    lacks: Vec<String>,
    /// The last index that Loop handed to Apply.
    committed: u64,
    refused: usize,
}

fn recovered(disk: &FaultDisk) -> Recovered<FaultDisk> {
    recover(disk, &SECRET, WAL, |error| panic!("{error}")).expect("the directory is fine")
}

fn options() -> Options {
    Options { spaces: Default::default(), order: crate::fronts::zk::tests::rig::options() }
}

impl Rig {
    fn new(disk: FaultDisk) -> Rig {
        let found = recovered(&disk);
        let (mut member, _) =
            start(found.origin, &found.machine, found.restored, options()).unwrap();
        member.handle(plenty_of_room()).unwrap();
        let log = LogWriter::new(found.wal, ROOM_BYTES_MIN);
        let mut rig = Rig {
            disk,
            member,
            log,
            now_ms: 0,
            told: Vec::new(),
            lacks: Vec::new(),
            committed: 0,
            refused: 0,
        };
        rig.settle();
        rig
    }

    /// Runs Loop and the log until both have nothing more to do. Segments are made at once.
    fn settle(&mut self) {
        let mut is_quiet = false;
        while !is_quiet {
            let output = self.member.finish(0);
            is_quiet = output.disk.is_empty();
            for job in output.disk {
                self.log.receive(LogInput::Job(job), self.now_ms).unwrap();
            }
            for message in output.apply {
                match message {
                    ToApply::Entries(entries) => self.committed = entries.last().unwrap().index,
                    ToApply::Refuse { waiters, .. } => self.refused += waiters.len(),
                    _ => {}
                }
            }
            is_quiet &= !self.write();
        }
    }

    /// Runs the disk thread once. Returns whether it had output.
    fn write(&mut self) -> bool {
        let output = self.log.finish(self.now_ms).expect("the disk works");
        let news = output.persisted.is_some() || output.is_full.is_some() || output.spare.is_some();
        if let Some(id) = output.persisted {
            self.member.handle(LoopInput::Persisted(id)).unwrap();
        }
        if let Some(is_full) = output.is_full {
            self.told.push(is_full);
            self.member.handle(LoopInput::DiskRoom { is_full }).unwrap();
        }
        self.lacks.extend(output.lack.map(|lack| lack.to_string()));
        if let Some(mut job) = output.spare {
            let made = loop {
                match job.step(&self.disk) {
                    Ok(false) => {}
                    Ok(true) => break Ok(()),
                    Err(error) => break Err(error),
                }
            };
            self.log
                .receive(LogInput::Spare(job, made), self.now_ms)
                .expect("room is all it lacks");
        }
        news
    }

    fn submit(&mut self, bytes: usize) {
        let data = vec![b'x'; bytes];
        let op = Op::SetData { path: "/a", malformed: false, data: Some(&data), version: -1 };
        let batch = own_batch(1, &Command::Zk(ZkCommand::Write { session: SessionId(1), op }));
        let waiters = vec![Waiter::new(machine::ConnectionId(1), Ticket(0))];
        self.member
            .handle(LoopInput::Front(ToLoop::Submit(Submission {
                front: FrontId(0),
                batch,
                waiters,
            })))
            .unwrap();
    }

    fn write_one(&mut self, bytes: usize) {
        self.submit(bytes);
        self.settle();
    }

    /// Limits the disk to the present bytes of all files, and `more`.
    fn limit_room(&mut self, more: u64) {
        let bytes = |path: &String| self.disk.content(path).map_or(0, |it| it.len() as u64);
        let now: u64 = self.disk.paths().iter().map(bytes).sum();
        self.disk.set_plan(FaultPlan { bytes_max: Some(now + more), ..FaultPlan::default() });
    }

    fn give_room(&mut self) {
        self.disk.set_plan(FaultPlan::default());
    }

    fn wait(&mut self, ms: u64) {
        self.now_ms += ms;
        self.settle();
    }

    /// The index of the last entry that another start finds after a power cut.
    fn last_after_crash(&self) -> u64 {
        let disk = self.disk.fork(1);
        disk.crash();
        disk.set_plan(FaultPlan::default());
        recovered(&disk).restored.entries.last().unwrap().index
    }
}

/// A release names a snapshot that a queued job will install: the log does not reach it before
/// that.
#[test]
fn a_release_waits_for_the_installation_of_its_snapshot() {
    let mut rig = Rig::new(FaultDisk::new(1));
    rig.submit(100);
    let mut job = rig.member.finish(0).disk.remove(0);
    let (id, point) = (job.id, SnapshotPoint { index: 1_000, term: 9 });
    job.entries.clear();
    let voters = vec![1, 2, 3];
    job.membership = Some(storage::wal::Membership { voters, ..Default::default() });
    job.install = Some(point);
    rig.log.receive(LogInput::Job(job), 0).unwrap();
    rig.log.receive(LogInput::Release(point), 0).unwrap();
    assert_eq!(rig.log.finish(0).unwrap().persisted, Some(id));
    assert!(rig.log.is_idle());
    let disk = rig.disk.fork(1);
    disk.crash();
    let (wal, _) = Wal::open(disk, WAL).unwrap();
    assert_eq!((wal.snapshot(), wal.last_index()), (point, 1_000));
}

#[test]
fn what_is_queued_goes_in_one_sync() {
    let mut rig = Rig::new(FaultDisk::new(1));
    let mut jobs = Vec::new();
    for _ in 0..3 {
        rig.submit(100);
        jobs.extend(rig.member.finish(0).disk);
    }
    assert_eq!(jobs.len(), 3);
    let last = jobs[2].id;
    let before = rig.disk.sync_count();
    for job in jobs {
        rig.log.receive(LogInput::Job(job), 0).unwrap();
    }
    assert_eq!(rig.log.finish(0).unwrap().persisted, Some(last));
    assert_eq!(rig.disk.sync_count(), before + 1);
}

#[test]
fn an_idle_log_is_marked_once_and_then_sleeps() {
    let mut rig = Rig::new(FaultDisk::new(1));
    rig.write_one(100);
    assert!(!rig.write());
    assert_eq!(rig.log.deadline_ms(5), None);
    let before = rig.disk.ops();
    assert!(!rig.write());
    assert_eq!(rig.disk.ops(), before);
    rig.submit(100);
    let jobs = rig.member.finish(0).disk;
    jobs.into_iter().for_each(|job| rig.log.receive(LogInput::Job(job), 5).unwrap());
    assert!(rig.write());
    assert_eq!(rig.log.deadline_ms(5), Some(5 + DISK_IDLE_MS));
}

#[test]
fn a_full_disk_refuses_before_anything_is_stuck_and_takes_writes_when_there_is_room() {
    let mut rig = Rig::new(FaultDisk::new(1));
    rig.limit_room(0);
    let mut count = 0;
    while rig.refused == 0 {
        rig.write_one(1_000);
        count += 1;
    }
    // All segments made ahead were used up; only the reserve is left.
    assert!(count > 400, "{count}");
    assert_eq!(rig.told, [true]);
    assert_eq!(rig.lacks.len(), 1, "{:?}", rig.lacks);
    assert!(rig.lacks[0].contains("the disk is full"), "{:?}", rig.lacks);
    assert!(rig.log.is_idle());
    assert_eq!(rig.last_after_crash(), rig.committed);
    rig.give_room();
    rig.wait(DISK_FULL_RETRY_MS - 1);
    assert_eq!(rig.told, [true]);
    rig.wait(1);
    assert_eq!(rig.told, [true, false]);
    let committed = rig.committed;
    rig.write_one(1_000);
    assert_eq!((rig.refused, rig.committed), (1, committed + 1));
}

/// Lets each kind of operation that needs a file descriptor fail at first, as if there were none
/// left.
#[test]
fn a_log_without_descriptors_refuses_writes_and_takes_them_when_there_are_some() {
    for operation in [Operation::Create, Operation::SyncDir, Operation::Open] {
        let mut rig = Rig::new(FaultDisk::new(1));
        let no_descriptor = (0..10_000).map(|nth| (operation, nth)).collect();
        rig.disk.set_plan(FaultPlan { no_descriptor, ..FaultPlan::default() });
        let mut count = 0;
        while rig.refused == 0 {
            rig.write_one(1_000);
            count += 1;
            assert!(count < 10_000, "{operation:?}: there is always a descriptor");
        }
        rig.give_room();
        assert_eq!(rig.told, [true], "{operation:?}");
        assert_eq!(rig.lacks.len(), 1, "{:?}", rig.lacks);
        assert!(rig.lacks[0].contains("no file descriptor is left"), "{:?}", rig.lacks);
        rig.wait(DISK_FULL_RETRY_MS);
        assert_eq!(rig.told, [true, false], "{operation:?}");
        let committed = rig.committed;
        rig.write_one(1_000);
        assert!(rig.committed > committed, "{operation:?}");
        assert_eq!(rig.last_after_crash(), rig.committed, "{operation:?}");
    }
}

/// The disk has room for a small spare segment, but not for one of the ordinary size.
#[test]
fn room_for_small_segments_is_used_before_writes_are_refused() {
    let mut rig = Rig::new(FaultDisk::new(1));
    rig.limit_room(100 * KIB);
    let mut in_all = 0;
    while rig.refused == 0 {
        rig.write_one(1_000);
        in_all += 1;
    }
    let mut other = Rig::new(FaultDisk::new(1));
    other.limit_room(0);
    let mut without = 0;
    while other.refused == 0 {
        other.write_one(1_000);
        without += 1;
    }
    assert!(in_all > without + 40, "{in_all} and {without}");
    // With room for one more small segment, writes are accepted again although an ordinary one
    // still does not fit.
    rig.limit_room(65 * KIB);
    rig.wait(DISK_FULL_RETRY_MS);
    assert_eq!(rig.told, [true, false]);
}

/// Accepted writes that find no room wait for some, in order, and are acknowledged once they are
/// durable.
#[test]
fn what_finds_no_room_is_held_and_tried_again() {
    let mut rig = Rig::new(FaultDisk::new(1));
    rig.limit_room(0);
    rig.write_one(700 * KIB as usize);
    rig.write_one(10);
    let committed = rig.committed;
    assert!(!rig.log.is_idle());
    assert_eq!((rig.told.as_slice(), rig.refused), ([true].as_slice(), 1));
    assert_eq!(rig.log.deadline_ms(0), Some(DISK_FULL_RETRY_MS));
    rig.wait(DISK_FULL_RETRY_MS);
    assert_eq!(rig.committed, committed);
    rig.give_room();
    rig.wait(DISK_FULL_RETRY_MS);
    assert_eq!((rig.committed, rig.told.as_slice()), (committed + 1, [true, false].as_slice()));
    assert_eq!(rig.last_after_crash(), committed + 1);
}

#[test]
fn a_spare_whose_sync_fails_is_the_end() {
    let mut rig = Rig::new(FaultDisk::new(1));
    // The log has gone into the next segment, so a spare is missing.
    let mut job = loop {
        rig.submit(1_000);
        for job in rig.member.finish(0).disk {
            rig.log.receive(LogInput::Job(job), 0).unwrap();
        }
        let output = rig.log.finish(0).unwrap();
        output
            .persisted
            .into_iter()
            .for_each(|id| rig.member.handle(LoopInput::Persisted(id)).unwrap());
        if let Some(job) = output.spare {
            break job;
        }
    };
    rig.disk.set_plan(FaultPlan { fail: vec![(Operation::Sync, 0)], ..FaultPlan::default() });
    let error = job.step(&rig.disk).unwrap_err();
    assert!(rig.log.receive(LogInput::Spare(job, Err(error)), 0).is_err());
}

/// Writes hard states to the log until not even those find room.
fn use_up(rig: &mut Rig) {
    let hard_state = rig.log.wal.hard_state();
    loop {
        match rig.log.wal.append(&[], Some(hard_state), None) {
            Ok(()) => drop(rig.log.wal.commit().unwrap()),
            Err(StorageError::DiskFull { .. }) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_release_that_finds_no_room_waits_for_some() {
    let mut rig = Rig::new(FaultDisk::new(1));
    rig.limit_room(0);
    while rig.refused == 0 {
        rig.write_one(1_000);
    }
    use_up(&mut rig);
    let before = rig.log.wal.segment_count();
    let point = SnapshotPoint { index: rig.committed, term: rig.log.wal.hard_state().term };
    rig.log.receive(LogInput::Release(point), rig.now_ms).expect("is no failure of the disk");
    rig.settle();
    assert!(!rig.log.is_idle());
    assert_eq!(rig.log.wal.segment_count(), before);
    assert_eq!(rig.log.deadline_ms(rig.now_ms), Some(rig.now_ms + DISK_FULL_RETRY_MS));
    rig.give_room();
    rig.wait(DISK_FULL_RETRY_MS);
    assert!(rig.log.is_idle());
    assert!(rig.log.wal.segment_count() < before);
    assert_eq!(rig.told, [true, false]);
    let committed = rig.committed;
    rig.write_one(1_000);
    assert_eq!(rig.committed, committed + 1);
}

#[test]
fn a_segment_whose_name_finds_no_room_is_waited_for_and_nothing_is_written_twice() {
    let mut rig = Rig::new(FaultDisk::new(1));
    let full = (0..1_000).map(|nth| (Operation::Rename, nth)).collect();
    rig.disk.set_plan(FaultPlan { full, ..FaultPlan::default() });
    while rig.told.is_empty() {
        rig.write_one(1_000);
    }
    let committed = rig.committed;
    assert!(!rig.log.is_idle());
    assert_eq!(rig.last_after_crash(), committed);
    rig.wait(DISK_FULL_RETRY_MS);
    assert_eq!(rig.committed, committed);
    rig.give_room();
    rig.wait(DISK_FULL_RETRY_MS);
    assert_eq!(rig.committed, committed + 1);
    assert_eq!(rig.told, [true, false]);
    rig.write_one(1_000);
    assert_eq!(rig.committed, committed + 2);
    assert_eq!(rig.last_after_crash(), committed + 2);
}

#[test]
fn a_log_that_yields_room_refuses_writes_only_once_its_segment_is_nearly_full() {
    let mut rig = Rig::new(FaultDisk::new(1));
    rig.log.receive(LogInput::YieldRoom(true), 0).unwrap();
    rig.settle();
    assert_eq!(rig.told, [false; 0]);
    while rig.refused == 0 {
        rig.write_one(1_000);
    }
    assert_eq!(rig.told, [true]);
    assert!(rig.log.is_idle());
    rig.wait(10 * DISK_FULL_RETRY_MS);
    assert_eq!(rig.told, [true]);
    rig.log.receive(LogInput::YieldRoom(false), rig.now_ms).unwrap();
    rig.settle();
    assert_eq!(rig.told, [true, false]);
}

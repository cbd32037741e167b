//! Tests of failing calls: each call that a start and a run make to the file system fails once:
//! with an error of the disk, for lack of room, and for lack of a file descriptor.
//!
//! The next start must have all acknowledged entries, after a kill and after a power cut. A
//! directory that could not be read must not be set aside. A server that had started must go on if
//! only room or a descriptor was missing.

use std::collections::BTreeMap;

use machine::{Command, Op, SessionId, ZkCommand};
use storage::fault_disk::{FaultPlan, Operation};

use super::*;
use crate::fronts::zk::tests::rig::{own_batch, plenty_of_room};
use crate::limits::DISK_FULL_RETRY_MS;
use crate::log_writer::{LogInput, LogWriter};
use crate::message::{FrontId, LoopInput, Submission, Ticket, ToApply, ToLoop, Waiter};

const ROOM_BYTES_MIN: u64 = 8 * 1024;

/// Bytes of a write, so that a few fill a segment.
const LARGE: usize = 9_000;

/// How many times a refused write is tried.
const TRIES: u32 = 5;

/// The payloads of acknowledged entries by index.
type Acked = BTreeMap<u64, bytes::Bytes>;

struct Life<'a> {
    disk: &'a FaultDisk,
    acked: &'a mut Acked,
    member: Loop,
    log: LogWriter<FaultDisk>,
    now_ms: u64,
    is_refused: bool,
}

impl Life<'_> {
    /// Runs Loop and the log until neither has anything to do.
    fn settle(&mut self) -> Result<(), StorageError> {
        loop {
            let output = self.member.finish(0);
            let mut is_quiet = output.disk.is_empty();
            for job in output.disk {
                self.log.receive(LogInput::Job(job), self.now_ms)?;
            }
            for message in output.apply {
                match message {
                    ToApply::Entries(entries) => self
                        .acked
                        .extend(entries.iter().map(|entry| (entry.index, entry.payload.clone()))),
                    ToApply::Refuse { .. } => self.is_refused = true,
                    _ => {}
                }
            }
            is_quiet &= !self.write_log()?;
            if is_quiet {
                return Ok(());
            }
        }
    }

    /// Runs the disk thread once. Returns whether it had output.
    fn write_log(&mut self) -> Result<bool, StorageError> {
        let output = self.log.finish(self.now_ms)?;
        if let Some(id) = output.persisted {
            self.member.handle(LoopInput::Persisted(id)).unwrap();
        }
        if let Some(is_full) = output.is_full {
            self.member.handle(LoopInput::DiskRoom { is_full }).unwrap();
        }
        let mut is_news = output.persisted.is_some() || output.is_full.is_some();
        if let Some(mut job) = output.spare {
            is_news = true;
            let made = loop {
                match job.step(self.disk) {
                    Ok(false) => {}
                    other => break other.map(|_| ()),
                }
            };
            self.log.receive(LogInput::Spare(job, made), self.now_ms)?;
        }
        Ok(is_news)
    }

    fn wait(&mut self) -> Result<(), StorageError> {
        self.now_ms += DISK_FULL_RETRY_MS;
        self.settle()
    }

    /// Hands over a write until it is accepted.
    fn write(&mut self) -> Result<(), StorageError> {
        let before = self.acked.len();
        for _ in 0..TRIES {
            self.is_refused = false;
            let data = vec![b'x'; LARGE];
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
            self.settle()?;
            // A write that is not refused is held until there is room.
            while self.acked.len() == before && !self.is_refused {
                self.wait()?;
            }
            if self.acked.len() > before {
                return Ok(());
            }
            self.wait()?;
        }
        panic!("a write is refused although the disk works again");
    }

    /// Takes a snapshot of the acknowledged entries, and releases the log that it covers.
    fn snapshot(&mut self, image: &mut SnapshotWriter<FaultDisk>) -> Result<(), StorageError> {
        let (&index, _) = self.acked.last_key_value().expect("something was written");
        let membership = Membership { voters: vec![MEMBER], ..Membership::default() };
        let piece = empty_image(index);
        for _ in 0..TRIES {
            let (term, mark, membership) = (1, machine::Mark::default(), membership.clone());
            image.handle(SnapshotJob::Begin { number: 1, index, term, membership, mark }, || ());
            image.handle(SnapshotJob::Piece(piece.clone()), || ());
            if let Some(FromSnapshot::Finished { .. }) =
                image.handle(SnapshotJob::Finish, || ()).report
            {
                let point = SnapshotPoint { index, term };
                self.log.receive(LogInput::Release(point), self.now_ms)?;
                return self.settle();
            }
        }
        panic!("no snapshot can be written although the disk works again");
    }
}

/// One run of a server: a start, then writes, a snapshot, more writes, and rest. Adds durable
/// entries to `acked`.
///
/// # Errors
/// The process ends. The error says whether the server had started, and why it ended.
fn live(disk: &FaultDisk, acked: &mut Acked) -> Result<(), (bool, String)> {
    let found = match open_member(disk, &SECRET, SMALL_WAL, |_| {}) {
        Ok(OpenedMember::Born(found)) => *found,
        Ok(OpenedMember::Unborn(unborn)) => {
            if let Some((_, cause)) = &unborn.set_aside {
                panic!("it was set aside: {cause}");
            }
            assert!(acked.is_empty(), "it was born before");
            let birth = Birth { cluster_id: 1, voters: vec![unborn.member.0] };
            unborn.be_born(disk, &birth, SMALL_WAL).map_err(|error| (false, error.to_string()))?
        }
        Err(error) => {
            assert!(!error.is_corruption(), "{error}");
            return Err((false, error.to_string()));
        }
    };
    assert_eq!(found.origin.member.0, MEMBER);
    let mut image = SnapshotWriter::new(disk.clone(), found.dir.identity().cluster_id);
    let (mut member, _) = start(found.origin, &found.machine, found.restored, options())
        .expect("what is restored agrees");
    member.handle(plenty_of_room()).unwrap();
    let log = LogWriter::new(found.wal, ROOM_BYTES_MIN);
    let mut life = Life { disk, acked, member, log, now_ms: 0, is_refused: false };
    let lived = life.settle().and_then(|()| {
        (0..5).try_for_each(|_| life.write())?;
        life.snapshot(&mut image)?;
        (0..6).try_for_each(|_| life.write())?;
        // Without input, the log writes the mark that all of it is durable.
        (0..2).try_for_each(|_| life.wait())
    });
    lived.map_err(|error| (true, error.to_string()))
}

/// The member id that results from the one secret of these tests.
const MEMBER: u64 = u64::from_le_bytes([7; 8]);

/// Checks that the next start has all acknowledged entries.
fn check(disk: &FaultDisk, acked: &Acked, what: &str) {
    disk.set_plan(FaultPlan::default());
    let found = match open_member(disk, &SECRET, SMALL_WAL, |_| {}) {
        Ok(OpenedMember::Born(found)) => found,
        Ok(OpenedMember::Unborn(unborn)) => {
            let is_aside = unborn.set_aside.is_some();
            assert!(acked.is_empty() && !is_aside, "{what}: it is not born");
            return;
        }
        Err(error) => panic!("{what}: {error}"),
    };
    let entries = &found.restored.entries;
    for (index, payload) in acked.range(found.restored.snapshot_index + 1..) {
        let entry = entries.iter().find(|entry| entry.index == *index);
        let entry = entry.unwrap_or_else(|| panic!("{what}: {index} is lost"));
        assert!(entry.payload == *payload, "{what}: {index} is another");
    }
}

/// A directory after two runs of a server, and the entries that were acknowledged.
fn lived() -> (FaultDisk, Acked) {
    let (disk, mut acked) = (FaultDisk::new(1), Acked::new());
    for _ in 0..2 {
        live(&disk, &mut acked).expect("the disk works");
        disk.kill();
    }
    (disk, acked)
}

/// Lets the n-th call of a kind fail, for each n that is reached, in an empty directory and in one
/// that a server has used. With `must_go_on`, a server that had started must go on.
fn each_call(kinds: &[Operation], must_go_on: bool, plan_of: impl Fn(Operation, u64) -> FaultPlan) {
    let directories = [("empty", (FaultDisk::new(1), Acked::new())), ("lived", lived())];
    for kind in kinds {
        let mut calls = 0;
        for (name, (disk, acked)) in &directories {
            for nth in 0.. {
                let what = format!("{name}: {kind:?} {nth}");
                let (disk, mut acked) = (disk.fork(nth), acked.clone());
                disk.set_plan(plan_of(*kind, nth));
                let ended = live(&disk, &mut acked);
                if let Err((true, error)) = &ended {
                    assert!(!must_go_on, "{what}: {error}");
                }
                let is_past = disk.count(*kind) <= nth;
                assert!(!is_past || ended.is_ok(), "{what}: {ended:?}, and nothing failed");
                disk.set_plan(FaultPlan::default());
                let cut = disk.fork(nth);
                cut.crash();
                check(&cut, &acked, &format!("{what}, then no power"));
                disk.kill();
                check(&disk, &acked, &what);
                if is_past {
                    break;
                }
                calls += 1;
            }
        }
        assert!(calls > 0, "{kind:?} is never called");
    }
}

#[test]
fn a_call_that_fails_costs_nothing_that_was_acknowledged() {
    use Operation::*;
    let all =
        [Open, Read, Create, Write, Preallocate, Sync, Rename, Remove, CreateDir, SyncDir, Lock];
    each_call(&all, false, |kind, nth| FaultPlan {
        fail: vec![(kind, nth)],
        ..FaultPlan::default()
    });
}

#[test]
fn a_call_that_finds_no_room_costs_nothing_that_was_acknowledged() {
    use Operation::*;
    let plan_of = |kind, nth| FaultPlan { full: vec![(kind, nth)], ..FaultPlan::default() };
    each_call(&[Create, Preallocate, Rename, CreateDir], true, plan_of);
    // A failed write or sync ends the server, even if it only found no room.
    each_call(&[Write, Sync, SyncDir], false, plan_of);
}

#[test]
fn a_call_that_finds_no_descriptor_costs_nothing_that_was_acknowledged() {
    use Operation::*;
    let all = [Open, Read, Create, SyncDir, Lock];
    each_call(&all, true, |kind, nth| FaultPlan {
        no_descriptor: vec![(kind, nth)],
        ..FaultPlan::default()
    });
}

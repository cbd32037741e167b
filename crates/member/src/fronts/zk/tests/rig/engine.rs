//! The rig's part between the Fronts and Apply: a trivial loop, or the real Loop with a pretend
//! disk. Also makes batches, entries and states for the tests of this crate.

use std::collections::VecDeque;

use machine::entry::encode_identities;
use machine::image::FreezeStep;
use machine::image::restore::Restore;
use machine::{BootId, MemberId};

use crate::Loop;
use crate::fronts::zk::*;
use crate::message::{
    DiskJob, FromApply, FromSnapshot, LoopInput, RoomKept, SnapshotJob, ToApply, Unavailable,
};
use crate::order::{DiskOptions, Options, Start};
use crate::snapshot::log_rule::SnapshotLog;
use crate::spaces::{self, Spaces};

pub(crate) const ORIGIN: Origin = Origin { member: MemberId(7), boot: BootId(3) };

/// The part between the Fronts and Apply.
pub(crate) enum Engine {
    /// The trivial loop: each submission becomes an entry of its own, committed at once.
    Stamping { sequence: u64, index: u64, full: bool },
    /// The real Loop. Its disk does a job when the test says so.
    Real(Box<Real>),
}

/// The real Loop, and the jobs and messages that it has given out.
pub(crate) struct Real {
    pub(crate) member: Loop,
    pub(crate) disk: VecDeque<DiskJob>,
    pub(crate) snapshot: VecDeque<SnapshotJob>,
    pub(crate) from_apply: VecDeque<FromApply>,
    pub(crate) ready: usize,
    /// All jobs that the disk was ever given.
    pub(crate) jobs: Vec<DiskJob>,
    /// The indexes of the snapshots that were written, and the indexes up to which the log was
    /// released.
    pub(crate) finished: Vec<u64>,
    pub(crate) released: Vec<u64>,
    /// The value of each message that told the log whether to leave room for a snapshot.
    pub(crate) yielded: Vec<bool>,
    room_wanted: u64,
    snapshot_at: (u64, u64),
    pub(crate) pieces: usize,
    /// How often Loop has discarded a received snapshot.
    pub(crate) discarded: usize,
}

/// The start of a member that has just been born.
pub(crate) fn start() -> Start {
    let restored = replica::Restored {
        hard_state: replica::HardState { term: 1, vote: 0, commit: 1 },
        membership: replica::Membership { voters: vec![ORIGIN.member.0], ..Default::default() },
        snapshot_index: 1,
        snapshot_term: 1,
        entries: Vec::new(),
        left_out: None,
        applied_index: 1,
    };
    let zk = spaces::zk::Options { tick_ms: 1_000, ..Default::default() };
    let options = spaces::Options { zk, ..Default::default() };
    Start {
        origin: ORIGIN,
        seed: 1,
        restored,
        spaces: Spaces::new(options, &Machine::default()),
        log_bytes: 0,
        image_bytes_max: 0,
        digest: Machine::default().digest(),
        options: self::options(),
        level: machine::Level::FIRST,
        servers_restored: Default::default(),
    }
}

/// The options of a member without an ensemble. It takes no snapshot by itself.
pub(crate) fn options() -> Options {
    let (snapshot_commands, snapshot_log) = (u64::MAX, SnapshotLog::Unbounded);
    let stall_ms = crate::order::limits::DISK_STALL_MS;
    Options {
        disk: DiskOptions { snapshot_commands, snapshot_log, stall_ms },
        session_timeout_ms_min: 4_000,
        raft_tick_ms: 100,
        log_memory: Default::default(),
        server: 0,
        name: String::new(),
        servers: Default::default(),
        servers_are_kept: false,
        known: crate::membership::hello::Known::up_to(machine::Level::RELEASED),
    }
}

/// A message that more room is set aside for the next snapshot than any test's state needs.
pub(crate) fn plenty_of_room() -> LoopInput {
    LoopInput::SnapshotRoom(RoomKept { bytes: 1 << 30, bytes_wanted: 0 })
}

impl Real {
    /// A member with plenty of room for its first snapshot.
    pub(crate) fn new(start: Start) -> Real {
        let mut real = Real {
            member: Loop::new(start).unwrap(),
            disk: VecDeque::new(),
            snapshot: VecDeque::new(),
            from_apply: VecDeque::new(),
            ready: 0,
            jobs: Vec::new(),
            finished: Vec::new(),
            released: Vec::new(),
            yielded: Vec::new(),
            room_wanted: 0,
            snapshot_at: (0, 0),
            discarded: 0,
            pieces: 0,
        };
        real.member.handle(plenty_of_room()).unwrap();
        real
    }

    /// Calls [`Loop::finish`], queues the output for the disks, and returns the output for Apply.
    pub(crate) fn finish(&mut self, wall_ms: i64) -> Vec<ToApply> {
        let output = self.member.finish(wall_ms);
        self.jobs.extend(output.disk.iter().cloned());
        self.disk.extend(output.disk);
        for job in &output.snapshot {
            if let SnapshotJob::KeepRoom(wanted) = job {
                self.room_wanted = wanted.bytes_max;
            }
        }
        self.snapshot.extend(output.snapshot);
        self.ready += usize::from(output.ready);
        self.released.extend(output.release.map(|point| point.index));
        self.yielded.extend(output.yield_room);
        output.apply
    }

    /// Lets the pretend disk do its first `count` jobs.
    pub(crate) fn persist(&mut self, count: usize) -> bool {
        let last = self.disk.drain(..count.min(self.disk.len())).next_back();
        if let Some(job) = &last {
            self.member.handle(LoopInput::Persisted(job.id)).unwrap();
        }
        last.is_some()
    }

    /// Answers the last request for room: `bytes` bytes are set aside.
    pub(crate) fn keep_room(&mut self, bytes: u64) {
        self.member
            .handle(LoopInput::SnapshotRoom(RoomKept { bytes, bytes_wanted: self.room_wanted }))
            .unwrap();
    }

    /// Lets the pretend snapshot thread do one job.
    pub(crate) fn write_snapshot(&mut self) -> bool {
        let Some(job) = self.snapshot.pop_front() else { return false };
        match job {
            SnapshotJob::Begin { index, term, .. } => {
                self.snapshot_at = (index, term);
                self.member.handle(LoopInput::Snapshot(FromSnapshot::PieceWritten)).unwrap();
            }
            SnapshotJob::Piece(_) => {
                self.pieces += 1;
                self.member.handle(LoopInput::Snapshot(FromSnapshot::PieceWritten)).unwrap();
            }
            SnapshotJob::Finish => {
                let (index, term) = self.snapshot_at;
                self.finished.push(index);
                self.member
                    .handle(LoopInput::Snapshot(FromSnapshot::Finished { index, term }))
                    .unwrap();
            }
            SnapshotJob::Abort => {}
            SnapshotJob::DiscardReceived => self.discarded += 1,
            SnapshotJob::KeepRoom(wanted) => self.keep_room(wanted.bytes_max),
            job => panic!("an ensemble of one has nobody for {job:?}"),
        }
        true
    }
}

/// A batch of one command.
pub(crate) fn own_batch(connection: u64, command: &Command<'_>) -> machine::entry::UnstampedBatch {
    let mut builder = machine::entry::BatchBuilder::default();
    let nobody = encode_identities([].into_iter());
    builder.push(ConnectionId(connection), &nobody, command).expect("it fits");
    builder.finish()
}

/// An entry with these stamped batches.
pub(crate) fn entry_of(index: u64, batches: &[Bytes]) -> replica::Entry {
    let payload = machine::entry::encode(1_000 * index as i64, 0, machine::Level::FIRST, batches);
    replica::Entry { index, term: 1, kind: replica::EntryKind::Normal, payload }
}

/// The trivial loop: makes one entry for each submission, committed at once.
pub(super) fn stamp(
    messages: Vec<ToLoop>,
    sequence: &mut u64,
    index: &mut u64,
    full: bool,
) -> Vec<ToApply> {
    let mut to_apply = Vec::new();
    for message in messages {
        match message {
            ToLoop::Submit(crate::message::Submission { front, waiters, .. }) if full => {
                let reason = Unavailable::DiskFull;
                to_apply.push(ToApply::Refuse { front, waiters, reason });
            }
            ToLoop::Submit(crate::message::Submission { front, batch, waiters }) => {
                *sequence += 1;
                *index += 1;
                let (sequence, front) = (*sequence, Some(front));
                to_apply.push(ToApply::Expect { sequence, front, waiters });
                let entry = entry_of(*index, &[batch.stamp(ORIGIN, sequence)]);
                to_apply.push(ToApply::Entries(vec![entry]));
            }
            ToLoop::AskLeases(_) => unreachable!("ZooKeeper has no leases"),
            ToLoop::Sync(caller) => {
                let index = machine::LogIndex(*index);
                to_apply.push(ToApply::Sync { index, caller });
            }
            ToLoop::Heard(_) | ToLoop::Withdraw(..) | ToLoop::GiveUp(..) | ToLoop::Need(_) => {}
        }
    }
    to_apply
}

/// A copy of a machine, made by freezing and restoring its state.
pub(crate) fn copy(machine: &mut Machine) -> Machine {
    machine.freeze();
    let FreezeStep::Last(piece) = machine.freeze_step(usize::MAX, u32::MAX) else {
        panic!("a state of a test is one piece");
    };
    let mut restore = Restore::default();
    restore.piece(&piece).expect("it was just written");
    restore.finish().expect("it is whole")
}

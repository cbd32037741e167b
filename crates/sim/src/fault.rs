//! The faults of a run, drawn from its seed: which kinds may come, how often, when, and to which
//! members.

use storage::fault_disk::Operation;
use workload::generate::Random;

use crate::limits::{HANG_US_MAX, SECLUDED_US, STUTTER_US_MAX};
use crate::links::Roughness;

/// The members that a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    /// The members whose bits are set: bit 0 is member 0.
    Members(u32),
    /// The members that lead, or believe so, when the fault begins.
    Leader,
    /// The first member that does not lead when the fault begins.
    Follower,
    /// The followers that send a snapshot to another member when the fault begins.
    Lender,
}

impl Whom {
    /// Only the member with this number.
    pub fn one(member: usize) -> Whom {
        Whom::Members(1 << member)
    }
}

/// The disks of a machine that a fault strikes. The log and the snapshots may be on two disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disks {
    /// All files.
    Both,
    /// The directory of the log.
    Log,
    /// The directory of the snapshots.
    Snapshots,
}

impl Disks {
    /// Whether the log is on a struck disk.
    pub fn have_log(self) -> bool {
        self != Disks::Snapshots
    }

    /// Whether the snapshots are on a struck disk.
    pub fn have_snapshots(self) -> bool {
        self != Disks::Log
    }
}

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `kill -9`: data that was written but not synced survives in the page cache.
    Kill,
    /// Power is cut: unsynced data is kept, lost or torn.
    PowerLoss,
    /// The process is killed, or power is cut, after `ops` more disk operations.
    StopAt {
        /// Disk operations until the stop.
        ops: u64,
        /// Whether power is cut; else only the process ends.
        power_is_cut: bool,
    },
    /// The n-th next operation of one kind fails, once.
    IoError {
        /// The kind of operation.
        operation: Operation,
        /// How many operations of that kind succeed before the one that fails.
        nth: u64,
    },
    /// The disk is full, or nearly so, for a time.
    DiskFull {
        /// How many more bytes fit.
        bytes: u64,
        /// How long the fault lasts.
        for_us: u64,
    },
    /// Syncs take longer, for a time.
    SlowDisk {
        /// The slow disks.
        disks: Disks,
        /// How many times longer the syncs take.
        factor: u64,
        /// How long the fault lasts.
        for_us: u64,
    },
    /// No sync returns, for a time.
    HangingDisk {
        /// The hanging disks.
        disks: Disks,
        /// How long the fault lasts.
        for_us: u64,
    },
    /// Apply gets the CPU late, for a time.
    SlowApply {
        /// The longest delay of a wake-up, in us.
        lag_us: u64,
        /// How long the fault lasts.
        for_us: u64,
    },
    /// The process gets no CPU, for a time.
    Pause {
        /// How long the fault lasts.
        for_us: u64,
    },
    /// The process gets the CPU for only a part of each period, for a time.
    Stutter {
        /// How long the process runs in each period.
        run_us: u64,
        /// Length of a period.
        period_us: u64,
        /// How long the fault lasts.
        for_us: u64,
    },
    /// The machine is suspended for a time: nothing runs, and its monotonic clock stops.
    Suspend {
        /// How long the fault lasts.
        for_us: u64,
    },
    /// The monotonic clock jumps ahead, as after a suspension on a machine whose clock counts
    /// suspended time.
    ClockJump {
        /// How far the clock jumps ahead, in us.
        by_us: u64,
    },
    /// Connections of clients break.
    Cut {
        /// One in so many connections, at random.
        one_in: u64,
    },
    /// Connections of clients carry nothing in one direction, for a time.
    Stall {
        /// One in so many connections, at random.
        one_in: u64,
        /// How long the fault lasts.
        for_us: u64,
    },
    /// Members are cut off from the others, for a time.
    Partition {
        /// Whether only the frames that the members send are lost, and those sent to them arrive.
        is_one_way: bool,
        /// How long the fault lasts.
        for_us: u64,
    },
    /// Links between members break.
    BreakLinks {
        /// One in so many links, at random.
        one_in: u64,
    },
    /// Links between members are slow, for a time.
    SlowLinks {
        /// One in so many links, at random.
        one_in: u64,
        /// The bandwidth, in bytes per second.
        bytes_per_s: u64,
        /// Additional latency of each frame, in us.
        latency_us: u64,
        /// How long the fault lasts.
        for_us: u64,
    },
    /// Single frames between members are lost, duplicated or reordered, for a time.
    RoughLinks {
        /// How often a frame is lost, duplicated or reordered.
        roughness: Roughness,
        /// How long the fault lasts.
        for_us: u64,
    },
    /// Links between members break, and the receiver refuses new ones, for a time.
    RefusedLinks {
        /// One in so many links, at random.
        one_in: u64,
        /// How long the fault lasts.
        for_us: u64,
    },
    /// The leader is asked to hand over its leadership.
    HandOver {
        /// The member that is to lead next; `None` if the leader chooses.
        to: Option<usize>,
    },
    /// The process is asked to stop. A leader first hands over to another member, if it can.
    Stop,
    /// The process ends, and some bits on its disk flip before it starts again. Skipped unless the
    /// other members are a majority that has lost nothing.
    BitRot,
    /// Bits of a log or snapshot file flip while the process runs. Skipped unless the other members
    /// are a majority that has lost nothing.
    RunningRot {
        /// The disks whose files may be struck.
        disks: Disks,
    },
    /// The process ends, and its directory is emptied before it starts again. Skipped unless the
    /// other members are a majority that has lost nothing.
    EmptiedDisk,
    /// Another machine, with another directory, takes the server's place: the machine that had the
    /// place before this one, or a new one with an empty directory. The replaced machine is cut off
    /// and its process is frozen until the machine gets the place back.
    OtherMachine,
    /// An operator copies the disk's content, for a later [`Fault::OldCopy`].
    Copy,
    /// The process ends, and an earlier copy of its disk is restored before it starts again. The
    /// fault waits until all members are well.
    OldCopy,
    /// The process ends, and the end of its log is damaged, behind the part that is marked as
    /// durable. The fault waits until all members are well.
    TornTail,
    /// From now on the member's state differs from what its log gives. The fault waits until all
    /// members are well.
    WrongState,
    /// An operator restores a snapshot: the newest, or one that was copied elsewhere earlier.
    Restore,
    /// An operator sets the wall clock.
    WallJump {
        /// How far the clock moves ahead, in ms; negative to move it back.
        by_ms: i64,
    },
}

/// Number of fault kinds that any run may have: 0 to `KINDS - 1`.
const KINDS: u64 = 11;

/// The kind of a restore. A run of one member has it only in the mix [`FaultMix::restoring`].
const RESTORE: u64 = KINDS;

/// The kind of a full disk.
const DISK_FULL: u64 = 5;

/// Kinds that only an ensemble has.
const PARTITION: u64 = KINDS + 1;
const BREAK_LINKS: u64 = KINDS + 2;
const SLOW_LINKS: u64 = KINDS + 3;
const ROUGH_LINKS: u64 = KINDS + 4;
const HANGING_DISK: u64 = KINDS + 5;
const HAND_OVER: u64 = KINDS + 6;
const STOP: u64 = KINDS + 7;
const BIT_ROT: u64 = KINDS + 8;
const EMPTIED_DISK: u64 = KINDS + 9;

/// Kinds in which a member deceives the others: they rely on data that it no longer has.
const OLD_COPY: u64 = KINDS + 10;
const TORN_TAIL: u64 = KINDS + 11;
const WRONG_STATE: u64 = KINDS + 12;

/// Kinds that were added later. A separate draw decides which of them a run has ([`LATER_SEED`]).
const STUTTER: u64 = KINDS + 13;
const SUSPEND: u64 = KINDS + 14;
const CLOCK_JUMP: u64 = KINDS + 15;
const ONE_DISK: u64 = KINDS + 16;
const READ_ERROR: u64 = KINDS + 17;

/// Kinds added later that only an ensemble has.
const REFUSED_LINKS: u64 = KINDS + 18;
const RUNNING_ROT: u64 = KINDS + 19;
const OTHER_MACHINE: u64 = KINDS + 20;

/// The kind of a long partition, only in runs whose members serve reads without a leader.
const SECLUSION: u64 = KINDS + 21;

/// XORed into a seed to draw the kinds added later, so that older seeds keep their meaning. With
/// this number the kept seeds (those in the tests) have none of these kinds.
pub const LATER_SEED: u64 = 0x6c61_7465_7200_0004;

/// Draws which of the kinds added later a run has; no kind at all in half of the runs.
fn later_kinds(later: &mut Random, all: std::ops::RangeInclusive<u64>) -> Vec<u64> {
    match later.one_in(2) {
        true => all.filter(|_| later.one_in(3)).collect(),
        false => Vec::new(),
    }
}

/// The faults of a run: the kinds that come at random, or a planned list.
#[derive(Clone, Debug)]
pub struct FaultMix {
    random: Random,
    member_count: usize,
    kinds: Vec<u64>,
    interval_us: u64,
    /// Planned faults, last one first, each with its wait after the one before, in us.
    planned: Vec<(u64, Whom, Fault)>,
}

impl FaultMix {
    /// Draws the faults of a single member. One run in eight has none. `later` decides only about
    /// the kinds added later.
    pub fn draw(mut random: Random, mut later: Random) -> FaultMix {
        let mut kinds = Vec::new();
        if !random.one_in(8) {
            kinds.extend((0..KINDS).filter(|_| random.one_in(3)));
            kinds.extend(later_kinds(&mut later, STUTTER..=READ_ERROR));
        }
        let interval_us = random.magnitude(100_000, 8_000_000);
        FaultMix { random, member_count: 1, kinds, interval_us, planned: Vec::new() }
    }

    /// Draws the faults of an ensemble. `apart` and `later` decide only about kinds that were added
    /// later.
    pub fn draw_ensemble(
        mut random: Random,
        mut apart: Random,
        mut later: Random,
        member_count: usize,
    ) -> FaultMix {
        let mut kinds = Vec::new();
        if !random.one_in(12) {
            kinds.extend((0..KINDS).filter(|_| random.one_in(4)));
            kinds.extend((PARTITION..=HANGING_DISK).filter(|_| random.one_in(3)));
            kinds.extend((HAND_OVER..=EMPTIED_DISK).filter(|_| random.one_in(4)));
            // An ensemble refuses a restore, since the other members lack the snapshot; the refusal
            // is tested.
            kinds.extend((RESTORE..=RESTORE).filter(|_| random.one_in(12)));
            kinds.extend((OLD_COPY..=WRONG_STATE).filter(|_| apart.one_in(8)));
            kinds.extend(later_kinds(&mut later, STUTTER..=OTHER_MACHINE));
        }
        let interval_us = random.magnitude(300_000, 12_000_000);
        FaultMix { random, member_count, kinds, interval_us, planned: Vec::new() }
    }

    /// A mix that restores snapshots often, and often kills the process during a restore.
    pub fn restoring(mut random: Random) -> FaultMix {
        let mut kinds = vec![RESTORE; 3];
        kinds.extend((0..KINDS).filter(|_| random.one_in(3)));
        let interval_us = random.magnitude(100_000, 4_000_000);
        FaultMix { random, member_count: 1, kinds, interval_us, planned: Vec::new() }
    }

    /// A mix without faults.
    pub fn none() -> FaultMix {
        FaultMix::planned(Vec::new())
    }

    /// A mix of planned faults that strike all members, each with its wait after the one before, in
    /// us.
    pub fn planned(planned: Vec<(u64, Fault)>) -> FaultMix {
        let everybody = Whom::Members(u32::MAX);
        let planned = planned.into_iter().map(|(wait_us, fault)| (wait_us, everybody, fault));
        FaultMix::planned_for(planned.collect())
    }

    /// A mix of planned faults, each with its wait after the one before, in us, and its members.
    pub fn planned_for(mut planned: Vec<(u64, Whom, Fault)>) -> FaultMix {
        planned.reverse();
        let (random, kinds) = (Random::new(0), Vec::new());
        FaultMix { random, member_count: 1, kinds, interval_us: 1, planned }
    }

    /// Adds long partitions, unless the mix has no random faults.
    pub fn isolate_members(&mut self) {
        if self.is_any() {
            self.kinds.extend([SECLUSION; 2]);
        }
    }

    /// Whether the disk may become full at random.
    pub fn fills_disk(&self) -> bool {
        self.kinds.contains(&DISK_FULL)
    }

    /// Whether the mix restores snapshots.
    pub fn restores(&self) -> bool {
        let planned = self.planned.iter().any(|(_, _, fault)| *fault == Fault::Restore);
        planned || self.kinds.contains(&RESTORE)
    }

    /// Whether faults come at random.
    pub fn is_any(&self) -> bool {
        !self.kinds.is_empty()
    }

    /// The wait until the next fault, in us; `None` if no fault will come.
    pub fn next_us(&mut self) -> Option<u64> {
        if let Some((wait_us, ..)) = self.planned.last() {
            return Some(*wait_us);
        }
        match self.kinds.is_empty() {
            true => None,
            false => Some(self.random.between(1, 2 * self.interval_us)),
        }
    }

    /// Takes the next planned fault, or draws one.
    pub fn next_fault(&mut self) -> (Whom, Fault) {
        if let Some((_, whom, fault)) = self.planned.pop() {
            return (whom, fault);
        }
        (self.next_whom(), self.next_kind())
    }

    /// Draws the members that a fault strikes: mostly one, often the leader, sometimes several or
    /// all.
    fn next_whom(&mut self) -> Whom {
        let (random, count) = (&mut self.random, self.member_count);
        if count == 1 {
            return Whom::one(0);
        }
        match random.below(8) {
            0..=2 => Whom::Leader,
            3 => Whom::Members(random.below(1 << count) as u32),
            _ => Whom::one(random.below(count as u64) as usize),
        }
    }

    /// Draws a fault of the links for the time before the ensemble's birth.
    pub fn trouble_of_birth(&self, random: &mut Random) -> (Whom, Fault) {
        let for_us = random.magnitude(100_000, 20_000_000);
        let fault = match random.below(3) {
            0 => Fault::Partition { is_one_way: random.one_in(2), for_us },
            1 => Fault::SlowLinks {
                one_in: random.between(1, 3),
                bytes_per_s: random.magnitude(1_000, 1_000_000),
                latency_us: random.magnitude(1_000, 2_000_000),
                for_us,
            },
            _ => {
                let roughness = Roughness { lost_one_in: 3, doubled_one_in: 3, early_one_in: 3 };
                Fault::RoughLinks { roughness, for_us }
            }
        };
        (Whom::Members(random.below(1 << self.member_count) as u32), fault)
    }

    fn next_kind(&mut self) -> Fault {
        let random = &mut self.random;
        match *random.pick(&self.kinds) {
            0 => Fault::Kill,
            1 => Fault::PowerLoss,
            2 | 3 => Fault::StopAt { ops: random.magnitude(1, 60), power_is_cut: random.one_in(2) },
            4 => io_error(random),
            DISK_FULL => Fault::DiskFull {
                bytes: if random.one_in(3) { random.below(300_000) } else { 0 },
                for_us: random.magnitude(1_000_000, 40_000_000),
            },
            6 => Fault::SlowDisk {
                disks: Disks::Both,
                factor: random.magnitude(10, 3_000),
                for_us: random.magnitude(100_000, 10_000_000),
            },
            7 => Fault::Pause { for_us: random.magnitude(10_000, 60_000_000) },
            8 => cut_or_stall(random),
            RESTORE => Fault::Restore,
            HANGING_DISK => Fault::HangingDisk {
                disks: Disks::Both,
                for_us: random.magnitude(100_000, HANG_US_MAX),
            },
            STUTTER => stutter(random),
            SUSPEND => Fault::Suspend { for_us: random.magnitude(10_000, 60_000_000) },
            CLOCK_JUMP => Fault::ClockJump { by_us: random.magnitude(10_000, 60_000_000) },
            ONE_DISK => one_disk(random),
            READ_ERROR => {
                let operation = *random.pick(&[Operation::Read, Operation::Open]);
                Fault::IoError { operation, nth: random.magnitude(1, 40) - 1 }
            }
            REFUSED_LINKS => Fault::RefusedLinks {
                one_in: random.between(1, 4),
                for_us: random.magnitude(100_000, 30_000_000),
            },
            RUNNING_ROT => {
                Fault::RunningRot { disks: *random.pick(&[Disks::Log, Disks::Snapshots]) }
            }
            OTHER_MACHINE => Fault::OtherMachine,
            HAND_OVER => {
                let to = random.below(self.member_count as u64) as usize;
                Fault::HandOver { to: random.one_in(2).then_some(to) }
            }
            STOP => Fault::Stop,
            BIT_ROT => Fault::BitRot,
            EMPTIED_DISK => Fault::EmptiedDisk,
            OLD_COPY if random.one_in(3) => Fault::Copy,
            OLD_COPY => Fault::OldCopy,
            TORN_TAIL => Fault::TornTail,
            WRONG_STATE => Fault::WrongState,
            PARTITION => Fault::Partition {
                is_one_way: random.one_in(3),
                for_us: random.magnitude(100_000, 30_000_000),
            },
            SECLUSION => Fault::Partition {
                is_one_way: random.one_in(3),
                for_us: random.between(*SECLUDED_US.start(), *SECLUDED_US.end()),
            },
            BREAK_LINKS => Fault::BreakLinks { one_in: random.between(1, 4) },
            SLOW_LINKS => slow_links(random),
            ROUGH_LINKS => rough_links(random),
            9 => Fault::SlowApply {
                lag_us: random.magnitude(1_000, 1_000_000),
                for_us: random.magnitude(100_000, 20_000_000),
            },
            _ => wall_jump(random),
        }
    }
}

/// A failure of one disk operation, except reads: these have a kind of their own.
fn io_error(random: &mut Random) -> Fault {
    let operations = [
        Operation::Sync,
        Operation::Sync,
        Operation::Write,
        Operation::Write,
        Operation::Create,
        Operation::Preallocate,
        Operation::Rename,
        Operation::SyncDir,
        Operation::Remove,
    ];
    let operation = *random.pick(&operations);
    Fault::IoError { operation, nth: random.below(6) }
}

/// Only the log's disk, or only the snapshots' disk, is slow or hangs.
fn one_disk(random: &mut Random) -> Fault {
    let disks = *random.pick(&[Disks::Log, Disks::Snapshots]);
    if random.one_in(2) {
        let factor = random.magnitude(10, 3_000);
        Fault::SlowDisk { disks, factor, for_us: random.magnitude(100_000, 20_000_000) }
    } else {
        Fault::HangingDisk { disks, for_us: random.magnitude(100_000, HANG_US_MAX) }
    }
}

/// Connections of clients break, or carry nothing for a time.
fn cut_or_stall(random: &mut Random) -> Fault {
    if random.one_in(2) {
        return Fault::Cut { one_in: random.between(1, 4) };
    }
    Fault::Stall { one_in: random.between(1, 4), for_us: random.magnitude(10_000, 20_000_000) }
}

fn stutter(random: &mut Random) -> Fault {
    let period_us = random.magnitude(100_000, STUTTER_US_MAX);
    let run_us = random.magnitude(10_000, period_us / 2);
    let for_us = random.magnitude(1_000_000, 60_000_000);
    Fault::Stutter { run_us, period_us, for_us }
}

fn slow_links(random: &mut Random) -> Fault {
    Fault::SlowLinks {
        one_in: random.between(1, 4),
        bytes_per_s: random.magnitude(10_000, 10_000_000),
        latency_us: random.magnitude(1_000, 2_000_000),
        for_us: random.magnitude(100_000, 20_000_000),
    }
}

fn rough_links(random: &mut Random) -> Fault {
    let mut one_in = || if random.one_in(2) { random.magnitude(2, 100) } else { 0 };
    let roughness =
        Roughness { lost_one_in: one_in(), doubled_one_in: one_in(), early_one_in: one_in() };
    Fault::RoughLinks { roughness, for_us: random.magnitude(100_000, 30_000_000) }
}

/// The wall clock jumps ahead or back.
fn wall_jump(random: &mut Random) -> Fault {
    let by_ms = random.magnitude(1, 100_000_000) as i64;
    Fault::WallJump { by_ms: if random.one_in(2) { by_ms } else { -by_ms } }
}

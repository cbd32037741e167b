//! One life of a member's process: the three step functions, the log, the snapshots and the
//! connection runtimes, over a [`SimDisk`], a [`Network`] and virtual time.
//!
//! It does what the shell that ships does (`node::start`, `node::threads`, `listen_zk`), part by
//! part, and nothing else: each thread there is an actor here that runs when something was pushed
//! to its queue, some random time later. Queues are in order; whatever was pushed meanwhile is
//! taken at once. What takes time on a real disk takes virtual time here: the effect is there at
//! the start, the report at the end, and a crash may come in between.

mod runtime;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use machine::freeze::FreezeStep;
use machine::{BootId, LogIndex, Machine, MemberId, Origin, Settings};
use member::front::FrontConfig;
use member::limits::APPLY_HOLD_COMMANDS_MAX;
use member::main_loop::to_restored;
use member::message::{
    DiskJob, FromApply, FromSnapshot, FrontId, PersistId, Restored, SnapshotJob, Start, ToApply,
    ToLoop,
};
use member::recovery::{restore_newest, sessions};
use member::{Apply, Loop};
use storage::StorageError;
use storage::datadir::{self, DataDir, EmptyDir, Identity, Opened};
use storage::snapshot::{self, SnapshotMeta, SnapshotWriter};
use storage::wal::{Durability, Membership, SnapshotPoint, SpareJob, Wal, WalOptions};

use crate::disk::SimDisk;
use crate::limits::{DISK_FULL_RETRY_US, DISK_IDLE_US, RAFT_TICK_US, SNAPSHOTS_KEPT, SYNC_US_MAX};
use crate::network::Network;
use crate::witness::Witness;
use crate::world::{Actor, Event, World};
use runtime::Runtime;

/// What a member is configured to be, the same in each of its lives.
#[derive(Clone, Debug)]
pub struct MemberConfig {
    /// Connection runtimes.
    pub front_count: u32,
    /// For ids.
    pub secret: [u8; 32],
    /// `tickTime`.
    pub tick_ms: u64,
    /// `snapCount`.
    pub snapshot_commands: u64,
    /// Log bytes after which a snapshot is taken, if not the default.
    pub snapshot_log_bytes: Option<u64>,
    /// Sizes of log segments.
    pub wal: WalOptions,
    /// Bytes of log that must still fit when the disk is full: below this, writes are refused.
    pub room_bytes_min: u64,
    /// Bytes of a request frame.
    pub frame_bytes_max: u32,
    /// `skipACL` and the like: what the configuration wants the settings to be.
    pub settings: Settings,
}

/// Why a process is at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Death {
    /// It ended itself, as it should: its disk failed.
    Disk(String),
    /// It should have gone on.
    Bug(String),
}

/// What a part of the process says when its process is at an end.
pub type Lived = Result<(), Death>;

enum LoopInput {
    Front(ToLoop),
    Apply(FromApply),
    Persisted(PersistId),
    DiskRoom { is_full: bool },
    Snapshot(FromSnapshot),
}

enum DiskInput {
    Job(DiskJob),
    Release(SnapshotPoint),
    Spare(SpareResult),
}

enum SpareResult {
    Made(SpareJob<SimDisk>),
    Failed(SpareJob<SimDisk>),
}

/// What the disk's thread knows about the room on the disk.
#[derive(Default)]
struct Fullness {
    spare_failed: bool,
    retry_at_us: Option<u64>,
    reported: bool,
}

/// One life of the process.
pub struct Server {
    life: u64,
    origin: Origin,
    cluster_id: u128,
    disk: SimDisk,
    _dir: DataDir<SimDisk>,
    machine: Machine,
    member: Loop,
    apply: Apply,
    wal: Wal<SimDisk>,
    runtimes: Vec<Runtime>,
    /// When each part is to run next, and the token of that wake-up.
    wakes: BTreeMap<Actor, (u64, u64)>,
    to_loop: VecDeque<LoopInput>,
    last_us: u64,
    next_tick_us: u64,
    to_apply: VecDeque<ToApply>,
    to_disk: VecDeque<DiskInput>,
    held: Vec<DiskJob>,
    full: Fullness,
    /// Everything is durable and the log says so.
    is_marked: bool,
    /// What the disk's thread reports when its time is over; none while it waits.
    disk_report: Option<Vec<LoopInput>>,
    to_snapshot: VecDeque<SnapshotJob>,
    writer: Option<SnapshotWriter<SimDisk>>,
    meta: Option<SnapshotMeta>,
    snapshot_report: Option<Option<FromSnapshot>>,
    to_spare: VecDeque<SpareJob<SimDisk>>,
    spare_report: Option<SpareResult>,
    is_ready: bool,
    started_us: u64,
    snapshot_count: u64,
    /// How much slower syncs are than usual.
    sync_slowness: u64,
    /// Jobs that could not be written for want of room.
    refusals_possible: bool,
    next_front: u32,
    room_bytes_min: u64,
}

/// What was found in the data directory.
struct Recovered {
    dir: DataDir<SimDisk>,
    wal: Wal<SimDisk>,
    machine: Machine,
    restored: Restored,
    log_bytes: u64,
}

fn disk_failed(error: StorageError) -> Death {
    Death::Disk(error.to_string())
}

impl Server {
    /// Opens or makes the data directory and starts the threads, as `node::start` does.
    ///
    /// # Errors
    /// The directory cannot be used.
    pub fn start(
        config: &MemberConfig,
        disk: &SimDisk,
        life: u64,
        world: &mut World,
        witness: &mut Witness,
    ) -> Result<Server, Death> {
        let recovered = recover(disk, config)?;
        let identity = recovered.dir.identity();
        let boot = recovered.dir.next_boot().map_err(disk_failed)?;
        let origin = Origin { member: MemberId(identity.member_id), boot: BootId(boot) };
        let index = LogIndex(recovered.restored.applied_index);
        let term = recovered.restored.snapshot_term;
        witness.on_start(index.0, &recovered.restored.entries).map_err(Death::Bug)?;
        let settings = Arc::new(recovered.machine.settings().clone());
        let member = Loop::new(Start {
            origin,
            seed: identity.member_id,
            settings: config.settings.clone(),
            settings_restored: recovered.machine.settings().clone(),
            sessions: sessions(&recovered.machine),
            restored: recovered.restored,
            log_bytes: recovered.log_bytes,
            snapshot_commands: config.snapshot_commands,
            snapshot_log_bytes: config.snapshot_log_bytes,
            tick_ms: config.tick_ms,
        })
        .map_err(|error| Death::Bug(error.to_string()))?;
        let runtimes = (0..config.front_count)
            .map(|id| {
                let config = FrontConfig {
                    id: FrontId(id),
                    origin,
                    frame_bytes_max: config.frame_bytes_max,
                    session_timeout_ms_min: 2 * config.tick_ms as u32,
                    session_timeout_ms_max: 20 * config.tick_ms as u32,
                    words_allowed: vec!["*".to_string()],
                    secret: secret_of_boot(config.secret, boot),
                    settings: settings.clone(),
                };
                Runtime::new(config, world.now_us)
            })
            .collect();
        let mut server = Server {
            life,
            origin,
            cluster_id: identity.cluster_id,
            disk: disk.clone(),
            _dir: recovered.dir,
            machine: recovered.machine,
            member,
            apply: Apply::new(origin, index, term),
            wal: recovered.wal,
            runtimes,
            wakes: BTreeMap::new(),
            to_loop: VecDeque::new(),
            last_us: world.now_us,
            next_tick_us: world.now_us + RAFT_TICK_US,
            to_apply: VecDeque::new(),
            to_disk: VecDeque::new(),
            held: Vec::new(),
            full: Fullness::default(),
            is_marked: false,
            disk_report: None,
            to_snapshot: VecDeque::new(),
            writer: None,
            meta: None,
            snapshot_report: None,
            to_spare: VecDeque::new(),
            spare_report: None,
            is_ready: false,
            started_us: world.now_us,
            snapshot_count: 0,
            sync_slowness: 1,
            refusals_possible: false,
            next_front: 0,
            room_bytes_min: config.room_bytes_min,
        };
        server.wake(world, Actor::Loop);
        server.wake(world, Actor::Disk);
        Ok(server)
    }

    // What the simulation asks.

    /// Which life of the process this is.
    pub fn life(&self) -> u64 {
        self.life
    }

    /// Whether clients are served.
    pub fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// When the process was started.
    pub fn started_us(&self) -> u64 {
        self.started_us
    }

    /// The state, for the judges.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Snapshots finished in this life.
    pub fn snapshot_count(&self) -> u64 {
        self.snapshot_count
    }

    /// Whether writes were refused in this life because the disk was full.
    pub fn has_refused(&self) -> bool {
        self.refusals_possible
    }

    /// From now on syncs take `slowness` times as long.
    pub fn slow_down(&mut self, slowness: u64) {
        self.sync_slowness = slowness;
    }

    /// Whether nothing is under way: no command, no entry, no job.
    pub fn is_idle(&self) -> bool {
        self.to_loop.is_empty()
            && self.to_apply.is_empty()
            && self.to_disk.is_empty()
            && self.held.is_empty()
            && self.disk_report.is_none()
            && !self.apply.has_work()
    }

    // Running.

    fn wake(&mut self, world: &mut World, actor: Actor) {
        let delay_us = world.hop_us();
        let at_us = world.now_us + delay_us;
        self.wake_at(world, actor, at_us);
    }

    fn wake_at(&mut self, world: &mut World, actor: Actor, at_us: u64) {
        if self.wakes.get(&actor).is_some_and(|(scheduled, _)| *scheduled <= at_us) {
            return;
        }
        let token = world.token();
        self.wakes.insert(actor, (at_us, token));
        world.schedule(at_us, Event::Run { life: self.life, actor, token });
    }

    /// A part of the process runs.
    ///
    /// # Errors
    /// The process is at its end.
    pub fn run(
        &mut self,
        actor: Actor,
        token: u64,
        world: &mut World,
        network: &mut Network,
        witness: &mut Witness,
    ) -> Lived {
        if self.wakes.get(&actor).is_none_or(|(_, newest)| *newest != token) {
            return Ok(());
        }
        self.wakes.remove(&actor);
        match actor {
            Actor::Loop => self.run_loop(world, witness),
            Actor::Apply => {
                self.run_apply(world);
                Ok(())
            }
            Actor::Disk => self.run_disk(world),
            Actor::Snapshot => {
                self.run_snapshot(world);
                Ok(())
            }
            Actor::Spare => {
                self.run_spare(world);
                Ok(())
            }
            Actor::Front(front) => {
                self.run_front(front as usize, world, network, witness);
                Ok(())
            }
        }
    }

    /// What took time in a part of the process is over.
    pub fn done(&mut self, actor: Actor, world: &mut World) {
        match actor {
            Actor::Disk => {
                let reports = self.disk_report.take().expect("the disk was at work");
                self.push_loop(world, reports);
                let deadline_us = match self.is_marked {
                    _ if !self.to_disk.is_empty() => None,
                    _ if !self.held.is_empty() => Some(world.now_us + DISK_FULL_RETRY_US),
                    false => Some(world.now_us + DISK_IDLE_US),
                    true => self.full.retry_at_us,
                };
                if !self.to_disk.is_empty() {
                    self.wake(world, Actor::Disk);
                }
                if let Some(deadline_us) = deadline_us {
                    self.wake_at(world, Actor::Disk, deadline_us);
                }
            }
            Actor::Snapshot => {
                let report = self.snapshot_report.take().expect("a snapshot was being written");
                if let Some(report) = report {
                    self.push_loop(world, [LoopInput::Snapshot(report)]);
                }
                if !self.to_snapshot.is_empty() {
                    self.wake(world, Actor::Snapshot);
                }
            }
            Actor::Spare => {
                let result = self.spare_report.take().expect("a segment was being made");
                self.to_disk.push_back(DiskInput::Spare(result));
                self.wake_disk(world);
                if !self.to_spare.is_empty() {
                    self.wake(world, Actor::Spare);
                }
            }
            Actor::Loop | Actor::Apply | Actor::Front(_) => {
                unreachable!("only disks take time")
            }
        }
    }

    fn push_loop(&mut self, world: &mut World, inputs: impl IntoIterator<Item = LoopInput>) {
        let before = self.to_loop.len();
        self.to_loop.extend(inputs);
        if self.to_loop.len() > before {
            self.wake(world, Actor::Loop);
        }
    }

    fn wake_disk(&mut self, world: &mut World) {
        // While it is at work it is not woken: it looks at its queue afterwards.
        if self.disk_report.is_none() {
            self.wake(world, Actor::Disk);
        }
    }

    fn run_loop(&mut self, world: &mut World, witness: &mut Witness) -> Lived {
        // A thread takes what is there; what came a moment later is taken the next time.
        let some = match world.random.one_in(4) {
            true => world.random.below(self.to_loop.len() as u64 + 1) as usize,
            false => self.to_loop.len(),
        };
        for input in self.to_loop.drain(..some) {
            match input {
                LoopInput::Front(message) => self.member.on_front(message),
                LoopInput::Apply(message) => self.member.on_apply(message),
                LoopInput::Persisted(id) => self.member.on_persisted(id),
                LoopInput::DiskRoom { is_full } => self.member.on_disk_room(is_full),
                LoopInput::Snapshot(message) => self.member.on_snapshot(message),
            }
        }
        if world.now_us >= self.next_tick_us {
            let elapsed_ms = (world.now_us - self.last_us) / 1000;
            self.last_us = world.now_us;
            self.next_tick_us = world.now_us + RAFT_TICK_US;
            self.member.on_time(elapsed_ms, true);
        }
        let output = self.member.finish(world.wall_ms());
        for job in output.disk {
            for entry in job.entries.iter().filter(|entry| !entry.payload.is_empty()) {
                self.disk.announce(entry.index, &entry.payload);
                witness.on_proposed(entry.index, world.now_us);
            }
            self.to_disk.push_back(DiskInput::Job(job));
            self.wake_disk(world);
        }
        for message in output.apply {
            match &message {
                ToApply::Entries(entries) => {
                    let committed = witness.on_committed(entries, &self.disk, world.now_us);
                    committed.map_err(Death::Bug)?;
                }
                ToApply::Refuse { .. } => self.refusals_possible = true,
                _ => {}
            }
            self.to_apply.push_back(message);
            self.wake(world, Actor::Apply);
        }
        if !output.snapshot.is_empty() {
            self.to_snapshot.extend(output.snapshot);
            if self.snapshot_report.is_none() {
                self.wake(world, Actor::Snapshot);
            }
        }
        if let Some(point) = output.release {
            self.to_disk.push_back(DiskInput::Release(point));
            self.wake_disk(world);
        }
        if output.ready {
            assert!(!self.is_ready, "a member becomes ready once");
            self.is_ready = true;
            let settings = Arc::new(self.machine.settings().clone());
            self.runtimes.iter_mut().for_each(|runtime| runtime.open(&settings));
            for front in 0..self.runtimes.len() as u32 {
                self.wake(world, Actor::Front(front));
            }
        }
        if !self.to_loop.is_empty() {
            self.wake(world, Actor::Loop);
        }
        self.wake_at(world, Actor::Loop, self.next_tick_us);
        Ok(())
    }

    fn run_apply(&mut self, world: &mut World) {
        self.to_apply.drain(..).for_each(|input| self.apply.receive(input));
        if !self.apply.has_work() {
            return;
        }
        let mut count = 0;
        while self.apply.has_work() && count < APPLY_HOLD_COMMANDS_MAX {
            let step = world.random.magnitude(1, 64) as usize;
            count += self.apply.step(&mut self.machine, step);
            // The time of a hold may be over at any step.
            if world.random.one_in(3) {
                break;
            }
        }
        let mut output = self.apply.take_output();
        for (front, delivery) in output.deliveries(self.runtimes.len() as u32) {
            self.runtimes[front.0 as usize].mail.push_back(delivery);
            if self.is_ready {
                self.wake(world, Actor::Front(front.0));
            }
        }
        self.push_loop(world, output.to_loop.into_iter().map(LoopInput::Apply));
        if self.apply.has_work() {
            self.wake(world, Actor::Apply);
        }
    }

    // The disk.

    fn run_disk(&mut self, world: &mut World) -> Lived {
        if self.disk_report.is_some() {
            return Ok(());
        }
        let ops_before = self.disk.ops();
        self.disk.take_sync_count();
        let mut reports = Vec::new();
        let is_idle = self.to_disk.is_empty();
        self.is_marked = false;
        for input in core::mem::take(&mut self.to_disk) {
            match input {
                DiskInput::Job(job) => self.held.push(job),
                DiskInput::Release(point) => {
                    // Also while jobs are held: on a full disk this is what makes room.
                    self.wal.release(point).map_err(disk_failed)?;
                }
                DiskInput::Spare(SpareResult::Made(job)) => {
                    self.wal.adopt_spare(job);
                    self.full.spare_failed = false;
                }
                DiskInput::Spare(SpareResult::Failed(job)) => {
                    self.wal.abandon_spare(job);
                    self.full.spare_failed = true;
                    self.full.retry_at_us = Some(world.now_us + DISK_FULL_RETRY_US);
                }
            }
        }
        self.write(world.now_us, &mut reports)?;
        if is_idle && self.held.is_empty() {
            self.wal.idle_mark().map_err(disk_failed)?;
            self.is_marked = true;
        }
        if self.full.retry_at_us.is_some_and(|at_us| world.now_us >= at_us) {
            self.full.retry_at_us = None;
        }
        if self.full.retry_at_us.is_none()
            && let Some(job) = self.wal.spare_wanted()
        {
            self.to_spare.push_back(job);
            if self.spare_report.is_none() {
                self.wake(world, Actor::Spare);
            }
        }
        self.report_room(&mut reports);
        let took_us = self.took_us(world, ops_before);
        self.disk_report = Some(reports);
        world.schedule(world.now_us + took_us, Event::Done { life: self.life, actor: Actor::Disk });
        Ok(())
    }

    /// Appends and syncs the held jobs. With a full disk they stay held, and are tried again.
    fn write(&mut self, now_us: u64, reports: &mut Vec<LoopInput>) -> Lived {
        let mut done = 0;
        for job in &self.held {
            match self.wal.append(&job.entries, job.hard_state, job.membership.clone()) {
                Ok(()) => done += 1,
                Err(StorageError::DiskFull { .. }) => {
                    self.full.spare_failed = true;
                    self.full.retry_at_us = Some(now_us + DISK_FULL_RETRY_US);
                    break;
                }
                Err(error) => return Err(disk_failed(error)),
            }
        }
        if done == 0 {
            return Ok(());
        }
        let committed = self.wal.commit(Durability::Sync).map_err(disk_failed)?;
        assert!(committed.synced);
        let last = self.held[done - 1].id;
        self.held.drain(..done);
        reports.push(LoopInput::Persisted(last));
        Ok(())
    }

    fn report_room(&mut self, reports: &mut Vec<LoopInput>) {
        let room = self.wal.room();
        let low = room.bytes_before_new_segment < self.room_bytes_min && !room.spare_ready;
        let is_full = !self.held.is_empty() || (self.full.spare_failed && low);
        if is_full != self.full.reported {
            self.full.reported = is_full;
            reports.push(LoopInput::DiskRoom { is_full });
        }
    }

    /// How long the disk takes for what was just asked of it.
    fn took_us(&mut self, world: &mut World, ops_before: u64) -> u64 {
        let ops = self.disk.ops() - ops_before;
        let syncs = self.disk.take_sync_count();
        let mut took_us = ops * world.random.below(20);
        for _ in 0..syncs {
            let sync_us = match world.random.below(100) {
                0 => world.random.magnitude(10_000, 400_000),
                1..=9 => world.random.magnitude(1_000, 10_000),
                _ => world.random.magnitude(30, 1_000),
            };
            took_us += (sync_us * self.sync_slowness).min(SYNC_US_MAX);
        }
        took_us
    }

    fn run_spare(&mut self, world: &mut World) {
        if self.spare_report.is_some() {
            return;
        }
        let Some(mut job) = self.to_spare.pop_front() else { return };
        let ops_before = self.disk.ops();
        self.disk.take_sync_count();
        let result = loop {
            match job.step(&self.disk) {
                Ok(false) => {}
                Ok(true) => break SpareResult::Made(job),
                Err(_) => break SpareResult::Failed(job),
            }
        };
        let took_us = self.took_us(world, ops_before);
        self.spare_report = Some(result);
        world
            .schedule(world.now_us + took_us, Event::Done { life: self.life, actor: Actor::Spare });
    }

    fn run_snapshot(&mut self, world: &mut World) {
        if self.snapshot_report.is_some() {
            return;
        }
        let Some(job) = self.to_snapshot.pop_front() else { return };
        let ops_before = self.disk.ops();
        self.disk.take_sync_count();
        let report = self.do_snapshot(job).unwrap_or_else(|_| {
            self.writer = None;
            Some(FromSnapshot::Failed)
        });
        if let Some(FromSnapshot::Finished { index, .. }) = report {
            self.snapshot_count += 1;
            // Old ones may stay: the next snapshot tries again.
            let _ = snapshot::remove_older(&self.disk, SNAPSHOTS_KEPT, index);
        }
        let took_us = self.took_us(world, ops_before);
        self.snapshot_report = Some(report);
        world.schedule(
            world.now_us + took_us,
            Event::Done { life: self.life, actor: Actor::Snapshot },
        );
    }

    fn do_snapshot(&mut self, job: SnapshotJob) -> Result<Option<FromSnapshot>, StorageError> {
        match job {
            SnapshotJob::Begin { index, term, membership } => {
                let new = SnapshotMeta { cluster_id: self.cluster_id, index, term, membership };
                self.writer = Some(SnapshotWriter::create(self.disk.clone(), &new)?);
                self.meta = Some(new);
                Ok(Some(FromSnapshot::PieceWritten))
            }
            SnapshotJob::Piece(bytes) => {
                let Some(writer) = &mut self.writer else { return Ok(None) };
                writer.write_piece(&bytes)?;
                Ok(Some(FromSnapshot::PieceWritten))
            }
            SnapshotJob::Finish => match (self.writer.take(), self.meta.take()) {
                (Some(writer), Some(meta)) => {
                    writer.finish()?;
                    Ok(Some(FromSnapshot::Finished { index: meta.index, term: meta.term }))
                }
                _ => Ok(None),
            },
            SnapshotJob::Abort => {
                if let Some(writer) = self.writer.take() {
                    writer.abort();
                }
                Ok(None)
            }
        }
    }
}

/// Two starts must not draw the same session ids.
fn secret_of_boot(mut secret: [u8; 32], boot: u64) -> [u8; 32] {
    for (byte, boot) in secret.iter_mut().zip(boot.to_le_bytes()) {
        *byte ^= boot;
    }
    secret
}

fn recover(disk: &SimDisk, config: &MemberConfig) -> Result<Recovered, Death> {
    let dir = match datadir::open(disk.clone()).map_err(disk_failed)? {
        Opened::Existing(found) => found,
        Opened::Empty(empty) => give_birth(empty, config).map_err(disk_failed)?,
    };
    let (wal, log) = Wal::open(disk.clone(), config.wal).map_err(disk_failed)?;
    let (meta, machine) = restore_newest(disk, log.snapshot.index, |_| {})
        .map_err(|error| Death::Disk(error.to_string()))?;
    let entries: Vec<_> =
        log.entries.into_iter().filter(|entry| entry.index > meta.index).collect();
    let log_bytes = entries.iter().map(|entry| entry.payload.len() as u64).sum();
    let snapshot = SnapshotPoint { index: meta.index, term: meta.term };
    let restored = to_restored(log.hard_state, meta.membership, snapshot, entries);
    Ok(Recovered { dir, wal, machine, restored, log_bytes })
}

fn give_birth(
    empty: EmptyDir<SimDisk>,
    config: &MemberConfig,
) -> Result<DataDir<SimDisk>, StorageError> {
    let word = |at: usize| {
        let bytes = config.secret[at..at + 8].try_into().expect("the secret has 32 bytes");
        u64::from_le_bytes(bytes)
    };
    let cluster_id = u128::from(word(0)) << 64 | u128::from(word(8));
    let identity = Identity { cluster_id, member_id: word(16).max(1) };
    let membership = Membership { voters: vec![identity.member_id], ..Membership::default() };
    let mut machine = Machine::default();
    machine.freeze();
    let mut pieces = Vec::new();
    loop {
        match machine.freeze_step(usize::MAX, u32::MAX) {
            FreezeStep::Piece(piece) => pieces.push(piece),
            FreezeStep::Last(piece) => {
                pieces.push(piece);
                break;
            }
            FreezeStep::Aborted => unreachable!("nothing changes a machine that nobody has yet"),
        }
    }
    empty.birth(identity, &membership, &pieces, &config.wal)
}

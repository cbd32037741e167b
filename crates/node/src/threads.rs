//! The core threads and what they do, one function each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use machine::Machine;
use member::limits::APPLY_HOLD_COMMANDS_MAX;
use member::message::{
    Delivery, DiskJob, FromApply, FromSnapshot, FrontId, SnapshotJob, ToApply, ToLoop,
};
use member::{Apply, Loop};
use parking_lot::RwLock;
use storage::StorageError;
use storage::disk::RealDisk;
use storage::snapshot::{SnapshotMeta, SnapshotWriter};
use storage::wal::{Durability, SnapshotPoint, SpareJob, Wal};

use crate::limits::{
    APPLY_HOLD, APPLY_STEP_COMMANDS, DISK_FULL_RETRY, DISK_IDLE, MAIL_MAX, MAIL_WAIT, RAFT_TICK,
    ROOM_BYTES_MIN,
};
use crate::queue::{Inbox, Mail};

/// What arrives at Loop.
pub(crate) enum LoopInput {
    Front(ToLoop),
    Apply(FromApply),
    Persisted(member::message::PersistId),
    DiskRoom { is_full: bool },
    Snapshot(FromSnapshot),
}

/// What arrives at the disk.
pub(crate) enum DiskInput {
    Job(DiskJob),
    Release(SnapshotPoint),
    Spare(SpareResult),
}

/// A segment made ahead, or why it was not.
pub(crate) enum SpareResult {
    Made(SpareJob<RealDisk>),
    Failed(SpareJob<RealDisk>, StorageError),
}

/// The queues and the state that the threads share.
pub(crate) struct Shared {
    pub machine: RwLock<Machine>,
    pub to_loop: Inbox<LoopInput>,
    pub to_apply: Inbox<ToApply>,
    pub to_disk: Inbox<DiskInput>,
    pub to_snapshot: Inbox<SnapshotJob>,
    pub to_spare: Inbox<SpareJob<RealDisk>>,
    pub fronts: Vec<Mail<Delivery>>,
    pub ready: Inbox<()>,
    /// Whether connection runtimes take their mail. Before that nobody waits and nobody watches, and
    /// a long replay would fill their queues.
    pub serving: AtomicBool,
    pub started: Instant,
}

/// What a connection runtime needs of the node.
#[derive(Clone)]
pub struct FrontHandle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: FrontId,
}

impl FrontHandle {
    /// Which one it is.
    pub fn id(&self) -> FrontId {
        self.id
    }

    /// The state. Readers hold the lock for a short, bounded time.
    pub fn machine(&self) -> &RwLock<Machine> {
        &self.shared.machine
    }

    /// What Apply pushed for this runtime.
    pub fn mail(&self) -> &Mail<Delivery> {
        &self.shared.fronts[self.id.0 as usize]
    }

    /// Hands messages to Loop.
    pub fn send(&self, messages: Vec<ToLoop>) {
        self.shared.to_loop.push(messages.into_iter().map(LoopInput::Front));
    }

    /// Ms since the node started.
    pub fn monotonic_ms(&self) -> u64 {
        self.shared.started.elapsed().as_millis() as u64
    }
}

/// Ms since 1970.
pub fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Starts a core thread.
pub(crate) fn spawn(
    name: &'static str,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name(name.to_string()).spawn(body)
}

/// The disk failed: nothing more can be promised, so the process ends. Another start recovers.
fn fail(what: &str, error: &StorageError) -> ! {
    tracing::error!("{what}: {error}; ending the process");
    eprintln!("quorate: {what}: {error}");
    std::process::exit(70);
}

pub(crate) fn run_loop(shared: &Shared, mut member: Loop) {
    let mut inputs = Vec::new();
    let mut last = Instant::now();
    let mut next_tick = last + RAFT_TICK;
    loop {
        let output = member.finish(wall_ms());
        if !output.disk.is_empty() {
            shared.to_disk.push(output.disk.into_iter().map(DiskInput::Job));
        }
        if !output.apply.is_empty() {
            shared.to_apply.push(output.apply);
        }
        if !output.snapshot.is_empty() {
            shared.to_snapshot.push(output.snapshot);
        }
        if let Some(point) = output.release {
            shared.to_disk.push([DiskInput::Release(point)]);
        }
        if output.ready {
            shared.ready.push([()]);
        }
        inputs.clear();
        if !shared.to_loop.take(&mut inputs, Some(next_tick)) {
            return;
        }
        for input in inputs.drain(..) {
            match input {
                LoopInput::Front(message) => member.on_front(message),
                LoopInput::Apply(message) => member.on_apply(message),
                LoopInput::Persisted(id) => member.on_persisted(id),
                LoopInput::DiskRoom { is_full } => member.on_disk_room(is_full),
                LoopInput::Snapshot(message) => member.on_snapshot(message),
            }
        }
        let now = Instant::now();
        if now >= next_tick {
            let elapsed_ms = (now - last).as_millis() as u64;
            last = now;
            next_tick = now + RAFT_TICK;
            member.on_time(elapsed_ms, true);
        }
    }
}

pub(crate) fn run_apply(shared: &Shared, mut apply: Apply) {
    let mut inputs = Vec::new();
    loop {
        inputs.clear();
        let deadline = if apply.has_work() { Some(Instant::now()) } else { None };
        if !shared.to_apply.take(&mut inputs, deadline) {
            return;
        }
        inputs.drain(..).for_each(|input| apply.receive(input));
        if !apply.has_work() {
            continue;
        }
        let serving = shared.serving.load(Ordering::Acquire);
        while serving && shared.fronts.iter().any(|mail| mail.len() >= MAIL_MAX) {
            std::thread::sleep(MAIL_WAIT);
        }
        let mut machine = shared.machine.write();
        let held_since = Instant::now();
        let mut count = 0;
        while apply.has_work() && count < APPLY_HOLD_COMMANDS_MAX {
            count += apply.step(&mut machine, APPLY_STEP_COMMANDS);
            if held_since.elapsed() >= APPLY_HOLD {
                break;
            }
        }
        let mut output = apply.take_output();
        for (front, delivery) in output.deliveries(shared.fronts.len() as u32) {
            if serving {
                shared.fronts[front.0 as usize].push(delivery);
            }
        }
        drop(machine);
        if !output.to_loop.is_empty() {
            shared.to_loop.push(output.to_loop.into_iter().map(LoopInput::Apply));
        }
    }
}

/// The disk thread: whatever is queued goes in one write and one sync.
pub(crate) fn run_disk(shared: &Shared, mut wal: Wal<RealDisk>) {
    let mut inputs = Vec::new();
    let mut held: Vec<DiskJob> = Vec::new();
    let mut full = Fullness::default();
    // Everything is durable and the log says so: there is nothing to wake up for.
    let mut marked = false;
    loop {
        let deadline = match marked {
            _ if !held.is_empty() => Some(Instant::now() + DISK_FULL_RETRY),
            false => Some(Instant::now() + DISK_IDLE),
            true => full.retry_at,
        };
        inputs.clear();
        let open = shared.to_disk.take(&mut inputs, deadline);
        let idle = inputs.is_empty();
        marked = false;
        for input in inputs.drain(..) {
            match input {
                DiskInput::Job(job) => held.push(job),
                DiskInput::Release(point) => {
                    // Also while jobs are held: on a full disk this is what makes room.
                    wal.release(point).unwrap_or_else(|error| fail("the log", &error));
                }
                DiskInput::Spare(SpareResult::Made(job)) => {
                    wal.adopt_spare(job);
                    full.spare_failed = false;
                }
                DiskInput::Spare(SpareResult::Failed(job, error)) => {
                    if !full.spare_failed {
                        tracing::warn!("no log segment can be made ahead: {error}");
                    }
                    wal.abandon_spare(job);
                    full.spare_failed = true;
                    full.retry_at = Some(Instant::now() + DISK_FULL_RETRY);
                }
            }
        }
        write(shared, &mut wal, &mut held, &mut full);
        if idle && held.is_empty() {
            wal.idle_mark().unwrap_or_else(|error| fail("the log", &error));
            marked = true;
        }
        if full.retry_at.is_some_and(|at| Instant::now() >= at) {
            full.retry_at = None;
        }
        if full.retry_at.is_none()
            && let Some(job) = wal.spare_wanted()
        {
            shared.to_spare.push([job]);
        }
        full.report(shared, &wal, !held.is_empty());
        if !open {
            return;
        }
    }
}

/// What the disk thread knows about the room on the disk.
#[derive(Default)]
struct Fullness {
    spare_failed: bool,
    retry_at: Option<Instant>,
    reported: bool,
}

impl Fullness {
    /// Tells Loop when writes are to be refused, and when no more.
    fn report(&mut self, shared: &Shared, wal: &Wal<RealDisk>, is_stuck: bool) {
        let room = wal.room();
        let low = room.bytes_before_new_segment < ROOM_BYTES_MIN && !room.spare_ready;
        let is_full = is_stuck || (self.spare_failed && low);
        if is_full != self.reported {
            self.reported = is_full;
            match is_full {
                true => tracing::error!("the disk is full: writes are refused"),
                false => tracing::info!("the disk has room again: writes are taken"),
            }
            shared.to_loop.push([LoopInput::DiskRoom { is_full }]);
        }
    }
}

/// Appends and syncs the held jobs. With a full disk they stay held, and are tried again.
fn write(shared: &Shared, wal: &mut Wal<RealDisk>, held: &mut Vec<DiskJob>, full: &mut Fullness) {
    let mut done = 0;
    for job in held.iter() {
        match wal.append(&job.entries, job.hard_state, job.membership.clone()) {
            Ok(()) => done += 1,
            Err(StorageError::DiskFull { .. }) => {
                full.spare_failed = true;
                full.retry_at = Some(Instant::now() + DISK_FULL_RETRY);
                break;
            }
            Err(error) => fail("the log", &error),
        }
    }
    if done == 0 {
        return;
    }
    let committed = wal.commit(Durability::Sync).unwrap_or_else(|error| fail("the log", &error));
    assert!(committed.synced);
    let last = held[done - 1].id;
    held.drain(..done);
    shared.to_loop.push([LoopInput::Persisted(last)]);
}

/// Makes log segments ahead, so that the log never waits for zeros to be written.
pub(crate) fn run_spare(shared: &Shared, disk: &RealDisk) {
    let mut jobs = Vec::new();
    loop {
        jobs.clear();
        if !shared.to_spare.take(&mut jobs, None) {
            return;
        }
        for mut job in jobs.drain(..) {
            let result = loop {
                match job.step(disk) {
                    Ok(false) => {}
                    Ok(true) => break SpareResult::Made(job),
                    Err(error) => break SpareResult::Failed(job, error),
                }
            };
            shared.to_disk.push([DiskInput::Spare(result)]);
        }
    }
}

/// Writes snapshot files, at half of the disk's pace: as long as a piece took to write, the thread
/// then rests, so that the log's syncs come in between.
pub(crate) fn run_snapshot(
    shared: &Shared,
    disk: &RealDisk,
    cluster_id: u128,
    snapshots_kept: usize,
) {
    let mut jobs = Vec::new();
    let mut writer: Option<SnapshotWriter<RealDisk>> = None;
    let mut meta: Option<SnapshotMeta> = None;
    loop {
        jobs.clear();
        if !shared.to_snapshot.take(&mut jobs, None) {
            return;
        }
        for job in jobs.drain(..) {
            let began = Instant::now();
            let is_piece = matches!(job, SnapshotJob::Piece(_));
            let report = match do_snapshot(disk, cluster_id, &mut writer, &mut meta, job) {
                Ok(report) => report,
                Err(error) => {
                    tracing::error!("no snapshot was taken: {error}");
                    writer = None;
                    // What was written takes room that the log may need.
                    if let Err(error) = storage::snapshot::remove_temporaries(disk) {
                        tracing::warn!("an unfinished snapshot stays: {error}");
                    }
                    Some(FromSnapshot::Failed)
                }
            };
            if let Some(FromSnapshot::Finished { index, .. }) = report {
                tracing::info!("snapshot of the state at log index {index} is durable");
                if let Err(error) = storage::snapshot::remove_older(disk, snapshots_kept, index) {
                    tracing::warn!("old snapshots stay: {error}");
                }
            }
            if is_piece {
                std::thread::sleep(began.elapsed().min(Duration::from_secs(1)));
            }
            if let Some(report) = report {
                shared.to_loop.push([LoopInput::Snapshot(report)]);
            }
        }
    }
}

fn do_snapshot(
    disk: &RealDisk,
    cluster_id: u128,
    writer: &mut Option<SnapshotWriter<RealDisk>>,
    meta: &mut Option<SnapshotMeta>,
    job: SnapshotJob,
) -> Result<Option<FromSnapshot>, StorageError> {
    match job {
        SnapshotJob::Begin { index, term, membership } => {
            let new = SnapshotMeta { cluster_id, index, term, membership };
            *writer = Some(SnapshotWriter::create(disk.clone(), &new)?);
            *meta = Some(new);
            Ok(Some(FromSnapshot::PieceWritten))
        }
        SnapshotJob::Piece(bytes) => {
            // After a failure the rest of the pieces has nowhere to go.
            let Some(writer) = writer else { return Ok(None) };
            writer.write_piece(&bytes)?;
            Ok(Some(FromSnapshot::PieceWritten))
        }
        SnapshotJob::Finish => match (writer.take(), meta.take()) {
            (Some(writer), Some(meta)) => {
                writer.finish()?;
                Ok(Some(FromSnapshot::Finished { index: meta.index, term: meta.term }))
            }
            _ => Ok(None),
        },
        SnapshotJob::Abort => {
            if let Some(writer) = writer.take() {
                writer.abort();
            }
            Ok(None)
        }
    }
}

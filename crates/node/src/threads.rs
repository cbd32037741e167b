//! The core threads and what they do, one function each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use machine::Machine;
use member::limits::APPLY_HOLD_COMMANDS_MAX;
use member::log_writer::LogInput;
use member::message::{Delivery, FromApply, FromSnapshot, FrontId, SnapshotJob, ToApply, ToLoop};
use member::{Apply, ImageWriter, LogWriter, Loop};
use parking_lot::RwLock;
use storage::StorageError;
use storage::disk::RealDisk;
use storage::wal::SpareJob;

use crate::limits::{
    APPLY_HOLD, APPLY_STEP_COMMANDS, MAIL_MAX, MAIL_WAIT, RAFT_TICK, SNAPSHOT_REST_MAX,
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

/// The queues and the state that the threads share.
pub(crate) struct Shared {
    pub machine: RwLock<Machine>,
    pub to_loop: Inbox<LoopInput>,
    pub to_apply: Inbox<ToApply>,
    pub to_disk: Inbox<LogInput<RealDisk>>,
    pub to_snapshot: Inbox<SnapshotJob>,
    pub to_spare: Inbox<SpareJob<RealDisk>>,
    pub fronts: Vec<Mail<Delivery>>,
    pub ready: Inbox<()>,
    /// Whether connection runtimes take their mail. Before that nobody waits and nobody watches, and
    /// a long replay would fill their queues.
    pub serving: AtomicBool,
    pub started: Instant,
}

impl Shared {
    /// Ms since the node started.
    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }
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
        self.shared.now_ms()
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
            shared.to_disk.push(output.disk.into_iter().map(LogInput::Job));
        }
        if !output.apply.is_empty() {
            shared.to_apply.push(output.apply);
        }
        if !output.snapshot.is_empty() {
            shared.to_snapshot.push(output.snapshot);
        }
        if let Some(point) = output.release {
            shared.to_disk.push([LogInput::Release(point)]);
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

pub(crate) fn run_disk(shared: &Shared, mut log: LogWriter<RealDisk>) {
    let failed = |error| -> ! { fail("the log", &error) };
    let mut inputs = Vec::new();
    loop {
        let at = |ms| shared.started + Duration::from_millis(ms);
        let deadline = log.deadline_ms(shared.now_ms()).map(at);
        inputs.clear();
        let open = shared.to_disk.take(&mut inputs, deadline);
        let now_ms = shared.now_ms();
        for input in inputs.drain(..) {
            log.receive(input, now_ms).unwrap_or_else(|error| failed(error));
        }
        let output = log.finish(now_ms).unwrap_or_else(|error| failed(error));
        if let Some(last) = output.persisted {
            shared.to_loop.push([LoopInput::Persisted(last)]);
        }
        if let Some(is_full) = output.is_full {
            match is_full {
                true => tracing::error!("the disk is full: writes are refused"),
                false => tracing::info!("the disk has room again: writes are taken"),
            }
            shared.to_loop.push([LoopInput::DiskRoom { is_full }]);
        }
        if let Some(job) = output.spare {
            shared.to_spare.push([job]);
        }
        if !open {
            return;
        }
    }
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
                    Ok(true) => break Ok(()),
                    Err(error) => break Err(error),
                }
            };
            shared.to_disk.push([LogInput::Spare(job, result)]);
        }
    }
}

/// Writes snapshot files, at half of the disk's pace: as long as a piece took to write, the thread
/// then rests, so that the log's syncs come in between.
pub(crate) fn run_snapshot(shared: &Shared, mut image: ImageWriter<RealDisk>) {
    let mut jobs = Vec::new();
    loop {
        jobs.clear();
        if !shared.to_snapshot.take(&mut jobs, None) {
            return;
        }
        for job in jobs.drain(..) {
            let began = Instant::now();
            let is_piece = matches!(job, SnapshotJob::Piece(_));
            let output = image.handle(job);
            for problem in &output.problems {
                tracing::error!("snapshot: {problem}");
            }
            if let Some(FromSnapshot::Finished { index, .. }) = output.report {
                tracing::info!("snapshot of the state at log index {index} is durable");
            }
            if is_piece {
                std::thread::sleep(began.elapsed().min(SNAPSHOT_REST_MAX));
            }
            if let Some(report) = output.report {
                shared.to_loop.push([LoopInput::Snapshot(report)]);
            }
        }
    }
}

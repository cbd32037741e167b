//! The core threads of a node: the state that they share, and one function for each thread.
//!
//! Loop and Apply are each behind a mutex and run on any thread that has input for them: a step
//! takes microseconds, and waking another thread costs more. A thread that finds the mutex taken
//! does not wait: the holder looks for more input after it has released the mutex.
//!
//! The threads, what each runs, and when:
//!
//! | thread | runs | when |
//! | --- | --- | --- |
//! | *loop* | Loop | time has passed; or another thread left work to it after a few turns |
//! | *apply* | Apply | it was woken for committed commands; or another thread left work to it |
//! | *disk* | the log, then Loop, then Apply while the disk has no job | Loop gave it a job |
//! | *peers* | Loop, then one hold of Apply | a link delivered something |
//! | *snapshot* | the snapshot files, then Loop | Loop gave it a job |
//! | *spare* | filling log segments in advance | the log asked for one |
//! | a connection runtime | its Front, then Loop | a client sent something; or Apply gave it mail |
//!
//! For example, a lone write on a standalone server: the runtime runs Front and Loop. Then *disk*
//! writes the log, runs Loop, which finds the write committed, and runs Apply, which mails the
//! answer. Then the runtime sends the answer. So after the client's bytes have woken the runtime,
//! two wake-ups follow: of *disk*, and of the runtime.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use machine::{Machine, Mark};
use member::log_writer::LogInput;
use member::message::{
    Delivery, FromSnapshot, FrontCounts, FrontId, LoopInput, SnapshotJob, ToApply, ToLoop,
};
use member::{LogWriter, Loop, SnapshotWriter};
use parking_lot::{Mutex, RwLock};
use storage::StorageError;
use storage::disk::RealDisk;
use storage::wal::SpareJob;
use tokio::sync::watch;

use crate::ack_latency::Reached;
use crate::images::ImageWaiters;
use crate::limits::{
    LOG_QUIET_MS, LOOP_TURNS_MAX, MAIL_MAX, MAIL_WAIT, REST_MAX, SEGMENT_RESTS, SNAPSHOT_RESTS,
};
use crate::listed::ListNews;
use crate::metrics::NodeMetrics;
use crate::peer_sockets::PeerHandle;
use crate::queue::{Inbox, Mail};

mod announce;
mod apply_runner;
mod loop_runner;

pub(crate) use apply_runner::ApplyRunner;
pub use apply_runner::ChangeListener;
pub(crate) use loop_runner::LoopRunner;

/// The queues and the state that the threads share.
pub(crate) struct Shared {
    pub machine: RwLock<Machine>,
    pub main_loop: Mutex<LoopRunner>,
    pub apply: Mutex<ApplyRunner>,
    pub to_loop: Inbox<LoopInput>,
    /// Bytes of the frames of other members that wait in `to_loop`.
    pub peer_input_bytes: AtomicUsize,
    pub to_apply: Inbox<ToApply>,
    pub to_disk: Inbox<LogInput<RealDisk>>,
    pub to_snapshot: Inbox<SnapshotJob>,
    pub to_spare: Inbox<SpareJob<RealDisk>>,
    pub front_counts: FrontCounts,
    /// The mail of each connection runtime, indexed by its `FrontId`.
    pub fronts: Vec<Mail<Delivery>>,
    pub ready: Inbox<()>,
    /// Whether connection runtimes take their mail. Before that no client waits or watches, and a
    /// long replay would fill the queues.
    pub serving: AtomicBool,
    pub started: Instant,
    /// When this member last had contact with a leader or a quorum, in ms since `started`;
    /// `u64::MAX` if it needs no other member. See [`FrontHandle::contact_at_ms`].
    pub contact_at_ms: AtomicU64,
    /// The Raft term that Loop has reached.
    pub raft_term: AtomicU64,
    /// The index of the last entry that Loop knows to be committed.
    pub commit_index: AtomicU64,
    /// When the log was last made durable, in ms since `started`; 0 if it never was.
    pub log_synced_ms: AtomicU64,
    pub metrics: Mutex<NodeMetrics>,
    pub waiters: ImageWaiters,
    pub disk: RealDisk,
    pub data_dir: PathBuf,
    /// A warning is logged when a sync of the log takes longer than this.
    pub fsync_warning: Duration,
    /// The links to the other members; `None` in a standalone server.
    pub peers: Option<PeerHandle>,
    /// The newest list of servers that Loop has told.
    pub listed: watch::Sender<Option<ListNews>>,
}

/// The part of the node that a connection runtime uses.
#[derive(Clone)]
pub struct FrontHandle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) id: FrontId,
}

impl FrontHandle {
    /// The id of this Front.
    pub fn id(&self) -> FrontId {
        self.id
    }

    /// The replicated state. Readers may hold the lock only for a short, bounded time.
    pub fn machine(&self) -> &RwLock<Machine> {
        &self.shared.machine
    }

    /// The deliveries that Apply pushed for this runtime.
    pub fn mail(&self) -> &Mail<Delivery> {
        &self.shared.fronts[self.id.0 as usize]
    }

    /// Passes messages to Loop. Must not be called while the lock around the state is held.
    pub fn send(&self, messages: Vec<ToLoop>) {
        self.shared.tell_loop(messages.into_iter().map(LoopInput::Front));
    }

    /// Ms since the node started.
    pub fn monotonic_ms(&self) -> u64 {
        self.shared.now_ms()
    }

    /// The Raft term that this member has reached.
    pub fn raft_term(&self) -> u64 {
        self.shared.raft_term.load(Ordering::Acquire)
    }

    /// The index of the last entry that this member knows to be committed.
    pub fn commit_index(&self) -> u64 {
        self.shared.commit_index.load(Ordering::Acquire)
    }

    /// When this member last had contact with a leader or a quorum, in ms since the node started;
    /// see [`Now::contact_at_ms`](member::fronts::zk::Now::contact_at_ms).
    pub fn contact_at_ms(&self) -> Option<u64> {
        Some(self.shared.contact_at_ms.load(Ordering::Acquire)).filter(|at_ms| *at_ms != u64::MAX)
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

/// Ends the process because the disk failed: nothing more can be promised. The next start recovers.
fn fail(what: &str, error: &StorageError) -> ! {
    tracing::error!("{what}: {error}; ending the process");
    eprintln!("quorate: {what}: {error}");
    std::process::exit(70);
}

/// The age in ms of an entry with the leader's time `stamped_ms`. `None` if that lies in the
/// future, because the clocks disagree.
fn age_ms(stamped_ms: i64) -> Option<u64> {
    u64::try_from(wall_ms().saturating_sub(stamped_ms)).ok()
}

/// Bytes of the frames of other members in `inputs`.
fn peer_bytes(inputs: &[LoopInput]) -> usize {
    let bytes = |input: &LoopInput| match input {
        LoopInput::Peer { frame, .. } => frame.body.len(),
        _ => 0,
    };
    inputs.iter().map(bytes).sum()
}

impl Shared {
    /// Ms since the node started.
    pub fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// Records how old an entry was when it was applied here, by the leader's time in it.
    fn note_propagation(&self, stamped_ms: i64) {
        if let Some(took_ms) = age_ms(stamped_ms) {
            let now_ms = self.now_ms();
            self.metrics.lock().propagation_latency_ms.record(took_ms, now_ms);
        }
    }

    /// Records how old an entry was when a follower gave it to its disk, by the leader's time in
    /// it.
    fn note_proposal(&self, stamped_ms: i64) {
        if let Some(took_ms) = age_ms(stamped_ms) {
            let now_ms = self.now_ms();
            self.metrics.lock().proposal_latency_ms.record(took_ms, now_ms);
        }
    }

    /// Reads something from Loop. Input that arrives meanwhile is handled right after.
    pub fn look_at_loop<T>(&self, look: impl FnOnce(&Loop) -> T) -> T {
        let seen = look(&self.main_loop.lock().member);
        if !self.to_loop.is_empty() {
            self.turn_loop(true);
        }
        seen
    }

    /// Calls something on Loop, and then lets Loop handle that and all other input that has
    /// arrived.
    pub fn ask_loop<T>(&self, ask: impl FnOnce(&mut Loop) -> T) -> T {
        let asked = ask(&mut self.main_loop.lock().member);
        self.turn_loop(true);
        asked
    }

    /// Records how long entries took to reach members' disks or a quorum.
    fn count_acks(&self, reached: &[(Reached, Duration)]) {
        if reached.is_empty() {
            return;
        }
        let now_ms = self.now_ms();
        let mut metrics = self.metrics.lock();
        for (reached, took) in reached {
            let summary = match reached {
                Reached::Quorum => &mut metrics.quorum_ack_latency_us,
                Reached::Disk(member) => metrics.ack_latency_us.entry(*member).or_default(),
            };
            summary.record(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), now_ms);
        }
    }

    /// Whether the log is in use: it was made durable a moment ago.
    pub fn is_log_used(&self) -> bool {
        let synced_ms = self.log_synced_ms.load(Ordering::Relaxed);
        synced_ms != 0 && self.now_ms().saturating_sub(synced_ms) <= LOG_QUIET_MS
    }

    /// Lets the log have the disk and the processor after a piece of a snapshot that began at
    /// `began`, if the log is in use.
    fn rest_from_piece(&self, began: Instant) {
        if self.is_log_used() {
            rest_from(began, SNAPSHOT_RESTS);
        }
    }

    /// Records how long a write of the log took that made something durable.
    fn count_fsync(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let is_slow = took > self.fsync_warning;
        self.log_synced_ms.store(self.now_ms(), Ordering::Relaxed);
        let mut metrics = self.metrics.lock();
        metrics.fsync_time_us.record(us, self.now_ms());
        metrics.fsync_buckets.record(us);
        metrics.fsync_threshold_exceed_count += u64::from(is_slow);
        drop(metrics);
        if is_slow {
            let ms = took.as_millis();
            tracing::warn!("writing and syncing the log took {ms} ms: writes waited for it");
        }
    }

    pub fn tell_loop(&self, inputs: impl IntoIterator<Item = LoopInput>) {
        self.to_loop.push_quietly(inputs);
        self.turn_loop(true);
    }

    /// Gives Loop inputs of the links. They often commit something, so this thread then runs one
    /// hold of Apply; only one, since other links wait for the thread.
    pub fn tell_loop_of_peers(&self, inputs: Vec<LoopInput>) {
        self.peer_input_bytes.fetch_add(peer_bytes(&inputs), Ordering::Relaxed);
        self.to_loop.push_quietly(inputs);
        // A client that waits for Apply comes before the members that wait for the commit index.
        let mut is_sending = false;
        self.turns_of_loop(false, || is_sending = true);
        if !self.to_apply.is_empty() {
            let mut is_first = true;
            self.help_apply(|| std::mem::take(&mut is_first));
        }
        if is_sending {
            self.flush_peers();
        }
    }

    /// Lets Loop take its input, unless another thread is running Loop: that thread looks for input
    /// again. After a few turns the rest is left to Loop's own thread, even if others keep sending.
    fn turn_loop(&self, wakes_apply: bool) {
        self.turns_of_loop(wakes_apply, || self.flush_peers());
    }

    /// Like `turn_loop`, but the caller sends the queued frames to other members, in `send`.
    fn turns_of_loop(&self, wakes_apply: bool, mut send: impl FnMut()) {
        for _ in 0..LOOP_TURNS_MAX {
            let Some(mut runner) = self.main_loop.try_lock() else { return };
            let is_sending = runner.turn(self, wakes_apply);
            drop(runner);
            if is_sending {
                send();
            }
            if self.to_loop.is_empty() {
                return;
            }
        }
        self.to_loop.wake_consumer();
    }

    fn flush_peers(&self) {
        if let Some(peers) = &self.peers {
            peers.flush();
        }
    }

    /// Whether a connection runtime has so much mail that Apply must wait.
    fn must_wait(&self) -> bool {
        let serving = self.serving.load(Ordering::Acquire);
        serving && self.fronts.iter().any(|mail| mail.len() >= MAIL_MAX)
    }

    /// Runs holds of Apply on this thread while `has_time` is true, and leaves the rest to Apply's
    /// own thread.
    fn help_apply(&self, mut has_time: impl FnMut() -> bool) {
        while let Some(mut runner) = self.apply.try_lock() {
            if self.must_wait() || !has_time() {
                break;
            }
            let has_more = runner.hold(self);
            drop(runner);
            if !self.to_loop.is_empty() {
                self.turn_loop(false);
            }
            if !has_more && self.to_apply.is_empty() {
                return;
            }
        }
        self.to_apply.wake_consumer();
    }
}

/// Loop's own thread, which tells Loop the time.
pub(crate) fn run_loop(shared: &Shared) {
    loop {
        shared.turn_loop(true);
        let due = shared.main_loop.lock().sleep();
        if !shared.to_loop.wait(Some(due)) {
            return;
        }
    }
}

pub(crate) fn run_apply(shared: &Shared) {
    while shared.to_apply.wait(None) {
        loop {
            while shared.must_wait() {
                std::thread::sleep(MAIL_WAIT);
            }
            let has_more = shared.apply.lock().hold(shared);
            if !shared.to_loop.is_empty() {
                shared.turn_loop(true);
            }
            if !has_more {
                break;
            }
        }
    }
}

/// The disk thread: writes all queued jobs with one write and one sync.
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
        let began = Instant::now();
        let output = log.finish(now_ms).unwrap_or_else(|error| failed(error));
        if output.persisted.is_some() {
            shared.count_fsync(began.elapsed());
        }
        if let Some(lack) = output.lack {
            tracing::error!("no further log segment can be made for now: {lack}");
        }
        if let Some(job) = output.spare {
            shared.to_spare.push([job]);
        }
        let persisted = output.persisted.map(LoopInput::Persisted);
        let room = output.is_full.map(|is_full| LoopInput::DiskRoom { is_full });
        if persisted.is_some() || room.is_some() {
            shared.to_loop.push_quietly(persisted.into_iter().chain(room));
            shared.turn_loop(false);
            shared.help_apply(|| shared.to_disk.is_empty());
        }
        if !open {
            return;
        }
    }
}

/// The spare thread: makes log segments ahead, so that the log never waits for zeros to be written.
/// Rests between steps, as the snapshot thread does.
pub(crate) fn run_spare(shared: &Shared, disk: &RealDisk) {
    let mut jobs = Vec::new();
    loop {
        jobs.clear();
        if !shared.to_spare.take(&mut jobs, None) {
            return;
        }
        for mut job in jobs.drain(..) {
            let result = loop {
                let began = Instant::now();
                match job.step(disk) {
                    Ok(false) => rest_from(began, SEGMENT_RESTS),
                    Ok(true) => break Ok(()),
                    Err(error) => break Err(error),
                }
            };
            shared.to_disk.push([LogInput::Spare(job, result)]);
        }
    }
}

/// Leaves disk and processor to others for a while: sleeps `times` times as long as the work took
/// that began at `began`, so that syncs of the log and of other processes come in between.
fn rest_from(began: Instant, times: u32) {
    std::thread::sleep(began.elapsed().saturating_mul(times).min(REST_MAX));
}

/// The snapshot thread: reads and writes snapshot files, and rests after each piece
/// while the log is in use.
pub(crate) fn run_snapshot(shared: &Shared, mut image: SnapshotWriter<RealDisk>) {
    let mut jobs = Vec::new();
    let (mut snapshot_began, mut snapshot_number, mut snapshot_mark) =
        (Instant::now(), 0, Mark::default());
    loop {
        jobs.clear();
        if !shared.to_snapshot.take(&mut jobs, None) {
            return;
        }
        for job in jobs.drain(..) {
            let began = Instant::now();
            let is_piece = matches!(
                job,
                SnapshotJob::Piece(_) | SnapshotJob::Read { .. } | SnapshotJob::Receive { .. }
            );
            if let SnapshotJob::Begin { number, mark, .. } = job {
                (snapshot_began, snapshot_number, snapshot_mark) = (began, number, mark);
            }
            let mut piece_began = began;
            let output = image.handle(job, || {
                shared.rest_from_piece(piece_began);
                piece_began = Instant::now();
            });
            for problem in &output.problems {
                tracing::error!("snapshot: {problem}");
            }
            if let Some(FromSnapshot::Failed) = output.report {
                shared.on_snapshot_failed(snapshot_number);
            }
            if let Some(FromSnapshot::Finished { index, term }) = output.report {
                let ms = u64::try_from(snapshot_began.elapsed().as_millis()).unwrap_or(u64::MAX);
                let mut metrics = shared.metrics.lock();
                metrics.snapshot_time_ms.record(ms, shared.now_ms());
                metrics.last_snapshot = Some((snapshot_mark, wall_ms() / 1_000));
                drop(metrics);
                tracing::info!("snapshot of the state at log index {index} is durable");
                shared.on_snapshot_taken(snapshot_number, (index, term), snapshot_mark);
            }
            if is_piece {
                shared.rest_from_piece(began);
            }
            let room = output.room.map(LoopInput::SnapshotRoom);
            let report = output.report.map(LoopInput::Snapshot);
            let transfer = output.transfer.map(LoopInput::Transfer);
            if room.is_some() || report.is_some() || transfer.is_some() {
                shared.tell_loop(room.into_iter().chain(report).chain(transfer));
            }
        }
    }
}

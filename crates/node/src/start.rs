//! Starts a node: opens its data directory, recovers the content, and starts the threads.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use machine::Origin;
use machine::image::restore::RestoreError;
use member::message::{FrontCounts, FrontId, ReplicaError, UnknownEntry};
use member::recovery::{Options, Reading, Recovered, RecoveryError, recover};
use member::snapshot::limits::ROOM_BYTES_MIN;
use member::{Apply, CommandCounts, LogWriter, ReplyRoom, SnapshotWriter, WatchInterest};
use parking_lot::{Mutex, RwLock};
use storage::StorageError;
use storage::datadir::{DataDir, IDENTITY_FILE, SERVERS_FILE, is_own_name};
use storage::disk::RealDisk;
use storage::wal::{WAL_DIR, WalOptions, is_log_name};
use thiserror::Error;
use tokio::sync::watch;

use crate::cluster::{self, ClusterConfig};
use crate::images::ImageWaiters;
use crate::limits::{HAND_OVER_LIMIT, HAND_OVER_LOOK};
use crate::listed::ListNews;
use crate::metrics::{MonitorHandle, NodeMetrics, Startup};
use crate::peer_sockets::{PeerHandle, PeerSockets};
use crate::queue::{Inbox, Mail};
use crate::threads::{
    ApplyRunner, ChangeListener, FrontHandle, LoopRunner, Shared, run_apply, run_disk, run_loop,
    run_snapshot, run_spare, spawn,
};

/// Settings of a node.
#[derive(Debug)]
pub struct NodeConfig {
    /// The data directory.
    pub data_dir: PathBuf,
    /// The directory of the log, if it is not in `data_dir`. Must not change between starts.
    pub log_dir: Option<PathBuf>,
    /// Number of connection runtimes.
    pub fronts: FrontCounts,
    /// Random bytes, new at each start. The id of the start, and the ids of a new data directory,
    /// are derived from them. Other members learn these ids.
    pub drawn: [u8; 32],
    /// Random bytes, new at each start, and kept secret.
    pub secret: [u8; 32],
    /// Options of the member.
    pub member: Options,
    /// A warning is logged if the log takes longer than this to make something durable
    /// (`fsync.warningthresholdms`).
    pub fsync_warning: Duration,
    /// Settings for an ensemble; `None` for a standalone server.
    pub cluster: Option<ClusterConfig>,
}

/// Why a node cannot start. Each text includes its cause, so there is no chain to print.
#[derive(Debug, Error)]
pub enum StartError {
    /// The data directory cannot be used.
    #[error("data directory {dir}: {cause}{}", advice(cause, inspect))]
    Storage {
        /// The data directory.
        dir: String,
        /// The command that shows what is damaged.
        inspect: String,
        /// The error of the storage.
        cause: StorageError,
    },
    /// A snapshot's checksums match, but its content is not a state.
    #[error("data directory {dir}: snapshot {name}: {cause}{}", advice_on_image(cause, inspect))]
    Snapshot {
        /// The data directory.
        dir: String,
        /// The command that shows what is damaged.
        inspect: String,
        /// The snapshot's file name.
        name: String,
        /// Why the content is no state.
        cause: RestoreError,
    },
    /// No snapshot that is left reaches to where the log starts.
    #[error(
        "data directory {dir}: no usable snapshot: the log starts after entry {index}; {}",
        look(inspect)
    )]
    NoSnapshot {
        /// The data directory.
        dir: String,
        /// The command that shows what is damaged.
        inspect: String,
        /// The index where the log starts.
        index: u64,
    },
    /// A later version of this program wrote the log.
    #[error("data directory {dir}: {cause}")]
    Unknown {
        /// The data directory.
        dir: String,
        /// The unknown entry, and the version to install.
        cause: UnknownEntry,
    },
    /// The data on disk contradict each other.
    #[error("data directory {dir}: {cause}")]
    Replica {
        /// The data directory.
        dir: String,
        /// The contradiction.
        cause: ReplicaError,
    },
    /// The log is not where the configuration says.
    #[error("data directory {dir}: {cause}")]
    LogPlace {
        /// The data directory.
        dir: String,
        /// Where the log is, and advice.
        cause: String,
    },
    /// The directory is a standalone server's and the configuration is for an ensemble, or the
    /// other way round.
    #[error("data directory {dir}: {cause}")]
    Ensemble {
        /// The data directory.
        dir: String,
        /// The kind of the directory, and advice.
        cause: String,
    },
    /// A server that may only join an ensemble found none (etcd: `bootstrapExistingClusterNoWAL`).
    #[error(
        "cannot fetch cluster info from peer urls: could not retrieve cluster information from the \
         given URLs: none of the servers there has begun, and one that joins an existing cluster \
         begins none"
    )]
    NothingToJoin,
    /// The system refused a thread or the directory.
    #[error("{what}: {cause}")]
    System {
        /// The attempted operation.
        what: String,
        /// The system's error.
        cause: std::io::Error,
    },
}

/// Depth below the data directory down to which files are closed to other users: the files of the
/// log and of the snapshots.
const DATA_DIR_DEPTH: u32 = 2;

/// A running member.
pub struct Node {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    links: Option<PeerSockets>,
    origin: Origin,
    /// The values that Apply shares with the Fronts.
    of_apply: OfApply,
    /// The data directory. Its lock is held as long as the node lives.
    dir: DataDir<RealDisk>,
}

/// The values that Apply shares with the Fronts.
struct OfApply {
    replies: Arc<ReplyRoom>,
    watch_interest: Arc<WatchInterest>,
    command_counts: Arc<CommandCounts>,
}

impl OfApply {
    fn of(apply: &Apply) -> OfApply {
        OfApply {
            replies: apply.replies(),
            watch_interest: apply.watch_interest().clone(),
            command_counts: apply.command_counts().clone(),
        }
    }
}

/// Opens or creates the data directory and starts the threads. Clients may be served once
/// [`Node::wait_ready`] returns. An unborn member of an ensemble waits here for the other servers,
/// for as long as it takes. `listener` is called with the changes of every hold.
///
/// # Errors
/// The node cannot start. The caller ends the process, since some threads may run already.
pub fn start(config: &NodeConfig, listener: ChangeListener) -> Result<Node, StartError> {
    let began = Instant::now();
    let dir_name = config.data_dir.display().to_string();
    let disk = open_disk(config)?;
    let skipped = |error: &RecoveryError| tracing::error!("{error}");
    let (mut recovered, cluster) = match &config.cluster {
        Some(cluster) => {
            let (recovered, cluster) = cluster::join(config, cluster, &disk, skipped)?;
            (recovered, Some(cluster))
        }
        None => {
            let recovered = recover(&disk, &config.drawn, reading(config), skipped)
                .map_err(|error| recovery_error(config, error))?;
            (recovered, None)
        }
    };
    check_ensemble(&recovered, config)
        .map_err(|cause| StartError::Ensemble { dir: dir_name.clone(), cause })?;
    tell_recovered(config, &recovered, began.elapsed());
    let mut startup = Startup {
        snapshot_load_ms: began.elapsed().as_millis() as u64,
        ordinal: recovered.machine.mark().ordinal.0,
        ..Startup::default()
    };
    let mark = recovered.machine.mark();
    let last_snapshot = newest_snapshot_s(&config.data_dir).map(|at_s| (mark, at_s));
    startup.log_apply_ms = replay(&mut recovered);
    let (origin, options) = (recovered.origin, config.member.clone());
    let raft_tick = Duration::from_millis(options.order.raft_tick_ms);
    let (member, apply) =
        member::recovery::start(origin, &recovered.machine, recovered.restored, options)
            .map_err(|cause| StartError::Replica { dir: dir_name.clone(), cause })?;
    let of_apply = OfApply::of(&apply);
    let shared = Arc::new(Shared {
        machine: RwLock::new(recovered.machine),
        main_loop: Mutex::new(LoopRunner::new(member, raft_tick)),
        apply: Mutex::new(ApplyRunner::new(apply, listener)),
        to_loop: Inbox::default(),
        peer_input_bytes: AtomicUsize::new(0),
        to_apply: Inbox::default(),
        to_disk: Inbox::default(),
        to_snapshot: Inbox::default(),
        to_spare: Inbox::default(),
        front_counts: config.fronts,
        fronts: (0..config.fronts.all()).map(|_| Mail::default()).collect(),
        ready: Inbox::default(),
        serving: AtomicBool::new(false),
        started: Instant::now(),
        contact_at_ms: AtomicU64::new(u64::MAX),
        raft_term: AtomicU64::new(0),
        commit_index: AtomicU64::new(0),
        log_synced_ms: AtomicU64::new(0),
        metrics: Mutex::new(NodeMetrics { startup, last_snapshot, ..NodeMetrics::default() }),
        waiters: ImageWaiters::default(),
        disk: disk.clone(),
        data_dir: config.data_dir.clone(),
        fsync_warning: config.fsync_warning,
        peers: cluster.as_ref().map(|it| it.sockets.handle()),
        listed: watch::Sender::new(None),
    });
    let log = LogWriter::new(recovered.wal, ROOM_BYTES_MIN);
    let image = SnapshotWriter::new(disk.clone(), recovered.dir.identity().cluster_id);
    let threads = start_threads(&shared, log, image, disk)
        .map_err(|cause| StartError::System { what: "a thread".to_string(), cause })?;
    let links = cluster.map(|it| {
        it.gate.open(&shared);
        it.sockets
    });
    Ok(Node { shared, threads, links, origin, of_apply, dir: recovered.dir })
}

/// Applies the committed entries that need no decision of Loop or Apply: nearly all in a standalone
/// server, none in an ensemble. Returns how long it took, in ms.
fn replay(recovered: &mut Recovered<RealDisk>) -> u64 {
    let began = Instant::now();
    recovered.replay(together);
    began.elapsed().as_millis() as u64
}

fn open_disk(config: &NodeConfig) -> Result<RealDisk, StartError> {
    let system = |what: &str, dir: &Path| {
        let what = format!("{what} {}", dir.display());
        move |cause| StartError::System { what, cause }
    };
    let data_dir = &config.data_dir;
    let disk = RealDisk::new(data_dir).map_err(system("data directory", data_dir))?;
    check_log_place(data_dir, config.log_dir.as_deref())
        .map_err(|cause| StartError::LogPlace { dir: data_dir.display().to_string(), cause })?;
    let disk = match &config.log_dir {
        Some(log_dir) => disk.with_log(log_dir).map_err(system("log directory", log_dir))?,
        None => disk,
    };
    let exposed = disk.close_to_others(is_own_name, DATA_DIR_DEPTH);
    exposed.iter().for_each(|it| tracing::warn!("{it}"));
    Ok(disk)
}

/// Logs what was found in the data directory, and how long it took to read.
fn tell_recovered(config: &NodeConfig, recovered: &Recovered<RealDisk>, took: Duration) {
    if recovered.is_new {
        let what = if config.cluster.is_none() { ": a new state begins" } else { "" };
        tracing::info!("data directory {} was empty{what}", config.data_dir.display());
    }
    if let Some(cut) = &recovered.cut {
        tracing::warn!(
            "a write that was never acknowledged was cut off the end of the log: {cut:?}"
        );
    }
    if let (Some(last), index) = (recovered.log_ended, recovered.restored.snapshot_index) {
        tracing::error!(
            "the log ends at entry {last}, before the snapshot of entry {index}; the snapshot is \
             used alone"
        );
    }
    tracing::info!(
        "state of log index {} restored in {} ms, {} entries to apply",
        recovered.restored.applied_index,
        took.as_millis(),
        recovered.restored.entries.len()
    );
}

/// How a start reads its data: the snapshot on two threads.
pub(crate) fn reading(config: &NodeConfig) -> Reading {
    let level_max = config.member.order.known.level_max;
    Reading { log: WalOptions::default(), together, level_max }
}

/// Runs two jobs at the same time, the second on its own thread. If the system has no thread to
/// give, runs one after the other.
fn together(first: &mut (dyn FnMut() + Send), second: &mut (dyn FnMut() + Send)) {
    let second = Mutex::new(second);
    std::thread::scope(|scope| {
        let run_second = || (*second.lock())();
        let spawned =
            std::thread::Builder::new().name("restore".into()).spawn_scoped(scope, run_second);
        first();
        match spawned {
            Ok(thread) => {
                if let Err(panic) = thread.join() {
                    std::panic::resume_unwind(panic);
                }
            }
            Err(_) => run_second(),
        }
    });
}

/// When the newest snapshot was written, in s since 1970. Only shown to people.
fn newest_snapshot_s(data_dir: &Path) -> Option<i64> {
    let snapshots = std::fs::read_dir(data_dir.join(storage::snapshot::SNAPSHOT_DIR)).ok()?;
    // Skips the reserved space and a received snapshot.
    let is_snapshot = |name: &OsString| {
        let name = name.to_string_lossy();
        name.ends_with(".snap") && name != storage::snapshot::RECEIVED_NAME
    };
    let found = snapshots.flatten().filter(|entry| is_snapshot(&entry.file_name()));
    let newest = found.max_by_key(|entry| entry.file_name())?;
    let written = newest.metadata().ok()?.modified().ok()?;
    let since = written.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

fn start_threads(
    shared: &Arc<Shared>,
    log: LogWriter<RealDisk>,
    image: SnapshotWriter<RealDisk>,
    disk: RealDisk,
) -> std::io::Result<Vec<JoinHandle<()>>> {
    let on = |shared: &Arc<Shared>| shared.clone();
    let (of_loop, of_apply, of_disk) = (on(shared), on(shared), on(shared));
    let (of_spare, of_snapshot) = (on(shared), on(shared));
    Ok(vec![
        spawn("loop", move || run_loop(&of_loop))?,
        spawn("apply", move || run_apply(&of_apply))?,
        spawn("disk", move || run_disk(&of_disk, log))?,
        spawn("spare", move || run_spare(&of_spare, &disk))?,
        spawn("snapshot", move || run_snapshot(&of_snapshot, image))?,
    ])
}

impl Node {
    /// This member's id, and the number of this boot.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The id of the cluster, drawn at its birth.
    pub fn cluster_id(&self) -> u128 {
        self.dir.identity().cluster_id
    }

    /// Writes the list of servers to the data directory, durably. `text` consists of whole lines.
    ///
    /// # Errors
    /// The list cannot be written.
    pub fn keep_servers(&self, text: &str) -> Result<(), StorageError> {
        self.dir.keep_servers(text)
    }

    /// Replaces the listeners for other servers; the former ones accept links for another
    /// [`crate::limits::DEPARTED_LINKS_STAY`]. Does nothing in a standalone server.
    pub fn listen_to_peers(&self, listeners: Vec<std::net::TcpListener>) {
        if let Some(peers) = &self.shared.peers {
            peers.listen(listeners);
        }
    }

    /// Where news of the list of servers come, each time that a change of it is accepted or has
    /// finished. At a start the list of the state comes first, if it was ever changed.
    pub fn listed(&self) -> watch::Receiver<Option<ListNews>> {
        self.shared.listed.subscribe()
    }

    /// Where the Fronts of etcd clients tell Apply that they watch keys.
    pub fn watch_interest(&self) -> Arc<WatchInterest> {
        self.of_apply.watch_interest.clone()
    }

    /// Counts of commands of etcd v2, which Apply shares with the Fronts of etcd clients.
    pub fn command_counts(&self) -> Arc<CommandCounts> {
        self.of_apply.command_counts.clone()
    }

    /// The count of the bytes of replies in memory, which Apply shares with the Fronts.
    pub fn replies(&self) -> Arc<ReplyRoom> {
        self.of_apply.replies.clone()
    }

    /// A handle for each connection runtime of ZooKeeper clients.
    pub fn zk_fronts(&self) -> Vec<FrontHandle> {
        self.shared.front_counts.zk_fronts().map(|id| self.front(id)).collect()
    }

    /// A handle for each connection runtime of etcd clients.
    pub fn etcd_fronts(&self) -> Vec<FrontHandle> {
        self.shared.front_counts.etcd_fronts().map(|id| self.front(id)).collect()
    }

    fn front(&self, id: FrontId) -> FrontHandle {
        FrontHandle { shared: self.shared.clone(), id }
    }

    /// The links to the other members; `None` in a standalone server.
    pub fn peers(&self) -> Option<&PeerHandle> {
        self.shared.peers.as_ref()
    }

    /// A handle that reads this node's numbers.
    pub fn monitor_handle(&self) -> MonitorHandle {
        MonitorHandle { shared: self.shared.clone() }
    }

    /// Waits until clients may be served. False if that takes longer than `limit`.
    pub fn wait_ready(&self, limit: Duration) -> bool {
        let mut ready = Vec::new();
        self.shared.ready.take(&mut ready, Some(Instant::now() + limit));
        self.shared.serving.store(true, Ordering::Release);
        let ordinal = self.shared.machine.read().mark().ordinal.0;
        let mut metrics = self.shared.metrics.lock();
        let restored = metrics.startup;
        metrics.startup = Startup {
            log_apply_ms: restored.log_apply_ms + self.shared.now_ms(),
            commands_applied: ordinal - restored.ordinal,
            ordinal,
            ..restored
        };
        !ready.is_empty()
    }

    /// Ends the threads after they have done their queued work. Everything acknowledged is on disk
    /// already, and the log records that. A leader first hands leadership to another member, if one
    /// is linked, so that the others need no election timeout.
    pub fn stop(self) {
        self.leave();
        if let Some(links) = self.links {
            links.stop();
        }
        self.shared.to_loop.close();
        self.shared.to_apply.close();
        self.shared.to_snapshot.close();
        self.shared.to_spare.close();
        self.shared.to_disk.close();
        for thread in self.threads {
            // A panic in that thread has ended the process already.
            let _ = thread.join();
        }
    }
}

impl Node {
    /// If this member leads and another can, waits until another member leads.
    fn leave(&self) {
        let deadline = Instant::now() + HAND_OVER_LIMIT;
        let mut is_asked = false;
        while self.shared.ask_loop(|member| member.hand_over(None)) {
            is_asked = true;
            if Instant::now() >= deadline {
                tracing::warn!("no other member has taken over in time");
                return;
            }
            std::thread::sleep(HAND_OVER_LOOK);
        }
        if is_asked {
            tracing::info!("leadership was handed over");
        }
    }
}

/// Refuses a directory of the other kind. In an ensemble, a standalone server's directory would go
/// on serving clients alone. A member's directory in a standalone server would wait for ever for
/// servers that the configuration does not name. Where the list was changed while the ensemble ran,
/// the configuration may be older, and the state decides; so it is where the log has a change of
/// the membership behind the snapshot, since no standalone server's log ever has one.
fn check_ensemble(recovered: &Recovered<RealDisk>, config: &NodeConfig) -> Result<(), String> {
    let membership = &recovered.restored.membership;
    let is_alone = membership.voters == [recovered.origin.member.0];
    let is_changed =
        recovered.machine.control().servers().is_managed() || recovered.has_membership_entries();
    match &config.cluster {
        _ if config.data_dir.join(SERVERS_FILE).is_file() => Ok(()),
        Some(cluster) if is_alone && cluster.voters.len() > 1 && !is_changed => Err(format!(
            "it belongs to a standalone server, and an ensemble of {} is configured: start this \
             server \
             with an empty directory, or alone",
            cluster.voters.len()
        )),
        None if !is_alone => Err(format!(
            "it belongs to a member of an ensemble of {}: name the servers in the configuration \
             (server.N=...)",
            membership.voters.len()
        )),
        _ => Ok(()),
    }
}

/// Checks that the log of a used directory is where the configuration says; a log elsewhere would
/// look lost. A directory counts as the log's if it has segments: the configured log directory may
/// be `wal` in the data directory, and then its log is in `wal/wal`.
fn check_log_place(data_dir: &Path, log_dir: Option<&Path>) -> Result<(), String> {
    let beside = data_dir.join(WAL_DIR);
    if let Some(log_dir) = log_dir {
        let theirs = log_dir.join("version-2");
        if theirs.is_dir() && !log_dir.join(WAL_DIR).is_dir() {
            return Err(format!("{} is of ZooKeeper's", theirs.display()));
        }
        let is_same = log_dir.canonicalize().ok() == data_dir.canonicalize().ok();
        if holds_log(&beside) && !is_same {
            let (beside, log_dir) = (beside.display(), log_dir.display());
            return Err(format!(
                "its log is in {beside}, and a log directory {log_dir} is configured: move \
                 {beside} \
                 to {log_dir}/{WAL_DIR}, or configure none"
            ));
        }
    }
    let expected = log_dir.unwrap_or(data_dir).join(WAL_DIR);
    if data_dir.join(IDENTITY_FILE).is_file() && !holds_log(&expected) {
        let expected = expected.display();
        return Err(format!(
            "there is no log in {expected}: was another log directory configured?"
        ));
    }
    Ok(())
}

/// Whether a directory holds a segment of a log.
fn holds_log(dir: &Path) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_str().is_some_and(is_log_name))
}

pub(crate) fn recovery_error(config: &NodeConfig, error: RecoveryError) -> StartError {
    let dir = config.data_dir.display().to_string();
    let inspect = match &config.log_dir {
        Some(log_dir) => format!("quorate inspect --log-dir {} {dir}", log_dir.display()),
        None => format!("quorate inspect {dir}"),
    };
    match error {
        RecoveryError::Storage(cause) => StartError::Storage { dir, inspect, cause },
        RecoveryError::Snapshot { name, cause } => {
            StartError::Snapshot { dir, inspect, name, cause }
        }
        RecoveryError::NoSnapshot { index } => StartError::NoSnapshot { dir, inspect, index },
        RecoveryError::Unknown(cause) => StartError::Unknown { dir, cause },
    }
}

/// Advice to run `inspect`, if that helps with this error.
fn advice(cause: &StorageError, inspect: &str) -> String {
    match cause {
        StorageError::Corrupt { .. } => format!("; {}", look(inspect)),
        _ => String::new(),
    }
}

/// Advice to run `inspect` after an error in a snapshot's content, if that helps.
fn advice_on_image(cause: &RestoreError, inspect: &str) -> String {
    if cause.is_of_another_version() { String::new() } else { format!("; {}", look(inspect)) }
}

fn look(inspect: &str) -> String {
    format!("run `{inspect}` to see what is damaged")
}

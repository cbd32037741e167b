//! Opening a data directory, recovering what it holds, and starting the threads.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use machine::freeze::{FreezeStep, RestoreError};
use machine::{BootId, LogIndex, Machine, MemberId, Origin, Settings};
use member::main_loop::to_restored;
use member::message::{FrontId, ReplicaError, Start};
use member::recovery::{RecoveryError, restore_newest, sessions};
use member::{Apply, Loop};
use parking_lot::RwLock;
use storage::StorageError;
use storage::datadir::{self, DataDir, EmptyDir, Identity, Opened};
use storage::disk::RealDisk;
use storage::wal::{Membership, Wal, WalOptions};
use thiserror::Error;

use crate::queue::{Inbox, Mail};
use crate::threads::{
    FrontHandle, Shared, run_apply, run_disk, run_loop, run_snapshot, run_spare, spawn,
};

/// Snapshots that are kept, the newest included.
const SNAPSHOTS_KEPT: usize = 2;

/// What a node is told.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Where everything is kept.
    pub data_dir: PathBuf,
    /// Connection runtimes.
    pub front_count: u32,
    /// Unpredictable: ids of a new data directory are drawn from it.
    pub secret: [u8; 32],
    /// What the replicated settings are to be.
    pub settings: Settings,
    /// `tickTime`.
    pub tick_ms: u64,
    /// `snapCount`.
    pub snapshot_commands: u64,
    /// Log bytes after which a snapshot is taken, if not the default.
    pub snapshot_log_bytes: Option<u64>,
}

/// Why a node cannot start. Each says its cause itself: there is no chain to print.
#[derive(Debug, Error)]
pub enum StartError {
    /// The data directory cannot be used.
    #[error("data directory {dir}: {cause}{}", advice(cause, dir))]
    Storage {
        /// Which.
        dir: String,
        /// Why.
        cause: StorageError,
    },
    /// A snapshot passed its checksums but is not a state.
    #[error("data directory {dir}: snapshot {name}: {cause}; {}", look(dir))]
    Snapshot {
        /// Which directory.
        dir: String,
        /// Which file.
        name: String,
        /// Why.
        cause: RestoreError,
    },
    /// There is no snapshot that the log goes on from.
    #[error(
        "data directory {dir}: no usable snapshot: the log starts behind entry {index}; {}",
        look(dir)
    )]
    NoSnapshot {
        /// Which directory.
        dir: String,
        /// Where the log starts.
        index: u64,
    },
    /// What the disk holds contradicts itself.
    #[error("data directory {dir}: {cause}")]
    Replica {
        /// Which directory.
        dir: String,
        /// Why.
        cause: ReplicaError,
    },
    /// The system refuses a thread or the directory.
    #[error("{what}: {cause}")]
    System {
        /// What was tried.
        what: String,
        /// Why not.
        cause: std::io::Error,
    },
}

/// A running member.
pub struct Node {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    origin: Origin,
    /// Held as long as the node lives.
    _dir: DataDir<RealDisk>,
}

/// What was found in the data directory.
struct Recovered {
    dir: DataDir<RealDisk>,
    wal: Wal<RealDisk>,
    machine: Machine,
    restored: member::message::Restored,
    log_bytes: u64,
}

/// Opens or makes the data directory and starts the threads. Clients may be served once
/// [`Node::wait_ready`] returns.
///
/// # Errors
/// Nothing is started then.
pub fn start(config: &NodeConfig) -> Result<Node, StartError> {
    let began = Instant::now();
    let disk = RealDisk::new(&config.data_dir).map_err(|cause| StartError::System {
        what: format!("data directory {}", config.data_dir.display()),
        cause,
    })?;
    let dir_name = config.data_dir.display().to_string();
    let recovered = recover(&disk, config, &dir_name)?;
    let identity = recovered.dir.identity();
    let boot = recovered.dir.next_boot().map_err(|source| storage_error(&dir_name, source))?;
    let origin = Origin { member: MemberId(identity.member_id), boot: BootId(boot) };
    let index = LogIndex(recovered.restored.applied_index);
    let term = recovered.restored.snapshot_term;
    let restored_ms = began.elapsed().as_millis();
    tracing::info!(
        "state of log index {} restored in {restored_ms} ms, {} entries to apply",
        index.0,
        recovered.restored.entries.len()
    );
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
    .map_err(|cause| StartError::Replica { dir: dir_name.clone(), cause })?;
    let apply = Apply::new(origin, index, term);
    let shared = Arc::new(Shared {
        machine: RwLock::new(recovered.machine),
        to_loop: Inbox::default(),
        to_apply: Inbox::default(),
        to_disk: Inbox::default(),
        to_snapshot: Inbox::default(),
        to_spare: Inbox::default(),
        fronts: (0..config.front_count).map(|_| Mail::default()).collect(),
        ready: Inbox::default(),
        serving: AtomicBool::new(false),
        started: Instant::now(),
    });
    let threads = start_threads(&shared, member, apply, recovered.wal, &disk, identity)
        .map_err(|cause| StartError::System { what: "a thread".to_string(), cause })?;
    Ok(Node { shared, threads, origin, _dir: recovered.dir })
}

fn start_threads(
    shared: &Arc<Shared>,
    member: Loop,
    apply: Apply,
    wal: Wal<RealDisk>,
    disk: &RealDisk,
    identity: Identity,
) -> std::io::Result<Vec<JoinHandle<()>>> {
    let on = |shared: &Arc<Shared>| shared.clone();
    let (of_loop, of_apply, of_disk) = (on(shared), on(shared), on(shared));
    let (of_spare, of_snapshot) = (on(shared), on(shared));
    let (spare_disk, snapshot_disk) = (disk.clone(), disk.clone());
    Ok(vec![
        spawn("loop", move || run_loop(&of_loop, member))?,
        spawn("apply", move || run_apply(&of_apply, apply))?,
        spawn("disk", move || run_disk(&of_disk, wal))?,
        spawn("spare", move || run_spare(&of_spare, &spare_disk))?,
        spawn("snapshot", move || {
            run_snapshot(&of_snapshot, &snapshot_disk, identity.cluster_id, SNAPSHOTS_KEPT);
        })?,
    ])
}

impl Node {
    /// Which member and which start of it this is.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// What each connection runtime needs.
    pub fn front_handles(&self) -> Vec<FrontHandle> {
        (0..self.shared.fronts.len() as u32)
            .map(|id| FrontHandle { shared: self.shared.clone(), id: FrontId(id) })
            .collect()
    }

    /// Waits until clients may be served. False if that takes longer than `limit`.
    pub fn wait_ready(&self, limit: Duration) -> bool {
        let mut ready = Vec::new();
        self.shared.ready.take(&mut ready, Some(Instant::now() + limit));
        self.shared.serving.store(true, Ordering::Release);
        !ready.is_empty()
    }

    /// Ends the threads after what they have been handed: everything acknowledged is on disk
    /// already, and the log says so.
    pub fn stop(self) {
        self.shared.to_loop.close();
        self.shared.to_apply.close();
        self.shared.to_snapshot.close();
        self.shared.to_spare.close();
        self.shared.to_disk.close();
        for thread in self.threads {
            // A panic there has ended the process already.
            let _ = thread.join();
        }
    }
}

fn recover(disk: &RealDisk, config: &NodeConfig, dir: &str) -> Result<Recovered, StartError> {
    let fail = |source| storage_error(dir, source);
    let opened = datadir::open(disk.clone()).map_err(fail)?;
    let data_dir = match opened {
        Opened::Existing(found) => found,
        Opened::Empty(empty) => {
            tracing::info!("data directory {dir} is empty: a new state begins");
            give_birth(empty, config).map_err(fail)?
        }
    };
    let (wal, log) = Wal::open(disk.clone(), WalOptions::default()).map_err(fail)?;
    if let Some(cut) = &log.cut {
        tracing::warn!("a write that was never acknowledged was cut off the log: {cut:?}");
    }
    let (meta, machine) =
        restore_newest(disk, log.snapshot.index, |error| tracing::error!("{error}"))
            .map_err(|error| recovery_error(dir, error))?;
    let entries: Vec<_> =
        log.entries.into_iter().filter(|entry| entry.index > meta.index).collect();
    let log_bytes = entries.iter().map(|entry| entry.payload.len() as u64).sum();
    let snapshot = storage::wal::SnapshotPoint { index: meta.index, term: meta.term };
    let restored = to_restored(log.hard_state, meta.membership, snapshot, entries);
    Ok(Recovered { dir: data_dir, wal, machine, restored, log_bytes })
}

/// A new directory: an ensemble of one, with ids that no other directory has.
fn give_birth(
    empty: EmptyDir<RealDisk>,
    config: &NodeConfig,
) -> Result<DataDir<RealDisk>, StorageError> {
    let (cluster, rest) = config.secret.split_at(16);
    let cluster_id = u128::from_le_bytes(cluster.try_into().expect("16 bytes were split off"));
    let member_id = u64::from_le_bytes(rest[..8].try_into().expect("16 bytes are left"));
    // 0 means nobody.
    let identity = Identity { cluster_id, member_id: member_id.max(1) };
    let membership = Membership { voters: vec![identity.member_id], ..Membership::default() };
    let mut machine = Machine::default();
    let index = machine.freeze();
    assert!(index == LogIndex(datadir::BIRTH_POINT.index));
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
    empty.birth(identity, &membership, &pieces, &WalOptions::default())
}

fn recovery_error(dir: &str, error: RecoveryError) -> StartError {
    let dir = dir.to_string();
    match error {
        RecoveryError::Storage(cause) => StartError::Storage { dir, cause },
        RecoveryError::Snapshot { name, cause } => StartError::Snapshot { dir, name, cause },
        RecoveryError::NoSnapshot { index } => StartError::NoSnapshot { dir, index },
    }
}

fn storage_error(dir: &str, cause: StorageError) -> StartError {
    StartError::Storage { dir: dir.to_string(), cause }
}

/// The command to run next, where there is one.
fn advice(cause: &StorageError, dir: &str) -> String {
    match cause {
        StorageError::Corrupt { .. } => format!("; {}", look(dir)),
        _ => String::new(),
    }
}

fn look(dir: &str) -> String {
    format!("run `quorate inspect {dir}` to see what is damaged")
}

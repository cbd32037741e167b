//! The chunk face: serves clients of Apache Ozone's datanodes over gRPC. This module has the
//! sockets and threads; the crate `grpc` speaks gRPC, and `chunk::wire` executes requests.
//!
//! The store blocks while it waits for its disk. So this face has its own threads, and no thread
//! that serves ZooKeeper clients ever waits for the store. A few threads run a current-thread
//! runtime each, and a connection stays with one of them. A request that need not wait (most often
//! a buffered write of a small chunk) is executed on the thread that read it. All other requests go
//! to a pool of threads that may block. Requests that wait there for a sync at the same time share
//! one sync.
//!
//! The gRPC service has a single method. Its stream carries any number of requests, one after
//! another.

mod admission;
mod limits;
mod log_disk;
mod metrics;
mod opening;
mod service;
mod stream;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Instant;

use anyhow::Context;
use chunk::ChunkError;
use chunk::limits::OPEN_FILES_MAX_DEFAULT;
use chunk::store::{Store, StoreOptions, UpkeepBudget};
use chunk::wire::{Handler, HandlerOptions};
use config::{ChunkConfig, StorageConfig};
use grpc::{Call, Methods, Share, SharesBySize};
use node::MonitorHandle;
use storage::disk::RealDisk;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{Semaphore, mpsc};
use tokio_rustls::TlsAcceptor;

use crate::client_tls::Tls;
use crate::connections::{self, Connections, Face, Held};
use crate::descriptors;
use admission::{Addresses, Admission};
use limits::{
    ACCEPT_PAUSE, ACCEPTED_MAX, CONNECTION_SHARE, FREE_BYTES_MIN_DEFAULT, HANDSHAKE_TIME_MAX,
    KEEP_ALIVE_TIME, Limits, NICE, RUNTIMES_MAX, SCRUB_PAUSE, STOP_TIME_MAX, STREAM_WINDOW_BYTES,
    TICK, UNTAKEN_TIME_MAX, UPKEEP_BUDGET, UPKEEP_INTERVAL, UPKEEP_PAUSE, WAITING_THREADS_MAX,
};
use log_disk::LogDisk;
use metrics::Counts;
use service::{ChunkConnection, METHODS, Service};

pub use metrics::ChunkMetrics;
pub use opening::Chunks;

/// The folder of the chunk store in the data directory, unless another place is configured.
pub const CHUNKS_DIR: &str = "chunks";

/// The chunk face while it serves: its store and threads.
pub struct ChunkFace {
    service: Arc<Service>,
    /// The mailbox of each runtime for new connections. A runtime ends when its mailbox is dropped.
    runtimes: Vec<mpsc::Sender<Accepted>>,
    /// Dropping these two senders ends the thread that ticks and the one that does background work.
    tickers: [SyncSender<()>; 2],
    threads: Vec<JoinHandle<()>>,
    connections: Arc<Semaphore>,
}

/// An accepted connection on its way to a runtime. It is not yet registered with any reactor.
struct Accepted {
    stream: std::net::TcpStream,
    peer: SocketAddr,
    admission: Admission,
    tls: Option<Arc<Tls>>,
}

/// Opens the store and starts the threads that serve it. Returns once the store has read its data.
///
/// # Errors
/// The store cannot be opened, or a thread cannot be started.
pub fn start(
    config: &ChunkConfig,
    storage: &StorageConfig,
    node: MonitorHandle,
) -> anyhow::Result<ChunkFace> {
    let log = |folder: &Path| {
        let log_dir = storage.log_dir.as_deref().unwrap_or(&storage.data_dir);
        LogDisk::shared_with(node, log_dir, folder)
    };
    start_within(config, &storage.data_dir, Limits::default(), log)
}

fn start_within(
    config: &ChunkConfig,
    data_dir: &Path,
    limits: Limits,
    log_disk: impl FnOnce(&Path) -> Option<LogDisk>,
) -> anyhow::Result<ChunkFace> {
    let folder = store_dir(config, data_dir);
    let shown = folder.display();
    let disk = RealDisk::new(&folder).with_context(|| format!("{shown}"))?;
    let options = StoreOptions {
        layout: config.layout,
        verify_writes: config.verify_writes,
        bytes_max: config.bytes_max,
        free_bytes_min: free_bytes_min(config, &folder)?,
        open_files_max: open_files_max(),
        ..StoreOptions::default()
    };
    let store = Store::open(disk.clone(), options).with_context(|| format!("{shown}"))?;
    // The data directory already keeps other users out of a folder in it. A configured folder
    // belongs to the store as a whole, so here other users are kept out of all of it.
    if config.dir.is_some() {
        disk.close_to_others(|_| true, 1).iter().for_each(|it| tracing::warn!("{it}"));
    }
    tell_damage(&store, &folder);
    let service = Arc::new(Service {
        handler: Handler::new(store, HandlerOptions::default()),
        requests: Share::new(limits.requests_bytes),
        answers: Share::new(limits.answers_bytes),
        grpc: grpc::Server {
            methods: Methods::new(METHODS, false),
            limits: Arc::new(limits.grpc()),
            long_headers: Arc::new(Semaphore::new(grpc::LONG_HEADERS_MAX)),
            // This face's methods read no header.
            metadata_bytes: Arc::new(Semaphore::new(0)),
            windows: Arc::new(Semaphore::new(limits.windows_bytes / STREAM_WINDOW_BYTES as usize)),
            credits: None,
        },
        addresses: Arc::new(Addresses::new(config.connections_per_ip_max, &limits)),
        limits,
        counts: Counts::default(),
        log: log_disk(&folder),
    });
    let ((ticker, ticks), (upkeeper, upkeep_ticks)) = (sync_channel(0), sync_channel(0));
    let (ticking, kept_up) = (service.clone(), service.clone());
    let named = |name: &str| std::thread::Builder::new().name(name.to_string());
    let mut threads = vec![
        named("chunk-tick").spawn(move || tick(&ticking, &ticks))?,
        named("chunk-upkeep").spawn(move || keep_up(&kept_up, &upkeep_ticks))?,
    ];
    let mut runtimes = Vec::new();
    let cores = std::thread::available_parallelism().map_or(1, |count| count.get());
    for number in 0..cores.min(RUNTIMES_MAX) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(WAITING_THREADS_MAX)
            .on_thread_start(step_back)
            .thread_name(format!("chunk-wait-{number}"))
            .build()?;
        let (sender, accepted) = mpsc::channel(ACCEPTED_MAX);
        let service = service.clone();
        let thread = std::thread::Builder::new().name(format!("chunk-{number}"));
        threads.push(thread.spawn(move || run(runtime, &service, accepted))?);
        runtimes.push(sender);
    }
    let connections = Arc::new(Semaphore::new(connections_max(config)));
    let tickers = [ticker, upkeeper];
    Ok(ChunkFace { service, runtimes, tickers, threads, connections })
}

/// How many connections may be served at the same time.
fn connections_max(config: &ChunkConfig) -> usize {
    let count = match config.connections_max {
        0 => usize::try_from(descriptors::for_connections()).unwrap_or(usize::MAX),
        some => some,
    };
    count.min(Semaphore::MAX_PERMITS)
}

/// The folder of the store: the configured one, or else [`CHUNKS_DIR`] in the data directory.
fn store_dir(config: &ChunkConfig, data_dir: &Path) -> PathBuf {
    config.dir.clone().unwrap_or_else(|| data_dir.join(CHUNKS_DIR))
}

/// How many bytes the store leaves free on its disk: the configured number. By default 0 for a
/// folder of its own. In the data directory a twentieth of the disk, but at most
/// [`FREE_BYTES_MIN_DEFAULT`], so that chunks never fill the disk that the log and the snapshots
/// need.
fn free_bytes_min(config: &ChunkConfig, folder: &Path) -> anyhow::Result<u64> {
    if let Some(bytes) = config.free_bytes_min {
        return Ok(bytes);
    }
    if config.dir.is_some() {
        return Ok(0);
    }
    let found = rustix::fs::statvfs(folder).with_context(|| folder.display().to_string())?;
    let bytes = found.f_blocks.saturating_mul(found.f_frsize);
    Ok((bytes / 20).min(FREE_BYTES_MIN_DEFAULT))
}

/// Logs the damage that the store found when it was opened, now or at an earlier start.
fn tell_damage(store: &Store<RealDisk>, folder: &Path) {
    let shown = folder.display();
    for damage in store.damage() {
        tracing::error!("{shown}: {damage}");
    }
    for noted in store.noted_damage() {
        tracing::error!("{shown}: found at an earlier start: {noted}");
    }
    if let Some(cut) = store.cut() {
        tracing::warn!("{shown}: {cut}");
    }
    if store.is_damaged() {
        tracing::error!(
            "{shown}: no data is removed, and no space freed, until the damage is accepted: \
             quorate inspect --repair"
        );
    }
}

/// How many descriptors the store's open files may use.
pub fn descriptors_of_files() -> usize {
    2 * open_files_max()
}

/// How many files the store keeps open. A file uses up to two descriptors, and half of all
/// descriptors are for connections.
fn open_files_max() -> usize {
    let descriptors = descriptors::limit();
    OPEN_FILES_MAX_DEFAULT.min(usize::try_from(descriptors / 4).unwrap_or(usize::MAX))
}

impl ChunkFace {
    /// A handle that lets the monitor read the face's metrics.
    pub fn metrics(&self) -> ChunkMetrics {
        ChunkMetrics(self.service.clone())
    }

    /// Whether the store takes writes, and a line for the health probe. A damaged store that still
    /// works counts as healthy; its line says so.
    fn health(&self) -> (bool, String) {
        let store = &self.service.handler.store;
        match store.check() {
            Err(error) => (false, format!("{error}\n")),
            Ok(()) if store.is_damaged() => {
                (true, "served, and damaged: see quorate inspect\n".to_string())
            }
            Ok(()) => (true, "served\n".to_string()),
        }
    }

    /// Accepts connections, with TLS if `tls` is given, and hands them to the runtimes in turn.
    /// Ends when the future is dropped.
    pub async fn accept(
        &self,
        listener: TcpListener,
        tls: Option<Arc<Tls>>,
        connections: &Arc<Connections>,
    ) {
        let mut next = 0;
        loop {
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Most likely the process has no descriptor left; a later attempt may succeed.
                    connections::log_not_accepted(Face::Chunks, &error);
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(held) = connections.admit(Face::Chunks, &stream, peer) else {
                self.service.counts.refused_connection();
                continue;
            };
            if let Err(why) = self.admit((stream, held), peer, &tls, &mut next).await {
                self.service.counts.refused_connection();
                connections::log_closed(peer.ip().to_canonical(), &why);
            }
        }
    }

    async fn admit(
        &self,
        (stream, held): (TcpStream, Held),
        peer: SocketAddr,
        tls: &Option<Arc<Tls>>,
        next: &mut usize,
    ) -> Result<(), &'static str> {
        let mut admission = Addresses::admit(&self.service.addresses, peer.ip())
            .ok_or("it has as many connections as it may (chunk_connections_per_ip_max)")?;
        // At the limit this waits for a connection to end, and later ones wait behind it in the
        // backlog.
        admission.held = Some(held);
        admission.among_all = self.connections.clone().acquire_owned().await.ok();
        let stream = stream.into_std().map_err(|_| "it cannot be handed on")?;
        *next = (*next + 1) % self.runtimes.len();
        let accepted = Accepted { stream, peer, admission, tls: tls.clone() };
        self.runtimes[*next].send(accepted).await.map_err(|_| "the server ends")
    }

    /// Closes all connections, lets requests under way finish, syncs the store, and writes a
    /// checkpoint so that the next start has less to read.
    ///
    /// # Errors
    /// The store cannot be synced, or the checkpoint cannot be written.
    pub fn stop(self) -> anyhow::Result<()> {
        drop((self.runtimes, self.tickers));
        for thread in self.threads {
            // This fails only if the thread panicked, and a panic ends the process.
            let _ = thread.join();
        }
        let store = &self.service.handler.store;
        store.sync().context("the chunk store cannot be synced")?;
        store.checkpoint().context("the index of the chunk store cannot be written")
    }
}

/// Calls the store's `tick` every [`TICK`] until the face stops. Logs the first of several failures
/// in a row.
fn tick(service: &Service, ticks: &Receiver<()>) {
    step_back();
    let mut was_told = false;
    while ticks.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        let done = service.handler.store.tick();
        if let (Err(error), false) = (&done, was_told) {
            tracing::error!("chunk store: {error}");
        }
        was_told = done.is_err();
    }
}

/// Does the store's background work, which frees space and searches for damage, until the face or
/// the store stops. If work fails, it pauses before the next attempt, and logs the failure unless
/// it is the same as the last.
fn keep_up(service: &Service, ticks: &Receiver<()>) {
    step_back();
    let store = &service.handler.store;
    let mut scrubbed_at: Option<Instant> = None;
    let mut failure = None;
    let interval = |failure: &Option<String>| match failure {
        None => UPKEEP_INTERVAL,
        Some(_) => UPKEEP_PAUSE,
    };
    while ticks.recv_timeout(interval(&failure)) == Err(RecvTimeoutError::Timeout) {
        let rests = scrubbed_at.is_some_and(|at| at.elapsed() < SCRUB_PAUSE);
        let bytes_scrubbed_max = if rests { 0 } else { UPKEEP_BUDGET.bytes_scrubbed_max };
        let done = match store.upkeep(UpkeepBudget { bytes_scrubbed_max, ..UPKEEP_BUDGET }) {
            Ok(done) => done,
            Err(error) if is_final(&error) => {
                tracing::error!("chunk store: the background work has stopped: {error}");
                return;
            }
            Err(error) => {
                let text = error.to_string();
                if failure.as_ref() != Some(&text) {
                    tracing::error!("chunk store: the background work is tried again: {text}");
                }
                failure = Some(text);
                continue;
            }
        };
        failure = None;
        service.counts.damaged(done.damaged.len());
        for (id, what) in &done.damaged {
            let (container_id, local_id) = (id.container_id, id.local_id);
            tracing::error!(container_id, local_id, "a block is damaged: {what}");
        }
        if done.is_scrubbed_whole {
            scrubbed_at = Some(Instant::now());
        }
    }
}

/// Whether all background work will fail until the store is opened again. Other failures may pass:
/// room or a descriptor may become free, or only one file is damaged.
fn is_final(error: &ChunkError) -> bool {
    matches!(error, ChunkError::Stopped(_))
}

/// Lowers the priority of this thread below the server's other threads: otherwise, with too little
/// CPU for all, a create in ZooKeeper would wait while a chunk is copied. On Linux each thread has
/// its own niceness.
fn step_back() {
    // If this fails, only the priorities are wrong.
    let _ = rustix::process::nice(NICE);
}

/// Serves one runtime's connections until its mailbox is closed.
fn run(runtime: Runtime, service: &Arc<Service>, mut accepted: mpsc::Receiver<Accepted>) {
    step_back();
    runtime.block_on(async {
        while let Some(accepted) = accepted.recv().await {
            let service = service.clone();
            tokio::spawn(async move {
                let peer = accepted.peer;
                if let Err(error) = serve_connection(accepted, service).await {
                    tracing::debug!("{peer}: {error}");
                }
            });
        }
    });
    runtime.shutdown_timeout(STOP_TIME_MAX);
}

async fn serve_connection(accepted: Accepted, service: Arc<Service>) -> anyhow::Result<()> {
    let Accepted { stream, peer, admission, tls } = accepted;
    rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
    rustix::net::sockopt::set_tcp_keepidle(&stream, KEEP_ALIVE_TIME)?;
    rustix::net::sockopt::set_tcp_user_timeout(&stream, UNTAKEN_TIME_MAX.as_millis() as u32)?;
    let stream = TcpStream::from_std(stream)?;
    stream.set_nodelay(true)?;
    let of_connection = |bytes: usize| Share::new(bytes / CONNECTION_SHARE);
    let (of_address, limits) = (&admission.shares, &service.limits);
    let requests = Arc::new([
        of_connection(limits.requests_bytes),
        of_address.requests.clone(),
        service.requests.clone(),
    ]);
    let answers = Arc::new([
        of_connection(limits.answers_bytes),
        of_address.answers.clone(),
        service.answers.clone(),
    ]);
    let client = Arc::new(ChunkConnection { service: service.clone(), answers });
    let handle = |call: Box<Call<()>>| {
        let client = client.clone();
        tokio::spawn(async move { stream::serve(&client, call).await });
    };
    let requests = SharesBySize::of_all_sizes(requests);
    let Some(tls) = tls else {
        return Ok(grpc::serve(stream, &service.grpc, &requests, handle).await?);
    };
    let Some(handshake) = tls.begin_handshake() else { return Ok(()) };
    let shaken = TlsAcceptor::from(tls.current_of_chunks()).accept(stream);
    match tokio::time::timeout(HANDSHAKE_TIME_MAX, shaken).await? {
        Ok(stream) => {
            handshake.succeed();
            Ok(grpc::serve(stream, &service.grpc, &requests, handle).await?)
        }
        Err(error) => {
            tls.log_refusal(&peer.to_string(), &error.to_string());
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests;

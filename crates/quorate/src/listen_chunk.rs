//! The chunk face: clients of Apache Ozone's datanodes, over gRPC. Sockets and HTTP/2 are here;
//! what a request means is in `chunk::wire`.
//!
//! A store waits for its disk, so this face has threads of its own, and none of those that serve
//! ZooKeeper's clients ever waits for it. There are a few, each with a current-thread runtime, and
//! a connection stays with one of them: a request that waits for nothing (a buffered write of a
//! small chunk, most of all) is done right where it was read, without a hop to another thread. All
//! others go to a pool of threads that may wait, where those that need a sync share one.
//!
//! HTTP/2 is spoken by `h2`, without tonic in between: the service has one method, which is a loop
//! over a stream, and tonic reads a whole message before anybody is asked whether there is room for
//! it. CPU does not decide: a WriteChunk of 1 KiB takes 26 to 36 us here and 29 to 35 with tonic
//! (four runs each, in turns; one client with 16 threads, a store in memory).

mod grpc;
mod metrics;
mod stream;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use chunk::limits::{OPEN_FILES_MAX_DEFAULT, REQUEST_BYTES_MAX};
use chunk::store::{Store, StoreOptions, UpkeepBudget};
use chunk::wire::{Handler, HandlerOptions};
use storage::disk::RealDisk;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::config::ChunkConfig;
use crate::descriptors;
use metrics::Counts;

pub use metrics::ChunkMetrics;

/// Where the store is, below the data directory.
pub const CHUNKS_DIR: &str = "chunks";

/// Threads that read from sockets. Beyond, the disk is the limit.
const RUNTIMES_MAX: usize = 4;

/// Threads of each runtime that may wait for the disk. More requests than that wait for one.
const WAITING_THREADS_MAX: usize = 64;

/// Connections in all. One more waits in the kernel's backlog.
const CONNECTIONS_MAX: usize = 1_024;

/// Connections accepted and not yet taken by their runtime. Then the acceptor waits.
const ACCEPTED_MAX: usize = 64;

/// Streams of one connection: requests that a client has under way. It is told, and waits with one
/// more; a client that does not is refused that stream.
const STREAMS_MAX: u32 = 256;

/// Bytes that a client may send on a stream before we take them. Java's clients send no more than
/// 16 KiB at once if not told otherwise; a chunk of 4 MiB would take 256 frames.
const STREAM_WINDOW_BYTES: u32 = 256 * 1024;

/// Bytes that a client may send on a connection before we take them: enough for all its streams, as
/// one that waits for room must not keep the others from going on.
const CONNECTION_WINDOW_BYTES: u32 = STREAMS_MAX * STREAM_WINDOW_BYTES;

/// Bytes of one frame.
const FRAME_BYTES_MAX: u32 = STREAM_WINDOW_BYTES;

/// Bytes of the headers of a request. Beyond, it is refused.
const HEADER_BYTES_MAX: u32 = 8 * 1024;

/// Bytes that wait on a stream for a client to take them. Then we wait.
const SEND_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of all requests that have begun to arrive and are not done. One more waits until there is
/// room for it as a whole.
const REQUESTS_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Bytes of all answers that are read or sent. A request whose answer has no room waits.
const ANSWERS_BYTES_MAX: usize = 512 * 1024 * 1024;

/// How long a client may take to say that it speaks HTTP/2.
const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a client may take from the first byte of a request to the last, and how long to take
/// anything of an answer that waits for it. Then the stream is reset, and its memory free.
const STALL_TIME_MAX: Duration = Duration::from_secs(60);

/// How often a connection without streams is looked at, and closed if there were none since: the
/// next look comes before the 15 minutes after which Ozone's datanode does.
const IDLE_TIME: Duration = Duration::from_secs(7 * 60);

/// After so long without a packet the kernel asks whether a client is still there.
const KEEP_ALIVE_TIME: Duration = Duration::from_secs(5 * 60);

/// How long no connection is accepted after one could not be.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often the store writes out what it gathered.
const TICK: Duration = Duration::from_millis(100);

/// How often there is a piece of the store's background work.
const UPKEEP_INTERVAL: Duration = Duration::from_millis(100);

/// The bytes of one such piece: 20 MB/s to give space back, and 5 MB/s to find damage, as Ozone's
/// scanner of data takes of a volume.
const UPKEEP_BUDGET: UpkeepBudget =
    UpkeepBudget { bytes_moved_max: 2 * 1024 * 1024, bytes_scrubbed_max: 512 * 1024 };

/// How long nothing is read to find damage after all was read.
const SCRUB_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

/// How long requests may still take when the server ends.
const STOP_TIME_MAX: Duration = Duration::from_secs(5);

/// How often a failure of the store is told, at most.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

const _: () = assert!(REQUEST_BYTES_MAX < REQUESTS_BYTES_MAX);
const _: () = assert!(chunk::limits::ANSWER_BYTES_MAX < ANSWERS_BYTES_MAX);

/// What the threads of the face share.
struct Service {
    handler: Handler<RealDisk>,
    /// Room for requests, in units of [`Budget::UNIT_BYTES`].
    requests: Budget,
    answers: Budget,
    failures: Failures,
    counts: Counts,
}

/// Memory that is shared by all, first come, first served.
struct Budget(Arc<Semaphore>);

impl Budget {
    /// Small enough for small requests, and large enough for the semaphore to count.
    const UNIT_BYTES: usize = 1024;

    fn new(bytes: usize) -> Budget {
        Budget(Arc::new(Semaphore::new(bytes / Budget::UNIT_BYTES)))
    }

    /// Waits for room for so many bytes, which must not be more than there are. It is free again
    /// when the result is dropped.
    async fn take(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let units = u32::try_from(bytes.div_ceil(Budget::UNIT_BYTES)).unwrap_or(u32::MAX);
        self.0.clone().acquire_many_owned(units).await.ok()
    }
}

/// What the store could not do for reasons of its own. Each is told its client; people are told of
/// one a second, and of how many they were not told.
#[derive(Default)]
struct Failures(Mutex<(Option<Instant>, u64)>);

impl Failures {
    fn report(&self, what: &str) {
        let now = Instant::now();
        let mut told = self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let (told_at, not_told) = &mut *told;
        if told_at.is_some_and(|at| now.duration_since(at) < REPORT_INTERVAL) {
            *not_told += 1;
            return;
        }
        *told_at = Some(now);
        match std::mem::take(not_told) {
            0 => tracing::warn!("chunk store: {what}"),
            count => tracing::warn!("chunk store: {what}; {count} others since the last"),
        }
    }
}

/// The face, running.
pub struct ChunkFace {
    service: Arc<Service>,
    /// The runtimes' mailboxes. Without them they end.
    runtimes: Vec<mpsc::Sender<Accepted>>,
    /// Dropped, they end the ticking and the work in the background.
    tickers: [SyncSender<()>; 2],
    threads: Vec<JoinHandle<()>>,
    connections: Arc<Semaphore>,
}

/// A connection, known to no reactor yet, and its admission.
type Accepted = (std::net::TcpStream, SocketAddr, OwnedSemaphorePermit);

/// Opens the store below the data directory and starts the threads that serve it. Takes as long as
/// the store needs to read what it has.
///
/// # Errors
/// The store cannot be opened, or a thread cannot be made.
pub fn start(config: &ChunkConfig, data_dir: &Path) -> anyhow::Result<ChunkFace> {
    let folder = data_dir.join(CHUNKS_DIR);
    let shown = folder.display();
    let disk = RealDisk::new(&folder).with_context(|| format!("{shown}"))?;
    let options = StoreOptions {
        layout: config.layout,
        verify_writes: config.verify_writes,
        open_files_max: open_files_max(),
        ..StoreOptions::default()
    };
    let store = Store::open(disk, options).with_context(|| format!("{shown}"))?;
    for damage in store.damage() {
        tracing::error!("{shown}: {damage}");
    }
    let service = Arc::new(Service {
        handler: Handler::new(store, HandlerOptions::default()),
        requests: Budget::new(REQUESTS_BYTES_MAX),
        answers: Budget::new(ANSWERS_BYTES_MAX),
        failures: Failures::default(),
        counts: Counts::default(),
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
            .thread_name(format!("chunk-wait-{number}"))
            .build()?;
        let (sender, accepted) = mpsc::channel(ACCEPTED_MAX);
        let service = service.clone();
        let thread = std::thread::Builder::new().name(format!("chunk-{number}"));
        threads.push(thread.spawn(move || run(runtime, &service, accepted))?);
        runtimes.push(sender);
    }
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let tickers = [ticker, upkeeper];
    Ok(ChunkFace { service, runtimes, tickers, threads, connections })
}

/// Descriptors that the face and its store take at most.
pub fn descriptors_max() -> usize {
    CONNECTIONS_MAX + 2 * open_files_max()
}

/// Files that the store keeps open. Each takes two descriptors at most, and half of what the
/// process may have is for connections.
fn open_files_max() -> usize {
    let descriptors = descriptors::limit();
    OPEN_FILES_MAX_DEFAULT.min(usize::try_from(descriptors / 4).unwrap_or(usize::MAX))
}

impl ChunkFace {
    /// What it counts.
    pub fn metrics(&self) -> ChunkMetrics {
        ChunkMetrics(self.service.clone())
    }

    /// Accepts connections and spreads them over the runtimes, until the task is dropped.
    pub async fn accept(&self, listener: TcpListener) {
        let mut next = 0;
        loop {
            let Ok(permit) = self.connections.clone().acquire_owned().await else { return };
            let (stream, peer) = match listener.accept().await {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of file descriptors, most likely: the next one may succeed.
                    tracing::warn!("a connection to the chunk store cannot be accepted: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            if descriptors::is_in_reserve(&stream) {
                tracing::warn!("too few descriptors are left: a client from {peer} is cut off");
                continue;
            }
            let Ok(stream) = stream.into_std() else { continue };
            next = (next + 1) % self.runtimes.len();
            if self.runtimes[next].send((stream, peer, permit)).await.is_err() {
                return;
            }
        }
    }

    /// Cuts off all connections, lets what they asked for end, and makes everything durable. The
    /// next start has little to read.
    ///
    /// # Errors
    /// The store cannot.
    pub fn stop(self) -> anyhow::Result<()> {
        drop((self.runtimes, self.tickers));
        for thread in self.threads {
            // A panic has ended the process.
            let _ = thread.join();
        }
        let store = &self.service.handler.store;
        store.sync().context("the chunk store cannot be synced")?;
        store.checkpoint().context("the index of the chunk store cannot be written")
    }
}

/// Lets the store do what is due, until the face stops.
fn tick(service: &Service, ticks: &Receiver<()>) {
    let mut was_told = false;
    while ticks.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        let done = service.handler.store.tick();
        if let (Err(error), false) = (&done, was_told) {
            tracing::error!("chunk store: {error}");
        }
        was_told = done.is_err();
    }
}

/// Does the store's background work, until the face stops or the store does.
fn keep_up(service: &Service, ticks: &Receiver<()>) {
    let store = &service.handler.store;
    let mut scrubbed_at: Option<Instant> = None;
    while ticks.recv_timeout(UPKEEP_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let rests = scrubbed_at.is_some_and(|at| at.elapsed() < SCRUB_PAUSE);
        let bytes_scrubbed_max = if rests { 0 } else { UPKEEP_BUDGET.bytes_scrubbed_max };
        let done = match store.upkeep(UpkeepBudget { bytes_scrubbed_max, ..UPKEEP_BUDGET }) {
            Ok(done) => done,
            Err(error) => {
                tracing::error!("chunk store: no more work in the background: {error}");
                return;
            }
        };
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

/// Serves the connections of one runtime until there will be no more.
fn run(runtime: Runtime, service: &Arc<Service>, mut accepted: mpsc::Receiver<Accepted>) {
    runtime.block_on(async {
        while let Some((stream, peer, permit)) = accepted.recv().await {
            let service = service.clone();
            tokio::spawn(async move {
                if let Err(error) = serve_connection(stream, service).await {
                    tracing::debug!("{peer}: {error}");
                }
                drop(permit);
            });
        }
    });
    runtime.shutdown_timeout(STOP_TIME_MAX);
}

async fn serve_connection(
    stream: std::net::TcpStream,
    service: Arc<Service>,
) -> anyhow::Result<()> {
    rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
    rustix::net::sockopt::set_tcp_keepidle(&stream, KEEP_ALIVE_TIME)?;
    let stream = TcpStream::from_std(stream)?;
    stream.set_nodelay(true)?;
    let handshake = h2::server::Builder::new()
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES_MAX)
        .max_header_list_size(HEADER_BYTES_MAX)
        .max_concurrent_streams(STREAMS_MAX)
        .max_send_buffer_size(SEND_BYTES_MAX)
        .handshake::<TcpStream, Bytes>(stream);
    let mut connection = tokio::time::timeout(HANDSHAKE_TIME_MAX, handshake).await??;
    // Each stream holds one.
    let streams = Arc::new(());
    let mut idle = tokio::time::interval_at(tokio::time::Instant::now() + IDLE_TIME, IDLE_TIME);
    let mut was_used = true;
    loop {
        tokio::select! {
            biased;
            accepted = connection.accept() => {
                let Some(accepted) = accepted else { return Ok(()) };
                let (request, respond) = accepted?;
                was_used = true;
                let (service, stream) = (service.clone(), streams.clone());
                tokio::spawn(async move {
                    stream::serve(&service, request, respond).await;
                    drop(stream);
                });
            }
            _ = idle.tick() => {
                if !was_used && Arc::strong_count(&streams) == 1 {
                    connection.graceful_shutdown();
                }
                was_used = false;
            }
        }
    }
}

#[cfg(test)]
mod tests;

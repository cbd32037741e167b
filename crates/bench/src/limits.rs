//! Named bounds of the load generator.

use std::time::Duration;

/// Bytes of a frame from a server: replies have no limit in ZooKeeper; more comes from something
/// that is no ZooKeeper server.
pub const FRAME_BYTES_MAX: i32 = 256 * 1024 * 1024;

/// Bytes of requests that are encoded before they are written: enough for one system call to carry
/// hundreds of requests, little enough that latencies count from shortly before the write.
pub const OUTPUT_BYTES: usize = 64 * 1024;

/// Bytes read from a socket at once.
pub const READ_BYTES: usize = 256 * 1024;

/// How long a connection may take until its session is open.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// A phase in which nothing at all comes back for so long is given up.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(60);

/// The largest latency that is told apart from larger ones.
pub const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Sessions that are opened at once, so that a server's backlog is not what is measured:
/// ZooKeeper's is 50 (Java's, unless `clientPortListenBacklog` says more), and what does not fit
/// waits a second for its next SYN.
pub const CONNECTING_MAX: usize = 50;

/// Clients of one run.
pub const CLIENTS_MAX: usize = 100_000;

/// Times that the disk is asked to make 4 KiB durable, to know how long that takes.
pub const DISK_SYNCS: usize = 400;

/// Requests of one client under way where a workload could send without end: enough that no server
/// waits for the generator; more would only lengthen queues.
pub const PIPELINE_REQUESTS: usize = 1_000;

/// Znodes of a tree that a workload makes.
pub const TREE_ZNODES_MAX: usize = 100_000_000;

/// Bytes of data in a znode: what fits into a request of 1 MiB (`jute.maxbuffer`) beside its path.
pub const DATA_BYTES_MAX: usize = 1_000_000;

/// What sessions ask for whose timeout is no option, ms: long enough for a server that stalls to be
/// measured and not to lose them.
pub const SESSION_TIMEOUT_MS: i32 = 30_000;

/// Open files of this process that are no connections of a load: the poll, terminals, files.
pub const OPEN_FILES_SPARE: usize = 64;

/// Watches of one connection.
pub const WATCHES_MAX: usize = 10_000_000;

/// Sessions that make and remove a tree where their number is no option.
pub const TREE_CLIENTS: usize = 10;

/// How long a killed server may take until it is gone: its memory is given back meanwhile.
pub const EXIT_LIMIT: Duration = Duration::from_secs(60);

/// How long a server may take to come back.
pub const RESTART_LIMIT: Duration = Duration::from_secs(900);

/// How long it is waited between two attempts to reach it.
pub const RECONNECT_PAUSE: Duration = Duration::from_millis(2);

/// How long it is waited between two attempts to reach a member that comes back while others serve:
/// a server that does not serve yet logs each of them.
pub const MEMBER_LOOK_PAUSE: Duration = Duration::from_millis(20);

/// How long clients may take to write again after an ensemble is whole again.
pub const RECOVERY_LIMIT: Duration = Duration::from_secs(120);

/// The longest pause that clients may be asked to make before they connect again, ms.
pub const PAUSE_MS_MAX: u64 = 60_000;

/// How long an attempt may take once somebody listens. A server that accepts connections and does
/// not answer yet is waited for.
pub const ATTEMPT_LIMIT: Duration = Duration::from_secs(60);

/// How often it is looked for new snapshots in a folder. A server keeps two or more.
pub const SNAPSHOT_LOOK_PAUSE: Duration = Duration::from_millis(100);

/// How long the generator sleeps when the next request is due sooner than a poll can wait for. It
/// is late by that and some 50 us more, rather than take a whole core from servers beside it.
pub const NAP: Duration = Duration::from_micros(50);

/// From the start of an open-loop phase to its first request, ns: no client begins late.
pub const PACED_START_NS: u64 = 10_000_000;

/// Requests a second of an open loop, which this generator cannot reach anyway.
pub const RATE_MAX: u64 = 10_000_000;

/// The rate that a search for what a server can do in open loop begins with, requests a second.
pub const PROBE_RATE_FIRST: u64 = 1_000;

/// The search ends when the least rate that is too much is no more than so many times the greatest
/// that is not: the spread between two runs on one machine.
pub const PROBE_RATE_STEP: f64 = 1.1;

/// A rate is sustained when so much of it is reached,
pub const PROBE_REACHED_MIN: f64 = 0.95;

/// and half of the answers take no longer: beyond that requests wait in a queue.
pub const PROBE_P50_MS_MAX: f64 = 10.0;

/// So often is a rate tried before it counts as too much.
pub const PROBE_ATTEMPTS: u32 = 2;

/// Items that the publish/subscribe test may be asked to publish: it remembers when each was sent.
pub const ITEMS_MAX: u64 = 100_000_000;

/// Seconds that one phase of a test may be asked to take.
pub const SECONDS_MAX: u64 = 86_400;

/// How long a server may be silent in the differential test when an answer is due. Then it is down,
/// or hangs.
pub const DIFFERENTIAL_SILENCE: Duration = Duration::from_secs(20);

/// Frames of a connection that the differential test reads ahead. Then its reader stops, and with
/// it the server.
pub const DIFFERENTIAL_FRAMES_AHEAD: usize = 100_000;

/// Rounds of a seed of the differential test: some 400 requests.
pub const DIFFERENTIAL_ROUNDS: usize = 45;

/// Bytes of a block of the sequential limits: the largest that most devices take as one request.
pub const STREAM_BLOCK_BYTES: u64 = 1 << 20;

/// What places, lengths and memory of direct writes are multiples of: no device has larger blocks.
pub const DIRECT_ALIGN_BYTES: u64 = 4096;

/// Bytes that each thread of a limit gathers before they are written: those of 16 threads fit into
/// a core's caches, where 1 MiB each does not.
pub const GATHERED_BLOCK_BYTES: u64 = 256 * 1024;

/// Bytes that one write of a group commit takes at most, unless one chunk has more. Of small chunks
/// it never has as many: no thread has more than one in it.
pub const DIRECT_GROUP_BYTES: u64 = 8 << 20;

/// Direct writes of one file under way: enough that the disk never waits for the next.
pub const DIRECT_WRITERS: usize = 4;

/// Threads that write chunks.
pub const CHUNK_THREADS_MAX: usize = 1_024;

/// Chunks of one run: what is read by chance is put in order beforehand, 4 bytes each.
pub const CHUNKS_MAX: u64 = 100_000_000;

/// Chunks that follow each other in a block.
pub const CHUNKS_PER_BLOCK_MAX: u64 = 1_000_000;

/// Bytes that each checksum covers: what Ozone's clients ask for
/// (`ozone.client.bytes.per.checksum`).
pub const BYTES_PER_CHECKSUM: u32 = 16 * 1024;

/// How often a store's `tick` is called while it is measured: as often as `quorate serve` does
/// (`quorate/src/listen_chunk.rs`, as the three that follow).
pub const STORE_TICK: Duration = Duration::from_millis(100);

/// How often a store's `upkeep` is called while it is measured.
pub const STORE_UPKEEP_INTERVAL: Duration = Duration::from_millis(100);

/// Bytes that one such call copies to give space back: 20 MB/s.
pub const STORE_UPKEEP_MOVED_BYTES: u64 = 2 * 1024 * 1024;

/// Bytes that one such call reads to find damage: 5 MB/s.
pub const STORE_UPKEEP_SCRUBBED_BYTES: u64 = 512 * 1024;

/// How long Ozone's load generator may take to start.
pub const FREON_START_LIMIT: Duration = Duration::from_secs(300);

/// How long one case of it may take; or its containers, each of which has a RocksDB.
pub const FREON_CASE_LIMIT: Duration = Duration::from_secs(3_600);

/// Chunks that it writes in each layout before the first case: Java's second compiler takes a
/// method when it was called some 10,000 times.
pub const FREON_WARM_CHUNKS: u64 = 20_000;

/// How often it is looked whether it was asked to end, while somebody else works.
pub const INTERRUPT_LOOK: Duration = Duration::from_millis(100);

/// So much of what a cold read reads must have come from a disk, and so much of what a warm one
/// reads from memory, or it is said that it was not what it is called.
pub const COLD_PART_MIN: f64 = 0.9;

/// How long a datanode's answer may take. One that stalls for that long is not measured.
pub const CHUNK_ANSWER_LIMIT: Duration = Duration::from_secs(120);

/// Bytes that a datanode may send before we take them: an answer with the largest chunk.
pub const CHUNK_WINDOW_BYTES: u32 = 64 * 1024 * 1024;

/// Bytes of such an answer. The run ends with an error above it.
pub const CHUNK_ANSWER_BYTES_MAX: usize = CHUNK_WINDOW_BYTES as usize;

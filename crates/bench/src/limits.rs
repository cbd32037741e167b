//! Named bounds of the load generator.

use std::time::Duration;

/// Bytes of requests that are encoded before they are written: enough for hundreds of requests in
/// one system call, few enough that latencies count from shortly before the write.
pub const OUTPUT_BYTES: usize = 64 * 1024;

/// Bytes read from a socket at once.
pub const READ_BYTES: usize = 256 * 1024;

/// How long a connection may take until its session is open.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// How long a phase may go without any answer before the run ends with an error.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(60);

/// The largest latency that is told apart from larger ones, ns.
pub const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Sessions that are opened at once. More would measure a server's backlog: ZooKeeper's is 50
/// (Java's, unless `clientPortListenBacklog` says more), and a connection beyond it waits a second
/// for its next SYN.
pub const CONNECTING_MAX: usize = 50;

/// Clients of one run.
pub const CLIENTS_MAX: usize = 100_000;

/// Syncs of 4 KiB that measure how long the disk takes to make data durable.
pub const DISK_SYNCS: usize = 400;

/// Requests of one client under way where a workload could send without end: enough that no server
/// waits for the generator; more would only lengthen queues.
pub const PIPELINE_REQUESTS: usize = 1_000;

/// Znodes of a tree that a workload makes.
pub const TREE_ZNODES_MAX: usize = 100_000_000;

/// Bytes of data in a znode: as many as fit into a request of 1 MiB (`jute.maxbuffer`) beside its
/// path.
pub const DATA_BYTES_MAX: usize = 1_000_000;

/// The timeout that sessions ask for where it is no option, ms: long enough that a stalling server
/// is measured and loses no session.
pub const SESSION_TIMEOUT_MS: i32 = 30_000;

/// Open files of this process besides the connections of a load: the poll, terminals, files.
pub const OPEN_FILES_SPARE: usize = 64;

/// Watches of one connection.
pub const WATCHES_MAX: usize = 10_000_000;

/// Sessions that make and remove a tree where their number is no option.
pub const TREE_CLIENTS: usize = 10;

/// How long a killed server may take until it is gone; the system gives its memory back meanwhile.
pub const EXIT_LIMIT: Duration = Duration::from_secs(60);

/// How long a server may take to come back.
pub const RESTART_LIMIT: Duration = Duration::from_secs(900);

/// The pause between two attempts to reach a server that comes back.
pub const RECONNECT_PAUSE: Duration = Duration::from_millis(2);

/// The pause between two attempts to reach a member that comes back while others serve: a server
/// that does not serve yet logs each attempt.
pub const MEMBER_LOOK_PAUSE: Duration = Duration::from_millis(20);

/// How long clients may take to write again after all members of an ensemble serve again.
pub const RECOVERY_LIMIT: Duration = Duration::from_secs(120);

/// The longest pause before a client connects again that an option may ask for, ms.
pub const PAUSE_MS_MAX: u64 = 60_000;

/// How long an attempt may take once a server listens. A server that accepts connections may take a
/// while until it answers.
pub const ATTEMPT_LIMIT: Duration = Duration::from_secs(60);

/// The pause between two looks for new snapshots in a folder. A server keeps two or more.
pub const SNAPSHOT_LOOK_PAUSE: Duration = Duration::from_millis(100);

/// How long the generator sleeps when the next request is due sooner than a poll can wait for. The
/// request is late by that and some 50 us more; else the generator would take a whole core from
/// servers beside it.
pub const NAP: Duration = Duration::from_micros(50);

/// Time from the start of an open-loop phase to its first request, ns, so that no client begins
/// late.
pub const PACED_START_NS: u64 = 10_000_000;

/// The highest rate of an open loop, requests a second; this generator cannot reach it anyway.
pub const RATE_MAX: u64 = 10_000_000;

/// The first rate in the search for the maximum rate of a server in open loop, requests a second.
pub const PROBE_RATE_FIRST: u64 = 1_000;

/// The ratio of the least rate that is too much to the greatest that is not, at which the search
/// ends: the spread between two runs on one machine.
pub const PROBE_RATE_STEP: f64 = 1.1;

/// The part of a rate that must be reached for the rate to count as sustained.
pub const PROBE_REACHED_MIN: f64 = 0.95;

/// The median latency, ms, up to which a rate counts as sustained: above it requests wait in a
/// queue.
pub const PROBE_P50_MS_MAX: f64 = 10.0;

/// Attempts at a rate before it counts as too much.
pub const PROBE_ATTEMPTS: u32 = 2;

/// Items that clients may be asked to publish: the time of each is remembered.
pub const ITEMS_MAX: u64 = 100_000_000;

/// Watches of one connection that the publish/subscribe test sets at once: thousands of connections
/// keep a server busy with them, and their buffers stay small.
pub const SUBSCRIBING_REQUESTS: usize = 20;

/// Bytes at the beginning of an ephemeral's data that the null server keeps, so that hundreds of
/// thousands of them take little memory: publishers write there which item it is.
pub const NULL_HEAD_BYTES: usize = 16;

/// Seconds that one phase of a test may be asked to take.
pub const SECONDS_MAX: u64 = 86_400;

/// How long a server may be silent in the differential test when an answer is due. Longer means
/// that it is down, or hangs.
pub const DIFFERENTIAL_SILENCE: Duration = Duration::from_secs(20);

/// Frames of a connection that the differential test reads ahead. At this limit its reader stops
/// reading, and so the server stops sending.
pub const DIFFERENTIAL_FRAMES_AHEAD: usize = 100_000;

/// Rounds of a seed of the differential test: some 400 requests.
pub const DIFFERENTIAL_ROUNDS: usize = 45;

/// Requests of a seed of the differential test of etcd's protocol.
pub const DIFFERENTIAL_ETCD_REQUESTS: usize = 300;

/// Requests that are shown before the one whose answers differ.
pub const DIFFERENTIAL_SHOWN: usize = 8;

/// Bytes of a block of the sequential limits: the largest that most devices take as one request.
pub const STREAM_BLOCK_BYTES: u64 = 1 << 20;

/// The alignment of places, lengths and memory of direct writes: no device has larger blocks.
pub const DIRECT_ALIGN_BYTES: u64 = 4096;

/// Bytes that each thread of a limit gathers before it writes them: the bytes of 16 threads fit
/// into a core's caches; 1 MiB each would not.
pub const GATHERED_BLOCK_BYTES: u64 = 256 * 1024;

/// Bytes of one write of a group commit, unless one chunk has more. Small chunks never fill it: no
/// thread has more than one chunk in it.
pub const DIRECT_GROUP_BYTES: u64 = 8 << 20;

/// Direct writes of one file under way: enough that the disk never waits for the next one.
pub const DIRECT_WRITERS: usize = 4;

/// Threads that write chunks.
pub const CHUNK_THREADS_MAX: usize = 1_024;

/// Chunks of one run: a random order of reads is made in memory beforehand, with 4 bytes for each.
pub const CHUNKS_MAX: u64 = 100_000_000;

/// Chunks that follow each other in a block.
pub const CHUNKS_PER_BLOCK_MAX: u64 = 1_000_000;

/// Bytes that each checksum covers, as Ozone's clients ask for by default
/// (`ozone.client.bytes.per.checksum`).
pub const BYTES_PER_CHECKSUM: u32 = 16 * 1024;

/// The interval of a store's `tick` while it is measured. This and the next three are the values of
/// `quorate serve` (`quorate/src/listen_chunk.rs`).
pub const STORE_TICK: Duration = Duration::from_millis(100);

/// The interval of a store's `upkeep` while it is measured.
pub const STORE_UPKEEP_INTERVAL: Duration = Duration::from_millis(100);

/// Bytes that one call of `upkeep` copies to give space back: 20 MB/s.
pub const STORE_UPKEEP_MOVED_BYTES: u64 = 2 * 1024 * 1024;

/// Bytes that one call of `upkeep` reads to find damage: 5 MB/s.
pub const STORE_UPKEEP_SCRUBBED_BYTES: u64 = 512 * 1024;

/// How long Ozone's load generator may take to start.
pub const FREON_START_LIMIT: Duration = Duration::from_secs(300);

/// How long one case of Ozone's load generator may take, or making its containers; each has a
/// RocksDB.
pub const FREON_CASE_LIMIT: Duration = Duration::from_secs(3_600);

/// Open files of Ozone's JVM besides those of blocks: some 250 jars, and a RocksDB for each of its
/// containers.
pub const FREON_OPEN_FILES: u64 = 2_000;

/// Chunks that Ozone's load generator writes in each layout before the first case: Java's second
/// compiler takes a method after some 10,000 calls.
pub const FREON_WARM_CHUNKS: u64 = 20_000;

/// The interval at which a wait looks whether the run is to end.
pub const INTERRUPT_LOOK: Duration = Duration::from_millis(100);

/// The part of a cold read that must come from a disk, and of a warm read that must come from
/// memory. Below it the report says that the read was not what it is called.
pub const COLD_PART_MIN: f64 = 0.9;

/// How long a datanode's answer may take. A datanode that stalls longer is not measured.
pub const CHUNK_ANSWER_LIMIT: Duration = Duration::from_secs(120);

/// Bytes that a datanode may send before we take them: enough for an answer with the largest chunk.
pub const CHUNK_WINDOW_BYTES: u32 = 64 * 1024 * 1024;

/// Bytes of one answer of a datanode. The run ends with an error above it.
pub const CHUNK_ANSWER_BYTES_MAX: usize = CHUNK_WINDOW_BYTES as usize;

/// Bytes that an etcd server may send on one connection before we take them.
pub const ETCD_WINDOW_BYTES: u32 = 64 * 1024 * 1024;

/// Bytes of one answer of an etcd server. etcd has no limit for answers; the run ends with an error
/// above this one.
pub const ETCD_ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Keys of etcd's workload: their requests are encoded in memory beforehand.
pub const ETCD_KEYS_MAX: u64 = 10_000_000;

/// Bytes of a value, and of a key: etcd refuses a request of 1.5 MiB and more.
pub const ETCD_VALUE_BYTES_MAX: u64 = 1_000_000;

/// Znodes, and keys, of the workload with clients of both protocols: one request removes all keys.
pub const MIXED_KEYS_MAX: usize = 1_000_000;

/// How long a physical compaction may take. etcd rests 10 ms after each 1,000 revisions
/// (`--compaction-sleep-interval`), so 100 million of them take 17 minutes and more.
pub const COMPACTION_LIMIT: Duration = Duration::from_secs(7_200);

/// The pause of a client of etcd after an error, before it goes to the next member.
pub const ETCD_RETRY_PAUSE: Duration = Duration::from_millis(20);

/// Watches of etcd's workload of watches.
pub const ETCD_WATCHES_MAX: usize = 10_000_000;

/// Keys that a read of the mixed transactions covers.
pub const ETCD_MIXED_KEYS: u64 = 10;

/// Objects of etcd's workload of a cluster: its watchers remember the version of each.
pub const KUBE_OBJECTS_MAX: u64 = 1_000_000;

/// Changes of the number of keys that a watcher of that workload remembers, and counts of keys that
/// are compared with them: 24 MB at most each.
pub const KUBE_SIZES_MAX: usize = 1_000_000;

/// Apiservers of that workload, each with a connection and a watch of each kind.
pub const KUBE_APISERVERS_MAX: usize = 100;

/// The greatest compression of the cluster's time: a day in a second.
pub const KUBE_COMPRESS_MAX: f64 = 86_400.0;

/// Requests under way while the objects of the cluster are made.
pub const KUBE_FILL_CLIENTS: usize = 64;

/// Keys of a page of a list, as apiservers ask for by default.
pub const ETCD_PAGE_KEYS: i64 = 500;

/// Attempts at a guarded update, each from the revision that the one before was told.
pub const GUARDED_ATTEMPTS: u32 = 20;

/// The pause between two looks at the memory and the disk of servers.
pub const SAMPLE_PAUSE: Duration = Duration::from_millis(200);

/// Files of a data folder whose room is added up.
pub const DATA_FILES_MAX: usize = 100_000;

/// Requests that a fill with etcd's keys encodes before it sends them: some 60 MB.
pub const ETCD_CALLS_AHEAD: u64 = 100_000;

/// Keys that are read or deleted at once where all are.
pub const ETCD_READ_KEYS: u64 = 10_000;

/// The pause between two looks at the course of a run, at first.
pub const COURSE_PAUSE: Duration = Duration::from_millis(250);

/// Moments of a course, about: as many as a plot can show.
pub const COURSE_MOMENTS_MAX: usize = 240;

/// How long a server that a reproduction starts may take until it serves.
pub const SERVER_START_LIMIT: Duration = Duration::from_secs(90);

/// How long such a server may take to end before it is killed.
pub const SERVER_END_LIMIT: Duration = Duration::from_secs(10);

/// The heap of a real ZooKeeper that is to hold 200,000 items of 4,096 bytes and 600,000 watches,
/// MB: enough where it was tried. The data alone are 820 MB; the scripts of the source tree give
/// it 512 MB, the distribution's 1,000 MB.
pub const ZOOKEEPER_HEAP_MB: u32 = 3_072;

/// The part of the CPU that other guests of the host may take before no figure is to be quoted.
pub const STEAL_MAX: f64 = 0.03;

/// How many times slower or faster the disk may be behind a run than before it.
pub const DRIFT_MAX: f64 = 2.0;

/// Rounds of `--until`, at least: the pairs that a bootstrap needs.
pub const UNTIL_ROUNDS_MIN: u32 = 6;

/// Rounds of `--until`, at most: each keeps the latencies of its phases, some MiB.
pub const UNTIL_ROUNDS_MAX: u32 = 200;

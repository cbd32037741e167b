//! The named bounds of the load generator: of time, bytes, counts and rates.

use std::time::Duration;

/// Bytes of requests that the driver encodes for one session before it writes them: enough for
/// hundreds of requests in one system call, and few enough that a request is written soon after its
/// latency begins to count.
pub const OUTPUT_BYTES: usize = 64 * 1024;

/// Bytes of the buffer that one read from a socket may fill.
pub const READ_BYTES: usize = 256 * 1024;

/// How long a batch of new connections may go without an answer before opening the sessions fails.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// How long a phase may go without any answer before the run ends with an error.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(60);

/// The largest latency, ns, that the histograms record; a larger one counts as this one.
pub const LATENCY_NS_MAX: u64 = 3_600_000_000_000;

/// Sessions that the driver opens at the same time. More would fill the listen backlog of a server:
/// ZooKeeper's backlog is 50 (Java's default, unless `clientPortListenBacklog` sets it), and a
/// connection beyond it waits a second until it sends its next SYN.
pub const CONNECTING_MAX: usize = 50;

/// The most clients of one run.
pub const CLIENTS_MAX: usize = 100_000;

/// Writes of 4 KiB, each followed by fdatasync, that measure how long the disk takes to make data
/// durable.
pub const DISK_SYNCS: usize = 400;

/// The most unanswered requests of one client, in a workload that could send without end: enough
/// that no server waits for the generator. More would only lengthen queues.
pub const PIPELINE_REQUESTS: usize = 1_000;

/// The most znodes of a tree that a workload makes.
pub const TREE_ZNODES_MAX: usize = 100_000_000;

/// The most bytes of data in a znode: they fit into a request of 1 MiB (`jute.maxbuffer`) together
/// with the path.
pub const DATA_BYTES_MAX: usize = 1_000_000;

/// The session timeout that clients ask for, ms, in workloads without an option for it. It is long,
/// so that a server that stalls is measured and loses no session.
pub const SESSION_TIMEOUT_MS: i32 = 30_000;

/// Files that this process opens besides the connections of a load: the poll, terminals, output
/// files.
pub const OPEN_FILES_SPARE: usize = 64;

/// The most watches of one connection.
pub const WATCHES_MAX: usize = 10_000_000;

/// Sessions that make and remove a tree, in workloads without an option for their number.
pub const TREE_CLIENTS: usize = 10;

/// How long a killed server may take to disappear; the system takes its memory back meanwhile.
pub const EXIT_LIMIT: Duration = Duration::from_secs(60);

/// How long a restarted server may take until it serves.
pub const RESTART_LIMIT: Duration = Duration::from_secs(900);

/// The pause between two attempts to reach a server that restarts.
pub const RECONNECT_PAUSE: Duration = Duration::from_millis(2);

/// The pause between two attempts to reach a member that restarts while the others serve. It is
/// longer than [`RECONNECT_PAUSE`], because a server that does not serve yet logs each attempt.
pub const MEMBER_LOOK_PAUSE: Duration = Duration::from_millis(20);

/// How long clients may take until their first write succeeds, after all members of an ensemble
/// serve again.
pub const RECOVERY_LIMIT: Duration = Duration::from_secs(120);

/// The longest pause before a client reconnects that an option may ask for, ms.
pub const PAUSE_MS_MAX: u64 = 60_000;

/// How long one attempt to get an answer may take after the server has accepted the connection: a
/// server may accept connections long before it answers.
pub const ATTEMPT_LIMIT: Duration = Duration::from_secs(60);

/// The pause between two looks for new snapshots in a server's folder. It is short enough to miss
/// none, since a server keeps two or more.
pub const SNAPSHOT_LOOK_PAUSE: Duration = Duration::from_millis(100);

/// How long the generator sleeps when the next request is due so soon that a poll, which is exact
/// to a millisecond, would wait too long. The sleep may make the request late by as much, and by
/// some 50 us more. Without the sleep the generator would spin, and take a whole core from servers
/// on the same machine.
pub const NAP: Duration = Duration::from_micros(50);

/// Time from the start of an open-loop phase to its first due request, ns: long enough that every
/// client is ready by then.
pub const PACED_START_NS: u64 = 10_000_000;

/// The highest rate of an open loop, requests a second. It is above what this generator can send.
pub const RATE_MAX: u64 = 10_000_000;

/// The first rate that the search for a server's highest sustained open-loop rate tries, requests a
/// second.
pub const PROBE_RATE_FIRST: u64 = 1_000;

/// The search for the highest sustained rate ends when the lowest rate that was too high is at most
/// this factor above the highest rate that was sustained. Two runs on one machine differ by as
/// much.
pub const PROBE_RATE_STEP: f64 = 1.1;

/// The share of the rate asked for that a run must reach for the rate to count as sustained.
pub const PROBE_REACHED_MIN: f64 = 0.95;

/// The highest median latency, ms, at which a rate counts as sustained. Above it requests wait in a
/// queue.
pub const PROBE_P50_MS_MAX: f64 = 10.0;

/// How often the search tries a rate before the rate counts as too high.
pub const PROBE_ATTEMPTS: u32 = 2;

/// The most items of a publish/subscribe test: the generator keeps the publish time of each.
pub const ITEMS_MAX: u64 = 100_000_000;

/// Requests under way on one connection of the publish/subscribe test while it sets its watches.
/// With thousands of connections this keeps the server busy, and the buffers stay small.
pub const SUBSCRIBING_REQUESTS: usize = 20;

/// Bytes that the null server keeps of an ephemeral's data: its first ones, where publishers write
/// the number of the item. Hundreds of thousands of ephemerals then take little memory.
pub const NULL_HEAD_BYTES: usize = 16;

/// The longest time that one phase of a test may be asked to take, seconds.
pub const SECONDS_MAX: u64 = 86_400;

/// How long a server of the differential test may owe an answer. After that it counts as down or
/// hanging.
pub const DIFFERENTIAL_SILENCE: Duration = Duration::from_secs(20);

/// The most frames that the differential test reads ahead on one connection. At this limit its
/// reader stops reading, so the server has to stop sending.
pub const DIFFERENTIAL_FRAMES_AHEAD: usize = 100_000;

/// Rounds that the differential test runs for each seed; together they make some 400 requests.
pub const DIFFERENTIAL_ROUNDS: usize = 45;

/// Requests that the differential test of etcd's protocol makes for each seed.
pub const DIFFERENTIAL_ETCD_REQUESTS: usize = 300;

/// How many of the requests before the first difference the differential test shows.
pub const DIFFERENTIAL_SHOWN: usize = 8;

/// Bytes of a block in the sequential disk limits: the largest that most devices take as one
/// request.
pub const STREAM_BLOCK_BYTES: u64 = 1 << 20;

/// The alignment that direct writes (`O_DIRECT`) need for offset, length and memory. No device has
/// larger blocks.
pub const DIRECT_ALIGN_BYTES: u64 = 4096;

/// Bytes that each thread gathers before it writes them as one block. The blocks of 16 threads then
/// fit into a core's caches; blocks of 1 MiB would not.
pub const GATHERED_BLOCK_BYTES: u64 = 256 * 1024;

/// Bytes of one write of a group commit; more if one chunk is larger. Small chunks never fill it,
/// because each thread has at most one chunk in the group.
pub const DIRECT_GROUP_BYTES: u64 = 8 << 20;

/// Direct writes of one file that are under way at once: enough that the disk never waits for the
/// next one.
pub const DIRECT_WRITERS: usize = 4;

/// The most threads that write chunks.
pub const CHUNK_THREADS_MAX: usize = 1_024;

/// The most chunks of one run: a random order of reads takes 4 bytes of memory for each.
pub const CHUNKS_MAX: u64 = 100_000_000;

/// The most chunks of one block.
pub const CHUNKS_PER_BLOCK_MAX: u64 = 1_000_000;

/// Bytes that each checksum covers, as Ozone's clients ask for by default
/// (`ozone.client.bytes.per.checksum`).
pub const BYTES_PER_CHECKSUM: u32 = 16 * 1024;

/// The interval at which a measured store's `tick` is called. This and the next three constants
/// have the values of `quorate serve` (`quorate/src/listen_chunk.rs`).
pub const STORE_TICK: Duration = Duration::from_millis(100);

/// The interval at which a measured store's `upkeep` is called.
pub const STORE_UPKEEP_INTERVAL: Duration = Duration::from_millis(100);

/// Bytes that one call of `upkeep` copies to give space back: 20 MB/s.
pub const STORE_UPKEEP_MOVED_BYTES: u64 = 2 * 1024 * 1024;

/// Bytes that one call of `upkeep` reads to find damage: 5 MB/s.
pub const STORE_UPKEEP_SCRUBBED_BYTES: u64 = 512 * 1024;

/// How long Ozone's load generator (freon) may take to start.
pub const FREON_START_LIMIT: Duration = Duration::from_secs(300);

/// How long one case of freon may take, and how long the making of its containers may take. Each
/// container has a RocksDB.
pub const FREON_CASE_LIMIT: Duration = Duration::from_secs(3_600);

/// Open files of freon's JVM besides the files of blocks: some 250 jars, and those of a RocksDB for
/// each of its containers.
pub const FREON_OPEN_FILES: u64 = 2_000;

/// Chunks that freon writes in each layout before the first case, to warm the JVM: the second JIT
/// compiler compiles a method after some 10,000 calls.
pub const FREON_WARM_CHUNKS: u64 = 20_000;

/// The interval at which a waiting thread checks whether the run was interrupted.
pub const INTERRUPT_LOOK: Duration = Duration::from_millis(100);

/// The share of its bytes that a cold read must get from a disk, and that a warm read must get from
/// memory. If a run stays below it, the report says that the run was not cold, or not warm.
pub const COLD_PART_MIN: f64 = 0.9;

/// How long a datanode's answer may take. The run fails when an answer takes longer.
pub const CHUNK_ANSWER_LIMIT: Duration = Duration::from_secs(120);

/// The HTTP/2 window of a connection to a datanode: bytes that it may send before we read them,
/// enough for an answer with the largest chunk.
pub const CHUNK_WINDOW_BYTES: u32 = 64 * 1024 * 1024;

/// The most bytes of one answer of a datanode. The run ends with an error above it.
pub const CHUNK_ANSWER_BYTES_MAX: usize = CHUNK_WINDOW_BYTES as usize;

/// The HTTP/2 window of a connection to an etcd server: bytes that the server may send before we
/// read them.
pub const ETCD_WINDOW_BYTES: u32 = 64 * 1024 * 1024;

/// The most bytes of one answer of an etcd server. etcd itself has no such limit; the run ends with
/// an error above it.
pub const ETCD_ANSWER_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The most keys of an etcd workload: their requests are encoded in memory beforehand.
pub const ETCD_KEYS_MAX: u64 = 10_000_000;

/// The most bytes of a key, and of a value: etcd refuses a request of 1.5 MiB and more.
pub const ETCD_VALUE_BYTES_MAX: u64 = 1_000_000;

/// The most znodes, and the most keys, of the workload with clients of both protocols: one request
/// removes all keys.
pub const MIXED_KEYS_MAX: usize = 1_000_000;

/// How long a physical compaction may take. etcd pauses for 10 ms after each 1,000 revisions
/// (`--compaction-sleep-interval`), so 100 million revisions take 17 minutes and more.
pub const COMPACTION_LIMIT: Duration = Duration::from_secs(7_200);

/// How long an etcd client pauses after an error, before it goes on at the next member.
pub const ETCD_RETRY_PAUSE: Duration = Duration::from_millis(20);

/// The most watches of the etcd watch workload.
pub const ETCD_WATCHES_MAX: usize = 10_000_000;

/// Keys that one range read of the mixed transactions covers.
pub const ETCD_MIXED_KEYS: u64 = 10;

/// The most objects of the Kubernetes workload: each of its watchers keeps the version of every
/// object.
pub const KUBE_OBJECTS_MAX: u64 = 1_000_000;

/// The most changes of the number of keys that a watcher of the Kubernetes workload keeps, and the
/// most counts of keys that are compared with them: 24 MB at most for each.
pub const KUBE_SIZES_MAX: usize = 1_000_000;

/// The most apiservers of the Kubernetes workload; each has a connection, and a watch for each kind
/// of object.
pub const KUBE_APISERVERS_MAX: usize = 100;

/// The greatest compression of time in the Kubernetes workload: a day in a second.
pub const KUBE_COMPRESS_MAX: f64 = 86_400.0;

/// Requests under way at once while the Kubernetes workload creates its objects.
pub const KUBE_FILL_CLIENTS: usize = 64;

/// Keys in one page of a list; apiservers ask for this many by default.
pub const ETCD_PAGE_KEYS: i64 = 500;

/// How often a client tries a guarded update (one that succeeds only at an expected revision). Each
/// attempt expects the revision that the failed one before returned.
pub const GUARDED_ATTEMPTS: u32 = 20;

/// The pause between two samples of the memory and the disk use of servers.
pub const SAMPLE_PAUSE: Duration = Duration::from_millis(200);

/// The most files of a data folder whose disk use is added up.
pub const DATA_FILES_MAX: usize = 100_000;

/// Requests that a fill with etcd's keys encodes before it sends them: some 60 MB.
pub const ETCD_CALLS_AHEAD: u64 = 100_000;

/// Keys of one request, where a workload reads or deletes all its keys.
pub const ETCD_READ_KEYS: u64 = 10_000;

/// The pause between two samples of the course of a run. It doubles each time when the course has
/// too many moments: see [`COURSE_MOMENTS_MAX`].
pub const COURSE_PAUSE: Duration = Duration::from_millis(250);

/// The most moments that a course keeps: about as many as a plot can show.
pub const COURSE_MOMENTS_MAX: usize = 240;

/// How long a server that `quorate reproduce` starts may take until it serves.
pub const SERVER_START_LIMIT: Duration = Duration::from_secs(90);

/// How long a server that `quorate reproduce` started may take to end before it is killed.
pub const SERVER_END_LIMIT: Duration = Duration::from_secs(10);

/// The heap, MB, of a real ZooKeeper that must hold 200,000 items of 4,096 bytes and 600,000
/// watches. It was enough when tried. The data alone are 820 MB; the scripts of the source tree
/// give a heap of 512 MB, the distribution's 1,000 MB.
pub const ZOOKEEPER_HEAP_MB: u32 = 3_072;

/// The share of the CPU that other guests of the host may take. Above it the results say that no
/// figure may be quoted.
pub const STEAL_MAX: f64 = 0.03;

/// How many times slower or faster the disk may be after a run than before it. Beyond that the
/// results say that no figure may be quoted.
pub const DRIFT_MAX: f64 = 2.0;

/// The least rounds of `--until`: the pairs that a bootstrap needs.
pub const UNTIL_ROUNDS_MIN: u32 = 6;

/// The most rounds of `--until`: each round keeps the latencies of its phases, some MiB.
pub const UNTIL_ROUNDS_MAX: u32 = 200;

/// The most members of a cluster that a workload starts, the one that it adds included.
pub const MEMBERS_MAX: usize = 8;

/// The most data that a workload puts before it adds a member, MiB: etcd's largest suggested
/// database.
pub const MIB_MAX: u64 = 8_192;

/// How long a change of the members may be refused before the run fails, and how long one answer
/// may take. etcd refuses changes in the first seconds of a cluster, until its members have been
/// connected for 5 s (`HealthInterval`).
pub const MEMBER_CHANGE_LIMIT: Duration = Duration::from_secs(30);

/// The pause between two attempts to change the members.
pub const MEMBER_CHANGE_PAUSE: Duration = Duration::from_millis(200);

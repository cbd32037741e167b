//! Upper bounds on what the chunk face takes from its clients and from the machine.

use std::time::Duration;

use chunk::limits::REQUEST_BYTES_MAX;
use chunk::store::UpkeepBudget;

use grpc::Patience;

/// Threads that read from sockets. With more, the disk is the limit.
pub(super) const RUNTIMES_MAX: usize = 4;

/// Threads of each runtime that may wait for the disk. Further requests wait for a free one.
pub(super) const WAITING_THREADS_MAX: usize = 64;

/// Connections that are accepted and not yet taken by their runtime. At this limit the acceptor
/// waits.
pub(super) const ACCEPTED_MAX: usize = 64;

/// Streams of one connection: requests that a client has under way. The client gets the number
/// and waits with further requests; a stream beyond it is refused. Ozone's clients have 32 under
/// way.
pub(super) const STREAMS_MAX: u32 = 64;

/// Bytes that a client may send on a stream before we take them. Java's clients send no more than
/// 16 KiB at once if not told otherwise; a chunk of 4 MiB would take 256 frames.
pub(super) const STREAM_WINDOW_BYTES: u32 = 256 * 1024;

/// Bytes that a client may send on a connection before we take them, at the beginning: HTTP/2's
/// minimum. Each stream adds its window, since a stream that waits for room must not block the
/// other streams.
pub(super) const CONNECTION_WINDOW_BYTES: u32 = 65_535;

/// Bytes that all clients together may send before we take them, beside the first
/// [`CONNECTION_WINDOW_BYTES`] of each connection. When they are used up, a new stream shares the
/// windows of its connection. A connection keeps its windows until it ends.
pub(super) const WINDOWS_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The overhead of frames that no handler has taken, as `h2` counts it: a frame of less than 256
/// bytes counts as 256. A client above it is cut off. 1,000 small frames are below it, which are
/// many requests under way.
pub(super) const FRAMES_OVERHEAD_BYTES_MAX: usize = 256 * 1024;

/// Bytes of one frame.
pub(super) const FRAME_BYTES_MAX: u32 = STREAM_WINDOW_BYTES;

/// Bytes of the headers of a request. A request with more is refused.
pub(super) const HEADER_BYTES_MAX: u32 = 8 * 1024;

/// Bytes that wait on a stream for a client to take them. At this limit we wait for the client.
pub(super) const SEND_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of memory of all requests that have arrived in whole or in part and are not done; and
/// again as many for all answers until the socket has taken them. A request that finds no room
/// waits for it, in the client's window. One request, and one answer, may exceed it: see
/// [`grpc::Room`].
pub(super) const REQUESTS_BYTES_MAX: usize = 512 * 1024 * 1024;
pub(super) const ANSWERS_BYTES_MAX: usize = 512 * 1024 * 1024;

/// All connections from one address may take one part in so many of these bytes.
pub(super) const ADDRESS_SHARE: usize = 2;

/// One connection may take one part in so many of these bytes.
pub(super) const CONNECTION_SHARE: usize = 4;

/// How long a client may take to say that it speaks HTTP/2.
pub(super) const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a client may take from the first byte of a request to the last, and how long it may
/// take no bytes of a waiting answer. After it the stream is reset, and its memory is free. A
/// stream on which the client sends nothing at all ends with `UNAVAILABLE` after this time.
pub(super) const STALL_TIME_MAX: Duration = Duration::from_secs(60);

/// How long a client may send nothing within a request, or take nothing of an answer, while other
/// clients wait for its room.
pub(super) const WAITED_TIME_MAX: Duration = Duration::from_secs(5);

/// How long a client may take for the rest of a request or an answer that is a finisher, beyond the
/// room that there is: only one is at a time.
pub(super) const FINISH_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a stream may be silent between two requests. After it the stream ends with
/// `UNAVAILABLE`.
pub(super) const STREAM_IDLE_TIME_MAX: Duration = Duration::from_secs(5 * 60);

/// How long the kernel keeps bytes that a client does not take from its socket. After it the
/// connection ends.
pub(super) const UNTAKEN_TIME_MAX: Duration = Duration::from_secs(60);

/// The interval at which an idle connection is checked. It is closed if it had no stream since the
/// last check: so before the 15 minutes after which Ozone's datanode closes it.
pub(super) const IDLE_TIME: Duration = Duration::from_secs(7 * 60);

/// The silence after which the kernel probes whether a client is still there.
pub(super) const KEEP_ALIVE_TIME: Duration = Duration::from_secs(5 * 60);

/// The pause after a connection could not be accepted.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The most bytes that the store leaves free by default on a disk that it shares with the server's
/// own data.
pub(super) const FREE_BYTES_MIN_DEFAULT: u64 = 1024 * 1024 * 1024;

/// The niceness of the face's threads against the rest of the server (nice(2)): they get a tenth of
/// the CPU when other threads want all of it.
pub(super) const NICE: i32 = 10;

/// The interval at which the store writes out what it gathered.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// The interval between two pieces of the store's background work.
pub(super) const UPKEEP_INTERVAL: Duration = Duration::from_millis(100);

/// The bytes of one piece of background work: 20 MB/s to give space back, and 5 MB/s to find
/// damage, which is the rate of Ozone's data scanner for a volume.
pub(super) const UPKEEP_BUDGET: UpkeepBudget =
    UpkeepBudget { bytes_moved_max: 2 * 1024 * 1024, bytes_scrubbed_max: 512 * 1024 };

/// The pause of the search for damage after all blocks were read.
pub(super) const SCRUB_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

/// How long requests may still take when the server ends.
pub(super) const STOP_TIME_MAX: Duration = Duration::from_secs(5);

/// How long the store may take in all when the server ends. Process managers kill after 30 s; with
/// a disk that hangs the store would never end.
pub(super) const STORE_STOP_TIME_MAX: Duration = Duration::from_secs(20);

/// The pause of the background work after a failure, such as a lack of descriptors or room.
pub(super) const UPKEEP_PAUSE: Duration = Duration::from_secs(10);

const _: () = assert!(REQUEST_BYTES_MAX < REQUESTS_BYTES_MAX / CONNECTION_SHARE);
const _: () = assert!(chunk::limits::ANSWER_BYTES_MAX * 2 < ANSWERS_BYTES_MAX / CONNECTION_SHARE);

/// Bounds that tests lower.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    pub(super) requests_bytes: usize,
    pub(super) answers_bytes: usize,
    pub(super) windows_bytes: usize,
    pub(super) stall_time: Duration,
    pub(super) waited_time: Duration,
    pub(super) finish_time: Duration,
    pub(super) idle_time: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            requests_bytes: REQUESTS_BYTES_MAX,
            answers_bytes: ANSWERS_BYTES_MAX,
            windows_bytes: WINDOWS_BYTES_MAX,
            stall_time: STALL_TIME_MAX,
            waited_time: WAITED_TIME_MAX,
            finish_time: FINISH_TIME_MAX,
            idle_time: STREAM_IDLE_TIME_MAX,
        }
    }
}

/// Large steps of the store that are under way at once while the log on the same disk is in use.
/// Beside four clients that wrote chunks of 1 MiB, the 99th percentile of creates was 1.8 times
/// that of creates alone with one (520 MB/s of chunks), 2.3 with two (850), 3.2 without a bound
/// (1,000).
pub const TURNS_BESIDE_LOG: usize = 1;

/// How long after its last sync the log counts as in use, in ms.
pub const LOG_QUIET_MS: u64 = 50;

impl Limits {
    /// The bounds for the gRPC module.
    pub(super) fn grpc(&self) -> grpc::Limits {
        grpc::Limits {
            message_bytes_max: REQUEST_BYTES_MAX,
            takes_gzip: false,
            header_bytes_max: HEADER_BYTES_MAX,
            web_header_bytes_max: 0,
            metadata_keys: &[],
            metadata_prefix: "",
            streams_max: STREAMS_MAX,
            stream_window_bytes: STREAM_WINDOW_BYTES,
            connection_window_bytes: CONNECTION_WINDOW_BYTES,
            frame_bytes_max: FRAME_BYTES_MAX,
            frames_overhead_bytes_max: FRAMES_OVERHEAD_BYTES_MAX,
            send_bytes_max: SEND_BYTES_MAX,
            handshake_time_max: HANDSHAKE_TIME_MAX,
            connection_idle_time: Some(IDLE_TIME),
            pings: None,
            patience: Patience {
                stall_time: self.stall_time,
                waited_time: self.waited_time,
                finish_time: self.finish_time,
                first_time: Some(self.stall_time),
                idle_time: Some(self.idle_time),
            },
        }
    }
}

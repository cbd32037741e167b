//! The constants that bound what the chunk face uses for its clients (streams, memory, time, CPU),
//! and the pace of the store's background work.

use std::time::Duration;

use chunk::limits::REQUEST_BYTES_MAX;
use chunk::store::UpkeepBudget;

use grpc::Patience;

/// The most runtimes, each a thread that reads from sockets. Beyond this number the disk is the
/// bottleneck.
pub(super) const RUNTIMES_MAX: usize = 4;

/// The most threads of each runtime that wait for the disk. Further requests wait for a free
/// thread.
pub(super) const WAITING_THREADS_MAX: usize = 64;

/// How many accepted connections may wait until their runtime takes them. At this limit the
/// acceptor waits.
pub(super) const ACCEPTED_MAX: usize = 64;

/// How many streams, and so requests under way, a connection may have. The server announces this
/// number, and the client waits with further requests; a stream beyond it is refused. Ozone's
/// clients have 32 requests under way.
pub(super) const STREAMS_MAX: u32 = 64;

/// How many bytes a client may send on a stream before the server takes them. If the server allowed
/// only 16 KiB, as gRPC's Java programs do by default, a chunk of 4 MiB would need 256 frames.
pub(super) const STREAM_WINDOW_BYTES: u32 = 256 * 1024;

/// How many bytes a client may at first send on a connection before the server takes them: HTTP/2's
/// minimum. Each stream adds [`STREAM_WINDOW_BYTES`], so that a stream that waits for memory does
/// not block the others.
pub(super) const CONNECTION_WINDOW_BYTES: u32 = 65_535;

/// How many bytes all clients together may send before the server takes them, not counting the
/// first [`CONNECTION_WINDOW_BYTES`] of each connection. Once this is used up, a new stream shares
/// the windows that its connection already has. A connection keeps its windows until it ends.
pub(super) const WINDOWS_BYTES_MAX: usize = 256 * 1024 * 1024;

/// How much overhead the frames that no handler has taken yet may have, as the crate `h2` counts
/// it: a frame of less than 256 bytes counts as 256. A connection with more is closed. 1,000 small
/// frames stay below it, which is more than honest clients have under way.
pub(super) const FRAMES_OVERHEAD_BYTES_MAX: usize = 256 * 1024;

/// The longest frame that a client may send.
pub(super) const FRAME_BYTES_MAX: u32 = STREAM_WINDOW_BYTES;

/// The longest headers of a request, in bytes. A request with longer ones is refused.
pub(super) const HEADER_BYTES_MAX: u32 = 8 * 1024;

/// How many bytes of answers a stream may hold until the client takes them. At this limit the
/// handler waits.
pub(super) const SEND_BYTES_MAX: usize = 1024 * 1024;

/// How many bytes of memory all requests may use that have arrived, wholly or in part, and are not
/// done. [`ANSWERS_BYTES_MAX`] is the same bound for answers until the socket has taken them. A
/// request for which there is no memory waits, unread, in the client's window. One request and one
/// answer may exceed their bounds; see [`grpc::Room`].
pub(super) const REQUESTS_BYTES_MAX: usize = 512 * 1024 * 1024;
pub(super) const ANSWERS_BYTES_MAX: usize = 512 * 1024 * 1024;

/// All connections from one address together may use [`REQUESTS_BYTES_MAX`] and
/// [`ANSWERS_BYTES_MAX`] divided by this.
pub(super) const ADDRESS_SHARE: usize = 2;

/// One connection may use [`REQUESTS_BYTES_MAX`] and [`ANSWERS_BYTES_MAX`] divided by this.
pub(super) const CONNECTION_SHARE: usize = 4;

/// How long a client may take for the TLS handshake, and to say that it speaks HTTP/2.
pub(super) const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a client may take from the first byte of a request to its last, and how long it may
/// take no byte of a waiting answer. Then the stream is reset and its memory freed. A stream on
/// which the client sends no request at all ends with `UNAVAILABLE` after this time.
pub(super) const STALL_TIME_MAX: Duration = Duration::from_secs(60);

/// How long a client may pause within a request or an answer while other clients wait for the
/// memory that its stream holds.
pub(super) const WAITED_TIME_MAX: Duration = Duration::from_secs(5);

/// How long the rest of a finisher may take. A finisher is a request or answer that may exceed a
/// bound on memory, so that not all wait for each other's memory (see `grpc`'s module `room`). Each
/// bound has at most one finisher at a time.
pub(super) const FINISH_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a client may pause between two requests on a stream. Then the stream ends with
/// `UNAVAILABLE`.
pub(super) const STREAM_IDLE_TIME_MAX: Duration = Duration::from_secs(5 * 60);

/// How long sent bytes may stay unacknowledged by the client. Then the kernel ends the connection.
pub(super) const UNTAKEN_TIME_MAX: Duration = Duration::from_secs(60);

/// How often an idle connection is checked. It is closed if it had no stream since the last check,
/// so after 14 minutes at most. Ozone's datanode closes an idle connection after 15 minutes.
pub(super) const IDLE_TIME: Duration = Duration::from_secs(7 * 60);

/// How long a connection is silent before the kernel probes whether the client still exists.
pub(super) const KEEP_ALIVE_TIME: Duration = Duration::from_secs(5 * 60);

/// How long to wait before the next attempt, if a connection could not be accepted.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The most bytes that the store by default leaves free on a disk that it shares with the data
/// directory.
pub(super) const FREE_BYTES_MIN_DEFAULT: u64 = 1024 * 1024 * 1024;

/// The niceness of the face's threads compared to the rest of the server (nice(2)): they get a
/// tenth of the CPU while other threads want all of it.
pub(super) const NICE: i32 = 10;

/// How often the store writes out the chunks that it has buffered.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// How long the store's background work pauses between two steps.
pub(super) const UPKEEP_INTERVAL: Duration = Duration::from_millis(100);

/// How much one step of background work may do: it moves data to free space at up to 20 MB/s, and
/// reads blocks to find damage at 5 MB/s, which is the rate of Ozone's data scanner per volume.
pub(super) const UPKEEP_BUDGET: UpkeepBudget =
    UpkeepBudget { bytes_moved_max: 2 * 1024 * 1024, bytes_scrubbed_max: 512 * 1024 };

/// How long the search for damage rests after it has read all blocks.
pub(super) const SCRUB_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

/// How long requests under way may still take when the server stops.
pub(super) const STOP_TIME_MAX: Duration = Duration::from_secs(5);

/// How long stopping the store may take in all. Process managers kill after 30 s, and on a disk
/// that hangs the store would never stop.
pub(super) const STORE_STOP_TIME_MAX: Duration = Duration::from_secs(20);

/// How long the background work pauses after a failure, such as a lack of descriptors or of disk
/// space.
pub(super) const UPKEEP_PAUSE: Duration = Duration::from_secs(10);

const _: () = assert!(REQUEST_BYTES_MAX < REQUESTS_BYTES_MAX / CONNECTION_SHARE);
const _: () = assert!(chunk::limits::ANSWER_BYTES_MAX * 2 < ANSWERS_BYTES_MAX / CONNECTION_SHARE);

/// The bounds that tests can lower. By default they have the values of the constants above;
/// `idle_time` is [`STREAM_IDLE_TIME_MAX`].
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

/// How many large steps of the store (reads or writes of more than 64 KiB) may run at once while
/// the log on the same disk is in use. Measured beside four clients that wrote chunks of 1 MiB: the
/// 99th percentile of creates was 1.8 times that of creates alone with one step (520 MB/s of
/// chunks), 2.3 times with two (850), 3.2 times without a bound (1,000).
pub const TURNS_BESIDE_LOG: usize = 1;

impl Limits {
    /// The bounds as the crate `grpc` takes them.
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

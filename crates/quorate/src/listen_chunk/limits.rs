//! What the chunk face takes of its clients and of the machine, at most.

use std::time::Duration;

use chunk::limits::REQUEST_BYTES_MAX;
use chunk::store::UpkeepBudget;

use crate::grpc::{self, Patience};

/// Threads that read from sockets. Beyond, the disk is the limit.
pub(super) const RUNTIMES_MAX: usize = 4;

/// Threads of each runtime that may wait for the disk. More requests than that wait for one.
pub(super) const WAITING_THREADS_MAX: usize = 64;

/// Connections accepted and not yet taken by their runtime. Then the acceptor waits.
pub(super) const ACCEPTED_MAX: usize = 64;

/// Streams of one connection: requests that a client has under way. It is told, and waits with one
/// more; a client that does not is refused that stream. Ozone's clients have 32 under way.
pub(super) const STREAMS_MAX: u32 = 64;

/// Bytes that a client may send on a stream before we take them. Java's clients send no more than
/// 16 KiB at once if not told otherwise; a chunk of 4 MiB would take 256 frames.
pub(super) const STREAM_WINDOW_BYTES: u32 = 256 * 1024;

/// Bytes that a client may send on a connection before we take them, to begin with: what HTTP/2
/// gives at the least. Each stream adds its window to that, as one that waits for room must not
/// keep the others from going on.
pub(super) const CONNECTION_WINDOW_BYTES: u32 = 65_535;

/// Bytes that all clients together may send before we take them, beside the first
/// [`CONNECTION_WINDOW_BYTES`] of each connection. When they are given away, a new stream shares
/// the window that its connection has. A connection keeps what it was given until it ends.
pub(super) const WINDOWS_BYTES_MAX: usize = 256 * 1024 * 1024;

/// What the frames of a connection that nobody has taken may take beyond their bytes, as `h2`
/// counts it: those of less than 256 bytes for 256. A client that is beyond is cut off; 1,000 small
/// frames are within, which are many requests under way.
pub(super) const FRAMES_OVERHEAD_BYTES_MAX: usize = 256 * 1024;

/// Bytes of one frame.
pub(super) const FRAME_BYTES_MAX: u32 = STREAM_WINDOW_BYTES;

/// Bytes of the headers of a request. Beyond, it is refused.
pub(super) const HEADER_BYTES_MAX: u32 = 8 * 1024;

/// Bytes that wait on a stream for a client to take them. Then we wait.
pub(super) const SEND_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of all requests that have arrived as a whole or in part and are not done, as they lie in
/// memory; and likewise of all answers that are read or sent, until the socket took them. What
/// finds no room waits for it, in the client's window. One request, and one answer, may be beyond
/// it: see [`crate::grpc::Room`].
pub(super) const REQUESTS_BYTES_MAX: usize = 512 * 1024 * 1024;
pub(super) const ANSWERS_BYTES_MAX: usize = 512 * 1024 * 1024;

/// One part in so many of these is for all connections from one address at most.
pub(super) const ADDRESS_SHARE: usize = 2;

/// One part in so many of these is for one connection at most.
pub(super) const CONNECTION_SHARE: usize = 4;

/// How long a client may take to say that it speaks HTTP/2.
pub(super) const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a client may take from the first byte of a request to the last, and how long to take
/// anything of an answer that waits for it. Then the stream is reset, and its memory free. A stream
/// that sends nothing at all ends with `UNAVAILABLE` then.
pub(super) const STALL_TIME_MAX: Duration = Duration::from_secs(60);

/// How long a client may send nothing within a request, or take nothing of an answer, while others
/// wait for the room that it has.
pub(super) const WAITED_TIME_MAX: Duration = Duration::from_secs(5);

/// How long a client may take for all of a request or an answer that is finished beyond the room
/// that there is: one is at a time.
pub(super) const FINISH_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a stream may be silent between two requests. Then it ends with `UNAVAILABLE`.
pub(super) const STREAM_IDLE_TIME_MAX: Duration = Duration::from_secs(5 * 60);

/// How long the kernel keeps what a client does not take from its socket. Then the connection ends.
pub(super) const UNTAKEN_TIME_MAX: Duration = Duration::from_secs(60);

/// How often a connection without streams is looked at, and closed if there were none since: the
/// next look comes before the 15 minutes after which Ozone's datanode does.
pub(super) const IDLE_TIME: Duration = Duration::from_secs(7 * 60);

/// After so long without a packet the kernel asks whether a client is still there.
pub(super) const KEEP_ALIVE_TIME: Duration = Duration::from_secs(5 * 60);

/// How long no connection is accepted after one could not be.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Bytes that the store leaves free of a disk that it shares with the server's own data, at most.
pub(super) const FREE_BYTES_MIN_DEFAULT: u64 = 1024 * 1024 * 1024;

/// How much nicer than the rest of the server the threads of the face are (nice(2)): a tenth of the
/// CPU is theirs where others want all of it.
pub(super) const NICE: i32 = 10;

/// How often the store writes out what it gathered.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// How often there is a piece of the store's background work.
pub(super) const UPKEEP_INTERVAL: Duration = Duration::from_millis(100);

/// The bytes of one such piece: 20 MB/s to give space back, and 5 MB/s to find damage, as Ozone's
/// scanner of data takes of a volume.
pub(super) const UPKEEP_BUDGET: UpkeepBudget =
    UpkeepBudget { bytes_moved_max: 2 * 1024 * 1024, bytes_scrubbed_max: 512 * 1024 };

/// How long nothing is read to find damage after all was read.
pub(super) const SCRUB_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

/// How long requests may still take when the server ends.
pub(super) const STOP_TIME_MAX: Duration = Duration::from_secs(5);

/// How long the store may take in all when the server ends. Less than the 30 s after which what
/// manages processes kills them; with a disk that hangs it would never end.
pub(super) const STORE_STOP_TIME_MAX: Duration = Duration::from_secs(20);

/// How long there is no work in the background after some failed, for lack of descriptors or room.
pub(super) const UPKEEP_PAUSE: Duration = Duration::from_secs(10);

/// How often a failure of the store is told, at most.
pub(super) const REPORT_INTERVAL: Duration = Duration::from_secs(1);

const _: () = assert!(REQUEST_BYTES_MAX < REQUESTS_BYTES_MAX / CONNECTION_SHARE);
const _: () = assert!(chunk::limits::ANSWER_BYTES_MAX * 2 < ANSWERS_BYTES_MAX / CONNECTION_SHARE);

/// The bounds that tests make smaller.
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

impl Limits {
    /// What a client of gRPC is given.
    pub(super) fn grpc(&self) -> grpc::Limits {
        grpc::Limits {
            message_bytes_max: REQUEST_BYTES_MAX,
            header_bytes_max: HEADER_BYTES_MAX,
            streams_max: STREAMS_MAX,
            stream_window_bytes: STREAM_WINDOW_BYTES,
            connection_window_bytes: CONNECTION_WINDOW_BYTES,
            frame_bytes_max: FRAME_BYTES_MAX,
            frames_overhead_bytes_max: FRAMES_OVERHEAD_BYTES_MAX,
            send_bytes_max: SEND_BYTES_MAX,
            handshake_time_max: HANDSHAKE_TIME_MAX,
            connection_idle_time: Some(IDLE_TIME),
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

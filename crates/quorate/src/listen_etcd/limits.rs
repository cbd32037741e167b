//! The constants that bound what the etcd face uses for its clients: memory, time, disk, and CPU.

use std::time::Duration;

/// How many accepted connections may wait until their runtime takes them. At this limit the
/// acceptor waits.
pub(super) const ACCEPTED_MAX: usize = 1_024;

/// How many bytes a client may send on a stream before the server takes them.
pub(super) const STREAM_WINDOW_BYTES: u32 = 64 * 1024;

/// How many bytes a client may at first send on a connection before the server takes them. Each
/// stream adds [`STREAM_WINDOW_BYTES`].
pub(super) const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;

/// How many bytes all clients together may send before the server takes them, not counting the
/// first [`CONNECTION_WINDOW_BYTES`] of each connection.
pub(super) const WINDOWS_BYTES_MAX: usize = 256 * 1024 * 1024;

/// How much overhead the frames that no handler has taken yet may have, as the crate `h2` counts
/// it. A connection with more is closed.
pub(super) const FRAMES_OVERHEAD_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The longest frame that a client may send, as in grpc-go. The crate `h2` accepts as many frames
/// of headers as [`HEADER_BYTES_MAX`] needs.
pub(super) const FRAME_BYTES_MAX: u32 = 16 * 1024;

/// The longest headers of a request, in bytes (grpc-go: 16 MiB, `defaultServerMaxHeaderListSize`).
/// A request with longer ones is refused. Headers are decoded, read and dropped without a pause, so
/// they never pile up.
pub(super) const HEADER_BYTES_MAX: u32 = 2 * 1024 * 1024;

/// How many bytes of responses a stream may hold until the client takes them. At this limit the
/// handler waits.
pub(super) const SEND_BYTES_MAX: usize = 1024 * 1024;

/// How many bytes of memory all requests may use that have arrived, wholly or in part, and are not
/// done. A request for which there is no memory waits, unread, in the client's window.
pub(super) const REQUESTS_BYTES_MAX: usize = 256 * 1024 * 1024;

/// How long a client may take for the TLS handshake, and for the first bytes that show its
/// protocol.
pub(super) const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a client may take from the first byte of a request to its last, and how long it may
/// take no byte of a waiting response. Then the stream is reset.
pub(super) const STALL_TIME_MAX: Duration = Duration::from_secs(60);

/// How long a client may pause within a request or a response while others wait for the memory that
/// it holds.
pub(super) const WAITED_TIME_MAX: Duration = Duration::from_secs(5);

/// How long a connection is silent before the kernel probes whether the client still exists, as in
/// etcd (`transport.NewKeepAliveListener`).
pub(super) const KEEP_ALIVE_TIME: Duration = Duration::from_secs(30);

/// How long sent bytes may stay unacknowledged by the client. Then the kernel ends the connection.
pub(super) const UNTAKEN_TIME_MAX: Duration = Duration::from_secs(60);

/// How long to wait before the next attempt, if a connection could not be accepted.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How often a Front that has calls gets the present time.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// How often a Front that has no calls gets the present time.
pub(super) const TICK_IDLE: Duration = Duration::from_secs(5);

/// One connection may use the bounds on memory ([`REQUESTS_BYTES_MAX`], [`RESPONSES_BYTES_MAX`] and
/// [`SMALL_ROOM_BYTES`]) divided by this.
pub(super) const CONNECTION_SHARE: usize = 4;

/// The longest head of a plain HTTP request (not gRPC), in bytes. A request with a longer head is
/// refused.
pub(super) const HTTP_HEAD_BYTES_MAX: usize = 64 * 1024;

/// The memory counted for the body of a plain HTTP request is the length of what has arrived times
/// this: the buffer may be twice as long as that, and the message made from it is not longer than
/// that.
pub(super) const BODY_TIMES: usize = 3;

/// The memory counted for a response's JSON while it is made is the length of its message times
/// this: a short key without a value takes 11 bytes in the message and 75 in JSON.
pub(super) const JSON_TIMES: usize = 8;

/// The memory for pieces of a large response's JSON that are made and not yet in the socket: one
/// being made, one in the channel, and two in the HTTP library, each for 64 KiB of the message.
pub(super) const JSON_PIECES_BYTES: usize = 4 * 64 * 1024 * JSON_TIMES;

/// The longest form of an etcd v2 request is the longest write in bytes times this: each byte may
/// be escaped as three.
pub(super) const FORM_TIMES: usize = 3;

/// An upper bound on the JSON of an etcd v2 answer without its keys and values, in bytes.
pub(super) const V2_FRAME_BYTES: usize = 512;

/// The longest etcd v2 request, in bytes, that is read without the HTTP library (a short request).
/// The connection's input buffer may grow to twice as much, its output buffer to as much.
pub(super) const SHORT_BYTES_MAX: usize = 8 * 1024;

/// How much space a connection with short requests has at least for each read of its socket.
/// Between two requests, each of the connection's two buffers keeps this much.
pub(super) const SHORT_READ_BYTES: usize = 2 * 1024;

/// The most headers of a short request.
pub(super) const SHORT_HEADERS_MAX: usize = 24;

/// The most reads of the socket that a short request may need.
pub(super) const SHORT_READS_MAX: usize = 8;

/// How long a finisher among the requests and responses may take in all, while others wait for
/// memory. A finisher may exceed a bound on memory, so that not all wait for each other's memory
/// (see `grpc`'s module `room`).
pub(super) const FINISH_TIME_MAX: Duration = Duration::from_secs(10);

/// How many bytes of an etcd v2 listing are made at once.
pub(super) const V2_PIECE_BYTES: usize = 64 * 1024;

/// How many pieces of a listing may be made and not yet in the socket: one being made, one in the
/// channel, and two in the HTTP library.
pub(super) const V2_PIECES_ON_THEIR_WAY: usize = 4;

/// For how many etcd v2 users a connection runtime remembers the password that it has verified
/// last.
pub(super) const V2_PROVEN_MAX: usize = 1_024;

/// The most headers of an HTTP/1.1 request. A request with more is refused.
pub(super) const HTTP_HEADERS_MAX: usize = 1_000;

/// How long to wait before looking again at the first bytes of a client that has sent too few.
pub(super) const PREFACE_PAUSE: Duration = Duration::from_millis(5);

/// A request or response of at most this many bytes is small. Small ones have memory of their own,
/// so that a short call does not wait behind responses that nobody reads.
pub(super) const SMALL_BYTES_MAX: usize = 64 * 1024;

/// How many bytes of memory all small requests, and all small responses, may use, besides
/// [`REQUESTS_BYTES_MAX`] and [`RESPONSES_BYTES_MAX`].
pub(super) const SMALL_ROOM_BYTES: usize = 64 * 1024 * 1024;

/// A gRPC response of at most this many bytes is encoded at once. The gRPC library would hold all
/// of it anyway.
pub(super) const WHOLE_BYTES_MAX: usize = SEND_BYTES_MAX;

/// How many bytes of memory all responses may use until the sockets have taken them. A response,
/// and its JSON, is encoded once there is memory for it. A large one is encoded in pieces as its
/// client takes them; the rest counts too, since the versions of keys that it shows may be in
/// memory for it alone. A response that is larger than its connection's share is sent nevertheless,
/// one such response at a time (see [`grpc::Room`]). It has at most 2^31 - 1 bytes, the longest
/// message that is sent.
pub(super) const RESPONSES_BYTES_MAX: usize = 512 * 1024 * 1024;

/// The niceness of threads for long work, compared to those that serve clients.
pub(super) const NICENESS: i32 = 10;

/// How many backups may be made or read by clients at one time; a further call is refused. Each has
/// a file.
pub(super) const BACKUPS_MAX: usize = 4;

/// How long a call waits for a backup while [`BACKUPS_MAX`] are under way. It is twice the time
/// after which a client that takes nothing loses its backup ([`WAITED_TIME_MAX`]).
pub(super) const BACKUP_WAIT_MAX: Duration = Duration::from_secs(10);

/// How often to check whether others wait while a client does not take its backup.
pub(super) const BACKUP_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How many bytes backups leave free on the disk, besides the space for one more snapshot: the log
/// needs them for segments that it creates ahead. On a small disk backups leave only the size of
/// the disk divided by [`BACKUP_FREE_SHARE`].
pub(super) const BACKUP_FREE_BYTES_MIN: u64 = 256 * 1024 * 1024;
pub(super) const BACKUP_FREE_SHARE: u64 = 8;

/// After how many bytes of a backup to check again that the disk has enough free space and that the
/// client still exists.
pub(super) const BACKUP_LOOK_BYTES: u64 = 16 * 1024 * 1024;

/// How many bytes of a backup are read at once.
pub(super) const BACKUP_READ_BYTES: usize = 256 * 1024;

/// The most threads that hash passwords; on a machine with few cores, half as many as cores.
pub(super) const PASSWORD_THREADS_MAX: usize = 4;

/// How many passwords may wait for such a thread. A further call is refused.
pub(super) const PASSWORDS_WAITING_MAX: usize = 1_000;

/// How many times a runtime may take the lock of the state, each time for some 100 us, before the
/// other tasks of its thread run.
pub(super) const TURN_HOLDS_MAX: usize = 8;

//! Upper bounds on what the face takes from etcd's clients.

use std::time::Duration;

/// Connections that are accepted and not yet taken by their runtime. At this limit the acceptor
/// waits.
pub(super) const ACCEPTED_MAX: usize = 1_024;

/// Bytes that a client may send on a stream before we take them.
pub(super) const STREAM_WINDOW_BYTES: u32 = 64 * 1024;

/// Bytes that a client may send on a connection before we take them, at the beginning. Each stream
/// adds its window.
pub(super) const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;

/// Bytes that all clients together may send before we take them, beside the first
/// [`CONNECTION_WINDOW_BYTES`] of each connection.
pub(super) const WINDOWS_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The overhead of frames that no handler has taken, as `h2` counts it.
pub(super) const FRAMES_OVERHEAD_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Bytes of one frame, as in grpc-go. The library takes so many frames of headers as
/// [`HEADER_BYTES_MAX`] needs.
pub(super) const FRAME_BYTES_MAX: u32 = 16 * 1024;

/// Bytes of the headers of a request (grpc-go: 16 MiB, `defaultServerMaxHeaderListSize`). A request
/// with more is refused. They are decoded, read and dropped in one turn of their connection.
pub(super) const HEADER_BYTES_MAX: u32 = 2 * 1024 * 1024;

/// Bytes that wait on a stream for a client to take them. At this limit we wait for the client.
pub(super) const SEND_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of memory of all requests that have arrived in whole or in part and are not done. A
/// request that finds no room waits for it, in the client's window.
pub(super) const REQUESTS_BYTES_MAX: usize = 256 * 1024 * 1024;

/// How long a client may take to say that it speaks HTTP/2.
pub(super) const HANDSHAKE_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a client may take from the first byte of a request to the last, and how long it may
/// take no bytes of a waiting response. After it the stream is reset.
pub(super) const STALL_TIME_MAX: Duration = Duration::from_secs(60);

/// How long a client may send nothing within a request, while others wait for its room.
pub(super) const WAITED_TIME_MAX: Duration = Duration::from_secs(5);

/// The silence after which the kernel probes whether a client is still there, as in etcd
/// (`transport.NewKeepAliveListener`).
pub(super) const KEEP_ALIVE_TIME: Duration = Duration::from_secs(30);

/// How long the kernel keeps bytes that a client does not take from its socket, or that it does not
/// acknowledge. After it the connection ends.
pub(super) const UNTAKEN_TIME_MAX: Duration = Duration::from_secs(60);

/// The pause after a connection could not be accepted.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The interval at which a Front with calls looks at the clock.
pub(super) const TICK: Duration = Duration::from_millis(100);

/// The interval at which a Front without calls looks at the clock.
pub(super) const TICK_IDLE: Duration = Duration::from_secs(5);

/// One connection may take one part in so many of these bytes.
pub(super) const CONNECTION_SHARE: usize = 4;

/// Bytes of the head of an HTTP/1.1 request. A request with more is refused.
pub(super) const HTTP_HEAD_BYTES_MAX: usize = 64 * 1024;

/// Room for the body of an HTTP/1.1 request, as a multiple of the bytes that have arrived: the
/// buffer may have twice as many, and the message that comes of the body has no more.
pub(super) const BODY_TIMES: usize = 3;

/// Room for the JSON of a response while it is made, as a multiple of the bytes of its message:
/// a short key without a value takes 11 bytes there, and 75 in JSON.
pub(super) const JSON_TIMES: usize = 8;

/// Bytes of the JSON of a large response that are made and not yet in the socket: one piece that is
/// made, one in hand, and two with the library of HTTP, each of 64 KiB of the message.
pub(super) const JSON_PIECES_BYTES: usize = 4 * 64 * 1024 * JSON_TIMES;

/// Bytes of a form of etcd v2, as a multiple of the bytes of a request to write: each byte may be
/// written as three.
pub(super) const FORM_TIMES: usize = 3;

/// Bytes of the JSON of an answer of etcd v2 without keys and values.
pub(super) const V2_FRAME_BYTES: usize = 512;

/// Bytes of a request of etcd v2 that is read without the library of HTTP. The connection holds up
/// to twice as many for what it reads, and as many for what it writes.
pub(super) const SHORT_BYTES_MAX: usize = 8 * 1024;

/// Bytes that such a connection asks its socket for at once, at least. Between two requests it
/// keeps so many for what it reads, and for what it writes.
pub(super) const SHORT_READ_BYTES: usize = 2 * 1024;

/// Headers of such a request.
pub(super) const SHORT_HEADERS_MAX: usize = 24;

/// Reads of a socket that such a request may take.
pub(super) const SHORT_READS_MAX: usize = 8;

/// How long an answer may take in all that needs no room because others gave way, while others
/// wait.
pub(super) const FINISH_TIME_MAX: Duration = Duration::from_secs(10);

/// Bytes of a listing of etcd v2 that are made at once.
pub(super) const V2_PIECE_BYTES: usize = 64 * 1024;

/// Pieces of a listing that are made and not yet in the socket: one that is made, one in hand, and
/// two with the library of HTTP.
pub(super) const V2_PIECES_ON_THEIR_WAY: usize = 4;

/// Users of etcd v2 whose last password a connection runtime keeps as proven.
pub(super) const V2_PROVEN_MAX: usize = 1_024;

/// Headers of an HTTP/1.1 request. A request with more is refused.
pub(super) const HTTP_HEADERS_MAX: usize = 1_000;

/// The pause before another look at the first bytes of a client that has sent two of them or less.
pub(super) const PREFACE_PAUSE: Duration = Duration::from_millis(5);

/// Bytes of a small request or response. Small ones have room of their own, so that a call which
/// asks for little does not wait behind responses that nobody reads.
pub(super) const SMALL_BYTES_MAX: usize = 64 * 1024;

/// Bytes of memory of all small requests, and of all small responses, beside
/// [`REQUESTS_BYTES_MAX`] and [`RESPONSES_BYTES_MAX`].
pub(super) const SMALL_ROOM_BYTES: usize = 64 * 1024 * 1024;

/// Bytes of a gRPC response that is made at once. The library would hold all of it anyway.
pub(super) const WHOLE_BYTES_MAX: usize = SEND_BYTES_MAX;

/// Bytes of memory of all responses until the sockets have taken them. A response is encoded when
/// there is room for it, and so is its JSON. A large one is encoded in pieces, as its client takes
/// them: the rest counts as well, since the versions that it shows may be in memory for it alone.
/// One larger than a share goes alone: see [`grpc::Room`]. It has at most 2^31 - 1 bytes,
/// the longest message that is sent.
pub(super) const RESPONSES_BYTES_MAX: usize = 512 * 1024 * 1024;

/// By how much threads for long work are nicer than those that serve.
pub(super) const NICENESS: i32 = 10;

/// Backups that are made or read by clients at one time; another one is refused. Each has a file.
pub(super) const BACKUPS_MAX: usize = 4;

/// How long a call waits while so many are held. Twice the time in which a client that takes
/// nothing must let go of its backup ([`WAITED_TIME_MAX`]).
pub(super) const BACKUP_WAIT_MAX: Duration = Duration::from_secs(10);

/// How often it is looked whether others wait for a backup that its client does not take.
pub(super) const BACKUP_LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Bytes of the disk that backups leave free, beside those of one more snapshot: for the segments
/// of the log that are made ahead. On a small disk it is one part in so many.
pub(super) const BACKUP_FREE_BYTES_MIN: u64 = 256 * 1024 * 1024;
pub(super) const BACKUP_FREE_SHARE: u64 = 8;

/// Bytes of a backup that are written between two checks of the free bytes of the disk, and of
/// whether its client is still there.
pub(super) const BACKUP_LOOK_BYTES: u64 = 16 * 1024 * 1024;

/// Bytes of a backup that are read at once.
pub(super) const BACKUP_READ_BYTES: usize = 256 * 1024;

/// Threads that hash passwords, at most; half as many as cores where that is less.
pub(super) const PASSWORD_THREADS_MAX: usize = 4;

/// Passwords that wait for such a thread. Another call is refused.
pub(super) const PASSWORDS_WAITING_MAX: usize = 1_000;

/// Holds of the state's lock that one turn of a connection runtime takes, each of some 100 us.
pub(super) const TURN_HOLDS_MAX: usize = 8;

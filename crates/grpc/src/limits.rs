//! Upper bounds on what a face takes from its clients. Each face has its own values, in its
//! `limits.rs`.

use std::time::Duration;

use super::keep_alive::PingPolicy;

/// Bytes of one answer message, as in grpc-go (`defaultServerMaxSendMessageSize`; etcd sets the
/// same). A call with a longer one ends with `RESOURCE_EXHAUSTED`.
pub const SENT_BYTES_MAX: usize = (1 << 31) - 1;

/// Connections of a face that may be in the middle of headers too long to be waited for as a whole.
pub const LONG_HEADERS_MAX: usize = 16;

/// Bounds of the connections of a face, and of their streams.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of one request message. A longer one ends the call with `RESOURCE_EXHAUSTED`.
    pub message_bytes_max: usize,
    /// Whether messages compressed with gzip are taken. If not, they are refused as
    /// `UNIMPLEMENTED`. Answers are never compressed.
    pub takes_gzip: bool,
    /// Bytes of the headers of a request, 32 more for each counted (RFC 9113, 6.5.2). A request
    /// with more is refused.
    pub header_bytes_max: u32,
    /// As `header_bytes_max`, for requests that are no calls of gRPC.
    pub web_header_bytes_max: usize,
    /// The keys of metadata that handlers read. Others are dropped.
    pub metadata_keys: &'static [&'static str],
    /// The prefix that their values may have, in exactly this case; it is cut off.
    pub metadata_prefix: &'static str,
    /// Streams of one connection. The client gets the number; a further stream is refused.
    pub streams_max: u32,
    /// Bytes that a client may send on a stream before the handler takes them.
    pub stream_window_bytes: u32,
    /// Bytes that a client may send on a connection before the handlers take them, at the
    /// beginning. Each stream adds its window while the face has windows left.
    pub connection_window_bytes: u32,
    /// Bytes of one frame.
    pub frame_bytes_max: u32,
    /// Bytes of small frames, beyond their data, that no handler has taken, as `h2` counts them.
    /// Above it the connection is cut off.
    pub frames_overhead_bytes_max: usize,
    /// Bytes of an answer that the library holds for the socket, on one stream.
    pub send_bytes_max: usize,
    /// How long a client may take to say that it speaks HTTP/2.
    pub handshake_time_max: Duration,
    /// The interval at which an idle connection is checked. It is closed if it had no stream since
    /// the last check.
    pub connection_idle_time: Option<Duration>,
    /// How pings are dealt with; `None` if clients may ping as they like, and are sent no pings.
    pub pings: Option<PingPolicy>,
    /// How long a face waits for the client of one stream.
    pub patience: Patience,
}

/// How long a face waits for the client of one stream.
#[derive(Clone, Debug)]
pub struct Patience {
    /// The time from the first byte of a message to its last, and the time until the client takes
    /// any bytes of an answer. After it the stream is reset.
    pub stall_time: Duration,
    /// The time until the next byte while other clients wait for the room that the stream holds.
    pub waited_time: Duration,
    /// The time for the rest of a message that has become a finisher, beyond the room that there
    /// is.
    pub finish_time: Duration,
    /// The time for the first message, or the call ends with `UNAVAILABLE`; `None` for no limit.
    pub first_time: Option<Duration>,
    /// The time between two messages, or the call ends with `UNAVAILABLE`; `None` for no limit.
    pub idle_time: Option<Duration>,
}

//! The limits on what a face accepts from its clients. Each face sets its own values, in its
//! `limits.rs`.

use std::time::Duration;

use super::keep_alive::PingPolicy;

/// The most bytes of one answer message, as in grpc-go (`defaultServerMaxSendMessageSize`; etcd
/// sets the same). A call with a longer answer ends with `RESOURCE_EXHAUSTED`.
pub const SENT_BYTES_MAX: usize = (1 << 31) - 1;

/// How many connections of a face may be sending headers that are too long to be held back whole.
pub const LONG_HEADERS_MAX: usize = 16;

/// The limits of a face's connections and their streams.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The most bytes of one request message. A longer one ends the call with `RESOURCE_EXHAUSTED`.
    pub message_bytes_max: usize,
    /// Whether clients may compress messages with gzip. If not, such messages are refused with
    /// `UNIMPLEMENTED`. Answers are never compressed.
    pub takes_gzip: bool,
    /// The most bytes of the headers of a request, with 32 added for each header (RFC 9113, 6.5.2).
    /// A request with more is refused.
    pub header_bytes_max: u32,
    /// Like `header_bytes_max`, for requests that are not gRPC calls.
    pub web_header_bytes_max: usize,
    /// The keys of metadata that handlers read. All other keys are dropped.
    pub metadata_keys: &'static [&'static str],
    /// A prefix that is cut off the values of these keys, if a value begins with it in the same
    /// upper and lower case. Empty if nothing is to be cut off.
    pub metadata_prefix: &'static str,
    /// The most streams of one connection. The client learns the number; a further stream is
    /// refused.
    pub streams_max: u32,
    /// Bytes that a client may send on a stream before the handler takes them.
    pub stream_window_bytes: u32,
    /// Bytes that a client may send on a new connection before the handlers take them. Each stream
    /// adds `stream_window_bytes`, as long as the face has windows left.
    pub connection_window_bytes: u32,
    /// The most bytes of one frame's payload.
    pub frame_bytes_max: u32,
    /// The most overhead of small frames that no handler has taken, in bytes beyond their data, as
    /// `h2` counts it. A connection with more ends.
    pub frames_overhead_bytes_max: usize,
    /// The most bytes of answers that the library buffers for the socket, for each stream.
    pub send_bytes_max: usize,
    /// How long the handshake of HTTP/2 may take.
    pub handshake_time_max: Duration,
    /// How often a connection is checked for idleness; `None` for never. It is closed if it had no
    /// stream since the last check.
    pub connection_idle_time: Option<Duration>,
    /// How pings are limited and sent; `None` if clients may ping as they like, and get no pings.
    pub pings: Option<PingPolicy>,
    /// How long a face waits for a slow client.
    pub patience: Patience,
}

/// How long a face waits for the client of one stream. When one of the first three times is over,
/// the stream is reset.
#[derive(Clone, Debug)]
pub struct Patience {
    /// How long a message may take from its first byte to its last, and how long a client may take
    /// no byte of an answer.
    pub stall_time: Duration,
    /// How long the next byte may take while other clients wait for the room that the stream holds.
    pub waited_time: Duration,
    /// How long the rest of a message may take if its room is a finisher (see the module `room`).
    pub finish_time: Duration,
    /// How long the first message may take; then the call ends with `UNAVAILABLE`. `None` for no
    /// limit.
    pub first_time: Option<Duration>,
    /// How long a client may pause between messages; then the call ends with `UNAVAILABLE`. `None`
    /// for no limit.
    pub idle_time: Option<Duration>,
}

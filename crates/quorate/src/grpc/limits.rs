//! What a face takes of its clients, at most. Each face has its own values, in its `limits.rs`.

use std::time::Duration;

/// Bounds of the connections of a face, and of their streams.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of one request message. Beyond, the call is `RESOURCE_EXHAUSTED`.
    pub message_bytes_max: usize,
    /// Bytes of the headers of a request. Beyond, it is refused.
    pub header_bytes_max: u32,
    /// Streams of one connection. The client is told; a stream beyond is refused.
    pub streams_max: u32,
    /// Bytes that a client may send on a stream before they are taken.
    pub stream_window_bytes: u32,
    /// Bytes that a client may send on a connection before they are taken, to begin with. Each
    /// stream adds its window while the face has windows left.
    pub connection_window_bytes: u32,
    /// Bytes of one frame.
    pub frame_bytes_max: u32,
    /// Bytes by which small frames that nobody has taken may exceed their data, as `h2` counts
    /// them. Beyond, the connection is cut off.
    pub frames_overhead_bytes_max: usize,
    /// Bytes of an answer that wait in the library for the socket, on one stream.
    pub send_bytes_max: usize,
    /// How long a client may take to say that it speaks HTTP/2.
    pub handshake_time_max: Duration,
    /// How often a connection without streams is looked at, and closed if it had none since.
    pub connection_idle_time: Option<Duration>,
    pub patience: Patience,
}

/// How long a face waits for the client of one stream.
#[derive(Clone, Debug)]
pub struct Patience {
    /// From the first byte of a message to its last; and until the client takes anything of an
    /// answer. Then the stream is reset.
    pub stall_time: Duration,
    /// Until the next byte, while others wait for the room that the stream holds.
    pub waited_time: Duration,
    /// For all of a message that is finished beyond the room that there is.
    pub finish_time: Duration,
    /// Until the first message; none: for ever. Then the call is `UNAVAILABLE`.
    pub first_time: Option<Duration>,
    /// Between two messages; none: for ever. Then the call is `UNAVAILABLE`.
    pub idle_time: Option<Duration>,
}

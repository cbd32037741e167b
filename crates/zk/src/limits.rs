//! Bounds and sizes of ZooKeeper's protocol.

/// The longest body of a request frame, in bytes, unless the setting `jute.maxbuffer` changes it:
/// ZooKeeper's default, 1 MiB less one byte. A longer frame closes the connection, as in ZooKeeper.
pub const FRAME_BYTES_MAX_DEFAULT: u32 = 0xf_ffff;

/// The largest `jute.maxbuffer` that the configuration accepts, in bytes: a command must fit into
/// one log entry.
pub const FRAME_BYTES_MAX_LIMIT: u32 = 48 * 1024 * 1024;

/// The longest connect request, in bytes: 44 or 45, and some more for clients that append fields.
pub const CONNECT_BYTES_MAX: u32 = 1024;

/// Bytes of a request header (xid, opcode).
pub const REQUEST_HEADER_BYTES: usize = 8;

/// Bytes of a reply header (xid, zxid, error).
pub const REPLY_HEADER_BYTES: usize = 16;

/// Bytes of a Stat on the wire.
pub const STAT_BYTES: usize = 68;

/// The longest SASL token, in bytes: what the JDK's DIGEST-MD5 takes
/// (`DigestMD5Base.MAX_RESPONSE_LENGTH`). A longer token fails the authentication, which closes the
/// connection unless the configuration tolerates failures.
pub const SASL_TOKEN_BYTES_MAX: usize = 4096;

/// The largest result of a read, in bytes as [`crate::response::result_bytes`] counts them. The
/// length of a frame has 31 bits, and the reply header, a Stat and two length fields come on top.
/// ZooKeeper fails beyond 2 GiB.
pub const RESULT_BYTES_MAX: u64 =
    i32::MAX as u64 - (REPLY_HEADER_BYTES + STAT_BYTES + 2 * 4) as u64;

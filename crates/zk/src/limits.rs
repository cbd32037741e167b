//! Named bounds of the protocol.

/// Bytes of one request frame unless `jute.maxbuffer` says otherwise (ZooKeeper's default, 1 MiB
/// less one). A longer frame closes the connection, as in ZooKeeper.
pub const FRAME_BYTES_MAX_DEFAULT: u32 = 0xf_ffff;

/// The largest value of `jute.maxbuffer` that is accepted: a command must fit one log entry.
pub const FRAME_BYTES_MAX_LIMIT: u32 = 48 * 1024 * 1024;

/// Bytes of a connect request: 44 or 45 and some room for clients that append to it.
pub const CONNECT_BYTES_MAX: u32 = 1024;

/// Bytes of a request header (xid, opcode).
pub const REQUEST_HEADER_BYTES: usize = 8;

/// Bytes of a reply header (xid, zxid, error).
pub const REPLY_HEADER_BYTES: usize = 16;

/// Bytes of a Stat on the wire.
pub const STAT_BYTES: usize = 68;

/// Bytes of one SASL token: as many as the JDK's DIGEST-MD5 takes
/// (`DigestMD5Base.MAX_RESPONSE_LENGTH`). A longer one fails the authentication, which closes the
/// connection unless failures are allowed.
pub const SASL_TOKEN_BYTES_MAX: usize = 4096;

/// Bytes of the result of a read, as [`crate::response::result_bytes`] counts them: a frame has 31
/// bits for its length, and header, Stat and two lengths come on top. ZooKeeper fails beyond 2 GiB.
pub const RESULT_BYTES_MAX: u64 =
    i32::MAX as u64 - (REPLY_HEADER_BYTES + STAT_BYTES + 2 * 4) as u64;

//! Named bounds of the client.

use std::time::Duration;

/// How long one server may take to accept a connection, and to answer the connect request, before
/// the next one is tried.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// How long a request waits for its answer. ZooKeeper's client waits for ever unless
/// `zookeeper.request.timeout` is set; a shell should say that nothing comes.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// How long bytes may wait for a server that does not read before the connection is given up.
pub const WRITE_LIMIT: Duration = Duration::from_secs(10);

/// Pause before a round of the servers is tried once more, the first time and at most.
pub const RETRY_PAUSE_MIN: Duration = Duration::from_millis(50);
/// See [`RETRY_PAUSE_MIN`].
pub const RETRY_PAUSE_MAX: Duration = Duration::from_secs(1);

/// Pause before a client that can only read looks for a server that can be written to, the first
/// time and at most (`ClientCnxn.SendThread`, 3.9.5: the same).
pub const PROBE_PAUSE_MIN: Duration = Duration::from_millis(100);
/// See [`PROBE_PAUSE_MIN`].
pub const PROBE_PAUSE_MAX: Duration = Duration::from_secs(60);

/// How long that server may take to accept a connection, and to answer (`ClientCnxn`: the same).
pub const PROBE_LIMIT: Duration = Duration::from_secs(1);

/// Bytes of a frame from a server: replies have no limit in ZooKeeper; this is a guard against
/// something that is no ZooKeeper server.
pub const FRAME_BYTES_MAX: u32 = 256 * 1024 * 1024;

/// Bytes of paths in one request that sets watches again, so that it stays below `jute.maxbuffer`
/// of any server (`ClientCnxn.SET_WATCHES_MAX_LENGTH`, 3.9.5).
pub const SET_WATCHES_BYTES_MAX: usize = 128 * 1024;

/// Watches kept for the next connection. One more is set on the server, and is not set again when
/// the connection is lost.
pub const WATCHES_MAX: usize = 100_000;

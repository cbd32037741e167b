//! Named bounds of the client.

use std::time::Duration;

/// How long one server may take to accept a connection, and to answer the connect request, before
/// the next server is tried.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// How long a request waits for its answer. ZooKeeper's client waits for ever unless
/// `zookeeper.request.timeout` is set; a shell should report that no answer comes.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// How long bytes may wait for a server that does not read before the connection is given up.
pub const WRITE_LIMIT: Duration = Duration::from_secs(10);

/// The first pause before another round of the servers.
pub const RETRY_PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest pause before another round of the servers.
pub const RETRY_PAUSE_MAX: Duration = Duration::from_secs(1);

/// The first pause before a read-only client looks for a server that can be written to, as in
/// `ClientCnxn.SendThread`, 3.9.5.
pub const PROBE_PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest such pause, as in `ClientCnxn.SendThread`.
pub const PROBE_PAUSE_MAX: Duration = Duration::from_secs(60);

/// How long such a server may take to accept a connection, and to answer, as in `ClientCnxn`.
pub const PROBE_LIMIT: Duration = Duration::from_secs(1);

/// Bytes of paths in one request that sets watches again, so that it stays below `jute.maxbuffer`
/// of any server (`ClientCnxn.SET_WATCHES_MAX_LENGTH`, 3.9.5).
pub const SET_WATCHES_BYTES_MAX: usize = 128 * 1024;

/// Watches that are kept for the next connection. A further watch is set on the server, but not set
/// again when the connection is lost.
pub const WATCHES_MAX: usize = 100_000;

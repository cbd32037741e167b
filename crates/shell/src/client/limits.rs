//! Named bounds of the ZooKeeper client.

use std::time::Duration;

/// How long a server may take to accept a connection, and then to answer the connect request,
/// before the next server is tried.
pub const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// How long a request waits for its answer. ZooKeeper's client waits for ever unless
/// `zookeeper.request.timeout` is set; a shell must report that no answer comes.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// How long a write may wait for a server that does not read. Then the connection ends.
pub const WRITE_LIMIT: Duration = Duration::from_secs(10);

/// The pause after the first failed round. A round is one attempt to connect to each server.
pub const RETRY_PAUSE_MIN: Duration = Duration::from_millis(50);
/// The longest pause between two rounds.
pub const RETRY_PAUSE_MAX: Duration = Duration::from_secs(1);

/// The first pause before a read-only client looks for a server that accepts writes, as in
/// `ClientCnxn.SendThread`, 3.9.5.
pub const PROBE_PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause between two such searches, as in `ClientCnxn.SendThread`.
pub const PROBE_PAUSE_MAX: Duration = Duration::from_secs(60);

/// How long a server may take to accept the connection of such a search, and then to answer, as in
/// `ClientCnxn`.
pub const PROBE_LIMIT: Duration = Duration::from_secs(1);

/// Bytes of paths after which a request that sets watches again is complete, so that it stays below
/// `jute.maxbuffer` of any server (`ClientCnxn.SET_WATCHES_MAX_LENGTH`, 3.9.5).
pub const SET_WATCHES_BYTES_MAX: usize = 128 * 1024;

/// How many watches are remembered for the next connection. A further watch is set on the server,
/// but not set again when the connection is lost.
pub const WATCHES_MAX: usize = 100_000;

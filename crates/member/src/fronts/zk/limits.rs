//! Bounds of ZooKeeper's clients: how much of theirs is under way at once, and what happens at the
//! bound.

use crate::limits::{
    HEARTBEAT_QUIET_MS, OUTPUT_BYTES_MAX, READ_HOLD_REQUESTS_MAX, REPLIES_BYTES_CALM,
    REPLIES_BYTES_MAX, SMALL_REPLY_BYTES,
};

/// Requests of one connection that are not yet answered. At the bound the connection is not read.
/// The load test that pipelines deepest keeps 10,000 outstanding on its side of the socket.
pub const WINDOW_REQUESTS_MAX: usize = 1_024;

/// Bytes of commands of one connection that are not yet answered. At the bound the connection is
/// not read; one larger request goes alone.
pub const WINDOW_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Bytes of output at which a client that does not read is disconnected. Only events can take it
/// that far: one for each watch it set, and any number for a persistent one. While the room for all
/// replies is full, [`OUTPUT_BYTES_MAX`](crate::limits::OUTPUT_BYTES_MAX) is enough for that.
pub const OUTPUT_BYTES_LIMIT: usize = 64 * 1024 * 1024;

/// How long a client may take to read [`OUTPUT_TAKEN_BYTES_MIN`] while the room for all replies is
/// nearly full. A slower client with more than a small reply unread is disconnected.
pub const OUTPUT_STALL_MS: u64 = 2_000;

/// How long a request waits for room for its reply, or a sixth of its session's timeout if that is
/// less. Then it is refused with a timeout: its client would otherwise take the server for dead,
/// come back and ask again.
pub const ROOM_WAIT_MS_MAX: u64 = 2 * OUTPUT_STALL_MS;

/// Bytes that a client must read within [`OUTPUT_STALL_MS`]: 16 KB a second.
pub const OUTPUT_TAKEN_BYTES_MIN: u64 = 32 * 1024;

/// The most bytes between a connection runtime's share of the room for replies and the share that
/// it last reported.
pub const REPLIES_TOLD_BYTES: usize = 64 * 1024;

/// Connections that resume at once when there is room for replies again; the others follow later.
pub const PARKED_RESUMED_MAX: usize = 64;

/// How long each Front only counts replies that are too large after it logged one.
pub const REFUSED_REPLY_INTERVAL_MS: u64 = 1_000;

/// Bytes read ahead from a connection beyond its current frame.
pub const INPUT_BYTES_MAX: usize = 64 * 1024;

/// Reads of one connection that travel with its writes. Further ones wait for their turn.
pub const TRAVELLING_READS_MAX: usize = 64;

/// Reads of all connections of a runtime that travel with writes. Further ones wait for their turn.
/// Apply answers each with [`SMALL_REPLY_BYTES`](crate::limits::SMALL_REPLY_BYTES) whether there is
/// room for replies or not, so this bounds what it builds there: 64 MiB.
pub const FRONT_TRAVELLING_READS_MAX: usize = 4_096;

/// The most bytes of a write that a read travels with: the reply may be as large as the write.
pub const TRAVELLED_WRITE_BYTES_MAX: usize = SMALL_REPLY_BYTES;

/// Small replies that a connection must get after a large one before its reads travel again.
pub const SMALL_REPLIES_TO_TRAVEL: u32 = 64;

/// Bytes that the answers to one multi-read may have. Beyond, it is refused with a marshalling
/// error. ZooKeeper has no bound; its Java client takes 4 MiB (`jute.maxbuffer` of the client). One
/// such answer never fills the room for all replies.
pub const MULTI_READ_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Bytes that the watches of one connection may take, paths and all. One more disconnects it.
/// ZooKeeper has no bound. Enough for half a million watches with paths of 150 bytes.
pub const WATCH_BYTES_MAX: usize = 128 * 1024 * 1024;

/// Bytes that a watch takes beside its path. Where many watch the same path, a watch takes a third
/// of that and the path is stored once; the bound ignores this, so that it does not depend on other
/// clients.
pub const WATCH_BYTES: usize = 100;

/// Bytes of replies that one read hold of the state's lock writes, or one reply if larger.
pub const READ_HOLD_BYTES_MAX: usize = 64 * 1024;

/// Slots of the tree that one step of a getAllChildrenNumber looks at. A step takes about as long
/// as a read, and counts as one in the bounds of a hold and of a turn: a count among a million
/// znodes takes some hundred holds, and other requests run in between.
pub const COUNT_STEP_SLOTS_MAX: u32 = 128;

/// Names that one step of a list of children adds, and reads that one step of a multi-read makes: a
/// step takes 0.1 ms or so. Each time that a change makes it begin anew, its steps may be twice as
/// long.
pub const LIST_STEP_NAMES: usize = 1_024;

/// Paths of a setWatches that are handled before the next client's turn. Each counts as a request
/// in the bounds of a hold: a request of a megabyte has fifty thousand.
pub const SET_WATCHES_STEP_PATHS: usize = READ_HOLD_REQUESTS_MAX;

/// Znodes that one step of a getEphemerals looks at. Each counts as a request in the bounds of a
/// hold.
pub const EPHEMERALS_STEP_ZNODES: usize = READ_HOLD_REQUESTS_MAX;

/// Changes, answers and events that a Front takes out of the deliveries of Apply at once.
pub const FEED_PIECE_EVENTS: usize = 256;

/// Bytes of the path of a change that count as one more event: each level above it is looked at for
/// recursive watches.
pub const FEED_PIECE_PATH_BYTES: usize = 256;

/// Places in the tables of closed connections that a Front looks at at once to remove their
/// watches.
pub const CLOSED_PIECE_WATCHES: usize = 256;

/// Requests of one connection that are answered before the next one's turn.
pub const READ_TURN_REQUESTS_MAX: usize = 16;

/// Capacity of an emptied output buffer that is kept for the next replies while requests are under
/// way.
pub const OUTPUT_KEPT_BYTES: usize = 64 * 1024;

/// Capacity of an emptied output buffer that is kept while no request is under way: a reply or two
/// without data fit.
pub const OUTPUT_KEPT_IDLE_BYTES: usize = 512;

/// Requests that an emptied window keeps room for while none is under way.
pub const WINDOW_KEPT_REQUESTS: usize = 8;

/// Bytes of input at which a connection that was idle takes the Front's spare buffers.
pub const SPARE_INPUT_BYTES_MIN: usize = 1024;

/// How long a connection may be without a session, from when it is accepted, unless configured
/// (`nio.sessionlessCnxnTimeout`, ZooKeeper's default). Then it is closed, whatever it has sent.
pub const SESSIONLESS_MS_DEFAULT: u64 = 10_000;

/// How long a member without contact to a leader lets a client wait for its session: an election
/// takes less. Then the connection is closed, and the client tries another server.
pub const CONNECT_HOLD_MS_MAX: u64 = 1_000;

/// The part of a client's timeout that it is made to wait at most: one in this many. The rest is
/// left to find another server.
pub const CONNECT_HOLD_PART: u64 = 6;

/// How old the contact to a reachable leader may be while nothing is written.
pub const CONTACT_MS_USUAL: u64 = 3 * HEARTBEAT_QUIET_MS;

/// How long a connection that is being closed may take to read its last bytes.
pub const CLOSING_MS_MAX: u64 = 5_000;

/// Identities that one connection may collect by auth packets. One more disconnects it.
pub const CONNECTION_IDENTITIES_MAX: usize = 100;

/// Bytes of one connection's identities as they travel with each batch: a name of any length fits
/// an auth packet. ZooKeeper has no bound; a digest takes some 40 bytes and the name. A connection
/// with more is disconnected.
pub const CONNECTION_IDENTITY_BYTES_MAX: usize = 16 * 1024;

/// Bytes of the entries that `auth` may become in the ACLs of one request: each `auth` entry
/// becomes as many as the connection has identities. As much as a request has by default; an ACL
/// that goes beyond is refused as invalid. ZooKeeper has no bound.
pub const ACL_AUTH_BYTES_MAX: usize = 1024 * 1024;

/// Connections of one Front that ended before their commands were answered. At the bound the
/// commands of further connections that end are not given up: they are handed over, though nobody
/// waits for them. Each connection had credit for its commands, so only clients that come and go
/// while nothing is committed can reach the bound.
pub const DEPARTED_CONNECTIONS_MAX: usize = 10_000;

/// How long a Front sleeps at most while its clients are at rest.
pub const REST_TICK_MS_MAX: u64 = 5_000;

/// First elements of paths for which one Front counts reads and writes separately; the others are
/// counted together. ZooKeeper has no bound. A scrape shows six lines of each.
pub const NAMESPACES_MAX: usize = 256;

/// Bytes of a first element of a path. A longer one is counted with the others.
pub const NAMESPACE_BYTES_MAX: usize = 128;

/// How long each Front only counts slow requests after it logged one.
pub const SLOW_REQUEST_INTERVAL_MS: u64 = 1_000;

/// Watches that a runtime looks at in one go for a list of them. Between two pages it serves
/// clients.
pub const WATCH_PAGE_COUNT: usize = 2_048;

/// Bytes of paths in a page of watches, or one path if longer.
pub const WATCH_PAGE_BYTES: usize = 256 * 1024;

/// Connections that a runtime looks at in one go for a list of them.
pub const CONNECTION_PAGE_COUNT: usize = 1_024;

const _: () = assert!(CONNECTION_IDENTITIES_MAX < machine::limits::IDENTITIES_MAX);

const _: () = assert!(OUTPUT_BYTES_MAX < OUTPUT_BYTES_LIMIT);

const _: () = assert!(REPLIES_BYTES_CALM + MULTI_READ_BYTES_MAX < REPLIES_BYTES_MAX);

// A batch fits an entry, however many connections share it, and so does the largest request.
const _: () = assert!(
    machine::limits::BATCH_COMMANDS_MAX * CONNECTION_IDENTITY_BYTES_MAX
        + 2 * machine::limits::BATCH_BYTES_MAX
        <= machine::limits::ENTRY_BYTES_MAX
);

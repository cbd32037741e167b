//! Bounds on what ZooKeeper's clients may have under way at once, on the time that it may take, and
//! on the memory that is kept for it. Most constants say what happens at the bound.

use crate::limits::{
    HEARTBEAT_QUIET_MS, OUTPUT_BYTES_MAX, READ_HOLD_REQUESTS_MAX, REPLIES_BYTES_CALM,
    REPLIES_BYTES_MAX, SMALL_REPLY_BYTES,
};

/// The most unanswered requests of one connection. At the bound the connection is not decoded
/// further. The load test that pipelines deepest keeps 10,000 requests outstanding on its side of
/// the socket.
pub const WINDOW_REQUESTS_MAX: usize = 1_024;

/// The most bytes of unanswered commands of one connection. At the bound the connection is not
/// decoded further. A larger single request goes alone.
pub const WINDOW_BYTES_MAX: usize = 2 * 1024 * 1024;

/// A client that leaves this many bytes of output unread is disconnected. Only events can take it
/// that far: one for each watch that it has set, and any number for a persistent watch. While the
/// room for all replies is full, [`OUTPUT_BYTES_MAX`](crate::limits::OUTPUT_BYTES_MAX) is the
/// limit.
pub const OUTPUT_BYTES_LIMIT: usize = 64 * 1024 * 1024;

/// While the room for all replies is nearly full, a client must read [`OUTPUT_TAKEN_BYTES_MIN`] in
/// this time. A slower client with more than a small reply unread is disconnected.
pub const OUTPUT_STALL_MS: u64 = 2_000;

/// How long a request waits for room for its reply, in ms. The wait is a sixth of the session's
/// timeout, if that is less. After the wait the request is refused with a timeout: if it waited
/// longer, its client would take the server for dead, come back and ask again.
pub const ROOM_WAIT_MS_MAX: u64 = 2 * OUTPUT_STALL_MS;

/// The bytes that a client must read within [`OUTPUT_STALL_MS`]: 16 KB a second.
pub const OUTPUT_TAKEN_BYTES_MIN: u64 = 32 * 1024;

/// A Front reports the bytes of its replies to the room when they differ by this much from the last
/// report.
pub const REPLIES_TOLD_BYTES: usize = 64 * 1024;

/// The most parked connections that resume at once when there is room for replies again. The others
/// follow later.
pub const PARKED_RESUMED_MAX: usize = 64;

/// After a Front has logged a reply that is too large, it only counts others for this time.
pub const REFUSED_REPLY_INTERVAL_MS: u64 = 1_000;

/// The most bytes that are read from a connection beyond its current frame.
pub const INPUT_BYTES_MAX: usize = 64 * 1024;

/// The most reads of one connection that travel with its writes. Further reads wait for their turn.
pub const TRAVELLING_READS_MAX: usize = 64;

/// The most reads of all connections of a Front that travel with writes. Further reads wait for
/// their turn. Apply builds a reply of up to
/// [`SMALL_REPLY_BYTES`](crate::limits::SMALL_REPLY_BYTES) for each such read, even if there is no
/// room for replies, so this bounds such replies to 64 MiB.
pub const FRONT_TRAVELLING_READS_MAX: usize = 4_096;

/// A read travels only with a write of at most this many bytes, because the read's reply may be as
/// large as the write.
pub const TRAVELLED_WRITE_BYTES_MAX: usize = SMALL_REPLY_BYTES;

/// After a large reply, a connection must get this many small replies before its reads travel
/// again.
pub const SMALL_REPLIES_TO_TRAVEL: u32 = 64;

/// The most bytes in the answer to one multi-read. A larger one is refused with a marshalling
/// error. ZooKeeper has no bound; its Java client accepts 4 MiB (`jute.maxbuffer` of the client).
/// One such answer never fills the room for all replies.
pub const MULTI_READ_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// The most bytes that the watches of one connection may take, paths included. A watch beyond that
/// disconnects the client. ZooKeeper has no bound. The bound is enough for half a million watches
/// with paths of 150 bytes.
pub const WATCH_BYTES_MAX: usize = 128 * 1024 * 1024;

/// The bytes that a watch counts for in addition to its path. If many connections watch the same
/// path, a watch takes a third of these bytes, and the path is stored once. The count ignores that
/// saving, so that it does not depend on other clients.
pub const WATCH_BYTES: usize = 100;

/// The most bytes of replies that one read hold of the state's lock writes, or one reply if larger.
pub const READ_HOLD_BYTES_MAX: usize = 64 * 1024;

/// How many slots of the tree one step of a getAllChildrenNumber looks at. A step takes about as
/// long as a read, and counts as one in the bounds of a hold and of a turn. A count among a million
/// znodes takes some hundred holds, and other requests run in between.
pub const COUNT_STEP_SLOTS_MAX: u32 = 128;

/// How many names one step of a list of children adds, and how many reads one step of a multi-read
/// makes: some 0.1 ms. Each time that a change makes the request begin anew, its steps may be twice
/// as long.
pub const LIST_STEP_NAMES: usize = 1_024;

/// How many paths of a setWatches are handled before the next client's turn. Each path counts as a
/// request in the bounds of a hold, because a request of a megabyte has fifty thousand paths.
pub const SET_WATCHES_STEP_PATHS: usize = READ_HOLD_REQUESTS_MAX;

/// How many znodes one step of a getEphemerals looks at. Each znode counts as a request in the
/// bounds of a hold.
pub const EPHEMERALS_STEP_ZNODES: usize = READ_HOLD_REQUESTS_MAX;

/// How many changes, answers and events a Front takes from Apply's deliveries at a time.
pub const FEED_PIECE_EVENTS: usize = 256;

/// A change counts as one more event for this many bytes of its path, because each level above is
/// looked up for recursive watches.
pub const FEED_PIECE_PATH_BYTES: usize = 256;

/// How many table entries of closed connections a Front looks at, at a time, to remove their
/// watches.
pub const CLOSED_PIECE_WATCHES: usize = 256;

/// How many requests of one connection are answered before the next connection's turn.
pub const READ_TURN_REQUESTS_MAX: usize = 16;

/// While requests are under way, an emptied output buffer of up to this capacity is kept for the
/// next replies.
pub const OUTPUT_KEPT_BYTES: usize = 64 * 1024;

/// While no request is under way, an emptied output buffer of up to this capacity is kept: enough
/// for a reply or two without data.
pub const OUTPUT_KEPT_IDLE_BYTES: usize = 512;

/// While no request is under way, an emptied window keeps memory for this many requests.
pub const WINDOW_KEPT_REQUESTS: usize = 8;

/// A connection that was idle takes the Front's spare buffers if it has this many bytes of input.
pub const SPARE_INPUT_BYTES_MIN: usize = 1024;

/// How long a connection may be without a session after it was accepted, in ms, unless configured
/// (`nio.sessionlessCnxnTimeout`, ZooKeeper's default). Then it is closed, whatever it has sent.
pub const SESSIONLESS_MS_DEFAULT: u64 = 10_000;

/// How long a client waits for its session if the member has no contact with a leader, in ms: an
/// election takes less. Then the connection is closed, and the client tries another server.
pub const CONNECT_HOLD_MS_MAX: u64 = 1_000;

/// A client waits for its session at most this part of its timeout: one sixth. The rest is left to
/// find another server.
pub const CONNECT_HOLD_PART: u64 = 6;

/// How old the contact with a reachable leader may be while nothing is written, in ms.
pub const CONTACT_MS_USUAL: u64 = 3 * HEARTBEAT_QUIET_MS;

/// How long a connection that is being closed may take to read its last bytes, in ms.
pub const CLOSING_MS_MAX: u64 = 5_000;

/// The most identities that one connection may collect with auth packets. One more disconnects it.
pub const CONNECTION_IDENTITIES_MAX: usize = 100;

/// The most bytes of one connection's identities, which are sent with each batch. The longest name
/// that fits an auth packet would be too much. A digest identity takes some 40 bytes and the name.
/// A connection with more bytes is disconnected. ZooKeeper has no bound.
pub const CONNECTION_IDENTITY_BYTES_MAX: usize = 16 * 1024;

/// The most bytes that the `auth` entries of one request's ACLs may expand to: each entry becomes
/// as many entries as the connection has identities. The bound is as many bytes as a request may
/// have by default. An ACL beyond the bound is refused as invalid. ZooKeeper has no bound.
pub const ACL_AUTH_BYTES_MAX: usize = 1024 * 1024;

/// The most departed connections of one Front, that is, connections that ended before their
/// commands were answered. At the bound, the commands of further departed connections are not given
/// up, though nobody waits for them. Each connection had credit for its commands, so only clients
/// that come and go while nothing is committed can reach the bound.
pub const DEPARTED_CONNECTIONS_MAX: usize = 10_000;

/// How long a connection waits with its reconfig for the level that this needs, in ms, before it is
/// refused. A new ensemble gets that level within a few hundred ms; a server that does not run
/// keeps it from rising.
pub const RECONFIG_HOLD_MS_MAX: u64 = 3_000;

/// How long a Front sleeps at most while its clients are idle, in ms.
pub const REST_TICK_MS_MAX: u64 = 5_000;

/// The most namespaces (first elements of paths) for which one Front counts reads and writes
/// separately. All other namespaces are counted together. ZooKeeper has no bound. A scrape shows
/// six lines for each namespace.
pub const NAMESPACES_MAX: usize = 256;

/// The most bytes in the name of a namespace. A longer one is counted with the others.
pub const NAMESPACE_BYTES_MAX: usize = 128;

/// After a Front has logged a slow request, it only counts others for this time, in ms.
pub const SLOW_REQUEST_INTERVAL_MS: u64 = 1_000;

/// How many watches a Front looks at for one page of a list of watches. It serves clients between
/// two pages.
pub const WATCH_PAGE_COUNT: usize = 2_048;

/// The most bytes of paths in a page of watches, or one path if longer.
pub const WATCH_PAGE_BYTES: usize = 256 * 1024;

/// How many connections a Front looks at for one page of a list of connections.
pub const CONNECTION_PAGE_COUNT: usize = 1_024;

const _: () = assert!(CONNECTION_IDENTITIES_MAX < machine::limits::IDENTITIES_MAX);

const _: () = assert!(OUTPUT_BYTES_MAX < OUTPUT_BYTES_LIMIT);

const _: () = assert!(REPLIES_BYTES_CALM + MULTI_READ_BYTES_MAX < REPLIES_BYTES_MAX);

// A batch fits an entry, however many connections share it; and so does the largest request.
const _: () = assert!(
    machine::limits::BATCH_COMMANDS_MAX * CONNECTION_IDENTITY_BYTES_MAX
        + 2 * machine::limits::BATCH_BYTES_MAX
        <= machine::limits::ENTRY_BYTES_MAX
);

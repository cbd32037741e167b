//! Bounds that several rooms of a member share: how much is under way at once, and what happens at
//! the bound. A bound of one room is in the `limits` of that room.

/// Commands of one connection runtime that are not yet answered. At the bound none of its
/// connections is read. It bounds every queue behind it.
pub const FRONT_COMMANDS_MAX: usize = 32 * 1024;

/// Bytes of commands of one connection runtime that are not yet answered. At the bound none of its
/// connections is read.
pub const FRONT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes of unanswered large requests of all clients, unless configured (`largeRequestMaxBytes`,
/// ZooKeeper's default). The bound holds only if the size of a large request is configured. A
/// request beyond it closes its connection.
pub const LARGE_REQUESTS_BYTES_MAX_DEFAULT: u64 = 100 * 1024 * 1024;

/// Bytes of output that a client has not taken. At the bound its requests are not read any more;
/// what is under way is still answered.
pub const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// Bytes of replies of all connections of a member that are built and not yet taken by their
/// clients. At the bound large replies are not built, and a connection with more than
/// [`SMALL_REPLY_BYTES`] of untaken output is not served: both wait until a client takes something,
/// or until slow takers are disconnected
/// ([`OUTPUT_STALL_MS`](crate::fronts::zk::limits::OUTPUT_STALL_MS)). One reply per connection
/// runtime may go beyond. ZooKeeper has no bound.
pub const REPLIES_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Bytes of held replies at which Fronts look for slow takers. No reply of more than
/// [`OUTPUT_BYTES_MAX`] goes beyond: the rest is for replies of ordinary size.
pub const REPLIES_BYTES_TIGHT: u64 = REPLIES_BYTES_MAX / 4 * 3;

/// Bytes of held replies up to which a reply of any size is built: a reply that never fits beside
/// others must come through at some time.
pub const REPLIES_BYTES_CALM: u64 = REPLIES_BYTES_MAX / 4;

/// Bytes of a reply that is built even if the room for all replies is full, so that clients with
/// small requests are served although others do not read their replies.
pub const SMALL_REPLY_BYTES: usize = 16 * 1024;

/// Requests that one read hold of the state's lock answers.
pub const READ_HOLD_REQUESTS_MAX: usize = 64;

/// Commands that one write hold of the state's lock applies.
pub const APPLY_HOLD_COMMANDS_MAX: usize = 256;

/// Bytes of answers to travelling reads that one write hold of the state's lock builds, or one
/// answer if larger.
pub const APPLY_HOLD_ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// How often each Front reports the sessions it heard from.
pub const HEARD_INTERVAL_MS: u64 = 200;

/// How often the driver lets each Front look at the clock, and Loop while something is under way.
pub const CLOCK_INTERVAL_MS: u64 = 100;

/// Questions about leases, or answers, in one message to another member.
pub const LEASE_MESSAGE_ITEMS_MAX: usize = 16 * 1024;

const _: () = assert!(33 * LEASE_MESSAGE_ITEMS_MAX + 64 <= PEER_BODY_BYTES_MAX);

/// Sessions in one report to the leader. More wait for its answer.
pub const HEARD_SESSIONS_MAX: usize = 64 * 1024;

/// Batches in one piece of what is forwarded to the leader.
pub const FORWARD_BATCHES_MAX: usize = 1_024;

/// Entries that a new member may be behind when it is given its vote: some round trips' worth.
pub const CAUGHT_UP_ENTRIES: u64 = 64;

/// How often a leader sends heartbeats while nothing is written: nearly twice within the shortest
/// election timeout. A heartbeat to two followers, and their answers, are most of what an idle
/// ensemble costs. A little longer than [`HEARD_INTERVAL_MS`], so that each heartbeat finds a
/// report due.
pub const HEARTBEAT_QUIET_MS: u64 = 210;

/// The shortest session timeout that lets heartbeats come at [`HEARTBEAT_QUIET_MS`]: the
/// configuration must admit no shorter one, and no session of a server with another configuration
/// may have one. A follower's contact is up to three such heartbeats old then, or
/// [`HEARD_RETRY_MS`](crate::order::limits::HEARD_RETRY_MS) more if a report is lost; a third of
/// the timeout must be longer, from the moment at which a session is opened.
pub const QUIET_TIMEOUT_MS_MIN: u32 = 4_000;

/// How long the disk must be idle until the mark that says "all of this is durable" is written.
pub const DISK_IDLE_MS: u64 = 100;

/// How often a full disk is tried again.
pub const DISK_FULL_RETRY_MS: u64 = 500;

/// Largest value that a summary's histogram can tell from larger ones: an hour in ms.
pub const SUMMARY_VALUE_MAX: u64 = 3_600_000;

/// Significant decimal digits of a summary's quantiles; with these a summary takes 36 KiB.
pub const SUMMARY_DIGITS: u8 = 2;

/// How long equal values of a summary are counted as one run.
pub const SUMMARY_RUN_MS: u64 = 1_000;

/// How long values go into one histogram before the other takes its turn: quantiles are of the last
/// five to ten minutes. The client of Prometheus that ZooKeeper uses keeps ten.
pub const SUMMARY_TURN_MS: u64 = 300_000;

/// Bytes of a message to another member: a message of the replica, or batches, and the last batch
/// may be as large as an entry.
pub const PEER_BODY_BYTES_MAX: usize = replica::limits::MESSAGE_BYTES_MAX + (1 << 20);

const _: () = assert!(8 * HEARD_SESSIONS_MAX + 64 <= PEER_BODY_BYTES_MAX);

const _: () = assert!(SMALL_REPLY_BYTES < OUTPUT_BYTES_MAX);

const _: () = assert!((OUTPUT_BYTES_MAX as u64) < REPLIES_BYTES_TIGHT);

const _: () = assert!(REPLIES_BYTES_TIGHT < REPLIES_BYTES_MAX);

/// Pieces of a snapshot that a start decodes at once while the ones before are installed: enough
/// that handing them over costs nothing, few enough that they take some 20 MB of memory.
pub const START_PIECES: usize = 4;

/// Bytes of entries that a start decodes at once while the ones before are applied: enough that
/// handing them over costs little, few enough that the decoded commands stay in a core's cache.
pub const REPLAY_STEP_BYTES: usize = 1 << 20;

/// Bytes of entries that a start applies before it frees them: the znodes that they create reuse
/// their memory.
pub const REPLAY_WINDOW_BYTES: usize = 16 << 20;

/// Commands that a start looks up in the tree together, as Apply does with the commands of a step.
pub const REPLAY_LOOK_AHEAD_COMMANDS: usize = 32;

/// Bytes of a piece of a snapshot's image.
pub const SNAPSHOT_PIECE_BYTES: usize = 1024 * 1024;

/// Slots of the tree that one step of a freeze walks.
pub const SNAPSHOT_STEP_SLOTS_MAX: u32 = 4_096;

//! Bounds and intervals that several modules of a member share. A bound of one module is in the
//! `limits` of that module.

/// Maximum number of unanswered commands of one connection runtime. At the bound the runtime reads
/// from none of its connections, which bounds every queue behind it, too.
pub const FRONT_COMMANDS_MAX: usize = 32 * 1024;

/// Maximum bytes of unanswered commands of one connection runtime. At the bound the runtime reads
/// from none of its connections.
pub const FRONT_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Maximum bytes of unanswered large requests of all clients, unless configured
/// (`largeRequestMaxBytes`, with ZooKeeper's default). The bound holds only if the size of a large
/// request is configured. A request beyond it closes its connection.
pub const LARGE_REQUESTS_BYTES_MAX_DEFAULT: u64 = 100 * 1024 * 1024;

/// Maximum bytes of output that one client has not taken. At the bound no more requests are read
/// from it; requests under way are still answered.
pub const OUTPUT_BYTES_MAX: usize = 1024 * 1024;

/// Maximum bytes of replies of all connections of a member that are built and not yet taken by
/// their clients. At the bound large replies are not built, and a connection with more than
/// [`SMALL_REPLY_BYTES`] of untaken output is not served: both wait until a client takes something,
/// or until slow takers are disconnected
/// ([`OUTPUT_STALL_MS`](crate::fronts::zk::limits::OUTPUT_STALL_MS)). One reply per connection
/// runtime may go beyond. ZooKeeper has no bound.
pub const REPLIES_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Bytes of held replies (built, not yet taken by clients) at which Fronts begin to look for
/// clients that do not take their output. A reply of more than [`OUTPUT_BYTES_MAX`] may not raise
/// the sum above this: the room above it is for replies of ordinary size.
pub const REPLIES_BYTES_TIGHT: u64 = REPLIES_BYTES_MAX / 4 * 3;

/// Bytes of held replies up to which a reply of any size is built: so a reply that is too large to
/// fit beside others is built at some time.
pub const REPLIES_BYTES_CALM: u64 = REPLIES_BYTES_MAX / 4;

/// Up to this size a reply is built even if the room for all replies is full, so that clients with
/// small requests are served although others do not read their replies.
pub const SMALL_REPLY_BYTES: usize = 16 * 1024;

/// Maximum number of requests that a Front answers in one hold of the state's lock for reading.
pub const READ_HOLD_REQUESTS_MAX: usize = 64;

/// Maximum number of commands that Apply applies in one hold of the state's lock for writing.
pub const APPLY_HOLD_COMMANDS_MAX: usize = 256;

/// Once one hold of the state's lock for writing has built this many bytes of answers to travelling
/// reads, it ends. The last answer may go beyond.
pub const APPLY_HOLD_ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// How often each Front reports the sessions it heard from.
pub const HEARD_INTERVAL_MS: u64 = 200;

/// How often the driver lets each Front look at the clock, and also Loop while it has work under
/// way.
pub const CLOCK_INTERVAL_MS: u64 = 100;

/// Maximum number of questions about leases, or of answers, in one message to another member.
pub const LEASE_MESSAGE_ITEMS_MAX: usize = 16 * 1024;

const _: () = assert!(33 * LEASE_MESSAGE_ITEMS_MAX + 64 <= PEER_BODY_BYTES_MAX);

/// Maximum number of sessions in one report to the leader. The other sessions wait until the leader
/// has answered.
pub const HEARD_SESSIONS_MAX: usize = 64 * 1024;

/// Maximum number of batches in one message that forwards batches to the leader.
pub const FORWARD_BATCHES_MAX: usize = 1_024;

/// How many entries a new member may be behind the leader when it gets its vote: as many as are
/// written in some round trips.
pub const CAUGHT_UP_ENTRIES: u64 = 64;

/// How often a leader sends heartbeats while nothing is written: nearly twice within the shortest
/// election timeout. A heartbeat to two followers, and their answers, are most of what an idle
/// ensemble costs. A little longer than [`HEARD_INTERVAL_MS`], so that each heartbeat finds a
/// report due.
pub const HEARTBEAT_QUIET_MS: u64 = 210;

/// Heartbeats may come as rarely as [`HEARTBEAT_QUIET_MS`] only if no session timeout is shorter
/// than this: neither a timeout that this server's configuration admits, nor the timeout of a
/// session which another server opened. A follower's contact is then up to three such heartbeats
/// old, or [`HEARD_RETRY_MS`](crate::order::limits::HEARD_RETRY_MS) more if a report is lost. This
/// age must be less than a third of the timeout, from the moment at which a session is opened.
pub const QUIET_TIMEOUT_MS_MIN: u32 = 4_000;

/// How long the disk must be idle before the mark that says "all of this is durable" is written to
/// the log.
pub const DISK_IDLE_MS: u64 = 100;

/// How often work that found the disk full is tried again.
pub const DISK_FULL_RETRY_MS: u64 = 500;

/// Largest value that a summary's histogram can tell from larger ones: an hour in ms.
pub const SUMMARY_VALUE_MAX: u64 = 3_600_000;

/// Significant decimal digits of a summary's quantiles; with these a summary takes 36 KiB.
pub const SUMMARY_DIGITS: u8 = 2;

/// How long a summary collects equal values as one run before it puts them into its histogram.
pub const SUMMARY_RUN_MS: u64 = 1_000;

/// How long values go into one of a summary's two histograms before the other one takes its turn,
/// in ms: so quantiles are of the last five to ten minutes. The client of Prometheus that ZooKeeper
/// uses keeps the values of the last ten minutes.
pub const SUMMARY_TURN_MS: u64 = 300_000;

/// Maximum bytes of a message to another member. It is a message of the replica, or several
/// batches, the last of them as large as an entry.
pub const PEER_BODY_BYTES_MAX: usize = replica::limits::MESSAGE_BYTES_MAX + (1 << 20);

const _: () = assert!(8 * HEARD_SESSIONS_MAX + 64 <= PEER_BODY_BYTES_MAX);

const _: () = assert!(SMALL_REPLY_BYTES < OUTPUT_BYTES_MAX);

const _: () = assert!((OUTPUT_BYTES_MAX as u64) < REPLIES_BYTES_TIGHT);

const _: () = assert!(REPLIES_BYTES_TIGHT < REPLIES_BYTES_MAX);

/// How many pieces of a snapshot a start decodes at once, while it installs earlier pieces: enough
/// that handing them over costs nothing, few enough that they take some 20 MB of memory.
pub const START_PIECES: usize = 4;

/// How many bytes of entries a start decodes at once, while it applies earlier entries: enough that
/// handing them over costs little, few enough that the decoded commands stay in a core's cache.
pub const REPLAY_STEP_BYTES: usize = 1 << 20;

/// How many bytes of entries a start applies before it frees them: the znodes that later entries
/// create can then use their memory.
pub const REPLAY_WINDOW_BYTES: usize = 16 << 20;

/// How many commands a start looks up in the tree together, as Apply does with the commands of a
/// step.
pub const REPLAY_LOOK_AHEAD_COMMANDS: usize = 32;

/// Size of a piece of a snapshot's image, in bytes.
pub const SNAPSHOT_PIECE_BYTES: usize = 1024 * 1024;

/// Slots of the tree (places for one znode each) that one step of taking an image walks.
pub const SNAPSHOT_STEP_SLOTS_MAX: u32 = 4_096;

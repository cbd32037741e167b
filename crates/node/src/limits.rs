//! Bounds and intervals of the shell.

use std::time::Duration;

/// Length of a tick of the replica, in ms, in a standalone server. A lone voter needs neither
/// heartbeats nor elections, so this is how often an idle server wakes up.
pub const RAFT_TICK_ALONE_MS: u64 = 100;

/// Length of a tick in an ensemble of several servers, in ms. A follower that hears nothing from a
/// leader for 20 to 40 ticks wants to become the leader.
pub const RAFT_TICK_MS: u64 = 20;

/// How long Apply may hold the lock of the state at a time. Checked after every
/// [`APPLY_STEP_COMMANDS`] commands.
pub const APPLY_HOLD: Duration = Duration::from_micros(100);

/// Commands that Apply runs between two looks at the clock within a hold.
pub const APPLY_STEP_COMMANDS: usize = 32;

/// Apply waits, without the lock, while any connection runtime has this many deliveries in its
/// mail. A runtime that is so late gets too little CPU time; no client can block it.
pub const MAIL_MAX: usize = 4_096;

/// How long Apply waits before it checks again whether a runtime has caught up.
pub const MAIL_WAIT: Duration = Duration::from_millis(1);

/// How long after its last sync the log still counts as in use, in ms.
pub const LOG_QUIET_MS: u64 = 50;

/// After each step of filling a segment ahead, the thread rests this many times as long as the step
/// took.
pub const SEGMENT_RESTS: u32 = 1;

/// After a piece of a snapshot was written, sent, received or checked, the thread rests this many
/// times as long as that took, while this member's log is in use: clients of all members wait for
/// the log, and none for a snapshot. Beside an idle log it does not rest, so a new member of an
/// ensemble without writers gets its data three times as fast.
/// With this value, writers on one disk and two processors kept some four fifths of their rate
/// while a member fetched a million znodes (`docs/benchmark-results.md`).
pub const SNAPSHOT_RESTS: u32 = 2;

/// The longest rest of the threads that fill segments and that handle snapshots.
pub const REST_MAX: Duration = Duration::from_secs(1);

/// A connection runtime that does not want to be woken for every delivery is woken when it has this
/// many in its mail.
pub const QUIET_MAIL_MAX: usize = 256;

const _: () = assert!(QUIET_MAIL_MAX < MAIL_MAX);

/// Most turns of Loop that a thread runs in a row. A turn handles all input that has arrived; input
/// that arrives after the last turn is left to Loop's own thread.
pub const LOOP_TURNS_MAX: usize = 4;

/// Largest body of a frame of the handshake, in bytes. Builds that do not know the peer URLs in a
/// hello take half of it; a hello without them fits.
pub const HANDSHAKE_FRAME_BYTES_MAX: usize = 8 * 1024;

/// Largest message that tells a server its number, in bytes: 32 servers with eight URLs of 1 KiB
/// each. Only a server that has asked for its number takes as much. It is refused if its answer
/// would be larger.
pub const YOU_ARE_BYTES_MAX: usize = 256 * 1024;

/// Longest reason in a refusal, in bytes.
pub const REFUSAL_BYTES_MAX: usize = 1024;

/// Bytes that a link reads at once.
pub const PEER_READ_BYTES: usize = 64 * 1024;

/// Most frames that wait to be sent on one link. One more is dropped, as a network might do; its
/// sender will send it again.
pub const PEER_QUEUE_FRAMES_MAX: usize = 16 * 1024;

/// Most bytes of the frames that wait on one link; one larger frame may wait alone.
pub const PEER_QUEUE_BYTES_MAX: usize = 64 << 20;

/// Bytes of frames from all links that Loop has not taken. Above this, no link is read until Loop
/// has taken some: a member that sends faster than Loop takes has to wait, and fills no memory.
/// Each link may exceed this by one read, or by one larger frame.
pub const PEER_INPUT_BYTES_MAX: usize = 128 << 20;

/// How long a link that is not read, because of [`PEER_INPUT_BYTES_MAX`], rests before it checks
/// again whether it may be read.
pub const PEER_INPUT_REST: Duration = Duration::from_millis(5);

/// Most frames that are written to a socket together.
pub const PEER_WRITE_FRAMES_MAX: usize = 256;

/// Most bytes of the frames that are written together; one larger frame is written alone.
pub const PEER_WRITE_BYTES_MAX: usize = 1 << 20;

/// How often links are checked: an end of a log link that sent nothing for this long sends a beat.
pub const PEER_BEAT: Duration = Duration::from_millis(1_000);

/// Links for snapshots take part only in every n-th beat: no request waits for news of them.
pub const PEER_BEATS_BULK: u32 = 2;

/// A link ends at a beat if nothing was received since the last beat, nor in this many beats
/// before. Counted in beats, not in time, so that a process that was itself paused does not believe
/// the others dead.
pub const PEER_SILENT_BEATS_MAX: u32 = 2;

/// How long a handshake may take, with TLS.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// Most accepted connections in the handshake at a time. One more, and the oldest is closed:
/// clients that connect and say nothing cannot keep members out.
pub const HANDSHAKES_MAX: usize = 64;

/// Most accepted connections from one address that may start to agree on a key in one second. Each
/// takes the links' thread 0.7 ms; without a bound, one stranger could keep that thread busy.
pub const EXCHANGES_OF_ADDRESS_MAX: u32 = 100;
/// Like [`EXCHANGES_OF_ADDRESS_MAX`], but over all addresses.
pub const EXCHANGES_MAX: u32 = 200;

/// Wrong secrets are logged at most this often, with their number.
pub const WRONG_SECRETS_INTERVAL: Duration = Duration::from_secs(10);

/// Most addresses of a server that are tried in one dial. They share the time that a dial may take
/// ([`crate::ClusterConfig::connect_timeout`]).
pub const ADDRESSES_TRIED_MAX: usize = 8;

/// The shortest time between two dials of one server. The time doubles with each dial, up to
/// [`REDIAL_MAX`]. A random part, up to half, is left out, so that servers that start together do
/// not stay in step.
pub const REDIAL_MIN: Duration = Duration::from_millis(50);

/// The longest time between two dials of one server.
pub const REDIAL_MAX: Duration = Duration::from_secs(1);

/// After a link that lasted this long, the time between dials starts again with [`REDIAL_MIN`].
pub const LINK_LASTED: Duration = Duration::from_secs(1);

/// How long the links of a server stay after it has left the list of servers. The entry with the
/// change has just been committed: over these links the server still learns that, and its vote may
/// still be needed while other members learn it. Ten intervals of beats are ample for both.
pub const DEPARTED_LINKS_STAY: Duration = Duration::from_secs(10);

/// How long a removed member runs on before it ends, so that the client that removed it gets its
/// answer (`EtcdServer.run`, 3.6: it stops one second after the removal).
pub const REMOVED_SERVES: Duration = Duration::from_secs(1);

/// Trouble of one kind with a peer is logged at most this often.
pub const PEER_COMPLAINT_INTERVAL: Duration = Duration::from_secs(60);

/// Most different troubles that are remembered for [`PEER_COMPLAINT_INTERVAL`]. A further one is
/// not logged until another is forgotten.
pub const PEER_COMPLAINTS_MAX: usize = 256;

/// How long the accepting task rests after an error, for example without free file descriptors.
pub const PEER_ACCEPT_REST: Duration = Duration::from_millis(100);

/// How often a server that waits for others before its birth logs that: an operator who looks at
/// the log of a server that does not come up sees why within this time.
pub const WAITING_INTERVAL: Duration = Duration::from_secs(10);

const _: () = assert!(member::limits::PEER_BODY_BYTES_MAX < u32::MAX as usize);
const _: () =
    assert!(HANDSHAKE_FRAME_BYTES_MAX > member::membership::limits::HELLO_BYTES_MAX + 256);
const _: () = assert!(REFUSAL_BYTES_MAX < HANDSHAKE_FRAME_BYTES_MAX);
const _: () = assert!(PEER_WRITE_BYTES_MAX <= PEER_QUEUE_BYTES_MAX);

/// How long a leader that is stopped waits for another member to lead. An unprepared election takes
/// as long.
pub const HAND_OVER_LIMIT: Duration = Duration::from_millis(1_500);

/// How often a leader that is stopped checks whether another member leads.
pub const HAND_OVER_LOOK: Duration = Duration::from_millis(5);

/// Least time between two entries for which a leader measures how long they take to the members'
/// disks.
pub const ACK_SAMPLE_INTERVAL: Duration = Duration::from_millis(10);

/// How long a leader waits for members to have the measured entry on disk; a slower member is not
/// counted.
pub const ACK_PATIENCE: Duration = Duration::from_secs(5);

/// How long an empty server that may only join an ensemble looks for one of its members before the
/// start fails. etcd asks each member once.
pub const JOIN_LIMIT: Duration = Duration::from_secs(10);

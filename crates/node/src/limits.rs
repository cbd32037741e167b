//! Named bounds and intervals of the shell.

use std::time::Duration;

/// Length of a tick of the replica, in ms, in an ensemble of one. A lone voter needs neither
/// heartbeats nor elections, so this is how often an idle server wakes up.
pub const RAFT_TICK_ALONE_MS: u64 = 100;

/// Length of a tick in an ensemble of several, in ms: a leader is missed after 20 to 40 ticks.
pub const RAFT_TICK_MS: u64 = 20;

/// How long one hold of the state's lock by Apply may last, in whole steps of
/// [`APPLY_STEP_COMMANDS`].
pub const APPLY_HOLD: Duration = Duration::from_micros(100);

/// Commands between two looks at the clock within a hold.
pub const APPLY_STEP_COMMANDS: usize = 32;

/// Deliveries that wait for one connection runtime at which Apply waits, outside the lock, until
/// it has taken them. A runtime that is that late is starved of CPU, not blocked by a client.
pub const MAIL_MAX: usize = 4_096;

/// How long Apply waits before it looks again whether a runtime has caught up.
pub const MAIL_WAIT: Duration = Duration::from_millis(1);

/// The rest after each step of filling a segment ahead, as a multiple of the time that the step
/// took.
pub const SEGMENT_RESTS: u32 = 1;

/// The rest after a piece of a snapshot was written, sent, received or checked, as a multiple of
/// the time that it took: the clients of all members wait for the log, and no client for a
/// snapshot. With it, writers on one disk and two processors kept some four fifths of their rate
/// while a member fetched a million znodes (`docs/benchmark-results.md`).
pub const SNAPSHOT_RESTS: u32 = 2;

/// The longest of these rests.
pub const REST_MAX: Duration = Duration::from_secs(1);

/// Deliveries that lie in the mail of a connection runtime that is not curious before it is woken.
pub const QUIET_MAIL_MAX: usize = 256;

const _: () = assert!(QUIET_MAIL_MAX < MAIL_MAX);

/// Turns of Loop that a thread takes at once for others. After these Loop's own thread goes on.
pub const LOOP_TURNS_MAX: usize = 4;

/// Bytes of a frame of a handshake.
pub const HANDSHAKE_FRAME_BYTES_MAX: usize = 4 * 1024;

/// Bytes of the reason that a refusal gives.
pub const REFUSAL_BYTES_MAX: usize = 1024;

/// Bytes that a link reads at once.
pub const PEER_READ_BYTES: usize = 64 * 1024;

/// Frames that wait to be sent on one link. One more is dropped, as a network may; its sender sends
/// it again in time.
pub const PEER_QUEUE_FRAMES_MAX: usize = 16 * 1024;

/// Bytes of the frames that wait on one link, or one frame if larger.
pub const PEER_QUEUE_BYTES_MAX: usize = 64 << 20;

/// Bytes of the frames of all links that Loop has not taken. Above it no link is read until Loop
/// has taken some: a member that sends more than Loop takes waits, and fills no memory. Each link
/// may be one read beyond, or one frame if larger.
pub const PEER_INPUT_BYTES_MAX: usize = 128 << 20;

/// How long a link that is not read rests before it looks for room again.
pub const PEER_INPUT_REST: Duration = Duration::from_millis(5);

/// Frames written to a socket together.
pub const PEER_WRITE_FRAMES_MAX: usize = 256;

/// Bytes of the frames written together, or one frame if larger.
pub const PEER_WRITE_BYTES_MAX: usize = 1 << 20;

/// The silence on a link for the log after which one end sends a beat.
pub const PEER_BEAT: Duration = Duration::from_millis(1_000);

/// A link for snapshots takes part in one of so many beats: no request waits for news of it.
pub const PEER_BEATS_BULK: u32 = 2;

/// Silent beats in a row after which one more ends the link. Counted in beats, not in time, so that
/// a process that was paused itself does not take the others for dead.
pub const PEER_SILENT_BEATS_MAX: u32 = 2;

/// How long a handshake may take, TLS included.
pub const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// Accepted connections with a handshake under way. One more, and the oldest is closed: clients
/// that connect and say nothing cannot keep members out.
pub const HANDSHAKES_MAX: usize = 64;

/// Accepted connections of one address that may begin to agree on a key in one second. Each costs
/// the thread of the links 0.7 ms. Without a bound one stranger could keep that thread busy.
pub const EXCHANGES_OF_ADDRESS_MAX: u32 = 100;
/// Accepted connections of all addresses that may begin to agree on a key in one second.
pub const EXCHANGES_MAX: u32 = 200;

/// How often wrong secrets are logged, with their count.
pub const WRONG_SECRETS_INTERVAL: Duration = Duration::from_secs(10);

/// Addresses of a server that are tried in one dial. They share the time that it may take
/// ([`crate::ClusterConfig::connect_timeout`]).
pub const ADDRESSES_TRIED_MAX: usize = 8;

/// The shortest time between two dials of one server; it doubles up to the longest. Up to half of
/// it is left out by chance, so that servers that start together do not go on in step.
pub const REDIAL_MIN: Duration = Duration::from_millis(50);

/// The longest.
pub const REDIAL_MAX: Duration = Duration::from_secs(1);

/// A link that lasted so long makes the next dial begin with the shortest time.
pub const LINK_LASTED: Duration = Duration::from_secs(1);

/// How often the same trouble with a peer is logged.
pub const PEER_COMPLAINT_INTERVAL: Duration = Duration::from_secs(60);

/// Different troubles that are remembered for that. More are not logged before some are forgotten.
pub const PEER_COMPLAINTS_MAX: usize = 256;

/// How long accepting rests after it failed, for want of file descriptors for example.
pub const PEER_ACCEPT_REST: Duration = Duration::from_millis(100);

/// How often a server that waits for others before it is born says so: an operator who looks at
/// the log of a server that does not come up sees why within this time.
pub const WAITING_INTERVAL: Duration = Duration::from_secs(10);

const _: () = assert!(member::limits::PEER_BODY_BYTES_MAX < u32::MAX as usize);
const _: () =
    assert!(HANDSHAKE_FRAME_BYTES_MAX > member::membership::limits::HELLO_BYTES_MAX + 256);
const _: () = assert!(REFUSAL_BYTES_MAX < HANDSHAKE_FRAME_BYTES_MAX);
const _: () = assert!(PEER_WRITE_BYTES_MAX <= PEER_QUEUE_BYTES_MAX);

/// How long a leader that is told to stop waits for another member to lead. An election that nobody
/// prepared takes as long.
pub const HAND_OVER_LIMIT: Duration = Duration::from_millis(1_500);

/// How often it looks whether one does.
pub const HAND_OVER_LOOK: Duration = Duration::from_millis(5);

/// A leader measures how long an entry takes to reach the others' disks no more often than this.
pub const ACK_SAMPLE_INTERVAL: Duration = Duration::from_millis(10);

/// And counts nobody who takes longer: it may be gone.
pub const ACK_PATIENCE: Duration = Duration::from_secs(5);

/// How long an empty server that only joins an ensemble looks for a member of one, before its start
/// fails. etcd asks each member once.
pub const JOIN_LIMIT: Duration = Duration::from_secs(10);

//! Bounds on what etcd's clients may have under way at once, on the time that a call may take, and
//! on the work of one hold of the state's lock or of one step. Most constants say what happens at
//! the bound.

use crate::order::limits::LOOK_MS_MAX;
use crate::spaces::limits::LEASE_ANSWER_MS_MAX;

const _: () = assert!(LEASE_ANSWER_MS_MAX + LOOK_MS_MAX <= ETCD_CALL_MS_MAX);

/// The most calls of etcd's clients that one Front has under way. A further call is refused as too
/// many requests.
pub const ETCD_CALLS_MAX: usize = 100_000;

/// How long a transfer of leadership waits until the target leads, in ms (`EtcdServer.MoveLeader`
/// waits for an election timeout).
pub const ETCD_TRANSFER_MS_MAX: u64 = 3_000;

/// How long a call of an etcd client may take, in ms: 5 s, and two election timeouts of 1 s, as in
/// etcd 3.6 (`ServerConfig.ReqTimeout`).
pub const ETCD_CALL_MS_MAX: u64 = 7_000;

/// How long the Front retries the removal of the lock key of a cancelled call, in ms. After that
/// the key lives until its lease ends.
pub const LOCK_REMOVAL_MS_MAX: u64 = 60_000;

/// A piece of a streamed range ends at this many bytes of keys and values. The value that reaches
/// the bound is still in the piece, so a piece has up to 1.5 MiB more. etcd 3.7 begins with 10 keys
/// and aims at 1.5 MiB; smaller pieces let more slow clients be served within the room for
/// responses.
pub const ETCD_PIECE_BYTES: usize = 256 * 1024;

/// The size of one reference to a version of a key, in bytes. A response holds such references
/// until it is encoded.
pub const ETCD_REFERENCE_BYTES: u64 = 16;

/// The most items of a response (versions, keys, leases, operations) that one step of measuring or
/// writing the response looks at: some 100 us. A longer response is encoded in steps, and other
/// calls go on in between.
pub const ETCD_ENCODED_ITEMS_MAX: usize = 2_048;

/// A long response is written in pieces. A piece ends once it has this many bytes; the version that
/// reaches the bound is still in the piece.
pub const ETCD_ENCODED_BYTES: usize = 64 * 1024;

/// The most keys that all reads look at in one hold of the state's lock: some 100 us. A longer read
/// goes on in another hold.
pub const ETCD_HOLD_KEYS_MAX: u64 = 1_000;

/// The most keys that a transaction may look at, its largest single operation not counted. A
/// transaction above the bound is refused with `request is too large`. etcd has no bound: there,
/// all other requests wait meanwhile.
pub const ETCD_TXN_KEYS_MAX: u64 = 1_000_000;

/// The cost of looking up how many keys a range has, expressed in keys looked at.
pub const ETCD_COUNT_COST_KEYS: u64 = 8;

/// How many token times one hold of the state's lock compares with the state: some 50 us.
pub const ETCD_HOLD_TOKENS_MAX: usize = 256;

/// The most keys in a piece of a streamed range, so that no read holds the lock for long.
pub const ETCD_PIECE_KEYS_MAX: usize = 1_000;

/// The most bytes of messages that wait on one watch stream, and that the driver gets at a time. A
/// watcher whose stream is full reads its events from the history later.
pub const ETCD_WATCH_BATCH_BYTES: usize = 64 * 1024;

/// The most bytes of messages that wait on all watch streams of a Front. Each stream may have one
/// message beyond that.
pub const ETCD_WATCH_QUEUES_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The most bytes of encoded events that are kept to be shared by watchers of the same events.
pub const ETCD_WATCH_SHARED_BYTES_MAX: usize = 64 * 1024;

/// The most bytes of a message to a watcher that asked for fragments, as in etcd:
/// `max-request-bytes` and 512 KiB (`v3rpc.sendFragments`). A single larger event is sent whole.
pub const ETCD_WATCH_MESSAGE_BYTES: usize = 2 * 1024 * 1024;

/// The most requests of a watch stream that are not done. At this bound the driver reads no further
/// request of the client.
pub const ETCD_WATCH_REQUESTS_MAX: usize = 64;

/// The most revisions in one message to a watcher that reads the history, as in etcd
/// (`mvcc.watchBatchMaxRevs`).
pub const ETCD_WATCH_REVISIONS_MAX: usize = 1_000;

/// The most events that watchers which read the history look at in one hold of the lock: some 100
/// us. A request on a watch stream counts as eight events.
pub const ETCD_WATCH_HOLD_EVENTS_MAX: usize = 500;

/// The most new events that a Front matches against its watchers at a time, and the most watchers
/// that it looks at for them. The events of one revision are always matched together.
pub const ETCD_WATCH_MATCHED_EVENTS_MAX: usize = 4_096;

/// The most waits of etcd v2 on one Front, so that they leave room for other calls. A further wait
/// is refused as too many requests.
pub const ETCD_V2_WAITS_MAX: usize = ETCD_CALLS_MAX / 2;

/// The most events that an etcd v2 wait gets at once. It reads the others from the history later.
pub const ETCD_V2_WAIT_EVENTS_MAX: usize = 100;

/// The events that an etcd v2 wait gets at once end when they have this many bytes.
pub const ETCD_V2_WAIT_BYTES: u64 = 64 * 1024;

/// The most etcd v2 waits that look into the history in one hold of the state's lock. Each wait
/// looks at up to 1,000 events, which takes some 10 us.
pub const ETCD_V2_WAIT_LOOKS_MAX: usize = 16;

/// The most watchers of one Front. A further watcher is refused as too many requests.
pub const ETCD_WATCHERS_MAX: usize = 4_000_000;

/// The most bytes of keys that the watchers of a Front hold. Above the bound, a watcher of keys
/// that no other watcher has is refused as too many requests.
pub const ETCD_WATCH_KEY_BYTES_MAX: usize = 256 * 1024 * 1024;

/// A watcher that asked for progress notices gets one after this time without events, in ms, unless
/// `watch-progress-notify-interval` is set (`v3rpc.progressReportInterval`). Up to a tenth is
/// added, so that not all streams get theirs at once.
pub const ETCD_PROGRESS_MS: u64 = 600_000;

/// A member without contact for this time, in ms, ends its watch streams that require a leader:
/// three election timeouts of 1 s, as in etcd (`v3rpc.monitorLeader`).
pub const ETCD_NO_LEADER_MS: u64 = 3_000;

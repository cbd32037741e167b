//! Bounds of etcd's clients: how much of theirs is under way at once, and what happens at the
//! bound.

use crate::order::limits::LOOK_MS_MAX;
use crate::spaces::limits::LEASE_ANSWER_MS_MAX;

const _: () = assert!(LEASE_ANSWER_MS_MAX + LOOK_MS_MAX <= ETCD_CALL_MS_MAX);

/// Calls of etcd's clients that one Front has under way. One more is refused as too many requests.
pub const ETCD_CALLS_MAX: usize = 100_000;

/// How long a call waits for another member to lead, in ms (`EtcdServer.MoveLeader` waits for an
/// election timeout).
pub const ETCD_TRANSFER_MS_MAX: u64 = 3_000;

/// How long a call of an etcd client may take, in ms: 5 s, and two election timeouts of 1 s, as in
/// etcd 3.6 (`ServerConfig.ReqTimeout`).
pub const ETCD_CALL_MS_MAX: u64 = 7_000;

/// The time, in ms, in which a refused removal of a cancelled call's key is repeated. Then the key
/// goes with its lease.
pub const LOCK_REMOVAL_MS_MAX: u64 = 60_000;

/// Bytes of keys and values after which a piece of a streamed range ends. The value that reaches it
/// is still in the piece, so a piece has up to 1.5 MiB more. etcd 3.7 begins with 10 keys and aims
/// at 1.5 MiB; smaller pieces let more slow clients be served within the room for responses.
pub const ETCD_PIECE_BYTES: usize = 256 * 1024;

/// Bytes of a reference to a version of a key, which a response holds until it is encoded.
pub const ETCD_REFERENCE_BYTES: u64 = 16;

/// Items of a response (versions, keys, leases, operations) that one step of measuring or writing
/// it looks at: some 100 us. A response with more is encoded in steps, and others go on in between.
pub const ETCD_ENCODED_ITEMS_MAX: usize = 2_048;

/// Bytes after which a piece of a response that is encoded in pieces ends. It has up to one version
/// more.
pub const ETCD_ENCODED_BYTES: usize = 64 * 1024;

/// Keys that the reads of one hold of the state's lock look at: some 100 us at most. A longer read
/// of a range goes on in another hold.
pub const ETCD_HOLD_KEYS_MAX: u64 = 1_000;

/// Keys that a transaction may look at, beside its largest single operation. One that looks at more
/// is refused with `request is too large`. etcd has no bound: it does the work while everybody
/// waits.
pub const ETCD_TXN_KEYS_MAX: u64 = 1_000_000;

/// What it costs to look up how many keys a range has, in keys that are looked at.
pub const ETCD_COUNT_COST_KEYS: u64 = 8;

/// Tokens that one hold of the state's lock compares with the state: some 50 us.
pub const ETCD_HOLD_TOKENS_MAX: usize = 256;

/// Keys of a piece of a streamed range: a read hold of the lock stays short.
pub const ETCD_PIECE_KEYS_MAX: usize = 1_000;

/// Bytes of messages that wait on one watch stream. The driver gets as many at a time. A watcher
/// whose stream has no room reads its events from the history later.
pub const ETCD_WATCH_BATCH_BYTES: usize = 64 * 1024;

/// Bytes of messages that wait on all watch streams of a Front, beside one message of each stream.
pub const ETCD_WATCH_QUEUES_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Bytes of encoded events that are kept for all watchers that get the same.
pub const ETCD_WATCH_SHARED_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a message to a watcher that asked for fragments, as in etcd: `max-request-bytes` and
/// 512 KiB (`v3rpc.sendFragments`). A single event may be larger.
pub const ETCD_WATCH_MESSAGE_BYTES: usize = 2 * 1024 * 1024;

/// Requests of a watch stream that are not done. At this limit the client waits.
pub const ETCD_WATCH_REQUESTS_MAX: usize = 64;

/// Revisions in one message to a watcher that reads the history, as in etcd
/// (`mvcc.watchBatchMaxRevs`).
pub const ETCD_WATCH_REVISIONS_MAX: usize = 1_000;

/// Events that are looked at in one hold of the lock for watchers that read the history: some 100
/// us. A request counts as eight.
pub const ETCD_WATCH_HOLD_EVENTS_MAX: usize = 500;

/// New events that a Front matches against its watchers at a time, and watchers that it looks at
/// for them. The events of one revision are matched together.
pub const ETCD_WATCH_MATCHED_EVENTS_MAX: usize = 4_096;

/// Waits of etcd v2 of one Front, so that they leave room for other calls. One more is refused as
/// too many requests.
pub const ETCD_V2_WAITS_MAX: usize = ETCD_CALLS_MAX / 2;

/// Events of etcd v2 that a wait is given at once. The others are read from the history later.
pub const ETCD_V2_WAIT_EVENTS_MAX: usize = 100;

/// Bytes of events after which a wait of etcd v2 is given no more at once.
pub const ETCD_V2_WAIT_BYTES: u64 = 64 * 1024;

/// Waits of etcd v2 that look into the history in one hold of the state's lock, each at up to 1,000
/// events, some 10 us.
pub const ETCD_V2_WAIT_LOOKS_MAX: usize = 16;

/// Watchers of one Front. One more is refused as too many requests.
pub const ETCD_WATCHERS_MAX: usize = 4_000_000;

/// Bytes of the keys that the watchers of a Front have. Beyond it a watcher of further keys is
/// refused as too many requests.
pub const ETCD_WATCH_KEY_BYTES_MAX: usize = 256 * 1024 * 1024;

/// How long a watcher that asked for progress is without events until it is told, in ms, unless
/// `watch-progress-notify-interval` says otherwise (`v3rpc.progressReportInterval`). Up to a tenth
/// is added, so that not all streams are told at once.
pub const ETCD_PROGRESS_MS: u64 = 600_000;

/// How long a member is without contact until its watch streams that require a leader end, in ms:
/// three election timeouts of 1 s, as in etcd (`v3rpc.monitorLeader`).
pub const ETCD_NO_LEADER_MS: u64 = 3_000;

//! Named bounds of the state machine and of the formats it reads.

/// Commands in one batch, and so in one entry. More than this gains nothing: the cost of an entry
/// is already spread thin, and a longer one holds its clients back. Loop and Front cut here.
pub const BATCH_COMMANDS_MAX: usize = 1_024;

/// Bytes of commands in one batch, unless one command alone is larger (it then goes alone).
pub const BATCH_BYTES_MAX: usize = 256 * 1024;

/// Bytes of one encoded entry. A request is bounded by `jute.maxbuffer`; this is the bound of the
/// format, above any value of that setting that the configuration accepts.
pub const ENTRY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Bytes of a batch that has an entry for itself, since it has one command that is larger than
/// [`BATCH_BYTES_MAX`]. A larger command is refused where it is encoded.
pub const BATCH_ALONE_BYTES_MAX: usize = ENTRY_BYTES_MAX - 20;

/// Bytes of a path. ZooKeeper has no bound but `jute.maxbuffer`; this is the format's.
pub const PATH_BYTES_MAX: usize = ENTRY_BYTES_MAX;

/// Bytes of the name of one znode: its length is kept in 31 bits of a word.
pub const NAME_BYTES_MAX: usize = 0x7fff_ffff;

/// Entries of one ACL. The wire bounds it by `jute.maxbuffer`; the format by 16 bits.
pub const ACL_ENTRIES_MAX: usize = u16::MAX as usize;

/// Operations of one multi. ZooKeeper bounds it by `jute.maxbuffer` only; an operation takes at
/// least 9 bytes there.
pub const MULTI_OPS_MAX: usize = 1_000_000;

/// Identities of one connection (its address and what it authenticated as). ZooKeeper has no
/// bound; a client that sends more auth packets than this is disconnected by Front.
pub const IDENTITIES_MAX: usize = 1_000;

/// Different identity lists in one batch: at most one for each command.
pub const IDENTITY_LISTS_MAX: usize = BATCH_COMMANDS_MAX;

/// Sessions expired by one command. More wait for the next.
pub const EXPIRE_SESSIONS_MAX: usize = 10_000;

/// Leases expired by one command. More wait for the next, between which Apply may give up the
/// state's lock.
pub const EXPIRE_LEASES_MAX: usize = 64;

/// Containers and znodes with a time to live that one command removes. More wait for the next: the
/// state's lock is held meanwhile.
pub const CONTAINER_ZNODES_DELETED_MAX: usize = 1_000;

/// Containers and znodes with a time to live that one step of a search looks at, under the state's
/// lock.
pub const CONTAINER_ZNODES_LOOKED_AT_MAX: usize = 4_096;

/// Members whose last batch sequence is remembered. An ensemble has a handful; members that were
/// replaced long ago are forgotten by a membership change.
pub const ORIGINS_MAX: usize = 10_000;

/// Bytes of a quota's limits or usage that are read: some forty each for four numbers. Longer text
/// counts as no numbers, and does not slow writes. ZooKeeper reads any length.
pub const QUOTA_TEXT_BYTES_MAX: usize = 1_024;

/// Servers of an ensemble, and members whose server is remembered: some of these members were
/// replaced and are not forgotten yet.
pub const SERVERS_MAX: usize = 1_000;

/// Bytes of a server's name, of one of its URLs, or of one of its addresses. DNS has names of 253
/// bytes; etcd has no bound.
pub const SERVER_TEXT_BYTES_MAX: usize = 1_024;

/// URLs of a server for one use. etcd has no bound; more than two are hardly ever seen.
pub const SERVER_URLS_MAX: usize = 64;

/// Bytes of the name of a version of the program.
pub const VERSION_BYTES_MAX: usize = 64;

/// Exceeded quotas noted in one batch of changes, for the log. Further ones are not counted.
pub const QUOTA_WARNINGS_MAX: usize = 4;

/// Old images kept for a running freeze. Reaching it aborts the freeze, and the snapshot is
/// scheduled anew.
pub const FREEZE_OLD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The highest index, ordinal, zxid, revision, version or sequence that an image or a backup may
/// hold. Later commands count on from it, and no process lives so long that it counts up the rest
/// of 63 bits. An image with a higher one is damaged.
pub const RESTORED_NUMBER_MAX: u64 = 3 << 61;

/// Znodes in the tree: ids are 32 bits and the two highest are markers.
pub const ZNODES_MAX: u32 = u32::MAX - 2;

const _: () = assert!(BATCH_BYTES_MAX < ENTRY_BYTES_MAX);
const _: () = assert!(RESTORED_NUMBER_MAX < i64::MAX as u64);
const _: () = assert!(RESTORED_NUMBER_MAX > ETCD_REVISION_MAX as u64);

/// The fewest commands whose places in the tree are loaded before they are applied. With fewer,
/// looking each place up twice costs as much as waiting for one after the other.
pub const LOOK_AHEAD_COMMANDS_MIN: usize = 8;

/// Comparisons and operations of one command of etcd's space, nested ones included. etcd bounds
/// each level by `max-txn-ops`; the format bounds them all.
pub const ETCD_OPS_MAX: usize = 1_000_000;

/// Levels of transactions within a transaction. etcd bounds them by `max-txn-ops`, 128 by default:
/// each level takes one of the operations.
pub const ETCD_TXN_DEPTH_MAX: usize = 128;

/// Events of one chunk of etcd's history. A compaction adds up chunks and walks through one: at
/// this size that one takes some 100 us at most, and a million events are 2,000 chunks.
pub const ETCD_CHUNK_EVENTS: usize = 512;

/// The most that the versions in the outcome of a command, or in the result of a read, may weigh:
/// their keys and values, in bytes, each at least [`ETCD_ANSWER_ITEM_WEIGHT`]. A message of gRPC
/// has 2^31 - 1 bytes at most (`math.MaxInt32`, the bound of etcd's clients). A read that finds
/// more is refused. A command that shows more takes effect, and its client gets the error that the
/// answer is too large.
pub const ETCD_ANSWER_WEIGHT_MAX: u64 = (1 << 31) - 1;

/// The least that a version in an outcome weighs, and an operation of a transaction: some more than
/// it takes in memory.
pub const ETCD_ANSWER_ITEM_WEIGHT: u64 = 64;

/// Keys that a count at an older revision walks through in about the time that it needs for one
/// event above that revision, where it works back from the present count instead.
pub const ETCD_CHANGE_COST: u64 = 64;

/// Events that one step of pruning removes, under the state's lock: some 100 us.
pub const ETCD_PRUNED_EVENTS_MAX: usize = 256;

/// The fewest keys of a range that Apply keeps by their revisions of creation, once a read has
/// asked for the first or the last created. A walk through fewer takes some 10 us.
pub const ETCD_ORDER_KEYS_MIN: u64 = 128;

/// Keys of all ranges that are kept by their revisions of creation. A read of a range with more
/// walks. They take up to some 90 MB with [`ETCD_ORDER_KEY_BYTES_MAX`], 30 MB with keys of 40
/// bytes, and for a while as much again that is being freed.
pub const ETCD_ORDERED_KEYS_MAX: usize = 262_144;

/// Bytes of a key that is kept by its revision of creation. Reads of a range with a longer key
/// walk. A lock's key is its name and the number of a lease.
pub const ETCD_ORDER_KEY_BYTES_MAX: usize = 256;

/// Ranges whose keys are kept by their revisions of creation. One more takes the place of the range
/// whose last read is the longest ago.
pub const ETCD_ORDERS_MAX: usize = 32;

/// A range whose keys are kept by revision of creation keeps its place against an overlapping range
/// until so many such reads were all for other ranges. Until then reads of the other range walk.
pub const ETCD_ORDER_IDLE_READS: u64 = 256;

/// Keys created and removed in a range since the last read that needed them by their revisions of
/// creation; beyond so many they are not kept so. Keeping them up to then takes some 50 ms.
pub const ETCD_ORDER_IDLE_WRITES: u64 = 65_536;

/// Keys that one step adds to those kept by their revisions of creation, or frees, under the
/// state's lock: some 100 us.
pub const ETCD_ORDER_STEP_KEYS: u64 = 128;

/// The highest revision that a store may begin with. Writes reach none that a number cannot hold.
pub const ETCD_REVISION_MAX: i64 = 1 << 62;

/// The longest time to live of a lease, in seconds (`lease.MaxLeaseTTL`). A grant of more is
/// refused.
pub const ETCD_LEASE_TTL_S_MAX: i64 = 9_000_000_000;

/// Bytes that a lease counts against the quota (`storage.leaseOverhead`): so the quota bounds the
/// number of leases as well.
pub const ETCD_LEASE_BYTES: u64 = 64;

/// The most bytes that the users and roles of etcd may count for. A change that needs more is
/// refused as one beyond the quota. etcd has no bound.
pub const ETCD_AUTH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Alarms of etcd. One for each member and kind is all that members raise; an operator may name any
/// number of members. etcd has no bound.
pub const ETCD_ALARMS_MAX: usize = 1_000;

/// Simple tokens of etcd's users. One more takes the place of the oldest of the user with the most.
/// A token lives 300 s unless it is used, and making one takes 50 ms of a core: so this many are
/// used by the time on 5 cores that do nothing else. etcd has no bound.
pub const ETCD_TOKENS_MAX: usize = 32_768;

/// Bytes that a user or a role counts for beside those of its record: its places in memory.
pub const ETCD_AUTH_ENTRY_BYTES: usize = 256;

/// Bytes of a key of etcd v2. etcd has no bound but that of a request's head, 1 MiB. A client whose
/// key is longer is refused before the log.
pub const ETCD_V2_KEY_BYTES_MAX: usize = 16 * 1024;

/// Levels of a key of etcd v2, and so of its tree: walks through the tree, and the drop of a part
/// of it, recurse. etcd has no bound. A client whose key is deeper is refused before the log.
pub const ETCD_V2_LEVELS_MAX: usize = 256;

/// Nodes of one chunk of a directory of etcd v2. A write copies one chunk and the list of chunks of
/// each directory on its way that somebody holds. With this size both are short up to 100,000
/// nodes.
pub const ETCD_V2_CHUNK_NODES_MAX: usize = 256;

/// Nodes or chunks of removed directories of etcd v2 that one step frees, under the state's lock:
/// some 100 us.
pub const ETCD_V2_DROPPED_NODES_MAX: usize = 1_024;

/// Removed directories of etcd v2 that are kept while others hold them, to free them in steps. With
/// more, who is the last to hold one frees it at once.
pub const ETCD_V2_HELD_NODES_MAX: usize = 1_024;

/// Removed directories that one step looks at, to see whether a reader still holds them.
pub const ETCD_V2_HELD_LOOKS_MAX: usize = 64;

/// Events that the history of etcd v2 keeps, as in etcd (`v2store.newStore`). A wait for an older
/// one is refused.
pub const ETCD_V2_HISTORY_EVENTS_MAX: u64 = 1_000;

/// Bytes of the events that the history of etcd v2 keeps. Older events go before there are
/// [`ETCD_V2_HISTORY_EVENTS_MAX`] if they are larger than 64 KiB on average. etcd has no bound.
pub const ETCD_V2_HISTORY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The longest time to live of a key of etcd v2, in seconds: that of a lease. etcd counts in
/// nanoseconds, which overflow at 2.5 % more. A client that asks for more is refused before the
/// log.
pub const ETCD_V2_TTL_S_MAX: u64 = 9_000_000_000;

/// The most bytes that the users and roles of etcd v2 may count for. A change that makes them
/// larger is refused then. etcd has no bound.
pub const ETCD_V2_AUTH_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Bytes that a user or a role of etcd v2 counts for beside those of its record: its places in
/// memory.
pub const ETCD_V2_AUTH_ENTRY_BYTES: u64 = 256;

/// Bytes that a name or a pattern in a list counts for beside those in the record.
pub const ETCD_V2_AUTH_NAME_BYTES: u64 = 48;

/// Keys of etcd v2 that one command expires. More wait for the next.
pub const EXPIRE_KEYS_MAX: usize = 64;

/// The highest index that an image of etcd v2 may have. Writes reach none that a number cannot
/// hold.
pub const ETCD_V2_INDEX_MAX: u64 = 1 << 62;

const _: () = assert!(EXPIRE_KEYS_MAX * (ETCD_V2_KEY_BYTES_MAX + 16) < ENTRY_BYTES_MAX);

//! Bounds of the state machine, and of the formats that it reads.

/// The most commands in one batch, and in all batches of one entry. More would gain nothing: the
/// cost of an entry is already spread over many commands, and a longer entry delays its clients.
/// Front starts a new batch at this number, and Loop a new entry.
pub const BATCH_COMMANDS_MAX: usize = 1_024;

/// The most bytes of commands in one batch, and of batches in one entry. A larger command goes into
/// a batch and an entry of its own.
pub const BATCH_BYTES_MAX: usize = 256 * 1024;

/// The most bytes of one encoded entry. ZooKeeper bounds a request by `jute.maxbuffer`; this is the
/// bound of the format, above any value of that setting that the configuration accepts.
pub const ENTRY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The most bytes of a batch that has an entry to itself, because its only command is larger than
/// [`BATCH_BYTES_MAX`]. A command that does not fit is refused where it is encoded.
pub const BATCH_ALONE_BYTES_MAX: usize = ENTRY_BYTES_MAX - 20;

/// The most bytes of a path. ZooKeeper has no bound but `jute.maxbuffer`; this is the format's.
pub const PATH_BYTES_MAX: usize = ENTRY_BYTES_MAX;

/// The most bytes in the name of one znode: 31 bits of a word hold the length.
pub const NAME_BYTES_MAX: usize = 0x7fff_ffff;

/// The most entries of one ACL. ZooKeeper bounds an ACL by `jute.maxbuffer`; the format by 16 bits.
pub const ACL_ENTRIES_MAX: usize = u16::MAX as usize;

/// The most operations of one multi. ZooKeeper bounds a multi by `jute.maxbuffer` only, where each
/// operation takes at least 9 bytes.
pub const MULTI_OPS_MAX: usize = 1_000_000;

/// The most identities of one connection: its address, and what it authenticated as. ZooKeeper has
/// no bound; Front disconnects a client that sends more auth packets.
pub const IDENTITIES_MAX: usize = 1_000;

/// The most different identity lists in one batch: each command may have its own.
pub const IDENTITY_LISTS_MAX: usize = BATCH_COMMANDS_MAX;

/// The most sessions that one command expires. More wait for the next command.
pub const EXPIRE_SESSIONS_MAX: usize = 10_000;

/// The most leases that one command expires. More wait for the next command; Apply may release the
/// state's lock between the two.
pub const EXPIRE_LEASES_MAX: usize = 64;

/// The most containers and znodes with a time to live that one command removes, since the state's
/// lock may be held meanwhile. More wait for the next command.
pub const CONTAINER_ZNODES_DELETED_MAX: usize = 1_000;

/// The most containers and znodes with a time to live that one step of the search looks at, while
/// it holds the state's lock.
pub const CONTAINER_ZNODES_LOOKED_AT_MAX: usize = 4_096;

/// The most members whose last batch is remembered. An ensemble has a handful; a membership change
/// forgets members that were replaced.
pub const ORIGINS_MAX: usize = 10_000;

/// The most bytes of a quota's limits or usage that are read: about 40 bytes for each of four
/// numbers. Longer text counts as no numbers, so that it does not slow writes. ZooKeeper reads any
/// length.
pub const QUOTA_TEXT_BYTES_MAX: usize = 1_024;

/// The most servers of an ensemble, and the most members whose server is remembered. Some of these
/// members were replaced already, and are to be forgotten.
pub const SERVERS_MAX: usize = 1_000;

/// The most servers that are not on the list and get the log all the same, for one more to come by
/// itself. Servers that were removed and run on are counted, too.
pub const GUESTS_MAX: usize = 7;

/// The most servers of the list after a change of it. A membership of Raft has room for 64 members,
/// and a server that is being replaced has two. ZooKeeper's clients get BADARGUMENTS beyond it.
pub const LISTED_SERVERS_MAX: usize = 32;

/// The most members that are remembered as gone for good. The oldest is forgotten first; it then
/// counts as unknown, and not as a member that must end.
pub const RETIRED_MAX: usize = 1_000;

/// The most bytes of a host in a server's addresses or URLs: those of a DNS name (RFC 1035, 2.3.4).
/// ZooKeeper and etcd have no bound. A longer host is refused, in files and in requests.
pub const HOST_BYTES_MAX: usize = 253;

/// The most bytes of a server's name, of one of its URLs, or of one of its addresses. DNS names
/// have up to 253 bytes; etcd has no bound.
pub const SERVER_TEXT_BYTES_MAX: usize = 1_024;

/// The most peer URLs of a server, and the most client URLs. etcd has no bound; more than two are
/// rare.
pub const SERVER_URLS_MAX: usize = 64;

/// The most bytes in the name of a version of the program.
pub const VERSION_BYTES_MAX: usize = 64;

/// The most exceeded quotas that one batch of changes reports, for the program's log. Further ones
/// are dropped.
pub const QUOTA_WARNINGS_MAX: usize = 4;

/// The most bytes of old values that a running freeze may keep. Above it the freeze aborts, and the
/// snapshot is tried again later.
pub const FREEZE_OLD_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The highest index, ordinal, zxid, revision, version or sequence that an image or a backup may
/// contain. Later commands increment these numbers, and no process runs long enough to reach the
/// end of 63 bits from here. An image with a higher number is damaged.
pub const RESTORED_NUMBER_MAX: u64 = 3 << 61;

/// The most znodes in the tree: ids have 32 bits, and the two highest are markers.
pub const ZNODES_MAX: u32 = u32::MAX - 2;

const _: () = assert!(BATCH_BYTES_MAX < ENTRY_BYTES_MAX);
const _: () = assert!(RESTORED_NUMBER_MAX < i64::MAX as u64);
const _: () = assert!(RESTORED_NUMBER_MAX > ETCD_REVISION_MAX as u64);

/// The fewest commands for which Apply loads the znodes into the cache before it applies the
/// commands. With fewer, looking up each znode twice costs as much as waiting for one after the
/// other.
pub const LOOK_AHEAD_COMMANDS_MIN: usize = 8;

/// The most comparisons and operations of one etcd command, nested ones included. etcd bounds each
/// level of nesting by `max-txn-ops`; the format bounds the sum.
pub const ETCD_OPS_MAX: usize = 1_000_000;

/// The deepest nesting of etcd's transactions. etcd bounds it through `max-txn-ops`, 128 by
/// default: each level takes one of the operations.
pub const ETCD_TXN_DEPTH_MAX: usize = 128;

/// Events in one chunk of etcd's history. A compaction reads one sum per chunk, and each event of
/// only one chunk: with this size that chunk takes some 100 us at most, and a million events are
/// 2,000 chunks.
pub const ETCD_CHUNK_EVENTS: usize = 512;

/// The most bytes of versions in the outcome of a command, or in the result of a read: the sum of
/// the bytes of their keys and values, each version at least [`ETCD_ANSWER_ITEM_WEIGHT`]. A gRPC
/// message has at most 2^31 - 1 bytes (`math.MaxInt32`, the bound of etcd's clients). A read above
/// it is refused. A command above it takes effect, and its client gets the error that the answer is
/// too large.
pub const ETCD_ANSWER_WEIGHT_MAX: u64 = (1 << 31) - 1;

/// The least that each version, and each operation of a transaction, counts against
/// [`ETCD_ANSWER_WEIGHT_MAX`]. That is somewhat more than either takes in memory.
pub const ETCD_ANSWER_ITEM_WEIGHT: u64 = 64;

/// How many keys a walk looks at in about the time that undoing one event takes. A count of a
/// range's keys at an older revision compares two ways with it: a walk through the keys, or the
/// present count with each later event undone.
pub const ETCD_CHANGE_COST: u64 = 64;

/// The most events that one step of pruning removes, while it holds the state's lock: some 100 us.
pub const ETCD_PRUNED_EVENTS_MAX: usize = 256;

/// The fewest keys of a range for which Apply keeps a creation order (the range's keys sorted by
/// the revision that created each), once a read has asked for the first or last created key.
/// Walking through fewer keys takes some 10 us.
pub const ETCD_ORDER_KEYS_MIN: u64 = 128;

/// The most keys in all creation orders together. A read of a range with more keys walks. The keys
/// take up to some 90 MB at [`ETCD_ORDER_KEY_BYTES_MAX`], 30 MB at 40 bytes each, and for a while
/// the same again for orders that are being freed.
pub const ETCD_ORDERED_KEYS_MAX: usize = 262_144;

/// The most bytes of a key in a creation order. Reads of a range with a longer key walk. A lock's
/// key consists of its name and the number of a lease.
pub const ETCD_ORDER_KEY_BYTES_MAX: usize = 256;

/// The most creation orders, each of one range. A further range replaces the one whose last read is
/// the longest ago.
pub const ETCD_ORDERS_MAX: usize = 32;

/// A creation order gives way to one of an overlapping range after this many reads in a row that
/// were all for other ranges. Until then, reads of the other range walk.
pub const ETCD_ORDER_IDLE_READS: u64 = 256;

/// The most keys created and removed in a range since the last read that used its creation order;
/// then the order is dropped. Maintaining it for so many takes some 50 ms.
pub const ETCD_ORDER_IDLE_WRITES: u64 = 65_536;

/// The most keys that one step adds to creation orders, or frees from them, while it holds the
/// state's lock: some 100 us.
pub const ETCD_ORDER_STEP_KEYS: u64 = 128;

/// The highest revision that a store may begin with: low enough that writes never overflow the 63
/// bits.
pub const ETCD_REVISION_MAX: i64 = 1 << 62;

/// The longest time to live of a lease, in seconds (`lease.MaxLeaseTTL`). A longer grant is
/// refused.
pub const ETCD_LEASE_TTL_S_MAX: i64 = 9_000_000_000;

/// Bytes that a lease counts against the quota (`storage.leaseOverhead`), so that the quota bounds
/// the number of leases too.
pub const ETCD_LEASE_BYTES: u64 = 64;

/// The most bytes that etcd's users and roles may count for. A change above it is refused like one
/// above the quota. etcd has no bound.
pub const ETCD_AUTH_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The most alarms of etcd. Members raise at most one for each member and kind; an operator may
/// name any number of members. etcd has no bound.
pub const ETCD_ALARMS_MAX: usize = 1_000;

/// The most simple tokens of etcd's users. A further one replaces the oldest token of the user that
/// has the most. A token lives 300 s unless it is used, and making one takes 50 ms of a core: so
/// only 5 cores that do nothing else reach this number. etcd has no bound.
pub const ETCD_TOKENS_MAX: usize = 32_768;

/// Bytes that a user or a role counts for beside the bytes of its record: its overhead in memory.
pub const ETCD_AUTH_ENTRY_BYTES: usize = 256;

/// The most bytes of a key of etcd v2. etcd bounds only the head of a request, at 1 MiB. A request
/// with a longer key is refused before the log.
pub const ETCD_V2_KEY_BYTES_MAX: usize = 16 * 1024;

/// The most levels in a key of etcd v2, and so in the tree. It bounds the recursion of the
/// functions that walk through the tree or drop a part of it. etcd has no bound. A request with a
/// deeper key is refused before the log.
pub const ETCD_V2_LEVELS_MAX: usize = 256;

/// The most nodes in one chunk of an etcd v2 directory. On its way to a node, a write copies one
/// chunk and the list of chunks of each directory that a reader holds too. With this size both are
/// short for directories of up to 100,000 nodes.
pub const ETCD_V2_CHUNK_NODES_MAX: usize = 256;

/// The most nodes or chunks of removed etcd v2 directories that one step frees, while it holds the
/// state's lock: some 100 us.
pub const ETCD_V2_DROPPED_NODES_MAX: usize = 1_024;

/// The most removed etcd v2 directories that wait, because a reader still holds them, to be freed
/// in steps. Above it, the last reader that drops such a directory frees all of it at once.
pub const ETCD_V2_HELD_NODES_MAX: usize = 1_024;

/// The most removed directories that one step checks for readers.
pub const ETCD_V2_HELD_LOOKS_MAX: usize = 64;

/// The most events in etcd v2's history, as in etcd (`v2store.newStore`). A wait that asks for an
/// older event is refused.
pub const ETCD_V2_HISTORY_EVENTS_MAX: u64 = 1_000;

/// The most bytes of the events in etcd v2's history. If the events are larger than 64 KiB on
/// average, older ones are dropped before there are [`ETCD_V2_HISTORY_EVENTS_MAX`]. etcd has no
/// bound.
pub const ETCD_V2_HISTORY_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The longest time to live of a key of etcd v2, in seconds: as for a lease. etcd counts
/// nanoseconds, which overflow at 2.5 % more. A request with a longer one is refused before the
/// log.
pub const ETCD_V2_TTL_S_MAX: u64 = 9_000_000_000;

/// The most bytes that etcd v2's users and roles may count for. A change that makes them larger is
/// refused. etcd has no bound.
pub const ETCD_V2_AUTH_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Bytes that a user or a role of etcd v2 counts for beside the bytes of its record: its overhead
/// in memory.
pub const ETCD_V2_AUTH_ENTRY_BYTES: u64 = 256;

/// Bytes that a name or a pattern in a list counts for beside its own bytes.
pub const ETCD_V2_AUTH_NAME_BYTES: u64 = 48;

/// The most keys of etcd v2 that one command expires. More wait for the next command.
pub const EXPIRE_KEYS_MAX: usize = 64;

/// The highest index that an image of etcd v2 may have: low enough that writes never overflow the
/// number.
pub const ETCD_V2_INDEX_MAX: u64 = 1 << 62;

const _: () = assert!(EXPIRE_KEYS_MAX * (ETCD_V2_KEY_BYTES_MAX + 16) < ENTRY_BYTES_MAX);

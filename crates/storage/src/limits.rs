//! Named bounds of what is on disk. All are inclusive. A value beyond one is refused when it is
//! written and is corruption when it is read.

/// Bytes of one log entry's payload: the 64 MiB that an entry of the state machine may have, and
/// 64 KiB for the headers that replication puts around it. [`crate::StorageError::RecordTooLarge`]
/// above it.
pub const PAYLOAD_BYTES_MAX: usize = 64 * 1024 * 1024 + 64 * 1024;

/// Bytes of one frame's body. Payloads are the largest bodies; a membership at its limit is far
/// smaller.
pub const BODY_BYTES_MAX: usize = PAYLOAD_BYTES_MAX;

/// Ids in each list of a membership. An ensemble has a handful of voters; observers may be many.
pub const MEMBERS_MAX: usize = 1_000;

/// Bytes of an ordinary segment. Large enough that switching costs nothing, small enough that a
/// snapshot frees space soon. etcd uses the same.
pub const SEGMENT_BYTES_DEFAULT: u64 = 64 * 1024 * 1024;

/// Bytes of a segment that somebody waits for: the first one of a start, and one made because no
/// spare was ready. Filling it with zeros takes milliseconds, so that a server starts quickly.
pub const FIRST_SEGMENT_BYTES_DEFAULT: u64 = 4 * 1024 * 1024;

/// The smallest segment: both slots, a head with a membership at its limit, and a few frames.
pub const SEGMENT_BYTES_MIN: u64 = 64 * 1024;

/// Bytes of the segment that a birth writes. The first start replaces it at once.
pub const BIRTH_SEGMENT_BYTES: u64 = SEGMENT_BYTES_MIN;

/// The largest file that is read as a segment: one that had to be made for the largest entry fits
/// with room to spare. Offsets beyond it are corruption.
pub const SEGMENT_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Bytes of entries that a start carries from the last segment into the fresh one, so that the last
/// one is replaced and not kept for them. Copying this much costs a start a few milliseconds, and a
/// 4 MiB segment stays nearly empty. With more the segment is kept, until a snapshot covers it.
pub const CARRIED_BYTES_MAX: u64 = 256 * 1024;

/// At most one part in so many of the fresh segment is filled by carrying: one that starts full
/// would take no entry, and the next start would find more to carry.
pub const CARRIED_SHARE: u64 = 4;

/// Spares kept when the caller does not say. One is in use soon, one is being filled.
pub const SPARE_COUNT_DEFAULT: usize = 2;

/// Segments in one log. At 4 MiB each, the smallest that a start makes, this is 256 GiB: snapshots
/// have failed for a very long time. A log with more is refused at open.
pub const SEGMENTS_MAX: usize = 65_536;

/// The largest number of a file of the log. Numbers grow by one for each file and are never used
/// twice, so none comes near it: a larger one is not ours, and taking it for one would leave no
/// number for the next file.
pub const FILE_NUMBER_MAX: u64 = u64::MAX / 2;

/// The largest index and the largest term of a record. Both grow by one at a time, so none comes
/// near it: a larger one is damage, and counting on from it would end at the end of the numbers.
pub const POSITION_MAX: u64 = u64::MAX / 2;

/// The largest number of a start. The id of a start has 32 bits for it.
pub const BOOT_COUNT_MAX: u64 = u32::MAX as u64;

/// Capacity of the write buffer that is kept between batches; a larger one is given back.
pub const WRITE_BUFFER_KEPT_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of zeros written in one step when a segment is prepared, so that the log's own sync never
/// waits behind more dirty data than this.
pub const FILL_STEP_BYTES: usize = 1024 * 1024;

/// Bytes of a block of direct writes: a multiple of every usual device's. A file system that wants
/// larger ones refuses, and is written to through the page cache.
pub const DIRECT_BLOCK_BYTES: u64 = 4096;

/// Bytes of the piece of a file that direct writes keep in memory. Each piece is read once before
/// its first write, so that reading costs the log little; a large write has few parts.
pub const DIRECT_PIECE_BYTES: u64 = 1024 * 1024;

/// Bytes read at once when the log is recovered or inspected.
pub const READ_WINDOW_BYTES: usize = 1024 * 1024;

/// The fewest bytes of an entry's payload that recovery keeps as a part of the window it was read
/// through ([`READ_WINDOW_BYTES`]), which stays in memory with it: at most sixty-four times as many
/// bytes, and that only of the first and the last entry, as entries follow each other in the log.
/// Smaller payloads are copied.
pub const SHARED_PAYLOAD_BYTES_MIN: usize = 16 * 1024;

/// Bytes of one piece of a snapshot, before compression. The writer of an image cuts there.
pub const PIECE_BYTES_MAX: usize = 64 * 1024 * 1024 + 1024 * 1024;

/// Bytes of a snapshot written between two syncs.
pub const SNAPSHOT_SYNC_BYTES: u64 = 1024 * 1024;

/// Bytes of a snapshot's encoded metadata: a membership at its limit and fixed fields.
pub const SNAPSHOT_META_BYTES_MAX: usize = 64 * 1024;

/// Snapshots listed in one directory; two or three are normal.
pub const SNAPSHOTS_MAX: usize = 10_000;

/// Directories that were set aside and are still there. One more is refused: a person should see
/// why they come, and each takes as much room as the directory did.
pub const SET_ASIDE_MAX: u32 = 16;

/// The last round of attempts to agree on a birth: more than there are seconds in a century.
pub const BALLOT_ROUND_MAX: u64 = u32::MAX as u64;

/// Bytes of the small files: `identity`, `draft`, `birth` and `boot`, which has exactly as many.
pub const SMALL_FILE_BYTES_MAX: u64 = 8192;

/// Level of zstd for snapshot pieces: fast, since a snapshot must not take CPU from requests.
pub const ZSTD_LEVEL: i32 = 1;

const _: () = assert!(BODY_BYTES_MAX < u32::MAX as usize);
const _: () = assert!(
    SEGMENT_BYTES_MIN - SEGMENT_BYTES_MIN / CARRIED_SHARE - SEGMENT_HEADROOM_BYTES
        > 2 * 4096 + 4 * MEMBERS_MAX as u64 * 8 + 2048
);
const _: () = assert!(DIRECT_PIECE_BYTES.is_multiple_of(DIRECT_BLOCK_BYTES));
const _: () = assert!(FIRST_SEGMENT_BYTES_DEFAULT >= SEGMENT_BYTES_MIN);
const _: () = assert!(SEGMENT_BYTES_DEFAULT >= FIRST_SEGMENT_BYTES_DEFAULT);
const _: () = assert!(SEGMENT_BYTES_MAX > BODY_BYTES_MAX as u64 + SEGMENT_BYTES_MIN);
const _: () = assert!(SMALL_FILE_BYTES_MAX as usize >= 8 * MEMBERS_MAX + 64);
const _: () = assert!(SNAPSHOT_META_BYTES_MAX > 4 * MEMBERS_MAX * 8 + 1024);

/// Bytes at the end of a segment that entries leave free, for hard states and snapshot points: on a
/// full disk these must still find room (40 of them do).
pub const SEGMENT_HEADROOM_BYTES: u64 = 4096;

/// Bytes of a snapshot that somebody gives to be installed. One more and it is refused: no state
/// that fits into memory needs so many.
pub const RECEIVED_BYTES_MAX: u64 = 64 * 1024 * 1024 * 1024;

/// Small spare segments that entries never use. On a full disk every start takes one for its fresh
/// segment. It gives back the segment of the start before if that one holds at most
/// [`CARRIED_BYTES_MAX`] of entries that no snapshot covers, which it then carries along: so a full
/// disk allows any number of starts that become leader and append little. A start that finds more
/// entries keeps both segments; after as many such starts as there are spares here, the next is
/// refused with [`crate::StorageError::DiskFull`], until there is room or a snapshot. Votes and
/// installed snapshots may use the reserve, too.
pub const RESERVE_COUNT: usize = 2;

//! Upper bounds on what is stored on disk, and default sizes. A bound is the largest value that is
//! allowed. Unless its comment says otherwise, a larger value is refused when it is written, and is
//! corruption when it is read.

/// Largest payload of one log entry, in bytes: 64 MiB for an entry of the state machine, and 64 KiB
/// for the headers that replication adds. A larger one is refused with
/// [`crate::StorageError::RecordTooLarge`].
pub const PAYLOAD_BYTES_MAX: usize = 64 * 1024 * 1024 + 64 * 1024;

/// Largest body of one frame of the log, in bytes. Entry payloads are the largest bodies; a
/// membership of [`MEMBERS_MAX`] members is far smaller.
pub const BODY_BYTES_MAX: usize = PAYLOAD_BYTES_MAX;

/// Most ids in each list of a membership. An ensemble has a handful of voters; observers may be
/// many.
pub const MEMBERS_MAX: usize = 1_000;

/// Bytes of a segment of the log that is made in the background. Large enough that switching to the
/// next costs nothing, small enough that a snapshot frees space soon. etcd uses the same size.
pub const SEGMENT_BYTES_DEFAULT: u64 = 64 * 1024 * 1024;

/// Bytes of a segment whose creation somebody waits for: the first segment of a start, and a
/// segment made because no spare was ready. It takes milliseconds to fill with zeros, so a server
/// starts quickly.
pub const FIRST_SEGMENT_BYTES_DEFAULT: u64 = 4 * 1024 * 1024;

/// Bytes of the smallest segment: both mark slots, a head with the largest membership, a few
/// frames.
pub const SEGMENT_BYTES_MIN: u64 = 64 * 1024;

/// Bytes of the segment that a new data directory gets. The first start replaces it at once.
pub const BIRTH_SEGMENT_BYTES: u64 = SEGMENT_BYTES_MIN;

/// Bytes of the largest file that is read as a segment. A segment made for the largest entry fits
/// with space to spare. An offset beyond this is corruption.
pub const SEGMENT_BYTES_MAX: u64 = 1024 * 1024 * 1024;

/// Most bytes of entries that a start copies (*carries*) from the last segment into the fresh one,
/// so that the old segment can be replaced. Copying so much takes a start a few milliseconds, and a
/// fresh segment of 4 MiB stays nearly empty. If there are more bytes, the old segment is kept
/// until a snapshot covers it.
pub const CARRIED_BYTES_MAX: u64 = 256 * 1024;

/// Carried entries may fill at most 1 / `CARRIED_SHARE` of the fresh segment. A segment that starts
/// full could take no entry, and the next start would have to carry even more.
pub const CARRIED_SHARE: u64 = 4;

/// Spares that are kept ready by default: one will be used soon, another is being filled.
pub const SPARE_COUNT_DEFAULT: usize = 2;

/// Most segments in one log. At 4 MiB each, the smallest that a start makes, this is 256 GiB:
/// snapshots must have failed for a very long time. A log with more segments is refused when it is
/// opened.
pub const SEGMENTS_MAX: usize = 65_536;

/// Largest file number in the log's directory. Numbers grow by one for each file and are never used
/// twice, so no real file comes near this. A file with a larger number is ignored: counting on from
/// it could leave no number for the next file.
pub const FILE_NUMBER_MAX: u64 = u64::MAX / 2;

/// Largest index and largest term of a record. Both grow by one at a time, so no real one comes
/// near this. A larger value is damage, and counting on from it could overflow.
pub const POSITION_MAX: u64 = u64::MAX / 2;

/// Largest number of a start of one data directory. The id of a start has 32 bits for this number.
pub const BOOT_COUNT_MAX: u64 = u32::MAX as u64;

/// Capacity of the write buffer that is kept between commits; a larger buffer is shrunk to this.
pub const WRITE_BUFFER_KEPT_BYTES: usize = 4 * 1024 * 1024;

/// Bytes of zeros written in one step while a segment is prepared. The log's own sync never waits
/// behind more dirty data than this.
pub const FILL_STEP_BYTES: usize = 1024 * 1024;

/// Block size of direct writes (O_DIRECT), in bytes: a multiple of the block size of every usual
/// device. A file system that needs larger blocks refuses, and is written through the page cache.
pub const DIRECT_BLOCK_BYTES: u64 = 4096;

/// Bytes of the piece of a file that the direct writer keeps in memory. Each piece is read once,
/// before its first write. It is large enough that such reads are rare and that a large write
/// touches few pieces.
pub const DIRECT_PIECE_BYTES: u64 = 1024 * 1024;

/// Bytes that one read fetches when the log is recovered or inspected (the *window*).
pub const READ_WINDOW_BYTES: usize = 1024 * 1024;

/// Smallest entry payload, in bytes, that recovery keeps as a slice of the read window
/// ([`READ_WINDOW_BYTES`]) instead of a copy. A slice keeps the whole window in memory, which is at
/// most 64 times as large as the slice. Entries follow each other, so this waste is limited to the
/// first and the last entry that are kept.
pub const SHARED_PAYLOAD_BYTES_MIN: usize = 16 * 1024;

/// Largest piece of a snapshot, in bytes before compression. Whatever writes a snapshot divides the
/// state into pieces of at most this size; a larger piece is refused.
pub const PIECE_BYTES_MAX: usize = 64 * 1024 * 1024 + 1024 * 1024;

/// Bytes of a snapshot that are written between two syncs.
pub const SNAPSHOT_SYNC_BYTES: u64 = 1024 * 1024;

/// Largest encoded metadata of a snapshot, in bytes: a membership at its limit and fixed fields.
pub const SNAPSHOT_META_BYTES_MAX: usize = 64 * 1024;

/// Most snapshots listed in one directory; two or three are normal.
pub const SNAPSHOTS_MAX: usize = 10_000;

/// Most directories named `set-aside-N` in one data directory. One more is refused: a person should
/// find out why they appear, and each takes as much disk space as the data it holds.
pub const SET_ASIDE_MAX: u32 = 16;

/// Largest number of a round of voting on a birth: more than there are seconds in a century.
pub const BALLOT_ROUND_MAX: u64 = u32::MAX as u64;

/// Largest size of the small files, in bytes: `identity`, `draft`, `birth`, and `boot`, which
/// always has exactly this size.
pub const SMALL_FILE_BYTES_MAX: u64 = 8192;

/// Largest size of the file `servers`, in bytes: 32 servers, each with a name and a URL of 1 KiB.
pub const SERVERS_FILE_BYTES_MAX: u64 = 128 * 1024;

/// The zstd level for pieces of a snapshot: a fast one, since a snapshot must not take CPU time
/// from requests.
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

/// Bytes at the end of a segment that entries leave free, for hard states and snapshot points:
/// these must still fit when the disk is full (40 of them do).
pub const SEGMENT_HEADROOM_BYTES: u64 = 4096;

/// Largest snapshot that is received for installation, in bytes. A larger one is refused: no state
/// that fits into memory needs so many.
pub const RECEIVED_BYTES_MAX: u64 = 64 * 1024 * 1024 * 1024;

/// Number of small spare segments that entries never use (the *reserve*). On a full disk, each
/// start takes one for its fresh segment. The start also frees the previous start's segment, if
/// that segment holds at most [`CARRIED_BYTES_MAX`] of entries that no snapshot covers, since these
/// are copied into the fresh one. So a full disk allows any number of starts that become leader and
/// append little. A start that finds more entries keeps both segments; once such starts have used
/// up the reserve, the next one is refused with [`crate::StorageError::DiskFull`], until there is
/// space or a snapshot. Votes and installed snapshots may use the reserve, too.
pub const RESERVE_COUNT: usize = 2;

//! Bounds of the store: their values, the reasons for them, and what happens at each.

/// Largest chunk, and largest read, in bytes. Ozone's clients send at most 4 MiB by default, and
/// the largest message of its protocol has 32 MiB. Above: [`crate::ChunkError::ChunkTooLarge`].
pub const CHUNK_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Longest name of a chunk, in bytes. The longest file name is 255, and the suffixes of unfinished
/// writes must fit, too. Above: [`crate::ChunkError::BadChunkName`].
pub const CHUNK_NAME_BYTES_MAX: usize = 200;

/// Default for the largest block, in bytes: Ozone's `ozone.scm.block.size`. Above:
/// [`crate::ChunkError::BlockTooLarge`].
pub const BLOCK_BYTES_MAX_DEFAULT: u64 = 256 * 1024 * 1024;

/// Default for the largest container, in bytes: twice Ozone's `ozone.scm.container.size` of 5 GB.
/// Ozone's datanode asks to have a container closed at 90 % of that size, and takes any bytes until
/// it is closed. Here there is a hard limit; above: [`crate::ChunkError::ContainerTooLarge`].
pub const CONTAINER_BYTES_MAX_DEFAULT: u64 = 10 * 1024 * 1024 * 1024;

/// Largest request, in bytes: a chunk of [`CHUNK_BYTES_MAX`] and its description. Ozone's datanode
/// takes 32 MiB in all. A larger request ends its stream with gRPC's `RESOURCE_EXHAUSTED`.
pub const REQUEST_BYTES_MAX: usize = CHUNK_BYTES_MAX as usize + 1024 * 1024;

/// Most *parts* of one request: chunks, checksums and pairs of metadata. A part may have only two
/// bytes in the message, and takes up to [`REQUEST_PART_BYTES`] of memory. A block of 256 MiB has
/// 18,000 parts in chunks of 4 MiB with checksums of 16 KiB each, and 800,000 in chunks of 1 KiB.
/// Above: [`crate::wire::RequestError::TooManyParts`].
pub const REQUEST_PARTS_MAX: usize = 1024 * 1024;

/// Most bytes of memory that a part of a request takes once it is decoded: a chunk as it is in the
/// message, and as the store gets it. That memory is reserved before a request is decoded.
pub const REQUEST_PART_BYTES: usize = 320;

/// The memory for answering about a block's commit is at most this many times the bytes of the
/// commit's record. The block is in memory in three forms: as the store has it, as a message, and
/// encoded. A chunk takes at least 35 bytes of a record.
pub const COMMIT_MEMORY_TIMES: usize = 12;

/// Largest answer that lists blocks or checksums, in bytes: Ozone's clients take no larger message.
/// If the list is longer, the request is refused with `UNSUPPORTED_REQUEST`; nothing is silently
/// left out.
pub const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Most blocks that are read from the store at a time for an answer that lists blocks or checksums.
pub const BLOCKS_PER_PAGE: usize = 1024;

/// Bytes of an answer to a ReadBlock that asks for no size, as in Ozone 2.2.
pub const READ_BLOCK_ANSWER_BYTES_DEFAULT: u64 = 1024 * 1024;

/// Most bytes of one answer to ReadBlock, unless one checksum covers more. A client that asks for
/// larger answers gets answers of this size.
pub const READ_BLOCK_ANSWER_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Most pieces in the answer to one ReadChunk. Each piece has the bytes of one checksum, or of
/// several if there would be more pieces than this.
pub const READ_CHUNK_PIECES_MAX: u64 = 64 * 1024;

/// Bytes of a piece in the answer to a ReadChunk if the chunk has no checksums:
/// `ozone.chunk.read.buffer.default.size`.
pub const READ_CHUNK_PIECE_BYTES_DEFAULT: u64 = 1024 * 1024;

/// Most bytes that an Echo may ask for. Above: `MALFORMED_REQUEST`.
pub const ECHO_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Longest pause that an Echo may ask for, in milliseconds. Above: `MALFORMED_REQUEST`.
pub const ECHO_PAUSE_MS_MAX: u32 = 60_000;

const _: () = assert!(READ_BLOCK_ANSWER_BYTES_DEFAULT <= READ_BLOCK_ANSWER_BYTES_MAX);
const _: () = assert!(READ_BLOCK_ANSWER_BYTES_MAX < CHUNK_BYTES_MAX);
const _: () = assert!(ECHO_BYTES_MAX < ANSWER_BYTES_MAX);

/// Largest body of a record, in bytes: the largest chunk, and as much for the metadata of a block.
/// Above: [`crate::ChunkError::MetadataTooLarge`].
pub const RECORD_BODY_BYTES_MAX: usize = CHUNK_BYTES_MAX as usize;

/// Default size of a segment of the log, in bytes. Starting a segment costs the file system some
/// milliseconds. Emptying one copies at most half of its bytes.
pub const SEGMENT_BYTES_DEFAULT: u32 = 256 * 1024 * 1024;

/// Smallest segment, in bytes; for tests. A chunk that does not fit into a segment is refused with
/// [`crate::ChunkError::ChunkTooLarge`].
pub const SEGMENT_BYTES_MIN: u32 = 64 * 1024;

/// Largest segment, in bytes.
pub const SEGMENT_BYTES_MAX: u32 = 1024 * 1024 * 1024;

/// Bytes at the end of a segment that chunks leave free, so that blocks can still be committed when
/// the disk has no space for another segment. Commits leave half of this free, so that blocks and
/// containers can be deleted. A small segment keeps an eighth of its size free.
pub const SEGMENT_HEADROOM_BYTES: u32 = 1024 * 1024;

/// Bytes of the file that is reserved for a full disk: it becomes a segment for deletions only. A
/// deletion that is synced alone takes 4 KiB of it; more deletions find space once the space of
/// what was deleted is given back. With small segments the file has a quarter of a segment's size.
pub const RESERVE_BYTES: u32 = 16 * 1024 * 1024;

/// Calls of [`crate::store::Store::tick`] before the store tries again to reserve the file of
/// [`RESERVE_BYTES`] and the next segment, after the disk had no space: some seconds.
pub const RESERVE_PAUSE_CALLS: u32 = 50;

/// Most segments in a log. At the default size this is 16 TiB. Above:
/// [`crate::ChunkError::DiskFull`].
pub const SEGMENTS_MAX: usize = 65_536;

/// Largest number of a segment. Numbers grow by one for each segment and are never used twice.
/// Above: [`crate::ChunkError::DiskFull`].
pub const SEGMENT_NUMBER_MAX: u32 = u32::MAX - 1;

/// Bytes of one buffer. Small records are gathered in such a buffer, and larger ones pass through
/// it on their way to the disk. All buffers together are about what a core has in its caches: with
/// 24 buffers of 1 MiB, copying 4 MB and computing its checksums took a third longer.
pub const BUFFER_BYTES: usize = 256 * 1024;

/// Number of buffers. A thread that needs one more waits, so writers that are faster than the disk
/// do not fill the memory.
pub const BUFFERS_MAX: usize = 16;

/// Largest body of a record that is gathered in the log's shared buffer, in bytes; a larger record
/// is written alone. Only one thread at a time copies into the shared buffer.
pub const GATHERED_BYTES_MAX: usize = 64 * 1024;

/// Largest chunk that is gathered before it is written to its block's file, in bytes. Copying a
/// larger one costs as much as writing it.
pub const FILE_GATHERED_CHUNK_BYTES_MAX: usize = 8 * 1024;

/// Most bytes of one block that are gathered before they are written. Each container that is
/// written to gathers for one block at a time.
pub const FILE_GATHERED_BYTES_MAX: usize = 64 * 1024;

/// Most bytes of one write to the file of a block or chunk that go through the page cache. The
/// whole disk blocks of a larger write go around it, which costs less CPU from this size on; but
/// not if the write starts inside a disk block.
pub const FILE_CACHED_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a disk block. The log is written in whole disk blocks.
pub const BLOCK_BYTES: u32 = storage::limits::DIRECT_BLOCK_BYTES as u32;

/// Default number of files that are kept open, with at most two handles each. When there are more,
/// the least recently used quarter is closed.
pub const OPEN_FILES_MAX_DEFAULT: usize = 512;

/// Bytes by which the log grows between two checkpoints, if the last one is small. A start reads at
/// most this much of the log, and as much again if the newest checkpoint is damaged.
pub const CHECKPOINT_EVERY_BYTES: u64 = 512 * 1024 * 1024;

/// Between two checkpoints, the log also grows by at least this many times the size of the last
/// checkpoint, so that a large index is not written too often.
pub const CHECKPOINT_EVERY_TIMES: u64 = 4;

/// A checkpoint that is written to give space back waits one call of the background work for each
/// so many bytes of the last checkpoint. This bounds the share of the disk that such checkpoints
/// take. Removing an emptied segment may take two checkpoints at once.
pub const CHECKPOINT_BYTES_PER_CALL: u64 = 256 * 1024;

/// Number of checkpoints that are kept.
pub const CHECKPOINTS_KEPT: usize = 2;

/// A piece of a checkpoint is written once it has this many bytes of entries.
pub const CHECKPOINT_PIECE_BYTES: usize = 1024 * 1024;

/// Largest piece of a checkpoint, in bytes. The last entry of a piece may be a block with an extent
/// for every byte of a large container.
pub const CHECKPOINT_PIECE_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Most lines in the note about damage. Further damage is reported when it is found, but not noted.
pub const DAMAGE_LINES_MAX: usize = 1000;

/// Most blocks that are added to a checkpoint before the container's lock is released for others.
pub const CHECKPOINT_BLOCKS: usize = 1024;

/// Bytes of a block that an export reads at a time.
pub const EXPORT_READ_BYTES: u64 = 4 * 1024 * 1024;

/// Calls of [`crate::store::Store::upkeep`] that give no space back, after the disk had no space
/// for a checkpoint or for copies: about a minute.
pub const FULL_PAUSE_CALLS: u32 = 600;

/// Calls of [`crate::store::Store::upkeep`] from a deletion until the store looks for segments to
/// give back: some seconds, in which more may be deleted.
pub const GARBAGE_WAIT_CALLS: u32 = 30;

/// Bytes of a chunk that the scrubber reads at a time.
pub const SCRUB_READ_BYTES: u64 = 4 * 1024 * 1024;

/// A segment is emptied only if at most 1 / `LIVE_SHARE_MAX` of its bytes are still needed.
pub const LIVE_SHARE_MAX: u64 = 2;

/// On a full disk, the dead ranges of a segment are punched out if they have at least this many
/// bytes.
pub const PUNCHED_BYTES_MIN: u64 = 1024 * 1024;

/// Bytes of a segment that one call of the background work examines for dead ranges.
pub const PUNCHED_BYTES_PER_CALL: u32 = 32 * 1024 * 1024;

/// Bytes that one read fetches when the log is read from end to end.
pub const READ_WINDOW_BYTES: usize = 1024 * 1024;

const _: () = assert!(BUFFER_BYTES >= 2 * GATHERED_BYTES_MAX);
const _: () = assert!(BUFFER_BYTES.is_multiple_of(BLOCK_BYTES as usize));
const _: () = assert!(SEGMENT_BYTES_DEFAULT as usize > 2 * RECORD_BODY_BYTES_MAX);

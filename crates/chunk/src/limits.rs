//! Bounds of the store: what each is, why, and what happens at it.

/// Bytes of one chunk, and of one read. Ozone's clients send 4 MiB at most by default, and 32 MiB
/// is the largest message of its protocol. [`crate::ChunkError::ChunkTooLarge`] above it.
pub const CHUNK_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Bytes of a chunk's name. 255 is the longest file name there is; what the stages append must fit.
/// [`crate::ChunkError::BadChunkName`] above it.
pub const CHUNK_NAME_BYTES_MAX: usize = 200;

/// Bytes of a block, unless the options say something else: Ozone's `ozone.scm.block.size`.
/// [`crate::ChunkError::BlockTooLarge`] above it.
pub const BLOCK_BYTES_MAX_DEFAULT: u64 = 256 * 1024 * 1024;

/// Bytes of a container, unless the options say something else: twice Ozone's
/// `ozone.scm.container.size` of 5 GB. Its datanode asks for a close at 90 % of that size, and
/// takes what comes until it is closed; here there is an end.
/// [`crate::ChunkError::ContainerTooLarge`] above it.
pub const CONTAINER_BYTES_MAX_DEFAULT: u64 = 10 * 1024 * 1024 * 1024;

/// Bytes of one request. A chunk of [`CHUNK_BYTES_MAX`] and what describes it; Ozone's datanode
/// takes 32 MiB in all. The stream of a larger one ends with gRPC's `RESOURCE_EXHAUSTED`.
pub const REQUEST_BYTES_MAX: usize = CHUNK_BYTES_MAX as usize + 1024 * 1024;

/// Chunks, checksums and pairs of metadata in one request together: each takes two bytes there and
/// up to 200 here. A block of 256 MiB has 18,000 of them in chunks of 4 MiB with checksums of 16
/// KiB each, and 800,000 in chunks of 1 KiB. [`crate::wire::RequestError::TooManyParts`] above it.
pub const REQUEST_PARTS_MAX: usize = 1024 * 1024;

/// Bytes of memory that such a part takes once it is decoded, at most: a chunk as it is in the
/// message, and as the store gets it. Room for it is taken before a request is decoded.
pub const REQUEST_PART_BYTES: usize = 320;

/// Times the bytes of a block's commit that it takes in memory at most while it is answered: as the
/// store has it, as a message, and encoded. A chunk takes 35 bytes of a record at the least.
pub const COMMIT_MEMORY_TIMES: usize = 12;

/// Bytes of an answer that lists blocks or checksums: what Ozone's clients take in one message. The
/// request is refused with `UNSUPPORTED_REQUEST` above it; nothing is left out in silence.
pub const ANSWER_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Blocks that are fetched from the store at once for such an answer.
pub const BLOCKS_PER_PAGE: usize = 1024;

/// Bytes of an answer to ReadBlock that does not say how many it wants, as in Ozone 2.2.
pub const READ_BLOCK_ANSWER_BYTES_DEFAULT: u64 = 1024 * 1024;

/// Bytes of an answer to ReadBlock at most, unless one checksum covers more. A client that asks for
/// more gets that many; the rest comes in the next answer.
pub const READ_BLOCK_ANSWER_BYTES_MAX: u64 = 4 * 1024 * 1024;

/// Pieces that the data of one ReadChunk are answered in. There is one for each checksum, or for
/// each of several checksums where there would be more.
pub const READ_CHUNK_PIECES_MAX: u64 = 64 * 1024;

/// Bytes of a piece where there are no checksums: `ozone.chunk.read.buffer.default.size`.
pub const READ_CHUNK_PIECE_BYTES_DEFAULT: u64 = 1024 * 1024;

/// Bytes that an Echo may ask for. `MALFORMED_REQUEST` above it.
pub const ECHO_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Milliseconds that an Echo may ask to be kept waiting. `MALFORMED_REQUEST` above it.
pub const ECHO_PAUSE_MS_MAX: u32 = 60_000;

const _: () = assert!(READ_BLOCK_ANSWER_BYTES_DEFAULT <= READ_BLOCK_ANSWER_BYTES_MAX);
const _: () = assert!(READ_BLOCK_ANSWER_BYTES_MAX < CHUNK_BYTES_MAX);
const _: () = assert!(ECHO_BYTES_MAX < ANSWER_BYTES_MAX);

/// Bytes of the body of a record: the largest chunk, and the metadata of a block likewise.
/// [`crate::ChunkError::MetadataTooLarge`] above it.
pub const RECORD_BODY_BYTES_MAX: usize = CHUNK_BYTES_MAX as usize;

/// Bytes of a segment of the log, unless the options say something else. Going from one to the next
/// costs some milliseconds of the file system's; giving space back copies half of one at most.
pub const SEGMENT_BYTES_DEFAULT: u32 = 256 * 1024 * 1024;

/// The smallest segment, for tests. A chunk that does not fit into one is refused with
/// [`crate::ChunkError::ChunkTooLarge`].
pub const SEGMENT_BYTES_MIN: u32 = 64 * 1024;

/// The largest segment.
pub const SEGMENT_BYTES_MAX: u32 = 1024 * 1024 * 1024;

/// Bytes at the end of a segment that chunks leave free, so that blocks can still be committed when
/// the disk has no room for another segment; and commits leave half of it, so that blocks and
/// containers can be deleted. A small segment leaves an eighth.
pub const SEGMENT_HEADROOM_BYTES: u32 = 1024 * 1024;

/// Bytes of the file that is set aside for a full disk: a segment for deletions and nothing else.
/// One that is synced by itself takes 4 KiB of it, and more have room once it was given back what
/// they deleted. A small segment has a quarter.
pub const RESERVE_BYTES: u32 = 16 * 1024 * 1024;

/// Calls of [`crate::store::Store::tick`] until it is tried again to set that file aside, after
/// there was no room: some seconds.
pub const RESERVE_PAUSE_CALLS: u32 = 50;

/// Segments of a log. At the default size this is 16 TiB. [`crate::ChunkError::DiskFull`] beyond
/// it.
pub const SEGMENTS_MAX: usize = 65_536;

/// The largest number of a segment. Numbers grow by one for each and are never used twice.
pub const SEGMENT_NUMBER_MAX: u32 = u32::MAX - 1;

/// Bytes of the buffers that records are gathered in, and that larger ones pass on their way to the
/// disk. All of them together are about what a core keeps in its caches: with 24 of 1 MiB, copying
/// and summing up 4 MB took a third more.
pub const BUFFER_BYTES: usize = 256 * 1024;

/// Such buffers in all. Who needs one more waits for one: this is what keeps a disk that is slower
/// than its writers from filling the memory.
pub const BUFFERS_MAX: usize = 16;

/// The largest body that is gathered with others; a larger one is written by itself. Copying it
/// into the common buffer happens one at a time.
pub const GATHERED_BYTES_MAX: usize = 64 * 1024;

/// The largest chunk that is gathered with others on its way to the file of its block. Copying more
/// costs as much as writing it.
pub const FILE_GATHERED_CHUNK_BYTES_MAX: usize = 8 * 1024;

/// Bytes of one block that are gathered before they are written. There is one such block for each
/// container that is written to.
pub const FILE_GATHERED_BYTES_MAX: usize = 64 * 1024;

/// The most bytes that go to the file of a block, or of a chunk, through the page cache. The whole
/// blocks of what is larger go around it, which takes less CPU from here on; but not if it starts
/// inside of one.
pub const FILE_CACHED_BYTES_MAX: usize = 64 * 1024;

/// Bytes of the blocks that the log is written in.
pub const BLOCK_BYTES: u32 = storage::limits::DIRECT_BLOCK_BYTES as u32;

/// Files that are kept open, with two handles each at most, unless the options say something else.
/// A quarter, those that were used longest ago, are closed when there are more.
pub const OPEN_FILES_MAX_DEFAULT: usize = 512;

/// Bytes of the log after which there is another checkpoint, if the last one is small: what a start
/// reads at most, with as much again if the last checkpoint is damaged.
pub const CHECKPOINT_EVERY_BYTES: u64 = 512 * 1024 * 1024;

/// Times the bytes of the last checkpoint that the log grows at least before there is another: a
/// large index is not written more often than it is worth.
pub const CHECKPOINT_EVERY_TIMES: u64 = 4;

/// Bytes of a checkpoint for which one call of the background work is waited, so that those that
/// are written to give space back take so much of the disk and no more. Removing an emptied segment
/// may take two at once.
pub const CHECKPOINT_BYTES_PER_CALL: u64 = 256 * 1024;

/// Checkpoints that are kept.
pub const CHECKPOINTS_KEPT: usize = 2;

/// Bytes of entries after which a piece of a checkpoint is written.
pub const CHECKPOINT_PIECE_BYTES: usize = 1024 * 1024;

/// Bytes of a piece of a checkpoint: the last entry of one is a block with an extent for every byte
/// of a large container at most.
pub const CHECKPOINT_PIECE_BYTES_MAX: usize = 1024 * 1024 * 1024;

/// Lines that are kept of what was found to be damaged. What is more is told when it is found, and
/// not noted.
pub const DAMAGE_LINES_MAX: usize = 1000;

/// Blocks of a container that are put into a checkpoint while its lock is held.
pub const CHECKPOINT_BLOCKS: usize = 1024;

/// Bytes of a block that are read at once to write them to a file of their own.
pub const EXPORT_READ_BYTES: u64 = 4 * 1024 * 1024;

/// Calls of [`crate::store::Store::upkeep`] that give no space back, after there was no room for a
/// checkpoint or for what is copied: a minute or so.
pub const FULL_PAUSE_CALLS: u32 = 600;

/// Calls of [`crate::store::Store::upkeep`] from a deletion until it is looked for segments whose
/// space can be given back: some seconds, in which more may be deleted.
pub const GARBAGE_WAIT_CALLS: u32 = 30;

/// Bytes that the scrubber reads at once of a chunk.
pub const SCRUB_READ_BYTES: u64 = 4 * 1024 * 1024;

/// A segment with more live bytes than one part in so many is not compacted.
pub const LIVE_SHARE_MAX: u64 = 2;

/// On a full disk a segment gives back the room of what is dead in it from so many bytes on.
pub const PUNCHED_BYTES_MIN: u64 = 1024 * 1024;

/// Bytes of a segment that one call of the background work looks through for that.
pub const PUNCHED_BYTES_PER_CALL: u32 = 32 * 1024 * 1024;

/// Bytes read at once when the log is read from end to end.
pub const READ_WINDOW_BYTES: usize = 1024 * 1024;

const _: () = assert!(BUFFER_BYTES >= 2 * GATHERED_BYTES_MAX);
const _: () = assert!(BUFFER_BYTES.is_multiple_of(BLOCK_BYTES as usize));
const _: () = assert!(SEGMENT_BYTES_DEFAULT as usize > 2 * RECORD_BODY_BYTES_MAX);

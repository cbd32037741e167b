//! The crate's one error type.

use std::io;

use storage::disk::is_out_of_descriptors;
use thiserror::Error;

use crate::block::BlockId;
use crate::container::state::State;

/// The reason why the store refused or failed. Nothing was changed, unless a variant says
/// otherwise.
#[derive(Debug, Error)]
pub enum ChunkError {
    /// There is no such container.
    #[error("there is no container {container_id}")]
    NoSuchContainer {
        /// The container that was asked for.
        container_id: u64,
    },
    /// A container of that id exists already.
    #[error("container {container_id} exists")]
    ContainerExists {
        /// The container that was to be created.
        container_id: u64,
    },
    /// The container was deleted a moment ago, and its files are not gone yet.
    #[error("container {container_id} is being deleted")]
    ContainerBeingDeleted {
        /// Which container.
        container_id: u64,
    },
    /// The state of the container does not allow it.
    #[error("container {container_id} is {state}: it takes no {what}")]
    WrongState {
        /// Which container.
        container_id: u64,
        /// Its state.
        state: State,
        /// The attempt, as a noun.
        what: &'static str,
    },
    /// A container that is still written to cannot be deleted.
    #[error("container {container_id} is open: close it before it is deleted")]
    DeleteOfOpen {
        /// Which container.
        container_id: u64,
    },
    /// A container with blocks is deleted only by force.
    #[error("container {container_id} has {block_count} blocks: it is deleted only by force")]
    DeleteOfNonEmpty {
        /// Which container.
        container_id: u64,
        /// Blocks that it has.
        block_count: u64,
    },
    /// There is no such block, or nothing of it was committed.
    #[error("container {} has no block {}", .0.container_id, .0.local_id)]
    NoSuchBlock(BlockId),
    /// The block is finalized, and takes nothing more.
    #[error("block {} of container {} is finalized", .0.local_id, .0.container_id)]
    Finalized(BlockId),
    /// The block was deleted a moment ago, and its files are not gone yet.
    #[error("block {} of container {} is being deleted", .0.local_id, .0.container_id)]
    BeingDeleted(BlockId),
    /// Nothing was written that could be the chunk.
    #[error("block {} of container {} has no chunk {name:?}", id.local_id, id.container_id)]
    NoSuchChunk {
        /// Which block.
        id: BlockId,
        /// The chunk's name.
        name: String,
    },
    /// A read beyond the end of the block, or of the chunk's file.
    #[error(
        "block {} of container {} ends at byte {length}, before byte {end}",
        id.local_id, id.container_id
    )]
    PastTheEnd {
        /// Which block.
        id: BlockId,
        /// The byte where the block, or the chunk's file, ends.
        length: u64,
        /// The byte where the read would have ended.
        end: u64,
    },
    /// A chunk that would leave a hole in its block.
    #[error(
        "block {} of container {} ends at byte {length}: a chunk at {offset} would leave a hole",
        id.local_id, id.container_id
    )]
    Gap {
        /// Which block.
        id: BlockId,
        /// The byte where the block ends.
        length: u64,
        /// The byte where the chunk was to start.
        offset: u64,
    },
    /// The chunk's length is not that of its data.
    #[error("chunk {name:?} has {bytes} bytes, and the request says {length}")]
    WrongLength {
        /// The chunk's name.
        name: String,
        /// The length that the request gave.
        length: u64,
        /// The length of the data that came.
        bytes: u64,
    },
    /// More bytes than one request may have.
    #[error("a chunk of {bytes} bytes is over the limit of {bytes_max}")]
    ChunkTooLarge {
        /// Bytes asked for or sent.
        bytes: u64,
        /// The limit, from [`crate::limits`].
        bytes_max: u64,
    },
    /// More bytes than a block may have.
    #[error(
        "block {} of container {} would have {bytes} bytes, over the limit of {bytes_max}",
        id.local_id, id.container_id
    )]
    BlockTooLarge {
        /// Which block.
        id: BlockId,
        /// Where the chunk would have ended.
        bytes: u64,
        /// The limit, an option of the store.
        bytes_max: u64,
    },
    /// The container has as many bytes as it may.
    #[error(
        "container {container_id} would have {bytes} bytes, over the limit of {bytes_max}: close it"
    )]
    ContainerTooLarge {
        /// Which container.
        container_id: u64,
        /// Bytes that it would have.
        bytes: u64,
        /// The limit, an option of the store.
        bytes_max: u64,
    },
    /// Metadata that does not fit into a record.
    #[error("the metadata of a block takes {bytes} bytes, over the limit of {bytes_max}")]
    MetadataTooLarge {
        /// Bytes that it would take.
        bytes: u64,
        /// The limit, from [`crate::limits`].
        bytes_max: u64,
    },
    /// A name that is no file name.
    #[error("{name:?} is not a valid name of a chunk")]
    BadChunkName {
        /// The name.
        name: String,
    },
    /// Data that are not what their checksums say, as a client sent them.
    #[error("chunk {name:?}: {what}")]
    ChecksumMismatch {
        /// The chunk's name.
        name: String,
        /// Where they differ.
        what: crate::checksum::Mismatch,
    },
    /// Bytes on disk that are not what was written.
    #[error(
        "block {} of container {} is damaged between bytes {start} and {end}: {what}",
        id.local_id, id.container_id
    )]
    Damaged {
        /// Which block.
        id: BlockId,
        /// First byte of the block that may be wrong.
        start: u64,
        /// The byte after the last one.
        end: u64,
        /// The finding, with the file.
        what: String,
    },
    /// A commit that this container has not seen.
    #[error("container {container_id} has not seen commit {wanted}: it is at {known}")]
    UnknownCommit {
        /// Which container.
        container_id: u64,
        /// The commit that was asked for.
        wanted: u64,
        /// The container's last commit.
        known: u64,
    },
    /// A commit that this block has not seen.
    #[error(
        "block {} of container {} is at commit {known}, not {wanted}",
        id.local_id, id.container_id
    )]
    CommitMismatch {
        /// Which block.
        id: BlockId,
        /// The commit that was asked for.
        wanted: u64,
        /// The block's own.
        known: u64,
    },
    /// The disk has no room. Reads and deletions go on.
    #[error("the disk is full{}", wanted(*bytes_wanted))]
    DiskFull {
        /// Bytes that were wanted; 0 if the file system did not say for what it has no room: it may
        /// be for one more file.
        bytes_wanted: u64,
    },
    /// The system refused an operation on a file.
    #[error("cannot {op} {file}: {error}")]
    Io {
        /// Path below the store's directory.
        file: String,
        /// The attempt, as a verb.
        op: &'static str,
        /// The system's error. The text includes it, so it is not the `source`: printing the whole
        /// chain would repeat it.
        error: io::Error,
    },
    /// An earlier write or sync failed: nothing more is written until the store is opened again.
    /// The writes under way at that moment may or may not be on disk.
    #[error("the store stopped writing after a failed write or sync: {0}")]
    Stopped(String),
    /// The directory is not a store, or one of a later version.
    #[error("{file}: {what}")]
    BadStore {
        /// Path below the store's directory.
        file: String,
        /// The finding.
        what: String,
    },
}

fn wanted(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        _ => format!(": no room for {bytes} bytes more"),
    }
}

impl ChunkError {
    /// Whether the system had no room or no descriptor for it: nothing is broken, and it may go
    /// well at another time.
    pub fn is_refusal(&self) -> bool {
        match self {
            ChunkError::DiskFull { .. } => true,
            ChunkError::Io { error, .. } => is_out_of_descriptors(error),
            _ => false,
        }
    }

    /// An input/output error about `file`; `op` completes "cannot ...".
    pub(crate) fn io(file: &str, op: &'static str, error: io::Error) -> ChunkError {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                ChunkError::DiskFull { bytes_wanted: 0 }
            }
            _ => ChunkError::Io { file: file.to_owned(), op, error },
        }
    }
}

//! [`ChunkError`]: every error that this crate returns.

use std::io;

use storage::disk::is_out_of_descriptors;
use thiserror::Error;

use crate::block::BlockId;
use crate::container::state::State;

/// Why the store refused or failed. Nothing has changed, unless a variant says otherwise.
#[derive(Debug, Error)]
pub enum ChunkError {
    /// There is no such container.
    #[error("there is no container {container_id}")]
    NoSuchContainer {
        /// The container that was asked for.
        container_id: u64,
    },
    /// A container with that id exists already.
    #[error("container {container_id} exists")]
    ContainerExists {
        /// The container that was to be created.
        container_id: u64,
    },
    /// The container was deleted a moment ago, and its files still exist.
    #[error("container {container_id} is being deleted")]
    ContainerBeingDeleted {
        /// The container's id.
        container_id: u64,
    },
    /// The state of the container does not allow the operation.
    #[error("container {container_id} is {state}: it takes no {what}")]
    WrongState {
        /// The container's id.
        container_id: u64,
        /// Its state.
        state: State,
        /// The attempted operation, as a noun.
        what: &'static str,
    },
    /// A container that is still written to cannot be deleted.
    #[error("container {container_id} is open: close it before it is deleted")]
    DeleteOfOpen {
        /// The container's id.
        container_id: u64,
    },
    /// A container that has blocks is deleted only by force.
    #[error("container {container_id} has {block_count} blocks: it is deleted only by force")]
    DeleteOfNonEmpty {
        /// The container's id.
        container_id: u64,
        /// Number of blocks in the container.
        block_count: u64,
    },
    /// The block does not exist, or was not committed.
    #[error("container {} has no block {}", .0.container_id, .0.local_id)]
    NoSuchBlock(BlockId),
    /// The block is finalized: it takes no more writes.
    #[error("block {} of container {} is finalized", .0.local_id, .0.container_id)]
    Finalized(BlockId),
    /// The block was deleted a moment ago, and its files still exist.
    #[error("block {} of container {} is being deleted", .0.local_id, .0.container_id)]
    BeingDeleted(BlockId),
    /// The block has no such chunk, and no bytes where it would be.
    #[error("block {} of container {} has no chunk {name:?}", id.local_id, id.container_id)]
    NoSuchChunk {
        /// The block's id.
        id: BlockId,
        /// The chunk's name.
        name: String,
    },
    /// The read goes beyond the end of the block, or of the chunk's file.
    #[error(
        "block {} of container {} ends at byte {length}, before byte {end}",
        id.local_id, id.container_id
    )]
    PastTheEnd {
        /// The block's id.
        id: BlockId,
        /// The byte of the block where the block, or the chunk's file, ends.
        length: u64,
        /// The byte of the block where the read would have ended.
        end: u64,
    },
    /// The chunk would leave a hole in its block.
    #[error(
        "block {} of container {} ends at byte {length}: a chunk at {offset} would leave a hole",
        id.local_id, id.container_id
    )]
    Gap {
        /// The block's id.
        id: BlockId,
        /// The byte where the block ends.
        length: u64,
        /// The byte where the chunk was to start.
        offset: u64,
    },
    /// The length in the request is not the length of the data.
    #[error("chunk {name:?} has {bytes} bytes, and the request says {length}")]
    WrongLength {
        /// The chunk's name.
        name: String,
        /// The length that the request stated.
        length: u64,
        /// The length of the data.
        bytes: u64,
    },
    /// The chunk has more bytes than one request may.
    #[error("a chunk of {bytes} bytes is over the limit of {bytes_max}")]
    ChunkTooLarge {
        /// Bytes of the chunk or of the read.
        bytes: u64,
        /// The limit, from [`crate::limits`].
        bytes_max: u64,
    },
    /// The block would have more bytes than a block may.
    #[error(
        "block {} of container {} would have {bytes} bytes, over the limit of {bytes_max}",
        id.local_id, id.container_id
    )]
    BlockTooLarge {
        /// The block's id.
        id: BlockId,
        /// The byte of the block where the chunk would have ended.
        bytes: u64,
        /// The limit, an option of the store.
        bytes_max: u64,
    },
    /// The container would have more bytes than a container may.
    #[error(
        "container {container_id} would have {bytes} bytes, over the limit of {bytes_max}: close it"
    )]
    ContainerTooLarge {
        /// The container's id.
        container_id: u64,
        /// Bytes that the container would have.
        bytes: u64,
        /// The limit, an option of the store.
        bytes_max: u64,
    },
    /// The metadata does not fit into a record.
    #[error("the metadata of a block takes {bytes} bytes, over the limit of {bytes_max}")]
    MetadataTooLarge {
        /// Bytes of the metadata.
        bytes: u64,
        /// The limit, from [`crate::limits`].
        bytes_max: u64,
    },
    /// The name cannot be a file name.
    #[error("{name:?} is not a valid name of a chunk")]
    BadChunkName {
        /// The name.
        name: String,
    },
    /// The data that a client sent do not match the checksums that it sent.
    #[error("chunk {name:?}: {what}")]
    ChecksumMismatch {
        /// The chunk's name.
        name: String,
        /// Where data and checksums differ.
        what: crate::checksum::Mismatch,
    },
    /// Bytes on disk are not what was written.
    #[error(
        "block {} of container {} is damaged between bytes {start} and {end}: {what}",
        id.local_id, id.container_id
    )]
    Damaged {
        /// The block's id.
        id: BlockId,
        /// First byte of the block that may be wrong.
        start: u64,
        /// The byte of the block after the last one that may be wrong.
        end: u64,
        /// A description of the damage, with the file.
        what: String,
    },
    /// The reader asks for a commit that this container has not seen.
    #[error("container {container_id} has not seen commit {wanted}: it is at {known}")]
    UnknownCommit {
        /// The container's id.
        container_id: u64,
        /// The commit that was asked for.
        wanted: u64,
        /// The container's last commit.
        known: u64,
    },
    /// The reader asks for a commit that this block has not seen.
    #[error(
        "block {} of container {} is at commit {known}, not {wanted}",
        id.local_id, id.container_id
    )]
    CommitMismatch {
        /// The block's id.
        id: BlockId,
        /// The commit that was asked for.
        wanted: u64,
        /// The block's last commit.
        known: u64,
    },
    /// The disk has no space. Reads and deletions still work.
    #[error("the disk is full{}", wanted(*bytes_wanted))]
    DiskFull {
        /// Bytes of the file that did not fit; 0 if the file system did not say: it may lack space
        /// even for one more file.
        bytes_wanted: u64,
    },
    /// The system refused an operation on a file. Earlier steps of the same call may have taken
    /// effect.
    #[error("cannot {op} {file}: {error}")]
    Io {
        /// Path below the store's directory.
        file: String,
        /// The attempted operation, as a verb.
        op: &'static str,
        /// The system's error. The text includes it, so it is not the `source`: printing the whole
        /// chain would repeat it.
        error: io::Error,
    },
    /// An earlier write or sync failed. Nothing is written until the store is opened again. Writes
    /// that were under way then may or may not be on disk.
    #[error("the store stopped writing after a failed write or sync: {0}")]
    Stopped(String),
    /// The directory is not a store, or is one of a later version.
    #[error("{file}: {what}")]
    BadStore {
        /// Path below the store's directory.
        file: String,
        /// A description of the problem.
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
    /// Whether the system only lacked space or a file descriptor: nothing is broken, and another
    /// attempt may succeed later.
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

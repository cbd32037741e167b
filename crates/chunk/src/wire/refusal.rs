//! Why a request was refused, as one of Ozone's result codes.

use super::pb;
use crate::container::State;
use crate::error::ChunkError;

/// A result code other than success, and a sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The result code, for programs.
    pub result: pb::Result,
    /// The sentence, for people.
    pub message: String,
    /// Whether the store does not know the container, block or chunk. A damaged store may have lost
    /// it.
    is_unknown: bool,
}

impl Refusal {
    pub(super) fn new(result: pb::Result, message: impl Into<String>) -> Refusal {
        Refusal { result, message: message.into(), is_unknown: false }
    }

    /// In a damaged store, turns "unknown" into an I/O error: the store cannot tell a lost block
    /// from one that never existed. The reader then asks another replica, and nobody takes the
    /// block for deleted.
    pub(super) fn of_damaged_store(self) -> Refusal {
        if !self.is_unknown {
            return self;
        }
        let message = format!("{}; the store is damaged, and may have lost it", self.message);
        Refusal::new(pb::Result::IoException, message)
    }

    /// Refuses a request whose shape is wrong, whatever the store holds.
    pub(super) fn malformed(message: impl Into<String>) -> Refusal {
        Refusal::new(pb::Result::MalformedRequest, message)
    }

    /// Refuses a request that this crate does not support.
    pub(super) fn unsupported(message: impl Into<String>) -> Refusal {
        Refusal::new(pb::Result::UnsupportedRequest, message)
    }
}

impl From<ChunkError> for Refusal {
    fn from(error: ChunkError) -> Refusal {
        let is_unknown = matches!(
            error,
            ChunkError::NoSuchContainer { .. }
                | ChunkError::NoSuchBlock(_)
                | ChunkError::NoSuchChunk { .. }
        );
        let refusal = Refusal::new(result_of(&error), error.to_string());
        Refusal { is_unknown, ..refusal }
    }
}

/// The result code for each error. If Ozone has the case, the code is what its datanode sends.
fn result_of(error: &ChunkError) -> pb::Result {
    match error {
        ChunkError::NoSuchContainer { .. } => pb::Result::ContainerNotFound,
        ChunkError::ContainerExists { .. } | ChunkError::ContainerBeingDeleted { .. } => {
            pb::Result::ContainerAlreadyExists
        }
        ChunkError::WrongState { state, .. } => result_of_state(*state),
        ChunkError::DeleteOfOpen { .. } => pb::Result::DeleteOnOpenContainer,
        ChunkError::DeleteOfNonEmpty { .. } => pb::Result::DeleteOnNonEmptyContainer,
        ChunkError::NoSuchBlock(_) | ChunkError::BeingDeleted(_) => pb::Result::NoSuchBlock,
        ChunkError::Finalized(_) => pb::Result::BlockAlreadyFinalized,
        ChunkError::NoSuchChunk { .. } => pb::Result::UnableToFindChunk,
        // In Ozone, a short read of the file is an unexpected exception.
        ChunkError::PastTheEnd { .. } => pb::Result::ContainerInternalError,
        ChunkError::Gap { .. } => pb::Result::ChunkFileInconsistency,
        ChunkError::WrongLength { .. } => pb::Result::InvalidWriteSize,
        // As in Ozone for a read that is too large; a larger write does not fit into a message.
        ChunkError::ChunkTooLarge { .. } => pb::Result::UnsupportedRequest,
        // Ozone has no such limit; a writer that gets this result starts another block.
        ChunkError::BlockTooLarge { .. } => pb::Result::InvalidWriteSize,
        // Ozone never gets here, since it closes the container long before. A writer then gets this
        // result, which makes it use another container.
        ChunkError::ContainerTooLarge { .. } => pb::Result::ClosedContainerIo,
        ChunkError::MetadataTooLarge { .. } | ChunkError::BadChunkName { .. } => {
            pb::Result::InvalidArgument
        }
        // `OzoneChecksumException` is an `IOException`; its own code is never sent.
        ChunkError::ChecksumMismatch { .. } => pb::Result::IoException,
        ChunkError::UnknownCommit { .. } => pb::Result::UnknownBcsid,
        ChunkError::CommitMismatch { .. } => pb::Result::BcsidMismatch,
        ChunkError::DiskFull { .. } => pb::Result::DiskOutOfSpace,
        // For damage, too: each of these sends a reader to another replica.
        ChunkError::Damaged { .. } | ChunkError::Io { .. } | ChunkError::Stopped(_) => {
            pb::Result::IoException
        }
        ChunkError::BadStore { .. } => pb::Result::ContainerInternalError,
    }
}

/// The result code for an operation that the container's state does not allow, as in Ozone's
/// `KeyValueHandler.checkContainerOpen`.
fn result_of_state(state: State) -> pb::Result {
    match state {
        State::QuasiClosed | State::Closed => pb::Result::ClosedContainerIo,
        State::Unhealthy => pb::Result::ContainerUnhealthy,
        State::Invalid => pb::Result::InvalidContainerState,
        State::Open | State::Closing | State::Recovering => pb::Result::ContainerInternalError,
    }
}

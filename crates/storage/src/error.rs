//! [`StorageError`]: every error that this crate returns.

use std::io;

use thiserror::Error;

use crate::disk::is_out_of_descriptors;

/// Why storage refused or failed. The process must end, or must not start, after any of these but
/// [`StorageError::DiskFull`], [`StorageError::NoDescriptor`], [`StorageError::RecordTooLarge`] and
/// [`StorageError::ReceivedTooLarge`].
#[derive(Debug, Error)]
pub enum StorageError {
    /// The operating system refused an operation. After a write or a sync this is final.
    #[error("cannot {op} {file}: {error}")]
    Io {
        /// Path below the data directory.
        file: String,
        /// The attempted operation, as a verb.
        op: &'static str,
        /// The system's error. The text above includes it, so it is not the `source`: printing the
        /// whole chain would repeat it.
        error: io::Error,
    },
    /// Bytes that were durable are not what was written.
    #[error("{file} is corrupt at byte {offset}: {what}")]
    Corrupt {
        /// Path below the data directory.
        file: String,
        /// The offset in the file, in bytes, at which the damage was noticed.
        offset: u64,
        /// A description of the damage, for people.
        what: String,
    },
    /// The other members of the ensemble condemned this directory: it must not be used again.
    #[error("it is not to be used any more: {reason}")]
    Condemned {
        /// Why the members condemned it, for people.
        reason: String,
    },
    /// An earlier write or sync of this log failed; nothing more is written.
    #[error("the log stopped after a failed write or sync")]
    Poisoned,
    /// There is no disk space for another segment or for a snapshot. The call that fails like this
    /// queues nothing. Records that were queued before stay queued, and reads still work.
    #[error("the disk is full: no room for {bytes_wanted} bytes more")]
    DiskFull {
        /// Bytes of the file, or of the next part of it, that did not fit.
        bytes_wanted: u64,
    },
    /// This process, or the machine, has as many files open as it may, and a segment needs one
    /// more. Records that were queued stay queued, and the caller tries again later.
    #[error("no file descriptor is left to {op} {file}")]
    NoDescriptor {
        /// Path below the data directory.
        file: String,
        /// The attempted operation, as a verb.
        op: &'static str,
    },
    /// A record, or a piece of a snapshot, is larger than the format allows. Nothing was queued or
    /// written.
    #[error("a record of {bytes} bytes is over the limit of {bytes_max}")]
    RecordTooLarge {
        /// Bytes of the record.
        bytes: usize,
        /// The limit, from [`crate::limits`].
        bytes_max: usize,
    },
    /// A snapshot that was sent to be installed is larger than any snapshot may be.
    #[error("a snapshot of {bytes} bytes or more is over the limit of {bytes_max}")]
    ReceivedTooLarge {
        /// Bytes received so far, including those that were refused.
        bytes: u64,
        /// The limit, from [`crate::limits`].
        bytes_max: u64,
    },
    /// Another process holds the data directory.
    #[error("the data directory is in use by another process (lock file {file})")]
    InUse {
        /// The lock file.
        file: String,
    },
    /// The directory holds ZooKeeper's data and none of ours.
    #[error(
        "the data directory holds ZooKeeper's files ({file}), which this version does not read: \
         name an \
         empty directory; `quorate import` is not built yet"
    )]
    ForeignZooKeeper {
        /// One of ZooKeeper's files that was found.
        file: String,
    },
    /// The data directory already holds as many set-aside directories as it may.
    #[error(
        "{count_max} directories named set-aside-N exist already: find out why, then remove them"
    )]
    TooManySetAside {
        /// The limit, from [`crate::limits`].
        count_max: u32,
    },
    /// A file was written in a format that this version does not know.
    #[error("{file} has format version {version}; this version reads up to {version_max}")]
    UnknownFormat {
        /// Path below the data directory.
        file: String,
        /// The version found.
        version: u32,
        /// The newest version that is known here.
        version_max: u32,
    },
}

impl StorageError {
    /// An input/output error about `file`; `op` completes "cannot ...".
    pub(crate) fn io(file: &str, op: &'static str, error: io::Error) -> StorageError {
        StorageError::Io { file: file.to_owned(), op, error }
    }

    /// Corruption of `file` at `offset`.
    pub fn corrupt(file: &str, offset: u64, what: impl Into<String>) -> StorageError {
        StorageError::Corrupt { file: file.to_owned(), offset, what: what.into() }
    }

    /// Whether the operation may succeed later: the disk is full now, or no file descriptor is
    /// free.
    pub fn is_retryable(&self) -> bool {
        matches!(self, StorageError::DiskFull { .. } | StorageError::NoDescriptor { .. })
    }

    /// Turns an error from making a file of `bytes_wanted` bytes into [`StorageError::DiskFull`] or
    /// [`StorageError::NoDescriptor`], if the system had no space or no descriptor for it.
    pub(crate) fn or_retryable(self, bytes_wanted: u64) -> StorageError {
        match self.is_no_space() {
            true => StorageError::DiskFull { bytes_wanted },
            false => self.or_no_descriptor(),
        }
    }

    /// Turns an error of opening a file into [`StorageError::NoDescriptor`], if no descriptor was
    /// left.
    pub(crate) fn or_no_descriptor(self) -> StorageError {
        match self {
            StorageError::Io { file, op, error } if is_out_of_descriptors(&error) => {
                StorageError::NoDescriptor { file, op }
            }
            error => error,
        }
    }

    /// Whether the system reported that no space is left, or that a quota is used up.
    pub(crate) fn is_no_space(&self) -> bool {
        matches!(self, StorageError::Io { error, .. }
            if error.kind() == io::ErrorKind::StorageFull
                || error.kind() == io::ErrorKind::QuotaExceeded)
    }
}

//! Stores a snapshot that was received from another member, or from a person who restores a backup.
//!
//! Its bytes are written to the file [`RECEIVING_NAME`], and the caller checks them. A snapshot
//! from another member, which replaces this member's state, is then renamed like an ordinary
//! snapshot ([`name_received`]). A restored backup is renamed to [`RECEIVED_NAME`]
//! ([`keep_received`]): from then on an entry of the log may refer to it, and it is removed once a
//! snapshot that this member took covers that entry. So there is at most one of each of the two
//! files.

use super::{SNAPSHOT_DIR, path_of, remove, snapshot_name};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::limits::{RECEIVED_BYTES_MAX, SNAPSHOT_SYNC_BYTES};

/// File name, in the directory of snapshots, of a received snapshot that was checked.
pub const RECEIVED_NAME: &str = "received.snap";

/// File name of a received snapshot while it is written and checked.
pub const RECEIVING_NAME: &str = "received.tmp";

/// Writes the bytes of a snapshot as they arrive.
pub struct ReceivedWriter<D: Disk> {
    disk: D,
    file: D::File,
    offset: u64,
    unsynced_bytes: u64,
}

impl<D: Disk> ReceivedWriter<D> {
    /// Starts a file, and replaces what an earlier attempt left.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(disk: D) -> Result<ReceivedWriter<D>, StorageError> {
        let path = path_of(RECEIVING_NAME);
        let file = disk.create(&path).map_err(|error| failed("create", error))?;
        Ok(ReceivedWriter { disk, file, offset: 0, unsynced_bytes: 0 })
    }

    /// Appends bytes in the order in which they arrive.
    ///
    /// # Errors
    /// The disk has no space, or more than [`RECEIVED_BYTES_MAX`] bytes arrived. The caller then
    /// stops receiving.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        let whole = self.offset.saturating_add(bytes.len() as u64);
        if whole > RECEIVED_BYTES_MAX {
            let (bytes, bytes_max) = (whole, RECEIVED_BYTES_MAX);
            return Err(StorageError::ReceivedTooLarge { bytes, bytes_max });
        }
        let wrote = self.disk.write_at(&self.file, self.offset, bytes);
        wrote.map_err(|error| failed("write", error))?;
        self.offset = whole;
        self.unsynced_bytes += bytes.len() as u64;
        if self.unsynced_bytes >= SNAPSHOT_SYNC_BYTES {
            self.sync()?;
        }
        Ok(())
    }

    /// Ends the file: makes its bytes durable, under [`RECEIVING_NAME`].
    ///
    /// # Errors
    /// The disk failed.
    pub fn finish(mut self) -> Result<(), StorageError> {
        self.sync()
    }

    fn sync(&mut self) -> Result<(), StorageError> {
        self.disk.sync_data(&self.file).map_err(|error| failed("sync", error))?;
        self.unsynced_bytes = 0;
        Ok(())
    }
}

fn failed(op: &'static str, error: std::io::Error) -> StorageError {
    let error = StorageError::io(&path_of(RECEIVING_NAME), op, error);
    match error.is_no_space() {
        true => StorageError::DiskFull { bytes_wanted: SNAPSHOT_SYNC_BYTES },
        false => error,
    }
}

/// Renames the received snapshot, written and checked, to [`RECEIVED_NAME`], durably.
///
/// # Errors
/// The disk failed.
pub fn keep_received<D: Disk>(disk: &D) -> Result<(), StorageError> {
    let renamed = disk.rename(&path_of(RECEIVING_NAME), &path_of(RECEIVED_NAME));
    renamed.map_err(|error| failed("rename", error))?;
    let synced = disk.sync_dir(SNAPSHOT_DIR);
    synced.map_err(|error| StorageError::io(SNAPSHOT_DIR, "sync", error))
}

/// Renames the received snapshot, written and checked, to the name of an ordinary snapshot,
/// durably.
///
/// # Errors
/// The disk failed.
pub fn name_received<D: Disk>(disk: &D, index: u64, term: u64) -> Result<(), StorageError> {
    let renamed = disk.rename(&path_of(RECEIVING_NAME), &path_of(&snapshot_name(index, term)));
    renamed.map_err(|error| failed("rename", error))?;
    let synced = disk.sync_dir(SNAPSHOT_DIR);
    synced.map_err(|error| StorageError::io(SNAPSHOT_DIR, "sync", error))
}

/// Whether there is a file [`RECEIVED_NAME`].
///
/// # Errors
/// The disk failed.
pub fn has_received<D: Disk>(disk: &D) -> Result<bool, StorageError> {
    let path = path_of(RECEIVED_NAME);
    disk.exists(&path).map_err(|error| StorageError::io(&path, "look for", error))
}

/// Removes the received snapshot, both the checked and the unfinished one, if they exist.
///
/// # Errors
/// The disk failed.
pub fn remove_received<D: Disk>(disk: &D) -> Result<(), StorageError> {
    for name in [RECEIVED_NAME, RECEIVING_NAME] {
        let path = path_of(name);
        let there = disk.exists(&path).map_err(|error| StorageError::io(&path, "look for", error));
        if there? {
            remove(disk, name)?;
        }
    }
    Ok(())
}

//! Reserves disk space for the next snapshot: a file of allocated blocks that nothing else can use.
//!
//! On a full disk only a new snapshot frees segments of the log, so the log must not take the space
//! that the snapshot needs. The snapshot takes over the reserved file, overwrites the file, and
//! cuts the file off after the snapshot's last byte. Nothing reads the old content of a reserved
//! file. If a process starts and finds a reserved file, the process empties the file, and reserves
//! as many bytes again if the disk still has that many.

use crate::disk::Disk;
use crate::error::StorageError;

/// The reserved file. No snapshot and no temporary file has this name.
pub const ROOM_FILE: &str = "snapshots/room";

/// The disk space reserved for the next snapshot. The thread of the snapshots owns it.
#[derive(Debug)]
pub struct Room<D: Disk> {
    disk: D,
    /// The open file and its size in bytes; `None` if nothing is reserved.
    kept: Option<(D::File, u64)>,
}

impl<D: Disk> Room<D> {
    /// Reserves as much as an earlier start did. Must run before the log's threads do: while the
    /// old file is replaced, its blocks are free for a moment, and the log could take them.
    pub fn take_over(disk: D) -> Result<Room<D>, StorageError> {
        let io = |op| move |error| StorageError::io(ROOM_FILE, op, error);
        let mut room = Room { disk, kept: None };
        if room.disk.exists(ROOM_FILE).map_err(io("look for"))? {
            let file = room.disk.open_read_only(ROOM_FILE).map_err(io("open"))?;
            let bytes = room.disk.len(&file).map_err(io("measure"))?;
            drop(file);
            // If the disk is full, the file is gone; the snapshots' thread will reserve space
            // again.
            match room.keep(bytes) {
                Ok(()) | Err(StorageError::DiskFull { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(room)
    }

    /// A `Room` that reserves nothing.
    pub fn none(disk: D) -> Room<D> {
        Room { disk, kept: None }
    }

    /// Bytes reserved.
    pub fn bytes(&self) -> u64 {
        self.kept.as_ref().map_or(0, |(_, bytes)| *bytes)
    }

    /// Reserves `bytes` bytes, unless at least as many are reserved already. After
    /// [`StorageError::DiskFull`] the earlier reservation still holds.
    pub fn keep(&mut self, bytes: u64) -> Result<(), StorageError> {
        let found = self.bytes();
        if bytes <= found {
            return Ok(());
        }
        let file = match self.kept.take() {
            Some((file, _)) => file,
            None => self.disk.create(ROOM_FILE).map_err(|error| failed("create", bytes, error))?,
        };
        match self.disk.preallocate(&file, bytes) {
            Ok(()) => self.kept = Some((file, bytes)),
            Err(error) => {
                self.shrink(file, found);
                return Err(failed("allocate", bytes, error));
            }
        }
        Ok(())
    }

    /// Frees the blocks that a failed growth may have left.
    fn shrink(&mut self, file: D::File, bytes: u64) {
        if bytes > 0 && self.disk.truncate(&file, bytes).is_ok() {
            self.kept = Some((file, bytes));
        } else {
            drop(file);
            drop(self.disk.remove(ROOM_FILE));
        }
    }

    /// Renames the reserved file to `path`, and returns it with its size in bytes. `None` if
    /// nothing is reserved.
    pub(crate) fn take(&mut self, path: &str) -> Result<Option<(D::File, u64)>, StorageError> {
        if self.kept.is_some() {
            let renamed = self.disk.rename(ROOM_FILE, path);
            renamed.map_err(|error| failed("rename", self.bytes(), error))?;
        }
        Ok(self.kept.take())
    }
}

fn failed(op: &'static str, bytes: u64, error: std::io::Error) -> StorageError {
    let error = StorageError::io(ROOM_FILE, op, error);
    match error.is_no_space() {
        true => StorageError::DiskFull { bytes_wanted: bytes },
        false => error,
    }
}

#[cfg(test)]
mod tests;

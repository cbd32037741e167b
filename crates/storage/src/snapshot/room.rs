//! Room for the next snapshot: a file that keeps blocks from being used for anything else.
//!
//! On a full disk only a snapshot frees segments of the log, so the log must not have taken the
//! room that the snapshot needs. The file becomes the snapshot's own, is written in place, and cut
//! off at its end. Its earlier content does not matter; a start sets it aside anew.

use crate::disk::Disk;
use crate::error::StorageError;

/// The file. Nothing else has this name: it is neither a snapshot's nor a temporary one.
pub const ROOM_FILE: &str = "snapshots/room";

/// The room set aside. The thread of the snapshots owns it.
#[derive(Debug)]
pub struct Room<D: Disk> {
    disk: D,
    /// The open file and its bytes; `None` while no room is set aside.
    kept: Option<(D::File, u64)>,
}

impl<D: Disk> Room<D> {
    /// Keeps the room that an earlier start had set aside. Called before the log's threads run,
    /// because the blocks are free for a moment.
    pub fn take_over(disk: D) -> Result<Room<D>, StorageError> {
        let io = |op| move |error| StorageError::io(ROOM_FILE, op, error);
        let mut room = Room { disk, kept: None };
        if room.disk.exists(ROOM_FILE).map_err(io("look for"))? {
            let file = room.disk.open_read_only(ROOM_FILE).map_err(io("open"))?;
            let bytes = room.disk.len(&file).map_err(io("measure"))?;
            drop(file);
            // Without room the file is gone; the snapshots' thread asks for its room again.
            match room.keep(bytes) {
                Ok(()) | Err(StorageError::DiskFull { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(room)
    }

    /// A `Room` with nothing set aside.
    pub fn none(disk: D) -> Room<D> {
        Room { disk, kept: None }
    }

    /// Bytes that are set aside.
    pub fn bytes(&self) -> u64 {
        self.kept.as_ref().map_or(0, |(_, bytes)| *bytes)
    }

    /// Sets aside `bytes` bytes, unless as many are set aside already. After
    /// [`StorageError::DiskFull`] the earlier room is still set aside.
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

    /// Gives back the blocks that a failed growth may have left.
    fn shrink(&mut self, file: D::File, bytes: u64) {
        if bytes > 0 && self.disk.truncate(&file, bytes).is_ok() {
            self.kept = Some((file, bytes));
        } else {
            drop(file);
            drop(self.disk.remove(ROOM_FILE));
        }
    }

    /// Renames the file to `path` and returns it with its bytes; `None` if no room is set aside.
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

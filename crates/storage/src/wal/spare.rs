//! Spares: segment files made ahead of their use, filled with zeros or recycled from old segments.
//!
//! The first write to a disk block changes the file's metadata, which makes its sync many times
//! slower than overwriting. So a segment is filled once, in the background, and used again and
//! again. Bytes that an earlier use left in it do no harm: see [`crate::record`].

use crate::disk::Disk;
use crate::error::StorageError;
use crate::limits::FILL_STEP_BYTES;
use crate::wal::scan::{spare_path, temporary_path};

/// A spare file in the log's directory. It becomes a segment when one is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spare {
    /// The file number in its name.
    pub number: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
}

/// Makes one spare in short steps, on any thread that has a clone of the disk.
#[derive(Debug)]
pub struct SpareJob<D: Disk> {
    number: u64,
    bytes: u64,
    written: u64,
    file: Option<D::File>,
    is_done: bool,
}

impl<D: Disk> SpareJob<D> {
    pub(crate) fn new(number: u64, bytes: u64) -> SpareJob<D> {
        SpareJob { number, bytes, written: 0, file: None, is_done: false }
    }

    /// Bytes that the segment will have.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes and syncs at most [`FILL_STEP_BYTES`]. Returns `true` once the spare is ready for
    /// [`crate::wal::Wal::adopt_spare`]. After an error the caller passes the job to
    /// [`crate::wal::Wal::abandon_spare`]. A [retryable](StorageError::is_retryable) error harms
    /// nothing; any other means that the disk fails.
    pub fn step(&mut self, disk: &D) -> Result<bool, StorageError> {
        if self.is_done {
            return Ok(true);
        }
        self.step_any(disk).map_err(|error| error.or_retryable(self.bytes))
    }

    /// Runs one step. The last step renames the file, which may need a disk block for the
    /// directory.
    fn step_any(&mut self, disk: &D) -> Result<bool, StorageError> {
        let path = temporary_path(self.number);
        self.step_file(disk, &path)?;
        if self.written == self.bytes {
            self.file = None;
            let to = spare_path(self.number);
            let renamed = disk.rename(&path, &to);
            renamed.map_err(|error| StorageError::io(&path, "rename", error))?;
            self.is_done = true;
        }
        Ok(self.is_done)
    }

    fn step_file(&mut self, disk: &D, path: &str) -> Result<(), StorageError> {
        let file = match self.file.take() {
            Some(file) => file,
            None => {
                let file = disk.create(path);
                let file = file.map_err(|error| StorageError::io(path, "create", error))?;
                let room = disk.preallocate(&file, self.bytes);
                room.map_err(|error| StorageError::io(path, "allocate", error))?;
                file
            }
        };
        let rest = self.bytes.saturating_sub(self.written);
        let zeros = vec![0; rest.min(FILL_STEP_BYTES as u64) as usize];
        let wrote = disk.write_at(&file, self.written, &zeros);
        wrote.map_err(|error| StorageError::io(path, "write", error))?;
        let synced = disk.sync_data(&file);
        synced.map_err(|error| StorageError::io(path, "sync", error))?;
        self.written = self.written.saturating_add(zeros.len() as u64);
        self.file = Some(file);
        Ok(())
    }

    /// Removes the job's file. If that fails, the next start removes it.
    pub(crate) fn clean_up(self, disk: &D) {
        drop(self.file);
        let path = match self.is_done {
            true => spare_path(self.number),
            false => temporary_path(self.number),
        };
        drop(disk.remove(&path));
    }

    /// The finished spare, or `None` while steps are left.
    pub(crate) fn finished(&self) -> Option<Spare> {
        self.is_done.then_some(Spare { number: self.number, bytes: self.bytes })
    }
}

/// Makes a spare at once, for a caller that has none ready.
pub(crate) fn make_now<D: Disk>(disk: &D, number: u64, bytes: u64) -> Result<Spare, StorageError> {
    let mut job = SpareJob::new(number, bytes);
    loop {
        match job.step(disk) {
            Ok(false) => {}
            Ok(true) => return Ok(Spare { number, bytes }),
            Err(error) => {
                job.clean_up(disk);
                return Err(error);
            }
        }
    }
}

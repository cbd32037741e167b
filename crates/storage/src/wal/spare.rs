//! Segments made ahead of their use: filled with zeros, or recycled.
//!
//! Overwriting blocks that were written before makes a sync many times cheaper than the first write
//! to them, which changes the file's metadata. So a segment is filled once, in the background, and
//! used again and again. Bytes left by an earlier use do no harm: see [`crate::record`].

use crate::disk::Disk;
use crate::error::StorageError;
use crate::limits::FILL_STEP_BYTES;
use crate::wal::scan::{spare_path, temporary_path};

/// A `.spare` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spare {
    /// Its number.
    pub number: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// The making of one spare segment, in short steps, on any thread that has a clone of the disk.
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

    /// Writes at most [`FILL_STEP_BYTES`] and syncs them; `true` when the segment is ready for
    /// [`crate::wal::Wal::adopt_spare`]. After an error the job goes to
    /// [`crate::wal::Wal::abandon_spare`]: a [retryable](StorageError::is_retryable) one harms
    /// nothing, any other means that the disk fails.
    pub fn step(&mut self, disk: &D) -> Result<bool, StorageError> {
        if self.is_done {
            return Ok(true);
        }
        self.step_any(disk).map_err(|error| error.or_retryable(self.bytes))
    }

    /// Makes a step. The last step renames, which may need a block of the directory for a longer
    /// name.
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

    /// Removes the unfinished file. A failure is harmless: the next start removes it.
    pub(crate) fn clean_up(self, disk: &D) {
        drop(self.file);
        let path = match self.is_done {
            true => spare_path(self.number),
            false => temporary_path(self.number),
        };
        drop(disk.remove(&path));
    }

    /// The finished spare, or `None` when there are steps left.
    pub(crate) fn finished(&self) -> Option<Spare> {
        self.is_done.then_some(Spare { number: self.number, bytes: self.bytes })
    }
}

/// Makes a spare at once, for a caller that cannot wait.
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

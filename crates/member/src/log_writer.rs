//! Does the work of the disk thread: writes all queued jobs to the log in one write and one sync,
//! makes log segments in advance, and on a full disk makes Loop refuse writes until there is room.
//!
//! The driver feeds it the inputs that have arrived, then calls [`LogWriter::finish`] and passes on
//! the output. It calls again at [`LogWriter::deadline_ms`] even if nothing has arrived. An error
//! from any of these calls ends the process, because after a failed write nothing can be promised;
//! the next start recovers.
//!
//! On a full disk, jobs that find no room are held, in order, and tried again: the replica has them
//! in its log, so they cannot be refused any more. Loop is asked to refuse writes before that
//! happens: when no segment can be made in advance and the current one has little room left. Room
//! comes back when a snapshot allows the deletion of old log, or when a person frees some. While
//! the next snapshot lacks room, the log leaves free room to the snapshot.
//!
//! A process at its limit of open files is treated like a full disk: no segment can be made, and
//! the work is tried again.

use core::mem;

use replica::PersistId;
use storage::StorageError;
use storage::disk::Disk;
use storage::wal::{SnapshotPoint, SpareJob, Wal};

use crate::limits::{DISK_FULL_RETRY_MS, DISK_IDLE_MS};
use crate::message::DiskJob;

/// An input of the disk thread.
pub enum LogInput<D: Disk> {
    /// From Loop: a job to make durable.
    Job(DiskJob),
    /// From Loop: a durable snapshot covers the log up to this point.
    Release(SnapshotPoint),
    /// From Loop: whether the free room is needed for a snapshot.
    YieldRoom(bool),
    /// A segment that another thread was to make ahead, and whether it failed.
    Spare(SpareJob<D>, Result<(), StorageError>),
}

/// The output of the disk thread, for the driver to pass on.
#[derive(Debug)]
pub struct LogOutput<D: Disk> {
    /// For Loop: every job up to this one is durable.
    pub persisted: Option<PersistId>,
    /// For Loop: whether the disk is full, each time that changes.
    pub is_full: Option<bool>,
    /// Why the log cannot grow: no room on the disk, or no file descriptor. For the driver to log.
    /// Set once, when the shortage begins.
    pub lack: Option<StorageError>,
    /// A segment to make on another thread; the result comes back as [`LogInput::Spare`].
    pub spare: Option<SpareJob<D>>,
}

/// Writes the log, and keeps the jobs that are not durable yet.
pub struct LogWriter<D: Disk> {
    wal: Wal<D>,
    room_bytes_min: u64,
    held: Vec<DiskJob>,
    /// How many of the held jobs are queued in the log, but not written yet for lack of room.
    queued: usize,
    /// The point up to which a durable snapshot covers the log; `None` once the log up to there is
    /// deleted.
    release: Option<SnapshotPoint>,
    has_received: bool,
    /// Whether everything is durable and the log says so: until the next input there is nothing to
    /// do.
    is_marked: bool,
    /// Whether the last attempt to get a segment found no room, or no file descriptor.
    is_spare_missing: bool,
    /// The error of that attempt, until [`LogWriter::finish`] returns it.
    lack: Option<StorageError>,
    retry_at_ms: Option<u64>,
    is_full: bool,
}

impl<D: Disk> LogWriter<D> {
    /// Takes the recovered log. Writes are refused when the current segment has less than
    /// `room_bytes_min` bytes left and no other can be had; usually
    /// [`crate::snapshot::limits::ROOM_BYTES_MIN`].
    pub fn new(wal: Wal<D>, room_bytes_min: u64) -> LogWriter<D> {
        LogWriter {
            wal,
            room_bytes_min,
            held: Vec::new(),
            queued: 0,
            release: None,
            has_received: false,
            is_marked: false,
            is_spare_missing: false,
            lack: None,
            retry_at_ms: None,
            is_full: false,
        }
    }

    /// Takes one input. A release is acted on at once, even while jobs are held: on a full disk it
    /// makes room. It waits only until the snapshot that it names is installed.
    ///
    /// # Errors
    /// The disk failed.
    pub fn receive(&mut self, input: LogInput<D>, now_ms: u64) -> Result<(), StorageError> {
        self.has_received = true;
        match input {
            LogInput::Job(job) => self.held.push(job),
            LogInput::Release(point) => {
                self.release = Some(point);
                self.let_go(now_ms)?;
            }
            LogInput::YieldRoom(is_yielding) => {
                self.wal.yield_room(is_yielding)?;
                self.retry_at_ms = None;
            }
            LogInput::Spare(job, Ok(())) => {
                self.wal.adopt_spare(job);
                self.is_spare_missing = false;
            }
            LogInput::Spare(job, Err(error)) if error.is_retryable() => {
                // A disk without room for an ordinary segment may have room for a small one, which
                // is tried at once.
                if !self.wal.abandon_spare(job) {
                    self.on_disk_full(error, now_ms);
                }
            }
            LogInput::Spare(_, Err(error)) => return Err(error),
        }
        Ok(())
    }

    /// Does the work that the inputs since the last call made possible. If there was none, writes
    /// the mark that the whole log is durable.
    ///
    /// # Errors
    /// The disk failed.
    pub fn finish(&mut self, now_ms: u64) -> Result<LogOutput<D>, StorageError> {
        let is_idle = !mem::take(&mut self.has_received);
        self.let_go(now_ms)?;
        let persisted = self.write(now_ms)?;
        self.let_go(now_ms)?;
        self.is_marked = is_idle && self.is_idle();
        if self.is_marked {
            self.wal.idle_mark()?;
        }
        self.retry_at_ms = self.retry_at_ms.filter(|at_ms| now_ms < *at_ms);
        let spare = match self.retry_at_ms {
            None => self.wal.spare_wanted(),
            Some(_) => None,
        };
        let (is_full, lack) = (self.take_fullness_change(), self.lack.take());
        Ok(LogOutput { persisted, is_full, lack, spare })
    }

    /// When [`LogWriter::finish`] is due if nothing arrives before, in ms of the clock of `now_ms`.
    pub fn deadline_ms(&self, now_ms: u64) -> Option<u64> {
        match self.is_marked {
            _ if !self.is_idle() => Some(now_ms + DISK_FULL_RETRY_MS),
            false => Some(now_ms + DISK_IDLE_MS),
            true => self.retry_at_ms,
        }
    }

    /// Whether no job and no release waits for room.
    pub fn is_idle(&self) -> bool {
        self.held.is_empty() && self.release.is_none()
    }

    /// How many jobs wait for room.
    pub fn held_count(&self) -> usize {
        self.held.len()
    }

    /// Deletes the log that a snapshot covers, or tries again later: a full disk may have no room
    /// even to record that.
    fn let_go(&mut self, now_ms: u64) -> Result<(), StorageError> {
        let reaches = |point: &SnapshotPoint| point.index <= self.wal.last_index();
        let release = self.release.filter(|point| reaches(point) && !self.is_to_install(*point));
        let Some(point) = release else { return Ok(()) };
        match self.wal.release(point) {
            Ok(()) => {
                self.release = None;
                // There may be room now.
                self.retry_at_ms = None;
            }
            Err(error) if error.is_retryable() => self.on_disk_full(error, now_ms),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Whether a held job installs a snapshot at this point or before it. Until then the log is the
    /// old one, which does not reach the point.
    fn is_to_install(&self, point: SnapshotPoint) -> bool {
        let installs = self.held.iter().filter_map(|job| job.install);
        let mut open = installs.filter(|install| *install != self.wal.snapshot());
        open.any(|install| install.index <= point.index)
    }

    /// Appends and syncs the held jobs. Jobs that find no room stay held.
    fn write(&mut self, now_ms: u64) -> Result<Option<PersistId>, StorageError> {
        let mut lack = None;
        for job in &self.held[self.queued..] {
            match append(&mut self.wal, job) {
                Ok(()) => self.queued += 1,
                Err(error) if error.is_retryable() => {
                    lack = Some(error);
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(error) = lack {
            self.on_disk_full(error, now_ms);
        }
        let Some(last) = self.held[..self.queued].last().map(|job| job.id) else { return Ok(None) };
        match self.wal.commit() {
            Ok(_) => {}
            Err(error) if error.is_retryable() => {
                self.on_disk_full(error, now_ms);
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        self.held.drain(..mem::take(&mut self.queued));
        Ok(Some(last))
    }

    /// Notes the lack of room. The work is tried again after [`DISK_FULL_RETRY_MS`].
    fn on_disk_full(&mut self, error: StorageError, now_ms: u64) {
        if !mem::replace(&mut self.is_spare_missing, true) {
            self.lack = Some(error);
        }
        self.retry_at_ms = Some(now_ms + DISK_FULL_RETRY_MS);
    }

    fn take_fullness_change(&mut self) -> Option<bool> {
        let room = self.wal.room();
        let is_low = room.bytes_before_new_segment < self.room_bytes_min && !room.spare_ready;
        let is_refused = self.is_spare_missing || self.wal.is_yielding();
        let is_full = !self.held.is_empty() || (is_refused && is_low);
        (mem::replace(&mut self.is_full, is_full) != is_full).then_some(is_full)
    }
}

/// Queues a job's entries, hard state and membership. A snapshot that the job installs is durable
/// at once, and so is everything queued before it.
fn append<D: Disk>(wal: &mut Wal<D>, job: &DiskJob) -> Result<(), StorageError> {
    let mut membership = job.membership.clone();
    // A job that found no room for its entries is tried again as a whole: its snapshot is installed
    // already then.
    if let Some(point) = job.install.filter(|point| wal.snapshot() != *point) {
        let of_snapshot = membership.take().expect("a snapshot has a membership");
        wal.install_snapshot(point, of_snapshot)?;
    }
    wal.append(&job.entries, job.hard_state, membership)
}

#[cfg(test)]
mod tests;

//! What the thread of the snapshots does: the pieces of an image into a file, one job after the
//! other. A file that cannot be written is given up and its room given back; the log needs it more.
//!
//! Room for the next one is set aside ahead: before a snapshot uses its own, and again after each
//! that ended. Where there is none, older snapshots than the newest make room for it.

use storage::StorageError;
use storage::disk::Disk;
use storage::snapshot::room::Room;
use storage::snapshot::{self, SnapshotMeta, SnapshotWriter};

use crate::limits::SNAPSHOTS_KEPT;
use crate::message::{FromSnapshot, RoomKept, RoomWanted, SnapshotJob};
use crate::received;

/// The file being written.
pub struct ImageWriter<D: Disk> {
    disk: D,
    cluster_id: u128,
    current: Option<(SnapshotWriter<D>, SnapshotMeta)>,
    room: Room<D>,
    room_wanted: RoomWanted,
    /// What Loop was told of the room.
    room_told: u64,
}

/// What came of a job.
#[derive(Debug)]
pub struct ImageOutput {
    /// For Loop: what is set aside for the next snapshot, when that changed or was asked. It goes
    /// before the report.
    pub room: Option<RoomKept>,
    /// For Loop.
    pub report: Option<FromSnapshot>,
    /// What went wrong, to be logged; none of it is the end of the process.
    pub problems: Vec<StorageError>,
}

impl<D: Disk + Clone> ImageWriter<D> {
    /// For the data directory that is `disk`'s root, before the threads of its log run.
    pub fn new(disk: D, cluster_id: u128) -> ImageWriter<D> {
        // What cannot be taken over is asked for again, and then said.
        let room = Room::take_over(disk.clone()).unwrap_or_else(|_| Room::none(disk.clone()));
        let room_wanted = RoomWanted { bytes_min: 0, bytes: 0, bytes_max: room.bytes() };
        ImageWriter { disk, cluster_id, current: None, room, room_wanted, room_told: 0 }
    }

    /// Does one job.
    pub fn handle(&mut self, job: SnapshotJob) -> ImageOutput {
        let mut problems = Vec::new();
        let is_piece = matches!(job, SnapshotJob::Piece(_));
        let is_asked = matches!(job, SnapshotJob::KeepRoom(_));
        let report = self.write(job).unwrap_or_else(|error| {
            problems.push(error);
            self.current = None;
            problems.extend(snapshot::remove_temporaries(&self.disk).err());
            Some(FromSnapshot::Failed)
        });
        if let Some(FromSnapshot::Finished { index, .. }) = report {
            // Old ones may stay: the next snapshot tries again.
            problems.extend(snapshot::remove_older(&self.disk, SNAPSHOTS_KEPT, index).err());
        }
        if !is_piece || report == Some(FromSnapshot::Failed) {
            problems.extend(self.keep_room().err());
        }
        let bytes = self.room.bytes();
        let kept = RoomKept { bytes, bytes_wanted: self.room_wanted.bytes_max };
        let room = (is_asked || bytes != self.room_told).then_some(kept);
        self.room_told = bytes;
        ImageOutput { room, report, problems }
    }

    /// Sets aside what is wanted, or what there is room for. A disk without is no problem to be told:
    /// Loop knows what it means.
    fn keep_room(&mut self) -> Result<(), StorageError> {
        let RoomWanted { bytes_min, bytes, bytes_max } = self.room_wanted;
        if self.has_kept_between(bytes, bytes_max)? {
            return Ok(());
        }
        snapshot::remove_older(&self.disk, 1, u64::MAX)?;
        let _ =
            self.has_kept_between(bytes, bytes_max)? || self.has_kept_between(bytes_min, bytes)?;
        Ok(())
    }

    /// Sets aside as much as there is room for, about.
    fn has_kept_between(&mut self, low: u64, high: u64) -> Result<bool, StorageError> {
        let more = high.saturating_sub(low);
        for bytes in [more, more / 2, more / 4, more / 8, 0].map(|more| low.saturating_add(more)) {
            if self.has_kept(bytes)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn has_kept(&mut self, bytes: u64) -> Result<bool, StorageError> {
        match self.room.keep(bytes) {
            Ok(()) => Ok(true),
            Err(StorageError::DiskFull { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn write(&mut self, job: SnapshotJob) -> Result<Option<FromSnapshot>, StorageError> {
        match job {
            SnapshotJob::Begin { index, term, membership, .. } => {
                let meta = SnapshotMeta { cluster_id: self.cluster_id, index, term, membership };
                let writer = SnapshotWriter::create_in(&mut self.room, self.disk.clone(), &meta)?;
                self.current = Some((writer, meta));
                Ok(Some(FromSnapshot::PieceWritten))
            }
            SnapshotJob::Piece(bytes) => {
                // After a failure the rest of the pieces has nowhere to go.
                let Some((writer, _)) = &mut self.current else { return Ok(None) };
                writer.write_piece(&bytes)?;
                Ok(Some(FromSnapshot::PieceWritten))
            }
            SnapshotJob::Finish => {
                let Some((writer, meta)) = self.current.take() else { return Ok(None) };
                writer.finish()?;
                Ok(Some(FromSnapshot::Finished { index: meta.index, term: meta.term }))
            }
            SnapshotJob::Abort => {
                if let Some((writer, _)) = self.current.take() {
                    writer.abort();
                }
                Ok(None)
            }
            SnapshotJob::DiscardReceived => {
                received::discard(&self.disk)?;
                Ok(None)
            }
            SnapshotJob::KeepRoom(wanted) => {
                self.room_wanted = wanted;
                Ok(None)
            }
        }
    }
}

#[cfg(test)]
mod tests;

//! Does the work of the snapshot thread, that is, Loop's jobs on snapshot files, one after the
//! other: writes the pieces of an image (the bytes of a snapshot), reads pieces for other members,
//! writes a snapshot that comes from another member, and sets disk space aside. If a snapshot
//! cannot be written to its end, its file is removed, because the log needs the space more.
//!
//! A snapshot is written into space that was set aside for it in advance. Space for the snapshot
//! after it is set aside as soon as it has begun, again when it has ended, and whenever Loop asks
//! because the state has grown. If the disk has too little, snapshots older than the newest are
//! removed.
//!
//! If another member is reading a snapshot, this snapshot is kept when the next one is finished,
//! whatever its age, as long as the disk has space. Under load, a new snapshot may be taken in the
//! time that a member needs to read one; without this rule no member would ever get to the end.

use storage::StorageError;
use storage::disk::Disk;
use storage::snapshot::room::Room;
use storage::snapshot::{self, ReceivedWriter, SnapshotMeta, SnapshotWriter as FileWriter};

use crate::message::{FromSnapshot, FromTransfer, RoomKept, RoomWanted, SnapshotJob};
use crate::peer::{PeerMessage, Piece, SnapshotAt, Want};
use crate::recovery::{RecoveryError, check_index, read_image};
use crate::snapshot::fetch::WholeSnapshot;
use crate::snapshot::limits::{FETCHED_PIECE_BYTES, SNAPSHOTS_KEPT};
use crate::snapshot::received;

/// The snapshot thread's state, among it the file being written.
pub struct SnapshotWriter<D: Disk> {
    disk: D,
    cluster_id: u128,
    current: Option<(FileWriter<D>, SnapshotMeta)>,
    /// The file of a snapshot that comes from another member, until it is complete.
    receiving: Option<ReceivedWriter<D>>,
    /// The snapshot that another member last read a piece of; `None` if no piece was read since a
    /// snapshot was last finished.
    read_of: Option<String>,
    room: Room<D>,
    room_wanted: RoomWanted,
    /// The bytes of room set aside in the last report to Loop.
    room_told: u64,
}

/// The output of a job.
#[derive(Debug)]
pub struct ImageOutput {
    /// For Loop: the room set aside for the next snapshot, if it has changed or Loop asked. Passed
    /// on before `report`.
    pub room: Option<RoomKept>,
    /// For Loop: the progress of this member's own snapshot.
    pub report: Option<FromSnapshot>,
    /// For Loop: about a snapshot that another member sends or reads.
    pub transfer: Option<FromTransfer>,
    /// Errors for the server's log. None of them ends the process.
    pub problems: Vec<RecoveryError>,
}

impl<D: Disk + Clone> SnapshotWriter<D> {
    /// The state for the data directory whose root is `disk`. To be called before the thread of the
    /// log runs.
    pub fn new(disk: D, cluster_id: u128) -> SnapshotWriter<D> {
        // If the room of an earlier start cannot be taken over, room is set aside anew; an error is
        // reported then.
        let room = Room::take_over(disk.clone()).unwrap_or_else(|_| Room::none(disk.clone()));
        let room_wanted = RoomWanted { bytes_min: 0, bytes: 0, bytes_max: room.bytes() };
        SnapshotWriter {
            disk,
            cluster_id,
            current: None,
            receiving: None,
            read_of: None,
            room,
            room_wanted,
            room_told: 0,
        }
    }

    /// Does one job. A long job calls `rest` after each piece, so that the driver can let other
    /// threads have the disk and the processor: nothing urgent waits for this job.
    pub fn handle(&mut self, job: SnapshotJob, rest: impl FnMut()) -> ImageOutput {
        let mut problems: Vec<StorageError> = Vec::new();
        if matches!(
            job,
            SnapshotJob::Read { .. } | SnapshotJob::Receive { .. } | SnapshotJob::CheckReceived(_)
        ) {
            return self.transfer(job, rest);
        }
        let is_piece = matches!(job, SnapshotJob::Piece(_));
        let is_asked = matches!(job, SnapshotJob::KeepRoom(_));
        let report = self.write(job).unwrap_or_else(|error| {
            problems.push(error);
            self.current = None;
            problems.extend(snapshot::remove_temporaries(&self.disk).err());
            Some(FromSnapshot::Failed)
        });
        if let Some(FromSnapshot::Finished { index, .. }) = report {
            // Old snapshots may remain: the next snapshot tries to remove them again.
            let spared = self.read_of.take();
            let removed =
                snapshot::remove_older(&self.disk, SNAPSHOTS_KEPT, index, spared.as_deref());
            problems.extend(removed.err());
        }
        if !is_piece || report == Some(FromSnapshot::Failed) {
            problems.extend(self.keep_room().err());
        }
        let bytes = self.room.bytes();
        let kept = RoomKept { bytes, bytes_wanted: self.room_wanted.bytes_max };
        let room = (is_asked || bytes != self.room_told).then_some(kept);
        self.room_told = bytes;
        let problems = problems.into_iter().map(RecoveryError::Storage).collect();
        ImageOutput { room, report, transfer: None, problems }
    }

    /// Does a job about a snapshot that goes to another member, or comes from one.
    fn transfer(&mut self, job: SnapshotJob, rest: impl FnMut()) -> ImageOutput {
        let transferred = match job {
            SnapshotJob::Read { to, want } => {
                let (message, problem) = match self.read(want) {
                    Ok(piece) => (PeerMessage::Piece(piece), None),
                    Err(error) => (PeerMessage::Gone(want.at), Some(error.into())),
                };
                let transfer = Some(FromTransfer::Read { to, message });
                let problems = problem.into_iter().collect();
                return ImageOutput { room: None, report: None, transfer, problems };
            }
            SnapshotJob::Receive { is_first, bytes } => self.receive(is_first, &bytes),
            SnapshotJob::CheckReceived(at) => self.check_received(at, rest),
            job => unreachable!("{job:?} is not of another member"),
        };
        let mut problems = Vec::new();
        let transfer = transferred.unwrap_or_else(|error| {
            let is_spoiled = is_of_content(&error);
            problems.push(error);
            self.receiving = None;
            problems.extend(received::discard(&self.disk).err().map(RecoveryError::Storage));
            match is_spoiled {
                true => FromTransfer::Spoiled,
                false => FromTransfer::Failed,
            }
        });
        ImageOutput { room: None, report: None, transfer: Some(transfer), problems }
    }

    fn read(&mut self, want: Want) -> Result<Piece, StorageError> {
        let Want { at, offset } = want;
        let name = snapshot::snapshot_name(at.index, at.term);
        let (total, bytes) = snapshot::read_at(&self.disk, &name, offset, FETCHED_PIECE_BYTES)?;
        self.read_of = Some(name);
        Ok(Piece { at, offset, total, bytes: bytes.into() })
    }

    fn receive(&mut self, is_first: bool, bytes: &[u8]) -> Result<FromTransfer, RecoveryError> {
        if is_first {
            self.receiving = Some(ReceivedWriter::create(self.disk.clone())?);
        }
        // After a failure there is no file for the rest.
        let Some(writer) = &mut self.receiving else { return Ok(FromTransfer::Failed) };
        writer.write(bytes)?;
        Ok(FromTransfer::Written)
    }

    fn check_received(
        &mut self,
        at: SnapshotAt,
        rest: impl FnMut(),
    ) -> Result<FromTransfer, RecoveryError> {
        let Some(writer) = self.receiving.take() else { return Ok(FromTransfer::Failed) };
        writer.finish()?;
        let name = snapshot::RECEIVING_NAME;
        let mut reader = snapshot::SnapshotReader::open_received(self.disk.clone(), name)?;
        let meta = reader.meta().clone();
        let is_expected = (meta.index, meta.term) == (at.index, at.term);
        if !is_expected || meta.cluster_id != self.cluster_id {
            let what = "it is not the snapshot that was offered";
            return Err(StorageError::corrupt(name, 0, what).into());
        }
        let machine = Box::new(read_image(&mut reader, name, rest)?);
        check_index(&machine, &meta, name)?;
        drop(reader);
        snapshot::name_received(&self.disk, at.index, at.term)?;
        Ok(FromTransfer::Whole(WholeSnapshot { at, machine }))
    }

    /// Sets aside the room that is wanted, or as much as the disk has. Too little room is not an
    /// error: Loop acts on the amount.
    fn keep_room(&mut self) -> Result<(), StorageError> {
        let RoomWanted { bytes_min, bytes, bytes_max } = self.room_wanted;
        if self.has_kept_between(bytes, bytes_max)? {
            return Ok(());
        }
        snapshot::remove_older(&self.disk, 1, u64::MAX, None)?;
        let _ =
            self.has_kept_between(bytes, bytes_max)? || self.has_kept_between(bytes_min, bytes)?;
        Ok(())
    }

    /// Sets aside between `low` and `high` bytes, about as much as the disk has. False if the disk
    /// has less than `low`.
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
                let writer = FileWriter::create_in(&mut self.room, self.disk.clone(), &meta)?;
                self.current = Some((writer, meta));
                Ok(Some(FromSnapshot::PieceWritten))
            }
            SnapshotJob::Piece(bytes) => {
                // After a failure there is no file for the rest of the pieces.
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
            SnapshotJob::Read { .. }
            | SnapshotJob::Receive { .. }
            | SnapshotJob::CheckReceived(_) => unreachable!("the caller did these"),
        }
    }
}

/// Whether the error shows that the content is not a complete snapshot of this ensemble. False if a
/// file could not be read or written.
fn is_of_content(error: &RecoveryError) -> bool {
    match error {
        RecoveryError::Storage(error) => matches!(
            error,
            StorageError::Corrupt { .. }
                | StorageError::UnknownFormat { .. }
                | StorageError::ReceivedTooLarge { .. }
        ),
        RecoveryError::Snapshot { .. } | RecoveryError::NoSnapshot { .. } => true,
        RecoveryError::Unknown(_) => false,
    }
}

#[cfg(test)]
mod tests;

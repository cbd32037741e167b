//! What the thread of the snapshots does: the pieces of an image into a file, one job after the
//! other. A file that cannot be written is given up and its room given back; the log needs it more.

use storage::StorageError;
use storage::disk::Disk;
use storage::snapshot::{self, SnapshotMeta, SnapshotWriter};

use crate::limits::SNAPSHOTS_KEPT;
use crate::message::{FromSnapshot, SnapshotJob};
use crate::received;

/// The file being written.
pub struct ImageWriter<D: Disk> {
    disk: D,
    cluster_id: u128,
    current: Option<(SnapshotWriter<D>, SnapshotMeta)>,
}

/// What came of a job.
#[derive(Debug)]
pub struct ImageOutput {
    /// For Loop.
    pub report: Option<FromSnapshot>,
    /// What went wrong, to be logged; none of it is the end of the process.
    pub problems: Vec<StorageError>,
}

impl<D: Disk + Clone> ImageWriter<D> {
    /// For the data directory that is `disk`'s root.
    pub fn new(disk: D, cluster_id: u128) -> ImageWriter<D> {
        ImageWriter { disk, cluster_id, current: None }
    }

    /// Does one job.
    pub fn handle(&mut self, job: SnapshotJob) -> ImageOutput {
        let mut problems = Vec::new();
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
        ImageOutput { report, problems }
    }

    fn write(&mut self, job: SnapshotJob) -> Result<Option<FromSnapshot>, StorageError> {
        match job {
            SnapshotJob::Begin { index, term, membership, .. } => {
                let meta = SnapshotMeta { cluster_id: self.cluster_id, index, term, membership };
                self.current = Some((SnapshotWriter::create(self.disk.clone(), &meta)?, meta));
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
        }
    }
}

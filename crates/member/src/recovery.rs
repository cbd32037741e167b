//! Recovery: which snapshot a member starts from, and what its leases begin with. Called at start,
//! by the real shell and by the simulator alike.

use machine::Machine;
use machine::freeze::{Restore, RestoreError};
use storage::StorageError;
use storage::disk::Disk;
use storage::snapshot::{self, SnapshotMeta, SnapshotReader};
use thiserror::Error;

use crate::message::SessionEvent;

/// Why no state could be restored.
#[derive(Debug, Error)]
pub enum RecoveryError {
    /// A snapshot, or the folder of snapshots, cannot be read.
    #[error("{0}")]
    Storage(#[from] StorageError),
    /// A snapshot passed its checksums but is not a state.
    #[error("snapshot {name}: {cause}")]
    Snapshot {
        /// Which file.
        name: String,
        /// Why.
        cause: RestoreError,
    },
    /// There is no snapshot that the log goes on from.
    #[error("no usable snapshot: the log starts behind entry {index}")]
    NoSnapshot {
        /// Where the log starts.
        index: u64,
    },
}

/// The newest snapshot that reads, if the log, which starts behind `log_from`, goes on from it.
/// Each one that does not is told to `skipped`.
///
/// # Errors
/// That of the oldest one tried.
pub fn restore_newest<D: Disk + Clone>(
    disk: &D,
    log_from: u64,
    mut skipped: impl FnMut(&RecoveryError),
) -> Result<(SnapshotMeta, Machine), RecoveryError> {
    let mut names = snapshot::list(disk)?;
    names.retain(|name| name.index >= log_from);
    let mut failure = RecoveryError::NoSnapshot { index: log_from };
    for name in names.iter().rev() {
        match restore(disk, &name.name) {
            Ok(restored) => return Ok(restored),
            Err(error) => {
                skipped(&error);
                failure = error;
            }
        }
    }
    Err(failure)
}

fn restore<D: Disk + Clone>(
    disk: &D,
    name: &str,
) -> Result<(SnapshotMeta, Machine), RecoveryError> {
    let bad = |cause| RecoveryError::Snapshot { name: name.to_string(), cause };
    let mut reader = SnapshotReader::open(disk.clone(), name)?;
    let mut restore = Restore::default();
    while let Some(piece) = reader.next_piece()? {
        restore.piece(&piece).map_err(bad)?;
    }
    let machine = restore.finish().map_err(bad)?;
    Ok((reader.meta().clone(), machine))
}

/// The sessions of a restored machine, for the leases.
pub fn sessions(machine: &Machine) -> Vec<SessionEvent> {
    machine
        .sessions()
        .iter()
        .map(|(session, found)| SessionEvent::Attached {
            session,
            attached: found.attached,
            timeout_ms: found.timeout_ms,
        })
        .collect()
}

//! Replaces the content of a data directory by the first snapshot of a new cluster, whose only
//! member the directory becomes. The old content is set aside.
//!
//! The new snapshot is complete in the file [`SUCCESSOR_FILE`] before anything else changes. While
//! the directory still has an identity, nothing was moved yet, or all is done: then the file is
//! removed. Without an identity the work was begun, and the next start completes it. So after a
//! crash at any moment a start finds the old directory or the new one, and no start begins empty.

use super::{
    IDENTITY_FILE, Identity, ReadDir, TEMPORARY_SUFFIX, be_born, exists, move_aside,
    refuse_lost_identity, sync_root, take_lock,
};
use crate::disk::Disk;
use crate::error::StorageError;
use crate::record::{Membership, SnapshotPoint};
use crate::snapshot::{SnapshotMeta, SnapshotReader, SnapshotWriter};
use crate::wal::WalOptions;

/// The file with the first snapshot of the new cluster, until the directory holds it.
pub const SUCCESSOR_FILE: &str = "successor";

impl<D: Disk + Clone> ReadDir<D> {
    /// Moves the directory's content to a new subdirectory, as [`super::set_aside`] does, and
    /// begins a new cluster in its place, with `identity` as the only member. `image_pieces` is the
    /// state at `point`. Returns the name of the subdirectory.
    ///
    /// # Errors
    /// The disk failed. The next start finds the old content or the new one.
    pub fn begin_anew(
        self,
        disk: &D,
        identity: Identity,
        (point, image_pieces): (SnapshotPoint, &[Vec<u8>]),
    ) -> Result<String, StorageError> {
        let _lock = match self.lock {
            Some(lock) => lock,
            None => take_lock(disk)?,
        };
        let voters = vec![identity.member_id];
        let meta = SnapshotMeta {
            index: point.index,
            term: point.term,
            cluster_id: identity.cluster_id,
            membership: Membership { voters, ..Membership::default() },
        };
        let mut writer = SnapshotWriter::create_at(disk.clone(), temporary(), &meta)?;
        for piece in image_pieces {
            writer.write_piece(piece)?;
        }
        writer.finish_as(SUCCESSOR_FILE, "")?;
        let name = move_aside(disk)?;
        settle(disk)?;
        Ok(name)
    }
}

/// Completes a replacement that was begun, or drops one that was not. Every start calls this with
/// the lock.
///
/// # Errors
/// The disk failed, or the new snapshot is damaged. Its old content is set aside then.
pub(super) fn settle<D: Disk + Clone>(disk: &D) -> Result<(), StorageError> {
    if exists(disk, &temporary())? {
        remove(disk, &temporary())?;
    }
    if !exists(disk, SUCCESSOR_FILE)? {
        return Ok(());
    }
    if !exists(disk, IDENTITY_FILE)? {
        complete(disk)?;
    }
    remove(disk, SUCCESSOR_FILE)?;
    sync_root(disk)
}

/// The path of the file while it is written.
fn temporary() -> String {
    format!("{SUCCESSOR_FILE}{TEMPORARY_SUFFIX}")
}

fn remove<D: Disk>(disk: &D, path: &str) -> Result<(), StorageError> {
    disk.remove(path).map_err(|error| StorageError::io(path, "remove", error))
}

fn complete<D: Disk + Clone>(disk: &D) -> Result<(), StorageError> {
    let mut reader = SnapshotReader::open_backup(disk.clone(), SUCCESSOR_FILE.to_string())?;
    let meta = reader.meta().clone();
    let [member_id] = meta.membership.voters[..] else {
        return Err(StorageError::corrupt(SUCCESSOR_FILE, 0, "it is not of one member"));
    };
    let mut pieces = Vec::new();
    while let Some(piece) = reader.next_piece()? {
        pieces.push(piece);
    }
    match refuse_lost_identity(disk) {
        // Not all of the old content was moved.
        Err(StorageError::Corrupt { .. }) => drop(move_aside(disk)?),
        other => other?,
    }
    let identity = Identity { cluster_id: meta.cluster_id, member_id };
    be_born(disk, identity, &meta, &pieces, &WalOptions::default())?;
    Ok(())
}

#[cfg(test)]
mod tests;

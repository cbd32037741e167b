//! A snapshot that somebody gives to be installed: written, checked whole, then kept, so that the
//! log may name it.

use machine::{Machine, PreparedImage};
use storage::StorageError;
use storage::disk::Disk;
use storage::snapshot::{
    RECEIVED_NAME, RECEIVING_NAME, ReceivedWriter, SnapshotReader, keep_received, remove_received,
};

use crate::recovery::{RecoveryError, read_image};

/// Takes a snapshot's bytes as they arrive.
pub struct ImageReceiver<D: Disk + Clone> {
    disk: D,
    writer: ReceivedWriter<D>,
}

impl<D: Disk + Clone> ImageReceiver<D> {
    /// Begins one in the data directory that is `disk`'s root. None may be under way or kept.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn new(disk: D) -> Result<ImageReceiver<D>, StorageError> {
        let writer = ReceivedWriter::create(disk.clone())?;
        Ok(ImageReceiver { disk, writer })
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// There is no room for them, or they are too many.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StorageError> {
        self.writer.write(bytes)
    }

    /// Checks all of it and keeps it: a member that is started again finds it.
    ///
    /// # Errors
    /// It is no snapshot, or is damaged; or the disk failed.
    pub fn finish(self) -> Result<PreparedImage, RecoveryError> {
        self.writer.finish()?;
        let image = load(&self.disk, RECEIVING_NAME)?;
        keep_received(&self.disk)?;
        Ok(image)
    }
}

/// The snapshot that is kept.
///
/// # Errors
/// It cannot be read.
pub(crate) fn load_kept<D: Disk + Clone>(disk: &D) -> Result<PreparedImage, RecoveryError> {
    load(disk, RECEIVED_NAME)
}

/// Removes what was received, kept or not, once nothing names it.
///
/// # Errors
/// The disk failed. The next start tries again.
pub fn discard<D: Disk>(disk: &D) -> Result<(), StorageError> {
    remove_received(disk)
}

/// The state in a snapshot that is in no data directory, checked whole.
///
/// # Errors
/// It cannot be read, is no snapshot, or is damaged.
pub fn read_backup<D: Disk + Clone>(disk: &D, path: &str) -> Result<Machine, RecoveryError> {
    let mut reader = SnapshotReader::open_backup(disk.clone(), path.to_string())?;
    read_image(&mut reader, path, || ())
}

fn load<D: Disk + Clone>(disk: &D, name: &str) -> Result<PreparedImage, RecoveryError> {
    let mut reader = SnapshotReader::open_received(disk.clone(), name)?;
    let machine = Box::new(read_image(&mut reader, name, || ())?);
    Ok(PreparedImage { hash: reader.hash(), machine })
}

#[cfg(test)]
mod tests;

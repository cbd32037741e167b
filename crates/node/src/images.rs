//! Snapshots that programs ask for, and snapshots that they bring to be installed.

use std::fs::File;
use std::io;
use std::sync::Arc;

use machine::{Mark, PreparedImage};
use member::order::InstallRefused;
use member::recovery::RecoveryError;
use member::snapshot::received::{self, ImageReceiver};
use storage::StorageError;
use storage::disk::RealDisk;
use storage::snapshot::{SNAPSHOT_DIR, SnapshotReader, snapshot_name};
use thiserror::Error;
use tokio::sync::oneshot;

use crate::metrics::MonitorHandle;
use crate::threads::Shared;

/// A snapshot that was asked for, durable and open: it can be read even after it was removed.
#[derive(Debug)]
pub struct TakenSnapshot {
    /// The open file, at its beginning.
    pub file: File,
    /// The file's length in bytes.
    pub bytes: u64,
    /// The mark of the last command in it.
    pub mark: Mark,
    name: String,
    disk: RealDisk,
}

impl TakenSnapshot {
    /// Reads it piece by piece.
    ///
    /// # Errors
    /// Its header cannot be read.
    pub fn reader(self) -> Result<SnapshotReader<RealDisk>, StorageError> {
        let path = format!("{SNAPSHOT_DIR}/{}", self.name);
        SnapshotReader::from_file(self.disk, self.file.into(), path)
    }
}

/// The reason why a snapshot that was brought is not the state, and never will be.
#[derive(Debug, Error)]
pub enum NotInstalled {
    /// The member cannot install it at present.
    #[error("{0}")]
    Refused(#[from] InstallRefused),
    /// There is no room for it, or the disk failed.
    #[error("{0}")]
    Storage(#[from] StorageError),
    /// It is not a whole snapshot of ours.
    #[error("{0}")]
    Bad(RecoveryError),
}

/// A snapshot on its way to be installed. Each of its steps may block for as long as the disk
/// takes, and [`Upload::finish`] for as long as a start reads a snapshot. An unfinished upload
/// leaves nothing behind.
pub struct Upload {
    shared: Arc<Shared>,
    disk: RealDisk,
    /// The receiver; `None` once the upload is finished.
    receiver: Option<ImageReceiver<RealDisk>>,
}

/// A caller that waits for a snapshot.
pub(crate) struct SnapshotWaiter {
    /// The number of that snapshot, as Loop counts them; a later one will do, too.
    number: u64,
    sender: oneshot::Sender<io::Result<TakenSnapshot>>,
}

impl MonitorHandle {
    /// Takes a snapshot of the state as it is now. It costs as much as a snapshot that is due
    /// anyway.
    ///
    /// # Errors
    /// It could not be written: the reason is in the log. Nothing is received if the process ends.
    pub fn take_snapshot(&self) -> oneshot::Receiver<io::Result<TakenSnapshot>> {
        let (sender, receiver) = oneshot::channel();
        self.shared.ask_loop(|member| {
            let number = member.want_snapshot();
            self.shared.snapshot_waiters.lock().push(SnapshotWaiter { number, sender });
        });
        receiver
    }

    /// Begins an upload of a snapshot to be installed. The caller makes sure that there is only
    /// one.
    ///
    /// # Errors
    /// It could not be installed, or the disk failed.
    pub fn receive_image(&self) -> Result<Upload, NotInstalled> {
        self.shared.look_at_loop(|member| member.check_install())?;
        let disk = self.shared.disk.clone();
        let receiver = Some(ImageReceiver::new(disk.clone())?);
        Ok(Upload { shared: self.shared.clone(), disk, receiver })
    }
}

impl Upload {
    /// Takes the next bytes of the file.
    ///
    /// # Errors
    /// There is no room for them, or they are too many.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), NotInstalled> {
        let receiver = self.receiver.as_mut().expect("it is not finished");
        Ok(receiver.write(bytes)?)
    }

    /// Checks the whole snapshot and has it installed. The receiver gets its mark once it is the
    /// state: by then every client is disconnected, and finds the new state when it returns.
    /// Nothing is received if the process ends.
    ///
    /// # Errors
    /// The state is as it was.
    pub fn finish(mut self) -> Result<oneshot::Receiver<Mark>, NotInstalled> {
        let receiver = self.receiver.take().expect("it is finished once");
        let installed = receiver.finish().map_err(NotInstalled::of).and_then(|image| {
            let (sender, receiver) = oneshot::channel();
            self.install(image, sender)?;
            Ok(receiver)
        });
        if installed.is_err() {
            self.discard();
        }
        installed
    }

    fn install(
        &self,
        image: PreparedImage,
        sender: oneshot::Sender<Mark>,
    ) -> Result<(), InstallRefused> {
        self.shared.ask_loop(|member| {
            member.install(image)?;
            *self.shared.install_waiter.lock() = Some(sender);
            Ok(())
        })
    }

    fn discard(&self) {
        if let Err(error) = received::discard(&self.disk) {
            tracing::error!("a snapshot that was not restored stays until the next start: {error}");
        }
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.receiver.take().is_some() {
            self.discard();
        }
    }
}

impl NotInstalled {
    fn of(error: RecoveryError) -> NotInstalled {
        match error {
            // The bytes came from outside, so damage is the sender's, not our disk's.
            RecoveryError::Storage(
                error @ (StorageError::Corrupt { .. } | StorageError::UnknownFormat { .. }),
            ) => NotInstalled::Bad(RecoveryError::Storage(error)),
            RecoveryError::Storage(error) => NotInstalled::Storage(error),
            error => NotInstalled::Bad(error),
        }
    }
}

impl Shared {
    /// Tells the callers that wait for the snapshot with this number, or for an earlier one, that
    /// it is durable at this log index and term.
    pub(crate) fn on_snapshot_taken(&self, number: u64, (index, term): (u64, u64), mark: Mark) {
        let name = snapshot_name(index, term);
        let path = self.data_dir.join(SNAPSHOT_DIR).join(&name);
        for waiter in self.take_waiters(number) {
            let open = || {
                let file = File::open(&path)?;
                let bytes = file.metadata()?.len();
                Ok(TakenSnapshot { file, bytes, mark, name: name.clone(), disk: self.disk.clone() })
            };
            // A waiter that gave up needs no answer.
            let _ = waiter.sender.send(open());
        }
    }

    /// Tells them that the snapshot could not be written.
    pub(crate) fn on_snapshot_failed(&self, number: u64) {
        for waiter in self.take_waiters(number) {
            let failure = io::Error::other("the snapshot could not be written, see the log");
            let _ = waiter.sender.send(Err(failure));
        }
    }

    fn take_waiters(&self, number: u64) -> Vec<SnapshotWaiter> {
        self.snapshot_waiters.lock().extract_if(.., |waiter| waiter.number <= number).collect()
    }
}

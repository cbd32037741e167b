//! Takes a snapshot when a program asks for one, and installs a snapshot that a program uploads.
//! Programs reach this through a listener, such as the admin server's.

use std::fs::File;
use std::io;
use std::sync::Arc;

use machine::{Mark, PreparedImage};
use member::order::InstallRefused;
use member::recovery::RecoveryError;
use member::snapshot::received::{self, ImageReceiver};
use parking_lot::Mutex;
use storage::StorageError;
use storage::disk::RealDisk;
use storage::snapshot::{SNAPSHOT_DIR, SnapshotReader, snapshot_name};
use thiserror::Error;
use tokio::sync::oneshot;

use crate::metrics::MonitorHandle;
use crate::threads::Shared;

/// A snapshot that a caller asked for. It is durable and open, so it can be read even after it is
/// removed.
#[derive(Debug)]
pub struct TakenSnapshot {
    /// The open file, at its beginning.
    pub file: File,
    /// The file's length in bytes.
    pub bytes: u64,
    /// The mark of the last command that the snapshot covers.
    pub mark: Mark,
    name: String,
    disk: RealDisk,
}

impl TakenSnapshot {
    /// Turns this into a reader of the snapshot's pieces.
    ///
    /// # Errors
    /// The snapshot's header cannot be read.
    pub fn reader(self) -> Result<SnapshotReader<RealDisk>, StorageError> {
        let path = format!("{SNAPSHOT_DIR}/{}", self.name);
        SnapshotReader::from_file(self.disk, self.file.into(), path)
    }
}

/// Why an uploaded snapshot was not installed, and will not be.
#[derive(Debug, Error)]
pub enum NotInstalled {
    /// The member cannot install a snapshot at present.
    #[error("{0}")]
    Refused(#[from] InstallRefused),
    /// The disk is full or failed.
    #[error("{0}")]
    Storage(#[from] StorageError),
    /// The upload is not a complete and valid snapshot.
    #[error("{0}")]
    Bad(RecoveryError),
}

/// An upload of a snapshot that is to be installed. Each call may block for as long as the disk
/// takes, and [`Upload::finish`] for as long as it takes to read a snapshot. Dropping an unfinished
/// upload removes its file.
pub struct Upload {
    shared: Arc<Shared>,
    disk: RealDisk,
    /// Writes the file; `None` once the upload is finished.
    receiver: Option<ImageReceiver<RealDisk>>,
}

/// Callers that wait for snapshots.
#[derive(Default)]
pub(crate) struct ImageWaiters {
    /// Callers that wait for a snapshot; at most one for each connection of the admin server.
    pub snapshots: Mutex<Vec<SnapshotWaiter>>,
    /// Gets the mark of the uploaded snapshot that is being installed, once it is the state.
    pub install: Mutex<Option<oneshot::Sender<Mark>>>,
}

/// A caller that waits for a snapshot.
pub(crate) struct SnapshotWaiter {
    /// The number of the awaited snapshot, in Loop's count. A later snapshot will do, too.
    number: u64,
    sender: oneshot::Sender<io::Result<TakenSnapshot>>,
}

impl MonitorHandle {
    /// Starts a snapshot of the present state. It costs as much as a snapshot that is taken
    /// regularly.
    ///
    /// # Errors
    /// The snapshot could not be written; the program's log has the reason. If the process ends,
    /// the sender is dropped without an answer.
    pub fn take_snapshot(&self) -> oneshot::Receiver<io::Result<TakenSnapshot>> {
        let (sender, receiver) = oneshot::channel();
        self.shared.ask_loop(|member| {
            let number = member.want_snapshot();
            self.shared.waiters.snapshots.lock().push(SnapshotWaiter { number, sender });
        });
        receiver
    }

    /// Starts an upload of a snapshot to be installed. The caller makes sure that there is at most
    /// one upload at a time.
    ///
    /// # Errors
    /// The member could not install a snapshot now, or the disk failed.
    pub fn receive_image(&self) -> Result<Upload, NotInstalled> {
        self.shared.look_at_loop(|member| member.check_install())?;
        let disk = self.shared.disk.clone();
        let receiver = Some(ImageReceiver::new(disk.clone())?);
        Ok(Upload { shared: self.shared.clone(), disk, receiver })
    }
}

impl Upload {
    /// Writes the next bytes of the snapshot.
    ///
    /// # Errors
    /// The disk is full, or the snapshot is too large.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), NotInstalled> {
        let receiver = self.receiver.as_mut().expect("it is not finished");
        Ok(receiver.write(bytes)?)
    }

    /// Checks the whole snapshot and makes the member install it. The returned receiver gets the
    /// snapshot's mark once the snapshot is the state. Every client is disconnected by then, and
    /// finds the new state when it reconnects. If the process ends, the receiver gets nothing.
    ///
    /// # Errors
    /// The snapshot is not installed; the state has not changed.
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
            *self.shared.waiters.install.lock() = Some(sender);
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
            // The bytes came from outside: the sender damaged them, not this disk.
            RecoveryError::Storage(
                error @ (StorageError::Corrupt { .. } | StorageError::UnknownFormat { .. }),
            ) => NotInstalled::Bad(RecoveryError::Storage(error)),
            RecoveryError::Storage(error) => NotInstalled::Storage(error),
            error => NotInstalled::Bad(error),
        }
    }
}

impl Shared {
    /// Answers the callers that wait for the snapshot with this number, or for an earlier one: it
    /// is durable, at this log index and term.
    pub(crate) fn on_snapshot_taken(&self, number: u64, (index, term): (u64, u64), mark: Mark) {
        let name = snapshot_name(index, term);
        let path = self.data_dir.join(SNAPSHOT_DIR).join(&name);
        for waiter in self.take_waiters(number) {
            let open = || {
                let file = File::open(&path)?;
                let bytes = file.metadata()?.len();
                Ok(TakenSnapshot { file, bytes, mark, name: name.clone(), disk: self.disk.clone() })
            };
            // A caller that gave up needs no answer.
            let _ = waiter.sender.send(open());
        }
    }

    /// Answers the callers that wait for the snapshot with this number, or for an earlier one: it
    /// could not be written.
    pub(crate) fn on_snapshot_failed(&self, number: u64) {
        for waiter in self.take_waiters(number) {
            let failure = io::Error::other("the snapshot could not be written, see the log");
            let _ = waiter.sender.send(Err(failure));
        }
    }

    fn take_waiters(&self, number: u64) -> Vec<SnapshotWaiter> {
        self.waiters.snapshots.lock().extract_if(.., |waiter| waiter.number <= number).collect()
    }
}

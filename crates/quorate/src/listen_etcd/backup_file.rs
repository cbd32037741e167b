//! Makes the files of backups: databases in etcd's format, converted from snapshots.
//!
//! For each backup the member takes a new snapshot, as for the admin command `snapshot`. A thread
//! of its own converts the snapshot to a database, and does not need the lock of the state for
//! that. The files have no names, so they vanish when the last reader closes them, or when the
//! process ends.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use anyhow::{Context, ensure};
use etcd::backup::{Applied, Backup};
use machine::image::etcd_part::EtcdPartReader;
use node::{MonitorHandle, TakenSnapshot};
use rustix::fs::{OFlags, fstatvfs};
use storage::disk::FILE_MODE;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use super::limits::{
    BACKUP_FREE_BYTES_MIN, BACKUP_FREE_SHARE, BACKUP_LOOK_BYTES, BACKUP_LOOK_INTERVAL,
    BACKUP_WAIT_MAX, BACKUPS_MAX, NICENESS, STALL_TIME_MAX, WAITED_TIME_MAX,
};

/// The name that a file has for a moment if the file system cannot create one without a name.
const NAME_FOR_A_MOMENT: &str = "etcd-backup.tmp";

/// The backups of a member. All connection runtimes share this.
pub(super) struct Backups {
    /// The directory for the files.
    dir: PathBuf,
    /// A single permit: one backup is made at a time.
    turn: Arc<Semaphore>,
    /// A permit for each backup that is being made or read.
    open: Arc<Semaphore>,
    /// How many calls wait for a permit of `open`.
    waiting: AtomicUsize,
}

/// Counts a call in `Backups::waiting` until this is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Waiting<'a> {
        count.fetch_add(1, Ordering::Relaxed);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Backups {
    /// Backups whose files are made in `dir`.
    pub fn new(dir: PathBuf) -> Backups {
        let (turn, open) = (Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(BACKUPS_MAX)));
        Backups { dir, turn, open, waiting: AtomicUsize::new(0) }
    }

    /// Waits for a permit to make and read a backup. `None` if [`BACKUPS_MAX`] are under way and
    /// none of them ends within [`BACKUP_WAIT_MAX`].
    pub async fn begin(&self) -> Option<OwnedSemaphorePermit> {
        let permit = self.open.clone().acquire_owned();
        let _waiting = Waiting::new(&self.waiting);
        tokio::time::timeout(BACKUP_WAIT_MAX, permit).await.ok()?.ok()
    }

    /// Returns when a client has had long enough to take a piece of a backup, counted from now:
    /// [`STALL_TIME_MAX`], or [`WAITED_TIME_MAX`] if other calls wait for a permit.
    pub async fn overdue(&self) {
        let offered_at = Instant::now();
        loop {
            tokio::time::sleep(BACKUP_LOOK_INTERVAL).await;
            let is_waited_for = self.waiting.load(Ordering::Relaxed) > 0;
            let time_max = if is_waited_for { WAITED_TIME_MAX } else { STALL_TIME_MAX };
            if offered_at.elapsed() >= time_max {
                return;
            }
        }
    }

    /// Makes a backup of the present state. If the future is dropped, the work stops soon; it keeps
    /// its permits until then.
    ///
    /// # Errors
    /// The snapshot or the file could not be written.
    pub async fn make(
        &self,
        node: &MonitorHandle,
        open: OwnedSemaphorePermit,
    ) -> anyhow::Result<BackupFile> {
        let turn = self.turn.clone().acquire_owned().await?;
        let taken = node.take_snapshot().await.context("the server is ending")??;
        let dir = self.dir.clone();
        let (done, result) = oneshot::channel();
        // The thread stops its work when this reference, which the caller's future owns, is gone.
        let waits = Arc::new(());
        let is_wanted = Arc::downgrade(&waits);
        let thread = std::thread::Builder::new().name("etcd-backup".to_string());
        thread.spawn(move || {
            let _turn = turn;
            // If the system refuses, the thread keeps the normal priority.
            let _ = rustix::process::setpriority_process(None, NICENESS);
            let made = make(&dir, taken, &is_wanted);
            // Sending fails if the client is gone; then nobody needs the backup.
            let _ = done.send(made.map(|(file, bytes)| BackupFile { file, bytes, _open: open }));
        })?;
        result.await.context("the thread has ended")?
    }
}

/// A complete backup, to be read from its beginning. Holds the permit of `Backups::open`.
pub(super) struct BackupFile {
    pub file: File,
    pub bytes: u64,
    _open: OwnedSemaphorePermit,
}

fn make(dir: &Path, taken: TakenSnapshot, is_wanted: &Weak<()>) -> anyhow::Result<(File, u64)> {
    let snapshot_bytes = taken.bytes;
    let mut snapshot = taken.reader()?;
    let applied = Applied { index: snapshot.meta().index, term: snapshot.meta().term };
    let file = || {
        let file = nameless(dir).context("its file cannot be made")?;
        let is_wanted = is_wanted.clone();
        anyhow::Ok(CarefulFile { file, is_wanted, snapshot_bytes, unseen_bytes: BACKUP_LOOK_BYTES })
    };
    let mut backup = Backup::new(file()?, file()?, applied)?;
    let mut part = EtcdPartReader::default();
    while let Some(piece) = snapshot.next_piece()? {
        ensure!(is_wanted.strong_count() > 0, "its client is gone");
        backup.piece(part.piece(&piece)?)?;
    }
    ensure!(part.is_whole(), "the snapshot is not whole");
    let (CarefulFile { mut file, .. }, bytes) = backup.finish()?;
    file.seek(SeekFrom::Start(0))?;
    Ok((file, bytes))
}

/// Creates a file without a name.
fn nameless(dir: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(FILE_MODE);
    let flags = OFlags::TMPFILE.bits() as i32;
    match options.clone().custom_flags(flags).open(dir) {
        Ok(file) => Ok(file),
        // Some file systems cannot do this: then create a file and delete its name at once.
        Err(_) => {
            let path = dir.join(NAME_FOR_A_MOMENT);
            let file = options.create(true).truncate(true).open(&path)?;
            std::fs::remove_file(&path)?;
            Ok(file)
        }
    }
}

/// A file whose writes fail if the disk gets too full, or once nobody wants the file any more.
struct CarefulFile {
    file: File,
    is_wanted: Weak<()>,
    /// Length of the snapshot in bytes. As much is left free on the disk for the next snapshot.
    snapshot_bytes: u64,
    /// How many bytes were written since the last check.
    unseen_bytes: u64,
}

impl CarefulFile {
    fn check(&self) -> io::Result<()> {
        if self.is_wanted.strong_count() == 0 {
            return Err(io::Error::other("its client is gone"));
        }
        let disk = fstatvfs(&self.file)?;
        let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
        let share = bytes(disk.f_blocks) / BACKUP_FREE_SHARE;
        let kept = BACKUP_FREE_BYTES_MIN.min(share) + self.snapshot_bytes;
        let free = bytes(disk.f_bavail);
        if free >= kept {
            return Ok(());
        }
        let text = format!("the disk of the data has {free} bytes free, and {kept} are kept free");
        Err(io::Error::new(io::ErrorKind::StorageFull, text))
    }
}

impl Write for CarefulFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.unseen_bytes >= BACKUP_LOOK_BYTES {
            self.check()?;
            self.unseen_bytes = 0;
        }
        let count = self.file.write(bytes)?;
        self.unseen_bytes += count as u64;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for CarefulFile {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.file.read(bytes)
    }
}

impl Seek for CarefulFile {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

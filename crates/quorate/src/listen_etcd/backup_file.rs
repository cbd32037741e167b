//! Files of backups: databases of etcd's, made of durable snapshots.
//!
//! A new snapshot is taken, as an operator's is. A thread of its own turns it into the database,
//! off the lock of the state, in files without names: they are gone when the last reader has
//! closed them, or the process has ended.

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

/// The name that a file has for a moment where the file system makes none without a name.
const NAME_FOR_A_MOMENT: &str = "etcd-backup.tmp";

/// The backups of a member. All connection runtimes share them.
pub(super) struct Backups {
    /// Where their files are made.
    dir: PathBuf,
    /// One permit: one backup is made at a time.
    turn: Arc<Semaphore>,
    /// A permit for each that is made or read.
    open: Arc<Semaphore>,
    /// Calls that wait for such a permit.
    waiting: AtomicUsize,
}

/// A call that waits for a permit.
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
    /// Makes files in this directory.
    pub fn new(dir: PathBuf) -> Backups {
        let (turn, open) = (Arc::new(Semaphore::new(1)), Arc::new(Semaphore::new(BACKUPS_MAX)));
        Backups { dir, turn, open, waiting: AtomicUsize::new(0) }
    }

    /// A permit for a backup; `None` if too many are held, and none of their clients lets go of one
    /// soon.
    pub async fn begin(&self) -> Option<OwnedSemaphorePermit> {
        let permit = self.open.clone().acquire_owned();
        let _waiting = Waiting::new(&self.waiting);
        tokio::time::timeout(BACKUP_WAIT_MAX, permit).await.ok()?.ok()
    }

    /// Returns when a client must have taken the piece of a backup that it was just offered: soon,
    /// if others wait for a backup.
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

    /// Makes a backup of the present state. If the future is dropped, the work ends soon; its
    /// permits are held until it has.
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
        // The caller holds the other reference for as long as it waits.
        let waits = Arc::new(());
        let is_wanted = Arc::downgrade(&waits);
        let thread = std::thread::Builder::new().name("etcd-backup".to_string());
        thread.spawn(move || {
            let _turn = turn;
            // Without the right to it the thread is as the others.
            let _ = rustix::process::setpriority_process(None, NICENESS);
            let made = make(&dir, taken, &is_wanted);
            // A client that is gone needs no backup.
            let _ = done.send(made.map(|(file, bytes)| BackupFile { file, bytes, _open: open }));
        })?;
        result.await.context("the thread has ended")?
    }
}

/// A backup, at its beginning.
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

/// A new file without a name.
fn nameless(dir: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(FILE_MODE);
    let flags = OFlags::TMPFILE.bits() as i32;
    match options.clone().custom_flags(flags).open(dir) {
        Ok(file) => Ok(file),
        // Not every file system has such files.
        Err(_) => {
            let path = dir.join(NAME_FOR_A_MOMENT);
            let file = options.create(true).truncate(true).open(&path)?;
            std::fs::remove_file(&path)?;
            Ok(file)
        }
    }
}

/// A file that leaves bytes of its disk free, and takes no more once nobody wants it.
struct CarefulFile {
    file: File,
    is_wanted: Weak<()>,
    /// Bytes of the snapshot: the next one needs about as many.
    snapshot_bytes: u64,
    /// Bytes that were written since the last check.
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

//! The real disk, with counts of how often a store waits for it: each fdatasync of a file and each
//! fsync of a directory counts. (The store itself counts only the syncs of its log.)

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chunk::{Disk, RealDisk};

/// A [`RealDisk`] that counts syncs. Its clones share the counts.
#[derive(Clone, Debug)]
pub struct CountedDisk {
    disk: RealDisk,
    counters: Arc<Counters>,
}

#[derive(Debug, Default)]
struct Counters {
    files: AtomicU64,
    directories: AtomicU64,
}

/// Numbers of syncs. Failed ones count, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SyncCounts {
    /// fdatasyncs of files.
    pub files: u64,
    /// fsyncs of directories.
    pub directories: u64,
}

impl SyncCounts {
    /// How many syncs there were since an earlier count.
    pub fn since(self, earlier: SyncCounts) -> SyncCounts {
        SyncCounts {
            files: self.files - earlier.files,
            directories: self.directories - earlier.directories,
        }
    }
}

impl CountedDisk {
    /// Opens the disk. Paths are relative to the folder `root`, which is created, durably, if it is
    /// missing.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn new(root: impl Into<PathBuf>) -> io::Result<CountedDisk> {
        Ok(CountedDisk { disk: RealDisk::new(root)?, counters: Arc::default() })
    }

    /// The number of syncs so far.
    pub fn sync_counts(&self) -> SyncCounts {
        SyncCounts {
            files: self.counters.files.load(Ordering::Relaxed),
            directories: self.counters.directories.load(Ordering::Relaxed),
        }
    }
}

impl Disk for CountedDisk {
    type File = <RealDisk as Disk>::File;

    fn open(&self, path: &str) -> io::Result<Self::File> {
        self.disk.open(path)
    }

    fn open_read_only(&self, path: &str) -> io::Result<Self::File> {
        self.disk.open_read_only(path)
    }

    fn create(&self, path: &str) -> io::Result<Self::File> {
        self.disk.create(path)
    }

    fn create_new(&self, path: &str) -> io::Result<Self::File> {
        self.disk.create_new(path)
    }

    fn open_or_create(&self, path: &str) -> io::Result<Self::File> {
        self.disk.open_or_create(path)
    }

    fn len(&self, file: &Self::File) -> io::Result<u64> {
        self.disk.len(file)
    }

    fn read_at(&self, file: &Self::File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.disk.read_at(file, offset, buffer)
    }

    fn write_at(&self, file: &Self::File, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.write_at(file, offset, bytes)
    }

    fn write_blocks_at(&self, file: &Self::File, offset: u64, blocks: &[u8]) -> io::Result<()> {
        self.disk.write_blocks_at(file, offset, blocks)
    }

    fn preallocate(&self, file: &Self::File, bytes: u64) -> io::Result<()> {
        self.disk.preallocate(file, bytes)
    }

    fn truncate(&self, file: &Self::File, bytes: u64) -> io::Result<()> {
        self.disk.truncate(file, bytes)
    }

    fn punch(&self, file: &Self::File, offset: u64, bytes: u64) -> io::Result<()> {
        self.disk.punch(file, offset, bytes)
    }

    fn sync_data(&self, file: &Self::File) -> io::Result<()> {
        self.counters.files.fetch_add(1, Ordering::Relaxed);
        self.disk.sync_data(file)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        self.disk.remove_dir(dir)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        self.disk.create_dir(dir)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        self.counters.directories.fetch_add(1, Ordering::Relaxed);
        self.disk.sync_dir(dir)
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        self.disk.exists(path)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }

    fn lock(&self, path: &str) -> io::Result<Self::File> {
        self.disk.lock(path)
    }

    fn lock_existing(&self, path: &str) -> io::Result<Self::File> {
        self.disk.lock_existing(path)
    }
}

#[cfg(test)]
mod tests;

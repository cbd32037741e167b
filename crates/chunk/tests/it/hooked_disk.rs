//! A disk for tests: a folder of the real file system. The disk calls the test's hook before each
//! change, and before a file is opened for reading. The hook may fail the operation or make it
//! wait. Threads share the disk.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use storage::disk::{Disk, RealDisk, RealFile};
use storage::fault_disk::Operation;

/// The hook, called with the operation and the path.
type Hook = dyn Fn(Operation, &str) -> io::Result<()> + Send + Sync;

/// The disk. Clones share the folder; the last clone removes it.
#[derive(Clone)]
pub struct HookedDisk {
    inner: RealDisk,
    hook: Arc<Hook>,
    _folder: Arc<Folder>,
}

/// An open file and its path.
#[derive(Debug)]
pub struct HookedFile {
    path: String,
    inner: RealFile,
}

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

impl HookedDisk {
    pub fn new(
        name: &str,
        hook: impl Fn(Operation, &str) -> io::Result<()> + Send + Sync + 'static,
    ) -> HookedDisk {
        let name = format!("quorate-chunk-{}-{name}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let inner = RealDisk::new(&root).expect("makes the folder");
        HookedDisk { inner, hook: Arc::new(hook), _folder: Arc::new(Folder(root)) }
    }

    fn file(&self, path: &str, inner: RealFile) -> HookedFile {
        HookedFile { path: path.to_owned(), inner }
    }
}

impl Disk for HookedDisk {
    type File = HookedFile;

    fn open(&self, path: &str) -> io::Result<HookedFile> {
        Ok(self.file(path, self.inner.open(path)?))
    }

    fn open_read_only(&self, path: &str) -> io::Result<HookedFile> {
        (self.hook)(Operation::Open, path)?;
        Ok(self.file(path, self.inner.open_read_only(path)?))
    }

    fn create(&self, path: &str) -> io::Result<HookedFile> {
        (self.hook)(Operation::Create, path)?;
        Ok(self.file(path, self.inner.create(path)?))
    }

    fn create_new(&self, path: &str) -> io::Result<HookedFile> {
        (self.hook)(Operation::Create, path)?;
        Ok(self.file(path, self.inner.create_new(path)?))
    }

    fn open_or_create(&self, path: &str) -> io::Result<HookedFile> {
        Ok(self.file(path, self.inner.open_or_create(path)?))
    }

    fn len(&self, file: &HookedFile) -> io::Result<u64> {
        self.inner.len(&file.inner)
    }

    fn read_at(&self, file: &HookedFile, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.inner.read_at(&file.inner, offset, buffer)
    }

    fn write_at(&self, file: &HookedFile, offset: u64, bytes: &[u8]) -> io::Result<()> {
        (self.hook)(Operation::Write, &file.path)?;
        self.inner.write_at(&file.inner, offset, bytes)
    }

    fn write_blocks_at(&self, file: &HookedFile, offset: u64, blocks: &[u8]) -> io::Result<()> {
        (self.hook)(Operation::Write, &file.path)?;
        self.inner.write_blocks_at(&file.inner, offset, blocks)
    }

    fn preallocate(&self, file: &HookedFile, bytes: u64) -> io::Result<()> {
        (self.hook)(Operation::Preallocate, &file.path)?;
        self.inner.preallocate(&file.inner, bytes)
    }

    fn truncate(&self, file: &HookedFile, bytes: u64) -> io::Result<()> {
        (self.hook)(Operation::Truncate, &file.path)?;
        self.inner.truncate(&file.inner, bytes)
    }

    fn punch(&self, file: &HookedFile, offset: u64, bytes: u64) -> io::Result<()> {
        (self.hook)(Operation::Punch, &file.path)?;
        self.inner.punch(&file.inner, offset, bytes)
    }

    fn sync_data(&self, file: &HookedFile) -> io::Result<()> {
        (self.hook)(Operation::Sync, &file.path)?;
        self.inner.sync_data(&file.inner)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        (self.hook)(Operation::Rename, from)?;
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        (self.hook)(Operation::Remove, path)?;
        self.inner.remove(path)
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        (self.hook)(Operation::Remove, dir)?;
        self.inner.remove_dir(dir)
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        self.inner.list(dir)
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        (self.hook)(Operation::CreateDir, dir)?;
        self.inner.create_dir(dir)
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        (self.hook)(Operation::SyncDir, dir)?;
        self.inner.sync_dir(dir)
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        self.inner.exists(path)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.inner.free_bytes()
    }

    fn lock(&self, path: &str) -> io::Result<HookedFile> {
        Ok(self.file(path, self.inner.lock(path)?))
    }

    fn lock_existing(&self, path: &str) -> io::Result<HookedFile> {
        Ok(self.file(path, self.inner.lock_existing(path)?))
    }
}

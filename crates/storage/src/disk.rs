//! The one interface of this crate to the file system: the trait [`Disk`], and [`RealDisk`], its
//! real implementation.
//!
//! Methods take `&self`, so that the log's thread and the snapshot's thread each use a clone. Paths
//! are relative to a root, with `/` between names. A write is durable once a later `sync_data` of
//! that file succeeds; a file's name is durable once a later `sync_dir` of its directory succeeds.
//! Callers assume nothing else about what survives a power cut.
#![expect(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this file is where storage touches the file system; nothing else may"
)]

mod direct;
mod privacy;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::fs::{FallocateFlags, FlockOperation, OFlags};

use crate::disk::direct::{DirectBlocks, DirectWriter, is_refusal};

pub use direct::AlignedBuffer;
pub use privacy::{DIR_MODE, Exposure, FILE_MODE};

/// The directory of the log. A [`RealDisk`] may keep it below a second root.
pub const WAL_DIR: &str = "wal";

/// Prefix of the names of directories that were set aside; a number follows. Such a directory holds
/// data that this server no longer uses and did not delete.
pub const SET_ASIDE_PREFIX: &str = "set-aside-";

/// The operations on a file system that storage needs. [`RealDisk`] and
/// [`crate::fault_disk::FaultDisk`] implement it.
pub trait Disk {
    /// An open file. Dropping it closes it.
    type File: core::fmt::Debug;

    /// Opens an existing file for reading and for writing in place. The caller makes sure that
    /// nothing else writes to the file while it is open.
    fn open(&self, path: &str) -> io::Result<Self::File>;
    /// Opens an existing file for reading only.
    fn open_read_only(&self, path: &str) -> io::Result<Self::File>;
    /// Creates a file, or empties an existing one.
    fn create(&self, path: &str) -> io::Result<Self::File>;
    /// Creates a new file; [`io::ErrorKind::AlreadyExists`] if the name is taken.
    fn create_new(&self, path: &str) -> io::Result<Self::File>;
    /// Opens a file for reading and writing; makes an empty one if none exists.
    fn open_or_create(&self, path: &str) -> io::Result<Self::File>;
    /// Bytes in the file.
    fn len(&self, file: &Self::File) -> io::Result<u64>;
    /// Reads from `offset` on into `buffer`, and returns the number of bytes read. It may be less
    /// than the buffer holds, and is 0 at the end of the file.
    fn read_at(&self, file: &Self::File, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;
    /// Writes all of `bytes` at `offset`.
    fn write_at(&self, file: &Self::File, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Like [`Disk::write_at`], but for whole blocks, and around the page cache if the file system
    /// supports that. The offset, the length and the address of the bytes in memory
    /// ([`AlignedBuffer`]) must be multiples of [`crate::limits::DIRECT_BLOCK_BYTES`]. The file
    /// must have been created, or opened with [`Disk::open_or_create`].
    fn write_blocks_at(&self, file: &Self::File, offset: u64, blocks: &[u8]) -> io::Result<()>;
    /// Reserves disk blocks for `bytes` bytes and makes the file at least that long. Fails with
    /// [`io::ErrorKind::StorageFull`] if there is no space. On a file system that cannot reserve
    /// blocks, only sets the length.
    fn preallocate(&self, file: &Self::File, bytes: u64) -> io::Result<()>;
    /// Cuts the file off at `bytes` bytes and frees the blocks behind. The file must be at least
    /// that long.
    fn truncate(&self, file: &Self::File, bytes: u64) -> io::Result<()>;
    /// Frees the disk blocks of a range of the file. The file keeps its length and reads as zeros
    /// there. Does nothing if the file system cannot do this.
    fn punch(&self, file: &Self::File, offset: u64, bytes: u64) -> io::Result<()>;
    /// Makes every write to the file so far durable (fdatasync).
    fn sync_data(&self, file: &Self::File) -> io::Result<()>;
    /// Renames a file within its directory, and replaces a file that already has the new name. Or
    /// moves a file or a directory of the root to an unused name in another directory; the move is
    /// durable once both directories are synced.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &str) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, dir: &str) -> io::Result<()>;
    /// Names in a directory, sorted. The root is `""`.
    fn list(&self, dir: &str) -> io::Result<Vec<String>>;
    /// Creates a directory, unless it exists already.
    fn create_dir(&self, dir: &str) -> io::Result<()>;
    /// Makes the names in a directory durable. The root is `""`.
    fn sync_dir(&self, dir: &str) -> io::Result<()>;
    /// Whether a file or directory of that name exists.
    fn exists(&self, path: &str) -> io::Result<bool>;
    /// Bytes that files below the root may still take, as reported by the file system. A second
    /// root for the log does not count.
    fn free_bytes(&self) -> io::Result<u64>;
    /// Opens or creates a file and takes an exclusive lock on it. Dropping the result releases the
    /// lock. Fails with [`io::ErrorKind::WouldBlock`] if another process or handle has the lock.
    fn lock(&self, path: &str) -> io::Result<Self::File>;
    /// Like [`Disk::lock`] for an existing file. Nothing on the disk changes, and the disk may be
    /// one that can only be read.
    fn lock_existing(&self, path: &str) -> io::Result<Self::File>;
}

/// A [`Disk`] on the real file system: one root directory, or two, the second for the log. It makes
/// files and directories that only their owner may use ([`DIR_MODE`], [`FILE_MODE`]). It refuses to
/// open a file that is a symbolic link; a directory may be one.
#[derive(Clone, Debug)]
pub struct RealDisk {
    root: Arc<PathBuf>,
    log_root: Option<Arc<PathBuf>>,
}

impl RealDisk {
    /// A disk with paths relative to `root`. Creates `root` durably if it is missing.
    pub fn new(root: impl Into<PathBuf>) -> io::Result<RealDisk> {
        let root = root.into();
        create_private_directories(&root)?;
        Ok(RealDisk::existing(root))
    }

    /// A disk with paths relative to `root`, which is neither created nor changed: for inspection.
    pub fn existing(root: impl Into<PathBuf>) -> RealDisk {
        RealDisk { root: Arc::new(root.into()), log_root: None }
    }

    /// Puts the log below a second root, `log_root`. Creates it durably if it is missing.
    pub fn with_log(self, log_root: impl Into<PathBuf>) -> io::Result<RealDisk> {
        let log_root = log_root.into();
        create_private_directories(&log_root)?;
        Ok(self.with_existing_log(log_root))
    }

    /// Puts the log below a second root that is neither created nor changed: for inspection.
    pub fn with_existing_log(self, log_root: impl Into<PathBuf>) -> RealDisk {
        RealDisk { log_root: Some(Arc::new(log_root.into())), ..self }
    }

    fn path(&self, path: &str) -> PathBuf {
        let inside =
            if is_set_aside(path) { path.split_once('/').map_or("", |it| it.1) } else { path };
        let is_log = inside.split('/').next() == Some(WAL_DIR);
        self.log_root.as_ref().filter(|_| is_log).unwrap_or(&self.root).join(path)
    }

    /// The path of directory `dir` below the log's root, for a directory that exists below both
    /// roots (the root itself, or one that was set aside). `None` for any other, or without a log
    /// root.
    fn beside(&self, dir: &str) -> Option<PathBuf> {
        let is_both = dir.is_empty() || is_set_aside(dir) && !dir.contains('/');
        self.log_root.as_ref().filter(|_| is_both).map(|log_root| log_root.join(dir))
    }
}

/// Whether a file can be opened for reading only.
fn is_write_refused(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Whether `path` is a directory that was set aside, or something in it.
fn is_set_aside(path: &str) -> bool {
    path.starts_with(SET_ASIDE_PREFIX)
}

/// Creates the last directory of a path, unless it exists already.
fn create_one(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(DIR_MODE).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Creates the missing directories of a path, durably, for their owner alone.
pub fn create_private_directories(path: &Path) -> io::Result<()> {
    create_directories(path, &mut sync_directory)
}

/// Creates the missing directories of a path and syncs the parent of each one: if a crash loses a
/// directory's name, everything durable below is lost, too.
fn create_directories(
    path: &Path,
    sync: &mut impl FnMut(&Path) -> io::Result<()>,
) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    // The parent of a relative path of one name is "", which means the working directory.
    let parent = match path.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return Err(io::Error::from(io::ErrorKind::NotADirectory)),
    };
    create_directories(parent, sync)?;
    match DirBuilder::new().mode(DIR_MODE).create(path) {
        // Another process was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => {}
        other => other?,
    }
    sync(parent)
}

/// Opens one of this server's files, or creates it for its owner alone. Refuses a symbolic link,
/// which could point to any file.
fn open_file(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.mode(FILE_MODE).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    options.open(path).map_err(|error| match error.raw_os_error() {
        Some(number) if number == rustix::io::Errno::LOOP.raw_os_error() => {
            io::Error::other("it is a symbolic link, and a server's own files are none")
        }
        _ => error,
    })
}

/// Whether `error` says that this process, or the machine, has as many files open as it may.
pub fn is_out_of_descriptors(error: &io::Error) -> bool {
    let number = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    matches!(number, Some(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE))
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let directory = File::open(path)?;
    rustix::fs::fsync(&directory).map_err(io::Error::from)
}

/// An open file of a [`RealDisk`].
#[derive(Debug)]
pub struct RealFile {
    file: File,
    writes: Writes,
}

/// How a file's writes reach the disk.
#[derive(Debug)]
enum Writes {
    /// Through the page cache. Writes of whole blocks ([`Disk::write_blocks_at`]) go around it,
    /// through a second handle. The first such write opens that handle; `None` inside if the file
    /// system has no direct writes.
    Buffered(OnceLock<Option<DirectBlocks>>),
    /// Around the page cache, for a file opened with [`Disk::open`]. `None` inside once the file
    /// system has refused a direct write.
    InPlace(Mutex<Option<DirectWriter>>),
}

impl From<File> for RealFile {
    fn from(file: File) -> RealFile {
        RealFile::buffered(file)
    }
}

impl RealFile {
    fn buffered(file: File) -> RealFile {
        RealFile { file, writes: Writes::Buffered(OnceLock::new()) }
    }

    /// The handle for whole blocks, if the file system has direct writes.
    fn blocks(&self) -> io::Result<Option<&DirectBlocks>> {
        let Writes::Buffered(blocks) = &self.writes else { return Ok(None) };
        if let Some(opened) = blocks.get() {
            return Ok(opened.as_ref());
        }
        match DirectBlocks::open(&self.file) {
            // A descriptor may be free at the next write.
            Err(error) if is_out_of_descriptors(&error) => Ok(None),
            opened => {
                let opened = opened?;
                Ok(blocks.get_or_init(|| opened).as_ref())
            }
        }
    }
}

impl Disk for RealDisk {
    type File = RealFile;

    fn open(&self, path: &str) -> io::Result<RealFile> {
        let path = self.path(path);
        let file = open_file(OpenOptions::new().read(true).write(true), &path)?;
        Ok(match DirectWriter::open(&path, file.metadata()?.len())? {
            Some(writer) => RealFile { file, writes: Writes::InPlace(Mutex::new(Some(writer))) },
            None => RealFile::buffered(file),
        })
    }

    fn open_read_only(&self, path: &str) -> io::Result<RealFile> {
        open_file(OpenOptions::new().read(true), &self.path(path)).map(RealFile::buffered)
    }

    fn create(&self, path: &str) -> io::Result<RealFile> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true);
        open_file(&mut options, &self.path(path)).map(RealFile::buffered)
    }

    fn create_new(&self, path: &str) -> io::Result<RealFile> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create_new(true);
        open_file(&mut options, &self.path(path)).map(RealFile::buffered)
    }

    fn open_or_create(&self, path: &str) -> io::Result<RealFile> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        open_file(&mut options, &self.path(path)).map(RealFile::buffered)
    }

    fn len(&self, file: &RealFile) -> io::Result<u64> {
        Ok(file.file.metadata()?.len())
    }

    fn read_at(&self, file: &RealFile, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match file.file.read_at(buffer, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => return other,
            }
        }
    }

    fn write_at(&self, file: &RealFile, offset: u64, bytes: &[u8]) -> io::Result<()> {
        if let Writes::InPlace(direct) = &file.writes {
            // A poisoned lock is safe to take: a write that panicked left `piece_start` at `None`,
            // so the piece will be read again.
            let mut direct = direct.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(writer) = direct.as_mut() {
                match writer.write_at(&file.file, offset, bytes) {
                    // From here on this file is written only through the page cache. If direct
                    // writes were mixed in, each of them would first write back the cached pages.
                    Err(error) if is_refusal(&error) => *direct = None,
                    other => return other,
                }
            }
        }
        file.file.write_all_at(bytes, offset)
    }

    fn write_blocks_at(&self, file: &RealFile, offset: u64, blocks: &[u8]) -> io::Result<()> {
        match file.blocks()?.map(|direct| direct.write_at(offset, blocks)) {
            Some(Err(error)) if is_refusal(&error) => {}
            Some(result) => return result,
            None => {}
        }
        self.write_at(file, offset, blocks)
    }

    fn preallocate(&self, file: &RealFile, bytes: u64) -> io::Result<()> {
        let file = &file.file;
        match rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes) {
            Ok(()) => Ok(()),
            // Some file systems have no fallocate. The caller writes zeros next, and that fails if
            // there is no space.
            Err(rustix::io::Errno::OPNOTSUPP) => {
                let bytes = bytes.max(file.metadata()?.len());
                file.set_len(bytes)
            }
            Err(error) => Err(error.into()),
        }
    }

    fn truncate(&self, file: &RealFile, bytes: u64) -> io::Result<()> {
        file.file.set_len(bytes)
    }

    fn punch(&self, file: &RealFile, offset: u64, bytes: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&file.file, flags, offset, bytes) {
            Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn sync_data(&self, file: &RealFile) -> io::Result<()> {
        // No retry on any error: after a failed sync the kernel may have dropped the pages.
        rustix::fs::fdatasync(&file.file).map_err(io::Error::from)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        std::fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        std::fs::remove_file(self.path(path))
    }

    fn remove_dir(&self, dir: &str) -> io::Result<()> {
        std::fs::remove_dir(self.path(dir))
    }

    fn list(&self, dir: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.path(dir))? {
            // A name that is not UTF-8 is not ours.
            if let Ok(name) = entry?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    fn create_dir(&self, dir: &str) -> io::Result<()> {
        if let Some(beside) = self.beside(dir) {
            create_one(&beside)?;
        }
        create_one(&self.path(dir))
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        if let Some(beside) = self.beside(dir) {
            sync_directory(&beside)?;
        }
        sync_directory(&self.path(dir))
    }

    fn exists(&self, path: &str) -> io::Result<bool> {
        self.path(path).try_exists()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let found = rustix::fs::statvfs(self.root.as_path())?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    fn lock(&self, path: &str) -> io::Result<RealFile> {
        let file = self.open_or_create(path)?;
        rustix::fs::flock(&file.file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(file)
    }

    fn lock_existing(&self, path: &str) -> io::Result<RealFile> {
        // NFS gives an exclusive lock only for a file that is open for writing.
        let file = match self.open(path) {
            Err(error) if is_write_refused(&error) => self.open_read_only(path)?,
            opened => opened?,
        };
        rustix::fs::flock(&file.file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(file)
    }
}

#[cfg(test)]
mod tests;

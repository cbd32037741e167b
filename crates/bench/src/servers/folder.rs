//! A folder of this process, for chunks or for the data of servers that it starts. It is removed in
//! the end even after an error. Here are also calls for what the page cache has of it.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise, syncfs};

/// A folder of this process. Dropping it removes it with all that is in it.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    opened: File,
}

impl Folder {
    /// Makes a folder in `dir`, which must exist; its name ends in the id of this process. If that
    /// name is taken, a number follows: this process has another such folder, or a killed process
    /// of the same id has left one (in a container, ids repeat).
    ///
    /// # Errors
    /// `dir` does not exist, or cannot be written.
    pub fn make(dir: &Path, name: &str) -> anyhow::Result<Folder> {
        anyhow::ensure!(dir.is_dir(), "--dir {}: there is no such folder", dir.display());
        let name = format!("{name}.{}", std::process::id());
        let (mut path, mut number) = (dir.join(&name), 1);
        let made = loop {
            match fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    number += 1;
                    path.set_file_name(format!("{name}-{number}"));
                }
                made => break made.and_then(|()| File::open(&path)),
            }
        };
        let opened = made.map_err(|error| anyhow::anyhow!("{}: {error}", path.display()))?;
        Ok(Folder { path, opened })
    }

    /// The path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes everything on its file system durable (`syncfs`), as `sync -f` does.
    ///
    /// # Errors
    /// The system reports that data was lost.
    pub fn sync_file_system(&self) -> io::Result<()> {
        Ok(syncfs(&self.opened)?)
    }

    /// Removes everything in the folder, and waits until that is durable: else the next run would
    /// pay for it.
    ///
    /// # Errors
    /// A file or folder cannot be removed.
    pub fn clear(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => fs::remove_dir_all(entry.path())?,
                false => fs::remove_file(entry.path())?,
            }
        }
        self.sync_file_system()
    }

    /// Asks the page cache to drop the pages of its files (`posix_fadvise`). Pages that are not
    /// durable would stay, so everything is synced first. The system need not obey: see
    /// [`disk_read_bytes`].
    ///
    /// # Errors
    /// A file cannot be opened or synced, or the file system has no such call.
    pub fn drop_cache(&self) -> io::Result<()> {
        self.sync_file_system()?;
        for path in files_below(&self.path)? {
            fadvise(File::open(path)?, 0, None, Advice::DontNeed)?;
        }
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("{} is left: {error}", self.path.display());
        }
    }
}

/// Bytes that this process has read from disks so far (proc(5), `/proc/PID/io`), if the system
/// counts them.
pub fn disk_read_bytes() -> Option<u64> {
    let counts = fs::read_to_string("/proc/self/io").ok()?;
    let count = counts.lines().find_map(|line| line.strip_prefix("read_bytes:"))?;
    count.trim().parse().ok()
}

/// Lists the files of a folder and of its subfolders.
///
/// # Errors
/// One of the folders cannot be listed.
pub fn files_below(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests;

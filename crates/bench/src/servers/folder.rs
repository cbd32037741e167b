//! A folder that this process makes, for chunks or for the data of servers that it starts. It is
//! removed in the end, even after an error. Also makes the calls that sync the folder and drop its
//! files from the page cache.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise, syncfs};

/// A folder of this process. Dropping it removes the folder and all that is in it.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    opened: File,
}

impl Folder {
    /// Makes a folder in `dir`, which must exist. Its name is `name` and the id of this process. If
    /// that name is taken, a number follows: this process may have another such folder, or a killed
    /// process of the same id has left one (in a container, ids repeat).
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

    /// Makes all data on the folder's file system durable (`syncfs`), as `sync -f` does.
    ///
    /// # Errors
    /// The system reports that data was lost.
    pub fn sync_file_system(&self) -> io::Result<()> {
        Ok(syncfs(&self.opened)?)
    }

    /// Removes everything in the folder and waits until that is durable. Otherwise the next run
    /// would pay for it.
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

    /// Asks the system to drop the pages of the folder's files from the page cache
    /// (`posix_fadvise`). Dirty pages would stay, so everything is synced first. The system may
    /// keep pages all the same: [`disk_read_bytes`] shows it.
    ///
    /// # Errors
    /// A file cannot be opened or synced, or the file system does not support the call.
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

/// Bytes that this process has read from disks so far (proc(5), `/proc/PID/io`); `None` if the
/// system does not count them.
pub fn disk_read_bytes() -> Option<u64> {
    let counts = fs::read_to_string("/proc/self/io").ok()?;
    let count = counts.lines().find_map(|line| line.strip_prefix("read_bytes:"))?;
    count.trim().parse().ok()
}

/// Lists the files in a folder and in all folders below it.
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

//! Keeps a data directory private to its owner: it holds values, session passwords, tokens and
//! password hashes. A directory that an earlier version or somebody else made may be open to its
//! group or to all users. [`RealDisk::close_to_others`] takes the access of users outside the group
//! away, and reports what stays open: for example the access of the group, which may be intended.

use std::fs::{Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use thiserror::Error;

use crate::disk::RealDisk;

/// The mode of a new directory.
pub const DIR_MODE: u32 = 0o700;

/// The mode of a new file.
pub const FILE_MODE: u32 = 0o600;

/// Mode bits: what the file's group may do with it.
const GROUP: u32 = 0o070;

/// Mode bits: what users may do who are neither the file's owner nor in its group.
const OTHERS: u32 = 0o007;

/// Mode bit (sticky) of a directory that many users share, such as `/tmp`.
const STICKY: u32 = 0o1000;

/// Something that other users may still read, to be reported to the operator.
#[derive(Debug, Error)]
pub enum Exposure {
    /// The access of others could not be taken away.
    #[error("others on this machine have access to {}, which could not be changed: {cause}", path.display())]
    Others {
        /// A directory or a file.
        path: PathBuf,
        /// The system's error.
        cause: io::Error,
    },
    /// The directory stays open: it also holds files that are not this server's, or many users
    /// share it.
    #[error(
        "{} has other files than this server's in it, so it stays open to others; what this server \
         has there does not", path.display()
    )]
    Shared {
        /// The directory.
        path: PathBuf,
    },
    /// The group has access, which may be intended.
    #[error("its group has access to the data in {0}; if it is not to: chmod -R g-rwx {0}", path.display())]
    Group {
        /// The directory.
        path: PathBuf,
    },
}

impl RealDisk {
    /// Takes away the access of others to this disk's root directories and to this server's files
    /// up to `depth` levels below. Deeper files keep their modes: others can no longer enter the
    /// directories above them. `is_own` returns whether a name in a root is this server's. Keeps
    /// the access of the group, and leaves symbolic links alone. Returns what is still exposed.
    pub fn close_to_others(&self, is_own: fn(&str) -> bool, depth: u32) -> Vec<Exposure> {
        let mut exposed = Vec::new();
        let roots = [Some(&self.root), self.log_root.as_ref()];
        for root in roots.into_iter().flatten() {
            close_root(root, is_own, depth, &mut exposed);
        }
        exposed
    }
}

fn close_root(root: &Path, is_own: fn(&str) -> bool, depth: u32, exposed: &mut Vec<Exposure>) {
    let listed = root.metadata().and_then(|found| Ok((found, names(root)?)));
    let (found, names) = match listed {
        Ok(listed) => listed,
        Err(cause) => return exposed.push(Exposure::Others { path: root.to_owned(), cause }),
    };
    let is_shared = found.mode() & STICKY != 0 || names.iter().any(|name| !is_own(name));
    match is_shared && found.mode() & OTHERS != 0 {
        true => exposed.push(Exposure::Shared { path: root.to_owned() }),
        // The root itself may be a symbolic link: the operator named it.
        false => close(root, OFlags::DIRECTORY, exposed),
    }
    for name in names.iter().filter(|name| is_own(name)) {
        close_below(&root.join(name), depth, exposed);
    }
    if found.mode() & GROUP != 0 {
        exposed.push(Exposure::Group { path: root.to_owned() });
    }
}

fn close_below(path: &Path, depth: u32, exposed: &mut Vec<Exposure>) {
    let Some(deeper) = depth.checked_sub(1) else { return };
    let Ok(found) = path.symlink_metadata() else { return };
    let is_open = found.mode() & OTHERS != 0;
    if is_open && (found.is_dir() || found.is_file()) {
        close(path, OFlags::NOFOLLOW, exposed);
    }
    if found.is_dir() && deeper > 0 {
        for name in names(path).unwrap_or_default() {
            close_below(&path.join(name), deeper, exposed);
        }
    }
}

/// Takes away the access of others to one file or directory.
fn close(path: &Path, flags: OFlags, exposed: &mut Vec<Exposure>) {
    let closed = try_close(path, flags | OFlags::NONBLOCK);
    match closed {
        // Another thread or process removed it.
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
        Err(cause) => exposed.push(Exposure::Others { path: path.to_owned(), cause }),
        Ok(()) => {}
    }
}

fn try_close(path: &Path, flags: OFlags) -> io::Result<()> {
    let file = OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)?;
    let mode = Metadata::mode(&file.metadata()?);
    if mode & OTHERS != 0 {
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & !OTHERS))?;
    }
    Ok(())
}

/// The names in a directory. A name that is not UTF-8 never equals one of this server's.
fn names(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

#[cfg(test)]
mod tests;

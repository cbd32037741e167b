//! The kind of the file system that a folder is on. The figures of a disk depend on it.

use std::fs;
use std::path::Path;

/// A folder's file system, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// The type, as mount(8) names it.
    kind: String,
    /// Whether the file system has a journal; `None` if that is not known. Set only for ext4.
    has_journal: Option<bool>,
}

impl FileSystem {
    /// The file system that a folder is on.
    pub fn of(folder: &Path) -> FileSystem {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_path_buf());
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let Some((kind, device)) = mount_of(&mounts, &folder) else {
            return FileSystem { kind: "an unknown file system".to_string(), has_journal: None };
        };
        let has_journal = match kind {
            "ext4" => journal_of(device),
            _ => None,
        };
        FileSystem { kind: kind.to_string(), has_journal }
    }

    /// Advice to use another file system; `None` if this one is a good choice.
    pub fn advice(&self) -> Option<&'static str> {
        match (self.kind.as_str(), self.has_journal) {
            ("ext4", Some(true)) => None,
            ("ext4", None) => Some(
                "if that has no journal, take one that has, fresh: without one fdatasync is cheap, \
                 and creating files gets 5 to 20 times dearer for minutes after many were deleted",
            ),
            ("ext4", Some(false)) => Some(
                "take a fresh ext4 with a journal: without one fdatasync is cheap, and creating \
                 files gets 5 to 20 times dearer for minutes after many were deleted \
                 (tests/peers/ozone/loop-image.sh makes one)",
            ),
            _ => Some(
                "take a fresh ext4 with a journal, which is what most clusters have, and where the \
                 figures in docs/benchmark-results.md are from (tests/peers/ozone/loop-image.sh makes \
                 one)",
            ),
        }
    }
}

impl std::fmt::Display for FileSystem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.kind)?;
        match self.has_journal {
            Some(true) => f.write_str(" with a journal"),
            Some(false) => f.write_str(" without a journal"),
            None => Ok(()),
        }
    }
}

/// The type and the device (MAJOR:MINOR) of the innermost mount that contains a path (proc(5),
/// `mountinfo`).
fn mount_of<'a>(mounts: &'a str, path: &Path) -> Option<(&'a str, &'a str)> {
    let of_line = |line: &'a str| {
        let (left, right) = line.split_once(" - ")?;
        let mut fields = left.split(' ').skip(2);
        let (device, _root, point) = (fields.next()?, fields.next()?, fields.next()?);
        let point = point.replace("\\040", " ");
        let kind = right.split(' ').next()?;
        path.starts_with(&point).then_some((point.len(), kind, device))
    };
    // If two mounts are at one place, the later one hides the other.
    let innermost = mounts.lines().filter_map(of_line).max_by_key(|(length, ..)| *length);
    innermost.map(|(_, kind, device)| (kind, device))
}

/// Whether an ext4 has a journal: the kernel then has a thread that writes it.
fn journal_of(device: &str) -> Option<bool> {
    let device = fs::canonicalize(format!("/sys/dev/block/{device}")).ok()?;
    let name = device.file_name()?.to_str()?;
    let task = fs::read_to_string(format!("/sys/fs/ext4/{name}/journal_task")).ok()?;
    Some(task.trim().parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests;

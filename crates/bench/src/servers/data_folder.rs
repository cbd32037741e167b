//! Finds the data folders of servers on this machine, by the files that their processes have open,
//! and adds up the disk space that they use.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::limits::DATA_FILES_MAX;
use crate::servers::process::Processes;
use crate::servers::target::Target;

/// Bytes of a block in the `st_blocks` of a file (stat(2)).
const BLOCK_BYTES: u64 = 512;

/// The data folders of a target's processes, none inside another; empty if none is found.
pub fn data_folders(target: &Target) -> Vec<PathBuf> {
    target.processes().map(data_folders_of).unwrap_or_default()
}

/// The folders with the data of these processes; empty if none is known.
pub fn data_folders_of(processes: &Processes) -> Vec<PathBuf> {
    outermost(
        processes.pids().iter().flat_map(|pid| open_files(*pid)).filter_map(|it| folder_of(&it)),
    )
}

fn open_files(pid: u32) -> impl Iterator<Item = PathBuf> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok())
}

/// The data folder that an open file of a server reveals. Quorate keeps the `LOCK` of its data
/// folder open, etcd its database. Both keep files of the log open, which may be in another folder
/// (`dataLogDir`, `--wal-dir`).
fn folder_of(path: &Path) -> Option<PathBuf> {
    let folder = path.parent().filter(|_| path.is_absolute())?;
    let (name, of_folder) = (path.file_name()?, folder.file_name()?);
    let is_log = of_folder == "wal" || path.extension().is_some_and(|it| it == "wal");
    if name == "db" && of_folder == "snap" {
        return folder.parent().map(Path::to_path_buf);
    }
    (name == "LOCK" || is_log).then(|| folder.to_path_buf())
}

/// Those of `folders` that are not inside another of `folders`, each once.
fn outermost(folders: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let all: BTreeSet<PathBuf> = folders.collect();
    let is_inner = |it: &PathBuf| all.iter().any(|other| it != other && it.starts_with(other));
    all.iter().filter(|it| !is_inner(it)).cloned().collect()
}

/// Bytes that the files in a folder and below it take on the disk. Stops after [`DATA_FILES_MAX`]
/// files. Files may come and go meanwhile.
pub fn disk_bytes(folder: &Path) -> u64 {
    let (mut open, mut bytes, mut files) = (vec![folder.to_path_buf()], 0, 0);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            // The metadata of an entry are those of the link itself, so no link is followed.
            let Ok(metadata) = entry.metadata() else { continue };
            files += 1;
            if files > DATA_FILES_MAX {
                return bytes;
            }
            if metadata.is_dir() {
                open.push(entry.path());
            } else {
                bytes += metadata.blocks() * BLOCK_BYTES;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::folder::Folder;

    #[test]
    fn open_files_tell_the_folders_with_data() {
        let of = |paths: &[&str]| outermost(paths.iter().filter_map(|it| folder_of(Path::new(it))));
        let folders = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
        let db = "/e/member/snap/db";
        assert_eq!(of(&["/q/LOCK", "/q/wal/0003.log", "socket:[7]"]), folders(&["/q"]));
        assert_eq!(of(&["/e/member/wal/0-0.wal", db]), folders(&["/e/member"]));
        // The log has its own folder.
        assert_eq!(of(&["/q/LOCK", "/logs/wal/0003.log"]), folders(&["/logs/wal", "/q"]));
        assert_eq!(of(&["/w/0-0.wal", db]), folders(&["/e/member", "/w"]));
        // A folder is not inside another one just because its name begins with that name.
        assert_eq!(of(&["/q/LOCK", "/q2/LOCK"]), folders(&["/q", "/q2"]));
        assert_eq!(of(&["socket:[7]", "/usr/lib/libc.so", "pipe/wal"]), folders(&[]));
    }

    #[test]
    fn files_of_all_folders_below_are_counted() {
        let folder = Folder::make(&std::env::temp_dir(), "quorate-disk").unwrap();
        fs::create_dir(folder.path().join("wal")).unwrap();
        fs::write(folder.path().join("wal/a"), vec![1; 100_000]).unwrap();
        fs::write(folder.path().join("b"), vec![1; 50_000]).unwrap();
        let bytes = disk_bytes(folder.path());
        assert!((150_000..400_000).contains(&bytes), "{bytes}");
    }
}

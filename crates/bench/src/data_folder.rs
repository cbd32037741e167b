//! The data folder of a server on this machine, found by the log file that its process has open,
//! and the room that it takes on the disk.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::limits::DATA_FILES_MAX;
use crate::target::Target;

/// The name of the folder of the log, below the data folder, of Quorate and of etcd.
const LOG_FOLDER: &str = "wal";

/// Bytes of a block in the `st_blocks` of a file (stat(2)).
const BLOCK_BYTES: u64 = 512;

/// The data folders of the processes of a target; empty if none is known.
pub fn data_folders(target: &Target) -> Vec<PathBuf> {
    let pids = target.processes().map_or(&[][..], |it| it.pids());
    let mut folders: Vec<PathBuf> = pids.iter().filter_map(|pid| folder_of(*pid)).collect();
    folders.dedup();
    folders
}

fn folder_of(pid: u32) -> Option<PathBuf> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
    files.filter_map(|file| fs::read_link(file.path()).ok()).find_map(|path| above_log(&path))
}

/// The folder that holds the folder of the log, if the path is that of a log file.
fn above_log(path: &Path) -> Option<PathBuf> {
    let log = path.parent()?;
    (path.is_absolute() && log.file_name()? == LOG_FOLDER).then_some(log.parent()?.to_path_buf())
}

/// Bytes on the disk of all files in a folder and below, at most of [`DATA_FILES_MAX`] files. Files
/// may come and go meanwhile.
pub fn disk_bytes(folder: &Path) -> u64 {
    let (mut open, mut bytes, mut files) = (vec![folder.to_path_buf()], 0, 0);
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            // The metadata of an entry are those of a link itself, so no link is followed.
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

    #[test]
    fn a_log_file_tells_the_data_folder() {
        let of = |path: &str| above_log(Path::new(path));
        assert_eq!(of("/q/wal/0003.log"), Some(PathBuf::from("/q")));
        assert_eq!(of("/e/member/wal/0-0.wal"), Some(PathBuf::from("/e/member")));
        assert_eq!(of("/e/member/snap/db"), None);
        assert_eq!(of("socket:[7]"), None);
    }

    #[test]
    fn files_of_all_folders_below_are_counted() {
        let folder = std::env::temp_dir().join(format!("quorate-disk-{}", std::process::id()));
        fs::create_dir_all(folder.join("wal")).unwrap();
        fs::write(folder.join("wal/a"), vec![1; 100_000]).unwrap();
        fs::write(folder.join("b"), vec![1; 50_000]).unwrap();
        let bytes = disk_bytes(&folder);
        assert!((150_000..400_000).contains(&bytes), "{bytes}");
        fs::remove_dir_all(&folder).unwrap();
    }
}

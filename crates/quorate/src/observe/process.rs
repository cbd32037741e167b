//! Reads facts about this process from Linux: its memory, threads, open files, CPU time, and the
//! sizes of its folders.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The most files that [`folder_bytes`] counts. A data directory has a few dozen.
const FILES_MAX: usize = 100_000;

/// When the process began, as time since 1970. Its first use, at the start, sets it.
pub static BEGAN: LazyLock<Duration> =
    LazyLock::new(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());

/// How many file descriptors are open, and how many are allowed; `None` if the system does not say.
pub fn file_descriptors() -> Option<(u64, u64)> {
    let open = fs::read_dir("/proc/self/fd").ok()?.count() as u64;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current?;
    Some((open, limit))
}

/// The size in bytes of all files below a folder, as far as they can be read.
pub fn folder_bytes(folder: &Path) -> u64 {
    let (mut bytes, mut seen) = (0, 0);
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            seen += 1;
            if seen > FILES_MAX {
                return bytes;
            }
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                Ok(metadata) => bytes += metadata.len(),
                // The file was removed in the meantime.
                Err(_) => {}
            }
        }
    }
    bytes
}

/// The memory and the threads of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// The size of the address space.
    pub virtual_bytes: u64,
    /// Resident memory.
    pub resident_bytes: u64,
    /// Resident memory that no file backs.
    pub anonymous_bytes: u64,
    /// How much memory the process may use: the limit of its control group, or the machine's memory
    /// if that is less.
    pub limit_bytes: u64,
    /// The number of threads.
    pub threads: u64,
}

/// The memory and the threads of this process; 0 for what the system does not say.
pub fn memory() -> Memory {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let group = fs::read_to_string("/sys/fs/cgroup/memory.max").unwrap_or_default();
    let all = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = number_of(&all, "MemTotal:") * 1024;
    Memory {
        virtual_bytes: number_of(&status, "VmSize:") * 1024,
        resident_bytes: number_of(&status, "VmRSS:") * 1024,
        anonymous_bytes: number_of(&status, "RssAnon:") * 1024,
        limit_bytes: group.trim().parse().map_or(total, |limit: u64| limit.min(total)),
        threads: number_of(&status, "Threads:"),
    }
}

/// The number behind `key` in the line that begins with `key`; 0 if there is none.
fn number_of(text: &str, key: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(key));
    let number = value.and_then(|value| value.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// CPU time that all threads have used since the start, in s.
pub fn cpu_seconds() -> f64 {
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests;

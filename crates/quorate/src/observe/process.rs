//! Facts about this process, from Linux: its memory, threads, files, CPU time and folders.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Files that [`folder_bytes`] looks at. A data directory holds a few dozen.
const FILES_MAX: usize = 100_000;

/// When the process began, nearly: the first use is at its start.
pub static BEGAN: LazyLock<Duration> =
    LazyLock::new(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());

/// File descriptors in use and allowed, from Linux.
pub fn file_descriptors() -> Option<(u64, u64)> {
    let open = fs::read_dir("/proc/self/fd").ok()?.count() as u64;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current?;
    Some((open, limit))
}

/// Bytes of all files below a folder; a file that cannot be read does not count.
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
                // The file was removed meanwhile.
                Err(_) => {}
            }
        }
    }
    bytes
}

/// Memory in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Address space in use.
    pub virtual_bytes: u64,
    /// Memory that is resident.
    pub resident_bytes: u64,
    /// Resident memory that is not backed by a file.
    pub anonymous_bytes: u64,
    /// The memory that the process may use: the limit of its control group, or all memory of the
    /// machine.
    pub limit_bytes: u64,
    /// The number of threads.
    pub threads: u64,
}

/// Memory and threads, from Linux; zeros where it does not tell.
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

/// The number behind a key at the start of a line.
fn number_of(text: &str, key: &str) -> u64 {
    let value = text.lines().find_map(|line| line.strip_prefix(key));
    let number = value.and_then(|value| value.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// CPU time of all threads since the start, s.
pub fn cpu_seconds() -> f64 {
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    cpu.tv_sec as f64 + cpu.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests;

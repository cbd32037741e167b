//! Describes the machine that a result was measured on, and measures how long its disk takes to
//! make data durable.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Instant;

use crate::limits::DISK_SYNCS;
use crate::measure::stats::Latencies;

/// The machine that the generator runs on.
#[derive(Clone, Debug)]
pub struct MachineInfo {
    /// Model of the processor.
    pub processor: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// Bytes of memory of the machine.
    pub memory_bytes: u64,
    /// The version of the Linux kernel.
    pub kernel: String,
}

impl MachineInfo {
    /// Reads the facts from `/proc`.
    pub fn read() -> MachineInfo {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let after = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_string())
        };
        let kib = after(&text("/proc/meminfo"), "MemTotal");
        let kib = kib.and_then(|it| it.split_whitespace().next()?.parse::<u64>().ok());
        MachineInfo {
            processor: after(&text("/proc/cpuinfo"), "model name").unwrap_or("unknown".to_string()),
            cores: std::thread::available_parallelism().map_or(1, |count| count.get()),
            memory_bytes: kib.unwrap_or(0) * 1024,
            kernel: text("/proc/sys/kernel/osrelease").trim().to_string(),
        }
    }
}

impl std::fmt::Display for MachineInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let gib = self.memory_bytes as f64 / f64::from(1 << 30);
        let MachineInfo { processor, cores, kernel, .. } = self;
        write!(f, "{cores} cores of {processor}, {gib:.0} GiB, Linux {kernel}")
    }
}

/// CPU time that other guests of the host took from this machine so far, in ticks (`steal` in
/// proc(5)).
pub fn stolen_ticks() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let of_all = stat.lines().next().unwrap_or_default();
    of_all.split_whitespace().nth(8).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

/// Measures fdatasync in a folder: the latency of each of [`DISK_SYNCS`] calls, each after 4 KiB of
/// a file were overwritten. The file is removed again.
///
/// # Errors
/// The folder cannot be written.
pub fn disk_latencies(folder: &Path) -> std::io::Result<Latencies> {
    let path = folder.join(format!("quorate-bench-{}.tmp", std::process::id()));
    let result = measure_disk(&path);
    let _ = fs::remove_file(&path);
    result
}

fn measure_disk(path: &Path) -> std::io::Result<Latencies> {
    const BLOCK: [u8; 4096] = [1; 4096];
    let mut file = File::create_new(path)?;
    for _ in 0..DISK_SYNCS {
        file.write_all(&BLOCK)?;
    }
    file.sync_all()?;
    file.seek(SeekFrom::Start(0))?;
    let mut latencies = Latencies::default();
    for _ in 0..DISK_SYNCS {
        file.write_all(&BLOCK)?;
        let began = Instant::now();
        file.sync_data()?;
        latencies.record(began.elapsed().as_nanos() as u64);
    }
    Ok(latencies)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::folder::Folder;

    #[test]
    fn the_disk_is_measured_and_left_clean() {
        let folder = Folder::make(&std::env::temp_dir(), "quorate-disk").unwrap();
        let latencies = disk_latencies(folder.path()).unwrap();
        assert_eq!(latencies.count(), DISK_SYNCS as u64);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(disk_latencies(&folder.path().join("none")).is_err());
    }

    #[test]
    fn the_machine_is_described() {
        let info = MachineInfo::read();
        assert!(info.cores > 0);
        assert!(info.to_string().contains("cores of"));
    }
}

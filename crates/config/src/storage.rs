//! The settings of storage: the data directory, and how the log and the snapshots use the disk.

use std::path::PathBuf;

use machine::Level;
use member::order::DiskOptions;
use member::order::limits::{DISK_STALL_MS, DISK_STALL_MS_MAX};
use member::snapshot::log_rule::SnapshotLog;

/// The default data directory.
pub const DATA_DIR_DEFAULT: &str = "./quorate-data";
/// The default of `fsync.warningthresholdms` (`FileTxnLog.FSYNC_WARNING_THRESHOLD_MS_PROPERTY`).
const FSYNC_WARNING_MS_DEFAULT: u64 = 1_000;
/// The smallest `snapCount` (`ZooKeeperServer.getSnapCount`).
pub(super) const SNAPSHOT_COMMAND_COUNT_MIN: u32 = 2;

/// The data directory, and how the disk is used.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageConfig {
    /// The data directory.
    pub data_dir: PathBuf,
    /// Whether the server refuses to start if `data_dir` has no data (`datadir.autocreate=false`).
    pub is_data_dir_required: bool,
    /// The folder of the log (`dataLogDir`); `None` if it is `data_dir`.
    pub log_dir: Option<PathBuf>,
    /// When a snapshot is due, and when the disk counts as stalled.
    pub disk: DiskOptions,
    /// The highest level that this server may know. It may be one that is not released yet, whose
    /// formats may still change.
    pub level_max: Level,
    /// A write of the log that takes longer than this is logged as a warning, in ms
    /// (`fsync.warningthresholdms`).
    pub fsync_warning_ms: u64,
}

/// The settings of storage that the sources have given so far.
#[derive(Debug, Default)]
pub(super) struct StorageDraft {
    pub data_dir: Option<PathBuf>,
    pub is_data_dir_required: bool,
    pub log_dir: Option<PathBuf>,
    pub snapshot_command_count: Option<u32>,
    pub snapshot_log: Option<SnapshotLog>,
    disk_stall_ms: Option<u64>,
    pub level_max: Option<Level>,
    pub fsync_warning_ms: Option<u64>,
}

impl StorageDraft {
    /// Sets how long a write of the log may hang before a leader hands its leadership over.
    ///
    /// # Errors
    /// The time is out of range.
    pub fn set_disk_stall_ms(&mut self, ms: u64) -> Result<(), String> {
        if !(1..=DISK_STALL_MS_MAX).contains(&ms) {
            return Err(format!("{ms} ms is not between 1 and {DISK_STALL_MS_MAX} ms"));
        }
        self.disk_stall_ms = Some(ms);
        Ok(())
    }

    pub fn finish(self) -> StorageConfig {
        let data_dir = self.data_dir.unwrap_or_else(|| PathBuf::from(DATA_DIR_DEFAULT));
        StorageConfig {
            log_dir: self.log_dir.filter(|log_dir| *log_dir != data_dir),
            data_dir,
            is_data_dir_required: self.is_data_dir_required,
            disk: DiskOptions {
                snapshot_commands: self.snapshot_command_count.map_or(u64::MAX, u64::from),
                snapshot_log: self.snapshot_log.unwrap_or(SnapshotLog::ByState),
                stall_ms: self.disk_stall_ms.unwrap_or(DISK_STALL_MS),
            },
            level_max: self.level_max.unwrap_or(Level::RELEASED),
            fsync_warning_ms: self.fsync_warning_ms.unwrap_or(FSYNC_WARNING_MS_DEFAULT),
        }
    }
}

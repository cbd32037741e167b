//! The data directory, and when the log and its snapshots are written.

use std::path::PathBuf;

use machine::Level;
use member::order::DiskOptions;
use member::order::limits::{DISK_STALL_MS, DISK_STALL_MS_MAX};
use member::snapshot::log_rule::SnapshotLog;

/// The default folder of the data.
pub const DATA_DIR_DEFAULT: &str = "./quorate-data";
/// `FileTxnLog.FSYNC_WARNING_THRESHOLD_MS_PROPERTY`.
const FSYNC_WARNING_MS_DEFAULT: u64 = 1_000;
/// The smallest `snapCount` (`ZooKeeperServer.getSnapCount`).
pub(super) const SNAPSHOT_COMMAND_COUNT_MIN: u32 = 2;

/// The folders of the data, and the use of the disk.
#[derive(Clone, Debug, PartialEq)]
pub struct StorageConfig {
    /// The folder of the data.
    pub data_dir: PathBuf,
    /// Whether a server refuses to start if `data_dir` holds no data (`datadir.autocreate=false`).
    pub is_data_dir_required: bool,
    /// The folder of the log, if it is not `data_dir` (`dataLogDir`).
    pub log_dir: Option<PathBuf>,
    /// The use of the disk: when a snapshot is due, and when the disk stalls.
    pub disk: DiskOptions,
    /// The highest level that this server knows. The configuration may ask for a level that is not
    /// released; formats of such a level may still change.
    pub level_max: Level,
    /// The time above which a write of the log is logged as a warning, ms
    /// (`fsync.warningthresholdms`).
    pub fsync_warning_ms: u64,
}

/// The settings that the sources have given so far.
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
    /// Takes how long the log's disk may hang before a leader hands over.
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

//! How much log makes a snapshot due.

use crate::snapshot::limits::{SNAPSHOT_LOG_BYTES_DEFAULT, SNAPSHOT_LOG_SHARE};

/// How much log makes a snapshot due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotLog {
    /// [`SNAPSHOT_LOG_BYTES_DEFAULT`], or a half of the state where that is more
    /// ([`SNAPSHOT_LOG_SHARE`]).
    ByState,
    /// So many bytes, however large the state is.
    Bytes(u64),
    /// No amount.
    Unbounded,
}

impl SnapshotLog {
    /// The bytes of log at which a state of so many bytes is due.
    pub(super) fn bytes(self, state_bytes: u64) -> u64 {
        match self {
            SnapshotLog::ByState => {
                SNAPSHOT_LOG_BYTES_DEFAULT.max(state_bytes / SNAPSHOT_LOG_SHARE)
            }
            SnapshotLog::Bytes(bytes) => bytes,
            SnapshotLog::Unbounded => u64::MAX,
        }
    }
}

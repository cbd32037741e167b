//! The rule that decides how much log must have been written since the last snapshot before the
//! next one is taken.

use crate::snapshot::limits::{SNAPSHOT_LOG_BYTES_DEFAULT, SNAPSHOT_LOG_SHARE};

/// How much log makes a snapshot due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotLog {
    /// [`SNAPSHOT_LOG_BYTES_DEFAULT`], or half the bytes of the state if that is more
    /// ([`SNAPSHOT_LOG_SHARE`]).
    ByState,
    /// This many bytes, however large the state is.
    Bytes(u64),
    /// No amount of log makes a snapshot due.
    Unbounded,
}

impl SnapshotLog {
    /// The bytes of log that make a snapshot due, for a state of `state_bytes` bytes.
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

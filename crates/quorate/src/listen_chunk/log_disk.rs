//! The disk that the chunk store shares with the log of the server.
//!
//! The log's syncs wait behind the chunks that are in the disk's queue: with four clients that
//! write chunks of 1 MiB as fast as they can, a create took three times as long at the 99th
//! percentile. So while the log is in use, few large steps of the store are under way at once. A
//! store on a disk of its own, or beside a log that is idle, has no such bound.

use std::path::Path;
use std::sync::Arc;

use node::MonitorHandle;
use rustix::fs::stat;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits::{LOG_QUIET_MS, TURNS_BESIDE_LOG};

/// The log on the store's disk.
pub struct LogDisk {
    node: MonitorHandle,
    turns: Arc<Semaphore>,
}

/// The place of a step among those that are under way; free again when it is dropped. It holds
/// none where no step has to wait.
#[derive(Default)]
pub struct Turn(
    #[expect(dead_code, reason = "dropping it ends the turn")] Option<OwnedSemaphorePermit>,
);

impl LogDisk {
    /// The log of a node, in `log_dir`. None if it is on another disk than the store in `folder`,
    /// or if the system does not tell.
    pub fn shared_with(node: MonitorHandle, log_dir: &Path, folder: &Path) -> Option<LogDisk> {
        let (of_log, of_store) = (stat(log_dir).ok()?.st_dev, stat(folder).ok()?.st_dev);
        let turns = Arc::new(Semaphore::new(TURNS_BESIDE_LOG));
        (of_log == of_store).then_some(LogDisk { node, turns })
    }

    /// Waits until a step may use the disk.
    pub async fn turn(&self) -> Turn {
        let quiet_ms = self.node.monotonic_ms().saturating_sub(self.node.log_synced_ms());
        if quiet_ms > LOG_QUIET_MS {
            return Turn(None);
        }
        // The semaphore is never closed.
        Turn(self.turns.clone().acquire_owned().await.ok())
    }
}

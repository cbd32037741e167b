//! Keeps the chunk store from slowing down the server's log when both are on one disk.
//!
//! A sync of the log waits behind the chunks that are in the disk's queue: with four clients that
//! wrote chunks of 1 MiB as fast as they could, a create took three times as long at the 99th
//! percentile. So while the log is in use, only one large step of the store, a read or write of
//! more than 64 KiB, runs at a time. A store on a disk of its own, or beside an idle log, has no
//! such bound.

use std::path::Path;
use std::sync::Arc;

use node::MonitorHandle;
use rustix::fs::stat;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits::TURNS_BESIDE_LOG;

/// Gives the store's large steps their turns on the disk that it shares with the log.
pub struct LogDisk {
    /// Returns whether the log is in use now.
    is_used: Box<dyn Fn() -> bool + Send + Sync>,
    turns: Arc<Semaphore>,
}

/// Permission for one step to use the disk; dropping it lets the next step run. It holds no permit
/// if steps need not wait.
#[derive(Default)]
pub struct Turn(
    #[expect(dead_code, reason = "dropping it ends the turn")] Option<OwnedSemaphorePermit>,
);

impl LogDisk {
    /// Watches the log of a node, in `log_dir`. `None` if the log is on another disk than the store
    /// in `folder`, or if the system does not say which disks they are on.
    pub fn shared_with(node: MonitorHandle, log_dir: &Path, folder: &Path) -> Option<LogDisk> {
        let (of_log, of_store) = (stat(log_dir).ok()?.st_dev, stat(folder).ok()?.st_dev);
        (of_log == of_store).then(|| LogDisk::new(Box::new(move || node.is_log_used())))
    }

    fn new(is_used: Box<dyn Fn() -> bool + Send + Sync>) -> LogDisk {
        LogDisk { is_used, turns: Arc::new(Semaphore::new(TURNS_BESIDE_LOG)) }
    }

    /// Waits until a large step may use the disk.
    pub async fn turn(&self) -> Turn {
        if !(self.is_used)() {
            return Turn(None);
        }
        // Acquiring fails only for a closed semaphore, and this one is never closed.
        Turn(self.turns.clone().acquire_owned().await.ok())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::task::JoinSet;

    use super::*;

    #[tokio::test]
    async fn steps_take_turns_beside_a_log_in_use() {
        let used = Arc::new(AtomicBool::new(true));
        let is_used = used.clone();
        let log = LogDisk::new(Box::new(move || is_used.load(Ordering::Relaxed)));
        let mut held: Vec<Turn> = Vec::new();
        for _ in 0..TURNS_BESIDE_LOG {
            held.push(log.turn().await);
        }
        let log = Arc::new(log);
        let mut waiting = JoinSet::new();
        let further = log.clone();
        waiting.spawn(async move { further.turn().await });
        tokio::task::yield_now().await;
        assert!(waiting.try_join_next().is_none(), "it waits");
        drop(held.pop());
        assert!(waiting.join_next().await.is_some(), "it has the free turn");
        // An idle log sets no bound.
        used.store(false, Ordering::Relaxed);
        for _ in 0..10 * TURNS_BESIDE_LOG {
            held.push(log.turn().await);
        }
    }
}

//! Takes and restores snapshots on request of an operator, within rate limits, and counts the
//! results.

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use config::ImageConfig;
use member::summary::Summary;
use node::{NotInstalled, TakenSnapshot};
use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Monitor;

/// The state behind the admin commands `snapshot` and `restore`.
pub struct Images {
    config: ImageConfig,
    snapshots: RateLimiter,
    restores: RateLimiter,
    /// A single permit: one snapshot is taken or received at a time.
    turn: Arc<Semaphore>,
    counts: Cell<ImageCounts>,
    /// How long restores took, in ms (the metric `restore_time`).
    restore_time_ms: RefCell<Summary>,
}

/// Counts since the start, with the names of ZooKeeper's metrics.
#[derive(Clone, Copy, Debug, Default)]
pub struct ImageCounts {
    /// The metric `snapshot_error_count`.
    pub snapshot_errors: u64,
    /// The metric `snapshot_rate_limited_count`.
    pub snapshots_limited: u64,
    /// The metric `restore_error_count`.
    pub restore_errors: u64,
    /// The metric `restore_rate_limited_count`.
    pub restores_limited: u64,
}

/// Why a snapshot was not taken, or not restored.
#[derive(Debug, Error)]
pub enum NotTaken {
    /// The setting `admin.snapshot.enabled` or `admin.restore.enabled` is off.
    #[error("it is switched off here")]
    Disabled,
    /// The last request was too recent.
    #[error("one was asked for a short time ago: try again later")]
    Limited,
    /// The snapshot could not be written, or its upload broke off.
    #[error("{0}")]
    Failed(#[from] io::Error),
    /// The snapshot was received but not installed.
    #[error("{0}")]
    NotInstalled(#[from] NotInstalled),
}

impl Images {
    pub fn new(config: ImageConfig) -> Images {
        Images {
            // ZooKeeper takes the interval in microseconds for snapshots, and in ms for restores
            // (`Commands.SnapshotCommand`).
            snapshots: RateLimiter::new(Duration::from_micros(config.rate_limit_interval_ms)),
            restores: RateLimiter::new(Duration::from_millis(config.rate_limit_interval_ms)),
            config,
            turn: Arc::new(Semaphore::new(1)),
            counts: Cell::default(),
            restore_time_ms: RefCell::default(),
        }
    }

    /// The counts.
    pub fn counts(&self) -> ImageCounts {
        self.counts.get()
    }

    /// How long restores took, in ms.
    pub fn restore_time_ms(&self) -> Summary {
        self.restore_time_ms.borrow().clone()
    }

    fn count(&self, change: impl FnOnce(&mut ImageCounts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }
}

impl Monitor {
    /// Takes a snapshot of the present state.
    ///
    /// # Errors
    /// A snapshot is not allowed now, or could not be taken.
    pub async fn take_snapshot(&self) -> Result<TakenSnapshot, NotTaken> {
        let images = &self.images;
        if !images.config.is_snapshot_enabled {
            return Err(NotTaken::Disabled);
        }
        if !images.snapshots.allows() {
            images.count(|counts| counts.snapshots_limited += 1);
            return Err(NotTaken::Limited);
        }
        let _turn = images.turn.acquire().await.map_err(ending)?;
        let taken =
            self.observer.node.take_snapshot().await.unwrap_or_else(|error| Err(ending(error)));
        taken.map_err(|error| {
            images.count(|counts| counts.snapshot_errors += 1);
            NotTaken::Failed(error)
        })
    }

    /// Replaces the state by a snapshot; `next` returns its file in pieces. Every client is
    /// disconnected, and finds the new state when it reconnects. Returns the zxid of the restore.
    ///
    /// # Errors
    /// A restore is not allowed now, or the snapshot could not be restored. The state is then
    /// unchanged.
    pub async fn restore(
        &self,
        next: impl AsyncFnMut() -> Option<io::Result<Bytes>>,
    ) -> Result<i64, NotTaken> {
        let images = &self.images;
        if !images.config.is_restore_enabled {
            return Err(NotTaken::Disabled);
        }
        if !images.restores.allows() {
            images.count(|counts| counts.restores_limited += 1);
            return Err(NotTaken::Limited);
        }
        let turn = images.turn.clone().acquire_owned().await.map_err(ending)?;
        let began = Instant::now();
        let restored = self.receive(next, turn).await;
        match restored {
            Ok(_) => {
                let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                images.restore_time_ms.borrow_mut().record(ms, self.observer.node.monotonic_ms());
            }
            Err(_) => images.count(|counts| counts.restore_errors += 1),
        }
        restored
    }

    /// Receives and installs a snapshot. The permit `turn` moves along with the upload from step to
    /// step. So, if the caller disappears, the step under way ends before another upload begins.
    async fn receive(
        &self,
        mut next: impl AsyncFnMut() -> Option<io::Result<Bytes>>,
        turn: OwnedSemaphorePermit,
    ) -> Result<i64, NotTaken> {
        let mut upload = (self.observer.node.receive_image()?, turn);
        while let Some(bytes) = next().await {
            let bytes = bytes?;
            let step = tokio::task::spawn_blocking(move || {
                upload.0.write(&bytes)?;
                Ok::<_, NotInstalled>(upload)
            });
            upload = step.await.map_err(ending)??;
        }
        let finished = tokio::task::spawn_blocking(move || {
            let (upload, turn) = upload;
            Ok::<_, NotInstalled>((upload.finish()?, turn))
        });
        let (installed, _turn) = finished.await.map_err(ending)??;
        Ok(installed.await.map_err(ending)?.zxid.0)
    }
}

fn ending(_: impl std::error::Error) -> io::Error {
    io::Error::other("the server is ending")
}

/// Allows one request in each interval (`RateLimiter`).
struct RateLimiter {
    interval: Duration,
    since: Cell<Option<Instant>>,
}

impl RateLimiter {
    fn new(interval: Duration) -> RateLimiter {
        RateLimiter { interval, since: Cell::new(None) }
    }

    fn allows(&self) -> bool {
        let now = Instant::now();
        let is_over = self.since.get().is_none_or(|since| now > since + self.interval);
        if is_over {
            self.since.set(Some(now));
        }
        is_over
    }
}

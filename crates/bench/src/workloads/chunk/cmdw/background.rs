//! The background work of a store while it is measured: the calls that `quorate serve` makes
//! (`quorate/src/listen_chunk.rs`), with the same intervals and budgets.
//!
//! A figure without this work would leave out checkpoints and the reads that look for damage. If a
//! call fails, a server logs that and goes on. A benchmark ends with an error, since its figures
//! would be those of a store that does not do its work.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use chunk::Disk;
use chunk::block::BlockId;
use chunk::store::{Store, UpkeepBudget};

use crate::limits::{
    STORE_TICK, STORE_UPKEEP_INTERVAL, STORE_UPKEEP_MOVED_BYTES, STORE_UPKEEP_SCRUBBED_BYTES,
};

/// Runs `work` while another thread calls the store's `tick`, which writes out gathered chunks.
/// Tests of reads use this and not [`kept_up`], since they must not count the reads of `upkeep`.
///
/// # Errors
/// `work` or the store fails.
pub fn ticking<T, D: Disk + Clone>(
    store: &Store<D>,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T>
where
    Store<D>: Sync,
{
    beside(|ended| every(STORE_TICK, ended, || Ok(store.tick()?)), work)
}

/// Runs `work` while other threads call the store's `tick` and `upkeep`. `upkeep` writes
/// checkpoints, gives space back and looks for damage.
///
/// # Errors
/// `work` or the store fails, or a block is damaged.
pub fn kept_up<T, D: Disk + Clone>(
    store: &Store<D>,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T>
where
    Store<D>: Sync,
{
    ticking(store, || beside(|ended| keep_up(store, ended), work))
}

/// Calls `upkeep` until `work` has ended. Each block is read at most once, because a server would
/// pause for a day after it has read all.
fn keep_up<D: Disk + Clone>(store: &Store<D>, ended: &Receiver<()>) -> anyhow::Result<()> {
    let bytes_moved_max = STORE_UPKEEP_MOVED_BYTES;
    let mut bytes_scrubbed_max = STORE_UPKEEP_SCRUBBED_BYTES;
    every(STORE_UPKEEP_INTERVAL, ended, || {
        let done = store.upkeep(UpkeepBudget { bytes_moved_max, bytes_scrubbed_max })?;
        if let Some((id, what)) = done.damaged.first() {
            let BlockId { container_id, local_id } = id;
            anyhow::bail!("block {local_id} of container {container_id} is damaged: {what}");
        }
        if done.is_scrubbed_whole {
            bytes_scrubbed_max = 0;
        }
        Ok(())
    })
}

/// Calls `call` after each interval, until the sending half of `ended` is dropped.
fn every(
    interval: Duration,
    ended: &Receiver<()>,
    mut call: impl FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    while ended.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
        call()?;
    }
    Ok(())
}

/// Runs `work` while another thread runs `chore`. When `work` returns, the channel is closed, which
/// ends the chore.
fn beside<T>(
    chore: impl FnOnce(&Receiver<()>) -> anyhow::Result<()> + Send,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let (end, ended) = sync_channel::<()>(1);
    thread::scope(|scope| {
        let chore = scope.spawn(move || chore(&ended));
        let done = work();
        drop(end);
        let chore = chore.join();
        let chore = chore.map_err(|_| anyhow::anyhow!("the store's background work panicked"))?;
        let done = done?;
        chore.map(|()| done)
    })
}

#[cfg(test)]
mod tests;

//! What a store does beside its requests, while it is measured: the calls that `quorate serve`
//! makes (`quorate/src/listen_chunk.rs`), as often and with the same budget.
//!
//! A figure without them would leave out checkpoints and the reads that look for damage. A server
//! logs a failure there and goes on; a benchmark ends with it, since its figures would be of
//! another store.

use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

use chunk::Disk;
use chunk::block::BlockId;
use chunk::store::{Store, UpkeepBudget};

use crate::limits::{
    STORE_TICK, STORE_UPKEEP_INTERVAL, STORE_UPKEEP_MOVED_BYTES, STORE_UPKEEP_SCRUBBED_BYTES,
};

/// Works while the store writes out what it gathered. For a test of reads, which must not count
/// those of the upkeep.
///
/// # Errors
/// The work fails, or the store does.
pub fn ticking<T, D: Disk + Clone>(
    store: &Store<D>,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T>
where
    Store<D>: Sync,
{
    beside(|ended| every(STORE_TICK, ended, || Ok(store.tick()?)), work)
}

/// Works while the store also writes checkpoints, gives space back and looks for damage.
///
/// # Errors
/// The work fails, the store does, or a block is damaged.
pub fn kept_up<T, D: Disk + Clone>(
    store: &Store<D>,
    work: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T>
where
    Store<D>: Sync,
{
    ticking(store, || beside(|ended| keep_up(store, ended), work))
}

/// Calls `upkeep` until the work has ended. Once every block was read, none is read again: a server
/// rests for a day then.
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

/// Makes a call again and again, until the other side of the channel is gone.
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

/// Works while another thread does a chore, which ends when its channel does.
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

//! Keeps the jobs that the disk thread was given and has not made durable yet, and measures how
//! long they take.
//!
//! A disk *stalls* when it makes nothing durable for longer than a limit: one second unless
//! configured, or twice the wait that is usual for this disk if that is longer. The usual wait is
//! the median of the longest waits in each of the last minutes, so one long stall does not change
//! it.

use std::collections::VecDeque;

use replica::PersistId;
use storage::wal::HardState;

use super::options::DiskOptions;
use crate::order::limits::{
    DISK_STALL_MS_MAX, STALL_HISTORY_MINUTES, STALL_MINUTE_MS, STALL_MINUTES_MIN,
};

/// The jobs of the disk thread, in order, and the waits for them.
#[derive(Default)]
pub(crate) struct Persisting {
    /// How long the disk may make nothing durable before it stalls, unless it is usually slower.
    stall_ms: u64,
    jobs: VecDeque<Job>,
    awaited_count: usize,
    bytes: usize,
    /// Time since the disk last made something durable, while it has jobs.
    stalled_ms: u64,
    /// Time within the current minute, and the longest wait that ended in it; `None` if none did.
    minute_ms: u64,
    minute_worst_ms: Option<u64>,
    /// The longest wait in each of the last minutes in which any wait ended.
    worst_ms: VecDeque<u64>,
    /// A hard state that differs only in its commit index. It is written with the next job that
    /// syncs.
    lazy_hard_state: Option<HardState>,
}

struct Job {
    id: PersistId,
    /// Whether the disk thread has the job. If not, the job is done once all jobs before it are
    /// durable.
    is_awaited: bool,
    bytes: usize,
}

impl Persisting {
    /// A list without jobs, for a disk with these options.
    pub fn new(options: &DiskOptions) -> Persisting {
        assert!((1..=DISK_STALL_MS_MAX).contains(&options.stall_ms));
        Persisting { stall_ms: options.stall_ms, ..Persisting::default() }
    }

    /// Adds a job for the disk thread, with `bytes` bytes of entries. Returns the hard state to
    /// write with it: the job's own, or else the one that waits.
    pub fn push(
        &mut self,
        id: PersistId,
        bytes: usize,
        hard_state: Option<HardState>,
    ) -> Option<HardState> {
        self.jobs.push_back(Job { id, is_awaited: true, bytes });
        self.awaited_count += 1;
        self.bytes += bytes;
        hard_state.or(self.lazy_hard_state.take())
    }

    /// Adds a job that needs no sync: it is done once all jobs before it are durable. Its hard
    /// state waits for the next job that syncs.
    pub fn push_unsynced(&mut self, id: PersistId, hard_state: Option<HardState>) {
        self.jobs.push_back(Job { id, is_awaited: false, bytes: 0 });
        self.lazy_hard_state = hard_state.or(self.lazy_hard_state.take());
    }

    /// Notes that the disk has made jobs durable. The caller then calls [`Persisting::pop`] until
    /// that returns `None`.
    pub fn on_persisted(&mut self) {
        let worst_ms = self.minute_worst_ms.get_or_insert(0);
        *worst_ms = self.stalled_ms.max(*worst_ms);
        self.stalled_ms = 0;
    }

    /// Removes the first job if its id is at most `up_to`.
    pub fn pop(&mut self, up_to: PersistId) -> Option<PersistId> {
        let job = self.jobs.pop_front_if(|job| job.id <= up_to)?;
        self.awaited_count -= usize::from(job.is_awaited);
        self.bytes -= job.bytes;
        Some(job.id)
    }

    /// Removes the first job if it needs no sync.
    pub fn pop_unsynced(&mut self) -> Option<PersistId> {
        self.jobs.pop_front_if(|job| !job.is_awaited).map(|job| job.id)
    }

    /// How many jobs the disk thread has.
    pub fn awaited_count(&self) -> usize {
        self.awaited_count
    }

    /// Bytes of entries that are not durable.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds `elapsed_ms` to the waits.
    pub fn advance(&mut self, elapsed_ms: u64) {
        self.stalled_ms = if self.awaited_count > 0 { self.stalled_ms + elapsed_ms } else { 0 };
        self.minute_ms += elapsed_ms;
        if self.minute_ms < STALL_MINUTE_MS {
            return;
        }
        self.minute_ms = 0;
        self.worst_ms.extend(self.minute_worst_ms.take());
        if self.worst_ms.len() > STALL_HISTORY_MINUTES {
            self.worst_ms.pop_front();
        }
    }

    /// The limit for this disk: how long it may make nothing durable before it stalls, in ms.
    pub fn stall_ms_min(&self) -> u64 {
        let mut worst_ms: Vec<u64> = self.worst_ms.iter().copied().collect();
        worst_ms.sort_unstable();
        let usual_ms = match worst_ms.len() {
            0..STALL_MINUTES_MIN => 0,
            count => worst_ms[(count - 1) / 2],
        };
        (2 * usual_ms).clamp(self.stall_ms, DISK_STALL_MS_MAX)
    }

    /// Whether the disk stalls now.
    pub fn is_stalled(&self) -> bool {
        self.stalled_ms >= self.stall_ms && self.stalled_ms >= self.stall_ms_min()
    }

    /// Whether the disk has made nothing durable for twice the time after which it counts as
    /// stalled.
    pub fn is_stalled_for_long(&self) -> bool {
        self.stalled_ms >= 2 * self.stall_ms && self.stalled_ms >= 2 * self.stall_ms_min()
    }
}

#[cfg(test)]
mod tests;

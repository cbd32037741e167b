//! Writes the checkpoints of an open store: decides when one is due, and writes it in small steps,
//! between which the disk is free for other work.
//!
//! A step writes some MiB and syncs them, so that a sync of the log never waits for more than one
//! step. The index changes between the steps. This does no harm, because a start reads the log from
//! the position at which the checkpoint was begun.

use std::sync::atomic::Ordering;

use storage::disk::Disk;

use crate::checkpoint::{CheckpointWriter, discard_checkpoint, remove_checkpoint};
use crate::container::Container;
use crate::error::ChunkError;
use crate::limits::{
    CHECKPOINT_BLOCKS, CHECKPOINT_BYTES_PER_CALL, CHECKPOINT_EVERY_BYTES, CHECKPOINT_EVERY_TIMES,
    CHECKPOINTS_KEPT, GARBAGE_WAIT_CALLS,
};
use crate::log::Record;
use crate::record::{Kind, Position};
use crate::store::Store;
use crate::store::upkeep::Upkeep;

/// A checkpoint that is being written.
#[derive(Debug)]
pub(super) struct Writing<D: Disk> {
    writer: CheckpointWriter<D>,
    /// The ids of the containers that are left to write, the next one last. With an id, the local
    /// id of the first block that is left, if the container was begun.
    containers: Vec<(u64, Option<u64>)>,
}

impl<D: Disk + Clone> Store<D> {
    /// Writes a checkpoint now, for instance before an orderly end, so that the next start is
    /// quick.
    pub fn checkpoint(&self) -> Result<(), ChunkError> {
        self.checkpoint_now(&mut self.upkeep.lock())
    }

    /// Starts a checkpoint if one is due, or continues one: writes about `bytes_max` bytes.
    pub(super) fn checkpoint_step(
        &self,
        upkeep: &mut Upkeep<D>,
        bytes_max: u64,
    ) -> Result<(), ChunkError> {
        let begun = match upkeep.writing.is_none() && self.is_checkpoint_due(upkeep) {
            true => self.begin_checkpoint(upkeep).map(|writing| upkeep.writing = writing),
            false => Ok(()),
        };
        match begun.and_then(|()| self.write_step(upkeep, bytes_max)) {
            // Starts the checkpoint anew, and frees everything that can be freed for it.
            Err(ChunkError::DiskFull { .. }) => self.checkpoint_now(upkeep),
            other => other,
        }
    }

    fn is_checkpoint_due(&self, upkeep: &mut Upkeep<D>) -> bool {
        let (end, last) = (self.log.end(), upkeep.checkpoints.last().copied().unwrap_or_default());
        let segments = u64::from(end.segment - last.segment);
        let bytes = segments * u64::from(self.options.segment_bytes);
        let bytes = (bytes + u64::from(end.offset)).saturating_sub(last.offset.into());
        if self.has_garbage.load(Ordering::Relaxed) {
            upkeep.garbage_calls += 1;
        }
        let calls = upkeep.checkpoint_bytes / CHECKPOINT_BYTES_PER_CALL;
        let is_waited = u64::from(upkeep.garbage_calls) >= calls.max(GARBAGE_WAIT_CALLS.into());
        if is_waited {
            self.has_garbage.store(false, Ordering::Relaxed);
            upkeep.garbage_calls = 0;
            upkeep.is_look_due = true;
        }
        let every = CHECKPOINT_EVERY_BYTES.max(CHECKPOINT_EVERY_TIMES * upkeep.checkpoint_bytes);
        bytes >= every || is_waited && segments > 0
    }

    /// Writes a whole checkpoint. On a full disk, gives up the reserved file for it, or else the
    /// older checkpoint.
    pub(super) fn checkpoint_now(&self, upkeep: &mut Upkeep<D>) -> Result<(), ChunkError> {
        loop {
            let written = self.begin_checkpoint(upkeep).and_then(|writing| {
                upkeep.writing = writing;
                self.write_step(upkeep, u64::MAX)
            });
            match written {
                Err(ChunkError::DiskFull { .. }) if self.make_room(upkeep)? => {}
                other => return other,
            }
        }
    }

    /// Frees space that a checkpoint needs more. Returns whether there was any to free.
    fn make_room(&self, upkeep: &mut Upkeep<D>) -> Result<bool, ChunkError> {
        if self.log.release_reserve()? {
            return Ok(true);
        }
        if upkeep.checkpoints.len() < CHECKPOINTS_KEPT {
            return Ok(false);
        }
        remove_checkpoint(&self.disk, upkeep.checkpoints.remove(0))?;
        Ok(true)
    }

    /// Starts a checkpoint of the log as it is now, unless the last checkpoint has that position.
    fn begin_checkpoint(&self, upkeep: &Upkeep<D>) -> Result<Option<Writing<D>>, ChunkError> {
        self.log.sync_all()?;
        let start = self.log.durable();
        let is_there = upkeep.checkpoints.last() == Some(&start.at);
        if start.at.segment == 0 || is_there {
            return Ok(None);
        }
        let store_id = self.identity.store_id;
        let writer = CheckpointWriter::create(self.disk.clone(), store_id, start);
        let mut writer = writer.map_err(|error| self.checkpoint_failed(error))?;
        self.deleted.lock().iter().for_each(|id| writer.put_deleted(*id));
        let ids = self.container_ids().into_iter().rev();
        Ok(Some(Writing { writer, containers: ids.map(|id| (id, None)).collect() }))
    }

    /// Continues the checkpoint that was started, if any, and publishes it when it is complete.
    fn write_step(&self, upkeep: &mut Upkeep<D>, bytes_max: u64) -> Result<(), ChunkError> {
        let Some(mut writing) = upkeep.writing.take() else { return Ok(()) };
        let stop = writing.writer.bytes().saturating_add(bytes_max);
        while let Some((id, next)) = writing.containers.pop() {
            if let Ok(container) = self.find(id) {
                let next = put_step(&mut writing.writer, &container, next);
                writing.containers.extend(next.map(|next| (id, Some(next))));
                let written = writing.writer.maybe_write();
                written.map_err(|error| self.checkpoint_failed(error))?;
            }
            if writing.writer.bytes() >= stop {
                upkeep.writing = Some(writing);
                return Ok(());
            }
        }
        let finished = writing.writer.finish().map_err(|error| self.checkpoint_failed(error))?;
        // Nothing in a checkpoint may be ahead of the durable log.
        self.log.sync_all()?;
        upkeep.checkpoint_bytes = finished.bytes();
        let published = finished.publish().map_err(|error| self.checkpoint_failed(error));
        upkeep.checkpoints.push(published?);
        upkeep.is_look_due = true;
        while upkeep.checkpoints.len() > CHECKPOINTS_KEPT {
            remove_checkpoint(&self.disk, upkeep.checkpoints.remove(0))?;
        }
        Ok(())
    }

    /// Removes the file of a checkpoint that could not be written. A failed sync of any file is
    /// never repeated: it stops the store.
    fn checkpoint_failed(&self, error: ChunkError) -> ChunkError {
        discard_checkpoint(&self.disk);
        match error {
            ChunkError::Io { op: "sync", .. } if !error.is_refusal() => self.log.fail(error),
            error => error,
        }
    }

    /// Makes sure that no checkpoint needs segment `number`, and that there still are two
    /// checkpoints. (One on a full disk, where the log may have no space for the record that a
    /// second one needs.)
    pub(super) fn release_from_checkpoints(
        &self,
        upkeep: &mut Upkeep<D>,
        number: u32,
    ) -> Result<(), ChunkError> {
        let is_behind = |at: &&Position| at.segment > number;
        let kept = if upkeep.is_short { 1 } else { CHECKPOINTS_KEPT };
        while upkeep.checkpoints.iter().filter(is_behind).count() < kept {
            let (container_id, local_id, block_offset) = (0, 0, 0);
            let kind = Kind::Nothing;
            self.log.append(&Record { kind, container_id, local_id, block_offset, body: &[] })?;
            self.checkpoint_now(upkeep)?;
        }
        while upkeep.checkpoints.first().is_some_and(|first| first.segment <= number) {
            remove_checkpoint(&self.disk, upkeep.checkpoints.remove(0))?;
        }
        Ok(())
    }
}

/// Adds some blocks of a container, from `next` on; without `next`, first the container itself.
/// Writers wait only for a moment. Returns the first block that is left.
fn put_step<D: Disk>(
    writer: &mut CheckpointWriter<D>,
    container: &Container,
    next: Option<u64>,
) -> Option<u64> {
    let index = container.index.lock();
    if index.is_gone {
        return None;
    }
    if next.is_none() {
        writer.put_container(container.id, container.layout, &index);
    }
    let mut blocks = index.blocks.range(next.unwrap_or(0)..);
    for (local_id, block) in blocks.by_ref().take(CHECKPOINT_BLOCKS) {
        writer.put_block(*local_id, block);
    }
    blocks.next().map(|(local_id, _)| *local_id)
}

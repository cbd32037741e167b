//! The background work: frees the disk space of segments, and *scrubs* blocks, that is, reads them
//! to check that they are still what was written. ([`super::checkpoints`] writes checkpoints.)
//!
//! A segment is *emptied* when half of it or less is needed. Each needed record is written again at
//! the end of the log, under the lock of its container, and the index then points there. The
//! segment is removed once the copies are durable and the store's two checkpoints are of later
//! positions, because a start from an earlier checkpoint would look for the segment. On a full
//! disk, one such checkpoint is enough, and the unneeded ranges of segments are punched out of
//! their files.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use storage::disk::Disk;

use crate::block::{BlockData, BlockId, ChunkInfo};
use crate::chain::list_segments;
use crate::container::{Commit, Container, State};
use crate::error::ChunkError;
use crate::extents::Extent;
use crate::layout::Layout;
use crate::limits::{
    BLOCK_BYTES, FULL_PAUSE_CALLS, LIVE_SHARE_MAX, PUNCHED_BYTES_MIN, PUNCHED_BYTES_PER_CALL,
    SCRUB_READ_BYTES,
};
use crate::log::Record;
use crate::open_files::FileKey;
use crate::record::{Header, Kind, Position};
use crate::segment::{FIRST_RECORD, segment_path};
use crate::segment_reader::{SegmentReader, Step};
use crate::store::Store;
use crate::store::checkpoints::Writing;

/// The state of the background work between two calls.
#[derive(Debug)]
pub(super) struct Upkeep<D: Disk> {
    /// Positions of the store's checkpoints, sorted; without those that a damaged store already
    /// had.
    pub checkpoints: Vec<Position>,
    /// Bytes of the last checkpoint.
    pub checkpoint_bytes: u64,
    /// The checkpoint that is being written.
    pub writing: Option<Writing<D>>,
    /// The number of the segment that is being emptied, and the byte reached in it.
    emptying: Option<(u32, u32)>,
    /// Segments with unreadable bytes that are still needed; they cannot be emptied.
    stuck: Vec<u32>,
    /// Whether the disk had no space when the store last needed some.
    pub is_short: bool,
    /// The number of the segment whose dead ranges are being punched out, and the byte reached in
    /// it.
    punching: Option<(u32, u32)>,
    /// Segments whose dead ranges were punched out, with the needed bytes that each had then.
    punched: BTreeMap<u32, u64>,
    /// Whether a search for segments to empty may find any.
    pub is_look_due: bool,
    /// Calls since something was deleted.
    pub garbage_calls: u32,
    /// Calls before space is given back again, after an attempt found no space to work in.
    pause_calls: u32,
    /// The block that was scrubbed last.
    scrubbed: Option<BlockId>,
}

/// Roughly how much one call of [`Store::upkeep`] may do.
#[derive(Clone, Copy, Debug)]
pub struct UpkeepBudget {
    /// Bytes to copy in order to give space back; a checkpoint may write as many again.
    pub bytes_moved_max: u64,
    /// Bytes to read in order to find damage; 0 for none.
    pub bytes_scrubbed_max: u64,
}

/// The result of one call of [`Store::upkeep`].
#[derive(Debug, Default)]
pub struct Done {
    /// Bytes that were copied out of segments that are being emptied.
    pub bytes_moved: u64,
    /// Number of segments that were removed.
    pub segments_removed: u32,
    /// Bytes that were read in order to find damage.
    pub bytes_scrubbed: u64,
    /// Whether the last block was reached; the next call starts again with the first.
    pub is_scrubbed_whole: bool,
    /// Blocks that are not what was written, and why. Their containers are unhealthy from now on.
    pub damaged: Vec<(BlockId, String)>,
}

impl<D: Disk> Upkeep<D> {
    /// The state before the first call. `checkpoints` are those that were found, sorted, and
    /// `checkpoint_bytes` is the size of the last. There may be space to give back. In a damaged
    /// store these checkpoints are never removed.
    pub fn new(checkpoints: Vec<Position>, checkpoint_bytes: u64, is_damaged: bool) -> Upkeep<D> {
        Upkeep {
            checkpoints: if is_damaged { Vec::new() } else { checkpoints },
            checkpoint_bytes,
            writing: None,
            emptying: None,
            stuck: Vec::new(),
            is_short: false,
            punching: None,
            punched: BTreeMap::new(),
            is_look_due: true,
            garbage_calls: 0,
            pause_calls: 0,
            scrubbed: None,
        }
    }
}

impl<D: Disk + Clone> Store<D> {
    /// Does one step of the background work. One thread calls this every 100 ms or so; the budget
    /// bounds its share of the disk.
    pub fn upkeep(&self, budget: UpkeepBudget) -> Result<Done, ChunkError> {
        let mut done = Done::default();
        let mut upkeep = self.upkeep.lock();
        if upkeep.pause_calls > 0 {
            upkeep.pause_calls -= 1;
        } else {
            match self.free_space(&mut upkeep, budget.bytes_moved_max, &mut done) {
                // There is no space for a copy of a segment's records, nor for a checkpoint. The
                // next start reads more of the log, and deleted data keep their space.
                Err(ChunkError::DiskFull { .. }) => {
                    upkeep.emptying = None;
                    upkeep.pause_calls = FULL_PAUSE_CALLS;
                    self.has_garbage.store(true, Ordering::Relaxed);
                }
                other => other?,
            }
        }
        self.scrub(&mut upkeep, budget.bytes_scrubbed_max, &mut done)?;
        Ok(done)
    }

    /// Does something that a full disk may refuse. If it is refused, gives back all the space that
    /// can be given back without new space, and tries once more.
    pub(super) fn with_room<T>(
        &self,
        act: impl Fn() -> Result<T, ChunkError>,
    ) -> Result<T, ChunkError> {
        match act() {
            Err(ChunkError::DiskFull { .. }) if !self.is_damaged => {
                self.free_all_space()?;
                act()
            }
            other => other,
        }
    }

    fn free_all_space(&self) -> Result<(), ChunkError> {
        let mut upkeep = self.upkeep.lock();
        upkeep.is_short = true;
        self.checkpoint_now(&mut upkeep)?;
        self.find_dead_space(&mut upkeep, &mut Done::default())?;
        while upkeep.is_short {
            self.punch_segments(&mut upkeep)?;
        }
        match self.log.prepare_reserve() {
            Err(error) if error.is_refusal() => Ok(()),
            other => other,
        }
    }

    fn free_space(
        &self,
        upkeep: &mut Upkeep<D>,
        bytes_max: u64,
        done: &mut Done,
    ) -> Result<(), ChunkError> {
        let checkpoint = self.checkpoint_step(upkeep, bytes_max);
        if self.is_damaged {
            return checkpoint;
        }
        self.finish_deletions()?;
        // Dead records behind the present checkpoints can go without a new checkpoint.
        if !matches!(checkpoint, Ok(()) | Err(ChunkError::DiskFull { .. })) {
            return checkpoint;
        }
        let emptied = self.empty_segments(upkeep, bytes_max, done);
        match emptied {
            Err(ChunkError::DiskFull { .. }) => upkeep.is_short = true,
            other => other?,
        }
        self.punch_segments(upkeep)?;
        checkpoint
    }

    fn empty_segments(
        &self,
        upkeep: &mut Upkeep<D>,
        bytes_max: u64,
        done: &mut Done,
    ) -> Result<(), ChunkError> {
        if upkeep.emptying.is_none() && core::mem::take(&mut upkeep.is_look_due) {
            self.find_dead_space(upkeep, done)?;
        }
        let Some((number, at)) = upkeep.emptying else { return Ok(()) };
        let at = self.empty_step(number, at, bytes_max, done)?;
        upkeep.emptying = at.map(|at| (number, at));
        if at.is_none() {
            self.remove_if_dead(upkeep, number, done)?;
            upkeep.is_look_due = true;
        }
        Ok(())
    }

    /// Removes segments that are entirely dead, and picks the segment to empty next.
    fn find_dead_space(&self, upkeep: &mut Upkeep<D>, done: &mut Done) -> Result<(), ChunkError> {
        let newest = upkeep.checkpoints.last().copied().unwrap_or_default();
        let mut best: Option<(u64, u32)> = None;
        for number in list_segments(&self.disk)? {
            if number >= newest.segment || upkeep.stuck.contains(&number) {
                continue;
            }
            let live = self.live.bytes(number);
            if live == 0 {
                self.remove_if_dead(upkeep, number, done)?;
            } else if live <= self.segment_length(number)? / LIVE_SHARE_MAX
                && best.is_none_or(|(least, _)| live < least)
            {
                best = Some((live, number));
            }
        }
        upkeep.emptying = best.map(|(_, number)| (number, FIRST_RECORD));
        Ok(())
    }

    fn segment_length(&self, number: u32) -> Result<u64, ChunkError> {
        let path = segment_path(number);
        let length = self.disk.open_read_only(&path).and_then(|file| self.disk.len(&file));
        length.map_err(|error| ChunkError::io(&path, "open", error))
    }

    /// Copies what is needed of a segment, from byte `at` on. Returns the byte reached; `None` at
    /// the end of the segment.
    fn empty_step(
        &self,
        number: u32,
        at: u32,
        bytes_max: u64,
        done: &mut Done,
    ) -> Result<Option<u32>, ChunkError> {
        let stop = self.segment_length(number)? as u32;
        let mut reader = SegmentReader::open(&self.disk, number, self.identity.salt)?;
        let (mut at, before) = (at, done.bytes_moved);
        while at < stop {
            if done.bytes_moved - before >= bytes_max {
                return Ok(Some(at));
            }
            at = match reader.step(at, stop)? {
                Step::Record(header, body, next) => {
                    done.bytes_moved += self.move_record(&header, body)?;
                    next
                }
                Step::Broken(_, _, next) => next,
                Step::Zeros => (at + 1).next_multiple_of(BLOCK_BYTES),
                Step::Nothing(_) => {
                    let found = reader.find_header(at + 1, stop)?.found;
                    found.map_or(stop, |header| header.at.offset)
                }
            };
        }
        Ok(None)
    }

    /// Copies a record to the end of the log, if it is needed. Returns the bytes copied.
    fn move_record(&self, header: &Header, body: &[u8]) -> Result<u64, ChunkError> {
        let Ok(container) = self.find(header.container_id) else { return Ok(0) };
        match header.kind {
            Kind::Chunk => self.move_chunk(&container, header, body),
            Kind::Block => self.move_commit(&container, header, body),
            // The checkpoint has what these records say.
            _ => Ok(0),
        }
    }

    fn move_chunk(
        &self,
        container: &Container,
        header: &Header,
        body: &[u8],
    ) -> Result<u64, ChunkError> {
        let (start, end) = (header.block_offset, header.block_offset + body.len() as u64);
        let mut bytes = 0;
        // One part after the other, so that every reserved place gets written and no thread holds
        // two buffers.
        loop {
            let (rest, record) = {
                let mut index = container.index.lock();
                let Some(block) = index.blocks.get(&header.local_id).filter(|_| !index.is_gone)
                else {
                    return Ok(bytes);
                };
                let Some(part) = block.extents.in_record(header.at, start, end).next() else {
                    return Ok(bytes);
                };
                let (from, to) = (part.skip as usize, (part.skip + part.length) as usize);
                let record = Record {
                    kind: Kind::Chunk,
                    container_id: header.container_id,
                    local_id: header.local_id,
                    block_offset: part.offset,
                    body: body.get(from..to).unwrap_or_default(),
                };
                let (at, rest) = self.log.reserve(&record)?;
                let moved = Extent::from_record(part.offset, at, part.length);
                index.put_extent(header.local_id, moved, &self.live);
                (rest, record)
            };
            bytes += record.body.len() as u64;
            self.log.finish(rest, &record)?;
        }
    }

    fn move_commit(
        &self,
        container: &Container,
        header: &Header,
        body: &[u8],
    ) -> Result<u64, ChunkError> {
        let record = Record {
            kind: Kind::Block,
            container_id: header.container_id,
            local_id: header.local_id,
            block_offset: 0,
            body,
        };
        let rest = {
            let mut index = container.index.lock();
            let commit = index.blocks.get(&header.local_id).and_then(|block| block.commit);
            let Some(commit) = commit.filter(|commit| commit.at == header.at && !index.is_gone)
            else {
                return Ok(0);
            };
            let (at, rest) = self.log.reserve(&record)?;
            index.put_commit(header.local_id, Commit { at, ..commit }, &self.live);
            rest
        };
        self.log.finish(rest, &record)?;
        Ok(body.len() as u64)
    }

    /// On a full disk, punches out dead ranges of segments, that is, frees their disk blocks within
    /// the file. Emptying a segment would need space for the copies first.
    fn punch_segments(&self, upkeep: &mut Upkeep<D>) -> Result<(), ChunkError> {
        if self.log.is_short() {
            upkeep.is_short = true;
        }
        if !upkeep.is_short {
            return Ok(());
        }
        if upkeep.punching.is_none() {
            upkeep.punching = self.segment_to_punch(upkeep)?.map(|number| (number, FIRST_RECORD));
        }
        let Some((number, at)) = upkeep.punching else {
            upkeep.is_short = false;
            return Ok(());
        };
        if at == FIRST_RECORD {
            self.release_from_checkpoints(upkeep, number)?;
        }
        upkeep.punching = self.punch_step(number, at)?.map(|at| (number, at));
        if upkeep.punching.is_none() {
            upkeep.punched.insert(number, self.live.bytes(number));
        }
        Ok(())
    }

    /// Picks the segment with the most dead bytes since it was last punched, if these are worth the
    /// work.
    fn segment_to_punch(&self, upkeep: &Upkeep<D>) -> Result<Option<u32>, ChunkError> {
        let least = PUNCHED_BYTES_MIN.min(u64::from(self.options.segment_bytes) / 8);
        let mut best: Option<(u64, u32)> = None;
        for number in list_segments(&self.disk)? {
            if number >= self.log.end().segment {
                continue;
            }
            let known = upkeep.punched.get(&number).copied();
            let before = match known {
                Some(live) => live,
                None => self.segment_length(number)?,
            };
            let dead = before.saturating_sub(self.live.bytes(number));
            if dead >= least && best.is_none_or(|(most, _)| dead > most) {
                best = Some((dead, number));
            }
        }
        Ok(best.map(|(_, number)| number))
    }

    /// Punches out dead ranges in a part of a segment, from byte `at` on. Returns the byte reached;
    /// `None` at the end of the segment.
    fn punch_step(&self, number: u32, at: u32) -> Result<Option<u32>, ChunkError> {
        let path = segment_path(number);
        let file = self.disk.open_or_create(&path);
        let file = file.map_err(|error| ChunkError::io(&path, "open", error))?;
        let stop = self.segment_length(number)? as u32;
        let until = stop.min(at.saturating_add(PUNCHED_BYTES_PER_CALL));
        let mut reader = SegmentReader::open(&self.disk, number, self.identity.salt)?;
        let punch = |from: u32, to: u32| {
            let (from, to) = (from.next_multiple_of(BLOCK_BYTES), to - to % BLOCK_BYTES);
            if from >= to {
                return Ok(());
            }
            let punched = self.disk.punch(&file, from.into(), u64::from(to - from));
            punched.map_err(|error| ChunkError::io(&path, "punch", error))
        };
        // `dead_from` is the end of the last needed record.
        let (mut at, mut dead_from) = (at, at);
        while at < until {
            let (is_dead, next) = match reader.step(at, stop)? {
                Step::Record(header, _, next) => (!self.is_needed(&header), next),
                Step::Zeros => (true, (at + 1).next_multiple_of(BLOCK_BYTES)),
                // Unreadable bytes stay as they are.
                Step::Broken(_, _, next) => (false, next),
                Step::Nothing(_) => {
                    let found = reader.find_header(at + 1, stop)?.found;
                    (false, found.map_or(stop, |header| header.at.offset))
                }
            };
            if !is_dead {
                punch(dead_from, at)?;
                dead_from = next;
            }
            at = next;
        }
        punch(dead_from, at.min(stop))?;
        Ok((at < stop).then_some(at))
    }

    /// Whether any part of a record is needed.
    fn is_needed(&self, header: &Header) -> bool {
        let Ok(container) = self.find(header.container_id) else { return false };
        let index = container.index.lock();
        let Some(block) = index.blocks.get(&header.local_id).filter(|_| !index.is_gone) else {
            return false;
        };
        let start = header.block_offset;
        let end = start + u64::from(header.body_bytes);
        match header.kind {
            Kind::Chunk => block.extents.in_record(header.at, start, end).next().is_some(),
            Kind::Block => block.commit.is_some_and(|commit| commit.at == header.at),
            // The checkpoints have what these records say.
            _ => false,
        }
    }

    /// Removes an emptied segment, once the copies are durable. If the segment still holds needed
    /// bytes, these could not be read, and the segment stays.
    fn remove_if_dead(
        &self,
        upkeep: &mut Upkeep<D>,
        number: u32,
        done: &mut Done,
    ) -> Result<(), ChunkError> {
        self.log.sync_all()?;
        if self.live.bytes(number) > 0 {
            upkeep.stuck.push(number);
            return Ok(());
        }
        self.release_from_checkpoints(upkeep, number)?;
        let path = segment_path(number);
        self.disk.remove(&path).map_err(|error| ChunkError::io(&path, "remove", error))?;
        self.files.forget(FileKey::Segment(number));
        done.segments_removed += 1;
        Ok(())
    }

    /// Scrubs the blocks after the last one that was scrubbed, and records which are damaged.
    fn scrub(
        &self,
        upkeep: &mut Upkeep<D>,
        bytes_max: u64,
        done: &mut Done,
    ) -> Result<(), ChunkError> {
        while done.bytes_scrubbed < bytes_max {
            let Some(id) = self.next_block_after(upkeep.scrubbed) else {
                done.is_scrubbed_whole = true;
                upkeep.scrubbed = None;
                return Ok(());
            };
            // Every block costs some of the budget: otherwise many empty blocks would take a whole
            // call.
            done.bytes_scrubbed += u64::from(BLOCK_BYTES);
            let mut checked = self.check_block(id, &mut done.bytes_scrubbed);
            if checked.as_ref().is_err_and(is_damage) {
                // The block may have been deleted or written to at this moment.
                checked = self.check_block(id, &mut done.bytes_scrubbed);
            }
            // Without a file descriptor nothing is known of the block: the next call starts with
            // it.
            if checked.as_ref().is_err_and(ChunkError::is_refusal) {
                return Ok(());
            }
            upkeep.scrubbed = Some(id);
            match checked {
                Err(error @ ChunkError::Stopped(_)) => return Err(error),
                Err(error) if is_damage(&error) => {
                    done.damaged.push((id, error.to_string()));
                    // Any other error: the container was deleted meanwhile, or there is no space
                    // for the record.
                    if let Err(error @ ChunkError::Stopped(_)) =
                        self.mark_unhealthy(id.container_id)
                    {
                        return Err(error);
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn next_block_after(&self, last: Option<BlockId>) -> Option<BlockId> {
        use std::ops::Bound;
        let mut ids = self.container_ids();
        ids.retain(|id| last.is_none_or(|last| *id >= last.container_id));
        for container_id in ids {
            let Ok(container) = self.find(container_id) else { continue };
            let from = match last.filter(|last| last.container_id == container_id) {
                Some(last) => Bound::Excluded(last.local_id),
                None => Bound::Unbounded,
            };
            let index = container.index.lock();
            if index.state == State::Unhealthy || index.is_gone {
                continue;
            }
            if let Some((local_id, _)) = index.blocks.range((from, Bound::Unbounded)).next() {
                return Some(BlockId { container_id, local_id: *local_id });
            }
        }
        None
    }

    /// Reads everything of a block: checks its data in the log against the log's checksums and, if
    /// its container takes no more writes, each chunk against the chunk's own checksums. Adds the
    /// number of bytes read to `bytes`.
    pub(super) fn check_block(&self, id: BlockId, bytes: &mut u64) -> Result<(), ChunkError> {
        let container = self.find(id.container_id)?;
        let (is_closed, extents) = {
            let index = container.index.lock();
            let block = index.blocks.get(&id.local_id).ok_or(ChunkError::NoSuchBlock(id))?;
            (!index.state.takes_writes(), block.extents.iter().collect::<Vec<_>>())
        };
        let block = match self.committed(&container, id) {
            Err(ChunkError::NoSuchBlock(_)) => None,
            other => Some(other?),
        };
        let mut data = Vec::new();
        for extent in &extents {
            data.clear();
            *bytes += u64::from(extent.length);
            let read = self.read_extent(id, extent, &mut data);
            // The extent may have been moved since.
            if read.is_err() && self.has_extent(&container, id, extent) {
                read?;
            }
        }
        let Some(block) = block else { return Ok(()) };
        self.check_files(&container, &block, false)?;
        match is_closed {
            true => self.check_chunks(&container, &block, bytes),
            false => Ok(()),
        }
    }

    fn has_extent(&self, container: &Container, id: BlockId, extent: &Extent) -> bool {
        let index = container.index.lock();
        let block = index.blocks.get(&id.local_id);
        block.is_some_and(|block| block.extents.iter().any(|other| other == *extent))
    }

    fn check_chunks(
        &self,
        container: &Container,
        block: &BlockData,
        bytes: &mut u64,
    ) -> Result<(), ChunkError> {
        let mut data = Vec::new();
        for chunk in &block.chunks {
            data.clear();
            // A chunk may be longer than the most that one read returns.
            let mut offset = chunk.offset;
            while offset < chunk.end() {
                let length = (chunk.end() - offset).min(SCRUB_READ_BYTES);
                let part = ChunkInfo::plain(chunk.name.clone(), offset, length);
                self.read_chunk(block.id, &part, 0, &mut data)?;
                offset += length;
            }
            if container.layout != Layout::Log {
                *bytes += chunk.length;
            }
            let verified = chunk.checksum.verify(&data);
            let name = || chunk.name.clone();
            verified.map_err(|what| ChunkError::ChecksumMismatch { name: name(), what })?;
        }
        Ok(())
    }
}

/// Whether an error means that a block is damaged. Not if the block was deleted, or if there was no
/// file descriptor.
fn is_damage(error: &ChunkError) -> bool {
    !error.is_refusal()
        && matches!(
            error,
            ChunkError::Damaged { .. }
                | ChunkError::ChecksumMismatch { .. }
                | ChunkError::NoSuchChunk { .. }
                | ChunkError::PastTheEnd { .. }
                | ChunkError::Io { .. }
        )
}

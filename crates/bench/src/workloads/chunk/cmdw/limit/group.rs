//! Group commit without a store: many threads append, and one of them syncs for all.

use std::fs::File;
use std::io;
use std::mem;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::limits::{DIRECT_ALIGN_BYTES, DIRECT_GROUP_BYTES};
use crate::workloads::chunk::cmdw::load::Shape;

/// A growing file that many threads append to; each append is durable when it returns.
#[derive(Debug)]
pub struct Group {
    file: File,
    end: AtomicU64,
    state: Mutex<GroupState>,
    /// Two condition variables, by the parity of the sync: the end of a sync wakes its own waiters,
    /// and one waiter of the next sync, to begin it.
    ended: [Condvar; 2],
}

#[derive(Debug, Default)]
struct GroupState {
    /// Appends whose bytes the system has in memory.
    written: u64,
    /// Appends that are durable.
    durable: u64,
    /// Whether a thread syncs on behalf of all.
    is_syncing: bool,
    /// Syncs that were begun.
    syncs: u64,
}

impl Group {
    /// A group for an empty file.
    pub fn of(file: File) -> Group {
        let (end, state) = (AtomicU64::new(0), Mutex::new(GroupState::default()));
        Group { file, end, state, ended: Default::default() }
    }

    /// Appends the bytes of a chunk.
    ///
    /// # Errors
    /// The write or the sync failed.
    pub fn append(&self, data: &[u8]) -> io::Result<()> {
        let offset = self.end.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.file.write_all_at(data, offset)?;
        let mut state = self.lock();
        state.written += 1;
        // The next sync to begin covers this append.
        let (ours, sync) = (state.written, state.syncs + 1);
        while state.durable < ours {
            if !state.is_syncing {
                return self.lead(state);
            }
            state = self.of_sync(sync).wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Syncs on behalf of all appends that are written.
    fn lead(&self, mut state: MutexGuard<'_, GroupState>) -> io::Result<()> {
        state.is_syncing = true;
        state.syncs += 1;
        let (covered, sync) = (state.written, state.syncs);
        drop(state);
        let synced = self.file.sync_data();
        let mut state = self.lock();
        state.is_syncing = false;
        if synced.is_ok() {
            state.durable = covered;
        }
        // The lock is free first: the woken threads take it.
        drop(state);
        self.of_sync(sync + 1).notify_one();
        self.of_sync(sync).notify_all();
        synced
    }

    /// fdatasyncs so far.
    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    fn of_sync(&self, sync: u64) -> &Condvar {
        &self.ended[(sync % 2) as usize]
    }

    fn lock(&self) -> MutexGuard<'_, GroupState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A file of zeros that many append to around the page cache; each append is durable when it
/// returns.
///
/// Chunks are copied one behind the other into one of two buffers. The leader of a round, one of
/// the threads whose chunks are in the buffer, writes it and syncs, while others fill the other
/// buffer for the next round. The last block of a round is written again with what follows it, so
/// that the file has the bytes of the chunks and no others between them.
#[derive(Debug)]
pub struct DirectGroup {
    file: File,
    state: Mutex<DirectState>,
    /// Two condition variables, by round parity: the end of a round wakes its own waiters, and one
    /// waiter of the next round, to lead it.
    ended: [Condvar; 2],
    /// A leader took the buffer, and the other one has room.
    has_room: Condvar,
}

#[derive(Debug)]
struct DirectState {
    /// Bytes for the next write.
    buffer: AlignedMemory,
    /// Bytes gathered, from the buffer's beginning.
    filled: usize,
    /// The offset of the buffer in the file, which is the beginning of a block.
    offset: u64,
    /// The other buffer. None while a leader writes it.
    spare: Option<AlignedMemory>,
    /// The round that is gathered.
    round: u64,
    /// Rounds that are durable: those before this one.
    durable: u64,
    /// Why a write or a sync failed. Nothing is written after that.
    failure: Option<String>,
    syncs: u64,
}

impl DirectState {
    fn check(&self) -> io::Result<()> {
        match &self.failure {
            Some(failure) => Err(io::Error::other(failure.clone())),
            None => Ok(()),
        }
    }
}

impl DirectGroup {
    /// A group for a file of zeros with the bytes of the shape, in whole blocks.
    pub fn of(file: File, shape: &Shape) -> DirectGroup {
        let chunk_bytes = shape.chunk_bytes.0;
        // No thread has more than one chunk in a buffer.
        let of_all = chunk_bytes * shape.threads as u64;
        let bytes = of_all.min(DIRECT_GROUP_BYTES.max(chunk_bytes));
        // One block more holds the last block of the round before.
        let bytes = bytes.next_multiple_of(DIRECT_ALIGN_BYTES) + DIRECT_ALIGN_BYTES;
        let state = DirectState {
            buffer: AlignedMemory::zeroed(bytes as usize),
            filled: 0,
            offset: 0,
            spare: Some(AlignedMemory::zeroed(bytes as usize)),
            round: 0,
            durable: 0,
            failure: None,
            syncs: 0,
        };
        let (state, ended, has_room) = (Mutex::new(state), Default::default(), Condvar::new());
        DirectGroup { file, state, ended, has_room }
    }

    /// Appends the bytes of a chunk.
    ///
    /// # Errors
    /// The write or the sync failed, of this round or of one before.
    pub fn append(&self, data: &[u8]) -> io::Result<()> {
        let has_no_room = |state: &mut DirectState| {
            state.failure.is_none() && state.filled + data.len() > state.buffer.bytes().len()
        };
        let state = self.has_room.wait_while(self.lock(), has_no_room);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        state.check()?;
        let (start, round) = (state.filled, state.round);
        state.filled += data.len();
        state.buffer.bytes_mut()[start..start + data.len()].copy_from_slice(data);
        while state.durable <= round {
            state.check()?;
            if let Some(spare) = state.spare.take() {
                return self.lead(state, spare);
            }
            state = self.of_round(round).wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Writes and syncs what is gathered, while others gather in the spare buffer.
    fn lead(&self, mut state: MutexGuard<'_, DirectState>, spare: AlignedMemory) -> io::Result<()> {
        let mut buffer = mem::replace(&mut state.buffer, spare);
        let (filled, offset, round) = (state.filled, state.offset, state.round);
        let rest = filled % DIRECT_ALIGN_BYTES as usize;
        let begun = filled - rest;
        state.buffer.bytes_mut()[..rest].copy_from_slice(&buffer.bytes()[begun..filled]);
        state.filled = rest;
        state.offset += begun as u64;
        state.round += 1;
        drop(state);
        self.has_room.notify_all();
        let end = filled.next_multiple_of(DIRECT_ALIGN_BYTES as usize);
        buffer.bytes_mut()[filled..end].fill(0);
        let written = self.file.write_all_at(&buffer.bytes()[..end], offset);
        let synced = written.and_then(|()| self.file.sync_data());
        let mut state = self.lock();
        state.spare = Some(buffer);
        state.syncs += 1;
        match &synced {
            Ok(()) => state.durable = round + 1,
            Err(error) => state.failure = Some(error.to_string()),
        }
        // The lock is free first: the woken threads take it.
        drop(state);
        if synced.is_err() {
            self.ended.iter().chain([&self.has_room]).for_each(Condvar::notify_all);
        }
        // The next leader wakes first: the disk waits for it.
        self.of_round(round + 1).notify_one();
        self.of_round(round).notify_all();
        synced
    }

    /// fdatasyncs so far.
    pub fn syncs(&self) -> u64 {
        self.lock().syncs
    }

    fn of_round(&self, round: u64) -> &Condvar {
        &self.ended[(round % 2) as usize]
    }

    fn lock(&self) -> MutexGuard<'_, DirectState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Memory at an address that direct writes can use.
#[derive(Debug)]
pub struct AlignedMemory {
    memory: Vec<u8>,
    skip: usize,
    length: usize,
}

impl AlignedMemory {
    /// So many bytes, all zero.
    pub fn zeroed(length: usize) -> AlignedMemory {
        let memory = vec![0; length + DIRECT_ALIGN_BYTES as usize];
        let skip = memory.as_ptr().align_offset(DIRECT_ALIGN_BYTES as usize);
        AlignedMemory { memory, skip, length }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.skip..self.skip + self.length]
    }

    /// The bytes, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.skip..self.skip + self.length]
    }
}

#[cfg(test)]
mod tests;

//! Group commit without a store: many threads append to one file, and one of them syncs for all.

use std::fs::File;
use std::io;
use std::mem;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::limits::{DIRECT_ALIGN_BYTES, DIRECT_GROUP_BYTES};
use crate::workloads::chunk::cmdw::load::Shape;

/// A growing file that many threads append to. An append is durable when it returns.
#[derive(Debug)]
pub struct Group {
    file: File,
    end: AtomicU64,
    state: Mutex<GroupState>,
    /// Two condition variables, by the parity of the sync's number. The end of a sync wakes all
    /// threads that wait for it, and one thread that waits for the next sync, which starts it.
    ended: [Condvar; 2],
}

#[derive(Debug, Default)]
struct GroupState {
    /// How many appends have written their bytes to the page cache.
    written: u64,
    /// How many appends are durable.
    durable: u64,
    /// Whether a thread is syncing for all.
    is_syncing: bool,
    /// How many syncs were started.
    syncs: u64,
}

impl Group {
    /// A group that appends to `file`, which must be empty.
    pub fn of(file: File) -> Group {
        let (end, state) = (AtomicU64::new(0), Mutex::new(GroupState::default()));
        Group { file, end, state, ended: Default::default() }
    }

    /// Appends a chunk, and returns when it is durable.
    ///
    /// # Errors
    /// The write failed, or the sync that this thread made.
    pub fn append(&self, data: &[u8]) -> io::Result<()> {
        let offset = self.end.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.file.write_all_at(data, offset)?;
        let mut state = self.lock();
        state.written += 1;
        // The next sync to start covers this append.
        let (ours, sync) = (state.written, state.syncs + 1);
        while state.durable < ours {
            if !state.is_syncing {
                return self.lead(state);
            }
            state = self.of_sync(sync).wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Syncs for all appends that have written their bytes.
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
        // Releases the lock before the wake-ups, because the woken threads take it.
        drop(state);
        self.of_sync(sync + 1).notify_one();
        self.of_sync(sync).notify_all();
        synced
    }

    /// The number of fdatasyncs so far.
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

/// A file of zeros that many threads append to, around the page cache. An append is durable when it
/// returns.
///
/// Chunks are copied one after the other into a buffer. A *round* is one write of the buffer and
/// its sync, by one of the threads with a chunk in it, the leader. Meanwhile other threads fill a
/// second buffer for the next round. A round's last block may be partly filled: the next round
/// writes it again with what follows, so that chunks lie in the file without gaps.
#[derive(Debug)]
pub struct DirectGroup {
    file: File,
    state: Mutex<DirectState>,
    /// Two condition variables, by the parity of the round's number. The end of a round wakes all
    /// threads that wait for it, and one thread that waits for the next round, which leads it.
    ended: [Condvar; 2],
    /// Signals that a leader took the full buffer, so that there is space in the other one.
    has_room: Condvar,
}

#[derive(Debug)]
struct DirectState {
    /// The bytes for the next write.
    buffer: AlignedMemory,
    /// How many bytes of `buffer` are filled.
    filled: usize,
    /// The offset of `buffer` in the file: a multiple of the block size.
    offset: u64,
    /// The second buffer; `None` while a leader writes it.
    spare: Option<AlignedMemory>,
    /// The number of the round that `buffer` is filled for.
    round: u64,
    /// How many rounds are durable.
    durable: u64,
    /// Why a write or sync failed. Nothing is written after a failure.
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
    /// A group for `file`, which must be filled with zeros for all bytes of the shape.
    pub fn of(file: File, shape: &Shape) -> DirectGroup {
        let chunk_bytes = shape.chunk_bytes.0;
        // No thread has more than one chunk in a buffer.
        let of_all = chunk_bytes * shape.threads as u64;
        let bytes = of_all.min(DIRECT_GROUP_BYTES.max(chunk_bytes));
        // One more block is for the last block of the round before.
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

    /// Appends a chunk, and returns when it is durable.
    ///
    /// # Errors
    /// A write or a sync failed, of this round or an earlier one.
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

    /// Writes and syncs the filled buffer, while other threads fill `spare`.
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
        // Releases the lock before the wake-ups, because the woken threads take it.
        drop(state);
        if synced.is_err() {
            self.ended.iter().chain([&self.has_room]).for_each(Condvar::notify_all);
        }
        // The next leader wakes first, because the disk is idle until it writes.
        self.of_round(round + 1).notify_one();
        self.of_round(round).notify_all();
        synced
    }

    /// The number of fdatasyncs so far.
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

/// Memory with the alignment that direct writes need.
#[derive(Debug)]
pub struct AlignedMemory {
    memory: Vec<u8>,
    skip: usize,
    length: usize,
}

impl AlignedMemory {
    /// `length` bytes, all zero.
    pub fn zeroed(length: usize) -> AlignedMemory {
        let memory = vec![0; length + DIRECT_ALIGN_BYTES as usize];
        let skip = memory.as_ptr().align_offset(DIRECT_ALIGN_BYTES as usize);
        AlignedMemory { memory, skip, length }
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.memory[self.skip..self.skip + self.length]
    }

    /// The bytes, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.skip..self.skip + self.length]
    }
}

#[cfg(test)]
mod tests;

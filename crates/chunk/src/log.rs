//! The log of a store: one sequential stream of records from all threads, in segment files.
//!
//! A record is written in two steps. *Reserve*, under the lock of the tail, gives the record its
//! position; a small record is also copied into the *gathered* buffer, which all threads share.
//! *Finish*, without the lock, makes the writes that are left to this thread, if any: the gathered
//! buffer, if this record did not fit into it, and the record itself, if it is large. A caller with
//! an index reserves under the index's lock, so that log and index have the same order, and
//! finishes without that lock.
//!
//! Every write to a file is of whole disk blocks, and each block is written once: a record that
//! must be durable at once is followed by zeros to the end of its block, and durable bytes are
//! never overwritten.
//!
//! A sync covers everything in the log when it starts. Threads that arrive during a sync share the
//! next one, and one of them runs it.
//!
//! The file of the next segment is prepared while the current segment is written
//! ([`Log::prepare_next`]).
//!
//! On a full disk, chunks and commits are refused. Deletions still work, in a file that was
//! reserved for them ([`Log::prepare_reserve`]).
//!
//! After a failed write or sync the log *stops*: it writes nothing more, since the content of the
//! disk is unknown. A disk without space for another segment, or a process without a file
//! descriptor, does not stop it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Condvar, Mutex, MutexGuard};
use storage::disk::{AlignedBuffer, Disk, is_out_of_descriptors};

use crate::crc::crc32c;
use crate::error::ChunkError;
use crate::identity::Identity;
use crate::limits::{
    BLOCK_BYTES, BUFFER_BYTES, BUFFERS_MAX, GATHERED_BYTES_MAX, RECORD_BODY_BYTES_MAX,
    RESERVE_BYTES, SEGMENT_HEADROOM_BYTES, SEGMENT_NUMBER_MAX,
};
use crate::record::{
    HEADER_BYTES, Header, Kind, PIECE_BYTES, Position, encode_header, encode_trailer, record_bytes,
};
use crate::rounds::Rounds;
use crate::segment::{
    FIRST_RECORD, Head, LOG_DIR, LOG_FORMAT_VERSION, RESERVE_PATH, Start, next_path, put_head,
    segment_path,
};
use crate::segment_reader::read_fully;

const _: () = assert!(GATHERED_BYTES_MAX <= PIECE_BYTES);

/// A record to write.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The kind of the record.
    pub kind: Kind,
    /// The id of the container that the record is about.
    pub container_id: u64,
    /// The local id of the block that the record is about, or 0.
    pub local_id: u64,
    /// The byte of the block where the chunk starts, or 0.
    pub block_offset: u64,
    /// The body.
    pub body: &'a [u8],
}

/// Where to continue a log that was read.
#[derive(Debug)]
pub struct Resume<F> {
    /// The log's end; everything before it is durable. Also where the last record of that segment
    /// starts, if known.
    pub end: Start,
    /// The segment that the end is in, and its length in bytes, if more records may go there: only
    /// zeros follow the end.
    pub segment: Option<(F, u32)>,
    /// The number for the next segment; no segment has it yet.
    pub next_number: u32,
}

/// The log, open for writing.
#[derive(Debug)]
pub struct Log<D: Disk> {
    disk: D,
    identity: Identity,
    /// Size of a new segment, in bytes.
    segment_bytes: u32,
    tail: Mutex<Tail<D::File>>,
    /// Notified when a write has ended, or the log has stopped.
    changed: Condvar,
    /// Notified when one more thread that waits for a buffer may find one.
    has_room: Condvar,
    sync_count: AtomicU64,
    /// Whether the log has stopped. Read for each chunk, so it needs no lock.
    is_stopped: AtomicBool,
    /// Whether the disk had no space for a file since [`Log::is_short`] was last called.
    is_short: AtomicBool,
    /// Everything before this position has been written to the files.
    written: AtomicU64,
    /// Everything before this position is durable.
    durable: AtomicU64,
    rounds: Rounds,
}

#[derive(Debug)]
struct Tail<F> {
    /// The segment that is written to; `None` before the first record.
    segment: Option<Arc<Segment<F>>>,
    /// The number of the next segment.
    next_number: u32,
    /// The file for the next segment, if it is prepared.
    next_file: Option<F>,
    /// Whether a thread is preparing that file.
    is_preparing: bool,
    /// The file that is reserved for deletions on a full disk.
    reserve_file: Option<F>,
    /// The position of the next record; the end of the log if there is no segment.
    end: Position,
    /// Where the last record of this segment starts, or 0; `None` if no record may follow it.
    previous: Option<u32>,
    gathered: Option<Gathered>,
    /// Positions where writes start that threads have under way.
    writing: Vec<Position>,
    free: Vec<AlignedBuffer>,
    buffer_count: usize,
    /// Segments with writes that no sync has covered.
    unsynced: Vec<Arc<Segment<F>>>,
    has_new_names: bool,
    /// Everything before this position is durable.
    durable: Position,
    /// Where the last record before `durable` starts in its segment, or 0; `None` if unknown.
    durable_previous: Option<u32>,
    /// Number of the sync that is under way, or of the last one.
    round: u32,
    is_syncing: bool,
    /// Whether a thread waits to run the next sync.
    next_has_leader: bool,
    stopped: Option<String>,
}

/// A segment that this process writes to.
#[derive(Debug)]
struct Segment<F> {
    number: u32,
    /// Size of the segment's file, in bytes.
    bytes: u32,
    file: F,
}

/// Bytes that records of this kind leave free at the end of a segment of that size.
fn headroom_bytes(segment_bytes: u32, kind: Kind) -> u32 {
    let headroom = SEGMENT_HEADROOM_BYTES.min(segment_bytes / 8);
    match kind {
        Kind::Chunk => headroom,
        Kind::Block => headroom / 2,
        _ => 0,
    }
}

/// Small records in the shared buffer, not written yet.
#[derive(Debug)]
struct Gathered {
    buffer: AlignedBuffer,
    start: u32,
}

/// The writes that [`Log::finish`] must make for a reserved record.
#[derive(Debug)]
#[must_use]
pub struct Unwritten<F> {
    filled: Option<Filled<F>>,
    own: Option<LargePlace<F>>,
}

/// A gathered buffer that takes no more records and must be written.
#[derive(Debug)]
struct Filled<F> {
    segment: Arc<Segment<F>>,
    start: u32,
    bytes: usize,
    buffer: AlignedBuffer,
}

/// The reserved place of a large record.
#[derive(Debug)]
struct LargePlace<F> {
    segment: Arc<Segment<F>>,
    start: u32,
    header: [u8; HEADER_BYTES],
    buffer: AlignedBuffer,
}

fn next_block(offset: u32) -> u32 {
    offset.next_multiple_of(BLOCK_BYTES)
}

impl<D: Disk> Log<D> {
    /// A log that continues where `resume` says, with new segments of `segment_bytes` bytes.
    pub fn new(disk: D, identity: Identity, segment_bytes: u32, resume: Resume<D::File>) -> Log<D> {
        let Resume { end: Start { at: end, previous }, segment, next_number } = resume;
        let segment = segment.map(|(file, bytes)| Segment { number: end.segment, bytes, file });
        let next = Position { offset: next_block(end.offset), ..end };
        let tail = Tail {
            end: if segment.is_some() { next } else { end },
            segment: segment.map(Arc::new),
            next_number,
            next_file: None,
            is_preparing: false,
            reserve_file: None,
            previous,
            gathered: None,
            writing: Vec::new(),
            free: Vec::new(),
            buffer_count: 0,
            unsynced: Vec::new(),
            has_new_names: false,
            durable: end,
            durable_previous: previous,
            round: 0,
            is_syncing: false,
            next_has_leader: false,
            stopped: None,
        };
        Log {
            disk,
            identity,
            segment_bytes,
            tail: Mutex::new(tail),
            changed: Condvar::new(),
            has_room: Condvar::new(),
            sync_count: AtomicU64::new(0),
            is_stopped: AtomicBool::new(false),
            is_short: AtomicBool::new(false),
            written: AtomicU64::new(end.to_u64()),
            durable: AtomicU64::new(end.to_u64()),
            rounds: Rounds::default(),
        }
    }

    /// Gives the record a position in the log, and returns the position. The record is in the log
    /// once [`Log::finish`] has made the writes that are left. Syncs wait for that; other records
    /// do not.
    pub fn reserve(
        &self,
        record: &Record<'_>,
    ) -> Result<(Position, Unwritten<D::File>), ChunkError> {
        let bytes = record_bytes(record.body.len()) as u32;
        let is_gathered = record.body.len() <= GATHERED_BYTES_MAX;
        let limit = |segment_bytes| segment_bytes - headroom_bytes(segment_bytes, record.kind);
        let bytes_max = limit(self.segment_bytes) - FIRST_RECORD;
        if bytes > bytes_max || record.body.len() > RECORD_BODY_BYTES_MAX {
            let bytes_max = bytes_max.min(RECORD_BODY_BYTES_MAX as u32).into();
            return Err(ChunkError::ChunkTooLarge { bytes: bytes.into(), bytes_max });
        }
        let crc = if is_gathered { crc32c(record.body) } else { 0 };
        let is_deletion = !matches!(record.kind, Kind::Chunk | Kind::Block);
        let mut tail = self.tail.lock();
        let mut has_waited = false;
        let (fits, is_over) = loop {
            tail.check()?;
            let fits = is_gathered && tail.gathers(bytes);
            let start = if fits { tail.end.offset } else { next_block(tail.end.offset) };
            let segment = tail.segment.as_ref();
            let is_over = segment.is_none_or(|it| start.saturating_add(bytes) > limit(it.bytes));
            let must_wait = is_over && tail.is_preparing;
            if !must_wait && (fits && !is_over || tail.has_buffer()) {
                break (fits, is_over);
            }
            has_waited = true;
            self.has_room.wait(&mut tail);
        };
        let mut filled = None;
        if is_over {
            filled = self.next_segment(&mut tail, is_deletion).inspect_err(|_| {
                // The buffer for which this thread waited goes to the next waiting thread.
                self.has_room.notify_one();
            })?;
        } else if !fits {
            filled = tail.take_gathered();
        }
        let header = Header {
            kind: record.kind,
            at: tail.end,
            container_id: record.container_id,
            local_id: record.local_id,
            block_offset: record.block_offset,
            body_bytes: record.body.len() as u32,
            previous: tail.previous.expect("a segment goes on where its last record is known"),
            durable: tail.durable,
        };
        let at = tail.end;
        tail.previous = Some(at.offset);
        let header_bytes = encode_header(&header, self.identity.salt);
        let mut own = None;
        match is_gathered {
            true => tail.gather(&header_bytes, record.body, crc, bytes),
            false => own = Some(tail.reserve_large(header_bytes, bytes)),
        }
        if has_waited && (tail.gathered.is_some() || tail.has_buffer()) {
            // A free buffer was announced to this thread alone; if more is free, wake the next one.
            self.has_room.notify_one();
        }
        Ok((at, Unwritten { filled, own }))
    }

    /// Makes the writes that are left for `record`, which was reserved.
    pub fn finish(
        &self,
        unwritten: Unwritten<D::File>,
        record: &Record<'_>,
    ) -> Result<(), ChunkError> {
        if let Some(filled) = unwritten.filled {
            self.write_filled(filled)?;
        }
        match unwritten.own {
            Some(own) => self.write_large(own, record.body),
            None => Ok(()),
        }
    }

    /// Reserves a record and finishes it.
    pub fn append(&self, record: &Record<'_>) -> Result<Position, ChunkError> {
        let (at, unwritten) = self.reserve(record)?;
        self.finish(unwritten, record)?;
        Ok(at)
    }

    /// Everything before this position is durable. A later start may begin to read here.
    pub fn durable(&self) -> Start {
        let tail = self.tail.lock();
        Start { at: tail.durable, previous: tail.durable_previous }
    }

    /// The position where the log ends.
    pub fn end(&self) -> Position {
        self.tail.lock().end
    }

    /// Writes out gathered records before `upto`, and waits for writes there that other threads
    /// have under way. Then these records can be read from the file, and survive the death of the
    /// process.
    pub fn flush(&self, upto: Position) -> Result<(), ChunkError> {
        let mut tail = self.tail.lock();
        tail.check()?;
        if tail.gathered_start().is_some_and(|start| start < upto) {
            let filled = tail.take_gathered();
            self.write_unlocked(&mut tail, filled)?;
        }
        while tail.writing.iter().any(|at| *at < upto) {
            self.changed.wait(&mut tail);
            tail.check()?;
        }
        Ok(())
    }

    /// Like [`Log::flush`], for the record at `at`. Takes no lock if the record was written long
    /// ago.
    pub fn flush_for_read(&self, at: Position) -> Result<(), ChunkError> {
        match at.to_u64() < self.written.load(Ordering::Acquire) {
            true => Ok(()),
            false => self.flush(Position { offset: at.offset + 1, ..at }),
        }
    }

    /// Returns when everything before `upto` is durable. If `is_shared`, a sync that another thread
    /// ran is enough. Otherwise this thread runs a sync itself, even if everything is durable
    /// already.
    pub fn sync(&self, upto: Position, is_shared: bool) -> Result<(), ChunkError> {
        let mut has_synced = false;
        loop {
            let is_durable = upto.to_u64() <= self.durable.load(Ordering::Acquire);
            if is_durable && (is_shared || has_synced) {
                return Ok(());
            }
            let mut tail = self.tail.lock();
            tail.check()?;
            let next = tail.round.wrapping_add(1);
            if !tail.is_syncing && !tail.next_has_leader {
                has_synced = true;
                self.lead_sync(&mut tail)?;
            } else if !tail.next_has_leader {
                tail.next_has_leader = true;
                drop(tail);
                self.rounds.wait_for_turn(next);
                tail = self.tail.lock();
                tail.next_has_leader = false;
                has_synced = true;
                self.lead_sync(&mut tail)?;
            } else {
                drop(tail);
                self.rounds.wait_for_end(next);
            }
        }
    }

    /// Makes everything durable that is in the log now.
    pub fn sync_all(&self) -> Result<(), ChunkError> {
        let end = self.end();
        self.sync(end, true)
    }

    /// Number of syncs of segments so far.
    pub fn sync_count(&self) -> u64 {
        self.sync_count.load(Ordering::Relaxed)
    }

    /// Runs one sync, and wakes the threads that wait for it, whether it succeeds or fails.
    fn lead_sync(&self, tail: &mut MutexGuard<'_, Tail<D::File>>) -> Result<(), ChunkError> {
        tail.round = tail.round.wrapping_add(1);
        tail.is_syncing = true;
        let round = tail.round;
        let result = tail.check().and_then(|()| self.sync_now(tail));
        tail.is_syncing = false;
        if let Ok(target) = &result {
            (tail.durable, tail.durable_previous) = (target.at, target.previous);
            self.durable.store(target.at.to_u64(), Ordering::Release);
        }
        MutexGuard::unlocked(tail, || self.rounds.end(round));
        result.map(|_| ())
    }

    fn sync_now(&self, tail: &mut MutexGuard<'_, Tail<D::File>>) -> Result<Start, ChunkError> {
        let filled = tail.take_gathered();
        let (target, previous) = (tail.end, tail.previous);
        let unsynced = core::mem::take(&mut tail.unsynced);
        let has_new_names = core::mem::take(&mut tail.has_new_names);
        self.write_unlocked(tail, filled)?;
        while tail.writing.iter().any(|at| *at < target) {
            self.changed.wait(tail);
            tail.check()?;
        }
        let result = MutexGuard::unlocked(tail, || self.sync_files(&unsynced, has_new_names));
        if result.as_ref().is_err_and(ChunkError::is_refusal) {
            // Syncing a folder opens it: the process had no file descriptor, so no sync was begun.
            tail.unsynced.splice(0..0, unsynced);
            tail.has_new_names |= has_new_names;
            return result.map(|()| Start { at: target, previous });
        }
        self.stop_on_error(tail, result)?;
        Ok(Start { at: target, previous })
    }

    fn sync_files(
        &self,
        segments: &[Arc<Segment<D::File>>],
        has_new_names: bool,
    ) -> Result<(), ChunkError> {
        for segment in segments {
            let synced = self.disk.sync_data(&segment.file);
            synced.map_err(|error| failed(segment.number, "sync", error))?;
            self.sync_count.fetch_add(1, Ordering::Relaxed);
        }
        if has_new_names {
            let file = LOG_DIR.to_owned();
            let synced = self.disk.sync_dir(LOG_DIR);
            // A failed sync of the folder is final, too, even one for lack of space.
            synced.map_err(|error| ChunkError::Io { file, op: "sync", error })?;
        }
        Ok(())
    }

    /// Starts the next segment, and returns the buffer gathered for the one before. Without space
    /// for a new file, a deletion goes to the reserved file. Nothing has changed after an error for
    /// lack of space or of a file descriptor.
    fn next_segment(
        &self,
        tail: &mut Tail<D::File>,
        is_deletion: bool,
    ) -> Result<Option<Filled<D::File>>, ChunkError> {
        let number = tail.next_number;
        if number > SEGMENT_NUMBER_MAX {
            return Err(ChunkError::DiskFull { bytes_wanted: self.segment_bytes.into() });
        }
        let made = match tail.next_file.take() {
            Some(file) => Ok(file),
            None => self.make_next(number),
        };
        let path = next_path(number);
        match made {
            Ok(file) => self.begin_segment(tail, file, self.segment_bytes, &path),
            Err(error @ ChunkError::DiskFull { .. }) => match tail.reserve_file.take() {
                Some(file) if is_deletion => {
                    self.begin_segment(tail, file, self.reserve_bytes(), RESERVE_PATH)
                }
                reserve => {
                    tail.reserve_file = reserve;
                    Err(self.stop_unless_refused(tail, error))
                }
            },
            Err(error) => Err(self.stop_unless_refused(tail, error)),
        }
    }

    /// Makes `file`, of `bytes` bytes, the next segment.
    fn begin_segment(
        &self,
        tail: &mut Tail<D::File>,
        file: D::File,
        bytes: u32,
        path: &str,
    ) -> Result<Option<Filled<D::File>>, ChunkError> {
        let number = tail.next_number;
        let follows = match tail.gathered.is_some() {
            true => Position { offset: next_block(tail.end.offset), ..tail.end },
            false => tail.end,
        };
        let (version, durable) = (LOG_FORMAT_VERSION, tail.durable);
        let store_id = self.identity.store_id;
        let head = Head { version, store_id, number, bytes, follows, durable };
        if let Err(error) = self.name_segment(&file, &head, path) {
            match path == RESERVE_PATH {
                true => tail.reserve_file = Some(file),
                false => tail.next_file = Some(file),
            }
            return Err(self.stop_unless_refused(tail, error));
        }
        let filled = tail.take_gathered();
        tail.segment = Some(Arc::new(Segment { number, bytes, file }));
        tail.next_number = number + 1;
        tail.end = Position { segment: number, offset: FIRST_RECORD };
        tail.previous = Some(0);
        tail.has_new_names = true;
        Ok(filled)
    }

    fn reserve_bytes(&self) -> u32 {
        RESERVE_BYTES.min((self.segment_bytes / 4).next_multiple_of(BLOCK_BYTES))
    }

    /// Reserves the file for deletions on a full disk, unless there is one. Takes a file of an
    /// earlier run if nothing was written to it.
    ///
    /// # Errors
    /// There is no space or no file descriptor for it, which harms nothing; or the disk failed and
    /// the log has stopped.
    pub fn prepare_reserve(&self) -> Result<(), ChunkError> {
        {
            let tail = self.tail.lock();
            tail.check()?;
            if tail.reserve_file.is_some() {
                return Ok(());
            }
        }
        let made = self.make_reserve();
        let mut tail = self.tail.lock();
        tail.reserve_file = Some(made.map_err(|error| self.stop_unless_refused(&mut tail, error))?);
        Ok(())
    }

    fn make_reserve(&self) -> Result<D::File, ChunkError> {
        let io = |op| move |error| ChunkError::io(RESERVE_PATH, op, error);
        let bytes = self.reserve_bytes();
        let file = self.disk.open_or_create(RESERVE_PATH).map_err(io("open"))?;
        if self.disk.len(&file).map_err(io("read"))? == bytes.into() {
            let is_blank = is_blank(&self.disk, &file, bytes).map_err(io("read"))?;
            if is_blank {
                return Ok(file);
            }
        }
        drop(file);
        let file = self.disk.create(RESERVE_PATH).map_err(io("create"))?;
        let room = self.disk.preallocate(&file, bytes.into()).map_err(io("preallocate"));
        let made = room.and_then(|()| self.disk.sync_data(&file).map_err(io("sync")));
        made.inspect_err(|_| drop(self.disk.truncate(&file, 0)))?;
        Ok(file)
    }

    /// Gives up the reserved file, for work that will free more space. Returns whether there was
    /// one.
    pub fn release_reserve(&self) -> Result<bool, ChunkError> {
        let Some(file) = self.tail.lock().reserve_file.take() else { return Ok(false) };
        drop(file);
        let removed = self.disk.remove(RESERVE_PATH);
        removed.map_err(|error| ChunkError::io(RESERVE_PATH, "remove", error))?;
        Ok(true)
    }

    /// Whether the disk had no space for one of the log's files since the last call.
    pub fn is_short(&self) -> bool {
        self.is_short.swap(false, Ordering::Relaxed)
    }

    /// Prepares the next segment's file while the current segment still has space, so that the
    /// writer that fills a segment need not wait for the file system. Called from each tick.
    ///
    /// # Errors
    /// There is no space or no file descriptor for it, which harms nothing; or the disk failed and
    /// the log has stopped.
    pub fn prepare_next(&self) -> Result<(), ChunkError> {
        let number = {
            let mut tail = self.tail.lock();
            tail.check()?;
            if tail.segment.is_none() || tail.next_file.is_some() || tail.is_preparing {
                return Ok(());
            }
            tail.is_preparing = true;
            tail.next_number
        };
        let made = self.make_next(number);
        let mut tail = self.tail.lock();
        tail.is_preparing = false;
        self.has_room.notify_all();
        tail.next_file = Some(made.map_err(|error| self.stop_unless_refused(&mut tail, error))?);
        Ok(())
    }

    /// Makes the file of the next segment, durably and at its full length. So if a file with a
    /// segment's name is shorter, it has lost data.
    fn make_next(&self, number: u32) -> Result<D::File, ChunkError> {
        let path = next_path(number);
        let io = |op| move |error| ChunkError::io(&next_path(number), op, error);
        // `create` empties it: a crash may have undone the renaming of a file with records.
        let file = self.disk.create(&path).map_err(io("create"))?;
        let bytes = self.segment_bytes;
        let room = self.disk.preallocate(&file, bytes.into()).map_err(io("preallocate"));
        let made = room.and_then(|()| self.disk.sync_data(&file).map_err(io("sync")));
        match made {
            Ok(()) => Ok(file),
            Err(ChunkError::DiskFull { .. }) => {
                // The name stays: it shows that the segment before was begun.
                drop(self.disk.truncate(&file, 0));
                Err(ChunkError::DiskFull { bytes_wanted: bytes.into() })
            }
            Err(error) => Err(error),
        }
    }

    /// Writes a new segment's head and renames its file to the segment's name. Creates the `.next`
    /// file of the following segment first: while that exists, this segment is known to have been
    /// begun.
    fn name_segment(&self, file: &D::File, head: &Head, from: &str) -> Result<(), ChunkError> {
        let path = segment_path(head.number);
        let mut block = AlignedBuffer::new(BLOCK_BYTES as usize);
        put_head(head, block.bytes_mut());
        let written = self.disk.write_blocks_at(file, 0, block.bytes());
        written.map_err(|error| ChunkError::io(&path, "write", error))?;
        match self.disk.create(&next_path(head.number + 1)) {
            Ok(_) => {}
            // Without that name nothing shows that this segment was begun, which matters only if
            // the segment is lost.
            Err(error) if is_refusal(&error) => {}
            Err(error) => return Err(ChunkError::io(&path, "create", error)),
        }
        let renamed = self.disk.rename(from, &path);
        renamed.map_err(|error| ChunkError::io(&path, "rename", error))
    }

    /// Stops the log, unless the error harms nothing.
    fn stop_unless_refused(&self, tail: &mut Tail<D::File>, error: ChunkError) -> ChunkError {
        if matches!(error, ChunkError::DiskFull { .. }) {
            self.is_short.store(true, Ordering::Relaxed);
        }
        match error.is_refusal() {
            true => error,
            false => self.stop(tail, error),
        }
    }

    /// Stops the log, because a sync of a block's or chunk's file failed: whether that file's data
    /// are durable is unknown.
    pub fn fail(&self, error: ChunkError) -> ChunkError {
        self.stop(&mut self.tail.lock(), error)
    }

    /// Checks that the log has not stopped.
    ///
    /// # Errors
    /// The log has stopped.
    pub fn check(&self) -> Result<(), ChunkError> {
        match self.is_stopped.load(Ordering::Acquire) {
            true => self.tail.lock().check(),
            false => Ok(()),
        }
    }

    fn write_unlocked(
        &self,
        tail: &mut MutexGuard<'_, Tail<D::File>>,
        filled: Option<Filled<D::File>>,
    ) -> Result<(), ChunkError> {
        match filled {
            Some(filled) => MutexGuard::unlocked(tail, || self.write_filled(filled)),
            None => Ok(()),
        }
    }

    fn write_filled(&self, filled: Filled<D::File>) -> Result<(), ChunkError> {
        let Filled { segment, start, bytes, buffer } = filled;
        let whole = &buffer.bytes()[..bytes];
        let written = self.disk.write_blocks_at(&segment.file, start.into(), whole);
        self.written(&segment, start, buffer, written)
    }

    /// Copies a large record through the buffer to the file, and computes its checksums on the way.
    fn write_large(&self, own: LargePlace<D::File>, body: &[u8]) -> Result<(), ChunkError> {
        let LargePlace { segment, start, header, mut buffer } = own;
        let mut stream = Stream {
            disk: &self.disk,
            file: &segment.file,
            buffer: buffer.bytes_mut(),
            fill: 0,
            offset: start.into(),
        };
        let written = stream.put_record(&header, body);
        self.written(&segment, start, buffer, written)
    }

    /// Records that a write has ended: returns its buffer, and wakes threads that wait for it.
    fn written(
        &self,
        segment: &Segment<D::File>,
        start: u32,
        buffer: AlignedBuffer,
        result: std::io::Result<()>,
    ) -> Result<(), ChunkError> {
        let at = Position { segment: segment.number, offset: start };
        let mut tail = self.tail.lock();
        tail.free.push(buffer);
        tail.writing.retain(|other| *other != at);
        if result.is_ok() {
            self.written.store(tail.written().to_u64(), Ordering::Release);
        }
        let result = result.map_err(|error| failed(segment.number, "write", error));
        let result = self.stop_on_error(&mut tail, result);
        drop(tail);
        self.changed.notify_all();
        self.has_room.notify_one();
        result
    }

    fn stop_on_error(
        &self,
        tail: &mut Tail<D::File>,
        result: Result<(), ChunkError>,
    ) -> Result<(), ChunkError> {
        result.map_err(|error| self.stop(tail, error))
    }

    /// Stops the log: nothing more is written, and all waiting threads wake up with an error.
    fn stop(&self, tail: &mut Tail<D::File>, error: ChunkError) -> ChunkError {
        if !matches!(error, ChunkError::Stopped(_)) {
            tail.stopped.get_or_insert(error.to_string());
            self.is_stopped.store(true, Ordering::Release);
        }
        self.changed.notify_all();
        self.has_room.notify_all();
        error
    }
}

/// Whether a file holds only zeros.
fn is_blank<D: Disk>(disk: &D, file: &D::File, bytes: u32) -> std::io::Result<bool> {
    let mut window = vec![0; BUFFER_BYTES];
    for offset in (0..u64::from(bytes)).step_by(BUFFER_BYTES) {
        let count = read_fully(disk, file, offset, &mut window)?;
        if window.iter().take(count).any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether the system only lacked space or a file descriptor, and may have one later.
fn is_refusal(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded) || is_out_of_descriptors(error)
}

fn failed(number: u32, op: &'static str, error: std::io::Error) -> ChunkError {
    // The space was allocated: a full disk is no excuse here.
    ChunkError::Io { file: segment_path(number), op, error }
}

impl<F> Tail<F> {
    fn check(&self) -> Result<(), ChunkError> {
        match &self.stopped {
            Some(why) => Err(ChunkError::Stopped(why.clone())),
            None => Ok(()),
        }
    }

    /// Whether a record of `bytes` bytes still fits into the gathered buffer.
    fn gathers(&self, bytes: u32) -> bool {
        let end = self.end.offset;
        let gathered = self.gathered.as_ref();
        gathered.is_some_and(|it| (end - it.start) as usize + bytes as usize <= BUFFER_BYTES)
    }

    fn gathered_start(&self) -> Option<Position> {
        let gathered = self.gathered.as_ref()?;
        Some(Position { offset: gathered.start, ..self.end })
    }

    /// Everything before this position has been written to the files.
    fn written(&self) -> Position {
        let first = self.writing.iter().copied().min();
        first.into_iter().chain(self.gathered_start()).min().unwrap_or(self.end)
    }

    fn has_buffer(&self) -> bool {
        !self.free.is_empty() || self.buffer_count < BUFFERS_MAX
    }

    /// Takes a buffer. [`Tail::has_buffer`] must be true.
    fn take_buffer(&mut self) -> AlignedBuffer {
        if let Some(buffer) = self.free.pop() {
            return buffer;
        }
        self.buffer_count += 1;
        AlignedBuffer::new(BUFFER_BYTES)
    }

    /// Returns the current segment, and remembers that the next sync must cover it.
    fn dirty_segment(&mut self) -> Arc<Segment<F>> {
        let segment = self.segment.as_ref().expect("a segment was made before");
        let is_known = self.unsynced.last().is_some_and(|last| last.number == segment.number);
        if !is_known {
            self.unsynced.push(Arc::clone(segment));
        }
        Arc::clone(segment)
    }

    /// Copies a small record into the gathered buffer.
    fn gather(&mut self, header: &[u8; HEADER_BYTES], body: &[u8], crc: u32, bytes: u32) {
        if self.gathered.is_none() {
            let buffer = self.take_buffer();
            self.gathered = Some(Gathered { buffer, start: self.end.offset });
        }
        let end = self.end.offset;
        let gathered = self.gathered.as_mut().expect("it was made if there was none");
        let at = (end - gathered.start) as usize;
        let out = &mut gathered.buffer.bytes_mut()[at..at + bytes as usize];
        put_small_record(out, header, body, crc);
        self.end.offset += bytes;
    }

    /// Takes the gathered buffer, which must be written now. The next record starts in a new block.
    fn take_gathered(&mut self) -> Option<Filled<F>> {
        let Gathered { mut buffer, start } = self.gathered.take()?;
        let fill = (self.end.offset - start) as usize;
        self.end.offset = next_block(self.end.offset);
        let bytes = (self.end.offset - start) as usize;
        buffer.bytes_mut()[fill..bytes].fill(0);
        let segment = self.dirty_segment();
        self.writing.push(Position { segment: segment.number, offset: start });
        Some(Filled { segment, start, bytes, buffer })
    }

    /// Reserves whole blocks for a large record.
    fn reserve_large(&mut self, header: [u8; HEADER_BYTES], bytes: u32) -> LargePlace<F> {
        let buffer = self.take_buffer();
        let segment = self.dirty_segment();
        let start = self.end.offset;
        self.writing.push(self.end);
        self.end.offset = next_block(start + bytes);
        LargePlace { segment, start, header, buffer }
    }
}

/// Writes a record with a body of at most one piece, and the zeros that pad it.
fn put_small_record(out: &mut [u8], header: &[u8; HEADER_BYTES], body: &[u8], crc: u32) {
    let (head, rest) = out.split_at_mut(HEADER_BYTES);
    head.copy_from_slice(header);
    let (data, rest) = rest.split_at_mut(body.len());
    data.copy_from_slice(body);
    let mut trailer = Vec::with_capacity(8);
    let crcs: &[u32] = if body.is_empty() { &[] } else { &[crc] };
    encode_trailer(header, crcs, &mut trailer);
    rest[..trailer.len()].copy_from_slice(&trailer);
    rest[trailer.len()..].fill(0);
}

/// Bytes on their way through a buffer to a file, written in whole blocks.
struct Stream<'a, D: Disk> {
    disk: &'a D,
    file: &'a D::File,
    buffer: &'a mut [u8],
    fill: usize,
    offset: u64,
}

impl<D: Disk> Stream<'_, D> {
    fn put_record(&mut self, header: &[u8; HEADER_BYTES], body: &[u8]) -> std::io::Result<()> {
        self.put(header)?;
        let mut crcs = Vec::with_capacity(body.len().div_ceil(PIECE_BYTES));
        for piece in body.chunks(PIECE_BYTES) {
            crcs.push(crc32c(piece));
            self.put(piece)?;
        }
        let mut trailer = Vec::new();
        encode_trailer(header, &crcs, &mut trailer);
        self.put(&trailer)?;
        self.write_rest()
    }

    fn put(&mut self, mut bytes: &[u8]) -> std::io::Result<()> {
        while !bytes.is_empty() {
            if self.fill == self.buffer.len() {
                self.write(self.fill)?;
            }
            let count = bytes.len().min(self.buffer.len() - self.fill);
            let (now, later) = bytes.split_at(count);
            self.buffer[self.fill..self.fill + count].copy_from_slice(now);
            self.fill += count;
            bytes = later;
        }
        Ok(())
    }

    fn write_rest(&mut self) -> std::io::Result<()> {
        let bytes = self.fill.next_multiple_of(BLOCK_BYTES as usize);
        self.buffer[self.fill..bytes].fill(0);
        self.write(bytes)
    }

    fn write(&mut self, bytes: usize) -> std::io::Result<()> {
        self.disk.write_blocks_at(self.file, self.offset, &self.buffer[..bytes])?;
        self.offset += bytes as u64;
        self.fill = 0;
        Ok(())
    }
}

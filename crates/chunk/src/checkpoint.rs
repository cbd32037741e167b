//! Writes and reads checkpoints: files with a copy of the index as of a position in the log, so
//! that a start reads the log only from that position on.
//!
//! A checkpoint holds everything that the log says before its position, and some of what came while
//! the checkpoint was written. Reading the log from the position on completes the index: a record
//! that is applied twice, in order, changes nothing.
//!
//! A checkpoint is written under a temporary name, synced, renamed, and the folder synced. The log
//! is synced before the rename, since nothing in a checkpoint may be ahead of the durable log. Two
//! checkpoints are kept, in case the newer one is damaged.
//!
//! Byte layout: `docs/formats.md`, "Chunk store".

use storage::codec::{DecodeError, Reader};
use storage::disk::Disk;

use crate::container::{Block, Commit, Index, decode_container, encode_container};
use crate::crc::{crc32c, crc32c_append};
use crate::error::ChunkError;
use crate::extents::{Extents, Run, Starts};
use crate::layout::Layout;
use crate::limits::{CHECKPOINT_PIECE_BYTES, CHECKPOINT_PIECE_BYTES_MAX};
use crate::record::Position;
use crate::segment::Start;
use crate::segment_reader::read_fully;

/// The folder of the checkpoints.
pub const INDEX_DIR: &str = "index";

/// Version of the format. Version 1 recorded neither where the last record starts nor which
/// containers are being deleted, and stored each extent by itself.
pub const CHECKPOINT_FORMAT_VERSION: u32 = 2;

const MAGIC: &[u8; 8] = b"QUORCIDX";
const HEAD_BYTES: usize = 44;
const PIECE_HEAD_BYTES: usize = 8;
const TEMPORARY: &str = "checkpoint.tmp";

const TAG_CONTAINER: u8 = 1;
const TAG_BLOCK: u8 = 2;
const TAG_DELETED: u8 = 3;
const TAG_BLOCK_RUNS: u8 = 4;

/// The bit in a run's count that is set if each of its records has its position listed.
const IS_LISTED: u32 = 1 << 31;

/// Value for an unknown start of the last record. No record starts at byte 1.
const PREVIOUS_UNKNOWN: u32 = 1;

/// One entry of a checkpoint.
#[derive(Debug)]
pub(crate) enum Entry {
    /// A container. The block entries after it are its blocks.
    Container(u64, Layout, Index),
    /// A block: its local id, and what the index knows about it.
    Block(u64, Block),
    /// The id of a deleted container whose folder may still exist.
    Deleted(u64),
}

/// The path of the checkpoint at a position.
pub fn checkpoint_path(at: Position) -> String {
    format!("{INDEX_DIR}/{:016x}.idx", at.to_u64())
}

fn parse_name(name: &str) -> Option<Position> {
    let digits = name.strip_suffix(".idx")?;
    let at = Position::from_u64(u64::from_str_radix(digits, 16).ok()?);
    (checkpoint_path(at).strip_prefix(INDEX_DIR)?.strip_prefix('/')? == name).then_some(at)
}

/// The positions of all checkpoints, sorted.
pub fn list_checkpoints<D: Disk>(disk: &D) -> Result<Vec<Position>, ChunkError> {
    let names = disk.list(INDEX_DIR);
    let names = names.map_err(|error| ChunkError::io(INDEX_DIR, "list", error))?;
    Ok(names.iter().filter_map(|name| parse_name(name)).collect())
}

/// Removes a checkpoint.
pub fn remove_checkpoint<D: Disk>(disk: &D, at: Position) -> Result<(), ChunkError> {
    let path = checkpoint_path(at);
    disk.remove(&path).map_err(|error| ChunkError::io(&path, "remove", error))
}

/// Size of a checkpoint's file, in bytes.
pub fn checkpoint_bytes<D: Disk>(disk: &D, at: Position) -> Result<u64, ChunkError> {
    let path = checkpoint_path(at);
    let length = disk.open_read_only(&path).and_then(|file| disk.len(&file));
    length.map_err(|error| ChunkError::io(&path, "open", error))
}

/// Removes the file of a checkpoint that could not be written. The next checkpoint would overwrite
/// it, but until then it takes space that may be what is missing.
pub(crate) fn discard_checkpoint<D: Disk>(disk: &D) {
    drop(disk.remove(&temporary_path()));
}

/// Writes a checkpoint, entry by entry.
#[derive(Debug)]
pub(crate) struct CheckpointWriter<D: Disk> {
    disk: D,
    file: D::File,
    at: Position,
    offset: u64,
    /// Entries of the next piece, after a gap for its head.
    piece: Vec<u8>,
}

fn temporary_path() -> String {
    format!("{INDEX_DIR}/{TEMPORARY}")
}

impl<D: Disk> CheckpointWriter<D> {
    /// Starts a checkpoint. A start of the store that uses this checkpoint reads the log from
    /// `start` on.
    pub fn create(disk: D, store_id: u128, start: Start) -> Result<Self, ChunkError> {
        let path = temporary_path();
        let file = disk.create(&path).map_err(|error| ChunkError::io(&path, "create", error))?;
        let head = encode_head(store_id, start);
        let written = disk.write_at(&file, 0, &head);
        written.map_err(|error| ChunkError::io(&path, "write", error))?;
        let (offset, piece) = (head.len() as u64, vec![0; PIECE_HEAD_BYTES]);
        Ok(CheckpointWriter { disk, file, at: start.at, offset, piece })
    }

    /// Adds a container.
    pub fn put_container(&mut self, id: u64, layout: Layout, index: &Index) {
        self.piece.push(TAG_CONTAINER);
        self.piece.extend_from_slice(&id.to_le_bytes());
        crate::block::put_bytes(&mut self.piece, &encode_container(layout, index));
    }

    /// Adds the id of a deleted container whose folder may still exist.
    pub fn put_deleted(&mut self, id: u64) {
        self.piece.push(TAG_DELETED);
        self.piece.extend_from_slice(&id.to_le_bytes());
    }

    /// Adds a block of the last added container.
    pub fn put_block(&mut self, local_id: u64, block: &Block) {
        let out = &mut self.piece;
        out.push(TAG_BLOCK_RUNS);
        out.extend_from_slice(&local_id.to_le_bytes());
        out.extend_from_slice(&block.length.to_le_bytes());
        out.push(u8::from(block.is_finalized));
        out.push(u8::from(block.commit.is_some()));
        if let Some(commit) = &block.commit {
            out.extend_from_slice(&commit.at.to_u64().to_le_bytes());
            out.extend_from_slice(&commit.body_bytes.to_le_bytes());
            out.extend_from_slice(&commit.length.to_le_bytes());
            out.extend_from_slice(&commit.commit_sequence_id.to_le_bytes());
        }
        let runs = block.extents.runs();
        let count = u32::try_from(runs.len()).expect("a block has fewer bytes than 2^32");
        out.extend_from_slice(&count.to_le_bytes());
        runs.iter().for_each(|run| put_run(out, run));
    }

    /// Writes and syncs the added entries if they make up a piece. Other syncs thus never wait for
    /// more than one piece.
    pub fn maybe_write(&mut self) -> Result<(), ChunkError> {
        if self.piece.len() < CHECKPOINT_PIECE_BYTES {
            return Ok(());
        }
        self.write_piece()?;
        self.sync()
    }

    /// Bytes added so far, roughly.
    pub fn bytes(&self) -> u64 {
        self.offset + self.piece.len() as u64
    }

    fn sync(&self) -> Result<(), ChunkError> {
        let synced = self.disk.sync_data(&self.file);
        synced.map_err(|error| ChunkError::Io { file: temporary_path(), op: "sync", error })
    }

    fn write_piece(&mut self) -> Result<(), ChunkError> {
        let count = (self.piece.len() - PIECE_HEAD_BYTES) as u32;
        self.piece[..4].copy_from_slice(&count.to_le_bytes());
        let crc = crc32c_append(crc32c(&self.piece[..4]), &self.piece[8..]);
        self.piece[4..8].copy_from_slice(&crc.to_le_bytes());
        let written = self.disk.write_at(&self.file, self.offset, &self.piece);
        written.map_err(|error| ChunkError::io(&temporary_path(), "write", error))?;
        self.offset += self.piece.len() as u64;
        self.piece.truncate(PIECE_HEAD_BYTES);
        Ok(())
    }

    /// Completes the checkpoint and makes it durable under its temporary name.
    pub fn finish(mut self) -> Result<FinishedCheckpoint<D>, ChunkError> {
        if self.piece.len() > PIECE_HEAD_BYTES {
            self.write_piece()?;
        }
        self.write_piece()?;
        self.sync()?;
        Ok(FinishedCheckpoint { disk: self.disk, at: self.at, bytes: self.offset })
    }
}

/// A complete checkpoint that has its temporary name and is not used yet.
#[derive(Debug)]
pub(crate) struct FinishedCheckpoint<D: Disk> {
    disk: D,
    at: Position,
    bytes: u64,
}

impl<D: Disk> FinishedCheckpoint<D> {
    /// Size of the file, in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Renames the checkpoint, so that starts use it. Everything in it must be durable in the log.
    pub fn publish(self) -> Result<Position, ChunkError> {
        let path = checkpoint_path(self.at);
        let renamed = self.disk.rename(&temporary_path(), &path);
        renamed.map_err(|error| ChunkError::io(&path, "rename", error))?;
        let synced = self.disk.sync_dir(INDEX_DIR);
        synced.map_err(|error| ChunkError::io(INDEX_DIR, "sync", error))?;
        Ok(self.at)
    }
}

/// Reads a checkpoint and passes its entries to `visit`. Returns where a start that uses the
/// checkpoint begins to read the log; or what is wrong with the checkpoint.
pub(crate) fn read_checkpoint<D: Disk>(
    disk: &D,
    store_id: u128,
    at: Position,
    visit: &mut impl FnMut(Entry),
) -> Result<Result<Start, String>, ChunkError> {
    let path = checkpoint_path(at);
    let io = |op| move |error| ChunkError::io(&checkpoint_path(at), op, error);
    let file = disk.open_read_only(&path).map_err(io("open"))?;
    let mut head = [0; HEAD_BYTES];
    let count = read_fully(disk, &file, 0, &mut head).map_err(io("read"))?;
    let start = match decode_head(&head[..count], store_id, at) {
        Err(error) => return Ok(Err(error.to_string())),
        Ok(start) => start,
    };
    let mut offset = HEAD_BYTES as u64;
    loop {
        let mut piece_head = [0; PIECE_HEAD_BYTES];
        read_fully(disk, &file, offset, &mut piece_head).map_err(io("read"))?;
        let [a, b, c, d, e, f, g, h] = piece_head;
        let (count, crc) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        let mut piece = Vec::new();
        if count as usize <= CHECKPOINT_PIECE_BYTES_MAX {
            piece.resize(count as usize, 0);
            let start = offset + PIECE_HEAD_BYTES as u64;
            let read = read_fully(disk, &file, start, &mut piece).map_err(io("read"))?;
            piece.truncate(read);
        }
        if crc != crc32c_append(crc32c(&piece_head[..4]), &piece) {
            return Ok(Err(format!("the piece at byte {offset} does not match its checksum")));
        }
        if piece.is_empty() {
            return Ok(Ok(start));
        }
        if let Err(error) = decode_piece(&piece, visit) {
            return Ok(Err(format!("the piece at byte {offset} cannot be read: {error}")));
        }
        offset += (PIECE_HEAD_BYTES + piece.len()) as u64;
    }
}

/// Encodes the head of a checkpoint.
pub fn encode_head(store_id: u128, start: Start) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&CHECKPOINT_FORMAT_VERSION.to_le_bytes());
    out.extend_from_slice(&start.previous.unwrap_or(PREVIOUS_UNKNOWN).to_le_bytes());
    out.extend_from_slice(&store_id.to_le_bytes());
    out.extend_from_slice(&start.at.to_u64().to_le_bytes());
    let crc = crc32c(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// Decodes a head. It must be of the store `store_id` and of the position `at`.
pub fn decode_head(bytes: &[u8], store_id: u128, at: Position) -> Result<Start, DecodeError> {
    let mut reader = Reader::new(bytes);
    let covered = Reader::new(bytes).take(HEAD_BYTES - 4)?;
    if reader.take(MAGIC.len())? != MAGIC {
        return Err(reader.bad("this is not a checkpoint"));
    }
    let (version, previous) = (reader.u32()?, reader.u32()?);
    let (found_id, found_at) = (reader.u128()?, Position::from_u64(reader.u64()?));
    if reader.u32()? != crc32c(covered) {
        return Err(reader.bad("the checksum of the head does not match"));
    }
    let is_known = version > 1 && previous != PREVIOUS_UNKNOWN;
    let start = Start { at, previous: is_known.then_some(previous) };
    match (1..=CHECKPOINT_FORMAT_VERSION).contains(&version) {
        true if (found_id, found_at) == (store_id, at) => Ok(start),
        true => Err(reader.bad("it is another store's, or of another position")),
        false => Err(reader.bad("the checkpoint has an unknown format version")),
    }
}

/// Counts the entries of a piece; an error if it cannot be decoded. For programs that inspect a
/// store from outside.
pub fn count_entries(piece: &[u8]) -> Result<usize, DecodeError> {
    let mut count = 0;
    decode_piece(piece, &mut |_| count += 1)?;
    Ok(count)
}

/// Decodes the entries of a piece and passes them to `visit`.
pub(crate) fn decode_piece(piece: &[u8], visit: &mut impl FnMut(Entry)) -> Result<(), DecodeError> {
    let mut reader = Reader::new(piece);
    while reader.finish().is_err() {
        visit(match reader.u8()? {
            TAG_CONTAINER => {
                let id = reader.u64()?;
                let (layout, index) = decode_container(crate::block::read_bytes(&mut reader)?)?;
                Entry::Container(id, layout, index)
            }
            TAG_DELETED => Entry::Deleted(reader.u64()?),
            TAG_BLOCK => Entry::Block(reader.u64()?, decode_block(&mut reader, false)?),
            TAG_BLOCK_RUNS => Entry::Block(reader.u64()?, decode_block(&mut reader, true)?),
            _ => return Err(reader.bad("the kind of an entry is unknown")),
        });
    }
    Ok(())
}

/// Encodes a run: its offset in the block, segment, lengths, and the positions of its records.
fn put_run(out: &mut Vec<u8>, run: &Run) {
    out.extend_from_slice(&run.offset.to_le_bytes());
    let mut put = |number: u32| out.extend_from_slice(&number.to_le_bytes());
    [run.segment, run.length, run.skip, run.body_bytes].into_iter().for_each(&mut put);
    match &run.starts {
        Starts::Even { first, step, count } => [*count, *first, *step].into_iter().for_each(put),
        Starts::Listed(all) => {
            put(all.len() as u32 | IS_LISTED);
            all.iter().copied().for_each(put);
        }
    }
}

fn read_run(reader: &mut Reader<'_>) -> Result<Run, DecodeError> {
    let offset = reader.u64()?;
    let (segment, length) = (reader.u32()?, reader.u32()?);
    let (skip, body_bytes) = (reader.u32()?, reader.u32()?);
    let count = reader.u32()?;
    let starts = match count & IS_LISTED {
        0 => {
            let (first, step) = (reader.u32()?, reader.u32()?);
            let last = u64::from(first) + u64::from(step) * u64::from(count);
            if last > u64::from(u32::MAX) {
                return Err(reader.bad("a run ends behind its segment"));
            }
            Starts::Even { first, step, count }
        }
        _ => {
            let mut all = Vec::new();
            for _ in 0..count & !IS_LISTED {
                all.push(reader.u32()?);
            }
            all.shrink_to_fit();
            Starts::Listed(all)
        }
    };
    match starts.count() {
        0 => Err(reader.bad("a run has no records")),
        _ => Ok(Run { offset, segment, length, skip, body_bytes, starts }),
    }
}

fn decode_block(reader: &mut Reader<'_>, has_runs: bool) -> Result<Block, DecodeError> {
    let (length, is_finalized) = (reader.u64()?, reader.flag()?);
    let commit = match reader.flag()? {
        true => Some(Commit {
            at: Position::from_u64(reader.u64()?),
            body_bytes: reader.u32()?,
            length: reader.u64()?,
            commit_sequence_id: reader.u64()?,
        }),
        false => None,
    };
    let mut extents = Extents::default();
    for _ in 0..reader.u32()? {
        let run = if has_runs { read_run(reader)? } else { read_extent(reader)? };
        let is_within = u64::from(run.skip) + u64::from(run.length) <= u64::from(run.body_bytes);
        let bytes = u64::from(run.length) * u64::from(run.starts.count());
        let end = run.offset.checked_add(bytes);
        let is_sane = is_within && run.length > 0 && end.is_some_and(|end| end <= length);
        if !is_sane || run.offset < extents.end() {
            return Err(reader.bad("an extent is not where one can be"));
        }
        extents.push_run(run);
    }
    Ok(Block { extents, length, commit, is_finalized })
}

/// An extent in the encoding of version 1.
fn read_extent(reader: &mut Reader<'_>) -> Result<Run, DecodeError> {
    let (offset, length) = (reader.u64()?, reader.u32()?);
    let at = Position::from_u64(reader.u64()?);
    let (skip, body_bytes) = (reader.u32()?, reader.u32()?);
    let starts = Starts::Even { first: at.offset, step: 0, count: 1 };
    Ok(Run { offset, segment: at.segment, length, skip, body_bytes, starts })
}

#[cfg(test)]
mod tests;

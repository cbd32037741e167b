//! Writes and reads chunks, in each of the layouts.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use storage::disk::Disk;

use crate::block::{BlockData, BlockId, ChunkInfo};
use crate::container::{Container, Gathered, Index};
use crate::error::ChunkError;
use crate::extents::Extent;
use crate::layout::{Layout, block_file_name, check_chunk_name, temporary_chunk_name};
use crate::limits::{CHUNK_BYTES_MAX, FILE_GATHERED_BYTES_MAX, FILE_GATHERED_CHUNK_BYTES_MAX};
use crate::log::Record;
use crate::open_files::FileKey;
use crate::record::{
    HEADER_BYTES, Header, Kind, PIECE_BYTES, Position, decode_header, decode_trailer,
    first_bad_piece, trailer_bytes,
};
use crate::segment::segment_path;
use crate::segment_reader::read_fully;
use crate::store::containers::wrong_state;
use crate::store::{Durability, Stage, Store, WriteMode};

/// Most attempts at a read whose record was moved, and its old segment removed, during the read.
const READ_TRIES_MAX: u32 = 8;

impl<D: Disk + Clone> Store<D> {
    /// Writes a chunk at its offset in the block: behind the block's bytes, or over them. A
    /// [`Stage::Commit`] brings no data.
    pub fn write_chunk(
        &self,
        id: BlockId,
        chunk: &ChunkInfo,
        data: &[u8],
        mode: WriteMode,
    ) -> Result<(), ChunkError> {
        let container = self.find(id.container_id)?;
        if let Stage::Commit { term, index } = mode.stage {
            return self.commit_chunk(&container, id, chunk, (term, index), mode.durability);
        }
        self.check_chunk(chunk, data)?;
        match container.layout {
            Layout::Log => self.write_to_log(&container, id, chunk, data, mode.durability),
            Layout::PerBlock => self.write_to_block(&container, id, chunk, data, mode.durability),
            Layout::PerChunk => self.write_to_own_file(&container, id, chunk, data, mode),
        }
    }

    fn check_chunk(&self, chunk: &ChunkInfo, data: &[u8]) -> Result<(), ChunkError> {
        let (bytes, bytes_max) = (data.len() as u64, CHUNK_BYTES_MAX);
        if bytes != chunk.length {
            let name = chunk.name.clone();
            return Err(ChunkError::WrongLength { name, length: chunk.length, bytes });
        }
        if bytes > bytes_max {
            return Err(ChunkError::ChunkTooLarge { bytes, bytes_max });
        }
        if self.options.verify_writes {
            let verified = chunk.checksum.verify(data);
            let name = || chunk.name.clone();
            verified.map_err(|what| ChunkError::ChecksumMismatch { name: name(), what })?;
        }
        Ok(())
    }

    /// Returns the block's length so far if the block may take the chunk: its state, its
    /// container's state and the limits allow it. If a block's chunks are in one place, a chunk may
    /// not leave a hole before it.
    fn admit(
        &self,
        container: &Container,
        index: &Index,
        id: BlockId,
        chunk: &ChunkInfo,
    ) -> Result<u64, ChunkError> {
        self.log.check()?;
        check_state(index, id, "chunk")?;
        if self.is_over_limit.load(Ordering::Relaxed) && !self.has_room_again()? {
            return Err(ChunkError::DiskFull { bytes_wanted: 0 });
        }
        let block = index.blocks.get(&id.local_id);
        let (length, is_finalized) =
            block.map_or((0, false), |block| (block.length, block.is_finalized));
        if is_finalized {
            return Err(ChunkError::Finalized(id));
        }
        if chunk.offset > length && container.layout != Layout::PerChunk {
            return Err(ChunkError::Gap { id, length, offset: chunk.offset });
        }
        if chunk.end() > self.options.block_bytes_max {
            let (bytes, bytes_max) = (chunk.end(), self.options.block_bytes_max);
            return Err(ChunkError::BlockTooLarge { id, bytes, bytes_max });
        }
        let bytes = index.bytes_used.saturating_add(chunk.end().saturating_sub(length));
        if bytes > self.options.container_bytes_max {
            let (container_id, bytes_max) = (id.container_id, self.options.container_bytes_max);
            return Err(ChunkError::ContainerTooLarge { container_id, bytes, bytes_max });
        }
        Ok(length)
    }

    fn write_to_log(
        &self,
        container: &Container,
        id: BlockId,
        chunk: &ChunkInfo,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), ChunkError> {
        let record = Record {
            kind: Kind::Chunk,
            container_id: id.container_id,
            local_id: id.local_id,
            block_offset: chunk.offset,
            body: data,
        };
        let (at, unwritten) = {
            let mut index = container.index.lock();
            self.admit(container, &index, id, chunk)?;
            if data.is_empty() {
                return Ok(());
            }
            let (at, unwritten) = self.log.reserve(&record)?;
            let extent = Extent::from_record(chunk.offset, at, data.len() as u32);
            index.put_extent(id.local_id, extent, &self.live);
            (at, unwritten)
        };
        self.log.finish(unwritten, &record)?;
        self.settle(at, durability)
    }

    fn write_to_block(
        &self,
        container: &Container,
        id: BlockId,
        chunk: &ChunkInfo,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), ChunkError> {
        let before = {
            let mut index = container.index.lock();
            self.index_found_file(container, &mut index, id)?;
            let before = self.admit(container, &index, id, chunk)?;
            check_whole(&index, id, before)?;
            if data.is_empty() {
                return Ok(());
            }
            let is_small = data.len() <= FILE_GATHERED_CHUNK_BYTES_MAX;
            if is_small && durability == Durability::Buffered && chunk.offset == before {
                index.grow(id.local_id, chunk.end());
                return self.gather(container, &mut index, id, chunk.offset, data);
            }
            self.write_gathered(container, &mut index, id)?;
            index.grow(id.local_id, chunk.end());
            before
        };
        let path = block_path(container, id.local_id);
        let written = self.block_file(container, id.local_id).and_then(|file| {
            self.direct.write(&self.disk, &file, chunk.offset, data)?;
            Ok(file)
        });
        let file = written.map_err(|error| {
            let mut index = container.index.lock();
            index.shrink(id.local_id, chunk.end(), before);
            unless_gone(&index, id, ChunkError::io(&path, "write", error))
        })?;
        if durability == Durability::Buffered {
            return Ok(());
        }
        self.sync_file(&path, &file)?;
        // The file's name may be as new as its bytes.
        self.sync_dir(&container.path)?;
        self.settle_container(container, durability)
    }

    /// Adds a small chunk to those gathered for its block, which are written together. A container
    /// gathers for one block at a time: before a chunk of another block is added, the bytes that
    /// were gathered for the first block are written.
    fn gather(
        &self,
        container: &Container,
        index: &mut Index,
        id: BlockId,
        offset: u64,
        data: &[u8],
    ) -> Result<(), ChunkError> {
        let is_behind = index
            .gathered
            .as_ref()
            .is_some_and(|gathered| gathered.local_id == id.local_id && gathered.end() == offset);
        if !is_behind {
            // An error about another block is returned to callers that use that block.
            let _ = self.write_gathered_any(container, index);
            let mut bytes = core::mem::take(&mut index.gather_buffer);
            bytes.clear();
            index.gathered = Some(Gathered { local_id: id.local_id, offset, bytes });
            self.gathering.lock().insert(container.id);
        }
        let gathered = index.gathered.as_mut().expect("it was made if there was none");
        gathered.bytes.extend_from_slice(data);
        match gathered.bytes.len() >= FILE_GATHERED_BYTES_MAX {
            true => self.write_gathered_any(container, index),
            false => Ok(()),
        }
    }

    /// Writes what was gathered for this block, if anything.
    pub(super) fn write_gathered(
        &self,
        container: &Container,
        index: &mut Index,
        id: BlockId,
    ) -> Result<(), ChunkError> {
        match &index.gathered {
            Some(gathered) if gathered.local_id == id.local_id => {
                self.write_gathered_any(container, index)
            }
            _ => Ok(()),
        }
    }

    /// Writes what was gathered in the container. If that fails, the block gets its former length.
    pub(super) fn write_gathered_any(
        &self,
        container: &Container,
        index: &mut Index,
    ) -> Result<(), ChunkError> {
        let Some(Gathered { local_id, offset, bytes }) = index.gathered.take() else {
            return Ok(());
        };
        let file = self.block_file(container, local_id);
        let written = file.and_then(|file| self.disk.write_at(&file, offset, &bytes));
        if written.is_err() {
            index.shrink(local_id, offset + bytes.len() as u64, offset);
        }
        index.gather_buffer = bytes;
        written.map_err(|error| ChunkError::io(&block_path(container, local_id), "write", error))
    }

    /// Writes what was gathered in all containers.
    pub(super) fn write_all_gathered(&self) -> Result<(), ChunkError> {
        let container_ids = core::mem::take(&mut *self.gathering.lock());
        let mut result = Ok(());
        for container_id in container_ids {
            let Ok(container) = self.find(container_id) else { continue };
            let mut index = container.index.lock();
            let written = self.write_gathered_any(&container, &mut index);
            index.gather_buffer = Vec::new();
            result = result.and(written);
        }
        result
    }

    /// Makes the container itself durable (its record, and the names of its folders), for a file in
    /// it that must be durable. Does nothing if the container is durable already.
    pub(super) fn settle_container(
        &self,
        container: &Container,
        durability: Durability,
    ) -> Result<(), ChunkError> {
        if container.is_durable.load(Ordering::Acquire) {
            return Ok(());
        }
        let end = self.log.end();
        self.log.sync(end, durability == Durability::GroupSynced)?;
        self.sync_names(container)?;
        container.is_durable.store(true, Ordering::Release);
        Ok(())
    }

    fn write_to_own_file(
        &self,
        container: &Container,
        id: BlockId,
        chunk: &ChunkInfo,
        data: &[u8],
        mode: WriteMode,
    ) -> Result<(), ChunkError> {
        check_chunk_name(&chunk.name)?;
        let before = {
            let mut index = container.index.lock();
            let before = self.admit(container, &index, id, chunk)?;
            index.grow(id.local_id, chunk.end());
            before
        };
        let path = match mode.stage {
            Stage::Write { term, index } => {
                format!("{}/{}", container.path, temporary_chunk_name(&chunk.name, term, index))
            }
            _ => format!("{}/{}", container.path, chunk.name),
        };
        let written = self.write_new_file(&path, data, mode.durability);
        written.map_err(|error| {
            let mut index = container.index.lock();
            index.shrink(id.local_id, chunk.end(), before);
            unless_gone(&index, id, error)
        })?;
        self.settle_name(container, mode)
    }

    /// Writes a chunk's file. A file that has bytes already is replaced as a whole, so a write that
    /// is cut short leaves the old file.
    fn write_new_file(
        &self,
        path: &str,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), ChunkError> {
        let io = |op| move |error| ChunkError::io(path, op, error);
        let file = match self.disk.create_new(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let file = self.disk.open_or_create(path).map_err(io("open"))?;
                let bytes = self.disk.len(&file).map_err(io("read"))?;
                Some(file).filter(|_| bytes == 0)
            }
            made => Some(made.map_err(io("create"))?),
        };
        if let Some(file) = file {
            return self.write_all_of_file(path, &file, data, durability);
        }
        let count = self.replaced.fetch_add(1, Ordering::Relaxed);
        let temporary = format!("{path}.new.{count}");
        let file = self.disk.create(&temporary).map_err(io("create"))?;
        let written = self.write_all_of_file(&temporary, &file, data, durability);
        let renamed =
            written.and_then(|()| self.disk.rename(&temporary, path).map_err(io("rename")));
        renamed.inspect_err(|_| drop(self.disk.remove(&temporary)))
    }

    fn write_all_of_file(
        &self,
        path: &str,
        file: &D::File,
        data: &[u8],
        durability: Durability,
    ) -> Result<(), ChunkError> {
        let written = self.direct.write(&self.disk, file, 0, data);
        written.map_err(|error| ChunkError::io(path, "write", error))?;
        match durability {
            Durability::Buffered => Ok(()),
            _ => self.sync_file(path, file),
        }
    }

    /// Renames a chunk's file to its final name. If the file has that name already, it was
    /// committed before.
    fn commit_chunk(
        &self,
        container: &Container,
        id: BlockId,
        chunk: &ChunkInfo,
        (term, index): (u64, u64),
        durability: Durability,
    ) -> Result<(), ChunkError> {
        check_writable(&container.index.lock(), id, "chunk")?;
        if container.layout != Layout::PerChunk {
            return Ok(());
        }
        check_chunk_name(&chunk.name)?;
        let path = format!("{}/{}", container.path, chunk.name);
        let from = format!("{}/{}", container.path, temporary_chunk_name(&chunk.name, term, index));
        match self.disk.rename(&from, &path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let exists = self.disk.exists(&path);
                if !exists.map_err(|error| ChunkError::io(&path, "find", error))? {
                    return Err(ChunkError::NoSuchChunk { id, name: chunk.name.clone() });
                }
            }
            Err(error) => return Err(ChunkError::io(&from, "rename", error)),
        }
        let stage = Stage::Commit { term, index };
        self.settle_name(container, WriteMode { stage, durability })
    }

    /// Makes the name of a chunk's file durable, if `mode` demands that.
    fn settle_name(&self, container: &Container, mode: WriteMode) -> Result<(), ChunkError> {
        if mode.durability == Durability::Buffered {
            return Ok(());
        }
        self.sync_dir(&container.path)?;
        self.settle_container(container, mode.durability)
    }

    /// The open file of a block, for writing.
    pub(super) fn block_file(
        &self,
        container: &Container,
        local_id: u64,
    ) -> io::Result<Arc<D::File>> {
        let key = FileKey::Block(BlockId { container_id: container.id, local_id });
        self.files.get(key, || self.disk.open_or_create(&block_path(container, local_id)))
    }

    /// Adds a block to the index whose file was written before a restart and not committed.
    pub(super) fn index_found_file(
        &self,
        container: &Container,
        index: &mut Index,
        id: BlockId,
    ) -> Result<(), ChunkError> {
        let is_known = !index.has_unknown_files || container.layout != Layout::PerBlock;
        if is_known || index.learned.contains(&id.local_id) {
            return Ok(());
        }
        let path = block_path(container, id.local_id);
        let length = match self.disk.open_read_only(&path) {
            Ok(file) => self.disk.len(&file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        };
        let length = length.map_err(|error| ChunkError::io(&path, "open", error))?;
        index.learned.insert(id.local_id);
        let known = index.blocks.get(&id.local_id).map_or(0, |block| block.length);
        if length < known {
            index.short_files.insert(id.local_id);
        } else if length > 0 {
            index.grow(id.local_id, length);
        }
        Ok(())
    }

    /// Appends to `out` the `chunk.length` bytes of the block from `chunk.offset` on. The chunk's
    /// name matters only if each chunk is a file. Data from the log are checked against the log's
    /// own checksums. `commit_sequence_id` is as for [`Store::block`].
    pub fn read_chunk(
        &self,
        id: BlockId,
        chunk: &ChunkInfo,
        commit_sequence_id: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), ChunkError> {
        if chunk.length > CHUNK_BYTES_MAX {
            let (bytes, bytes_max) = (chunk.length, CHUNK_BYTES_MAX);
            return Err(ChunkError::ChunkTooLarge { bytes, bytes_max });
        }
        let container = self.find(id.container_id)?;
        self.check_commit(&container, id, commit_sequence_id)?;
        let before = out.len();
        let read = match container.layout {
            Layout::Log => self.read_from_log(&container, id, chunk, out),
            Layout::PerBlock => self.read_from_block(&container, id, chunk, out),
            Layout::PerChunk => self.read_from_own_file(&container, id, chunk, out),
        };
        if read.is_err() {
            out.truncate(before);
        }
        read
    }

    fn read_from_log(
        &self,
        container: &Container,
        id: BlockId,
        chunk: &ChunkInfo,
        out: &mut Vec<u8>,
    ) -> Result<(), ChunkError> {
        let before = out.len();
        let mut tries = 0;
        loop {
            out.truncate(before);
            tries += 1;
            let extents = {
                let index = container.index.lock();
                check_readable(&index, id)?;
                let name = || chunk.name.clone();
                let block = index.blocks.get(&id.local_id);
                let block = block.ok_or_else(|| ChunkError::NoSuchChunk { id, name: name() })?;
                let (length, end) = (block.length, chunk.end());
                if end > length {
                    return Err(ChunkError::PastTheEnd { id, length, end });
                }
                block.extents.within(chunk.offset, end).map_err(|start| ChunkError::Damaged {
                    id,
                    start,
                    end,
                    what: "the log has lost what was written there".to_owned(),
                })?
            };
            match extents.iter().try_for_each(|extent| self.read_extent(id, extent, out)) {
                // The record was moved, and its former segment is gone.
                Err(ChunkError::Io { error, .. })
                    if error.kind() == io::ErrorKind::NotFound && tries < READ_TRIES_MAX => {}
                other => return other,
            }
        }
    }

    /// Appends the bytes of an extent to `out`, after checking them.
    pub(crate) fn read_extent(
        &self,
        id: BlockId,
        extent: &Extent,
        out: &mut Vec<u8>,
    ) -> Result<(), ChunkError> {
        let first = extent.skip as usize / PIECE_BYTES;
        let last = (extent.skip + extent.length) as usize;
        let last = last.div_ceil(PIECE_BYTES) * PIECE_BYTES;
        let last = last.min(extent.body_bytes as usize);
        let start = first * PIECE_BYTES;
        let before = out.len();
        let bad = |what: String| ChunkError::Damaged {
            id,
            start: extent.offset,
            end: extent.end(),
            what: format!("{}, {}: {what}", segment_path(extent.at.segment), extent.at),
        };
        let read = self.read_record(extent.at, extent.body_bytes, start..last, out)?;
        let (header, crcs) = read.map_err(bad)?;
        if header.container_id != id.container_id || header.local_id != id.local_id {
            return Err(bad("the record there is of another block".to_owned()));
        }
        if let Some(piece) = first_bad_piece(&out[before..], first, &crcs) {
            return Err(bad(format!("piece {piece} of the record does not match its checksum")));
        }
        let from = extent.skip as usize - start;
        out.drain(before..before + from);
        out.truncate(before + extent.length as usize);
        Ok(())
    }

    /// Appends a part of a record's body to `out`, unchecked. Returns the record's header and the
    /// checksums of its pieces; or what is wrong with the header or the trailer.
    pub(super) fn read_record(
        &self,
        at: Position,
        body_bytes: u32,
        part: std::ops::Range<usize>,
        out: &mut Vec<u8>,
    ) -> Result<Result<(Header, Vec<u32>), String>, ChunkError> {
        self.log.flush_for_read(at)?;
        let path = || segment_path(at.segment);
        let failed = |op| move |error| ChunkError::io(&segment_path(at.segment), op, error);
        let file =
            self.files.get(FileKey::Segment(at.segment), || self.disk.open_read_only(&path()));
        let file = file.map_err(failed("open"))?;
        let (start, body_bytes) = (u64::from(at.offset), body_bytes as usize);
        let body_start = start + HEADER_BYTES as u64;
        let mut head = [0; HEADER_BYTES];
        read_fully(&self.disk, &file, start, &mut head).map_err(failed("read"))?;
        let mut trailer = vec![0; trailer_bytes(body_bytes)];
        let trailer_start = body_start + body_bytes as u64;
        read_fully(&self.disk, &file, trailer_start, &mut trailer).map_err(failed("read"))?;
        let before = out.len();
        out.resize(before + part.len(), 0);
        let from = body_start + part.start as u64;
        read_fully(&self.disk, &file, from, &mut out[before..]).map_err(failed("read"))?;
        let salt = self.identity.salt;
        let header = decode_header(&head, at, salt).map_err(|error| error.to_string());
        Ok(header.and_then(|header| match header.body_bytes as usize == body_bytes {
            true => decode_trailer(&header, &trailer, salt)
                .map(|crcs| (header, crcs))
                .map_err(|error| error.to_string()),
            false => Err("the record there has another length".to_owned()),
        }))
    }

    fn read_from_block(
        &self,
        container: &Container,
        id: BlockId,
        chunk: &ChunkInfo,
        out: &mut Vec<u8>,
    ) -> Result<(), ChunkError> {
        {
            let mut index = container.index.lock();
            check_readable(&index, id)?;
            self.index_found_file(container, &mut index, id)?;
            self.write_gathered(container, &mut index, id)?;
            let block = index.blocks.get(&id.local_id).filter(|block| block.length > 0);
            let name = || chunk.name.clone();
            let block = block.ok_or_else(|| ChunkError::NoSuchChunk { id, name: name() })?;
            if chunk.end() > block.length {
                let (length, end) = (block.length, chunk.end());
                return Err(ChunkError::PastTheEnd { id, length, end });
            }
        }
        let path = block_path(container, id.local_id);
        let key = FileKey::BlockToRead(id);
        let file = match self.files.get(key, || self.disk.open_read_only(&path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ChunkError::NoSuchChunk { id, name: chunk.name.clone() });
            }
            other => other.map_err(|error| ChunkError::io(&path, "open", error))?,
        };
        self.read_file(id, &file, chunk.offset, chunk, out)
            .map_err(|error| ChunkError::io(&path, "read", error))?
    }

    fn read_from_own_file(
        &self,
        container: &Container,
        id: BlockId,
        chunk: &ChunkInfo,
        out: &mut Vec<u8>,
    ) -> Result<(), ChunkError> {
        check_chunk_name(&chunk.name)?;
        check_readable(&container.index.lock(), id)?;
        // The request names bytes of the block; the chunk's file begins at the chunk's offset.
        let committed = match self.committed(container, id) {
            Ok(block) => Some(block),
            Err(ChunkError::NoSuchBlock(_)) => None,
            Err(error) => return Err(error),
        };
        let known = committed.as_ref().and_then(|block| chunk_named(block, &chunk.name));
        let start = known.map_or(chunk.offset, |known| known.offset);
        let path = format!("{}/{}", container.path, chunk.name);
        let file = match self.disk.open_read_only(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ChunkError::NoSuchChunk { id, name: chunk.name.clone() });
            }
            other => other.map_err(|error| ChunkError::io(&path, "open", error))?,
        };
        self.read_file(id, &file, chunk.offset.saturating_sub(start), chunk, out)
            .map_err(|error| ChunkError::io(&path, "read", error))?
    }

    /// Appends a chunk's bytes to `out`, from byte `from` of the file on.
    fn read_file(
        &self,
        id: BlockId,
        file: &D::File,
        from: u64,
        chunk: &ChunkInfo,
        out: &mut Vec<u8>,
    ) -> io::Result<Result<(), ChunkError>> {
        let before = out.len();
        out.resize(before + chunk.length as usize, 0);
        let count = read_fully(&self.disk, file, from, &mut out[before..])?;
        if count as u64 == chunk.length {
            return Ok(Ok(()));
        }
        let (length, end) = (chunk.offset + count as u64, chunk.end());
        Ok(Err(ChunkError::PastTheEnd { id, length, end }))
    }
}

/// Refuses to write to a block whose file lost committed bytes: the lost bytes would read as zeros,
/// and look like written data.
fn check_whole(index: &Index, id: BlockId, end: u64) -> Result<(), ChunkError> {
    match index.short_files.contains(&id.local_id) {
        true => {
            let what = "its file has fewer bytes than were committed".to_owned();
            Err(ChunkError::Damaged { id, start: 0, end, what })
        }
        false => Ok(()),
    }
}

/// The error of a failed write; `NoSuchContainer` if the container was deleted meanwhile.
fn unless_gone(index: &Index, id: BlockId, error: ChunkError) -> ChunkError {
    match index.is_gone {
        true => ChunkError::NoSuchContainer { container_id: id.container_id },
        false => error,
    }
}

fn chunk_named<'a>(block: &'a BlockData, name: &str) -> Option<&'a ChunkInfo> {
    block.chunks.iter().find(|chunk| chunk.name == name)
}

/// The path of a block's file.
pub(super) fn block_path(container: &Container, local_id: u64) -> String {
    format!("{}/{}", container.path, block_file_name(local_id))
}

/// Checks that a block and its container take writes.
pub(super) fn check_writable(
    index: &Index,
    id: BlockId,
    what: &'static str,
) -> Result<(), ChunkError> {
    check_state(index, id, what)?;
    match index.blocks.get(&id.local_id).is_some_and(|block| block.is_finalized) {
        true => Err(ChunkError::Finalized(id)),
        false => Ok(()),
    }
}

/// Checks that a container takes writes of that block.
fn check_state(index: &Index, id: BlockId, what: &'static str) -> Result<(), ChunkError> {
    match index.state {
        _ if index.is_gone => Err(ChunkError::NoSuchContainer { container_id: id.container_id }),
        _ if index.deleting.contains(&id.local_id) => Err(ChunkError::BeingDeleted(id)),
        state if state.takes_writes() => Ok(()),
        state => Err(wrong_state(id.container_id, state, what)),
    }
}

/// Checks that a container may be read.
pub(super) fn check_readable(index: &Index, id: BlockId) -> Result<(), ChunkError> {
    use crate::container::State;
    match index.state {
        _ if index.is_gone => Err(ChunkError::NoSuchContainer { container_id: id.container_id }),
        State::Invalid => Err(wrong_state(id.container_id, State::Invalid, "read")),
        _ => Ok(()),
    }
}

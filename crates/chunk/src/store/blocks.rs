//! Commits, looks up, finalizes and deletes blocks.

use std::io;
use std::sync::atomic::Ordering;

use storage::disk::Disk;

use crate::block::{BlockData, BlockId, ChunkInfo, decode_block, encode_block};
use crate::container::{Commit, Container, Index};
use crate::error::ChunkError;
use crate::layout::{Layout, check_chunk_name};
use crate::limits::RECORD_BODY_BYTES_MAX;
use crate::log::Record;
use crate::open_files::FileKey;
use crate::record::{Kind, Position, first_bad_piece};
use crate::segment::segment_path;
use crate::store::chunks::{block_path, check_readable, check_writable};
use crate::store::{Durability, Store};

/// If the metadata of a block have this key, its list has only the chunks since the last commit
/// (Ozone 2.2.0, `OzoneConsts.INCREMENTAL_CHUNK_LIST`).
const INCREMENTAL: &str = "incremental";

impl<D: Disk + Clone> Store<D> {
    /// Commits a block. Its list of chunks replaces the earlier one, or adds to it if the metadata
    /// have the key `incremental`. Returns the sum of the lengths of all chunks. The death of the
    /// process loses neither the commit nor what was written of the block before. After
    /// `is_end_of_block` the block's file is closed.
    pub fn put_block(
        &self,
        block: &BlockData,
        is_end_of_block: bool,
        durability: Durability,
    ) -> Result<u64, ChunkError> {
        let id = block.id;
        let container = self.find(id.container_id)?;
        let merged = self.merged(&container, block)?;
        let block = merged.as_ref().unwrap_or(block);
        let body = encode_block(block);
        if body.len() > RECORD_BODY_BYTES_MAX {
            let (bytes, bytes_max) = (body.len() as u64, RECORD_BODY_BYTES_MAX as u64);
            return Err(ChunkError::MetadataTooLarge { bytes, bytes_max });
        }
        self.check_lengths(block)?;
        {
            let mut index = container.index.lock();
            self.write_gathered(&container, &mut index, id)?;
        }
        let is_durable = durability != Durability::Buffered;
        self.check_files(&container, block, is_durable)?;
        let record = block_record(Kind::Block, id, &body);
        let (at, unwritten) = {
            let mut index = container.index.lock();
            self.index_found_file(&container, &mut index, id)?;
            check_writable(&index, id, "block")?;
            check_written(&container, &index, block)?;
            let (at, unwritten) = self.log.reserve(&record)?;
            index.put_commit(
                id.local_id,
                Commit {
                    at,
                    body_bytes: body.len() as u32,
                    length: block.length(),
                    commit_sequence_id: block.commit_sequence_id,
                },
                &self.live,
            );
            (at, unwritten)
        };
        self.log.finish(unwritten, &record)?;
        if is_end_of_block {
            self.files.forget(FileKey::Block(id));
        }
        match durability {
            Durability::Buffered => self.log.flush(Position { offset: at.offset + 1, ..at })?,
            _ => {
                self.settle(at, durability)?;
                container.is_durable.store(true, Ordering::Release);
            }
        }
        Ok(block.length())
    }

    /// Refuses a block whose chunks end beyond the largest block, or have more bytes than that in
    /// all.
    fn check_lengths(&self, block: &BlockData) -> Result<(), ChunkError> {
        let bytes = block.end().max(block.length());
        match bytes > self.options.block_bytes_max {
            true => {
                let bytes_max = self.options.block_bytes_max;
                Err(ChunkError::BlockTooLarge { id: block.id, bytes, bytes_max })
            }
            false => Ok(()),
        }
    }

    /// The block to commit if its list adds to the earlier one: the listed chunks replace those
    /// that start at or behind the first of them (Ozone 2.2.0,
    /// `DatanodeStoreWithIncrementalChunkList`).
    fn merged(
        &self,
        container: &Container,
        block: &BlockData,
    ) -> Result<Option<BlockData>, ChunkError> {
        if !block.has_metadata(INCREMENTAL) {
            return Ok(None);
        }
        let mut chunks = match self.committed(container, block.id) {
            Ok(before) => before.chunks,
            Err(ChunkError::NoSuchBlock(_)) => Vec::new(),
            Err(error) => return Err(error),
        };
        let first = block.chunks.first().map_or(u64::MAX, |chunk| chunk.offset);
        chunks.retain(|chunk| chunk.offset < first);
        chunks.extend(block.chunks.iter().cloned());
        Ok(Some(BlockData { chunks, ..block.clone() }))
    }

    /// In the layouts with files: refuses chunks whose bytes are not in their file. Makes the files
    /// durable if `is_durable`.
    pub(super) fn check_files(
        &self,
        container: &Container,
        block: &BlockData,
        is_durable: bool,
    ) -> Result<(), ChunkError> {
        let sync = |path: &str, file: &D::File| match is_durable {
            true => self.sync_file(path, file),
            false => Ok(()),
        };
        match container.layout {
            Layout::Log => return Ok(()),
            Layout::PerBlock => {
                let path = block_path(container, block.id.local_id);
                if let Some(last) = block.chunks.iter().max_by_key(|chunk| chunk.end()) {
                    self.check_file(block.id, &path, 0, last, &sync)?;
                }
            }
            Layout::PerChunk => {
                for chunk in &block.chunks {
                    check_chunk_name(&chunk.name)?;
                    let path = format!("{}/{}", container.path, chunk.name);
                    self.check_file(block.id, &path, chunk.offset, chunk, &sync)?;
                }
            }
        }
        if is_durable {
            self.sync_dir(&container.path)?;
            self.sync_names(container)?;
        }
        Ok(())
    }

    /// Refuses a chunk that ends behind its file; the file starts at byte `start` of the block.
    fn check_file(
        &self,
        id: BlockId,
        path: &str,
        start: u64,
        chunk: &ChunkInfo,
        sync: &impl Fn(&str, &D::File) -> Result<(), ChunkError>,
    ) -> Result<(), ChunkError> {
        if chunk.length == 0 {
            return Ok(());
        }
        let io = |op| move |error| ChunkError::io(path, op, error);
        let file = match self.disk.open_read_only(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(ChunkError::NoSuchChunk { id, name: chunk.name.clone() });
            }
            other => other.map_err(io("open"))?,
        };
        let length = start.saturating_add(self.disk.len(&file).map_err(io("read"))?);
        if chunk.end() > length {
            return Err(ChunkError::PastTheEnd { id, length, end: chunk.end() });
        }
        sync(path, &file)
    }

    /// A committed block. Unless `commit_sequence_id` is 0, the container and the block must have
    /// seen that commit.
    pub fn block(&self, id: BlockId, commit_sequence_id: u64) -> Result<BlockData, ChunkError> {
        let container = self.find(id.container_id)?;
        self.check_commit(&container, id, commit_sequence_id)?;
        self.committed(&container, id)
    }

    pub(super) fn check_commit(
        &self,
        container: &Container,
        id: BlockId,
        wanted: u64,
    ) -> Result<(), ChunkError> {
        if wanted == 0 {
            return Ok(());
        }
        let index = container.index.lock();
        let known = index.commit_sequence_id;
        if wanted > known {
            let container_id = id.container_id;
            return Err(ChunkError::UnknownCommit { container_id, wanted, known });
        }
        let commit = index.blocks.get(&id.local_id).and_then(|block| block.commit);
        match commit.map(|commit| commit.commit_sequence_id) {
            Some(known) if known < wanted => Err(ChunkError::CommitMismatch { id, wanted, known }),
            _ => Ok(()),
        }
    }

    /// Reads a committed block from the log.
    pub(super) fn committed(
        &self,
        container: &Container,
        id: BlockId,
    ) -> Result<BlockData, ChunkError> {
        let commit = {
            let index = container.index.lock();
            check_readable(&index, id)?;
            let block = index.blocks.get(&id.local_id);
            block.and_then(|block| block.commit).ok_or(ChunkError::NoSuchBlock(id))?
        };
        let mut body = Vec::new();
        let all = 0..commit.body_bytes as usize;
        let read = self.read_record(commit.at, commit.body_bytes, all, &mut body)?;
        let bad = |what: String| ChunkError::Damaged {
            id,
            start: 0,
            end: commit.length,
            what: format!("{}, {}: {what}", segment_path(commit.at.segment), commit.at),
        };
        let (_, crcs) = read.map_err(bad)?;
        match first_bad_piece(&body, 0, &crcs) {
            None => decode_block(id, &body).map_err(|error| bad(error.to_string())),
            Some(_) => Err(bad("the block's metadata do not match their checksum".to_owned())),
        }
    }

    /// At most `count_max` committed blocks, ordered by local id, from `start_local_id` on.
    pub fn blocks(
        &self,
        container_id: u64,
        start_local_id: u64,
        count_max: usize,
    ) -> Result<Vec<BlockData>, ChunkError> {
        let container = self.find(container_id)?;
        let local_ids: Vec<u64> = {
            let index = container.index.lock();
            let blocks = index.blocks.range(start_local_id..);
            let committed = blocks.filter(|(_, block)| block.commit.is_some());
            committed.map(|(local_id, _)| *local_id).take(count_max).collect()
        };
        let blocks = local_ids.into_iter().map(|local_id| BlockId { container_id, local_id });
        blocks.map(|id| self.committed(&container, id)).collect()
    }

    /// Sum of the lengths of all chunks of a committed block.
    pub fn committed_length(&self, id: BlockId) -> Result<u64, ChunkError> {
        let container = self.find(id.container_id)?;
        let index = container.index.lock();
        check_readable(&index, id)?;
        let commit = index.blocks.get(&id.local_id).and_then(|block| block.commit);
        commit.map(|commit| commit.length).ok_or(ChunkError::NoSuchBlock(id))
    }

    /// Finalizes a block durably: it takes no more writes. Returns what was committed.
    pub fn finalize_block(&self, id: BlockId) -> Result<BlockData, ChunkError> {
        let container = self.find(id.container_id)?;
        let block = self.committed(&container, id)?;
        let at = {
            let mut index = container.index.lock();
            if index.blocks.get(&id.local_id).is_some_and(|block| block.is_finalized) {
                return Ok(block);
            }
            check_writable(&index, id, "end of a block")?;
            let at = self.log.append(&block_record(Kind::BlockFinalized, id, &[]))?;
            index.blocks.entry(id.local_id).or_default().is_finalized = true;
            at
        };
        self.files.forget(FileKey::Block(id));
        self.settle(at, Durability::GroupSynced)?;
        Ok(block)
    }

    /// Deletes a block with its chunks, durably, whatever the state of its container.
    pub fn delete_block(&self, id: BlockId) -> Result<(), ChunkError> {
        self.with_room(|| self.try_delete_block(id))
    }

    fn try_delete_block(&self, id: BlockId) -> Result<(), ChunkError> {
        let container = self.find(id.container_id)?;
        let names = match container.layout {
            Layout::PerChunk => {
                let chunks = self.committed(&container, id)?.chunks;
                chunks.into_iter().map(|chunk| chunk.name).collect()
            }
            _ => Vec::new(),
        };
        let at = {
            let mut index = container.index.lock();
            check_readable(&index, id)?;
            self.index_found_file(&container, &mut index, id)?;
            if !index.blocks.contains_key(&id.local_id) {
                return Err(ChunkError::NoSuchBlock(id));
            }
            let _ = self.write_gathered(&container, &mut index, id);
            let at = self.log.append(&block_record(Kind::BlockDeleted, id, &[]))?;
            index.remove_block(id.local_id, &self.live);
            if container.layout.has_files() {
                // Until the files are gone, nobody may write to them: the bytes would go with them.
                index.deleting.insert(id.local_id);
            }
            at
        };
        self.has_garbage.store(true, Ordering::Relaxed);
        let settled = self.settle(at, Durability::GroupSynced);
        let removed = settled.and_then(|()| match container.layout {
            Layout::Log => Ok(()),
            Layout::PerBlock => self.remove_file(&block_path(&container, id.local_id)),
            Layout::PerChunk => names.iter().try_for_each(|name| {
                check_chunk_name(name)?;
                self.remove_file(&format!("{}/{name}", container.path))
            }),
        });
        self.files.forget_block(id);
        container.index.lock().deleting.remove(&id.local_id);
        removed
    }

    fn remove_file(&self, path: &str) -> Result<(), ChunkError> {
        match self.disk.remove(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(|error| ChunkError::io(path, "remove", error)),
        }
    }
}

/// A record about a block.
fn block_record(kind: Kind, id: BlockId, body: &[u8]) -> Record<'_> {
    let BlockId { container_id, local_id } = id;
    Record { kind, container_id, local_id, block_offset: 0, body }
}

/// Refuses a commit of chunks that were not written. (Ozone 2.2 checks only whether a file exists.)
fn check_written(
    container: &Container,
    index: &Index,
    block: &BlockData,
) -> Result<(), ChunkError> {
    if container.layout == Layout::PerChunk {
        return Ok(());
    }
    let length = index.blocks.get(&block.id.local_id).map_or(0, |block| block.length);
    let id = block.id;
    match block.chunks.iter().find(|chunk| chunk.end() > length) {
        Some(chunk) if length == 0 => Err(ChunkError::NoSuchChunk { id, name: chunk.name.clone() }),
        Some(chunk) => Err(ChunkError::PastTheEnd { id, length, end: chunk.end() }),
        None => Ok(()),
    }
}

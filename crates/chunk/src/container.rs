//! Holds a container in memory: its state, and the index of its blocks, which says where each
//! block's bytes are. Every change of the index also counts which bytes of the log are still needed
//! (`live`).

pub(crate) mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use storage::codec::{DecodeError, Reader};

use crate::block::{KeyValue, put_option, put_pairs, read_option, read_pairs};
use crate::extents::{Extent, Extents};
use crate::layout::Layout;
use crate::live::Live;
use crate::record::Position;
use crate::segment::LOG_DIR;

pub use state::State;

/// The settings that a client asks for in a new container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerSpec {
    /// The layout of its chunks; `None` for the store's default.
    pub layout: Option<Layout>,
    /// Whether the container starts as [`State::Recovering`].
    pub is_recovering: bool,
    /// Key-value pairs that the client gave the container.
    pub metadata: Vec<KeyValue>,
    /// Which part of each erasure-coded stripe the container holds, as the client said; `None`
    /// without erasure coding.
    pub replica_index: Option<u32>,
}

/// A description of a container, for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerInfo {
    /// The container's id.
    pub id: u64,
    /// The layout of its chunks.
    pub layout: Layout,
    /// The container's state.
    pub state: State,
    /// Key-value pairs that the client gave the container.
    pub metadata: Vec<KeyValue>,
    /// Which part of each erasure-coded stripe the container holds; `None` without erasure coding.
    pub replica_index: Option<u32>,
    /// Bytes of its chunks. After a restart, in the layouts with files, only the bytes of committed
    /// blocks.
    pub bytes_used: u64,
    /// Number of committed blocks.
    pub block_count: u64,
    /// The highest commit sequence id of its blocks.
    pub commit_sequence_id: u64,
    /// The folder of its chunks, relative to the store's directory; the log's folder if it has
    /// none.
    pub path: String,
}

/// A container in memory.
#[derive(Debug)]
pub(crate) struct Container {
    /// The container's id.
    pub id: u64,
    /// The layout of its chunks, which never changes.
    pub layout: Layout,
    /// The folder of its chunks; empty if it has none.
    pub path: String,
    /// Whether the container's first record and the names of its folders are durable.
    pub is_durable: AtomicBool,
    /// The part that changes: state and blocks.
    pub index: Mutex<Index>,
}

/// The state of a container, and the index of its blocks.
#[derive(Debug)]
pub(crate) struct Index {
    /// The container's state.
    pub state: State,
    /// Key-value pairs that the client gave the container.
    pub metadata: Vec<KeyValue>,
    /// Which part of each erasure-coded stripe the container holds; `None` without erasure coding.
    pub replica_index: Option<u32>,
    /// The container's blocks, by local id.
    pub blocks: BTreeMap<u64, Block>,
    /// Bytes of all its blocks.
    pub bytes_used: u64,
    /// Number of committed blocks.
    pub block_count: u64,
    /// The highest commit sequence id of its blocks.
    pub commit_sequence_id: u64,
    /// Whether the container was deleted; only threads that found it before still have it.
    pub is_gone: bool,
    /// Whether there may be files of blocks that the index does not have: blocks that were not
    /// committed before a restart.
    pub has_unknown_files: bool,
    /// Local ids of blocks whose files were looked for since the restart.
    pub learned: BTreeSet<u64>,
    /// Local ids in `learned` whose file had fewer bytes than were committed. These blocks take no
    /// more writes.
    pub short_files: BTreeSet<u64>,
    /// Local ids of deleted blocks whose files still exist.
    pub deleting: BTreeSet<u64>,
    /// Small chunks of one block that are not in its file yet.
    pub gathered: Option<Gathered>,
    /// Memory in which the next block's chunks are gathered, kept for reuse.
    pub gather_buffer: Vec<u8>,
}

/// Small chunks that are not written to the end of their block's file yet.
#[derive(Debug)]
pub(crate) struct Gathered {
    /// The local id of the block.
    pub local_id: u64,
    /// The byte of the block where these bytes go.
    pub offset: u64,
    /// The gathered bytes.
    pub bytes: Vec<u8>,
}

impl Gathered {
    /// The byte of the block where the next chunk would go.
    pub fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

/// A block in memory.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// Where the block's bytes are in the log; empty in the layouts with files.
    pub extents: Extents,
    /// The length of the block in bytes.
    pub length: u64,
    /// The last commit, if any.
    pub commit: Option<Commit>,
    /// Whether the block takes no more writes.
    pub is_finalized: bool,
}

/// A commit of a block: where its record is in the log, and what the record says in short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Commit {
    /// The position of the record.
    pub at: Position,
    /// Bytes of the record's body.
    pub body_bytes: u32,
    /// Sum of the lengths of all chunks, in bytes.
    pub length: u64,
    /// The index of this commit in the log that replicated the container (Ratis's, not the store's
    /// own log); 0 without replication.
    pub commit_sequence_id: u64,
}

impl Container {
    /// A container with this index.
    pub fn new(id: u64, layout: Layout, path: String, index: Index) -> Container {
        let is_durable = AtomicBool::new(path.is_empty());
        Container { id, layout, path, is_durable, index: Mutex::new(index) }
    }

    /// Describes the container for clients.
    pub fn info(&self) -> ContainerInfo {
        let index = self.index.lock();
        ContainerInfo {
            id: self.id,
            layout: self.layout,
            state: index.state,
            metadata: index.metadata.clone(),
            replica_index: index.replica_index,
            bytes_used: index.bytes_used,
            block_count: index.block_count,
            commit_sequence_id: index.commit_sequence_id,
            path: if self.path.is_empty() { LOG_DIR.to_owned() } else { self.path.clone() },
        }
    }
}

impl Index {
    /// The index of a container without blocks.
    pub fn new(state: State, metadata: Vec<KeyValue>, replica_index: Option<u32>) -> Index {
        Index {
            state,
            metadata,
            replica_index,
            blocks: BTreeMap::new(),
            bytes_used: 0,
            block_count: 0,
            commit_sequence_id: 0,
            is_gone: false,
            has_unknown_files: false,
            learned: BTreeSet::new(),
            short_files: BTreeSet::new(),
            deleting: BTreeSet::new(),
            gathered: None,
            gather_buffer: Vec::new(),
        }
    }

    /// Records that a block has bytes up to `end` at least.
    pub fn grow(&mut self, local_id: u64, end: u64) -> &mut Block {
        let block = self.blocks.entry(local_id).or_default();
        if end > block.length {
            // A commit by an earlier version may claim any length.
            self.bytes_used = self.bytes_used.saturating_add(end - block.length);
            block.length = end;
        }
        block
    }

    /// Records that a write up to `end` failed: the block gets its former length `before`, unless
    /// it was written to since.
    pub fn shrink(&mut self, local_id: u64, end: u64, before: u64) {
        let Some(block) = self.blocks.get_mut(&local_id) else { return };
        if block.length == end && before < end {
            self.bytes_used = self.bytes_used.saturating_sub(end - before);
            block.length = before;
            if before == 0 && block.commit.is_none() {
                self.blocks.remove(&local_id);
            }
        }
    }

    /// Records that a chunk is in the log.
    pub fn put_extent(&mut self, local_id: u64, extent: Extent, live: &Live) {
        let block = self.grow(local_id, extent.end());
        block.extents.put(extent, &mut |extent, is_needed| live.change(extent, is_needed));
    }

    /// Records that a block was committed.
    pub fn put_commit(&mut self, local_id: u64, commit: Commit, live: &Live) {
        let block = self.blocks.entry(local_id).or_default();
        live.change_commit(&commit, true);
        match block.commit.replace(commit) {
            Some(before) => live.change_commit(&before, false),
            None => self.block_count += 1,
        }
        self.commit_sequence_id = self.commit_sequence_id.max(commit.commit_sequence_id);
    }

    /// Adds a block from a checkpoint.
    pub fn put_block(&mut self, local_id: u64, block: Block, live: &Live) {
        self.remove_block(local_id, live);
        live.change_block(&block, true);
        self.bytes_used = self.bytes_used.saturating_add(block.length);
        self.block_count += u64::from(block.commit.is_some());
        let commit_sequence_id = block.commit.map_or(0, |commit| commit.commit_sequence_id);
        self.commit_sequence_id = self.commit_sequence_id.max(commit_sequence_id);
        self.blocks.insert(local_id, block);
    }

    /// Removes a block.
    pub fn remove_block(&mut self, local_id: u64, live: &Live) {
        let Some(block) = self.blocks.remove(&local_id) else { return };
        live.change_block(&block, false);
        self.bytes_used = self.bytes_used.saturating_sub(block.length);
        self.block_count -= u64::from(block.commit.is_some());
    }

    /// Records that the container is gone: nothing of its blocks is needed.
    pub fn forget(&self, live: &Live) {
        self.blocks.values().for_each(|block| live.change_block(block, false));
    }
}

/// Encodes everything about a container but its blocks, as the body of a record.
pub(crate) fn encode_container(layout: Layout, index: &Index) -> Vec<u8> {
    let mut out = vec![layout.number(), index.state.number()];
    put_option(&mut out, index.replica_index.map(u64::from));
    put_pairs(&mut out, &index.metadata);
    out
}

/// Decodes what [`encode_container`] wrote.
pub(crate) fn decode_container(body: &[u8]) -> Result<(Layout, Index), DecodeError> {
    let mut reader = Reader::new(body);
    let layout = Layout::from_number(reader.u8()?);
    let layout = layout.ok_or_else(|| reader.bad("the layout is unknown"))?;
    let state = State::from_number(reader.u8()?);
    let state = state.ok_or_else(|| reader.bad("the state is unknown"))?;
    let replica_index = read_option(&mut reader)?.map(u32::try_from).transpose();
    let replica_index = replica_index.map_err(|_| reader.bad("a replica index is too large"))?;
    let metadata = read_pairs(&mut reader)?;
    reader.finish()?;
    Ok((layout, Index::new(state, metadata, replica_index)))
}

#[cfg(test)]
mod tests;

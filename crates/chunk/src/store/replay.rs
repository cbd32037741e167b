//! Rebuilds the index from a checkpoint and the log.
//!
//! The log may hold records about a container, but not the record that made it. Unless the
//! container's deletion follows in the log, the first record was lost. Then the container is kept,
//! as damaged, with what the other records say: a missing record does not mean a deletion.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use storage::codec::DecodeError;
use storage::disk::Disk;

use crate::block::{BlockId, decode_block};
use crate::chain::Segments;
use crate::checkpoint::Entry;
use crate::container::{Commit, Container, Index, State, decode_container};
use crate::damage::Damage;
use crate::error::ChunkError;
use crate::extents::Extent;
use crate::layout::{Layout, container_dirs};
use crate::live::Live;
use crate::record::{Header, Kind, record_bytes};
use crate::segment::segment_path;

/// Containers by id.
pub(super) type Containers = HashMap<u64, Arc<Container>, FixedState>;

/// The index as far as it is rebuilt.
pub(super) struct Replay {
    cluster_id: String,
    pub containers: Containers,
    /// The needed bytes of each segment.
    pub live: Live,
    /// Ids of deleted containers whose folders may still exist.
    pub deleted: BTreeSet<u64>,
    /// Ids of containers that have records, but not the record that made them.
    unmade: BTreeSet<u64>,
    /// The container to which the next block entries of the checkpoint belong.
    last: Option<Arc<Container>>,
}

impl Replay {
    pub fn new(cluster_id: String) -> Replay {
        let (containers, last) = (Containers::default(), None);
        let live = Live::default();
        Replay {
            cluster_id,
            containers,
            live,
            deleted: BTreeSet::new(),
            unmade: BTreeSet::new(),
            last,
        }
    }

    /// Applies an entry of a checkpoint.
    pub fn put(&mut self, entry: Entry) {
        match entry {
            Entry::Container(id, layout, index) => {
                let container = Arc::new(self.container(id, layout, index));
                self.last = Some(Arc::clone(&container));
                // The container may have been made again while the checkpoint was written.
                self.deleted.remove(&id);
                self.containers.insert(id, container);
            }
            Entry::Block(local_id, block) => {
                if let Some(container) = &self.last {
                    container.index.lock().put_block(local_id, block, &self.live);
                }
            }
            Entry::Deleted(id) => {
                self.deleted.insert(id);
            }
        }
    }

    fn container(&self, id: u64, layout: Layout, index: Index) -> Container {
        let path = match layout.has_files() {
            true => container_dirs(&self.cluster_id, id)[5].clone(),
            false => String::new(),
        };
        let index = Index { has_unknown_files: layout.has_files(), ..index };
        Container::new(id, layout, path, index)
    }

    /// Applies a record; `body` is `None` if the body is damaged.
    pub fn take(&mut self, header: &Header, body: Option<&[u8]>) -> Result<(), ChunkError> {
        let id = header.container_id;
        match (header.kind, body) {
            (Kind::Nothing, _) => return Ok(()),
            (Kind::Container, Some(body)) => return self.take_container(header, body),
            (Kind::ContainerDeleted, _) => {
                self.unmade.remove(&id);
                let known = self.containers.remove(&id);
                known.iter().for_each(|container| container.index.lock().forget(&self.live));
                if known.is_none_or(|container| container.layout.has_files()) {
                    self.deleted.insert(id);
                }
                return Ok(());
            }
            _ => {}
        }
        let container = match self.containers.get(&id) {
            Some(container) => Arc::clone(container),
            None => self.unmade_container(id),
        };
        take_of_container(&container, header, body, &self.live)
    }

    /// Adds a container whose first record is missing. Its layout is found out at the end.
    fn unmade_container(&mut self, id: u64) -> Arc<Container> {
        let index = Index::new(State::Unhealthy, Vec::new(), None);
        let container = Arc::new(self.container(id, Layout::Log, index));
        self.unmade.insert(id);
        self.containers.insert(id, Arc::clone(&container));
        container
    }

    fn take_container(&mut self, header: &Header, body: &[u8]) -> Result<(), ChunkError> {
        let (layout, index) = decode_container(body).map_err(|error| unreadable(header, &error))?;
        let id = header.container_id;
        self.deleted.remove(&id);
        match self.containers.get(&id).filter(|_| !self.unmade.remove(&id)) {
            Some(container) => {
                let Index { state, metadata, replica_index, .. } = index;
                let mut known = container.index.lock();
                (known.state, known.metadata, known.replica_index) =
                    (state, metadata, replica_index);
            }
            None => {
                let unmade = self.containers.remove(&id);
                let container = Arc::new(self.container(id, layout, index));
                if let Some(unmade) = unmade {
                    // The container was made earlier, and this record changed it.
                    let blocks = core::mem::take(&mut unmade.index.lock().blocks);
                    let live = &self.live;
                    blocks.values().for_each(|block| live.change_block(block, false));
                    let mut index = container.index.lock();
                    blocks
                        .into_iter()
                        .for_each(|(local_id, block)| index.put_block(local_id, block, live));
                }
                self.containers.insert(id, container);
            }
        }
        Ok(())
    }

    /// At the end, reports the containers whose first record is lost.
    pub fn check_lost<D: Disk>(
        &mut self,
        disk: &D,
        damage: &mut Vec<Damage>,
    ) -> Result<(), ChunkError> {
        for id in core::mem::take(&mut self.unmade) {
            damage.push(Damage::Container { container_id: id });
            let layout = self.layout_on_disk(disk, id)?;
            let Some(container) = self.containers.remove(&id).and_then(Arc::into_inner) else {
                continue;
            };
            let container = self.container(id, layout, container.index.into_inner());
            if layout.has_files() {
                let mut index = container.index.lock();
                let commits =
                    index.blocks.iter().filter_map(|(id, block)| Some((*id, block.commit?)));
                for (local_id, commit) in commits.collect::<Vec<_>>() {
                    index.grow(local_id, commit.length);
                }
            }
            self.containers.insert(id, Arc::new(container));
        }
        Ok(())
    }

    /// The layout of a container, judged by its files.
    fn layout_on_disk<D: Disk>(&self, disk: &D, id: u64) -> Result<Layout, ChunkError> {
        let [.., dir] = container_dirs(&self.cluster_id, id);
        match disk.list(&dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Layout::Log),
            Err(error) => Err(ChunkError::io(&dir, "list", error)),
            Ok(names) if names.iter().any(|name| name.ends_with(".block")) => Ok(Layout::PerBlock),
            Ok(_) => Ok(Layout::PerChunk),
        }
    }

    /// Checks that every segment that a block needs exists, up to the end of its last needed
    /// record.
    pub fn check_segments(&self, segments: &Segments, damage: &mut Vec<Damage>) {
        // Where the last needed record of each segment ends.
        let mut ends: BTreeMap<u32, u64> = BTreeMap::new();
        let mut need = |segment, start: u32, body_bytes: u32| {
            let end = u64::from(start) + record_bytes(body_bytes as usize) as u64;
            let known = ends.entry(segment).or_default();
            *known = end.max(*known);
        };
        for container in self.containers.values() {
            for block in container.index.lock().blocks.values() {
                for run in block.extents.runs() {
                    need(run.segment, run.starts.last(), run.body_bytes);
                }
                if let Some(commit) = &block.commit {
                    need(commit.at.segment, commit.at.offset, commit.body_bytes);
                }
            }
        }
        for (number, end) in ends {
            let what = match segments.bytes(number) {
                None => {
                    let bytes = self.live.bytes(number);
                    format!("the file is missing, with {bytes} bytes of blocks")
                }
                Some(length) if end > length.into() => {
                    format!("it has {length} bytes, and there are records up to byte {end}")
                }
                Some(_) => continue,
            };
            damage.push(Damage::file(segment_path(number), what));
        }
    }
}

/// Applies a record about a container or one of its blocks.
fn take_of_container(
    container: &Container,
    header: &Header,
    body: Option<&[u8]>,
    live: &Live,
) -> Result<(), ChunkError> {
    let mut index = container.index.lock();
    let local_id = header.local_id;
    match header.kind {
        Kind::Chunk => {
            let (offset, bytes) = (header.block_offset, header.body_bytes);
            index.put_extent(local_id, Extent::from_record(offset, header.at, bytes), live);
        }
        Kind::Block => {
            let (commit, end) = commit_of(header, body)?;
            if container.layout.has_files() {
                index.grow(local_id, end);
            }
            index.put_commit(local_id, commit, live);
        }
        Kind::BlockFinalized => {
            if let Some(block) = index.blocks.get_mut(&local_id) {
                block.is_finalized = true;
            }
        }
        Kind::BlockDeleted => index.remove_block(local_id, live),
        // The record about the container, or about a change to it, is damaged.
        Kind::Container | Kind::ContainerDeleted | Kind::Nothing => {
            index.state = State::Unhealthy;
        }
    }
    Ok(())
}

/// The commit in a record, and the end of its last chunk. Even if the body is damaged, the commit
/// is known to exist: callers that ask for the block get an error.
fn commit_of(header: &Header, body: Option<&[u8]>) -> Result<(Commit, u64), ChunkError> {
    let (container_id, local_id) = (header.container_id, header.local_id);
    let id = BlockId { container_id, local_id };
    let block = body.map(|body| decode_block(id, body).map_err(|error| unreadable(header, &error)));
    let block = block.transpose()?;
    let commit = Commit {
        at: header.at,
        body_bytes: header.body_bytes,
        length: block.as_ref().map_or(0, |block| block.length()),
        commit_sequence_id: block.as_ref().map_or(0, |block| block.commit_sequence_id),
    };
    Ok((commit, block.map_or(0, |block| block.end())))
}

/// The error for an intact record that makes no sense: another version wrote it.
fn unreadable(header: &Header, error: &DecodeError) -> ChunkError {
    let file = segment_path(header.at.segment);
    ChunkError::BadStore { file, what: format!("{} cannot be read: {error}", header.at) }
}

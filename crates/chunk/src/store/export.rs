//! Containers of the log as files: each block as Ozone's FILE_PER_BLOCK has it, under the same names. For
//! whoever wants the bytes without us.

use storage::disk::Disk;

use crate::block::{BlockId, ChunkInfo};
use crate::error::ChunkError;
use crate::layout::{block_file_name, container_dirs};
use crate::limits::EXPORT_READ_BYTES;
use crate::store::Store;

/// What came of an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The folder of the files.
    pub dir: String,
    /// Files that were written.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Blocks that are not what was written, and have no file.
    pub damaged: Vec<(BlockId, String)>,
}

impl<D: Disk> Store<D> {
    /// Writes a container's blocks to files below the root of `to`, those that are not committed too. All of
    /// it is durable when it returns.
    ///
    /// # Errors
    /// Something cannot be read or written; or the container is there already.
    pub fn export_container<E: Disk>(&self, id: u64, to: &E) -> Result<Exported, ChunkError> {
        let container = self.find(id)?;
        let dirs = container_dirs(&self.cluster_id, id);
        let dir = &dirs[dirs.len() - 1];
        if to.exists(dir).map_err(|error| ChunkError::io(dir, "find", error))? {
            return Err(ChunkError::ContainerExists { container_id: id });
        }
        for dir in &dirs {
            to.create_dir(dir).map_err(|error| ChunkError::io(dir, "create", error))?;
        }
        let mut exported = Exported { dir: dir.clone(), blocks: 0, bytes: 0, damaged: Vec::new() };
        let blocks: Vec<(u64, u64)> = {
            let index = container.index.lock();
            index.blocks.iter().map(|(local_id, block)| (*local_id, block.length)).collect()
        };
        for (local_id, length) in blocks {
            let id = BlockId { container_id: id, local_id };
            let path = format!("{dir}/{}", block_file_name(local_id));
            match self.export_block(id, length, &path, to) {
                Ok(()) => {
                    exported.blocks += 1;
                    exported.bytes += length;
                }
                Err(error @ (ChunkError::Damaged { .. } | ChunkError::NoSuchChunk { .. })) => {
                    to.remove(&path).map_err(|error| ChunkError::io(&path, "remove", error))?;
                    exported.damaged.push((id, error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        for dir in dirs.iter().rev().map(String::as_str).chain([""]) {
            to.sync_dir(dir).map_err(|error| ChunkError::io(dir, "sync", error))?;
        }
        Ok(exported)
    }

    fn export_block<E: Disk>(
        &self,
        id: BlockId,
        length: u64,
        path: &str,
        to: &E,
    ) -> Result<(), ChunkError> {
        let io = |op| move |error| ChunkError::io(path, op, error);
        let file = to.create(path).map_err(io("create"))?;
        let mut bytes = Vec::new();
        for offset in (0..length).step_by(EXPORT_READ_BYTES as usize) {
            let count = EXPORT_READ_BYTES.min(length - offset);
            bytes.clear();
            self.read_chunk(id, &ChunkInfo::plain(String::new(), offset, count), 0, &mut bytes)?;
            to.write_at(&file, offset, &bytes).map_err(io("write"))?;
        }
        to.sync_data(&file).map_err(io("sync"))
    }
}

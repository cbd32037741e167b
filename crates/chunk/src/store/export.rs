//! Exports containers of the layout [`Layout::Log`](crate::layout::Layout::Log) as files, each
//! block as Ozone's FILE_PER_BLOCK has it and under the same name, so that the bytes can be read
//! without this program. Containers of the other layouts consist of files already: their blocks are
//! only checked.

use storage::disk::Disk;

use crate::block::{BlockId, ChunkInfo};
use crate::container::Container;
use crate::error::ChunkError;
use crate::layout::{block_file_name, container_dirs};
use crate::limits::EXPORT_READ_BYTES;
use crate::store::Store;
use crate::store::containers::remove_files;

/// The result of an export.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// The folder with the exported files.
    pub dir: String,
    /// Number of files written, one for each block.
    pub blocks: u64,
    /// Bytes in these files.
    pub bytes: u64,
    /// Blocks that cannot be read, or are not what was written, and why. They have no file.
    pub damaged: Vec<(BlockId, String)>,
}

impl<D: Disk + Clone> Store<D> {
    /// Writes a container's blocks, even uncommitted ones, to files below the root of `to`. The
    /// folder gets its name when all are written, and is durable when this returns.
    ///
    /// # Errors
    /// There is no such container, or its folder exists already; or something cannot be written,
    /// and the files written so far are removed.
    pub fn export_container<E: Disk>(&self, id: u64, to: &E) -> Result<Exported, ChunkError> {
        let container = self.find(id)?;
        let dirs = container_dirs(&self.cluster_id, id);
        let [outer @ .., dir] = &dirs;
        if to.exists(dir).map_err(|error| ChunkError::io(dir, "find", error))? {
            return Err(ChunkError::ContainerExists { container_id: id });
        }
        for dir in outer {
            to.create_dir(dir).map_err(|error| ChunkError::io(dir, "create", error))?;
        }
        let temporary = format!("{dir}.tmp");
        let io = |op| move |error| ChunkError::io(dir, op, error);
        // An export that was killed may have left files.
        remove_files(to, &temporary).map_err(io("make room for"))?;
        let mut exported = Exported { dir: dir.clone(), ..Exported::default() };
        let written = self.export_blocks(&container, &temporary, to, &mut exported);
        let named = written.and_then(|()| to.rename(&temporary, dir).map_err(io("rename")));
        named.inspect_err(|_| {
            // The first error is the one to report; the next export removes what cannot be removed
            // now.
            drop(remove_files(to, &temporary));
        })?;
        for dir in outer.iter().rev().map(String::as_str).chain([""]) {
            to.sync_dir(dir).map_err(|error| ChunkError::io(dir, "sync", error))?;
        }
        Ok(exported)
    }

    /// Writes the blocks to files in `dir`, which it creates.
    fn export_blocks<E: Disk>(
        &self,
        container: &Container,
        dir: &str,
        to: &E,
        exported: &mut Exported,
    ) -> Result<(), ChunkError> {
        to.create_dir(dir).map_err(|error| ChunkError::io(dir, "create", error))?;
        for (id, length) in blocks_of(container) {
            let path = format!("{dir}/{}", block_file_name(id.local_id));
            match self.export_block(id, length, &path, to)? {
                Ok(()) => {
                    exported.blocks += 1;
                    exported.bytes += length;
                }
                Err(what) => {
                    to.remove(&path).map_err(|error| ChunkError::io(&path, "remove", error))?;
                    exported.damaged.push((id, what.to_string()));
                }
            }
        }
        to.sync_dir(dir).map_err(|error| ChunkError::io(dir, "sync", error))
    }

    /// Finds the blocks of a container that cannot be read, or are not what was written, and why.
    /// While a container is open, nobody can tell whether a block in files is what was written.
    ///
    /// # Errors
    /// There is no such container.
    pub fn damaged_blocks(&self, id: u64) -> Result<Vec<(BlockId, String)>, ChunkError> {
        let container = self.find(id)?;
        let mut damaged = Vec::new();
        for (id, _) in blocks_of(&container) {
            let checked = self.check_block(id, &mut 0);
            damaged.extend(checked.err().map(|what| (id, what.to_string())));
        }
        Ok(damaged)
    }

    /// Writes a block to a file. The inner error says why the block cannot be read, the outer one
    /// why the file cannot be written.
    fn export_block<E: Disk>(
        &self,
        id: BlockId,
        length: u64,
        path: &str,
        to: &E,
    ) -> Result<Result<(), ChunkError>, ChunkError> {
        let io = |op| move |error| ChunkError::io(path, op, error);
        let file = to.create(path).map_err(io("create"))?;
        let mut bytes = Vec::new();
        for offset in (0..length).step_by(EXPORT_READ_BYTES as usize) {
            let count = EXPORT_READ_BYTES.min(length - offset);
            bytes.clear();
            let part = ChunkInfo::plain(String::new(), offset, count);
            if let Err(what) = self.read_chunk(id, &part, 0, &mut bytes) {
                return Ok(Err(what));
            }
            to.write_at(&file, offset, &bytes).map_err(io("write"))?;
        }
        to.sync_data(&file).map_err(io("sync"))?;
        Ok(Ok(()))
    }
}

/// The blocks of a container, with their lengths in bytes.
fn blocks_of(container: &Container) -> Vec<(BlockId, u64)> {
    let index = container.index.lock();
    let id = |local_id| BlockId { container_id: container.id, local_id };
    index.blocks.iter().map(|(local_id, block)| (id(*local_id), block.length)).collect()
}

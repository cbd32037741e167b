//! Computes, from the index alone, how much memory an answer about a container or a block takes.
//! Reads nothing from disk. A caller with little memory asks this first, and frees some before it
//! asks for the answer.

use storage::disk::Disk;

use crate::block::BlockId;
use crate::error::ChunkError;
use crate::store::Store;

impl<D: Disk + Clone> Store<D> {
    /// Size of the record of a block's last commit, in bytes; 0 if there is none.
    pub fn commit_bytes(&self, id: BlockId) -> u64 {
        let Ok(container) = self.find(id.container_id) else { return 0 };
        let index = container.index.lock();
        let commit = index.blocks.get(&id.local_id).and_then(|block| block.commit);
        commit.map_or(0, |commit| u64::from(commit.body_bytes))
    }

    /// How many committed blocks from `start_local_id` on have records of at most `bytes_max` bytes
    /// in all. At most `count_max`, and at least one if there is one.
    ///
    /// # Errors
    /// There is no such container.
    pub fn block_count_within(
        &self,
        container_id: u64,
        start_local_id: u64,
        count_max: usize,
        bytes_max: u64,
    ) -> Result<usize, ChunkError> {
        let container = self.find(container_id)?;
        let index = container.index.lock();
        let commits = index.blocks.range(start_local_id..).filter_map(|(_, block)| block.commit);
        let (mut count, mut bytes) = (0, 0_u64);
        for commit in commits.take(count_max) {
            bytes = bytes.saturating_add(u64::from(commit.body_bytes));
            if count > 0 && bytes > bytes_max {
                break;
            }
            count += 1;
        }
        Ok(count)
    }

    /// Bytes of the keys and values that a client gave a container; 0 if it does not exist.
    pub fn container_metadata_bytes(&self, container_id: u64) -> u64 {
        let Ok(container) = self.find(container_id) else { return 0 };
        let index = container.index.lock();
        let pairs = index.metadata.iter();
        let bytes = pairs.map(|pair| pair.key.len() + pair.value.as_ref().map_or(0, String::len));
        bytes.map(|bytes| bytes as u64).sum()
    }
}

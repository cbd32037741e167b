//! Computes the checksums of a container, which serve to compare and reconcile its replicas: a tree
//! of CRC-32C over the clients' checksums, of whatever type. Source: Ozone's
//! `ContainerMerkleTreeWriter`.
//!
//! ```text
//! chunk      over the bytes of its checksums, in their order
//! block      over its local id, and the checksums of its chunks in the order of their offsets
//! container  over the checksums of its blocks in the order of their local ids
//!            (an id or a checksum counts as eight bytes, big-endian)
//! ```

use std::collections::BTreeMap;

use super::pb;
use crate::block::{BlockData, ChunkInfo};
use crate::crc::crc32c_append;

/// Builds the tree from blocks that are added in the order of their local ids.
#[derive(Default)]
pub(super) struct ChecksumTree {
    checksum: u32,
    blocks: Vec<pb::BlockMerkleTree>,
}

impl ChecksumTree {
    /// Adds the next block.
    pub(super) fn add(&mut self, block: &BlockData) {
        let tree = block_tree(block);
        self.checksum = append(self.checksum, tree.data_checksum.unwrap_or_default());
        self.blocks.push(tree);
    }

    /// Completes the tree.
    pub(super) fn finish(self, container_id: u64) -> pb::ContainerChecksumInfo {
        pb::ContainerChecksumInfo {
            container_id: Some(container_id.cast_signed()),
            container_merkle_tree: Some(pb::ContainerMerkleTree {
                data_checksum: Some(i64::from(self.checksum)),
                block_merkle_tree: self.blocks,
            }),
        }
    }
}

/// Extends a checksum by one number.
fn append(checksum: u32, number: i64) -> u32 {
    crc32c_append(checksum, &number.to_be_bytes())
}

fn block_tree(block: &BlockData) -> pb::BlockMerkleTree {
    let local_id = block.id.local_id.cast_signed();
    // If two chunks have the same offset, the later one counts, as in Ozone.
    let by_offset: BTreeMap<u64, &ChunkInfo> =
        block.chunks.iter().map(|chunk| (chunk.offset, chunk)).collect();
    let mut checksum = append(0, local_id);
    let mut chunks = Vec::with_capacity(by_offset.len());
    for chunk in by_offset.into_values() {
        let own = chunk.checksum.checksums.iter();
        let own = own.fold(0, |checksum, bytes| crc32c_append(checksum, bytes));
        checksum = append(checksum, i64::from(own));
        chunks.push(pb::ChunkMerkleTree {
            offset: Some(chunk.offset.cast_signed()),
            length: Some(chunk.length.cast_signed()),
            data_checksum: Some(i64::from(own)),
            // As far as is known: only what was committed is used here.
            checksum_matches: Some(true),
        });
    }
    pb::BlockMerkleTree {
        block_id: Some(local_id),
        data_checksum: Some(i64::from(checksum)),
        chunk_merkle_tree: chunks,
        deleted: Some(false),
    }
}

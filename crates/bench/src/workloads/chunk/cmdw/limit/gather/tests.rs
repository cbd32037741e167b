use std::fs;

use super::*;
use crate::servers::folder::Folder;
use crate::workloads::chunk::cmdw::load::{ChunkBytes, chunk_data};

#[test]
fn chunks_are_gathered_until_a_block_is_full_and_none_is_lost() {
    let folder = Folder::make(&std::env::temp_dir(), "quorate-gather-test").unwrap();
    let path = folder.path().join("file");
    let block_bytes = GATHERED_BLOCK_BYTES as usize;
    // First less than two blocks in all, then chunks of more than two blocks each.
    for (chunk_bytes, chunks, is_written) in [(1_000, 300, 1), (600_000, 2, 4)] {
        let (file, end) = (File::create(&path).unwrap(), AtomicU64::new(0));
        let data = chunk_data(ChunkBytes(chunk_bytes));
        let mut gatherer = Gatherer::of(&file, &end);
        (0..chunks).for_each(|_| gatherer.append(&data).unwrap());
        assert_eq!(fs::read(&path).unwrap().len(), is_written * block_bytes);
        gatherer.write_out().unwrap();
        gatherer.write_out().unwrap();
        let expected = data.repeat(chunks);
        let bytes = fs::read(&path).unwrap();
        let (written, padding) = bytes.split_at(expected.len());
        assert!(written == expected, "{chunk_bytes}");
        assert!(padding.len() < DIRECT_ALIGN_BYTES as usize);
    }
}

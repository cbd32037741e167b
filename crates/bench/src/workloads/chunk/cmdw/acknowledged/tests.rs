use std::fs;
use std::time::Duration;

use chunk::RealDisk;
use chunk::block::{BlockId, ChunkInfo};
use chunk::checksum::ChecksumType;
use chunk::store::{StoreOptions, WriteMode};

use super::*;
use crate::limits::STORE_TICK;
use crate::servers::folder::{Folder, files_below};
use crate::workloads::chunk::cmdw::load::{ChunkBytes, Shape, chunk_data};
use crate::workloads::chunk::cmdw::{STORE_DIR, open_store, store_options};

/// Whether a chunk is in a file of the store when its write has returned.
fn is_in_file(folder: &Folder, layout: Layout, chunk_bytes: u64) -> bool {
    let chunk_bytes = ChunkBytes(chunk_bytes);
    let (threads, containers, chunks_per_block) = (1, 1, 16);
    let shape = Shape { chunk_bytes, chunks: 1, threads, containers, chunks_per_block };
    let options = store_options(&shape, layout, ChecksumType::None);
    let options = StoreOptions { segment_bytes: 1024 * 1024, ..options };
    let disk = RealDisk::new(folder.path().join(STORE_DIR)).unwrap();
    let store = open_store(disk, &shape, layout, options).unwrap();
    let data = chunk_data(chunk_bytes);
    let chunk = ChunkInfo::plain("a".to_string(), 0, chunk_bytes.0);
    let id = BlockId { container_id: 1, local_id: 0 };
    store.write_chunk(id, &chunk, &data, WriteMode::default()).unwrap();
    let files = files_below(folder.path()).unwrap();
    let is_found = files.iter().any(|path| {
        let bytes = fs::read(path).unwrap();
        bytes.windows(64).any(|window| window == &data[..64])
    });
    drop(store);
    folder.clear().unwrap();
    is_found
}

#[test]
fn the_store_has_a_chunk_where_the_table_says() {
    let folder = Folder::make(&std::env::temp_dir(), "quorate-acknowledged-test").unwrap();
    for layout in Layout::ALL {
        for chunk_bytes in [1_024, 8_192, 8_193, 10_240, 65_536, 65_537, 102_400] {
            let expected = Place::in_store(layout, chunk_bytes) != Place::Process;
            let is_in_file = is_in_file(&folder, layout, chunk_bytes);
            assert_eq!(is_in_file, expected, "{layout:?}, {chunk_bytes} bytes");
        }
    }
}

#[test]
fn small_chunks_are_acknowledged_from_memory_and_large_ones_from_the_device() {
    let places = |layout| {
        [1_024, 10_240, 102_400, 1_024_000].map(|bytes| Place::in_store(layout, bytes).name())
    };
    assert_eq!(places(Layout::Log), ["process", "process", "device", "device"]);
    assert_eq!(places(Layout::PerBlock), ["process", "page-cache", "device", "device"]);
    assert_eq!(places(Layout::PerChunk), ["page-cache", "page-cache", "device", "device"]);
    assert_eq!(Place::in_store(Layout::PerBlock, 102_401), Place::PageCache);
    // The last byte does not fill a block.
    assert_eq!(Place::in_store(Layout::PerChunk, 102_401), Place::PageCache);
}

#[test]
fn what_is_gathered_is_written_out_as_often_as_is_said() {
    assert_eq!(STORE_TICK, Duration::from_millis(100));
    assert!(Place::Process.describe().contains("100 ms"));
}

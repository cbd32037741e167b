//! Where a chunk is when its buffered write returns, which says what it survives. Rates of writes
//! that are acknowledged from different places are rates of different promises, so each table says
//! whose is which.

use chunk::layout::Layout;
use chunk::limits::{
    BLOCK_BYTES, FILE_CACHED_BYTES_MAX, FILE_GATHERED_CHUNK_BYTES_MAX, GATHERED_BYTES_MAX,
};

/// A place that chunks are acknowledged from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A buffer of the process that writes: gone when that is killed.
    Process,
    /// The page cache: gone when the power fails.
    PageCache,
    /// The device, or its cache: gone when the power fails, if it has one.
    Device,
}

impl Place {
    /// All of them, the least safe first.
    pub const ALL: [Place; 3] = [Place::Process, Place::PageCache, Place::Device];

    /// Where our store has a chunk of so many bytes, in a block of such chunks: the least safe
    /// place that a part of it is in.
    pub fn in_store(layout: Layout, chunk_bytes: u64) -> Place {
        let block_bytes = u64::from(BLOCK_BYTES);
        let is_aligned = chunk_bytes.is_multiple_of(block_bytes);
        let whole_blocks = chunk_bytes - chunk_bytes % block_bytes;
        let is_direct = whole_blocks > FILE_CACHED_BYTES_MAX as u64;
        match layout {
            Layout::Log if chunk_bytes <= GATHERED_BYTES_MAX as u64 => Place::Process,
            Layout::Log => Place::Device,
            Layout::PerBlock if chunk_bytes <= FILE_GATHERED_CHUNK_BYTES_MAX as u64 => {
                Place::Process
            }
            // What is no whole block of the file goes through the page cache.
            Layout::PerBlock | Layout::PerChunk if is_direct && is_aligned => Place::Device,
            Layout::PerBlock | Layout::PerChunk => Place::PageCache,
        }
    }

    /// As JSON calls it.
    pub fn name(self) -> &'static str {
        match self {
            Place::Process => "process",
            Place::PageCache => "page-cache",
            Place::Device => "device",
        }
    }

    /// What a table says of it.
    pub fn describe(self) -> &'static str {
        match self {
            Place::Process => {
                "process memory, which a kill of the process loses; our store writes it out after \
                 100 ms, later if the disk is slow"
            }
            Place::PageCache => "the page cache: a kill does not lose it, a loss of power does",
            Place::Device => {
                "the device, around the page cache where the file system can, and without a flush"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use chunk::RealDisk;
    use chunk::block::{BlockId, ChunkInfo};
    use chunk::checksum::ChecksumType;
    use chunk::store::{StoreOptions, WriteMode};

    use super::*;
    use crate::cmdw::folder::{Folder, files_below};
    use crate::cmdw::load::{ChunkBytes, Shape, chunk_data};
    use crate::cmdw::{STORE_DIR, open_store, store_options};
    use crate::limits::STORE_TICK;

    /// Whether a chunk is in a file when its write has returned.
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
        // The last byte is in no whole block.
        assert_eq!(Place::in_store(Layout::PerChunk, 102_401), Place::PageCache);
    }

    #[test]
    fn what_is_gathered_is_written_out_as_often_as_is_said() {
        assert_eq!(STORE_TICK, Duration::from_millis(100));
        assert!(Place::Process.describe().contains("100 ms"));
    }
}

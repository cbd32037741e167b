//! Where a chunk is when its buffered write returns. That place (a buffer of the process, the page
//! cache, or the device) decides which failures the chunk survives. So the rates of contenders with
//! different places are not comparable, and each table shows the place of each contender.

use chunk::layout::Layout;
use chunk::limits::{
    BLOCK_BYTES, FILE_CACHED_BYTES_MAX, FILE_GATHERED_CHUNK_BYTES_MAX, GATHERED_BYTES_MAX,
};

/// A place that a chunk may be in when it is acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A buffer of the writing process. The chunk is lost if the process is killed.
    Process,
    /// The page cache of the system. The chunk is lost if the power fails.
    PageCache,
    /// The device or its cache. The chunk is lost if the power fails and it is in the cache.
    Device,
}

impl Place {
    /// All places, least safe first.
    pub const ALL: [Place; 3] = [Place::Process, Place::PageCache, Place::Device];

    /// The place of a chunk of `chunk_bytes` bytes in our store. Parts of a chunk may be in several
    /// places; the least safe one counts.
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
            // The part of a chunk that does not fill a block of the file goes through the page
            // cache.
            Layout::PerBlock | Layout::PerChunk if is_direct && is_aligned => Place::Device,
            Layout::PerBlock | Layout::PerChunk => Place::PageCache,
        }
    }

    /// The name in JSON and in the remarks of ratios.
    pub fn name(self) -> &'static str {
        match self {
            Place::Process => "process",
            Place::PageCache => "page-cache",
            Place::Device => "device",
        }
    }

    /// The description in tables.
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
mod tests;

//! The three layouts, and the names that files have in the two that are Apache Ozone's.
//!
//! ```text
//! <base> = hdds/<cluster id>/current/containerDir<(id >> 9) & 0xff>
//! <base>/<id>/chunks/<local id>.block
//! <base>/<id>/chunks/<chunk name>
//! <base>/<id>/chunks/<chunk name>.tmp.<term>.<index>
//! ```
//!
//! Source: Ozone 2.2.0, `KeyValueContainerLocationUtil`, `ContainerLayoutVersion`,
//! `FilePerChunkStrategy`.

use crate::error::ChunkError;
use crate::limits::CHUNK_NAME_BYTES_MAX;

/// Where the bytes of a container's chunks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Layout {
    /// One file for each chunk, by the chunk's name (Ozone's layout 1).
    PerChunk,
    /// One file for each block, a chunk at its own offset (Ozone's layout 2).
    PerBlock,
    /// In the log of the store, beside what the log says about them.
    #[default]
    Log,
}

impl Layout {
    /// All of them, in the order of their history.
    pub const ALL: [Layout; 3] = [Layout::PerChunk, Layout::PerBlock, Layout::Log];

    /// What Ozone calls it; the third has no name there.
    pub fn name(self) -> &'static str {
        match self {
            Layout::PerChunk => "FILE_PER_CHUNK",
            Layout::PerBlock => "FILE_PER_BLOCK",
            Layout::Log => "LOG",
        }
    }

    /// Its number on disk. The first two are Ozone's `layOutVersion`.
    pub(crate) fn number(self) -> u8 {
        match self {
            Layout::PerChunk => 1,
            Layout::PerBlock => 2,
            Layout::Log => 3,
        }
    }

    pub(crate) fn from_number(number: u8) -> Option<Layout> {
        Layout::ALL.into_iter().find(|layout| layout.number() == number)
    }

    /// Whether chunks are files of their own or of their block.
    pub(crate) fn has_files(self) -> bool {
        self != Layout::Log
    }
}

/// The directories of one container, from the outermost.
pub(crate) fn container_dirs(cluster_id: &str, container_id: u64) -> [String; 6] {
    let hdds = "hdds".to_owned();
    let cluster = format!("{hdds}/{cluster_id}");
    let current = format!("{cluster}/current");
    let many = format!("{current}/containerDir{}", (container_id >> 9) & 0xff);
    let container = format!("{many}/{container_id}");
    let chunks = format!("{container}/chunks");
    [hdds, cluster, current, many, container, chunks]
}

/// The name of a block's file.
pub(crate) fn block_file_name(local_id: u64) -> String {
    format!("{local_id}.block")
}

/// The name of a chunk's file between its two stages.
pub(crate) fn temporary_chunk_name(name: &str, term: u64, index: u64) -> String {
    format!("{name}.tmp.{term}.{index}")
}

/// Refuses what cannot be the name of a file in a container's folder, or would lead out of it.
/// (Ozone 2.2 does not look.)
pub(crate) fn check_chunk_name(name: &str) -> Result<(), ChunkError> {
    let is_bad = name.is_empty()
        || name.len() > CHUNK_NAME_BYTES_MAX
        || name == "."
        || name == ".."
        || name.bytes().any(|byte| byte == b'/' || byte == 0);
    match is_bad {
        true => Err(ChunkError::BadChunkName { name: name.to_owned() }),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests;

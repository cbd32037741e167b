//! The three layouts of a container's data, and the file names of the two that are Apache Ozone's.
//!
//! ```text
//! <base> = hdds/<cluster id>/current/containerDir<(id >> 9) & 0xff>    id: the container's
//! <base>/<id>/chunks/<local id>.block                   one file for each block
//! <base>/<id>/chunks/<chunk name>                       one file for each chunk
//! <base>/<id>/chunks/<chunk name>.tmp.<term>.<index>    a chunk that is not committed yet
//! ```
//!
//! Source: Ozone 2.2.0, `KeyValueContainerLocationUtil`, `ContainerLayoutVersion`,
//! `FilePerChunkStrategy`.

use crate::error::ChunkError;
use crate::limits::CHUNK_NAME_BYTES_MAX;

/// Where the bytes of a container's chunks are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Layout {
    /// In one file for each chunk, with the chunk's name (Ozone's layout 1).
    PerChunk,
    /// In one file for each block, each chunk at its offset (Ozone's layout 2).
    PerBlock,
    /// In the log of the store, next to the metadata.
    #[default]
    Log,
}

impl Layout {
    /// All layouts, in the order in which they appeared.
    pub const ALL: [Layout; 3] = [Layout::PerChunk, Layout::PerBlock, Layout::Log];

    /// The layout's name in Ozone; the third layout does not exist there.
    pub fn name(self) -> &'static str {
        match self {
            Layout::PerChunk => "FILE_PER_CHUNK",
            Layout::PerBlock => "FILE_PER_BLOCK",
            Layout::Log => "LOG",
        }
    }

    /// The layout's number on disk. The first two are Ozone's `layOutVersion`.
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

    /// Whether chunks are in files of their own, or of their block.
    pub(crate) fn has_files(self) -> bool {
        self != Layout::Log
    }
}

/// The paths of the folders of one container, outermost first.
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

/// The name of a chunk's file after [`Stage::Write`](crate::store::Stage::Write), before its
/// commit.
pub(crate) fn temporary_chunk_name(name: &str, term: u64, index: u64) -> String {
    format!("{name}.tmp.{term}.{index}")
}

/// Refuses a name that cannot be a file name in a container's folder, or that would lead out of
/// that folder. (Ozone 2.2 does not check.)
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

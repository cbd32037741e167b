//! The chunk store: where its clients connect, and how it keeps what they bring. It is served only
//! where it is asked for.

use std::path::PathBuf;

use chunk::layout::Layout;

use super::address::ListenAddress;

/// Connections of clients of the chunk store in all, unless something else is said: each may have
/// 64 KiB on the way to us, and what is beyond has bounds of its own. One more waits.
pub const CHUNK_CONNECTIONS_MAX_DEFAULT: usize = 1_024;

/// Connections from one address, unless something else is said: a client of Ozone has one for each
/// of its processes, and no address has more than a quarter of all. One more is closed.
pub const CHUNK_CONNECTIONS_PER_IP_MAX_DEFAULT: usize = 256;

/// The chunk store. It is served on one of the two addresses at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkConfig {
    /// Where clients of Apache Ozone's datanodes connect.
    pub addr: Option<ListenAddress>,
    /// Where they connect with TLS, which has the stores and the settings of the other ports.
    pub tls_addr: Option<ListenAddress>,
    /// Connections in all; 0: as many as there are descriptors for.
    pub connections_max: usize,
    /// Connections from one address; 0 is no limit.
    pub connections_per_ip_max: usize,
    /// The store's folder; one below the data directory if nothing is said.
    pub dir: Option<PathBuf>,
    /// Bytes that the store may take of its disk; 0 is no limit.
    pub bytes_max: u64,
    /// Bytes of its disk that it leaves free. Where nothing is said and its folder is below the
    /// data directory: a twentieth of the disk, and 1 GiB at most.
    pub free_bytes_min: Option<u64>,
    /// Where the chunks of new containers go.
    pub layout: Layout,
    /// Whether data are compared with their checksums before they are written
    /// (`hdds.datanode.chunk.data.validation.check`).
    pub verify_writes: bool,
}

/// The settings that the sources have given so far.
#[derive(Debug, Default)]
pub(super) struct ChunkDraft {
    /// This or the next says that the store is served.
    pub addr: Option<ListenAddress>,
    pub tls_addr: Option<ListenAddress>,
    pub connections_max: Option<usize>,
    pub connections_per_ip_max: Option<usize>,
    pub dir: Option<PathBuf>,
    pub bytes_max: Option<u64>,
    pub free_bytes_min: Option<u64>,
    pub layout: Option<Layout>,
    pub verify_writes: bool,
}

impl ChunkDraft {
    pub fn finish(self) -> Option<ChunkConfig> {
        if self.addr.is_none() && self.tls_addr.is_none() {
            return None;
        }
        let per_ip_max = self.connections_per_ip_max;
        Some(ChunkConfig {
            addr: self.addr,
            tls_addr: self.tls_addr,
            connections_max: self.connections_max.unwrap_or(CHUNK_CONNECTIONS_MAX_DEFAULT),
            connections_per_ip_max: per_ip_max.unwrap_or(CHUNK_CONNECTIONS_PER_IP_MAX_DEFAULT),
            dir: self.dir,
            bytes_max: self.bytes_max.unwrap_or(0),
            free_bytes_min: self.free_bytes_min,
            layout: self.layout.unwrap_or_default(),
            verify_writes: self.verify_writes,
        })
    }
}

/// What the layouts are called in options and files.
pub const LAYOUTS: [(&str, Layout); 3] =
    [("per-block", Layout::PerBlock), ("per-chunk", Layout::PerChunk), ("log", Layout::Log)];

/// The layout of that name.
pub fn parse_layout(text: &str) -> Result<Layout, String> {
    let found = LAYOUTS.iter().find(|(name, _)| *name == text);
    found
        .map(|(_, layout)| *layout)
        .ok_or_else(|| format!("{text:?} is not a layout: per-block, per-chunk or log"))
}

/// The name of a layout.
pub fn layout_name(layout: Layout) -> &'static str {
    let found = LAYOUTS.iter().find(|(_, named)| *named == layout);
    found.map(|(name, _)| name).expect("each layout has a name")
}

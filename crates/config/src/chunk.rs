//! The settings of the chunk store: the addresses for its clients, and how it stores chunks. The
//! store is served only if an address is configured.

use std::path::PathBuf;

use chunk::layout::Layout;

use super::address::ListenAddress;

/// The default limit of all connections to the chunk store. Each connection may use 64 KiB for
/// bytes that arrive; further bytes have limits of their own. A connection above the limit waits.
pub const CHUNK_CONNECTIONS_MAX_DEFAULT: usize = 1_024;

/// The default limit of connections from one IP address: a quarter of all. A client of Ozone has
/// one connection for each of its processes. A connection above the limit is closed.
pub const CHUNK_CONNECTIONS_PER_IP_MAX_DEFAULT: usize = 256;

/// The settings of the chunk store. At least one of the two addresses is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkConfig {
    /// The address for clients of Apache Ozone's datanodes.
    pub addr: Option<ListenAddress>,
    /// The address for such clients with TLS. The key store, the trust store and the rules are
    /// those of the other TLS ports.
    pub tls_addr: Option<ListenAddress>,
    /// Limit of all connections; 0 means that only the file descriptors limit them.
    pub connections_max: usize,
    /// Limit of connections from one IP address; 0 is no limit.
    pub connections_per_ip_max: usize,
    /// The store's folder; `None` for a folder below the data directory.
    pub dir: Option<PathBuf>,
    /// Bytes that the store may use on its disk; 0 is no limit.
    pub bytes_max: u64,
    /// Bytes that the store leaves free on its disk. The default is a twentieth of the disk, at
    /// most 1 GiB, for a folder below the data directory, and 0 for any other folder.
    pub free_bytes_min: Option<u64>,
    /// The layout for the chunks of new containers.
    pub layout: Layout,
    /// Whether a chunk is compared with its checksums before it is written
    /// (`hdds.datanode.chunk.data.validation.check`).
    pub verify_writes: bool,
}

/// The settings of the chunk store that the sources have given so far.
#[derive(Debug, Default)]
pub(super) struct ChunkDraft {
    /// The store is served if this address or `tls_addr` is set.
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
    pub fn is_served(&self) -> bool {
        self.addr.is_some() || self.tls_addr.is_some()
    }

    pub fn finish(self) -> Option<ChunkConfig> {
        if !self.is_served() {
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

/// Each layout with its name in options and files.
pub const LAYOUTS: [(&str, Layout); 3] =
    [("per-block", Layout::PerBlock), ("per-chunk", Layout::PerChunk), ("log", Layout::Log)];

/// The layout with this name.
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

//! The chunk store: where its clients connect, and how it keeps what they bring. It is served only
//! where it is asked for.

use chunk::layout::Layout;

use super::ListenAddress;

/// The chunk store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkConfig {
    /// Where clients of Apache Ozone's datanodes connect.
    pub addr: ListenAddress,
    /// Where the chunks of new containers go.
    pub layout: Layout,
    /// Whether data are compared with their checksums before they are written
    /// (`hdds.datanode.chunk.data.validation.check`).
    pub verify_writes: bool,
}

/// What the sources said so far.
#[derive(Debug, Default)]
pub(super) struct ChunkDraft {
    /// This alone says that the store is served.
    pub addr: Option<ListenAddress>,
    pub layout: Option<Layout>,
    pub verify_writes: bool,
}

impl ChunkDraft {
    pub fn finish(self) -> Option<ChunkConfig> {
        let layout = self.layout.unwrap_or_default();
        let verify_writes = self.verify_writes;
        self.addr.map(|addr| ChunkConfig { addr, layout, verify_writes })
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

//! The chunk store: containers of blocks of chunks, for bulk data.
//!
//! A file system of objects spreads its blocks over many disks, and writes each in pieces of a few
//! KiB to a few MiB. This store keeps the blocks of one disk. The questions are how many files that
//! makes, what a write costs, and what is left after a crash. Two of the layouts are Apache
//! Ozone's, name for name; the third keeps the data of all containers in one sequential log
//! ([`log`]), which for the other two holds only the metadata.
//!
//! The crate must never serve bytes that were not written as if they were, nor lose data that it
//! called durable, nor name tokio: threads call it, and it blocks them.
//!
//! Byte layouts: `docs/formats.md`, "Chunk store". The reasons: `docs/design/chunk-store.md`.

pub mod block;
mod chain;
pub mod checkpoint;
pub mod checksum;
pub mod container;
mod crc;
pub mod damage;
mod direct;
pub mod error;
mod extents;
pub mod identity;
pub mod layout;
pub mod limits;
mod live;
pub mod log;
mod open_files;
pub mod record;
mod rounds;
pub mod scan;
pub mod segment;
mod segment_reader;
pub mod store;
pub mod wire;

pub use error::ChunkError;
pub use storage::disk::{Disk, RealDisk};

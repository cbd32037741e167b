//! The chunk store: keeps bulk data as containers of blocks of chunks.
//!
//! An object store spreads the blocks of its files over many disks, and writes each block in chunks
//! of a few KiB to a few MiB. This store keeps the blocks of one disk. It has three layouts, which
//! differ in the number of files, in the cost of a write, and in what is left after a crash. Two of
//! the layouts are Apache Ozone's, with the same file names. The third keeps the data of all
//! containers in one sequential log ([`log`]); for the other two, that log holds only metadata.
//!
//! The crate must never serve bytes as data that nobody wrote, never lose data that it reported as
//! durable, and never name tokio: it blocks the threads that call it.
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

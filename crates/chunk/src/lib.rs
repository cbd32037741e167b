//! The chunk store: containers of blocks of chunks, for bulk data.
//!
//! Why it is there: a block is what a file system of objects puts on one disk of many, in pieces of
//! a few KiB to a few MiB. Its questions are how many files that makes, what a write costs, and
//! what is left after a crash. Two of the layouts are Apache Ozone's, name for name; the third
//! keeps the data of all containers in one sequential log ([`log`]), which for the others holds
//! only what is known about them.
//!
//! It must never serve what is not what was written as if it were, nor lose what it said was
//! durable, nor name tokio: it is called by threads, and blocks them.
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

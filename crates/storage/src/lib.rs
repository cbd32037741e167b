//! Bytes on disk: the write-ahead log, snapshots, and the data directory that holds them.
//!
//! The crate promises two things. Everything that a completed [`wal::Wal::commit`] covered survives
//! any crash; and data that are read back are either exactly what was written or an error that
//! names file and offset. It must never guess: only a torn tail of the last segment, beyond
//! everything known to be durable, is repaired.
//!
//! It must never name a clock, a source of chance, a thread or a file except in [`disk`], whose
//! [`disk::Disk`] trait is the one seam where the simulator puts a fake. Every failed write or sync
//! is final: the caller ends the process and another start recovers.
//!
//! Byte layouts: `docs/formats.md`.

pub mod codec;
pub mod datadir;
pub mod disk;
pub mod error;
pub mod fault_disk;
pub mod inspect;
pub mod limits;
pub mod record;
pub mod snapshot;
pub mod wal;

pub use error::StorageError;

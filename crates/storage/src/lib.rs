//! Bytes on disk: the write-ahead log, snapshots, and the data directory that holds them.
//!
//! The crate promises two things. Every record that [`wal::Wal::commit`] reported as committed
//! survives any crash. And data read back are either exactly the bytes that were written, or an
//! error that names the file and the offset. The crate never guesses: it repairs only a torn tail
//! of the last segment, behind everything known to be durable.
//!
//! It must never use a clock, randomness or a thread, and only [`disk`] touches files: its trait
//! [`disk::Disk`] is the one place where the simulator puts a fake. A failed write or sync is
//! final: the caller ends the process, and the next start recovers. Only a full disk and a lack of
//! file descriptors are not: the caller tries again later.
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

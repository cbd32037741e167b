//! Snapshots: when one is taken, what writes it, what it needs of the disk, and how a member that
//! lags gets another's.

pub mod fetch;
pub mod received;
pub mod room;
pub mod schedule;
pub mod writer;

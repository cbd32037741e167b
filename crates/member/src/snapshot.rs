//! Snapshots: when one is taken, what writes it, the room it needs on the disk, and how a member
//! that lags fetches another's.

pub mod fetch;
pub mod limits;
pub mod log_rule;
pub mod received;
pub mod room;
pub mod schedule;
pub mod writer;

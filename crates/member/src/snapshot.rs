//! Snapshots: when one is taken, what writes it, the disk space it needs, and how a member that has
//! fallen behind fetches one from another member.

pub mod fetch;
pub mod limits;
pub mod log_rule;
pub mod received;
pub mod room;
pub mod schedule;
pub mod writer;

//! One member's replica of one Raft group, without any input or output: a facade over raft-rs.
//!
//! The caller puts values in (ticks, proposals, bytes from peers, reports that a job is on disk)
//! and takes values out ([`Effects`]: entries to write, messages to send, entries to apply). Equal
//! calls give equal effects, byte for byte, so one seed can replay a whole cluster.
//!
//! This crate must never use a clock, an unseeded random number generator, a thread, a file, a
//! socket, an environment variable or a map of random order. No type of raft-rs and no byte of
//! protobuf leaves it. It hands an entry out as committed only when a quorum has the entry on disk;
//! each member reports what is on its disk ([`Persist`]).
//!
//! A caller drives it like this, each time its loop runs:
//!
//! 1. pass in what has arrived: `tick`, `step`, `propose`, `on_persisted`, `on_applied`, ...;
//! 2. while `has_effects` is true, take `effects` and carry them out.
//!
//! At start, the caller first carries out the effects of the restored log, applies its committed
//! entries, and then calls `campaign`, which makes a lone voter the leader at once.

mod codec;
mod effects;
mod jitter;
pub mod limits;
mod log;
mod members;
mod message;
mod pending;
mod reads;
mod replica;

pub use codec::MessageError;
pub use effects::{
    Effects, Entry, EntryKind, HardState, LeftOut, MembershipAt, Outgoing, Persist, PersistId,
    Position, ReadId, Restored, Role, RoleChange, SnapshotMeta, SnapshotWanted,
};
pub use members::{MemberChange, Membership, MembershipChange, Transition};
pub use message::{Peek, each_payload, peek};
pub use replica::{
    CampaignObstacle, Config, LogMemory, PeerStatus, Refused, Replica, ReplicaError, Status,
};

//! The Raft replica of one group, without any input or output: a facade over raft-rs.
//!
//! Values go in (ticks, proposals, bytes from peers, the news that a job is on disk) and values
//! come out ([`Effects`]): entries to write, messages to send, entries to apply. Equal calls give
//! equal effects, byte for byte, so one seed can replay a whole cluster.
//!
//! It must never name a clock, an unseeded random number generator, a thread, a file, a socket, an
//! environment variable or a map of random order; and no type of raft-rs, nor a byte of protobuf,
//! leaves it. Nothing is acknowledged before it is on disk at a quorum: see [`Persist`].
//!
//! How a caller drives it, in every round of its loop:
//!
//! 1. put in what has come: `tick`, `step`, `propose`, `on_persisted`, `on_applied`, ...;
//! 2. while `has_effects`, take `effects` and do them.
//!
//! At start it first does the effects of the restored log, applies them, and calls `campaign`,
//! which makes a lone voter the leader at once.

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

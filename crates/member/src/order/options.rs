//! The part of a member's configuration that Loop needs, and the state that it starts with.

use machine::{Digest, Level, ServerList, Servers};

use crate::membership::hello::Known;
use crate::snapshot::log_rule::SnapshotLog;
use crate::spaces::Spaces;

/// The part of a member's configuration that Loop needs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The use of the disk.
    pub disk: DiskOptions,
    /// The shortest timeout that a client of this server is given, in ms (`minSessionTimeout`).
    pub session_timeout_ms_min: u32,
    /// Length of a tick of the replica, in which it counts heartbeats and elections.
    pub raft_tick_ms: u64,
    /// How much of its log the replica keeps in memory, for members that lag.
    pub log_memory: replica::LogMemory,
    /// The number of this member's server in the configuration; 0 without an ensemble.
    pub server: u64,
    /// The list of servers that the configuration wants; empty if it takes any.
    pub servers: ServerList,
    /// The message versions and levels that this build knows: all released ones, or more.
    pub known: Known,
}

/// A member's use of its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskOptions {
    /// Commands after which a snapshot is taken (`snapCount`); with `u64::MAX`, commands do not
    /// count.
    pub snapshot_commands: u64,
    /// How much log makes a snapshot due (`snapSizeLimitInKb`).
    pub snapshot_log: SnapshotLog,
    /// How long the log's disk may take to make something durable before a leader hands over
    /// (`quorate.diskStallMs`), in ms: from 1 to
    /// [`DISK_STALL_MS_MAX`](crate::order::limits::DISK_STALL_MS_MAX). A disk that is often that
    /// slow may take longer.
    pub stall_ms: u64,
}

/// A restored or new member, as its data directory gave it.
pub struct Start {
    /// This member and this start of it.
    pub origin: machine::Origin,
    /// The seed of everything that the replica draws at random.
    pub seed: u64,
    /// The Raft state that the disk holds.
    pub restored: replica::Restored,
    /// The spaces of the restored machine, as the configuration wants them.
    pub spaces: Spaces,
    /// Bytes of log since the snapshot.
    pub log_bytes: u64,
    /// The most bytes that an image of the restored machine can have.
    pub image_bytes_max: u64,
    /// The digest of the restored machine.
    pub digest: Digest,
    /// The configuration.
    pub options: Options,
    /// The level of the restored machine.
    pub level: Level,
    /// The servers, and which of them each member is, in the restored machine.
    pub servers_restored: Servers,
}

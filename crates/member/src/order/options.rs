//! The inputs of Loop at a start: options from the member's configuration, and the restored state.

use machine::{Digest, Level, ServerList, Servers};

use crate::membership::hello::Known;
use crate::snapshot::log_rule::SnapshotLog;
use crate::spaces::Spaces;

/// The part of a member's configuration that Loop needs.
#[derive(Clone, Debug)]
pub struct Options {
    /// How the member uses its disk.
    pub disk: DiskOptions,
    /// The shortest session timeout that a client of this server can get, in ms
    /// (`minSessionTimeout`).
    pub session_timeout_ms_min: u32,
    /// Length of a tick of the replica, in ms. The replica counts heartbeats and election timeouts
    /// in ticks.
    pub raft_tick_ms: u64,
    /// How much of its log the replica keeps in memory, for followers that lag.
    pub log_memory: replica::LogMemory,
    /// The number of this member's server in the configuration; 0 if there is no ensemble.
    pub server: u64,
    /// The name of this member's server for etcd's clients, if `servers` has none; empty if it
    /// serves no such clients.
    pub name: String,
    /// The list of servers from the configuration; empty if any list is accepted.
    pub servers: ServerList,
    /// Whether the data directory has kept `servers`. They then count only while the state has no
    /// list: they may be those that a change led to which never came.
    pub servers_are_kept: bool,
    /// The message versions and levels that this build knows: all released levels, or more.
    pub known: Known,
}

/// How a member uses its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskOptions {
    /// The number of commands that makes a snapshot due (`snapCount`); with `u64::MAX`, commands
    /// make none due.
    pub snapshot_commands: u64,
    /// The amount of log that makes a snapshot due (`snapSizeLimitInKb`).
    pub snapshot_log: SnapshotLog,
    /// How long the log's disk may take to make something durable before a leader hands over
    /// leadership (`quorate.diskStallMs`), in ms: from 1 to
    /// [`DISK_STALL_MS_MAX`](crate::order::limits::DISK_STALL_MS_MAX). For a disk that is often
    /// slower the limit rises.
    pub stall_ms: u64,
}

/// A member at its start, new or restored from its data directory.
pub struct Start {
    /// The id of this member, and the number of this start.
    pub origin: machine::Origin,
    /// The seed for all random draws of the replica.
    pub seed: u64,
    /// The Raft state from the disk.
    pub restored: replica::Restored,
    /// The rooms of the spaces, filled from the restored machine and the configuration.
    pub spaces: Spaces,
    /// Bytes of the log behind the newest snapshot.
    pub log_bytes: u64,
    /// Upper bound on the bytes of an image of the restored machine.
    pub image_bytes_max: u64,
    /// The digest of the restored machine.
    pub digest: Digest,
    /// The configuration.
    pub options: Options,
    /// The level of the restored machine.
    pub level: Level,
    /// The servers from the restored machine, and the members that each of them is.
    pub servers_restored: Servers,
}

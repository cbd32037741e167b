//! Named bounds and intervals of the shell.

use std::time::Duration;

/// Length of a tick of the replica: heartbeats and elections count in these. A lone voter needs
/// none of them, so this is also how often an idle server wakes up.
pub const RAFT_TICK: Duration = Duration::from_millis(100);

/// How long one hold of the state's lock by Apply may last, in whole steps of
/// [`APPLY_STEP_COMMANDS`].
pub const APPLY_HOLD: Duration = Duration::from_micros(100);

/// Commands between two looks at the clock within a hold.
pub const APPLY_STEP_COMMANDS: usize = 32;

/// How long the disk must be idle until the mark that says "all of this is durable" is written.
pub const DISK_IDLE: Duration = Duration::from_millis(100);

/// How often a full disk is tried again.
pub const DISK_FULL_RETRY: Duration = Duration::from_millis(500);

/// Bytes of log that must still fit when the disk is full: what is under way and was accepted
/// before. Below this, writes are refused.
pub const ROOM_BYTES_MIN: u64 = 2 * 1024 * 1024;

/// Deliveries that wait for one connection runtime at which Apply waits, outside the lock, until
/// it has taken them. A runtime that is that late is starved of CPU, not blocked by a client.
pub const MAIL_MAX: usize = 4_096;

/// How long Apply waits before it looks again whether a runtime has caught up.
pub const MAIL_WAIT: Duration = Duration::from_millis(1);

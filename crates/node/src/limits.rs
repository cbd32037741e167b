//! Named bounds and intervals of the shell.

use std::time::Duration;

/// Length of a tick of the replica, in ms, in an ensemble of one. A lone voter needs neither heartbeats
/// nor elections, so this is how often an idle server wakes up.
pub const RAFT_TICK_ALONE_MS: u64 = 100;

/// The same in an ensemble of several: a leader is missed after 20 to 40 of these.
pub const RAFT_TICK_MS: u64 = 20;

/// How long one hold of the state's lock by Apply may last, in whole steps of
/// [`APPLY_STEP_COMMANDS`].
pub const APPLY_HOLD: Duration = Duration::from_micros(100);

/// Commands between two looks at the clock within a hold.
pub const APPLY_STEP_COMMANDS: usize = 32;

/// Deliveries that wait for one connection runtime at which Apply waits, outside the lock, until
/// it has taken them. A runtime that is that late is starved of CPU, not blocked by a client.
pub const MAIL_MAX: usize = 4_096;

/// How long Apply waits before it looks again whether a runtime has caught up.
pub const MAIL_WAIT: Duration = Duration::from_millis(1);

/// The longest rest after a piece of a snapshot was written.
pub const SNAPSHOT_REST_MAX: Duration = Duration::from_secs(1);

/// The time between two lines in the log about exceeded quotas: a client may exceed one with each
/// request (ZooKeeper's `RateLogger` has the same reason).
pub const QUOTA_WARNING_INTERVAL: Duration = Duration::from_secs(1);

/// Deliveries that lie in the mail of a connection runtime that is not curious before it is woken.
pub const QUIET_MAIL_MAX: usize = 256;

const _: () = assert!(QUIET_MAIL_MAX < MAIL_MAX);

/// Turns of Loop that a thread takes at once for others. After these Loop's own thread goes on.
pub const LOOP_TURNS_MAX: usize = 4;

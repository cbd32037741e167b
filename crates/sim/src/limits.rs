//! Named bounds of a simulated run. Times are virtual unless they say otherwise.

/// Length of a tick of the replica, as in the shell that ships.
pub const RAFT_TICK_US: u64 = 100_000;

/// How often a connection runtime looks at the clock, as in the shell that ships.
pub const FRONT_TICK_US: u64 = 100_000;

/// Bytes read from a socket at once, as in the shell that ships.
pub const READ_BYTES: u64 = 16 * 1024;

/// After the faults have stopped, a started server serves clients within this time.
pub const READY_US_MAX: u64 = 30_000_000;

/// After the faults have stopped, all clients have all answers within this time.
pub const FINISH_US_MAX: u64 = 600_000_000;

/// Events of one run. A run that needs more goes round in circles.
pub const EVENTS_MAX: u64 = 20_000_000;

/// Disk operations of the fixed script at which a crash is tried, at most.
pub const SCRIPT_OPS_MAX: u64 = 5_000;

/// How long a server may take to hear a client whose bytes have arrived, in its own waking time:
/// a report interval and a look at the clock on both sides.
pub const HEARING_US_MAX: u64 = 500_000;

/// How much of a pause of the process may count as silence of its clients
/// (`member::limits::LEASE_ADVANCE_MS_MAX`).
pub const PAUSE_COUNTS_US: u64 = 200_000;

/// The longest that one sync takes, however slow the disk is.
pub const SYNC_US_MAX: u64 = 3_000_000;

//! Named bounds of the shell.

use std::time::Duration;

/// How many lines the file of the history keeps.
pub const HISTORY_LINES_MAX: usize = 1_000;

/// How many commands `history` shows before itself (`ZooKeeperMain`, 3.9.5: ten).
pub const HISTORY_SHOWN: usize = 10;

/// How many commands of one shell `redo` can repeat; the oldest are dropped first.
pub const COMMANDS_KEPT_MAX: usize = 10_000;

/// How many events are held: for `watch` to print them, for the end of a JSON value, or for the
/// thread that prints above the edited line. Further ones are only counted.
pub const EVENTS_HELD_MAX: usize = 1_024;

/// How often `watch` checks that the session has not expired.
pub const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Output is written once this many bytes are gathered.
pub const OUTPUT_BYTES: usize = 16 * 1024;

/// The most znodes whose children a walk over a tree asks for in one round trip. The number grows
/// to this while the lists of children are short.
pub const WALK_AHEAD_MAX: usize = 64;

/// If the lists of one round trip have more names than this, the next round trip asks for one znode
/// only.
pub const WALK_NAMES_MAX: usize = 10_000;

/// How many deletes `deleteall` sends in one transaction (`DeleteAllCommand`, 3.9.5).
pub const DELETE_BATCH: usize = 1_000;

/// Bytes of paths after which a transaction of `deleteall` is complete, so that it stays below
/// `jute.maxbuffer`.
pub const DELETE_BATCH_BYTES_MAX: usize = 512 * 1024;

/// Completion offers no children of a znode that has more than this.
pub const COMPLETION_CHILDREN_MAX: i32 = 10_000;

/// How long completion waits for each answer of a server.
pub const COMPLETION_LIMIT: Duration = Duration::from_millis(500);

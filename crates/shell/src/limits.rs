//! Named bounds of the shell.

use std::time::Duration;

/// Lines of the history that are kept in its file.
pub const HISTORY_LINES_MAX: usize = 1_000;

/// Commands that `history` shows before itself (`ZooKeeperMain`, 3.9.5: ten).
pub const HISTORY_SHOWN: usize = 10;

/// Commands of one session that `redo` can name; the oldest are dropped first.
pub const COMMANDS_KEPT_MAX: usize = 10_000;

/// Events that wait for `watch` to print them, or for the end of a JSON value. Further ones are
/// only counted.
pub const EVENTS_HELD_MAX: usize = 1_024;

/// The interval at which `watch` checks the session.
pub const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// Bytes of output that are written together.
pub const OUTPUT_BYTES: usize = 16 * 1024;

/// Znodes whose children are asked for at once in a walk over a tree, as long as they have few.
pub const WALK_AHEAD_MAX: usize = 64;

/// Names in the answers of one such round, above which the next round asks for one znode only.
pub const WALK_NAMES_MAX: usize = 10_000;

/// Deletes that `deleteall` sends in one transaction (`DeleteAllCommand`, 3.9.5).
pub const DELETE_BATCH: usize = 1_000;

/// Bytes of paths in one such transaction, so that it stays below `jute.maxbuffer`.
pub const DELETE_BATCH_BYTES_MAX: usize = 512 * 1024;

/// Children of a znode up to which completion offers them.
pub const COMPLETION_CHILDREN_MAX: i32 = 10_000;

/// How long completion waits for a server.
pub const COMPLETION_LIMIT: Duration = Duration::from_millis(500);

//! The shell that runs a member for real: threads, timers, the data directory and the lock around
//! the state.
//!
//! It moves messages between the member's step functions and holds no condition on a term, a
//! session, an ordinal or a zxid: whatever decides anything is in `member`, where the simulator
//! runs it too.
//!
//! Threads: *loop* (order), *disk* (the log), *apply* (the machine), *snapshot* (image files), and
//! *spare* (log segments made ahead). A panic in one of them must end the
//! process: the program installs a hook that does.

pub mod limits;
mod queue;
mod start;
mod threads;

pub use queue::{Inbox, Mail};
pub use start::{Node, NodeConfig, StartError, start};
pub use threads::{FrontHandle, wall_ms};

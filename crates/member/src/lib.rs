//! What a member does, as three pure step functions that meet only in messages and in `&Machine`.
//!
//! - [`Loop`] orders: it packs what clients hand over into entries, proposes them, hands committed
//!   ones on, keeps the sessions' leases and says when to take a snapshot.
//! - [`Apply`] runs committed commands on the machine and produces answers and changes.
//! - [`Front`], one per connection runtime, holds connections, the order within each session, and
//!   the watches.
//!
//! Two more write what these decide: [`LogWriter`] the log, [`ImageWriter`] the snapshots, over any
//! `storage::disk::Disk`.
//!
//! Before there is a log, [`Bootstrap`] decides how the directory of an ensemble's member is born.
//!
//! None of them knows a socket, a thread or a clock: `node` drives them with real ones and
//! `sim` with virtual ones. Every decision is here, so the simulator runs the code that ships.

pub mod apply;
pub mod bootstrap;
pub mod catch_up;
pub mod container_znodes;
mod digests;
pub mod expiry;
mod forward;
pub mod front;
mod hearing;
pub mod hello;
pub mod image_writer;
pub mod inspect;
mod joining;
mod lending;
pub mod limits;
pub mod log_writer;
pub mod main_loop;
pub mod message;
pub mod peer;
mod persisting;
pub mod received;
pub mod recovery;
mod replay;
pub mod reply_room;
pub mod snapshot_room;
pub mod snapshots;
pub mod summary;
pub mod throttle;

pub use apply::Apply;
pub use bootstrap::Bootstrap;
pub use digests::Difference;
pub use front::Front;
pub use hello::Hello;
pub use image_writer::ImageWriter;
pub use log_writer::LogWriter;
pub use main_loop::{Condemned, Fetching, Leadership, Loop, LoopCounts, LoopHeld};
pub use replica::{PeerStatus, Role, Status};
pub use reply_room::ReplyRoom;

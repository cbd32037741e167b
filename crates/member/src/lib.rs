//! A member's work, as three pure step functions that meet only in messages and in `&Machine`.
//!
//! - [`Loop`] orders: it packs what clients hand over into entries, proposes them, hands committed
//!   ones on, keeps the sessions' leases and says when to take a snapshot.
//! - [`Apply`] runs committed commands on the machine and produces answers and changes.
//! - [`ZkFront`], one per connection runtime of ZooKeeper's clients, holds connections, the order
//!   within each session, and the watches. [`EtcdFront`] holds the calls of etcd's clients.
//!
//! Two more write what these decide: [`LogWriter`] the log, [`SnapshotWriter`] the snapshots, over
//! any `storage::disk::Disk`.
//!
//! Before there is a log, [`Bootstrap`] decides how the directory of an ensemble's member is born.
//!
//! None of them knows a socket, a thread or a clock: `node` drives them with real ones and
//! `sim` with virtual ones. Every decision is here, so the simulator runs the code that ships.

pub mod apply;
mod caller;
mod commands;
pub mod fronts;
pub mod identities;
pub mod inspect;
pub mod leader;
pub mod lease;
pub mod limits;
pub mod local_read;
pub mod log_writer;
pub mod membership;
pub mod message;
pub mod order;
pub mod peer;
pub mod recovery;
mod replay;
pub mod reply_room;
pub mod snapshot;
pub mod spaces;
pub mod summary;
pub mod throttle;
mod watch_interest;

pub use apply::Apply;
pub use fronts::etcd::EtcdFront;
pub use fronts::etcd::token_times::TokenTimes;
pub use fronts::zk::ZkFront;
pub use leader::digests::Difference;
pub use log_writer::LogWriter;
pub use membership::bootstrap::Bootstrap;
pub use membership::hello::Hello;
pub use membership::levels::RaiseRefused;
pub use membership::servers::LinkedServer;
pub use order::{BadPeer, Condemned, Fetching, Leadership, Loop, LoopCounts, LoopHeld, LoopOutput};
pub use replica::{PeerStatus, Role, Status};
pub use reply_room::ReplyRoom;
pub use snapshot::writer::SnapshotWriter;
pub use spaces::{CommandCounts, EtcdV2Counts};
pub use watch_interest::WatchInterest;

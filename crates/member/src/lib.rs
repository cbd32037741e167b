//! A member is one replica of the state. It consists of three pure step functions: each takes an
//! input and returns the actions to take. They share only messages and the replicated state, the
//! `Machine`.
//!
//! - [`Loop`] decides the order: it packs clients' commands into log entries, proposes them to
//!   Raft, passes committed entries to Apply, keeps the deadlines of sessions and leases, and
//!   decides when to take a snapshot.
//! - [`Apply`] runs committed commands on the machine and produces answers and changes.
//! - [`ZkFront`] holds connections of ZooKeeper's clients, the order within each session, and the
//!   watches. [`EtcdFront`] holds the calls of etcd's clients. Each connection runtime (a thread
//!   that serves a share of the connections) has one Front of its own.
//!
//! Two more types do the work on the disk that Loop asks for, with any `storage::disk::Disk`:
//! [`LogWriter`] writes the log, [`SnapshotWriter`] the snapshots. Before there is a log,
//! [`Bootstrap`] decides the first voters of an ensemble.
//!
//! None of them knows a socket, a thread or a clock: `node` drives them with real ones and `sim`
//! with virtual ones. Every decision is here, so the simulator runs the code that ships.

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
pub use membership::joining::BrokenRule;
pub use membership::levels::RaiseRefused;
pub use membership::servers::LinkedServer;
pub use order::{BadPeer, Condemned, Fetching, Leadership, Loop, LoopCounts, LoopHeld, LoopOutput};
pub use replica::{PeerStatus, Role, Status};
pub use reply_room::ReplyRoom;
pub use snapshot::writer::SnapshotWriter;
pub use spaces::{CommandCounts, EtcdV2Counts};
pub use watch_interest::WatchInterest;

//! The shell that runs a member for real: it owns the threads, timers, the data directory and the
//! lock around the state.
//!
//! It moves messages between the member's step functions and has no condition on a term, a session,
//! an ordinal or a zxid. Every decision is made in `member`, which the simulator runs, too.
//!
//! Threads: *loop* (time), *disk* (the log), *apply* (the state), *snapshot* (snapshot files) and
//! *spare* (log segments made in advance). A member of an ensemble also has *peers* (the links to
//! other members) and *beats* (the signs of life on these links). The program adds the connection
//! runtimes. Loop and Apply run on any thread that has input for them, so that a lone write wakes
//! only a connection runtime, the disk thread, and the runtime again. A panic anywhere must end the
//! process: the program installs a hook that does that.

mod ack_latency;
mod begin_again;
mod cluster;
mod discovery;
mod images;
pub mod limits;
mod listed;
mod metrics;
mod peer_address;
mod peer_frame;
mod peer_hello;
mod peer_key;
mod peer_sockets;
mod peer_traffic;
mod queue;
mod start;
mod start_board;
mod threads;

pub use cluster::ClusterConfig;
pub use discovery::{DiscoverError, Discovery, discover};
pub use images::{NotInstalled, TakenSnapshot, Upload};
pub use listed::ListNews;
pub use metrics::{
    MonitorHandle, NodeMetrics, ReplicaFacts, Startup, TimeBuckets, WRITE_BOUNDS_US,
};
pub use peer_address::PeerAddress;
pub use peer_hello::{Answer, AuthKind, Channel, Discovered, Handshake, Offer, Retired};
pub use peer_sockets::{
    Link, LinkStatus, NamesHost, PeerAuth, PeerConfig, PeerHandle, PeerInput, PeerSecret,
    PeerServer, PeerSockets, PeerTls,
};
pub use peer_traffic::PeerTraffic;
pub use queue::{Inbox, Mail};
pub use start::{Node, NodeConfig, StartError, start};
pub use start_board::{StartBoard, StartWait};
pub use threads::{ChangeListener, FrontHandle, wall_ms};

//! The shell that runs a member for real: threads, timers, the data directory and the lock around
//! the state.
//!
//! It moves messages between the member's step functions and holds no condition on a term, a
//! session, an ordinal or a zxid: every decision is in `member`, where the simulator runs it, too.
//!
//! Threads: *loop* (time), *disk* (the log), *apply* (the machine), *snapshot* (image files),
//! *spare* (log segments made ahead), and in an ensemble *peers* (the links to the other members).
//! Loop and Apply run on any thread that has something for them, so that a lone write wakes a
//! connection runtime, the thread of the disk, and the runtime again. A panic anywhere must end the
//! process: the program installs a hook that does.

mod ack_latency;
mod cluster;
mod images;
pub mod limits;
mod metrics;
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
pub use images::{NotInstalled, TakenSnapshot, Upload};
pub use metrics::{
    MonitorHandle, NodeMetrics, ReplicaFacts, Startup, TimeBuckets, WRITE_BOUNDS_US,
};
pub use peer_hello::Channel;
pub use peer_sockets::{
    Link, LinkStatus, NamesHost, PeerAddress, PeerAuth, PeerConfig, PeerHandle, PeerInput,
    PeerSecret, PeerServer, PeerSockets, PeerTls,
};
pub use peer_traffic::PeerTraffic;
pub use queue::{Inbox, Mail};
pub use start::{Node, NodeConfig, StartError, start};
pub use start_board::{StartBoard, StartWait};
pub use threads::{ChangeListener, FrontHandle, wall_ms};

//! Workloads of ZooKeeper's clients. The modules `client`, `tree` and `writers` hold the session,
//! the znodes and the writing sessions that they share.

pub mod caller;
pub mod client;
pub mod failover;
pub mod fill;
pub mod join;
pub mod latencies;
pub mod maximum;
pub mod new_server;
pub mod notify;
pub mod own_servers;
pub mod pubsub;
pub mod reconfig;
pub mod restart;
pub mod snapshot_gap;
pub mod snapshots;
pub mod tree;
pub mod watch;
pub mod writers;

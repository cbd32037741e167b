//! Workloads of ZooKeeper's clients, and the client, the trees and the writers that they share.

pub mod client;
pub mod failover;
pub mod fill;
pub mod join;
pub mod latencies;
pub mod notify;
pub mod pubsub;
pub mod restart;
pub mod snapshot_gap;
pub mod snapshots;
pub mod tree;
pub mod watch;
pub mod writers;

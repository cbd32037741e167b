//! The workloads, grouped by the face (protocol) that they load.

pub mod both;
pub mod chunk;
pub mod etcd;
pub mod zk;

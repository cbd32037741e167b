//! The workloads, by the face that they load.

pub mod both;
pub mod chunk;
pub mod etcd;
pub mod zk;

//! The Fronts: every decision about the clients of a protocol. Each connection runtime has one.

pub mod etcd;
pub mod zk;

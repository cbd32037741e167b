//! The Fronts make every decision about the clients of a protocol. Each connection runtime has one
//! Front.

pub mod etcd;
pub mod zk;

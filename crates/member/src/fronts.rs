//! The Fronts, one for each connection runtime. A Front makes every decision about the clients of
//! its protocol.

pub mod etcd;
pub mod zk;

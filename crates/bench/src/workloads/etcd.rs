//! Workloads that load the etcd protocols. The modules `client` and `grpc` hold the client that the
//! workloads of etcd v3 share.

pub mod client;
pub mod grpc;
pub mod kube;
pub mod member_add;
pub mod performance;
pub mod v2;
